//! Around the state machine: one thread, one epoll, nothing that blocks for long.
//!
//! - [`again`]: the program on disk takes this one's place.
//! - [`attach`]: programs on the host get their windows.
//! - [`ivshmem`]: VMs get theirs, with doorbells.
//! - [`drains`]: nothing new is granted.
//! - [`conditions`]: what a manager needs before it can serve.
//! - [`keep`]: what outlives this manager.
//! - [`answers`]: the admin interface.
//! - [`catalogs`]: manifests on disk become what is offered.
//! - [`actions`]: what the core decided is done.
//! - [`jails`]: services are started in their sandbox.
//! - [`helpers`]: processes that stand between the manager and the network.
//! - [`leases`]: what leased grants do is looked at.
//! - [`leftovers`]: what is left of services that are over.
//! - [`logs`]: services' logs are cut.
//! - [`lost`]: windows whose pages or files went away.
//! - [`owner`]: which manager a window belongs to.
//! - [`progress`]: calls are looked at in windows.
//! - [`records`]: what became of grants is put on record.
//! - [`requests`]: requests out of windows, each window in its turn.
//! - [`say`]: lines of the log that a client causes.
//! - [`submissions`]: what clients wish for of their own modules.
//! - [`modules`]: what is kept of these.
//! - [`tell`]: words to services.

mod actions;
mod again;
mod answers;
mod attach;
mod catalogs;
mod conditions;
mod drains;
mod helpers;
mod ivshmem;
mod jails;
mod keep;
mod leases;
mod leftovers;
mod logs;
mod lost;
mod modules;
mod owner;
mod policy;
mod progress;
mod records;
mod requests;
mod say;
mod setup;
mod submissions;
mod tell;

pub use again::CHECK;
pub use setup::{Config, StartError, TlsFiles};

use crate::core::{Core, Event, ServiceId, WindowId};
use crate::fair::{Intake, Lines, Rates};
use crate::fault;
use crate::limits::*;
use crate::process::Process;
use crate::record::Records;
use crate::tree::Tree;
use crate::window::HostWindow;
use rustix::event::epoll;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};
use vfun_keeper::Keeper;
use vfun_supervise::FromService;
use vfun_wire::Handle;

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
        ];
        all.into_iter().find(|k| *k as u64 == token >> 32).map(|k| (k, token as u32))
    }
}

/// A window and how it is reached.
pub(crate) struct Attached {
    window: HostWindow,
    client: u32,
    transport: &'static str,
    /// The socket of a program on the host, or of a VM's QEMU: its end is theirs.
    peer: Option<UnixStream>,
    heartbeats: bool,
    /// Each app in it must show who it is.
    proven: bool,
    /// Its VM has not been told everything yet.
    handing: bool,
    /// How fast it may ask, and whose turn it is.
    intake: Intake,
}

