//! The published evaluation of network VFs: simulated with the core of `vfun-nics` where it
//! needs a hundred VMs and a card, measured where this machine can.

mod agents;
mod daemon;
mod decide;
mod floor;
mod moves;
mod qemus;
mod scenes;

use super::{Where, progress};
use crate::Result;
use crate::nics::PacketTimes;
use crate::report::{Machine, NicsExperiment, NicsReport, Settings, published};
use std::time::Duration;

/// How it is run.
#[derive(Clone, Debug)]
pub struct NicsPlan {
    /// The experiments to run.
    pub experiments: Vec<NicsExperiment>,
    /// What packets take, in simulations.
    pub packets: PacketTimes,
    /// Decisions that are timed.
    pub decisions: u32,
    /// How long `vfun-nics` is looked at.
    pub daemon: Duration,
    /// Moves between real guests.
    pub moves: u32,
    /// Whether it is the one of some seconds.
    pub short: bool,
    /// Time that each simulation counts.
    pub simulated: Duration,
}

impl NicsPlan {
    /// The usual one, or a few seconds of each.
    pub fn new(short: bool) -> Self {
        let (paravirtual_ns, vf_ns) = published::NICS_REQUEST_NS;
        let busy_per_s = published::NICS_RATES[3];
        NicsPlan {
            experiments: NicsExperiment::ALL.to_vec(),
            packets: PacketTimes { paravirtual_ns, vf_ns, busy_per_s },
            decisions: if short { 20 } else { 200 },
            daemon: Duration::from_secs(if short { 3 } else { 30 }),
            moves: if short { 4 } else { 20 },
            short,
            simulated: Duration::from_secs(if short { 1_200 } else { 7_200 }),
        }
    }
}

/// Runs it.
///
/// # Errors
/// [`crate::BenchError`]: `vfun-nics` is not there, or does not start.
pub fn nics(at: &Where, plan: &NicsPlan) -> Result<NicsReport> {
    let us = |ns: f64| format!("{} µs", ns / 1e3);
    let p = &plan.packets;
    let settings = Settings::default().with("simulated_seconds", plan.simulated.as_secs()).with(
        "packets",
        format!(
            "parameters: paravirtual {} at {:.0}/s, VF {}, gain in proportion to the rate",
            us(p.paravirtual_ns),
            p.busy_per_s,
            us(p.vf_ns)
        ),
    );
    let daemon = plan.experiments.contains(&NicsExperiment::Daemon);
    let program = daemon.then(|| daemon::program(at)).transpose()?;
    let mut report = NicsReport::new(Machine::collect(), settings);
    for &experiment in &plan.experiments {
        progress(format_args!("nics: {experiment}"));
        match experiment {
            NicsExperiment::Groups => scenes::groups(plan, &mut report),
            NicsExperiment::Rates => scenes::rates(plan, &mut report),
            NicsExperiment::Starvation => scenes::starvation(plan, &mut report),
            NicsExperiment::Liar => scenes::liar(plan, &mut report),
            NicsExperiment::Decision => decide::decision(plan, &mut report),
            NicsExperiment::Daemon => {
                if let Some(program) = &program {
                    daemon::daemon(program, plan, &mut report)?;
                }
            }
            NicsExperiment::Moves => moves::moves(at, plan, &mut report)?,
        }
    }
    Ok(report)
}
