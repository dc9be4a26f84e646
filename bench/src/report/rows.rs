//! Three reports and their rows.
//!
//! The named fields up to the line "beyond the schema" are a public format: do not
//! rename them. A field that does not apply is null, never left out, so that a CSV's
//! columns are always the same.

use super::published::{self, Published};
use super::text::number::ns;
use super::{Domain, Function, How, Instance, Kind, Machine, Settings, stats};
use crate::method::Compared;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A ratio between domains is told if its interval reaches no further than this part of it to
/// either side: what calling may cost by our own target is as much.
const KNOWN_WITHIN: f64 = 0.01;
/// Runs an hour apart differ by up to this part of what calling costs, as four runs on a shared
/// machine showed. No run sees it by itself.
const BETWEEN_RUNS: f64 = 0.5;
/// The finest grain is told if it is known to this factor.
const GRAIN_WITHIN: f64 = 1.5;

/// A ratio between domains, as another run would also find it, if it is known well enough.
fn known_between_runs(ratio: Compared) -> Compared {
    ratio.between_runs(BETWEEN_RUNS).told_within(KNOWN_WITHIN)
}

/// The published experiment: the same work in each domain, cut into ever more calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainsReport {
    /// Where it was measured.
    pub machine: Machine,
    pub settings: Settings,
    /// Where the published figures beside ours come from.
    pub published: Published,
    /// One row for each function, instance, domain and transport.
    pub rows: Vec<DomainRow>,
}

/// One instance of one function in one domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainRow {
    /// The function that was called.
    pub function: Function,
    /// Where the caller ran and how it reached the function.
    pub domain: Domain,
    /// The transport in use; "none" in process.
    pub transport: String,
    /// Computations within one call, as run (after scaling).
    pub repetitions: u64,
    /// Calls, one after the other.
    pub iterations: u64,
    /// Mean over the repeats of the time for all calls.
    pub seconds_mean: f64,
    /// Sample standard deviation over the repeats; null with a single one.
    pub seconds_sd: Option<f64>,
    /// The median of the ratios of undisturbed slices to host-host's beside them; null if it cannot be
    /// told: no host-host, more than half of the pairs disturbed, or an interval that reaches further than
    /// 1 % of it.
    pub ratio_to_host_host: Option<f64>,
    /// The paper's mean for the unscaled instance; null where it has none.
    pub published_seconds: Option<f64>,

    // Beyond the schema.
    /// The lower end of the interval that holds that ratio in 95 of 100 runs; null without 6 undisturbed pairs.
    pub ratio_to_host_host_low: Option<f64>,
    /// Upper end of the interval above.
    pub ratio_to_host_host_high: Option<f64>,
    /// Pairs of slices that ran; null without host-host.
    pub ratio_to_host_host_pairs: Option<u32>,
    /// Pairs of these that were dropped: the kernel counted a disturbance in a slice.
    pub ratio_to_host_host_dropped: Option<u32>,
    /// The paper's mean over its host-host mean.
    pub published_ratio_to_host_host: Option<f64>,
    /// Computations within one call in the paper's instance that this one scales; null
    /// if it scales none.
    pub published_repetitions: Option<u64>,
    /// As `ratio_to_host_host`, to the plain function call.
    pub ratio_to_in_process: Option<f64>,
    /// Its interval's lower end.
    pub ratio_to_in_process_low: Option<f64>,
    /// Upper end of the interval above.
    pub ratio_to_in_process_high: Option<f64>,
    /// Pairs of slices that ran.
    pub ratio_to_in_process_pairs: Option<u32>,
    /// Pairs of these that were dropped.
    pub ratio_to_in_process_dropped: Option<u32>,
    /// How often it was measured.
    pub repeats: u32,
    /// Seconds of the fastest repeat.
    pub seconds_min: f64,
    /// Seconds of the slowest repeat.
    pub seconds_max: f64,
}

