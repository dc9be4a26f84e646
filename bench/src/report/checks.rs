//! What a report shows against the targets that are set for it.

mod domains;
mod footprint;
mod isolation;
mod leases;
mod module;
mod nics;
mod ports;
mod queues;
mod remoting;
mod scale;
mod verbs;
mod waiting;

pub use domains::{GUEST_HOST_OVER_HOST_HOST, domains};
pub use footprint::{ACTIVATION_NS, IDLE_SHARE, NO_SHARE, RESIDENT_BYTES, footprint};
pub use isolation::isolation;
pub use leases::{SWITCH_NS, leases};
pub use module::module;
pub use nics::nics;
pub use ports::{FRAME_BYTES, ports};
pub use queues::queues;
pub use remoting::remoting;
pub use scale::scale;
pub use verbs::verbs;
pub use waiting::waiting;

use super::rows::Finest;
use super::text::number::{ns, rate, round_ns, times};
use super::{Domain, GrainReport, How, Kind, LatencyReport, LatencyRow, published};
use crate::method::{Compared, Says};
use std::fmt;

/// A null call from host to host takes at most this many times the floor.
pub const HOST_HOST_OVER_FLOOR: f64 = 1.25;
/// A null call from guest to host takes at most this many times its own floor.
pub const GUEST_HOST_OVER_FLOOR: f64 = 1.3;
/// A null call over the guest's network takes at least this many times that through the window.
pub const GUEST_NET_OVER_GUEST_HOST: f64 = 20.0;
/// Pipelined null calls from host to host, a second.
pub const PIPELINED_PER_S: f64 = 15e6;
/// A large argument written in place and not read takes at most this many times as long
/// as a small one: no copy, but for the spread of the measurement.
pub const IN_PLACE_OVER_SMALL: f64 = 1.25;
/// That large argument, and that small one, in bytes.
pub const IN_PLACE_BYTES: (u64, u64) = (1 << 20, 4 << 10);

/// What came of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The measurement meets it.
    Reached,
    /// The measurement misses it.
    NotReached,
    /// It was measured, and the target lies within what the measurement leaves open.
    CannotTell,
    /// The report lacks what it takes to tell.
    NotMeasured,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reached => "reached",
            Self::NotReached => "not reached",
            Self::CannotTell => "cannot tell",
            Self::NotMeasured => "not measured",
        })
    }
}

/// One target, and what was measured for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What the target is about.
    pub what: String,
    /// What is asked for.
    pub target: String,
    /// What was measured, or what is missing.
    pub measured: String,
    /// What came of it.
    pub outcome: Outcome,
}

impl Check {
    fn new(what: &str, target: String, measured: String, reached: Option<bool>) -> Self {
        let outcome = match reached {
            Some(true) => Outcome::Reached,
            Some(false) => Outcome::NotReached,
            None => Outcome::NotMeasured,
        };
        Self { what: what.to_owned(), target, measured, outcome }
    }

    /// A target of a comparison; not measured if there is none.
    fn compared(
        what: &str,
        target: String,
        compared: Option<Compared>,
        says: impl Fn(&Compared) -> Says,
        words: impl Fn(&Compared) -> String,
    ) -> Self {
        let Some(compared) = compared.filter(|c| c.pairs > 0) else {
            return Self::new(what, target, "not compared".to_owned(), None);
        };
        let outcome = match says(&compared) {
            Says::Yes => Outcome::Reached,
            Says::No => Outcome::NotReached,
            Says::CannotTell => Outcome::CannotTell,
        };
        Self { what: what.to_owned(), target, measured: words(&compared), outcome }
    }

    /// Whether the target was reached.
    pub fn reached(&self) -> bool {
        self.outcome == Outcome::Reached
    }
}

/// The p50 of a row.
fn p50(row: &LatencyRow) -> Option<f64> {
    row.p50_ns.filter(|&ns| ns > 0.0)
}

/// The floor's p50 that a row of the same domain stands on: over the same transport if
/// it was measured there, else the domain's first.
pub fn floor_of(report: &LatencyReport, row: &LatencyRow) -> Option<f64> {
    let floors = || report.rows.iter().filter(|r| r.kind == Kind::Floor && r.domain == row.domain);
    floors().find(|r| r.transport == row.transport).and_then(p50).or_else(|| floors().find_map(p50))
}

/// The floor's rate that a pipelined row stands on: the one with as many under way if it
/// was measured, else the domain's highest.
pub fn floor_in_flight_of(report: &LatencyReport, row: &LatencyRow) -> Option<f64> {
    let floors = || {
        let of_domain =
            report.rows.iter().filter(|r| r.kind == Kind::FloorInFlight && r.domain == row.domain);
        of_domain.filter(|r| r.calls_per_s.is_some_and(|c| c > 0.0))
    };
    let same = floors().find(|r| r.in_flight == row.in_flight && r.transport == row.transport);
    let highest = || {
        floors()
            .max_by(|a, b| a.calls_per_s.unwrap_or(0.0).total_cmp(&b.calls_per_s.unwrap_or(0.0)))
    };
    same.or_else(highest)?.calls_per_s
}