/// The manager, running.
pub struct Daemon {
    config: Config,
    tree: Tree,
    records: Records,
    core: Core,
    generation: u32,
    began: Instant,
    epoll: OwnedFd,
    admin_listener: UnixListener,
    host_listener: UnixListener,
    signals: UnixStream,
    windows: BTreeMap<WindowId, Attached>,
    /// Locks of plain windows, by client.
    owned: BTreeMap<String, owner::Owned>,
    /// Windows with requests, in the order of their turns.
    turns: VecDeque<WindowId>,
    /// Lines of the log about each client.
    lines: Lines,
    /// Clients whose windows were taken down and are to be laid out anew.
    down: Vec<lost::Down>,
    /// Clients whose windows' files are no longer those that are mapped.
    replaced: std::collections::BTreeSet<u32>,
    last_files: Instant,
    last_logs: Instant,
    /// What is not on record yet.
    book: records::Book,
    /// What the start found instead of a database, for people.
    found: Option<String>,
    /// What services' sockets had no room for.
    untold: BTreeMap<ServiceId, VecDeque<tell::Word>>,
    /// For each channel that somebody stands by for, the end of the baton that
    /// whoever serves it is to pass.
    batons: BTreeMap<Handle, OwnedFd>,
    /// When another keeper is to be started.
    keeper_due: Option<Instant>,
    /// How fast users get windows.
    attaches: Rates<attach::Who>,
    own_attaches: Rates<attach::Who>,
    /// How many connections were looked after.
    newcomers: usize,
    /// How fast VMs connect, by client.
    connects: Rates<u32>,
    /// Ringers of VMs' windows that are gone, by client: some may hang.
    ringers: Vec<(u32, std::thread::JoinHandle<()>)>,
    /// Where VMs connect, by client.
    vm_sockets: BTreeMap<u32, ivshmem::Socket>,
    /// Generation of the window laid out last.
    window_generation: u64,
    services: BTreeMap<ServiceId, Process>,
    /// Services that are being made.
    launching: BTreeMap<ServiceId, jails::Launching>,
    jails: jails::Jails,
    /// Children of the manager that was in this process before, by pid.
    strays: BTreeMap<u32, OwnedFd>,
    /// Last words of services whose driver made a forbidden system call.
    forbidden: BTreeMap<ServiceId, u32>,
    /// Reports of services that are not complete yet.
    reports: BTreeMap<ServiceId, Vec<Handle>>,
    /// Processes told to go, still to be reaped: by pid.
    leaving: Vec<Process>,
    admins: BTreeMap<u32, answers::AdminConnection>,
    pending: BTreeMap<u32, attach::Pending>,
    next_id: u32,
    events: VecDeque<Event>,
    helpers: Vec<helpers::Helper>,
    last_asked: Instant,
    /// Calls that each channel had answered at the last look.
    answered: BTreeMap<Handle, u64>,
    last_progress: Instant,
    last_heartbeats: Instant,
    last_tick: Instant,
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
    /// Why it would not have done, the last time.
    not_again: Option<String>,
    hangups: UnixStream,
    keeper: Option<Keeper>,
    /// Own numbers as the keeper has them.
    noted: Option<(u32, u64)>,
    /// See [`attach::spare`].
    spare: Option<std::fs::File>,
    /// Kept locked while this manager lives.
    _lock: std::fs::File,
}

