//! Direct links: testpmd at both ends, over rings that both share, and by an Open vSwitch with DPDK between
//! two ports, turn by turn. The path of frames alone: nobody makes or withdraws a link here.

use super::PortsRun;
use super::rounds::{Memory, comes_up};
use crate::lab::{
    OpenVSwitch, Plan, Testpmd, TestpmdSpec, cpu_time, dpdk_driver, openvswitch, pin, taken_per_s,
    testpmd,
};
use crate::method::{Pair, SLICE, Watch};
use crate::report::checks::FRAME_BYTES;
use crate::report::{Machine, PortsFigure, PortsReport, PortsRow, Settings};
use crate::runs::progress;
use crate::{BenchError, Result};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Seconds of a run that count.
const SECONDS: u32 = 3;
/// Ends, and the switch's thread.
const SPINNING: usize = 3;

/// How it is run.
#[derive(Clone, Debug)]
pub struct LinksPlan {
    /// How often each way has its turn.
    pub rounds: u32,
    /// Whether each thread gets a processor of its own, where there are enough.
    pub pin: bool,
    /// The DPDK driver of ports; none: that of this checkout or installation.
    pub dpdk_driver: Option<PathBuf>,
}

/// What one turn came to.
#[derive(Clone, Copy)]
struct LinkTurn {
    /// Frames a second that the receivers took.
    per_s: f64,
    /// Frames for each second of a processor: of both ends, and of the switch.
    per_cpu_s: f64,
}

/// Runs it: two programs of DPDK at a time, and a switch that runs all the time. No manager and no guest.
///
/// # Errors
/// [`BenchError`]: testpmd, Open vSwitch or the driver is not there, or does not do its part.
pub fn links(plan: &LinksPlan) -> Result<PortsReport> {
    let machine = Machine::collect();
    let pins = Plan::new(plan.pin);
    let stage = LinkStage::new(plan, &pins)?;
    let mut rows = Vec::new();
    for both_ways in [false, true] {
        for bytes in FRAME_BYTES {
            rows.extend(stage.rows(plan.rounds, bytes, both_ways)?);
        }
    }
    let processors = machine.cores_usable.unwrap_or(1);
    let rows = rows.into_iter().map(|row| row.on(processors)).collect();
    let settings = Settings { repeats: plan.rounds, pinning: pins.words(), ..Settings::default() };
    Ok(PortsReport { machine, settings: settings.with("seconds", SECONDS), rows })
}

struct LinkStage {
    program: PathBuf,
    driver: PathBuf,
    folder: TempDir,
    switch: OpenVSwitch,
    /// The processors of each end over a link, and by the switch.
    direct: [Vec<usize>; 2],
    by_switch: [Vec<usize>; 2],
    watch: Watch,
}

impl LinkStage {
    fn new(plan: &LinksPlan, pins: &Plan) -> Result<Self> {
        let missing = |what: &str| BenchError::Options(format!("{what} is not installed"));
        let program = testpmd().ok_or_else(|| missing("dpdk-testpmd (Debian: dpdk)"))?;
        let programs = openvswitch().ok_or_else(|| {
            missing("ovs-vswitchd with DPDK (Debian: openvswitch-switch-dpdk; packaging/ovs-dpdk.sh unpacks it to a folder for PATH)")
        })?;
        let own = std::env::current_exe().unwrap_or_default();
        let driver = dpdk_driver(plan.dpdk_driver.as_deref(), &own).map_err(BenchError::Options)?;
        let folder = tempfile::tempdir().map_err(|e| BenchError::Switch(e.to_string()))?;
        let direct = [pins.caller(), pins.service()].map(PortsRun::cpus);
        let third = pin::allowed().into_iter().find(|cpu| !pins.both().contains(cpu));
        // Where there is no third processor, the ends share what the switch leaves.
        let (polls_on, by_switch) = match third.filter(|_| plan.pin) {
            Some(cpu) => (cpu, direct.clone()),
            None => (pins.service().unwrap_or_default(), [pin::allowed(), pin::allowed()]),
        };
        let switch = OpenVSwitch::start(&programs, &driver, polls_on)?;
        let watch = Watch::new(&pins.both(), []);
        Ok(LinkStage { program, driver, folder, switch, direct, by_switch, watch })
    }

