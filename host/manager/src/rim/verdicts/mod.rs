//! The process that watches switches (`vfun-links`): it is told which ports to watch, and says
//! which of them a switch joins point to point. What follows from that is decided in
//! [`links`](super::links). It also plugs windows of two VMs into VMs that run.
//!
//! - [`watched`]: the ports, and what of them was passed on. [`plugs`]: windows on their way.

mod plugs;
mod watched;

use super::helpers::Helper;
use super::links::PortVerdict;
use super::packets::{HelperSaid, ToHelper, Untold, hear};
use super::room::Room;
use super::switchports::devargs;
use super::{Daemon, Kind};
use crate::core::catalog::Catalog;
use crate::core::limits::{HELPER_HANGS_MS, LINKS_A_TURN, LINKS_SILENT_MS, SWITCH_FOLDER_CHARS};
pub(super) use plugs::PlugOf;
use plugs::PlugOrders;
use rustix::event::epoll;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vfun_admin::VmName;
use vfun_admin::links::VmmAt;
use vfun_admin::window::device_id;
use vfun_hostnet::switch::Switch;
use vfun_links::passed::Passed;
use vfun_links::relay::{
    FromLinks, PACKET_BYTES, PlugAt, PlugOrder, PlugOutcome, PlugWay, SaidVerdict, SwitchBridge,
    ToLinks, VerdictNews, WatchedPort,
};
use vfun_rim::methods::*;
use watched::{Taken, WatchedPorts};

/// What the helper is called, for messages.
const WHAT: &str = "process that watches switches";

/// The manager's part in watching switches.
#[derive(Default)]
pub(super) struct Verdicts {
    ports: WatchedPorts,
    plugs: PlugOrders,
    /// What manifests declare was looked at since it changed.
    followed: bool,
    /// The socket to the process, while it runs.
    socket: Option<OwnedFd>,
    room: Room,
    /// When it last said something, ms.
    heard: u64,
}

impl Verdicts {
    /// The manifests changed.
    pub fn catalog_changed(&mut self) {
        self.followed = false;
    }

    /// It has said nothing for so long that it hangs.
    fn is_silent(&self, now: u64) -> bool {
        self.socket.is_some() && now.saturating_sub(self.heard) >= LINKS_SILENT_MS
    }
}

/// What the process is still to be told: first what VMs wait for.
struct UntoldWords<'a> {
    plugs: &'a mut PlugOrders,
    ports: &'a mut WatchedPorts,
}

impl Untold for UntoldWords<'_> {
    type Word = ToLinks;
    fn next(&mut self, _: u64) -> Option<ToLinks> {
        self.plugs.next().or_else(|| self.ports.next())
    }
    fn told(&mut self, _: u64, word: &ToLinks) {
        match word {
            ToLinks::Plug(_) => self.plugs.told(),
            ToLinks::Port(_) => self.ports.told(),
        }
    }
}

/// The ports that a switch with DPDK has in a bridge, by their names on the host. Of two with one
/// name the first one has it, as the switch does.
fn declared(catalog: &Catalog, switch: &Switch, socket: &Path) -> BTreeMap<String, WatchedPort> {
    let mut all = BTreeMap::new();
    for (.., port) in catalog.dpdk_ports() {
        let Some(bridge) = port.switch.clone() else { continue };
        // One that is longer than this is no address of a socket; the verdict says so.
        let run: String =
            switch.folder().to_string_lossy().chars().take(SWITCH_FOLDER_CHARS).collect();
        let run = PathBuf::from(run);
        let watched = WatchedPort {
            number: 0,
            switch: SwitchBridge { database: run.join("db.sock"), run, bridge },
            kind: "dpdk".into(),
            devargs: Some(devargs(socket, &port.tap)),
            mtu: port.mtu.into(),
        };
        all.entry(port.tap.clone()).or_insert(watched);
    }
    all
}