/// A domain's fastest null call.
fn null_call(report: &LatencyReport, domain: Domain) -> Option<&LatencyRow> {
    let calls = report
        .rows
        .iter()
        .filter(|r| r.kind == Kind::NullCall && r.domain == domain && p50(r).is_some());
    calls.min_by(|a, b| a.p50_ns.unwrap_or(f64::MAX).total_cmp(&b.p50_ns.unwrap_or(f64::MAX)))
}

fn over_floor(report: &LatencyReport, domain: Domain, limit: f64) -> Check {
    let what = format!("null call {domain}");
    let target = format!("at most {} × the floor", times(limit));
    let Some(row) = null_call(report, domain) else {
        return Check::new(&what, target, "no null call".to_owned(), None);
    };
    let Some((call, floor)) = p50(row).zip(floor_of(report, row)) else {
        return Check::new(&what, target, format!("no floor of {domain}"), None);
    };
    let figures = format!("({} over {}, {})", ns(call), ns(floor), row.transport);
    Check::compared(
        &what,
        target,
        row.to_floor(),
        |c| c.at_most(limit),
        |c| format!("{} {figures}", c.words()),
    )
}

fn network(report: &LatencyReport) -> Check {
    let what = "guest-net against guest-host";
    let target = format!("at least {} × as long", times(GUEST_NET_OVER_GUEST_HOST));
    let (net, host) = (null_call(report, Domain::GuestNet), null_call(report, Domain::GuestHost));
    match (net.and_then(p50), host.and_then(p50)) {
        (Some(net), Some(host)) => {
            let measured = format!("{} × ({} over {})", times(net / host), ns(net), ns(host));
            Check::new(what, target, measured, Some(net >= GUEST_NET_OVER_GUEST_HOST * host))
        }
        (None, _) => Check::new(what, target, "no null call guest-net".to_owned(), None),
        (_, None) => Check::new(what, target, "no null call guest-host".to_owned(), None),
    }
}

fn pipelined(report: &LatencyReport) -> Check {
    let what = "pipelined host-host";
    let target = format!("at least {}", rate(PIPELINED_PER_S));
    let rows =
        report.rows.iter().filter(|r| r.kind == Kind::Pipelined && r.domain == Domain::HostHost);
    let best =
        rows.max_by(|a, b| a.calls_per_s.unwrap_or(0.0).total_cmp(&b.calls_per_s.unwrap_or(0.0)));
    let Some((row, calls)) = best.and_then(|r| Some((r, r.calls_per_s?))) else {
        return Check::new(what, target, "no pipelined calls".to_owned(), None);
    };
    let mut measured = rate(calls);
    if let Some(n) = row.in_flight {
        measured += &format!(" with {n} in flight");
    }
    measured += &match floor_in_flight_of(report, row) {
        Some(floor) => {
            let share = 100.0 * row.against_floor.unwrap_or(calls / floor);
            format!(", {share:.0} % of the floor in flight ({})", rate(floor))
        }
        None => ", no floor in flight to compare".to_owned(),
    };
    Check::new(what, target, measured, Some(calls >= PIPELINED_PER_S))
}

fn in_place(report: &LatencyReport) -> Check {
    let what = "1 MiB in place, not read";
    let target = format!("at most {} × 4 KiB", times(IN_PLACE_OVER_SMALL));
    let at = |bytes| {
        let rows = report.rows.iter();
        let mut unread = rows.filter(|r| {
            (r.kind, r.domain, r.how) == (Kind::Bandwidth, Domain::HostHost, Some(How::InPlace))
                && r.function.as_deref() == Some("null")
        });
        unread.find(|r| r.bytes == Some(bytes)).and_then(p50)
    };
    let (large, small) = IN_PLACE_BYTES;
    match (at(large), at(small)) {
        (Some(large), Some(small)) => {
            let measured = format!("{} × ({} over {})", times(large / small), ns(large), ns(small));
            Check::new(what, target, measured, Some(large <= IN_PLACE_OVER_SMALL * small))
        }
        _ => Check::new(what, target, "no calls in place host-host".to_owned(), None),
    }
}

/// The targets of a latency report, always the same five.
pub fn latency(report: &LatencyReport) -> Vec<Check> {
    vec![
        over_floor(report, Domain::HostHost, HOST_HOST_OVER_FLOOR),
        over_floor(report, Domain::GuestHost, GUEST_HOST_OVER_FLOOR),
        network(report),
        pipelined(report),
        in_place(report),
    ]
}

/// The target of a grain report, for each domain and transport through shared memory
/// that was measured.
pub fn grain(report: &GrainReport) -> Vec<Check> {
    let shared = |domain: &Domain| matches!(domain, Domain::HostHost | Domain::GuestHost);
    let lines = report.lines();
    let lines = lines.iter().filter(|(domain, ..)| shared(domain));
    let checks = lines.map(|(domain, transport, rows)| {
        let limit = published::TARGET_GRAIN_NS;
        let finest = Finest::of(rows);
        let outcome = match (finest.low, finest.high) {
            (_, Some(high)) if high <= limit => Outcome::Reached,
            (Some(low), _) if low <= limit => Outcome::CannotTell,
            _ => Outcome::NotReached,
        };
        Check {
            what: format!("grain {domain} ({transport})"),
            target: format!("within 2.8 % from {}", round_ns(limit)),
            measured: finest.words(),
            outcome,
        }
    });
    checks.collect()
}
