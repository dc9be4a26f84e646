//! The published experiments with leases: what a VF gains, a live switch under load,
//! groups of clients under each policy, and a steady client beside heavy ones; and one of
//! our own, calls that are worth a VF beside frequent ones; with
//! real clients and services at the scale that two processors bear, and in simulated
//! time beside it and beyond.

mod caller;
mod crowds;
mod gain;
mod lab;
mod switch;

use super::{Where, progress};
use crate::lab::pin;
use crate::leases::{Crowd, Group, Latencies};
use crate::report::{Experiment, LeasesReport, Machine, Settings, stats};
use crate::{BenchError, Result};
use vfun_leases::Policy;

/// Policies of [`Experiment::Groups`], and of the others.
const GROUPS: [Policy; 5] =
    [Policy::None, Policy::Random, Policy::Fair, Policy::Activity, Policy::Gain];
const OTHERS: [Policy; 3] = [Policy::Fair, Policy::Activity, Policy::Gain];

/// Time of a call of the crowds, ns: software's, and a VF's, which is as much less as published.
const SOFTWARE_NS: f64 = 800e3;
const HARDWARE_NS: f64 = 200e3;
/// What a unit takes besides, ns.
const UNIT_NS: (f64, f64) = (1e3, 100.0);
/// What calling adds, and a switch takes, where only simulated time is wanted, ns: about
/// what two processors of a virtual machine show.
const CALLING_NS: (f64, f64) = (120e3, 120e3);
const SWITCH_NS: f64 = 200e3;

/// Below this part of the full run intervals are shorter, so that there are enough of them.
const SHORT: f64 = 0.1;

/// How it is run.
#[derive(Clone, Debug)]
pub struct LeasesPlan {
    /// The experiments to run.
    pub experiments: Vec<Experiment>,
    /// The part of all durations, and of the 10,000 switches.
    pub scale: f64,
    /// How often gains and crowds are run.
    pub repeats: u32,
    /// Of paces and lots.
    pub seed: u64,
    /// Whether clients and services run, not only simulated time.
    pub real: bool,
}

impl LeasesPlan {
    /// Seconds of something that takes so long at full scale, and never less than so long.
    fn seconds(&self, full: f64, least: f64) -> f64 {
        (full * self.scale).max(least)
    }

    /// A crowd that real clients make up: a quarter as many VFs as clients.
    fn groups(&self) -> Crowd {
        let interval_ms = if self.scale < SHORT { 100 } else { 250 };
        Crowd {
            groups: Crowd::published(2, 1.0),
            vfs: 2,
            cores: 1,
            latencies: Latencies {
                software_ns: SOFTWARE_NS,
                hardware_ns: HARDWARE_NS,
                unit_ns: UNIT_NS,
                calling_ns: CALLING_NS,
                switch_ns: SWITCH_NS,
            },
            interval_ms,
            hold_ms: interval_ms,
            warm_s: self.seconds(2.0, 0.5),
            // Whole rounds of `fair`: each of four pairs has its turn.
            seconds: self.seconds(10.0, 12.0 * interval_ms as f64 * 1e-3),
            seed: self.seed,
        }
    }

    /// One steady client beside five heavy ones, and two VFs.
    fn starvation(&self) -> Crowd {
        let group =
            |name: &str, clients, per_s| Group { name: name.into(), clients, per_s, units: 0 };
        Crowd { groups: vec![group("steady", 1, 20.0), group("heavy", 5, 100.0)], ..self.groups() }
    }

    /// Three clients that call often, beside three that call half as often and gain
    /// more than four times as much from a VF each time; two VFs.
    fn worth(&self) -> Crowd {
        let group =
            |name: &str, per_s, units| Group { name: name.into(), clients: 3, per_s, units };
        Crowd { groups: vec![group("busy", 60.0, 0), group("large", 30.0, 2400)], ..self.groups() }
    }

    /// A hundred clients with as many VFs in proportion, and fewer processors: software
    /// alone would keep four fifths of them busy.
    fn hundred(&self, small: &Crowd) -> Crowd {
        Crowd {
            groups: Crowd::published(25, 1.0),
            vfs: 25,
            cores: 6,
            interval_ms: 250,
            hold_ms: 250,
            warm_s: 5.0,
            seconds: 60.0,
            ..small.clone()
        }
    }
}

/// Runs it.
///
/// # Errors
/// [`BenchError`]: no manager could be had, the modelled device's drivers are not built,
/// or leases did not move.
pub fn leases(at: &Where, plan: &LeasesPlan) -> Result<LeasesReport> {
    let wants = |e| plan.experiments.contains(&e);
    let machine = Machine::collect();
    let pins = pin::Plan::new(at.pin && plan.real);
    let _pinned = pin::Pinned::to(pins.caller());
    let settings = Settings {
        scale: plan.scale,
        repeats: plan.repeats,
        pinning: pins.words(),
        ..Settings::default()
    }
    .with("seed", plan.seed);
    let mut report = LeasesReport::new(machine, settings);
    let (mut groups, mut starvation, mut worth) = (plan.groups(), plan.starvation(), plan.worth());
    if plan.real {
        if wants(Experiment::Gain) {
            gain::gain(at, plan, &mut report)?;
        }
        if wants(Experiment::Switch) {
            switch::switch(at, plan, &mut report)?;
        }
        if [Experiment::Groups, Experiment::Starvation, Experiment::Worth].into_iter().any(wants) {
            let added =
                report.of(Experiment::Switch).filter_map(|r| r.added_p50_ns).collect::<Vec<_>>();
            groups.latencies.switch_ns = stats::median(&added).unwrap_or(SWITCH_NS);
            let latencies = crowds::calibrate(at, &groups)?;
            for crowd in [&mut groups, &mut starvation, &mut worth] {
                crowd.latencies = latencies;
            }
            report.settings = report.settings.with("one_client_alone", words(&latencies));
        }
    }
    for (experiment, crowd, policies) in [
        (Experiment::Groups, &groups, &GROUPS[..]),
        (Experiment::Starvation, &starvation, &OTHERS[..]),
        (Experiment::Worth, &worth, &OTHERS[..]),
    ] {
        if !wants(experiment) {
            continue;
        }
        if plan.real {
            crowds::run(at, experiment, crowd, policies, plan.repeats, &mut report)?;
        }
        crowds::simulated(experiment, crowd, policies, &mut report)?;
        if experiment == Experiment::Groups {
            crowds::simulated(experiment, &plan.hundred(crowd), policies, &mut report)?;
        }
    }
    if report.rows.is_empty() {
        return Err(BenchError::Options(
            "gain and switch are measured with real clients only: leave --simulated out, or name groups, starvation or worth".into(),
        ));
    }
    report.finish();
    Ok(report)
}

fn words(l: &Latencies) -> String {
    let us = |ns: f64| (ns / 1e3).round();
    format!(
        "software {} + {} µs, VF {} + {} µs, switch {} µs",
        us(l.software_ns),
        us(l.calling_ns.0),
        us(l.hardware_ns),
        us(l.calling_ns.1),
        us(l.switch_ns)
    )
}
