//! Services in their jails: how one is started, and what is known of the
//! sandbox it is in. A start takes some milliseconds, in which nobody waits
//! for it here: the launcher's report is heard like everything else.

use super::{Daemon, Kind};
use crate::admin::ServiceRow;
use crate::core::{Event, Exit, ServiceId, WindowId};
use crate::fair::Say;
use crate::limits::{SERVICE_NOTE_CHARS, SERVICES_MAX};
use crate::process::{Process, Sandbox, started};
use rustix::event::epoll::{self, EventFlags};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::path::Path;
use vfun_jail::constants::{USER_BASE, USERS};
use vfun_jail::group::{Group, Groups};
use vfun_jail::standing::Meant;
use vfun_jail::{
    Launch, Launched, Layer, Limits, Missing, Plan, Progress, Standing, opencl, seccomp,
};
use vfun_supervise::{Driver, Start, ToService};

/// A service that is being made.
pub(super) struct Launching {
    launch: Launch,
    socket: OwnedFd,
    start: Start,
    plan: Plan,
    meant: Meant,
    group: Group,
}

/// What this manager gives its services.
pub(super) struct Jails {
    groups: Groups,
    /// Layers that no service gets, with the reason.
    missing: Vec<Missing>,
    /// Left out by whoever started the manager, to measure.
    without: BTreeSet<Layer>,
    /// Whether it may give each client a user of its own.
    own_users: bool,
    /// Groups that could not be removed yet.
    leaving: Vec<Group>,
    /// Groups made so far, for their names.
    made: u64,
}

impl Jails {
    /// Finds out what there is.
    pub fn find(root: &Path, without: BTreeSet<Layer>) -> Self {
        use sha2::{Digest, Sha256};
        use std::os::unix::ffi::OsStrExt;
        let of_root = Sha256::digest(root.as_os_str().as_bytes());
        let name: String = of_root.iter().take(8).map(|b| format!("{b:02x}")).collect();
        let groups = Groups::find(&name);
        let own_users = vfun_jail::may_become_others();
        let mut missing = groups.missing().to_vec();
        if !own_users {
            missing.push(Missing::new(Layer::OwnUser, vfun_jail::NO_OTHER_USERS));
        }
        if let Err(why) = seccomp::available() {
            missing.push(Missing::new(Layer::Seccomp, why));
        }
        // What was left out on purpose is not a matter of the host.
        missing.retain(|m| !without.contains(&m.layer));
        missing.extend(
            without.iter().map(|layer| Missing::new(*layer, "left out by --without-layer")),
        );
        for m in &missing {
            tracing::warn!("services lack the sandbox's layer '{}': {}", m.layer, m.why);
        }
        Jails { groups, missing, without, own_users, leaving: vec![], made: 0 }
    }

    fn lacks(&self, layer: Layer) -> bool {
        self.missing.iter().any(|m| m.layer == layer)
    }

    /// No service is left.
    pub fn end(&mut self) {
        self.leaving.clear();
        self.groups.end();
    }
}

/// Why a service is not started.
pub(super) enum Cannot {
    /// The host has not the means for it now.
    Now(String),
    /// It would not help to try again.
    Ever(String),
}

impl From<String> for Cannot {
    /// The reason decides: the launcher passes on what the system said.
    fn from(reason: String) -> Self {
        use rustix::io::Errno;
        let means = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::NOSPC];
        let of = |e: &Errno| reason.contains(&format!("(os error {})", e.raw_os_error()));
        if means.iter().any(of) { Cannot::Now(reason) } else { Cannot::Ever(reason) }
    }
}

impl Daemon {
    /// A service that is wanted could not be started.
    pub(super) fn not_started(&mut self, service: ServiceId, cannot: Cannot) {
        self.events.push_back(match cannot {
            Cannot::Now(reason) => Event::ServiceDelayed { service, reason },
            Cannot::Ever(reason) => Event::ServiceFailed { service, reason },
        });
    }

