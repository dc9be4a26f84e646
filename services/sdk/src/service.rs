//! A service process: serves one client's channels of one vFunction.
//!
//! The manager starts it with a socket as standard input
//! ([`vfun_supervise`]). The main thread talks with the manager and watches
//! deadlines; each channel has a thread, a mapping and a driver state of its
//! own, so that apps share nothing but the process.
//!
//! Per call a channel's thread makes no system call, allocation, fence or
//! clock reading. It rings the app only if the app has declared that it
//! sleeps, and when nothing comes it spins for a while, then sleeps itself.

mod bond;
mod buffers;
mod calls;
mod channel;
mod control;
mod engine;
mod exit;
mod fault;
mod filter;
mod floor;
mod held;
mod idle;
mod log;
mod manager_link;
mod meter;
mod porter;
mod pulse;
mod queues;
mod standby;
mod stepped;
mod throttle;
mod watch;

pub use bond::{Bonds, NO_ORDER};
pub use engine::{Engine, Serve};
pub use log::line as log_line;
pub use manager_link::ManagerLink;
pub use queues::{Port, ProgramBell, QueuesChannel, QueuesCounts, QueuesHeld, RungWaiter};
#[doc(hidden)]
pub use stepped::Stepped;

use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use vfun_supervise::{Driver, EXIT_CANNOT_START, FromService, Start, ToService};

/// What stands behind the channels.
pub(crate) enum Backend<E> {
    /// Calls, computed by an engine.
    Calls(E),
    /// Nothing: raw lines, for what a call costs at the least.
    Floor,
}

/// Serves until told to stop; `load` makes the engine that the manager's
/// first message asks for, or says in a sentence why it cannot.
pub fn run<E: Engine>(load: impl FnOnce(&Start) -> Result<E, String>) -> ExitCode {
    match StartingService::receive() {
        Ok(begun) => begun.serve(|start, _| load(start)),
        Err(code) => code,
    }
}

/// A service that knows what it is to serve, and has not begun to load it.
pub struct StartingService {
    start: Start,
    fds: Vec<OwnedFd>,
}

/// What an engine may be made with, besides what the first message says.
pub struct EngineInputs {
    /// Descriptors that came with the first message.
    pub fds: Vec<OwnedFd>,
    /// The way to the manager.
    pub manager: ManagerLink,
}

impl StartingService {
    /// Waits for the manager's first message. An error is the process's exit
    /// status: what there is to say is said.
    pub fn receive() -> Result<Self, ExitCode> {
        vfun_wait::clock::start();
        exit::abort_on_panic();
        exit::tell_of_aborts();
        exit::outlive_a_full_log();
        exit::no_core_dumps();
        exit::own_session();
        match vfun_supervise::receive::<ToService>(std::io::stdin().as_fd()) {
            Ok(Some((ToService::Start(start), fds))) => Ok(StartingService { start, fds }),
            Ok(Some(_)) => Err(cannot_start("the manager's first message was not Start")),
            Ok(None) => Err(cannot_start("the manager went away before it said what to serve")),
            Err(e) => Err(cannot_start(&format!(
                "no manager on standard input ({e}): vfund starts this program"
            ))),
        }
    }

    /// What it is to serve.
    pub fn driver(&self) -> &Driver {
        &self.start.driver
    }

    /// Serves until told to stop; see [`run`].
    pub fn serve<E: Engine>(
        self,
        load: impl FnOnce(&Start, EngineInputs) -> Result<E, String>,
    ) -> ExitCode {
        let StartingService { start, fds } = self;
        log::name(&start.client, &start.function);
        fault::at(&start.settings, "started");
        if let Err(e) = pin(&start.cpus) {
            return fail(format!("cannot run on processors {:?}: {e}", start.cpus));
        }
        // Whoever stands by for a channel is to run as soon as its turn comes. A
        // kernel that refuses only makes that later.
        let _ = vfun_window::ask_for_slices(vfun_window::SHORTEST_SLICE);
        let alarm = match watch::Alarm::new() {
            Ok(alarm) => Arc::new(alarm),
            Err(e) => return fail(format!("no bell for its watch: {e}")),
        };
        let (manager, questions) = ManagerLink::new(alarm.clone());
        if let Err(e) = filter::install(&start.filters.loading) {
            return fail(format!("its list of system calls cannot be installed: {e}"));
        }
        let work = match &start.driver {
            Driver::Floor => Backend::Floor,
            _ => {
                // Whoever waits for one that takes long is pointed to this log.
                log::line(format_args!("loads its driver"));
                match load(&start, EngineInputs { fds, manager }) {
                    Ok(engine) => Backend::Calls(engine),
                    Err(reason) => return fail(reason),
                }
            }
        };
        if let Err(e) = filter::install(&start.filters.serving) {
            return fail(format!("its second list of system calls cannot be installed: {e}"));
        }
        fault::at(&start.settings, "loaded");
        control::serve(start, work, alarm, questions)
    }
}

fn cannot_start(why: &str) -> ExitCode {
    log::line(format_args!("{why}"));
    ExitCode::from(EXIT_CANNOT_START as u8)
}

fn fail(reason: String) -> ExitCode {
    let code = cannot_start(&reason);
    // If the manager is gone too, the log has the reason.
    let _ = vfun_supervise::send(std::io::stdin().as_fd(), &FromService::Failed { reason }, &[]);
    code
}

fn pin(cpus: &[usize]) -> std::io::Result<()> {
    use rustix::thread::CpuSet;
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(std::io::Error::from(std::io::ErrorKind::InvalidInput));
        }
        set.set(cpu);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}
