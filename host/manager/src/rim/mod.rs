//! Around the state machine: one thread, one epoll, nothing that blocks for long.
//! What is done about events is in `vfun-rim`, which the simulation runs, too; this
//! is the system under it, and what people ask.
//!
//! - `again`: the program on disk takes this one's place.
//! - `answers`: the admin interface. `policy`: what it says of policy, tokens and the audit log.
//! - `attach`: which programs on the host get a window. `wiring`: how windows get
//!   to programs and VMs, a file each transport.
//! - `catalogs`: manifests on disk become what is offered. `clients`: clients and
//!   their VMs come and go.
//! - `conditions`: what a manager needs before it can serve. `foresee`: the same for
//!   people who ask before they start one. `setup`: the start.
//! - `drains`: nothing new is granted.
//! - `folders`: what services wrote is counted.
//! - `further`: further windows of VMs.
//! - `helpers`: processes that stand between the manager and the network.
//! - `jails`: services are started in their sandbox.
//! - `keep`: the connection to the keeper, what outlives this manager in it, and what it
//!   gives back.
//! - `leases`: who holds which VF, for people.
//! - `leftovers`: what is left of services that are over.
//! - `links`: frames between two VMs' ports go past the switch.
//! - `logs`: services' logs are cut.
//! - `lost`: windows whose pages or files went away.
//! - `nics`: agents in VMs and the process that lends network VFs.
//! - `packets`: words to helpers and from them.
//! - `progress`: calls are looked at in windows.
//! - `records`: what became of grants is put on record.
//! - `room`: whether a helper hears what it is told.
//! - `submissions`: what clients wish for of their own modules. `modules`: what is kept of
//!   these.
//! - `switches`: ports whose memory a switch with DPDK has.
//! - `switchports`: such ports in Open vSwitch. `ovs`: how that is asked.
//! - `system`: what `vfun-rim` needs of it.
//! - `threads`: how many threads services have, and their priority.
//! - `verdicts`: the process that watches which ports switches join.

mod again;
mod answers;
mod attach;
mod catalogs;
mod clients;
mod conditions;
mod drains;
mod folders;
mod foresee;
mod further;
mod helpers;
mod jails;
mod keep;
mod leases;
mod leftovers;
mod links;
mod logs;
mod lost;
mod modules;
mod nics;
mod ovs;
mod packets;
mod policy;
mod ports;
mod progress;
mod rdma;
mod records;
mod room;
mod setup;
mod shared_memory;
mod submissions;
mod switches;
mod switchports;
mod system;
mod taps;
mod threads;
mod verdicts;
mod wiring;

pub use again::CHECK;
pub use foresee::Foreseen;
pub use setup::{Config, StartError, TlsFiles};

use crate::core::ServiceId;
use crate::core::catalog::VmId;
use crate::fair::Rates;
use crate::limits::*;
use crate::process::Process;
use crate::record::Records;
use crate::tree::Tree;
use rustix::event::epoll;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};
use vfun_admin::Transport;
use vfun_keeper::Keeper;
use vfun_rim::Rim;
use vfun_rim::methods::*;

/// What an epoll event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum Kind {
    AdminListener = 1,
    HostListener,
    Admin,
    Pending,
    Peer,
    Bell,
    ServiceSocket,
    ServiceEnd,
    Signal,
    HelperEnd,
    VmListener,
    KeeperEnd,
    Hangup,
    Launch,
    StrayEnd,
    ModuleKept,
    TrialEnd,
    NicsSocket,
    SwitchListener,
    Switch,
    SwitchEnd,
    LinksSocket,
    MadeListener,
}

impl Kind {
    /// Whether somebody comes who has no window yet.
    fn is_of_newcomers(self) -> bool {
        matches!(self, Kind::HostListener | Kind::VmListener | Kind::Pending)
    }
    fn token(self, id: u32) -> epoll::EventData {
        epoll::EventData::new_u64((self as u64) << 32 | u64::from(id))
    }
    fn of(token: u64) -> Option<(Kind, u32)> {
        use Kind::*;
        let all = [
            AdminListener,
            HostListener,
            Admin,
            Pending,
            Peer,
            Bell,
            ServiceSocket,
            ServiceEnd,
            Signal,
            HelperEnd,
            VmListener,
            KeeperEnd,
            Hangup,
            Launch,
            StrayEnd,
            ModuleKept,
            TrialEnd,
            NicsSocket,
            SwitchListener,
            Switch,
            SwitchEnd,
            LinksSocket,
            MadeListener,
        ];
        all.into_iter().find(|k| *k as u64 == token >> 32).map(|k| (k, token as u32))
    }
}