    /// The rows of one size: frames a second, and for the same processor time.
    fn rows(&self, rounds: u32, bytes: u32, both_ways: bool) -> Result<[PortsRow; 2]> {
        let mut pairs: [Vec<Pair>; 2] = Default::default();
        let way = if both_ways { "both ways" } else { "one way" };
        for round in 0..rounds {
            progress(format_args!("links: {bytes} bytes, {way}, round {} of {rounds}", round + 1));
            let before = self.watch.marks();
            let from = Instant::now();
            // Each begins in turns: what drifts hits both alike.
            let first = round % 2 == 0;
            let one = self.turn(first, bytes, both_ways, round)?;
            let other = self.turn(!first, bytes, both_ways, round)?;
            let disturbed = self.watch.marks().since(&before).spoils(from.elapsed());
            let (own, base) = if first { (one, other) } else { (other, one) };
            let pair =
                |of: fn(&LinkTurn) -> f64| Pair { figure: of(&own), base: of(&base), disturbed };
            pairs[0].push(pair(|b| b.per_s));
            pairs[1].push(pair(|b| b.per_cpu_s));
        }
        let figures = if both_ways {
            [PortsFigure::LinkBothWays, PortsFigure::LinkBothWaysCpu]
        } else {
            [PortsFigure::LinkOneWay, PortsFigure::LinkOneWayCpu]
        };
        Ok([0, 1].map(|n| PortsRow::rounds(figures[n], bytes, &pairs[n]).spun(SPINNING as u32)))
    }

    fn turn(&self, direct: bool, bytes: u32, both_ways: bool, round: u32) -> Result<LinkTurn> {
        let way = if direct { "direct" } else { "switch" };
        let name = format!("{way}-{bytes}-{both_ways}-{round}");
        let (devices, _memory) = if direct {
            let memory = Memory::new()?;
            (memory.ends(), vec![memory])
        } else {
            let ports = [Memory::new()?, Memory::new()?];
            let ends = ports.each_ref().map(Memory::ends);
            // Of two devices in one program, each needs a name of its own.
            let second = ends[1][1].replacen("net_vfun0", "net_vfun1", 1);
            self.switch.join(&[ends[0][1].clone(), second])?;
            ([ends[0][0].clone(), ends[1][0].clone()], Vec::from(ports))
        };
        let modes = if both_ways { ["flowgen"; 2] } else { ["rxonly", "txonly"] };
        let cpus = if direct { &self.direct } else { &self.by_switch };
        let start = |n: usize| {
            Testpmd::start(&TestpmdSpec {
                program: &self.program,
                driver: Some(&self.driver),
                folder: self.folder.path(),
                name: &format!("{name}-{n}"),
                device: &devices[n],
                mode: modes[n],
                bytes,
                cpus: &cpus[n],
            })
        };
        let mut first = start(0)?;
        comes_up(&mut first)?;
        let mut second = start(1)?;
        let pids = [Some(first.id()), Some(second.id()), self.switch.id()];
        let used = || pids.iter().flatten().filter_map(|pid| cpu_time(*pid)).sum::<Duration>();
        if both_ways {
            counted(&mut [&mut first, &mut second], used)
        } else {
            counted(&mut [&mut first], used)
        }
    }
}

/// Frames that programs take, when frames came to each.
fn counted(receivers: &mut [&mut Testpmd], used: impl Fn() -> Duration) -> Result<LinkTurn> {
    let until = || Instant::now() + super::rounds::COMES_UP;
    let nothing = |of: &Testpmd| BenchError::Testpmd(format!("no frames came: {}", of.words()));
    for of in receivers.iter_mut() {
        let busy = |line: &str| taken_per_s(line).filter(|&per_s| per_s > 0.0);
        of.await_line(until(), busy)?.ok_or_else(|| nothing(of))?;
    }
    let before = used();
    let mut frames = 0.0;
    for _ in 0..SECONDS {
        for of in receivers.iter_mut() {
            frames += of.await_line(until(), taken_per_s)?.ok_or_else(|| nothing(of))?;
        }
    }
    let spent = (used() - before).as_secs_f64().max(SLICE.as_secs_f64());
    Ok(LinkTurn { per_s: frames / f64::from(SECONDS), per_cpu_s: frames / spent })
}
