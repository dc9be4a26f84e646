//! Remoted APIs: calls, buffers and transfers of the API gdma through the host, beside the library
//! itself.

use super::published::PublishedRemoting;
use super::{Machine, Mode, RemotingExperiment, Settings};
use crate::method::Compared;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemotingReport {
    /// Where it was measured.
    pub machine: Machine,
    pub settings: Settings,
    /// What was published.
    pub published: PublishedRemoting,
    /// The rows, experiment by experiment.
    pub rows: Vec<RemotingRow>,
}

/// What the ratio of a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemotingRatio {
    /// The time over the other one's.
    Time,
    /// The rate over the other one's.
    Rate,
    /// What was added to the native time, over the other one's time.
    Added,
}

/// One figure beside what it is compared with; medians of undisturbed slices. What does not
/// apply is null. All is measured by the processor's counter. The engine is simulated: its
/// own time is that of a processor of this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemotingRow {
    pub experiment: RemotingExperiment,
    /// The call, or how the program learns that a transfer has ended.
    pub case: String,
    /// Whether the simulated engine's time is in it.
    pub simulated: bool,
    /// Bytes of a buffer or a transfer.
    pub bytes: Option<u64>,
    /// How caller and service wait.
    pub wait: Mode,
    /// The remoted time, ns.
    pub p50_ns: Option<f64>,
    /// Its p99, ns.
    pub p99_ns: Option<f64>,
    /// The p50 of a slice in the turn that was disturbed least: that with the least times, ns.
    pub least_ns: Option<f64>,
    /// The most p50 of a slice, ns.
    pub most_ns: Option<f64>,
    /// What it is compared with: "native", "null call" or "bare doorbell".
    pub base: String,
    pub base_p50_ns: Option<f64>,
    pub base_p99_ns: Option<f64>,
    /// Of the same turn, ns.
    pub base_least_ns: Option<f64>,
    pub ratio_of: RemotingRatio,
    /// In the slices beside each other, at the median of undisturbed pairs; null if more than half
    /// of the pairs were disturbed.
    pub ratio: Option<f64>,
    /// The ends of the interval that holds it in 95 of 100 runs; null without 6 undisturbed pairs.
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    /// The same of that one turn; it has no interval and settles nothing.
    pub least_ratio: Option<f64>,
    /// Pairs of slices, and those of them that were dropped because the kernel counted a disturbance.
    pub pairs: u32,
    pub dropped: u32,
    /// What is added to the native time, ns: the median of the slices' differences.
    pub added_ns: Option<f64>,
    /// Bytes a second, or transfers a second where they are of 1 byte.
    pub per_s: Option<f64>,
    pub base_per_s: Option<f64>,
    /// How often a call went to the host, by the library's own count.
    pub crossings: Option<f64>,
}

impl RemotingRow {
    /// A row without figures.
    pub fn new(experiment: RemotingExperiment, case: &str, wait: Mode, base: &str) -> Self {
        RemotingRow {
            experiment,
            case: case.to_owned(),
            simulated: false,
            bytes: None,
            wait,
            p50_ns: None,
            p99_ns: None,
            least_ns: None,
            most_ns: None,
            base: base.to_owned(),
            base_p50_ns: None,
            base_p99_ns: None,
            base_least_ns: None,
            ratio_of: RemotingRatio::Time,
            ratio: None,
            ratio_low: None,
            ratio_high: None,
            least_ratio: None,
            pairs: 0,
            dropped: 0,
            added_ns: None,
            per_s: None,
            base_per_s: None,
            crossings: None,
        }
    }

    /// With a comparison.
    #[must_use]
    pub fn compared_by(mut self, of: RemotingRatio, compared: Compared) -> Self {
        self.ratio_of = of;
        (self.ratio, self.ratio_low, self.ratio_high) =
            (compared.ratio, compared.low, compared.high);
        (self.pairs, self.dropped) = (compared.pairs, compared.dropped);
        self.least_ratio = self.least_ns.zip(self.base_least_ns).map(|(least, base)| match of {
            RemotingRatio::Rate => base / least,
            RemotingRatio::Time | RemotingRatio::Added => least / base,
        });
        self
    }

    /// The comparison as it was.
    pub fn compared(&self) -> Compared {
        let (ratio, low, high) = (self.ratio, self.ratio_low, self.ratio_high);
        Compared { ratio, low, high, pairs: self.pairs, dropped: self.dropped }
    }
}

impl RemotingReport {
    /// A report without rows.
    pub fn new(machine: Machine, settings: Settings) -> Self {
        let published = PublishedRemoting::default();
        RemotingReport { machine, settings, published, rows: Vec::new() }
    }

    /// The rows of an experiment.
    pub fn of(&self, experiment: RemotingExperiment) -> impl Iterator<Item = &RemotingRow> {
        self.rows.iter().filter(move |r| r.experiment == experiment)
    }
}