    /// Where a service's words go: its log, or nowhere if there is no room for it.
    fn log_of(&mut self, start: &Start) -> Result<std::fs::File, String> {
        let append = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        let log = self.tree.service_log(&start.client, &start.function).and_then(|p| append(&p));
        log.or_else(|e| {
            let name = format!("client {}", start.client);
            if self.lines.say(self.now(), &name) == Say::Yes {
                tracing::warn!(
                    "{name}: its service of '{}' has no log, which cannot be written: {e}",
                    start.function
                );
            }
            append(Path::new("/dev/null")).map_err(|e| format!("it has no log: {e}"))
        })
    }

    /// A client's bounds on its services of a function.
    fn jail_limits(&self, client: &str, function: &str) -> Limits {
        self.core.catalog().policy.of(client, function).jail
    }

    /// Layers without which no service starts.
    fn required_layers(&self) -> BTreeSet<Layer> {
        self.core.catalog().policy.require.clone()
    }

    /// Begins to start a service. What comes of it is an event.
    pub(super) fn start_service(&mut self, id: ServiceId, mut start: Start) -> Result<(), Cannot> {
        if self.services.len() + self.launching.len() >= SERVICES_MAX {
            return Err(Cannot::Now(format!("the host runs {SERVICES_MAX} services already")));
        }
        let program = self.config.program(&start.driver)?;
        let required = self.required_layers();
        if let Some(layer) = required.iter().find(|l| self.jails.lacks(**l)) {
            let lacking = Standing { missing: self.jails.missing.clone(), ..Standing::default() };
            let sentence = lacking.lacks(&BTreeSet::from([*layer]), &[]).unwrap_or_default();
            return Err(Cannot::Ever(sentence));
        }
        let limits = self.jail_limits(&start.client, &start.function);
        let client = self.core.catalog().client(&start.client).map_or(0, |c| c.id);
        let (mut reads, makes_code) = self
            .core
            .catalog()
            .functions
            .get(&start.function)
            .map_or((vec![], false), |f| (f.reads.clone(), f.makes_code));
        match &start.driver {
            Driver::Native { library: file } | Driver::Wasm { module: file, .. } => {
                reads.push(file.clone());
            }
            Driver::OpenCl { kernel, .. } => {
                reads.push(kernel.clone());
                reads.extend(opencl::reads());
            }
            Driver::Floor => {}
        }
        let scratch_bytes = match &start.driver {
            Driver::OpenCl { .. } => opencl::SCRATCH_BYTES,
            _ => 0,
        };
        if !self.jails.lacks(Layer::Seccomp) {
            start.filters = seccomp::filters(&start.driver, makes_code);
        }
        self.jails.made += 1;
        let name = format!("{}-{}-{}", start.function, self.generation, self.jails.made);
        let (group, ungrouped) =
            self.jails.groups.make(&start.client, &name, &limits, 0, &self.jails.without);
        let user = (self.jails.own_users && !self.jails.lacks(Layer::OwnUser) && client < USERS)
            .then(|| USER_BASE + client);
        let plan = Plan {
            program,
            arguments: vec![],
            reads,
            scratch_bytes,
            user,
            limits,
            without: self.jails.without.clone(),
            tasks: group.tasks(),
            group: group.unified(),
            memory_grouped: group.bounds_memory(),
        };
        let missing = self.jails.missing.iter().cloned().chain(ungrouped).collect();
        let meant = Meant { user, groups: group.dirs.clone(), missing, landlock: None };
        self.launch(id, start, plan, meant, group)
    }

    fn launch(
        &mut self,
        id: ServiceId,
        start: Start,
        plan: Plan,
        meant: Meant,
        group: Group,
    ) -> Result<(), Cannot> {
        let begun = (|| -> Result<_, String> {
            let log = self.log_of(&start)?;
            let (socket, theirs) = vfun_supervise::pair()
                .and_then(|pair| {
                    rustix::io::ioctl_fionbio(&pair.0, true).map(|()| pair).map_err(Into::into)
                })
                .map_err(|e| format!("no socket for it: {e}"))?;
            let program = &self.config.jail_program;
            let launch = Launch::start(program, &plan, theirs, log)
                .map_err(|e| format!("{} cannot be started: {e}", program.display()))?;
            Ok((launch, socket))
        })();
        let (launch, socket) = match begun {
            Ok(begun) => begun,
            Err(e) => {
                self.remove_group(group);
                return Err(e.into());
            }
        };
        if let Err(e) = self.watch(&launch, Kind::Launch, id, EventFlags::IN | EventFlags::RDHUP) {
            launch.abandon();
            self.remove_group(group);
            return Err(Cannot::Now(format!("its launcher cannot be watched: {e}")));
        }
        self.launching.insert(id, Launching { launch, socket, start, plan, meant, group });
        Ok(())
    }