/// A reason for people, in which nothing moves a cursor.
fn plain(why: &str) -> String {
    why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

trait ForPeople {
    /// The same with a reason for people.
    fn plain(self) -> Self;
}

impl ForPeople for PlugOutcome {
    fn plain(self) -> Self {
        match self {
            PlugOutcome::Done | PlugOutcome::Already => self,
            PlugOutcome::Failed(why) => PlugOutcome::Failed(plain(&why)),
            PlugOutcome::Unreachable(why) => PlugOutcome::Unreachable(plain(&why)),
            PlugOutcome::Kept(why) => PlugOutcome::Kept(plain(&why)),
        }
    }
}

impl Daemon {
    /// The process that watches switches, to be started.
    pub(super) fn links_helper(&self) -> Helper {
        Helper::with_packets(WHAT, &self.config.links_program, vec![], Kind::LinksSocket)
    }

    /// The process was started, with this socket, which is listened to.
    pub(super) fn links_started(&mut self, socket: OwnedFd) {
        let now = self.now();
        if let Some(verdicts) = &mut self.verdicts {
            verdicts.heard = now;
            verdicts.ports.tell_all();
            verdicts.socket = Some(socket);
            verdicts.room = Room::default();
        }
    }

    /// The process is gone.
    pub(super) fn links_ended(&mut self) {
        if let Some(socket) = self.verdicts.as_mut().and_then(|v| v.socket.take()) {
            let _ = epoll::delete(&self.epoll, socket);
            self.no_verdicts(&format!("the {WHAT} ended"));
            let orders = self.verdicts.as_mut().map(|v| v.plugs.end()).unwrap_or_default();
            for of in orders {
                let why = format!("the {WHAT} ended meanwhile: it may have been done");
                // Not "unreachable": its QEMU may be there, and have the window.
                self.window_plugged(of, PlugOutcome::Failed(why));
            }
        }
    }

    /// Its socket has something to say, or room again.
    pub(super) fn hear_links(&mut self) {
        // A verdict is about the ports that are declared now.
        self.see_watched_ports();
        let now = self.now();
        for turn in 0..LINKS_A_TURN {
            let Some(verdicts) = &mut self.verdicts else { return };
            if turn == 0 {
                verdicts.room.try_again();
            }
            let Some(socket) = &verdicts.socket else { return };
            let taken = match hear(socket, PACKET_BYTES, "word of it") {
                HelperSaid::Word(FromLinks::Verdict(news)) => verdicts.ports.take(news),
                HelperSaid::Word(FromLinks::Plugged(answer)) => {
                    verdicts.plugs.answer(&answer).map(|of| Taken::Plugged(of, answer.outcome))
                }
                HelperSaid::Word(FromLinks::Alive) => Ok(Taken::Old),
                HelperSaid::Nothing => return,
                HelperSaid::Broken(why) => Err(why),
            };
            verdicts.heard = now;
            match taken {
                Ok(Taken::Verdict(news)) => self.take_verdict(news),
                Ok(Taken::Plugged(of, outcome)) => self.window_plugged(of, outcome.plain()),
                Ok(Taken::Old) => {}
                Err(why) => return self.links_broken(&why),
            }
        }
    }

    fn take_verdict(&mut self, news: VerdictNews) {
        let port = news.from.as_str();
        let nobody_says = || Passed::NotAttributable("nobody says which rules they pass".into());
        let passed = news.passed.unwrap_or_else(nobody_says);
        let verdict = match news.verdict {
            SaidVerdict::JoinedTo(to) => PortVerdict::Joined { to, passed },
            SaidVerdict::Why(why) => PortVerdict::Not { why: plain(&why) },
        };
        // Rules of a switch may change all the time: the log need not have each change.
        let was = matches!(self.verdict_of(port), Some(PortVerdict::Joined { .. }));
        let is = matches!(verdict, PortVerdict::Joined { .. });
        if (was || is) && self.may_say(&format!("port {port}")) {
            match &verdict {
                PortVerdict::Joined { to, .. } => {
                    tracing::info!("port {port}: the switch sends all its frames to {to}");
                }
                PortVerdict::Not { why } => {
                    tracing::info!("port {port}: its frames need the switch: {why}");
                }
            }
        }
        self.heard_verdict(port, verdict);
    }

    /// It speaks nonsense, or hears nothing for too long: it is ended, and started again.
    fn links_broken(&mut self, why: &str) {
        tracing::error!("the {WHAT} is ended: {why}");
        self.links_ended();
        self.kill_helper(&self.config.links_program.clone());
    }

    fn see_watched_ports(&mut self) {
        let Some(verdicts) = self.verdicts.as_mut().filter(|v| !v.followed) else { return };
        verdicts.followed = true;
        let (catalog, socket) = (self.rim.core.catalog(), self.tree.ports_socket());
        let changed = verdicts.ports.declare(declared(catalog, &Switch::of_host(), &socket));
        for port in changed {
            let why = "the port is another one now, or is gone".to_owned();
            self.heard_verdict(&port, PortVerdict::Not { why });
            if self.verdicts.as_ref().is_some_and(|v| !v.ports.has(&port)) {
                self.forget_verdict(&port);
            }
        }
    }

    /// Passes on which ports are to be watched.
    pub(super) fn look_after_verdicts(&mut self) {
        self.see_watched_ports();
        if let Err(e) = self.pass_ports_on() {
            return self.links_broken(&format!("its socket failed: {e}"));
        }
        let now = self.now();
        if self.verdicts.as_ref().is_some_and(|v| v.socket.is_some() && v.room.hangs(now)) {
            let s = HELPER_HANGS_MS / 1000;
            return self.links_broken(&format!("for {s} s it took nothing of what it was told"));
        }
        if self.verdicts.as_ref().is_some_and(|v| v.is_silent(now)) {
            let s = LINKS_SILENT_MS / 1000;
            self.links_broken(&format!("for {s} s it said nothing"));
        }
    }

    fn pass_ports_on(&mut self) -> Result<(), Errno> {
        let now = self.now();
        let Some(verdicts) = &mut self.verdicts else { return Ok(()) };
        let Verdicts { ports, plugs, socket, room, .. } = verdicts;
        let Some(socket) = socket.as_ref().filter(|_| !room.is_full()) else {
            return Ok(());
        };
        let to = ToHelper { socket, room, epoll: &self.epoll, kind: Kind::LinksSocket };
        to.pass_on(&mut UntoldWords { plugs, ports }, LINKS_A_TURN, now)
    }

    /// Has a further window plugged into a VM that runs, or taken out of it. What came of it is
    /// told later, by `window_plugged`.
    ///
    /// # Errors
    /// A sentence: it cannot even be tried.
    pub(super) fn order_plug(
        &mut self,
        vm: &VmName,
        window: &str,
        way: PlugWay,
    ) -> Result<(), String> {
        let client = self.rim.core.catalog().client(&vm.client);
        let vmm = match client.and_then(|c| c.vmms.get(&vm.vm)) {
            Some(VmmAt::Qmp(socket)) => PlugAt::Qmp(socket.clone()),
            Some(VmmAt::Libvirt(domain)) => PlugAt::Libvirt(domain.clone()),
            None => {
                return Err(format!(
                    "nobody says how VM {vm} is reached: write qmp = \"SOCKET\" or libvirt = \"DOMAIN\" into its client's manifest"
                ));
            }
        };
        let running = self.verdicts.as_mut().filter(|v| v.socket.is_some());
        let running = running.ok_or_else(|| format!("the {WHAT} does not run (vfund --links)"))?;
        let of = PlugOf { vm: vm.clone(), window: window.to_owned(), goes_in: way != PlugWay::Out };
        running.plugs.begin(of, PlugOrder { order: 0, vmm, id: device_id(window), way })
    }

    /// How long until more may be passed on, or a process that does not hear hangs.
    pub(super) fn verdicts_patience(&self) -> Option<Duration> {
        let verdicts = self.verdicts.as_ref()?;
        if !verdicts.followed {
            return Some(Duration::ZERO);
        }
        verdicts.socket.as_ref()?;
        if (verdicts.ports.waits() || verdicts.plugs.waits()) && !verdicts.room.is_full() {
            return Some(Duration::ZERO);
        }
        let silent = (verdicts.heard + LINKS_SILENT_MS).saturating_sub(self.now());
        let room = verdicts.room.patience(self.now()).unwrap_or(silent);
        Some(Duration::from_millis(room.min(silent)))
    }

    /// What people are told who ask how the manager is.
    pub(super) fn links_trouble(&self) -> Option<String> {
        let verdicts = self.verdicts.as_ref()?;
        if let Some(ms) = verdicts.socket.as_ref().and_then(|_| verdicts.room.stuck(self.now())) {
            return Some(format!(
                "the {WHAT} (vfun-links) has heard nothing for {} s: ports that are new get no direct links; after {} s it is ended and started again",
                ms / 1000,
                HELPER_HANGS_MS / 1000
            ));
        }
        let stopped = !self.helper_runs(&self.config.links_program);
        stopped.then(|| {
            format!("the {WHAT} (vfun-links) does not run: no frames take direct links, and it is started again; the manager's log says why it ended")
        })
    }
}
