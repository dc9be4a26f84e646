//! What one decision takes, and one report of an agent, where there are most of both.

use super::NicsPlan;
use crate::nics::{HandOver, Host, Kin};
use crate::report::{NicsExperiment, NicsReport, NicsRow, Origin};
use std::time::Instant;
use vfun_nics::Event;
use vfun_nics::declared::{Pool, Source};

const VMS: u32 = 10_000;
const VFS: u16 = 128;
/// Reports of so many VMs are timed at each decision: a clock costs more than some of them.
const REPORTS: usize = 1_000;
/// Rates are drawn anew so many decisions after the last time, so that VFs move.
const DRAWN_EACH: u64 = 8;

/// Draws the rate of a VM, packets a second; the same for the same numbers.
fn rate(n: usize, turn: u64) -> f64 {
    ((n as u64 * 2_654_435_761 + turn * 40_503) % 100_000) as f64
}

/// Times them.
pub fn decision(plan: &NicsPlan, report: &mut NicsReport) {
    let pool = Pool::new(Source::Sriov { pf: String::new() });
    let interval_ms = pool.interval_ms;
    let (mut decisions, mut reports) = (vec![], vec![]);
    let mut host = Host::new(pool, VFS, HandOver::default(), true);
    let kin = Kin::new("all", VMS, 0.0);
    for _ in 0..VMS {
        host.add(0, &kin);
    }
    for step in 1..=u64::from(plan.decisions) {
        for (n, guest) in host.guests_mut().iter_mut().enumerate() {
            guest.per_s = rate(n, step / DRAWN_EACH);
        }
        host.run(step * interval_ms - 1);
        for n in 0..REPORTS {
            let said = host.said(n);
            let begin = Instant::now();
            let actions = host.decide(said);
            reports.push(begin.elapsed().as_nanos() as u64);
            host.act(actions);
        }
        host.be(step * interval_ms);
        let begin = Instant::now();
        let actions = host.decide(Event::Tick);
        decisions.push(begin.elapsed().as_nanos() as u64);
        host.act(actions);
    }
    let row = |case: &str, times: &mut [u64]| {
        NicsRow::new(NicsExperiment::Decision, Origin::Measured, case, (VMS, VFS)).with_times(times)
    };
    report.rows.push(row("a decision", &mut decisions));
    report.rows.push(row("a report of an agent", &mut reports));
}