impl DomainRow {
    /// A row from the seconds of each repeat of `published.scaled(scale)`; `None`
    /// without repeats, or if one is not finite.
    pub fn from_repeats(
        function: Function,
        domain: Domain,
        transport: &str,
        published: Instance,
        scale: f64,
        seconds: &[f64],
    ) -> Option<Self> {
        let run = published.scaled(scale);
        let (seconds_min, seconds_max) = stats::range(seconds)?;
        Some(Self {
            function,
            domain,
            transport: transport.to_owned(),
            repetitions: run.repetitions,
            iterations: run.iterations,
            seconds_mean: stats::mean(seconds)?,
            seconds_sd: stats::sample_sd(seconds),
            ratio_to_host_host: None,
            published_seconds: published::seconds(function, domain, published),
            ratio_to_host_host_low: None,
            ratio_to_host_host_high: None,
            ratio_to_host_host_pairs: None,
            ratio_to_host_host_dropped: None,
            published_ratio_to_host_host: published::to_host_host(function, domain, published),
            published_repetitions: Some(published.repetitions),
            ratio_to_in_process: None,
            ratio_to_in_process_low: None,
            ratio_to_in_process_high: None,
            ratio_to_in_process_pairs: None,
            ratio_to_in_process_dropped: None,
            repeats: seconds.len() as u32,
            seconds_min,
            seconds_max,
        })
    }

    /// With its ratios to host-host and to in-process, where these were measured beside it.
    #[must_use]
    pub fn compared(mut self, host_host: Option<Compared>, in_process: Option<Compared>) -> Self {
        let known: fn(Compared) -> Compared = match self.domain {
            // Its ratio is of whole network round trips, which no published target judges.
            Domain::GuestNet => |c: Compared| c.told_within(KNOWN_WITHIN),
            _ => known_between_runs,
        };
        if let Some(c) = host_host.map(known) {
            self.ratio_to_host_host = c.ratio;
            (self.ratio_to_host_host_low, self.ratio_to_host_host_high) = (c.low, c.high);
            self.ratio_to_host_host_pairs = Some(c.pairs);
            self.ratio_to_host_host_dropped = Some(c.dropped);
        }
        if let Some(c) = in_process.map(known) {
            self.ratio_to_in_process = c.ratio;
            (self.ratio_to_in_process_low, self.ratio_to_in_process_high) = (c.low, c.high);
            self.ratio_to_in_process_pairs = Some(c.pairs);
            self.ratio_to_in_process_dropped = Some(c.dropped);
        }
        self
    }

    /// Its ratio to host-host, if that ran beside it.
    pub fn to_host_host(&self) -> Option<Compared> {
        Some(Compared {
            ratio: self.ratio_to_host_host,
            low: self.ratio_to_host_host_low,
            high: self.ratio_to_host_host_high,
            pairs: self.ratio_to_host_host_pairs?,
            dropped: self.ratio_to_host_host_dropped?,
        })
    }

    /// Its ratio to in-process, if that ran beside it.
    pub fn to_in_process(&self) -> Option<Compared> {
        Some(Compared {
            ratio: self.ratio_to_in_process,
            low: self.ratio_to_in_process_low,
            high: self.ratio_to_in_process_high,
            pairs: self.ratio_to_in_process_pairs?,
            dropped: self.ratio_to_in_process_dropped?,
        })
    }

    /// The instance as run.
    pub fn instance(&self) -> Instance {
        Instance { repetitions: self.repetitions, iterations: self.iterations }
    }

    /// The paper's instance that this one scales, or the instance as run.
    pub fn published_instance(&self) -> Instance {
        Instance {
            repetitions: self.published_repetitions.unwrap_or(self.repetitions),
            iterations: self.iterations,
        }
    }
}

impl DomainsReport {
    /// A report that waits for its rows.
    pub fn new(machine: Machine, settings: Settings) -> Self {
        Self { machine, settings, published: Published::virtfun(), rows: Vec::new() }
    }
}

/// One call, many calls at once, and calls with data, beside what the machine allows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Where it was measured.
    pub machine: Machine,
    pub settings: Settings,
    /// The rows, in any order.
    pub rows: Vec<LatencyRow>,
}

impl LatencyReport {
    /// A report that waits for its rows.
    pub fn new(machine: Machine, settings: Settings) -> Self {
        Self { machine, settings, rows: Vec::new() }
    }
}

