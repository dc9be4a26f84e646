//! Leases: what a VF gains, what a switch costs, and who gets one.

use super::published::PublishedLeases;
use super::{Experiment, Machine, Settings, Source, stats};
use crate::leases::{Crowd, Experience, Trouble};
use serde::{Deserialize, Serialize};
use vfun_leases::Policy;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeasesReport {
    /// Where it was measured.
    pub machine: Machine,
    pub settings: Settings,
    /// What was published beside.
    pub published: PublishedLeases,
    /// The rows, experiment by experiment.
    pub rows: Vec<LeasesRow>,
    /// Calls of one client over time, while its lease is given and taken.
    pub timeline: Timeline,
    /// What was both run and simulated, side by side.
    pub agreement: Vec<Agreement>,
}

/// One figure's worth; what an experiment does not have is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeasesRow {
    pub experiment: Experiment,
    /// Whether it was run, or simulated.
    pub source: Source,
    /// The policy, by name.
    pub policy: Option<String>,
    /// The group of clients, or the way of a switch.
    pub group: Option<String>,
    /// Clients of all groups together.
    pub clients: Option<u32>,
    /// Clients of the group.
    pub members: Option<u32>,
    /// VFs of the device.
    pub vfs: Option<u16>,
    /// Calls a second of each client; null where each call follows the one before.
    pub per_s: Option<f64>,
    /// Bytes of a call's data.
    pub bytes: Option<u64>,
    /// Calls in the seconds that count.
    pub calls: u64,
    /// Of all calls, with an error; null in simulations, as the next three.
    pub failed: Option<u64>,
    /// With a wrong result.
    pub wrong: Option<u64>,
    /// Calls that got no answer before the run ended.
    pub lost: Option<u64>,
    /// Run more than once.
    pub repeated: Option<u64>,
    /// How often a grant moved between a VF and software.
    pub switches: Option<u64>,
    /// 5 % of the calls took no longer.
    pub p5_ns: Option<f64>,
    /// 25 % of the calls took at most this, ns.
    pub p25_ns: Option<f64>,
    /// 50 % of the calls took at most this, ns.
    pub p50_ns: Option<f64>,
    /// 75 % of the calls took at most this, ns.
    pub p75_ns: Option<f64>,
    /// 95 % of the calls took at most this, ns.
    pub p95_ns: Option<f64>,
    /// 99 % of the calls took at most this, ns.
    pub p99_ns: Option<f64>,
    /// What a call took in the mean, ns.
    pub mean_ns: Option<f64>,
    /// The part of the time that the group's clients were on a VF, at their mean.
    pub vf_share: Option<f64>,
    /// The longest time that a client of the group was without one, seconds.
    pub without_s: Option<f64>,
    /// Half of the calls in software took no longer.
    pub soft_ns: Option<f64>,
    /// Half of the calls on a VF.
    pub hard_ns: Option<f64>,
    /// (soft − hard) / soft, of these; the median of the repeats.
    pub boost: Option<f64>,
    /// What a call that crosses a switch takes beyond the median of those right behind it:
    /// half no more.
    pub added_p50_ns: Option<f64>,
    /// 99 % of the switches added at most this to a call, ns.
    pub added_p99_ns: Option<f64>,
    /// The most that a switch added to a call, ns.
    pub added_max_ns: Option<f64>,
    /// The same of a call that crosses nothing: 99 of 100 take no more beyond their median.
    pub ordinary_p99_ns: Option<f64>,
}

/// What calls took over the time of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// One for each interval, ascending in time.
    pub points: Vec<Point>,
    /// When a call came from another place than the one before, seconds.
    pub switches_s: Vec<f64>,
}

/// The calls of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Its middle, seconds since the beginning.
    pub at_s: f64,
    /// Half of the calls took no longer.
    pub p50_ns: f64,
    /// The longest call of the interval, ns.
    pub max_ns: f64,
    /// Whether the last one ran on a VF.
    pub on_vf: bool,
}

