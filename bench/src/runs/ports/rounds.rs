//! Rounds with testpmd: one sends and another one receives, by each way in turn.

use super::{PortsPlan, PortsRun};
use crate::error::Doing;
use crate::lab::{Pinned, Plan, Testpmd, TestpmdSpec, dpdk_driver, taken_per_s, testpmd};
use crate::measure::Packets;
use crate::method::{Marks, Pair, Watch};
use crate::report::checks::FRAME_BYTES;
use crate::report::{PortsFigure, PortsRow};
use crate::runs::progress;
use crate::{BenchError, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use vfun_window::memfd;

/// Bytes of a ring, and of a side of a port: the header's page and the ring.
const RING: u64 = 2 << 20;
const SIDE: u64 = RING + 4096;
/// Seconds of a run that count, of which the best is taken. The first in which anything came does
/// not: the other program's start is in it.
const SECONDS: usize = 3;
/// How long a program may take until it has its device, and until frames come.
pub(super) const COMES_UP: Duration = Duration::from_secs(15);

/// Memory of a port: two sides. Devices may be made of it as long as this is there.
pub(super) struct Memory(OwnedFd);

impl Memory {
    pub(super) fn new() -> Result<Self> {
        memfd("vfun-bench-port", 2 * SIDE).doing(|| "no memory for a port".into()).map(Memory)
    }

    /// The devices of both ends.
    pub(super) fn ends(&self) -> [String; 2] {
        let path = format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd());
        [0, SIDE].map(|mine| {
            let theirs = SIDE - mine;
            format!("net_vfun0,path={path},mine={mine},theirs={theirs},ring={RING}")
        })
    }
}

/// Waits until a program has its device.
pub(super) fn comes_up(program: &mut Testpmd) -> Result<()> {
    let is_up = |line: &str| line.starts_with("Port 0: ").then_some(());
    match program.await_line(Instant::now() + COMES_UP, is_up)? {
        Some(()) => Ok(()),
        None => {
            let words = program.words();
            Err(BenchError::Testpmd(format!("its device does not come up: {words}")))
        }
    }
}

/// Each way of a round, and where its figures are.
const RING_ALONE: usize = 0;
const VFUN: usize = 1;
const MEMIF: usize = 2;
const VHOST: usize = 3;
const NAMES: [&str; 4] = ["the ring alone", "net_vfun", "net_memif", "net_vhost"];

/// What the rows compare.
const ROWS: [(PortsFigure, usize, usize); 4] = [
    (PortsFigure::DriverMemif, VFUN, MEMIF),
    (PortsFigure::DriverVhost, VFUN, VHOST),
    (PortsFigure::RingMemif, RING_ALONE, MEMIF),
    (PortsFigure::RingVhost, RING_ALONE, VHOST),
];

/// A second of a run.
#[derive(Clone, Copy)]
struct Second {
    frames: f64,
    /// Whether the kernel counted a disturbance in it.
    disturbed: bool,
}

/// The best of some.
fn best(seconds: &[Second]) -> Option<Second> {
    seconds.iter().copied().max_by(|a, b| a.frames.total_cmp(&b.frames))
}

/// The best second of each way in a round; none where it has failed.
type Brought = [Option<Second>; NAMES.len()];

struct Stage<'a> {
    run: &'a PortsRun,
    pins: &'a Plan,
    program: PathBuf,
    driver: Option<PathBuf>,
    folder: TempDir,
    /// Why a way does not run; it is not tried again.
    failed: [Option<String>; NAMES.len()],
    count: u32,
}

/// The rows of both sizes.
pub(super) fn rows(plan: &PortsPlan, run: &PortsRun, pins: &Plan) -> Result<Vec<PortsRow>> {
    let program = match testpmd() {
        _ if plan.rounds == 0 => return Ok(left_out("--rounds 0")),
        Some(program) => program,
        None => {
            let why = "dpdk-testpmd is not installed (Debian: dpdk and dpdk-dev)";
            progress(format_args!("ports: testpmd is left out: {why}"));
            return Ok(left_out(why));
        }
    };
    let own = std::env::current_exe().unwrap_or_default();
    let driver = dpdk_driver(plan.dpdk_driver.as_deref(), &own);
    let folder = tempfile::Builder::new().prefix("vfun-bench-").tempdir();
    let mut stage = Stage {
        run,
        pins,
        program,
        driver: driver.as_ref().ok().cloned(),
        folder: folder.doing(|| "cannot make a folder for testpmd".into())?,
        failed: [None, None, None, None],
        count: 0,
    };
    if let Err(why) = driver {
        stage.fail(VFUN, why);
    }
    Ok([stage.size::<64>(plan.rounds), stage.size::<1500>(plan.rounds)].concat())
}

fn left_out(why: &str) -> Vec<PortsRow> {
    let of = |bytes| ROWS.map(|(figure, ..)| PortsRow::left_out(figure, bytes, why));
    FRAME_BYTES.into_iter().flat_map(of).collect()
}

