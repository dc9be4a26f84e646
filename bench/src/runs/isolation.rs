//! An innocent client's calls while another one attacks, in turns with the same
//! beside an idle neighbour that keeps as many threads busy: processors are
//! shared either way, so what is left is what the attack does.

use super::{Where, progress};
use crate::error::Doing;
use crate::lab::{Manager, cpu_time, pin};
use crate::report::{IsolationReport, IsolationRow, Machine, Settings, isolation::Turn, stats};
use crate::{BenchError, Result};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vfun::{ConnectOptions, Endpoint, Function};
use vfun_admin::Ask;

/// Names of the two clients: the one that is measured, and the attacker.
const INNOCENT: &str = "bench-innocent";
const ATTACKER: &str = "bench-attacker";
/// The program that attacks; tests build it.
const PROGRAM: &str = "vfun-hostile";
/// Attacks that this experiment has no place for: it has no plain window.
const LEFT_OUT: &[&str] = &["truncate"];
/// From the attacker's start until it is at it.
const BEGINS: Duration = Duration::from_millis(200);
/// How long the host may take to be at rest after a turn.
const RESTS: Duration = Duration::from_secs(8);
/// Most threads of the idle neighbour: more than processors tell nothing.
const THREADS_MOST: u32 = 4;

/// How it is run.
#[derive(Clone, Debug)]
pub struct IsolationPlan {
    /// How often each attack is measured.
    pub repeats: u32,
    /// How long a turn lasts.
    pub load: Duration,
    /// Only these attacks; none: all.
    pub attacks: Vec<String>,
}

struct Lab {
    manager: Manager,
    program: PathBuf,
    echo: Function,
    pins: pin::Plan,
}

/// Its process ends when this goes.
struct Attacker(Child);

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs it, with a manager of its own.
pub fn isolation(at: &Where, plan: &IsolationPlan) -> Result<IsolationReport> {
    let machine = Machine::collect();
    let hostile = at.program_and_folder().1.join(PROGRAM);
    if !hostile.is_file() {
        return Err(BenchError::NoProgram(hostile));
    }
    progress("starting a manager");
    let manager = at.manager(&[INNOCENT, ATTACKER], None, &[])?;
    manager.ask(&Ask::AddFunction {
        manifest: include_str!("../../../services/testdriver/function.toml").into(),
        file: "function.toml".into(),
    })?;
    let session = ConnectOptions::new("innocent")
        .client(INNOCENT)
        .endpoint(Endpoint::Host(Some(manager.host_socket())))
        .connect()?;
    let echo = session.function("echo")?;
    // The innocent client's two sides have a processor each, or chance puts them
    // on one now and then, and that is all that is seen. The rest goes anywhere.
    let pins = pin::Plan::new(true);
    for pid in manager.grants()?.into_iter().filter(|g| g.client == INNOCENT).filter_map(|g| g.pid)
    {
        pin::process(pid, pins.service())?;
    }
    let lab = Lab { manager, program: hostile, echo, pins };
    let attacks = attacks(&lab, plan)?;
    let mut rows = Vec::new();
    for (i, attack) in attacks.iter().enumerate() {
        progress(format_args!("isolation: {attack}, {} of {}", i + 1, attacks.len()));
        rows.push(one(&lab, attack, plan)?);
    }
    let pinning = lab.pins.words();
    let settings = Settings { scale: 1.0, repeats: plan.repeats, pinning, ..Settings::default() }
        .with("load_seconds", plan.load.as_secs_f64());
    Ok(IsolationReport { machine, settings, rows })
}

fn attacks(lab: &Lab, plan: &IsolationPlan) -> Result<Vec<String>> {
    let out = Command::new(&lab.program)
        .args(["--attack", "list"])
        .output()
        .doing(|| format!("cannot run {}", lab.program.display()))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let all: Vec<String> = text
        .lines()
        .filter_map(|l| l.split_whitespace().next())
        .filter(|name| !LEFT_OUT.contains(name))
        .map(str::to_owned)
        .collect();
    if let Some(wrong) = plan.attacks.iter().find(|a| !all.contains(a)) {
        return Err(BenchError::Options(format!(
            "there is no attack '{wrong}': they are {}",
            all.join(", ")
        )));
    }
    Ok(if plan.attacks.is_empty() { all } else { plan.attacks.clone() })
}