/// One group, run and simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    pub experiment: Experiment,
    /// The policy, by name.
    pub policy: String,
    /// The group's name.
    pub group: String,
    /// Its part of VF time, run.
    pub real_share: f64,
    /// The share of VFs that it gets in the simulation, 0 to 1.
    pub simulated_share: f64,
    /// Half of the calls took no longer, run.
    pub real_p50_ns: f64,
    /// The median call in the simulation, ns.
    pub simulated_p50_ns: f64,
}

impl Agreement {
    /// How far the simulated median is from the real one, as a part of the real one.
    pub fn p50_off(&self) -> f64 {
        if self.real_p50_ns > 0.0 { self.simulated_p50_ns / self.real_p50_ns - 1.0 } else { 0.0 }
    }

    /// The difference of the shares of VF time.
    pub fn share_off(&self) -> f64 {
        self.simulated_share - self.real_share
    }
}

impl LeasesRow {
    /// A row without figures.
    pub fn new(experiment: Experiment, source: Source) -> Self {
        LeasesRow {
            experiment,
            source,
            policy: None,
            group: None,
            clients: None,
            members: None,
            vfs: None,
            per_s: None,
            bytes: None,
            calls: 0,
            failed: None,
            wrong: None,
            lost: None,
            repeated: None,
            switches: None,
            p5_ns: None,
            p25_ns: None,
            p50_ns: None,
            p75_ns: None,
            p95_ns: None,
            p99_ns: None,
            mean_ns: None,
            vf_share: None,
            without_s: None,
            soft_ns: None,
            hard_ns: None,
            boost: None,
            added_p50_ns: None,
            added_p99_ns: None,
            added_max_ns: None,
            ordinary_p99_ns: None,
        }
    }

    /// With the calls' times; they are sorted.
    #[must_use]
    pub fn with_times(mut self, times: &mut [u64]) -> Self {
        times.sort_unstable();
        let at = |thousandths| stats::percentile(times, thousandths).map(|ns| ns as f64);
        self.calls = times.len() as u64;
        let sum: f64 = times.iter().map(|t| *t as f64).sum();
        self.mean_ns = (!times.is_empty()).then(|| sum / times.len() as f64);
        (self.p5_ns, self.p25_ns, self.p50_ns) = (at(50), at(250), at(500));
        (self.p75_ns, self.p95_ns, self.p99_ns) = (at(750), at(950), at(990));
        self
    }

    /// With what went wrong.
    #[must_use]
    pub fn with_trouble(mut self, t: Trouble) -> Self {
        (self.failed, self.wrong) = (Some(t.failed), Some(t.wrong));
        (self.lost, self.repeated) = (Some(t.lost), Some(t.repeated));
        self
    }

    /// A row for each group of a crowd; `runs` are repeats of the same.
    pub fn of_crowd(
        experiment: Experiment,
        source: Source,
        policy: Policy,
        crowd: &Crowd,
        runs: &[Vec<Experience>],
    ) -> Vec<Self> {
        let rows = crowd.groups.iter().enumerate().map(|(i, group)| {
            let of: Vec<_> = runs.iter().flatten().filter(|e| e.group == i).collect();
            let mut times: Vec<u64> = of.iter().flat_map(|e| &e.times_ns).copied().collect();
            let mut row = LeasesRow::new(experiment, source).with_times(&mut times);
            if source == Source::Real {
                let mut trouble = Trouble::default();
                of.iter().for_each(|e| trouble += e.trouble);
                row = row.with_trouble(trouble);
            }
            let mean = |f: fn(&Experience) -> f64| {
                stats::mean(&of.iter().map(|e| f(e)).collect::<Vec<_>>())
            };
            LeasesRow {
                policy: Some(policy.name().to_owned()),
                group: Some(group.name.clone()),
                clients: Some(crowd.clients()),
                members: Some(group.clients),
                vfs: Some(crowd.vfs),
                per_s: Some(group.per_s),
                switches: Some(of.iter().map(|e| e.switches).sum()),
                vf_share: mean(|e| e.vf_s).map(|s| s / crowd.seconds),
                without_s: of.iter().map(|e| e.without_s).reduce(f64::max),
                ..row
            }
        });
        rows.collect()
    }
}