/// One measurement of latency, rate or bandwidth. With several repeats each figure is
/// the median over them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyRow {
    /// Where the caller ran.
    pub domain: Domain,
    /// The transport in use; "none" where there is none (memcpy).
    pub transport: String,
    /// What this row measured.
    pub kind: Kind,
    /// Half of the round trips took no longer.
    pub p50_ns: Option<f64>,
    /// 99 of 100 took no longer.
    pub p99_ns: Option<f64>,
    /// 999 of 1000 took no longer.
    pub p999_ns: Option<f64>,
    /// Calls (or lines of the floor) a second.
    pub calls_per_s: Option<f64>,
    /// Data in a call, or in a copy.
    pub bytes: Option<u64>,
    /// Data moved a second.
    pub bytes_per_s: Option<f64>,

    // Beyond the schema.
    /// The function that was called, where it is not the null call of `echo`.
    pub function: Option<String>,
    /// Calls under way at once.
    pub in_flight: Option<u32>,
    /// How the data reached the service.
    pub how: Option<How>,
    /// The main figure over that of the floor in the slice beside it, at the median of undisturbed pairs. Null
    /// where no floor goes with it, or more than half of the pairs were disturbed.
    pub against_floor: Option<f64>,
    /// The lower end of the interval that holds it in 95 of 100 runs; null without 6 undisturbed pairs.
    pub against_floor_low: Option<f64>,
    /// Upper end of the interval above.
    pub against_floor_high: Option<f64>,
    /// Pairs of slices that ran.
    pub against_floor_pairs: Option<u32>,
    /// Pairs of these that were dropped: the kernel counted a disturbance in a slice.
    pub against_floor_dropped: Option<u32>,
    /// How often it was measured.
    pub repeats: Option<u32>,
    /// The main figure (p50, else calls, else bytes a second) of the lowest repeat.
    pub spread_min: Option<f64>,
    /// The same of the highest repeat.
    pub spread_max: Option<f64>,
}

impl LatencyRow {
    /// A row with nothing measured yet.
    pub fn new(domain: Domain, transport: &str, kind: Kind) -> Self {
        Self {
            domain,
            transport: transport.to_owned(),
            kind,
            p50_ns: None,
            p99_ns: None,
            p999_ns: None,
            calls_per_s: None,
            bytes: None,
            bytes_per_s: None,
            function: None,
            in_flight: None,
            how: None,
            against_floor: None,
            against_floor_low: None,
            against_floor_high: None,
            against_floor_pairs: None,
            against_floor_dropped: None,
            repeats: None,
            spread_min: None,
            spread_max: None,
        }
    }

    /// With the median over repeats of their percentiles, in nanoseconds.
    #[must_use]
    pub fn with_percentiles(mut self, repeats: &[stats::Percentiles]) -> Self {
        let over = |f: fn(&stats::Percentiles) -> u64| {
            repeats.iter().map(|p| f(p) as f64).collect::<Vec<_>>()
        };
        self.p99_ns = stats::median(&over(|p| p.p99));
        self.p999_ns = stats::median(&over(|p| p.p999));
        self.p50_ns = self.main_figure(&over(|p| p.p50));
        self
    }

    /// With the median over repeats of their typical time, where a repeat has too few
    /// samples for percentiles.
    #[must_use]
    pub fn with_p50_ns(mut self, repeats: &[f64]) -> Self {
        self.p50_ns = self.main_figure(repeats);
        self
    }

    /// With its ratio to the floor beside it.
    #[must_use]
    pub fn against(mut self, floor: Compared) -> Self {
        self.against_floor = floor.ratio;
        (self.against_floor_low, self.against_floor_high) = (floor.low, floor.high);
        (self.against_floor_pairs, self.against_floor_dropped) =
            (Some(floor.pairs), Some(floor.dropped));
        self
    }

    /// Its ratio to the floor, if that ran beside it.
    pub fn to_floor(&self) -> Option<Compared> {
        Some(Compared {
            ratio: self.against_floor,
            low: self.against_floor_low,
            high: self.against_floor_high,
            pairs: self.against_floor_pairs?,
            dropped: self.against_floor_dropped?,
        })
    }

    /// With the function that was called.
    #[must_use]
    pub fn of_function(mut self, name: &str) -> Self {
        self.function = Some(name.to_owned());
        self
    }

    /// With the median over repeats of their calls a second.
    #[must_use]
    pub fn with_calls_per_s(mut self, in_flight: u32, repeats: &[f64]) -> Self {
        self.in_flight = Some(in_flight);
        self.calls_per_s = self.main_figure(repeats);
        self
    }

    /// With the median over repeats of their bytes a second, each call carrying `bytes`.
    #[must_use]
    pub fn with_bytes_per_s(mut self, bytes: u64, how: Option<How>, repeats: &[f64]) -> Self {
        self.bytes = Some(bytes);
        self.how = how;
        self.bytes_per_s = self.main_figure(repeats);
        self
    }

    fn main_figure(&mut self, repeats: &[f64]) -> Option<f64> {
        self.repeats = Some(repeats.len() as u32);
        (self.spread_min, self.spread_max) = stats::range(repeats).unzip();
        stats::median(repeats)
    }
}