/// The manager, running.
pub struct Daemon {
    config: Config,
    tree: Tree,
    records: Records,
    rim: Rim<Daemon>,
    began: Instant,
    epoll: OwnedFd,
    admin_listener: UnixListener,
    host_listener: UnixListener,
    signals: UnixStream,
    /// Further windows that are declared.
    further: further::Declared,
    /// Locks of windows in files, by the VM's name in these.
    owned: BTreeMap<String, wiring::owner::Owned>,
    /// VMs whose windows were taken down and are to be made again.
    down: Vec<lost::TakenDownVm>,
    /// VMs whose windows' files are no longer those that are mapped.
    replaced: std::collections::BTreeSet<VmId>,
    last_files: Instant,
    last_logs: Instant,
    counts: folders::Counts,
    last_threads: Instant,
    /// What is not on record yet.
    book: records::PendingRecords,
    /// What the start found instead of a database, for people.
    found: Option<String>,
    /// What it was given and goes on without, for people.
    lacks: Vec<String>,
    /// What the keeper is still to be given.
    unheld: std::collections::BTreeSet<keep::UnkeptThing>,
    /// When it was last said that there is no room for descriptors on their way.
    said_full: Option<Instant>,
    /// When another keeper is to be started.
    keeper_due: Option<Instant>,
    /// How fast users get windows.
    attaches: attach::Attaches,
    /// How many connections were looked after.
    newcomers: usize,
    /// How fast VMs connect.
    connects: Rates<VmId>,
    /// Ringers of windows that are gone, and whose these were: some may hang.
    ringers: Vec<(wiring::Owner, std::thread::JoinHandle<()>)>,
    /// Where VMs connect, by the numbers of these sockets.
    vm_sockets: BTreeMap<u32, wiring::ivshmem_doorbell::Socket>,
    /// Services that are being made.
    launching: BTreeMap<ServiceId, jails::Launching>,
    jails: jails::Jails,
    /// Children of the manager that was in this process before, by pid.
    strays: BTreeMap<u32, OwnedFd>,
    /// Last words of services whose driver made a forbidden system call.
    forbidden: BTreeMap<ServiceId, u32>,
    /// Processes told to go, still to be reaped: by pid.
    leaving: Vec<Process>,
    admins: BTreeMap<u32, answers::AdminConnection>,
    pending: BTreeMap<u32, attach::Pending>,
    helpers: Vec<helpers::Helper>,
    /// The tap devices of VMs' ports.
    taps: taps::Taps,
    /// Switches with DPDK that have ports.
    switches: switches::Switches,
    /// Direct links between VMs' ports.
    links: links::Links,
    /// Where it lends network VFs.
    nics: Option<nics::NicsRelay>,
    /// Where it watches switches for direct links.
    verdicts: Option<verdicts::Verdicts>,
    /// Calls that each channel had answered at the last look.
    answered: BTreeMap<vfun_wire::Handle, u64>,
    last_progress: Instant,
    ending: bool,
    /// What clients submitted.
    submissions: modules::Submissions,
    /// What apps may show.
    tokens: crate::tokens::Tokens,
    /// Why the policy file, and the tokens, could not be read.
    policy_fault: Option<String>,
    tokens_fault: Option<String>,
    /// The wall's clock less the core's when tokens were last handed over, ms.
    clock_apart: i64,
    audit: crate::audit::Audit,
    /// Ends to start anew in place: everything goes on meanwhile.
    again: bool,
    /// Whether that would do is being tried.
    trial: Option<again::Trial>,
    /// It would do, and the keeper has not got everything yet: until when that is
    /// waited for.
    again_by: Option<Instant>,
    /// Why it would not have done, the last time.
    not_again: Option<String>,
    hangups: UnixStream,
    keeper: Option<Keeper>,
    /// See [`attach::spare`].
    spare: Option<std::fs::File>,
    /// Kept locked while this manager lives.
    _lock: std::fs::File,
}