impl Daemon {
    /// Milliseconds on the machine's monotonic clock: the same for a manager
    /// that takes over from this one.
    fn now(&self) -> u64 {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        t.tv_sec as u64 * 1000 + t.tv_nsec as u64 / 1_000_000
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
        tracing::info!(root = %self.config.root.display(), generation = self.generation, "ready");
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

    fn polled(&self) -> bool {
        self.windows.values().any(|w| w.window.bells().is_none())
    }

    /// Whether there is an app whose end only its heartbeat shows.
    fn heartbeats_due(&self) -> bool {
        self.windows.iter().any(|(id, w)| w.heartbeats && self.core.has_sessions(*id))
    }

    fn patience(&self) -> Option<Duration> {
        let mut patience = None;
        let mut at_most = |d: Duration| patience = Some(patience.map_or(d, |p: Duration| p.min(d)));
        let dues = [
            self.requests_patience(),
            self.windows_patience(),
            self.records_patience(),
            self.logs_patience(),
            self.tell_patience(),
            self.jails_patience(),
            self.leases_patience(),
            self.progress_patience(),
            self.trial_patience(),
            self.keeper_due.map(|t| t.saturating_duration_since(Instant::now())),
        ];
        for due in dues.into_iter().flatten() {
            at_most(due);
        }
        if let Some(due) = self.lines.due(self.now()) {
            at_most(Duration::from_millis(due));
        }
        if self.polled() {
            at_most(if self.last_asked.elapsed() < BUSY_FOR { LOOK_BUSY } else { LOOK_IDLE });
        }
        if self.core.needs_tick() {
            at_most(TICK);
        }
        if self.heartbeats_due() {
            at_most(HEARTBEAT_LOOK);
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
        self.look_by_the_clock();
        self.serve_turns();
        self.take_newcomers(newcomers);
        self.look_after_windows();
        self.look_after_logs();
        self.look_at_leases();
        self.look_at_progress();
        self.tell_again();
        self.late_records();
        if self.keeper_due.is_some_and(|t| t <= Instant::now()) {
            self.keeper_gone();
        }
        if self.last_heartbeats.elapsed() >= HEARTBEAT_LOOK && self.heartbeats_due() {
            self.last_heartbeats = Instant::now();
            let beats: Vec<Event> = self
                .windows
                .iter()
                .filter(|(_, w)| w.heartbeats)
                .map(|(id, w)| Event::Heartbeats { window: *id, values: w.window.heartbeats() })
                .collect();
            self.events.extend(beats);
        }
        if self.last_tick.elapsed() >= TICK && self.core.needs_tick() {
            self.last_tick = Instant::now();
            self.events.push_back(Event::Tick);
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
        self.say_what_was_left_out();
        self.settle();
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
            Kind::HostListener => self.accept_host(),
            Kind::VmListener => self.accept_vm(id),
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
            Kind::Signal => {
                tracing::info!("told to stop by a signal");
                self.ending = true;
            }
        }
        self.settle();
    }

    fn window_gone(&mut self, id: WindowId) {
        if self.windows.contains_key(&id) {
            // First, as it was kept before it was noted: one that is kept and
            // not noted counts as new.
            self.let_window_go(id);
            self.events.push_back(Event::WindowDown { window: id });
            self.settle();
            // Services map what they need of it themselves.
            if let Some(a) = self.windows.remove(&id) {
                // Its program holds the same bell: closing this end would not
                // keep it from waking the manager.
                if let Some(bells) = a.window.bells() {
                    let _ = epoll::delete(&self.epoll, bells.to_host[0].as_fd());
                }
                if let Some(peer) = &a.peer {
                    let _ = epoll::delete(&self.epoll, peer);
                }
                self.ringers.extend(a.window.into_ringer().map(|thread| (a.client, thread)));
            }
        }
    }

    fn hear_service(&mut self, id: ServiceId, most: usize) {
        let mut ready = false;
        for _ in 0..most {
            let Some(process) = self.services.get(&id) else { return };
            let (message, fds) = match vfun_supervise::receive::<FromService>(process.socket()) {
                Ok(Some(heard)) => heard,
                Ok(None) => {
                    let _ = epoll::delete(&self.epoll, process.socket());
                    return;
                }
                Err(vfun_supervise::Error::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => {
                    return;
                }
                Err(e) => {
                    // A service that speaks nonsense has been taken over by its driver.
                    process.kill();
                    let _ = epoll::delete(&self.epoll, process.socket());
                    tracing::warn!(service = id, "{e}: it is ended");
                    return;
                }
            };
            let service = id;
            let event = match message {
                FromService::Ready { .. } if ready || !self.core.awaits_ready(service) => {
                    // Each is a look at its sandbox. One that the core has given
                    // up on may say it once, too, and is being ended anyway.
                    process.kill();
                    let _ = epoll::delete(&self.epoll, process.socket());
                    if self.core.knows_service(service) {
                        tracing::warn!(service, "it says again that it is ready: it is ended");
                    }
                    return;
                }
                FromService::Ready { note, .. } => {
                    ready = true;
                    self.service_ready(service, note)
                }
                FromService::Failed { reason } => Event::ServiceFailed { service, reason },
                FromService::Opened { channel } => {
                    Event::ChannelOpened { service, channel: Handle(channel) }
                }
                FromService::DeviceLost { channel, reason } => {
                    Event::ChannelLost { service, channel: Handle(channel), reason }
                }
                FromService::Standing { channel } => {
                    Event::ChannelStanding { service, channel: Handle(channel) }
                }
                FromService::OpenFailed { channel, reason } => {
                    Event::ChannelOpenFailed { service, channel: Handle(channel), reason }
                }
                FromService::Closed { channel } => {
                    Event::ChannelClosed { service, channel: Handle(channel) }
                }
                FromService::Broken { channel, reason } => {
                    Event::ChannelBroken { service, channel: Handle(channel), reason }
                }
                // It may have been on its way when the manager that asked was
                // killed: what was opened since is not in it.
                FromService::Channels { to, .. } if to != 0 && to != self.generation => continue,
                FromService::Channels { .. } if !self.core.awaits_report(service) => {
                    self.reports.remove(&service);
                    if self.may_say(&format!("service {service}")) {
                        tracing::warn!(service, "a report that nobody asked for is ignored");
                    }
                    continue;
                }
                FromService::Channels { channels, more, .. } => {
                    let said = self.reports.entry(service).or_default();
                    if said.len() + channels.len() > REPORT_CHANNELS_MAX {
                        tracing::warn!(
                            service,
                            "it reports more channels than there can be: it is ended"
                        );
                        process.kill();
                        let _ = epoll::delete(&self.epoll, process.socket());
                        self.reports.remove(&service);
                        return;
                    }
                    said.extend(channels.into_iter().map(Handle));
                    if more {
                        continue;
                    }
                    let channels = self.reports.remove(&service).unwrap_or_default();
                    // Its word that it is ready may have gone with the manager that
                    // heard it. What is asked of it then is asked of it now.
                    if self.core.awaits_ready(service)
                        && let failed @ Event::ServiceFailed { .. } =
                            self.service_ready(service, None)
                    {
                        self.events.push_back(failed);
                        return;
                    }
                    Event::Serving { service, channels }
                }
                FromService::Alive => Event::ServiceAlive { service },
                FromService::Forbidden { call } => {
                    self.forbidden.insert(service, call);
                    continue;
                }
                FromService::Submission { ask, channel, wish } => {
                    self.wished(service, ask, Handle(channel), wish, fds);
                    continue;
                }
                FromService::Deadline { channel } => {
                    Event::CallOverran { service, channel: Handle(channel) }
                }
            };
            self.events.push_back(event);
        }
    }

    fn service_ended(&mut self, id: ServiceId) {
        self.hear_service(id, LAST_WORDS); // first
        let Some(process) = self.services.get(&id) else { return };
        let Some(exit) = process.reap() else { return };
        let exit = self.exit_of(id, exit);
        let process = self.services.remove(&id).expect("just seen");
        // The keeper holds both for a moment more.
        let _ = epoll::delete(&self.epoll, process.socket());
        let _ = epoll::delete(&self.epoll, process.pidfd());
        let _ = self.records.service(process.pid, None);
        self.remove_group(process.sandbox.group);
        self.reports.remove(&id);
        self.untold.remove(&id);
        self.let_service_go(id);
        self.events.push_back(Event::ServiceExited { service: id, exit });
    }

    /// Lets the core handle what happened, and does what it says, until nothing is left.
    fn settle(&mut self) {
        while let Some(event) = self.events.pop_front() {
            let mut actions = vec![];
            let now = self.now();
            let rules = matches!(event, Event::Catalog(_));
            let what = fault::What::of(&event);
            what.at(fault::Step::Handling);
            self.core.handle(now, event, &mut actions);
            if rules {
                self.set_rates();
            }
            self.note_changes();
            self.reserve_generations();
            what.at(fault::Step::Noted);
            for action in actions {
                self.act(action);
            }
            what.at(fault::Step::Done);
        }
    }

    /// An orderly end: channels are told, services finish what they compute.
    fn end(&mut self) {
        use vfun_wire::status::BreakReason;
        for a in self.windows.values() {
            a.window.set_state(vfun_wire::header::host_state::ENDED);
        }
        // What was put off is told first, so that the order is to end comes last.
        self.tell_again();
        for p in self.services.values() {
            if p.send(&vfun_supervise::ToService::Stop, &[]).is_err() {
                p.kill();
            }
        }
        self.abandon_launches();
        let until = Instant::now() + STOP_TIME;
        while !self.services.is_empty() && Instant::now() < until {
            self.services.retain(|_, p| p.reap().is_none());
            std::thread::sleep(Duration::from_millis(2));
        }
        for p in self.services.values() {
            p.kill();
            let _ = self.records.service(p.pid, None);
        }
        let until = Instant::now() + LEFT_ENDS;
        while !(self.services.is_empty() && self.leaving.is_empty()) && Instant::now() < until {
            self.services.retain(|_, p| p.reap().is_none());
            self.leaving.retain(|p| p.reap().is_none());
            std::thread::sleep(Duration::from_millis(2));
        }
        let channels: Vec<_> =
            self.core.grants().filter_map(|(_, g)| Some((g.window, g.geometry?))).collect();
        for (window, geometry) in channels {
            if let Some(a) = self.windows.get(&window) {
                a.window.break_channel(&geometry, BreakReason::Shutdown);
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
