//! The three reports and their rows.
//!
//! The named fields up to the line "beyond the schema" are a public format: do not
//! rename them. A field that does not apply is null, never left out, so that a CSV's
//! columns are always the same.

use super::{Domain, Function, How, Instance, Kind, Machine, Settings, published, stats};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The published experiment: the same work in each domain, cut into ever more calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainsReport {
    /// Where it was measured.
    pub machine: Machine,
    /// How.
    pub settings: Settings,
    /// One row for each function, instance, domain and transport.
    pub rows: Vec<DomainRow>,
}

/// One instance of one function in one domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainRow {
    /// What was computed.
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
    /// `seconds_mean` over that of host-host for the same work; null without host-host.
    pub ratio_to_host_host: Option<f64>,
    /// The paper's mean for the unscaled instance; null where it is not known.
    pub published_seconds: Option<f64>,

    // Beyond the schema.
    /// Computations within one call in the paper's instance that this one scales; null
    /// if it scales none.
    pub published_repetitions: Option<u64>,
    /// `seconds_mean` over that of in-process for the same work; null without in-process.
    pub ratio_to_in_process: Option<f64>,
    /// Median over the repeats of the ratio to the host-host repeat that was run next to
    /// it: what drifts between repeats drops out. Null without host-host.
    pub paired_ratio: Option<f64>,
    /// How often it was measured.
    pub repeats: u32,
    /// The fastest repeat.
    pub seconds_min: f64,
    /// The slowest repeat.
    pub seconds_max: f64,
}

impl DomainRow {
    /// A row from the seconds of each repeat of `published.scaled(scale)`; `None`
    /// without repeats, or if one is not finite. Ratios come with [`DomainsReport::finish`].
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
            published_repetitions: Some(published.repetitions),
            ratio_to_in_process: None,
            paired_ratio: None,
            repeats: seconds.len() as u32,
            seconds_min,
            seconds_max,
        })
    }

    /// With the median ratio to host-host, each repeat against the one beside it.
    #[must_use]
    pub fn paired_with(mut self, seconds: &[f64], host_host: &[f64]) -> Self {
        let ratios: Vec<_> = seconds.iter().zip(host_host).map(|(a, b)| a / b).collect();
        self.paired_ratio = stats::median(&ratios);
        self
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

    fn same_work(&self, other: &Self) -> bool {
        self.function == other.function && self.instance() == other.instance()
    }
}

impl DomainsReport {
    /// A report that waits for its rows.
    pub fn new(machine: Machine, settings: Settings) -> Self {
        Self { machine, settings, rows: Vec::new() }
    }

    /// The row that `row`'s ratio to `domain` stands on: the same work there. Of
    /// several transports the first measured counts.
    pub fn reference(&self, row: &DomainRow, domain: Domain) -> Option<&DomainRow> {
        self.rows.iter().find(|r| r.domain == domain && r.same_work(row))
    }

    /// Fills in every ratio. Call it when all rows are there.
    pub fn finish(&mut self) {
        let ratio = |row: &DomainRow, domain| {
            let base = self.reference(row, domain)?.seconds_mean;
            (base > 0.0).then(|| row.seconds_mean / base)
        };
        let ratios: Vec<_> = self
            .rows
            .iter()
            .map(|r| (ratio(r, Domain::HostHost), ratio(r, Domain::InProcess)))
            .collect();
        for (row, (host_host, in_process)) in self.rows.iter_mut().zip(ratios) {
            row.ratio_to_host_host = host_host;
            row.ratio_to_in_process = in_process;
        }
    }
}

/// One call, many calls at once, and calls with data, beside what the machine allows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Where it was measured.
    pub machine: Machine,
    /// How.
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
    /// What was measured.
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
    /// Median over the repeats of the main figure over that of the floor in the same
    /// repeat: what drifts between repeats drops out. Null where no floor goes with it.
    pub against_floor: Option<f64>,
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

    /// With the ratio of each repeat to the floor's repeat beside it.
    #[must_use]
    pub fn against(mut self, repeats: &[f64], floors: &[f64]) -> Self {
        let ratios: Vec<_> = repeats.iter().zip(floors).map(|(a, b)| a / b).collect();
        self.against_floor = stats::median(&ratios);
        self
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
    /// How.
    pub settings: Settings,
    /// The rows, in any order.
    pub rows: Vec<GrainRow>,
    /// For each domain the finest work in a call at which, and above which, the slowdown
    /// stays within [`published::WORST_SLOWDOWN`]; null if it never does.
    pub finest_grain_ns: BTreeMap<Domain, Option<f64>>,
}

/// One amount of work in a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrainRow {
    /// Where the caller ran.
    pub domain: Domain,
    /// What the work takes by a plain function call.
    pub work_ns: f64,
    /// The time of a call over `work_ns`; 1 is no slowdown.
    pub slowdown: f64,

    // Beyond the schema.
    /// The transport in use.
    pub transport: String,
    /// How often it was measured; `slowdown` is their median.
    pub repeats: u32,
    /// The lowest repeat.
    pub slowdown_min: f64,
    /// The highest repeat.
    pub slowdown_max: f64,
}

impl GrainRow {
    /// A row from the slowdown of each repeat; `None` without repeats, or if one is not
    /// finite. `work_ns` is above 0.
    pub fn from_repeats(
        domain: Domain,
        transport: &str,
        work_ns: f64,
        slowdowns: &[f64],
    ) -> Option<Self> {
        let (slowdown_min, slowdown_max) = stats::range(slowdowns)?;
        Some(Self {
            domain,
            work_ns,
            slowdown: stats::median(slowdowns)?,
            transport: transport.to_owned(),
            repeats: slowdowns.len() as u32,
            slowdown_min,
            slowdown_max,
        })
    }
}

impl GrainReport {
    /// A report that waits for its rows.
    pub fn new(machine: Machine, settings: Settings) -> Self {
        Self { machine, settings, rows: Vec::new(), finest_grain_ns: BTreeMap::new() }
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

    /// Fills in `finest_grain_ns`; of a domain's transports the best counts. Call it when
    /// all rows are there.
    pub fn finish(&mut self) {
        let mut finest: BTreeMap<Domain, Option<f64>> = BTreeMap::new();
        for (domain, _, rows) in self.lines() {
            let best = finest.entry(domain).or_default();
            *best = match (*best, finest_grain(&rows)) {
                (Some(a), Some(b)) => Some(f64::min(a, b)),
                (a, b) => a.or(b),
            };
        }
        self.finest_grain_ns = finest;
    }
}

/// The finest work at which, and at all coarser work measured, the slowdown keeps within
/// the published worst. `rows` are of one line, finest first.
pub fn finest_grain(rows: &[&GrainRow]) -> Option<f64> {
    let within = rows.iter().rev().take_while(|r| r.slowdown <= published::WORST_SLOWDOWN);
    within.last().map(|r| r.work_ns)
}