    /// The launcher said something.
    pub(super) fn hear_launcher(&mut self, id: ServiceId) {
        let Some(l) = self.launching.get_mut(&id) else { return };
        let progress = l.launch.hear();
        if matches!(progress, Progress::Waiting) {
            return;
        }
        let l = self.launching.remove(&id).expect("just seen");
        let _ = epoll::delete(&self.epoll, &l.launch);
        let failed = match progress {
            Progress::Waiting => return,
            Progress::Done(done) => self.jailed(id, l, done),
            Progress::Failed { layer, reason } => match (layer, Cannot::from(reason.clone())) {
                // A host that is short of something lacks no layer.
                (Some(layer), Cannot::Ever(_)) if !l.plan.without.contains(&layer) => {
                    self.launch_without(id, l, layer, reason)
                }
                _ => {
                    self.remove_group(l.group);
                    Err(format!("its sandbox could not be made: {reason}").into())
                }
            },
        };
        if let Err(cannot) = failed {
            self.not_started(id, cannot);
        }
    }

    /// A layer failed half way: once more without it, if policy lets that be.
    fn launch_without(
        &mut self,
        id: ServiceId,
        mut l: Launching,
        layer: Layer,
        reason: String,
    ) -> Result<(), Cannot> {
        let missing = Missing::new(layer, &reason);
        l.meant.missing.push(missing.clone());
        let lacking = Standing { missing: vec![missing], ..Standing::default() };
        if let Some(sentence) = self
            .required_layers()
            .get(&layer)
            .and_then(|l| lacking.lacks(&BTreeSet::from([*l]), &[]))
        {
            self.remove_group(l.group);
            return Err(Cannot::Ever(sentence));
        }
        tracing::warn!(service = id, "the sandbox's layer '{layer}' failed: {reason}");
        l.plan.without.insert(layer);
        // Without a user namespace it can still become its client's user.
        if layer == Layer::OwnUser {
            l.plan.user = None;
        }
        if let Some((_, dir)) = l.group.dirs.iter().find(|(of, _)| *of == layer) {
            let tasks = dir.join("tasks");
            l.plan.tasks.retain(|t| *t != tasks);
            l.plan.memory_grouped &= layer != Layer::CgroupMemory;
        }
        self.launch(id, l.start, l.plan, l.meant, l.group)
    }

    /// A service is in its jail; told what to serve, it loads its driver.
    fn jailed(&mut self, id: ServiceId, mut l: Launching, done: Launched) -> Result<(), Cannot> {
        l.meant.missing.extend(done.missing);
        l.meant.landlock = done.landlock;
        let standing = Standing::of(done.pid, &l.meant);
        let lacking = standing.lacks(&self.required_layers(), &[Layer::Seccomp]);
        let sandbox = Sandbox {
            client: l.start.client.clone(),
            function: l.start.function.clone(),
            standing,
            meant: l.meant,
            group: l.group,
            limits: l.plan.limits,
            note: None,
            windows: 0,
        };
        let process = Process::new(done.pid, l.socket, done.pidfd, sandbox);
        if let Some(ticks) = started(process.pid)
            && let Err(e) = self.records.service(process.pid, Some(ticks))
        {
            self.records_fail(format!("the database: {e}"));
        }
        let told = match lacking {
            Some(sentence) => Err(sentence),
            None => process
                .send(&ToService::Start(l.start), &[])
                .and_then(|()| {
                    self.watch(process.socket(), Kind::ServiceSocket, id, EventFlags::IN)
                })
                .and_then(|()| self.watch(process.pidfd(), Kind::ServiceEnd, id, EventFlags::IN))
                .map_err(|e| format!("it cannot be told what to serve: {e}")),
        };
        if let Err(reason) = told {
            process.kill();
            self.leaving.push(process);
            return Err(reason.into());
        }
        self.services.insert(id, process);
        self.hold_service(id);
        Ok(())
    }