fn one(lab: &Lab, attack: &str, plan: &IsolationPlan) -> Result<IsolationRow> {
    let (mut under, mut idle) = (Vec::new(), Vec::new());
    let mut threads = 0;
    for repeat in 0..plan.repeats {
        let seed = repeat.to_string();
        let attacked = |lab: &Lab| turn(lab, &["--attack", attack, "--seed", &seed], plan);
        // The first attack says how many threads are to be busy beside; after
        // that either goes first in turns.
        let early = match repeat % 2 == 0 {
            true => Some(attacked(lab)?),
            false => None,
        };
        if let (0, Some((_, busy))) = (repeat, &early) {
            threads = (busy.round() as u32).clamp(1, THREADS_MOST);
        }
        idle.push(turn(lab, &["--idle", &threads.to_string()], plan)?.0);
        under.push(match early {
            Some(turn) => turn.0,
            None => attacked(lab)?.0,
        });
    }
    Ok(IsolationRow::new(attack, threads, &under, &idle))
}

/// Processes that work for the attacker, and the time they have used.
fn used(lab: &Lab, attacker: u32) -> Result<Duration> {
    let status = lab.manager.status()?;
    let services: Vec<u32> = lab
        .manager
        .grants()?
        .into_iter()
        .filter(|g| g.client == ATTACKER)
        .filter_map(|g| g.pid)
        .collect();
    let mut pids = [services, vec![attacker, status.pid]].concat();
    pids.sort_unstable();
    pids.dedup();
    Ok(pids.into_iter().filter_map(cpu_time).sum())
}

/// A turn, and how many processors the other side used meanwhile.
fn turn(lab: &Lab, words: &[&str], plan: &IsolationPlan) -> Result<(Turn, f64)> {
    rest(lab)?;
    let seconds = (plan.load + Duration::from_secs(5)).as_secs().to_string();
    let child = Command::new(&lab.program)
        .args(words)
        .args(["--seconds", &seconds, "--client", ATTACKER, "--socket"])
        .arg(lab.manager.host_socket())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .doing(|| format!("cannot run {}", lab.program.display()))?;
    let attacker = Attacker(child);
    std::thread::sleep(BEGINS);
    let before = used(lab, attacker.0.id())?;
    let turn = {
        let _pinned = pin::Pinned::to(lab.pins.caller());
        calls(&lab.echo, plan.load)
    };
    let after = used(lab, attacker.0.id())?;
    Ok((turn, after.saturating_sub(before).as_secs_f64() / plan.load.as_secs_f64()))
}

/// One call after the other, each timed and checked.
fn calls(echo: &Function, load: Duration) -> Turn {
    let (mut times, mut errors) = (Vec::with_capacity(1 << 20), 0);
    let start = Instant::now();
    let mut results = [0; 8];
    for i in 0u64.. {
        let from = Instant::now();
        if from - start > load {
            break;
        }
        let done = echo.call_into(&i.to_le_bytes(), &mut results);
        times.push(from.elapsed().as_nanos() as u64);
        if !matches!(done, Ok(8)) || results != i.to_le_bytes() {
            errors += 1;
        }
    }
    times.sort_unstable();
    let at = |thousandths| stats::percentile(&times, thousandths).unwrap_or(0) as f64;
    Turn { p50: at(500), p99: at(990), calls: times.len() as u64, errors }
}

/// Waits until nothing of the attacker is left.
fn rest(lab: &Lab) -> Result<()> {
    let until = Instant::now() + RESTS;
    loop {
        let status = lab.manager.status()?;
        if status.grants == 1 && status.services == 1 {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(BenchError::Manager(format!(
                "after an attack {} grants and {} services are left",
                status.grants, status.services
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