/// A row of what was found, or why there is nothing.
fn row(
    (figure, own, base): (PortsFigure, usize, usize),
    bytes: u32,
    found: &[Brought],
    failed: &[Option<String>],
) -> PortsRow {
    let pair = |round: &Brought| {
        let (own, base) = (round[own]?, round[base]?);
        let disturbed = own.disturbed || base.disturbed;
        Some(Pair { figure: own.frames, base: base.frames, disturbed })
    };
    let pairs: Vec<_> = found.iter().filter_map(pair).collect();
    let why = failed[own].as_ref().or(failed[base].as_ref());
    match why.filter(|_| pairs.is_empty()) {
        Some(why) => PortsRow::left_out(figure, bytes, why),
        None => PortsRow::rounds(figure, bytes, &pairs),
    }
}

impl Stage<'_> {
    fn fail(&mut self, way: usize, why: String) {
        progress(format_args!("ports: {} is left out: {why}", NAMES[way]));
        self.failed[way] = Some(why);
    }

    fn size<const N: usize>(&mut self, rounds: u32) -> Vec<PortsRow> {
        let (bytes, mut found) = (N as u32, Vec::new());
        for round in 0..rounds {
            progress(format_args!("ports: testpmd, {N} bytes, round {} of {rounds}", round + 1));
            let mut of_round: Brought = [None; NAMES.len()];
            // Each begins in turns: what drifts hits all alike.
            for step in 0..NAMES.len() {
                let way = (round as usize + step) % NAMES.len();
                if self.failed[way].is_some() {
                    continue;
                }
                let figure = match way {
                    RING_ALONE => self.alone::<N>(),
                    _ => self.both_ends(way, bytes),
                };
                match figure {
                    Ok(second) => of_round[way] = Some(second),
                    Err(e) => self.fail(way, e.to_string()),
                }
            }
            found.push(of_round);
        }
        ROWS.iter().map(|&of| row(of, bytes, &found, &self.failed)).collect()
    }

    /// The best second of the ring between two threads.
    fn alone<const N: usize>(&self) -> Result<Second> {
        let _pinned = Pinned::to(self.pins.caller());
        let mut seconds = Vec::new();
        for _ in 0..SECONDS {
            let timed = Timed::begin(&self.run.watch);
            let frames = self.run.per_s::<Packets<N>>(Duration::from_secs(1))?;
            seconds.push(timed.end(&self.run.watch, frames));
        }
        best(&seconds).ok_or_else(|| BenchError::Testpmd("no second".into()))
    }

    /// The devices of the receiver and of the sender. A port's memory is held open as long as both run.
    fn devices(&self, way: usize) -> Result<([String; 2], Option<Memory>)> {
        let socket = self.socket();
        let at = socket.display();
        match way {
            VFUN => {
                let memory = Memory::new()?;
                Ok((memory.ends(), Some(memory)))
            }
            MEMIF => {
                let end = |role| format!("net_memif0,role={role},socket={at},socket-abstract=no");
                Ok(([end("server"), end("client")], None))
            }
            _ => {
                let ends =
                    [format!("net_vhost0,iface={at}"), format!("net_virtio_user0,path={at}")];
                Ok((ends, None))
            }
        }
    }

    /// Where the ends of a way meet that needs a socket: another one each time.
    fn socket(&self) -> PathBuf {
        self.folder.path().join(format!("{}.sock", self.count))
    }

    /// Has one testpmd send and another one receive: the best second of the receiver.
    fn both_ends(&mut self, way: usize, bytes: u32) -> Result<Second> {
        self.count += 1;
        let (devices, _memory) = self.devices(way)?;
        let start = |end: usize, mode, cpu| {
            Testpmd::start(&TestpmdSpec {
                program: &self.program,
                driver: self.driver.as_deref().filter(|_| way == VFUN),
                folder: self.folder.path(),
                name: &format!("{}-{mode}", self.count),
                devices: &[&devices[end]],
                mode,
                bytes,
                cpus: &PortsRun::cpus(cpu),
            })
        };
        let mut receiver = start(0, "rxonly", self.pins.caller())?;
        comes_up(&mut receiver)?;
        let mut sender = start(1, "txonly", self.pins.service())?;
        let watch = Watch::new(&self.pins.both(), [receiver.id(), sender.id()]);
        best_second(&mut receiver, &mut sender, &watch)
    }
}

/// A second that is watched.
struct Timed(Marks, Instant);

impl Timed {
    fn begin(watch: &Watch) -> Self {
        Timed(watch.marks(), Instant::now())
    }

    fn end(&self, watch: &Watch, frames: f64) -> Second {
        let Timed(before, from) = self;
        let disturbed = watch.marks().since(before).spoils(from.elapsed());
        Second { frames, disturbed }
    }
}

/// Waits for the seconds that count, and gives the best one.
fn best_second(receiver: &mut Testpmd, sender: &mut Testpmd, watch: &Watch) -> Result<Second> {
    let until = Instant::now() + COMES_UP + Duration::from_secs(SECONDS as u64);
    let busy = |line: &str| taken_per_s(line).filter(|&per_s| per_s > 0.0);
    let (mut seen, mut timed) = (Vec::new(), Timed::begin(watch));
    while seen.len() <= SECONDS {
        match receiver.await_line(until, busy)? {
            Some(frames) => {
                seen.push(timed.end(watch, frames));
                timed = Timed::begin(watch);
            }
            None => {
                // It may say why.
                sender.await_line(Instant::now(), |_| None::<()>)?;
                let words = format!("no frames came: {}; {}", receiver.words(), sender.words());
                return Err(BenchError::Testpmd(words));
            }
        }
    }
    best(&seen[1..]).ok_or_else(|| BenchError::Testpmd("no second".into()))
}
