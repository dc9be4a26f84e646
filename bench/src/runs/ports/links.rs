//! Direct links: testpmd at both ends, over rings that both share, and by an Open vSwitch with DPDK between
//! two ports, turn by turn. The path of frames alone: nobody makes or withdraws a link here.

use super::PortsRun;
use super::rounds::{COMES_UP, Memory, comes_up};
use crate::lab::{
    OpenVSwitch, Plan, Testpmd, TestpmdSpec, dpdk_driver, openvswitch, pin, taken_per_s, testpmd,
};
use crate::method::{Pair, Watch};
use crate::report::checks::FRAME_BYTES;
use crate::report::{Machine, PortsFigure, PortsReport, PortsRow, Settings};
use crate::runs::progress;
use crate::{BenchError, Result};
use std::path::PathBuf;
use std::time::Instant;
use tempfile::TempDir;

/// Seconds of a run that count.
const SECONDS: u32 = 3;
/// Threads that poll: both ends, and the switch's. Where there are fewer processors, both ends by the switch
/// are one thread: programs that wait for a processor would be measured otherwise.
const POLLING: usize = 3;

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

/// Runs it: programs of DPDK, and a switch that runs all the time. No manager and no guest.
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
            rows.push(stage.row(plan.rounds, bytes, both_ways)?);
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
    /// The processors of each end.
    cpus: [Vec<usize>; 2],
    /// Both ends by the switch are one program.
    is_narrow: bool,
    watch: Watch,
}

/// A program at one end, or at both.
struct EndSpec<'a> {
    devices: Vec<String>,
    mode: &'a str,
    cpus: &'a [usize],
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
        let cpus = [pins.caller(), pins.service()].map(PortsRun::cpus);
        let all = pin::allowed();
        let third = all.iter().find(|cpu| !pins.both().contains(cpu));
        let polls_on = third.copied().or(pins.service()).unwrap_or_default();
        let switch = OpenVSwitch::start(&programs, &driver, polls_on)?;
        let (is_narrow, watch) = (all.len() < POLLING, Watch::new(&pins.both(), []));
        Ok(LinkStage { program, driver, folder, switch, cpus, is_narrow, watch })
    }

    /// The row of one size: frames a second over a link, and by the switch.
    fn row(&self, rounds: u32, bytes: u32, both_ways: bool) -> Result<PortsRow> {
        let (figure, way) = match both_ways {
            false => (PortsFigure::LinkOneWay, "one way"),
            true => (PortsFigure::LinkBothWays, "both ways"),
        };
        if self.is_narrow && !both_ways {
            let why = format!("it needs {POLLING} processors, one for each thread that polls");
            return Ok(PortsRow::left_out(figure, bytes, &why));
        }
        let mut pairs = Vec::new();
        for round in 0..rounds {
            progress(format_args!("links: {bytes} bytes, {way}, round {} of {rounds}", round + 1));
            let (before, from) = (self.watch.marks(), Instant::now());
            // Each begins in turns: what drifts hits both alike.
            let first = round % 2 == 0;
            let one = self.turn(first, bytes, both_ways, round)?;
            let other = self.turn(!first, bytes, both_ways, round)?;
            let disturbed = self.watch.marks().since(&before).spoils(from.elapsed());
            let (figure, base) = if first { (one, other) } else { (other, one) };
            pairs.push(Pair { figure, base, disturbed });
        }
        let polling = if self.is_narrow { POLLING - 1 } else { POLLING };
        Ok(PortsRow::rounds(figure, bytes, &pairs).spun(polling as u32))
    }

    /// Frames a second that arrive.
    fn turn(&self, direct: bool, bytes: u32, both_ways: bool, round: u32) -> Result<f64> {
        let way = if direct { "direct" } else { "switch" };
        let name = format!("{way}-{bytes}-{both_ways}-{round}");
        let memory = [Memory::new()?, Memory::new()?];
        let [a, b] = memory.each_ref().map(Memory::ends);
        // Of two devices in one program, each needs a name of its own.
        let second = |device: &str| device.replacen("net_vfun0", "net_vfun1", 1);
        let modes = if both_ways { ["flowgen"; 2] } else { ["rxonly", "txonly"] };
        let end = |n: usize, devices| EndSpec { devices, mode: modes[n], cpus: &self.cpus[n] };
        let [near, far] = a;
        let ends = if direct {
            vec![end(0, vec![near]), end(1, vec![far])]
        } else {
            let [last, switched] = b;
            self.switch.join(&[far, second(&switched)])?;
            match self.is_narrow {
                true => vec![end(0, vec![near, second(&last)])],
                false => vec![end(0, vec![near]), end(1, vec![last])],
            }
        };
        let mut running = Vec::new();
        for (n, end) in ends.iter().enumerate() {
            let mut program = Testpmd::start(&TestpmdSpec {
                program: &self.program,
                driver: Some(&self.driver),
                folder: self.folder.path(),
                name: &format!("{name}-{n}"),
                devices: &end.devices.iter().map(String::as_str).collect::<Vec<_>>(),
                mode: end.mode,
                bytes,
                cpus: end.cpus,
            })?;
            comes_up(&mut program)?;
            running.push((program, end.devices.len()));
        }
        let receivers = if both_ways { running.len() } else { 1 };
        counted(&mut running[..receivers])
    }
}

/// Frames a second that programs with so many ports take, when frames came to each.
fn counted(receivers: &mut [(Testpmd, usize)]) -> Result<f64> {
    let until = || Instant::now() + COMES_UP;
    let nothing = |of: &Testpmd| BenchError::Testpmd(format!("no frames came: {}", of.words()));
    for (of, _) in receivers.iter_mut() {
        let busy = |line: &str| taken_per_s(line).filter(|&per_s| per_s > 0.0);
        of.await_line(until(), busy)?.ok_or_else(|| nothing(of))?;
    }
    let mut frames = 0.0;
    for _ in 0..SECONDS {
        for (of, ports) in receivers.iter_mut() {
            for _ in 0..*ports {
                frames += of.await_line(until(), taken_per_s)?.ok_or_else(|| nothing(of))?;
            }
        }
    }
    Ok(frames / f64::from(SECONDS))
}