/// Milliseconds on the machine's monotonic clock: the same for a manager that
/// takes over from this one.
fn clock() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1000 + t.tv_nsec as u64 / 1_000_000
}

impl Daemon {
    fn now(&self) -> u64 {
        clock()
    }

    fn watch(
        &self,
        fd: impl AsFd,
        kind: Kind,
        id: u32,
        flags: epoll::EventFlags,
    ) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, kind.token(id), flags)?)
    }

    /// Serves until told to stop; true if it is to start anew in place.
    pub fn run(&mut self) -> io::Result<bool> {
        tracing::info!(root = %self.config.root.display(), generation = self.rim.generation, "ready");
        self.follow_ports();
        while !self.ending {
            self.turn()?;
        }
        if self.again {
            self.end_helpers(); // their addresses are wanted again
            self.abandon_launches();
            return Ok(true);
        }
        self.end();
        Ok(false)
    }

    fn patience(&mut self) -> Option<Duration> {
        let mut patience = None;
        let mut at_most = |d: Duration| patience = Some(patience.map_or(d, |p: Duration| p.min(d)));
        let dues = [
            self.requests_patience(),
            self.windows_patience(),
            self.records_patience(),
            self.further_patience(),
            self.logs_patience(),
            self.folders_patience(),
            self.threads_patience(),
            self.tell_patience(),
            self.jails_patience(),
            self.clock_patience(),
            self.progress_patience(),
            self.trial_patience(),
            self.hold_patience(),
            self.nics_patience(),
            self.links_patience(),
            self.verdicts_patience(),
            self.keeper_due.map(|t| t.saturating_duration_since(Instant::now())),
        ];
        for due in dues.into_iter().flatten() {
            at_most(due);
        }
        if let Some(due) = self.rim.lines.due(self.now()) {
            at_most(Duration::from_millis(due));
        }
        if !self.pending.is_empty() || !self.leaving.is_empty() {
            at_most(Duration::from_millis(100));
        }
        if let Some(due) = self.helpers_patience() {
            at_most(due);
        }
        patience
    }

    /// Waits for something and handles it.
    fn turn(&mut self) -> io::Result<()> {
        let timeout = self.patience().map(|d| rustix::event::Timespec {
            tv_sec: d.as_secs() as i64,
            tv_nsec: i64::from(d.subsec_nanos()),
        });
        let mut room = [std::mem::MaybeUninit::uninit(); 64];
        let tokens: Vec<u64> = match epoll::wait(&self.epoll, &mut room[..], timeout.as_ref()) {
            Ok((events, _)) => events.iter().map(|e| e.data.u64()).collect(),
            Err(rustix::io::Errno::INTR) => vec![],
            Err(e) => return Err(e.into()),
        };
        let (newcomers, others): (Vec<_>, Vec<_>) =
            tokens.into_iter().filter_map(Kind::of).partition(|(kind, _)| kind.is_of_newcomers());
        for (kind, id) in others {
            self.ready(kind, id);
        }
        self.look_around();
        self.take_newcomers(newcomers);
        self.look_after_windows();
        self.look_after_further();
        self.look_after_logs();
        self.look_after_folders();
        self.look_at_progress();
        self.look_after_threads();
        self.late_records();
        if self.keeper_due.is_some_and(|t| t <= Instant::now()) {
            self.keeper_gone();
        }
        self.mind_the_wall_clock();
        self.drop_late_pending();
        self.mind_the_trial();
        let (left, ended) = std::mem::take(&mut self.leaving)
            .into_iter()
            .partition::<Vec<_>, _>(|p| p.reap().is_none());
        self.leaving = left;
        ended.into_iter().for_each(|p| self.remove_group(p.sandbox.group));
        self.mind_the_launches();
        self.see_to_what_jails_leave();
        self.start_due_helpers();
        self.look_after_nics();
        self.look_after_verdicts();
        self.look_after_switches();
        self.look_after_links();
        self.say_what_was_left_out();
        self.settle();
        self.hold_again();
        self.again_when_held();
        Ok(())
    }

    /// Those for whom there is no time now are announced again in the next turn,
    /// in the same order: so it begins with another one each time.
    fn take_newcomers(&mut self, mut newcomers: Vec<(Kind, u32)>) {
        if newcomers.is_empty() {
            return;
        }
        let first = self.newcomers % newcomers.len();
        newcomers.rotate_left(first);
        let began = Instant::now();
        for (kind, id) in newcomers {
            self.newcomers = self.newcomers.wrapping_add(1);
            self.ready(kind, id);
            if began.elapsed() >= CONNECTIONS_TIME {
                break;
            }
        }
    }

    fn ready(&mut self, kind: Kind, id: u32) {
        match kind {
            Kind::AdminListener => self.accept_admin(),
            Kind::HostListener => wiring::of(Transport::Host).accept(self, 0),
            Kind::VmListener => wiring::of(Transport::IvshmemDoorbell).accept(self, id),
            Kind::Admin => self.read_admin(id),
            Kind::Pending => self.read_pending(id),
            Kind::Peer => self.window_gone(id),
            Kind::Bell => self.rang(id),
            Kind::Launch => self.hear_launcher(id),
            Kind::StrayEnd => self.stray_ended(id),
            Kind::ModuleKept => self.modules_kept(),
            Kind::ServiceSocket => self.hear_service(id, MESSAGES_A_TURN),
            Kind::ServiceEnd => self.service_ended(id),
            Kind::HelperEnd => self.helper_ended(id),
            Kind::KeeperEnd => self.keeper_gone(),
            Kind::Hangup => self.try_again(),
            Kind::TrialEnd => self.tried(),
            Kind::NicsSocket => self.hear_nics(),
            Kind::LinksSocket => self.hear_links(),
            Kind::MadeListener => self.accept_for_made(id),
            Kind::SwitchListener => self.accept_switches(),
            Kind::Switch => self.hear_switch(id),
            Kind::SwitchEnd => self.switch_ended(id),
            Kind::Signal => {
                tracing::info!("told to stop by a signal");
                self.ending = true;
            }
        }
        self.settle();
    }

    /// An orderly end: channels are told, services finish what they compute.
    fn end(&mut self) {
        use vfun_wire::status::BreakReason;
        for a in self.rim.windows.values() {
            a.window.set_state(vfun_wire::header::host_state::ENDED);
        }
        // What was put off is told first, so that the order is to end comes last.
        self.tell_again();
        for p in self.rim.services.values() {
            if p.send(&vfun_supervise::ToService::Stop, &[]).is_err() {
                p.kill();
            }
        }
        self.abandon_launches();
        let until = Instant::now() + STOP_TIME;
        while !self.rim.services.is_empty() && Instant::now() < until {
            self.rim.services.retain(|_, p| p.reap().is_none());
            std::thread::sleep(Duration::from_millis(2));
        }
        for p in self.rim.services.values() {
            p.kill();
            let _ = self.records.service(p.pid, None);
        }
        let until = Instant::now() + LEFT_ENDS;
        while !(self.rim.services.is_empty() && self.leaving.is_empty()) && Instant::now() < until {
            self.rim.services.retain(|_, p| p.reap().is_none());
            self.leaving.retain(|p| p.reap().is_none());
            std::thread::sleep(Duration::from_millis(2));
        }
        let channels: Vec<_> = self
            .rim
            .core
            .grants()
            .filter_map(|(_, g)| Some((g.holder.window, g.channel()?)))
            .collect();
        for (window, place) in channels {
            if let Some(a) = self.rim.windows.get(&window) {
                a.window.break_channel(&place, BreakReason::Shutdown);
            }
        }
        self.put_late_on_record(true);
        let _ = self.records.forget_services();
        let _ = self.records.end_left_grants(&[]);
        let _ = self.records.trim();
        let _ = self.tree.clear_grants();
        let _ = std::fs::remove_file(self.tree.admin_socket());
        let _ = std::fs::remove_file(self.tree.host_socket());
        self.jails.end();
        self.end_helpers();
        if let Some(keeper) = self.keeper.take() {
            keeper.end();
        }
        tracing::info!("ended");
    }
}
