//! How long a VM's packets take by each path, by its agent's word.
//!
//! Nobody but the VM can measure that. What it says moves only its own place in the contest
//! `gain`, and is worth at most [`LATENCY_US_MAX`].

use crate::limits::LATENCY_US_MAX;
use vfun_bond::Path;

/// One path: what was said since the last decision, and last of all.
#[derive(Clone, Copy, Debug, Default)]
struct OnePath {
    sum_us: u64,
    reports: u64,
    last_us: Option<u32>,
}

impl OnePath {
    fn add(&mut self, us: u32) {
        let us = us.min(LATENCY_US_MAX);
        self.sum_us = self.sum_us.saturating_add(us.into());
        self.reports += 1;
        self.last_us = Some(us);
    }

    /// Mean since the last decision, ns.
    fn take(&mut self) -> Option<f64> {
        let (sum, n) = (std::mem::take(&mut self.sum_us), std::mem::take(&mut self.reports));
        (n > 0).then(|| sum as f64 * 1000.0 / n as f64)
    }
}

/// Both paths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probes {
    paravirtual: OnePath,
    vf: OnePath,
}

impl Probes {
    /// A report came.
    pub(crate) fn add(&mut self, path: Path, us: u32) {
        match path {
            Path::Paravirtual => self.paravirtual.add(us),
            Path::Vf => self.vf.add(us),
        }
    }

    /// Means since the last decision, ns: of the paravirtual path, and of the VF.
    pub(crate) fn take(&mut self) -> (Option<f64>, Option<f64>) {
        (self.paravirtual.take(), self.vf.take())
    }

    /// What was said last, µs: of the paravirtual path, and of the VF.
    pub(crate) fn last(&self) -> (Option<u32>, Option<u32>) {
        (self.paravirtual.last_us, self.vf.last_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_of_one_interval_and_one_path() {
        let mut probes = Probes::default();
        probes.add(Path::Paravirtual, 100);
        probes.add(Path::Paravirtual, 300);
        probes.add(Path::Vf, 50);
        assert_eq!(probes.take(), (Some(200_000.0), Some(50_000.0)));
        assert_eq!(probes.take(), (None, None), "nothing new was said");
        assert_eq!(probes.last(), (Some(300), Some(50)));
    }

    #[test]
    fn a_lie_is_worth_no_more_than_the_limit() {
        let mut probes = Probes::default();
        (0..1000).for_each(|_| probes.add(Path::Paravirtual, u32::MAX));
        assert_eq!(probes.take().0, Some(f64::from(LATENCY_US_MAX) * 1000.0));
    }
}
