//! Many clients and channels on one host, of which few are busy.

use super::stats::{self, Percentiles};
use super::{Machine, Settings};
use crate::method::{Compared, Turns};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleReport {
    /// Where it was measured.
    pub machine: Machine,
    pub settings: Settings,
    /// A row for each number of clients and channels.
    pub rows: Vec<ScaleRow>,
    /// Memory that another idle channel takes, bytes: manager and service.
    pub channel_bytes: Option<f64>,
    /// Memory that another client with one idle channel takes, bytes: its share of the
    /// manager, and its service.
    pub client_bytes: Option<f64>,
}

/// One number of clients and channels; medians over the repeats. What was not measured
/// is null. Manager and services are counted, the keeper and the apps are not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScaleRow {
    /// Clients, each with a window and a service.
    pub clients: u32,
    /// Active channels of all clients.
    pub channels: u32,
    /// Negotiating and activating the first channel of a client, which starts its service.
    pub start_p50_ns: Option<f64>,
    /// Negotiating and activating any other channel: half took no longer.
    pub activation_p50_ns: Option<f64>,
    /// The slowest of those.
    pub activation_max_ns: Option<f64>,
    /// Time until all channels were active, one after the other, seconds.
    pub opened_seconds: f64,
    /// Memory of the manager (PSS), bytes, all idle.
    pub manager_bytes: Option<u64>,
    /// Memory of all services (PSS), bytes, all idle.
    pub services_bytes: Option<u64>,
    /// Share of one processor that the manager takes, all idle.
    pub manager_share: Option<f64>,
    /// Share of one processor that all services take together, all idle.
    pub services_share: Option<f64>,
    /// A null call on one channel, the others idle.
    pub p50_ns: Option<f64>,
    /// 99 of 100 took no longer.
    pub p99_ns: Option<f64>,
    /// The same call on one of the control's channels, in the same rounds.
    pub control_p50_ns: Option<f64>,
    /// 99 % of the calls of the control took at most this, ns.
    pub control_p99_ns: Option<f64>,
    /// The p50 over the control's in the slice beside it, at the median of undisturbed pairs; null if more
    /// than half of the pairs were disturbed.
    pub ratio: Option<f64>,
    /// The lower end of the interval that holds it in 95 of 100 runs; null without 6 undisturbed pairs.
    pub ratio_low: Option<f64>,
    /// Upper end of the interval above.
    pub ratio_high: Option<f64>,
    /// The same of the p99.
    pub ratio_p99: Option<f64>,
    /// Its interval's lower end.
    pub ratio_p99_low: Option<f64>,
    /// Upper end of the interval above.
    pub ratio_p99_high: Option<f64>,
    /// Pairs of slices that ran.
    pub pairs: u32,
    /// Pairs of these that were dropped: the kernel counted a disturbance in a slice.
    pub dropped: u32,
    /// A null call after a pause of 3 ms, which wakes the service: half took no longer.
    pub paced_p50_ns: Option<f64>,
    /// The same call on the control.
    pub control_paced_p50_ns: Option<f64>,
    /// The first over the second, as `ratio`.
    pub paced_ratio: Option<f64>,
    /// Its interval's lower end.
    pub paced_ratio_low: Option<f64>,
    /// Upper end of the interval above.
    pub paced_ratio_high: Option<f64>,
    /// Pairs of slices that ran.
    pub paced_pairs: u32,
    /// Pairs of these that were dropped.
    pub paced_dropped: u32,
    /// Eight busy channels, or as many as there are: how many.
    pub busy: u32,
    /// Null calls a second of all of these.
    pub busy_per_s: Option<f64>,
    /// Half of these calls took no longer.
    pub busy_p50_ns: Option<f64>,
    /// 99 of 100 took no longer.
    pub busy_p99_ns: Option<f64>,
    /// From the death of a killed manager until another one has answered an app of each
    /// client in its window, its start by an init included.
    pub take_over_ns: Option<f64>,
    /// The quickest take-over, ns.
    pub take_over_min_ns: Option<f64>,
    /// The slowest take-over, ns.
    pub take_over_max_ns: Option<f64>,
    /// Calls made meanwhile, one a millisecond.
    pub calls_meanwhile: u64,
    /// Those of them that failed.
    pub failed_meanwhile: u64,
    /// How often a manager was taken over.
    pub repeats: u32,
}

type Part = fn(&Percentiles) -> u64;

fn each(of: &[Percentiles], part: Part) -> Vec<f64> {
    of.iter().map(|p| part(p) as f64).collect()
}