impl LeasesReport {
    /// A report without rows.
    pub fn new(machine: Machine, settings: Settings) -> Self {
        let (rows, agreement) = (Vec::new(), Vec::new());
        let published = PublishedLeases::default();
        LeasesReport {
            machine,
            settings,
            published,
            rows,
            timeline: Timeline::default(),
            agreement,
        }
    }

    /// Puts side by side what was both run and simulated with as many clients.
    pub fn finish(&mut self) {
        let of = |source| self.rows.iter().filter(move |r| r.source == source);
        let pairs = of(Source::Real).filter_map(|real| {
            let same = |r: &&LeasesRow| {
                (r.experiment, &r.policy, &r.group, r.clients)
                    == (real.experiment, &real.policy, &real.group, real.clients)
            };
            let simulated = of(Source::Simulated).find(same)?;
            Some(Agreement {
                experiment: real.experiment,
                policy: real.policy.clone()?,
                group: real.group.clone()?,
                real_share: real.vf_share?,
                simulated_share: simulated.vf_share?,
                real_p50_ns: real.p50_ns?,
                simulated_p50_ns: simulated.p50_ns?,
            })
        });
        self.agreement = pairs.collect();
    }

    /// The rows of an experiment.
    pub fn of(&self, experiment: Experiment) -> impl Iterator<Item = &LeasesRow> {
        self.rows.iter().filter(move |r| r.experiment == experiment)
    }

    /// The crowds of an experiment: run or simulated, and how many clients, in order.
    pub fn crowds(&self, experiment: Experiment) -> Vec<(Source, u32)> {
        let mut crowds = Vec::new();
        for crowd in self.of(experiment).filter_map(|r| Some((r.source, r.clients?))) {
            if !crowds.contains(&crowd) {
                crowds.push(crowd);
            }
        }
        crowds
    }

    /// Time that all clients of a crowd spend in calls in a second, by policy, seconds.
    pub fn in_calls(
        &self,
        experiment: Experiment,
        source: Source,
        clients: u32,
    ) -> Vec<(&str, f64)> {
        let mut sums: Vec<(&str, f64)> = Vec::new();
        let of = |r: &&LeasesRow| r.source == source && r.clients == Some(clients);
        for r in self.of(experiment).filter(of) {
            let figures = r.policy.as_deref().zip(r.mean_ns).zip(r.per_s).zip(r.members);
            let Some((((policy, mean_ns), per_s), members)) = figures else { continue };
            let s = mean_ns * 1e-9 * per_s * f64::from(members);
            match sums.iter_mut().find(|(p, _)| *p == policy) {
                Some((_, sum)) => *sum += s,
                None => sums.push((policy, s)),
            }
        }
        sums
    }

    /// The median and the largest difference of the agreement: of calls' medians (as a
    /// part), and of shares of VF time.
    pub fn differences(&self) -> Option<[(f64, f64); 2]> {
        let of = |f: fn(&Agreement) -> f64| {
            let all: Vec<f64> = self.agreement.iter().map(|a| f(a).abs()).collect();
            Some((stats::median(&all)?, stats::range(&all)?.1))
        };
        Some([of(Agreement::p50_off)?, of(Agreement::share_off)?])
    }

    /// All calls that were really made, and what went wrong with them.
    pub fn trouble(&self) -> (u64, Trouble) {
        let mut all = (0, Trouble::default());
        for r in self.rows.iter().filter(|r| r.source == Source::Real) {
            all.0 += r.calls;
            all.1 += Trouble {
                failed: r.failed.unwrap_or(0),
                wrong: r.wrong.unwrap_or(0),
                lost: r.lost.unwrap_or(0),
                repeated: r.repeated.unwrap_or(0),
            };
        }
        all
    }
}