    /// Ends one that is being made; true if there was one.
    pub(super) fn abandon_launch(&mut self, id: ServiceId) -> bool {
        let Some(l) = self.launching.remove(&id) else { return false };
        let _ = epoll::delete(&self.epoll, &l.launch);
        l.launch.abandon();
        self.remove_group(l.group);
        let exit = Exit::Signal(9);
        self.events.push_back(Event::ServiceExited { service: id, exit });
        true
    }

    /// The service has loaded its driver: its sandbox is complete now.
    pub(super) fn service_ready(&mut self, id: ServiceId, note: Option<String>) -> Event {
        let required = self.required_layers();
        let Some(process) = self.services.get_mut(&id) else {
            return Event::ServiceReady { service: id };
        };
        process.sandbox.standing = Standing::of(process.pid, &process.sandbox.meant);
        // A driver's word: it is shown on terminals.
        process.sandbox.note =
            note.map(|n| n.chars().filter(|c| !c.is_control()).take(SERVICE_NOTE_CHARS).collect());
        match process.sandbox.standing.lacks(&required, &[]) {
            None => Event::ServiceReady { service: id },
            Some(reason) => {
                process.kill();
                Event::ServiceFailed { service: id, reason }
            }
        }
    }

    /// Counts a window as shared with its service: what both touch is not the
    /// service's own, whoever touched it first.
    pub(super) fn share_window(&mut self, id: ServiceId, window: WindowId) {
        let mut windows: BTreeSet<WindowId> = self
            .core
            .grants()
            .filter(|(_, g)| g.service == Some(id))
            .map(|(_, g)| g.window)
            .collect();
        windows.insert(window);
        let Some(process) = self.services.get_mut(&id) else { return };
        if windows.len() <= process.sandbox.windows {
            return;
        }
        process.sandbox.windows = windows.len();
        let bytes =
            windows.iter().filter_map(|w| self.windows.get(w)).map(|w| w.window.bytes()).sum();
        if let Err(e) = process.sandbox.group.share(&process.sandbox.limits, bytes) {
            tracing::warn!(service = id, "its bound on memory stays too low: {e}");
        }
    }

    /// How a service ended, as its sandbox tells it.
    pub(super) fn exit_of(&mut self, id: ServiceId, exit: Exit) -> Exit {
        let forbidden = self.forbidden.remove(&id);
        let starved = || self.services.get(&id).is_some_and(|p| p.sandbox.group.starved());
        match (exit, forbidden) {
            (Exit::Code(vfun_supervise::EXIT_FORBIDDEN) | Exit::Unknown, Some(call)) => {
                Exit::Forbidden(call)
            }
            (Exit::Code(vfun_supervise::EXIT_ABORTED), _) => Exit::Signal(6),
            (Exit::Signal(9) | Exit::Unknown, _) if starved() => Exit::Starved,
            (exit, _) => exit,
        }
    }

    /// The services and their sandboxes, for people.
    pub(super) fn service_rows(&self) -> Vec<ServiceRow> {
        let row = |(id, p): (&ServiceId, &Process)| {
            let s = &p.sandbox;
            ServiceRow {
                id: *id,
                client: s.client.clone(),
                function: s.function.clone(),
                pid: p.pid as u32,
                channels: self.core.grants().filter(|(_, g)| g.service == Some(*id)).count(),
                user: s.meant.user,
                limits: s.limits,
                sandbox: s.standing.clone(),
                note: s.note.clone(),
            }
        };
        self.services.iter().map(row).collect()
    }

    /// Removes a service's group, now or later.
    pub(super) fn remove_group(&mut self, group: Group) {
        if !group.remove() {
            self.jails.leaving.push(group);
        }
    }

    /// Tries again to remove groups that were still in use.
    pub(super) fn remove_left_groups(&mut self) {
        self.jails.leaving.retain(|g| !g.remove());
    }

    /// Whether there are groups to remove.
    pub(super) fn groups_are_left(&self) -> bool {
        !self.jails.leaving.is_empty()
    }
}