impl ScaleRow {
    /// With the times of activations, ns: those with the service's start, and others.
    pub fn activations(&mut self, with_start: &[f64], others: &[f64]) {
        self.start_p50_ns = stats::median(with_start);
        self.activation_p50_ns = stats::median(others);
        self.activation_max_ns = stats::range(others).map(|(_, most)| most);
    }

    /// With its calls, and the control's in turns with them.
    pub fn calls(&mut self, turns: &Turns<Percentiles>) {
        let (calls, control) = (turns.kept(0), turns.kept(1));
        self.p50_ns = stats::median(&each(&calls, |p| p.p50));
        self.p99_ns = stats::median(&each(&calls, |p| p.p99));
        self.control_p50_ns = stats::median(&each(&control, |p| p.p50));
        self.control_p99_ns = stats::median(&each(&control, |p| p.p99));
        let p50 = turns.over(0, 1, |p| p.p50 as f64);
        (self.ratio, self.ratio_low, self.ratio_high) = (p50.ratio, p50.low, p50.high);
        let p99 = turns.over(0, 1, |p| p.p99 as f64);
        (self.ratio_p99, self.ratio_p99_low, self.ratio_p99_high) = (p99.ratio, p99.low, p99.high);
        (self.pairs, self.dropped) = (p50.pairs, p50.dropped);
    }

    /// The same of calls with pauses.
    pub fn paced(&mut self, turns: &Turns<Percentiles>) {
        self.paced_p50_ns = stats::median(&each(&turns.kept(0), |p| p.p50));
        self.control_paced_p50_ns = stats::median(&each(&turns.kept(1), |p| p.p50));
        let c = turns.over(0, 1, |p| p.p50 as f64);
        (self.paced_ratio, self.paced_ratio_low, self.paced_ratio_high) = (c.ratio, c.low, c.high);
        (self.paced_pairs, self.paced_dropped) = (c.pairs, c.dropped);
    }

    /// The p50 over the control's.
    pub fn p50_compared(&self) -> Compared {
        let (ratio, low, high) = (self.ratio, self.ratio_low, self.ratio_high);
        Compared { ratio, low, high, pairs: self.pairs, dropped: self.dropped }
    }

    /// The p99 over the control's.
    pub fn p99_compared(&self) -> Compared {
        let (ratio, low, high) = (self.ratio_p99, self.ratio_p99_low, self.ratio_p99_high);
        Compared { ratio, low, high, pairs: self.pairs, dropped: self.dropped }
    }

    /// The p50 after a pause over the control's.
    pub fn paced_compared(&self) -> Compared {
        let (ratio, low, high) = (self.paced_ratio, self.paced_ratio_low, self.paced_ratio_high);
        Compared { ratio, low, high, pairs: self.paced_pairs, dropped: self.paced_dropped }
    }

    /// With each take-over's time, ns.
    pub fn take_overs(&mut self, ns: &[f64]) {
        self.take_over_ns = stats::median(ns);
        (self.take_over_min_ns, self.take_over_max_ns) = stats::range(ns).unzip();
    }

    /// Memory of manager and services.
    pub fn bytes(&self) -> Option<u64> {
        Some(self.manager_bytes? + self.services_bytes?)
    }
}

impl ScaleReport {
    /// A report of these rows: what a client and a channel take follows from the rows
    /// that differ most in nothing else.
    pub fn new(machine: Machine, settings: Settings, rows: Vec<ScaleRow>) -> Self {
        let one = rows.iter().filter(|r| r.clients == 1);
        let few = one.clone().min_by_key(|r| r.channels);
        let many = one.max_by_key(|r| r.channels);
        let each = rows.iter().filter(|r| r.clients == r.channels);
        let lone = each.clone().min_by_key(|r| r.clients);
        let crowd = each.max_by_key(|r| r.clients);
        let channel_bytes = more(few, many, |r| r.channels);
        let client_bytes = more(lone, crowd, |r| r.clients);
        ScaleReport { machine, settings, rows, channel_bytes, client_bytes }
    }
}

/// Bytes that one more takes.
fn more(
    few: Option<&ScaleRow>,
    many: Option<&ScaleRow>,
    count: fn(&ScaleRow) -> u32,
) -> Option<f64> {
    let (few, many) = few.zip(many)?;
    let more = count(many).checked_sub(count(few)).filter(|&n| n > 0)?;
    Some((many.bytes()? as f64 - few.bytes()? as f64) / f64::from(more))
}