/// How much slower work gets when it is done in calls, by the work in a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrainReport {
    /// Where it was measured.
    pub machine: Machine,
    pub settings: Settings,
    /// The rows, in any order.
    pub rows: Vec<GrainRow>,
    /// For each domain the finest work in a call at which, and above which, the slowdown
    /// stays within [`published::WORST_SLOWDOWN`]; null if it never does, or cannot be told to a factor of 1.5.
    pub finest_grain_ns: BTreeMap<Domain, Option<f64>>,
    /// The finest work that it may be, by the rows' intervals; null if it surely never stays within.
    pub finest_grain_low_ns: BTreeMap<Domain, Option<f64>>,
    /// The work from which it surely stays within; null if there is none.
    pub finest_grain_high_ns: BTreeMap<Domain, Option<f64>>,
}

/// One amount of work in a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrainRow {
    /// Where the caller ran.
    pub domain: Domain,
    /// What the work takes by a plain function call.
    pub work_ns: f64,
    /// The time of a call over that of a plain function call in the slice beside it, at the median of
    /// undisturbed pairs; 1 is no slowdown. Null if more than half of the pairs were disturbed.
    pub slowdown: Option<f64>,

    // Beyond the schema.
    /// The transport in use.
    pub transport: String,
    /// The lower end of the interval that holds it in 95 of 100 runs; null without 6 undisturbed pairs.
    pub slowdown_low: Option<f64>,
    /// Upper end of the interval above.
    pub slowdown_high: Option<f64>,
    /// Pairs of slices that ran.
    pub pairs: u32,
    /// Pairs of these that were dropped: the kernel counted a disturbance in a slice.
    pub dropped: u32,
}

impl GrainRow {
    /// A row. `work_ns` is above 0.
    pub fn new(domain: Domain, transport: &str, work_ns: f64, slowdown: Compared) -> Self {
        Self {
            domain,
            work_ns,
            slowdown: slowdown.ratio,
            transport: transport.to_owned(),
            slowdown_low: slowdown.low,
            slowdown_high: slowdown.high,
            pairs: slowdown.pairs,
            dropped: slowdown.dropped,
        }
    }

    /// Slowdown and interval together.
    pub fn compared(&self) -> Compared {
        Compared {
            ratio: self.slowdown,
            low: self.slowdown_low,
            high: self.slowdown_high,
            pairs: self.pairs,
            dropped: self.dropped,
        }
    }
}

impl GrainReport {
    /// A report that waits for its rows.
    pub fn new(machine: Machine, settings: Settings) -> Self {
        let (rows, none) = (Vec::new(), BTreeMap::new());
        Self {
            machine,
            settings,
            rows,
            finest_grain_ns: none.clone(),
            finest_grain_low_ns: none.clone(),
            finest_grain_high_ns: none,
        }
    }

    /// The lines of the report: each domain and transport with its rows, finest first.
    pub fn lines(&self) -> Vec<(Domain, &str, Vec<&GrainRow>)> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by(|a, b| a.work_ns.total_cmp(&b.work_ns));
        let mut lines: BTreeMap<(Domain, &str), Vec<&GrainRow>> = BTreeMap::new();
        for row in rows {
            lines.entry((row.domain, &row.transport)).or_default().push(row);
        }
        lines.into_iter().map(|((domain, transport), rows)| (domain, transport, rows)).collect()
    }

    /// Fills in the finest grains; of a domain's transports the best counts. Call it when
    /// all rows are there.
    pub fn finish(&mut self) {
        let mut finest: BTreeMap<Domain, Finest> = BTreeMap::new();
        for (domain, _, rows) in self.lines() {
            let this = Finest::of(&rows);
            let best = finest.entry(domain).or_insert(this);
            if this.high.unwrap_or(f64::INFINITY) < best.high.unwrap_or(f64::INFINITY) {
                *best = this;
            }
        }
        let each = |f: fn(&Finest) -> Option<f64>| finest.iter().map(|(&d, x)| (d, f(x))).collect();
        self.finest_grain_ns = each(Finest::told);
        self.finest_grain_low_ns = each(|x| x.low);
        self.finest_grain_high_ns = each(|x| x.high);
    }
}

/// How fine a call's work may be at one place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finest {
    /// By the rows' ratios.
    middle: Option<f64>,
    /// As fine as their intervals leave open.
    pub low: Option<f64>,
    /// From here on it is sure.
    pub high: Option<f64>,
}

impl Finest {
    /// Of one line, finest first.
    pub fn of(rows: &[&GrainRow]) -> Self {
        let by = |f: fn(&GrainRow) -> Option<f64>, unknown: f64| {
            let line: Vec<_> = rows.iter().map(|r| (r.work_ns, f(r).unwrap_or(unknown))).collect();
            crossing(&line)
        };
        // What is not known may be anything: it hinders what is sure, and not what may be.
        Finest {
            middle: by(|r| r.slowdown, f64::INFINITY),
            low: by(|r| r.slowdown_low, 1.0),
            high: by(|r| r.slowdown_high, f64::INFINITY),
        }
    }

    /// The finest work, if that is known well enough.
    pub fn told(&self) -> Option<f64> {
        let (middle, low, high) = (self.middle?, self.low?, self.high?);
        (high <= low * GRAIN_WITHIN * GRAIN_WITHIN
            && middle <= low * GRAIN_WITHIN
            && high <= middle * GRAIN_WITHIN)
            .then_some(middle)
    }

    /// "from 10.0 µs (9.8 … 10.4 µs)", or why it cannot be told.
    pub fn words(&self) -> String {
        match (self.told(), self.low, self.high) {
            (Some(told), Some(low), Some(high)) => {
                format!("from {} ({} … {})", ns(told), ns(low), ns(high))
            }
            (None, Some(low), Some(high)) => {
                format!("cannot tell: from {} … {}", ns(low), ns(high))
            }
            (_, Some(low), None) => {
                format!("cannot tell: from {} at the finest, or at no work measured", ns(low))
            }
            _ => "at no work measured".to_owned(),
        }
    }
}

/// The finest work at which, and at all coarser work, the slowdown keeps within the published
/// worst. Between an amount that does and the next finer one that does not, it lies where the
/// line between both crosses the limit, in logarithms of the work and of what calling adds.
fn crossing(line: &[(f64, f64)]) -> Option<f64> {
    /// Less than this is added by nothing that can be measured.
    const LEAST: f64 = 1e-3;
    let within = |s: f64| s <= published::WORST_SLOWDOWN;
    let first = line.len() - line.iter().rev().take_while(|(_, s)| within(*s)).count();
    let &(work, slowdown) = line.get(first)?;
    let finer = first.checked_sub(1).map(|i| line[i]).filter(|(_, s)| s.is_finite());
    let Some((beyond, above)) = finer else { return Some(work) };
    let added = |s: f64| (s - 1.0).max(LEAST).ln();
    let part =
        (added(published::WORST_SLOWDOWN) - added(slowdown)) / (added(above) - added(slowdown));
    Some((work.ln() + part * (beyond.ln() - work.ln())).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finest_work_lies_between_the_rows() {
        // What calling adds falls with the work: 280 ns are 2.8 % of 10 µs.
        let line = [1e3, 3e3, 3e4, 3e5].map(|work| (work, 1.0 + 280.0 / work));
        let fine = crossing(&line).unwrap();
        assert!((fine / 1e4 - 1.0).abs() < 1e-9, "{fine}");
        assert_eq!(crossing(&line[2..]), Some(3e4), "the finest measured");
        assert_eq!(crossing(&line[..2]), None);
        assert_eq!(crossing(&[(1e3, f64::INFINITY), (2e3, 1.0)]), Some(2e3));
        assert_eq!(crossing(&[]), None);
    }

    fn row(work: f64, ratio: f64, off: f64) -> GrainRow {
        let (low, high) = (Some(ratio - off), Some(ratio + off));
        let slowdown = Compared { ratio: Some(ratio), low, high, pairs: 63, dropped: 0 };
        GrainRow::new(Domain::HostHost, "host", work, slowdown)
    }

    #[test]
    fn a_wide_interval_leaves_the_grain_open() {
        let rows = |off: f64| [1e3, 1e4, 1e5, 1e6].map(|work| row(work, 1.0 + 280.0 / work, off));
        let of = |rows: &[GrainRow]| Finest::of(&rows.iter().collect::<Vec<_>>());
        let narrow = of(&rows(0.002));
        assert!((narrow.told().unwrap() / 1e4 - 1.0).abs() < 1e-9, "{narrow:?}");
        assert!(narrow.low < narrow.high);
        let wide = of(&rows(0.02));
        assert!(wide.told().is_none() && wide.low.is_some() && wide.high.is_some(), "{wide:?}");
        // One amount of which nothing is known: neither sure nor excluded.
        let mut one = rows(0.002);
        one[3] = GrainRow::new(Domain::HostHost, "host", 1e6, Compared::default());
        let one = of(&one);
        assert_eq!((one.told(), one.high), (None, None));
        assert!(one.low.is_some());
    }
}
