//! Services in their jails: how one is started, and what is known of the
//! sandbox it is in. A start takes some milliseconds, in which nobody waits
//! for it here: the launcher's report is heard like everything else.

use super::{Daemon, Kind};
use crate::admin::{SandboxView, ServiceRow};
use crate::core::catalog::Function;
use crate::core::{Event, Exit, ServiceId, WindowId};
use crate::fair::Say;
use crate::in_flight;
use crate::limits::{GROUPS_SWEEP, LAUNCH_TIME, LEFT_ENDS, SERVICE_NOTE_CHARS, SERVICES_MAX};
use crate::policy::Key;
use crate::process::{Process, Sandbox, started};
use rustix::event::epoll::{self, EventFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vfun_jail::constants::{USER_BASE, USERS};
use vfun_jail::folders;
use vfun_jail::group::{Group, Groups};
use vfun_jail::standing::Meant;
use vfun_jail::{
    Device, Failure, Launch, Launched, Layer, Limits, Missing, Plan, Progress, Remains, Standing,
    seccomp,
};
use vfun_rim::methods::*;
use vfun_supervise::{Start, ToService};

/// A service that is being made.
pub(super) struct Launching {
    pub launch: Launch,
    pub begun: StartingProcess,
    since: Instant,
}

/// What it will be.
pub(super) struct StartingProcess {
    socket: OwnedFd,
    start: Start,
    /// Files that go with it.
    given: Vec<OwnedFd>,
    plan: Plan,
    meant: Meant,
    pub group: Group,
}

/// What this manager gives its services.
pub(super) struct Jails {
    pub groups: Groups,
    /// Layers that no service gets, with the reason.
    missing: Vec<Missing>,
    /// Left out by whoever started the manager, to measure.
    without: BTreeSet<Layer>,
    /// Whether it may give each client a user of its own.
    own_users: bool,
    /// What the last service has that has loaded its driver.
    pub seen: Option<Standing>,
    /// Groups that could not be removed yet.
    pub leaving: Vec<Group>,
    /// Launches that are over, whose processes are not reaped yet.
    pub remains: Vec<Remains>,
    /// When groups are looked for that an earlier manager left.
    pub sweep: Option<Instant>,
    /// Groups made so far, for their names.
    made: u64,
}

impl Jails {
    /// Finds out what there is.
    pub fn find(root: &Path, without: BTreeSet<Layer>) -> Self {
        let (name, older) = group_names(root);
        let mut groups = Groups::find(&name);
        older.iter().for_each(|older| groups.also_sweep(older));
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
        Jails {
            groups,
            missing,
            without,
            own_users,
            seen: None,
            leaving: vec![],
            remains: vec![],
            sweep: Some(Instant::now() + GROUPS_SWEEP),
            made: 0,
        }
    }

    fn lacks(&self, layer: Layer) -> bool {
        self.missing.iter().any(|m| m.layer == layer)
    }

    /// Why no service may run as this, if it may not: root of the host is
    /// nobody's user, whatever layers are around it.
    fn refuses_user(&self, user: Option<u32>, why: Option<&str>) -> Option<String> {
        if user.is_some() || self.without.contains(&Layer::OwnUser) || !is_hosts_root() {
            return None;
        }
        let said = self.missing.iter().find(|m| m.layer == Layer::OwnUser);
        let why = why.or(said.map(|m| m.why.as_str())).unwrap_or("its clientID is too high");
        Some(format!(
            "its service would run as root of this host, as it can be given no user of its own ({why}): start vfund as an ordinary user or with CAP_SETUID and CAP_SETGID; `--without-layer own-user` allows it all the same"
        ))
    }

    /// No service is left.
    pub fn end(&mut self) {
        self.leaving.clear();
        // A process that was killed leaves its group a moment later.
        let until = Instant::now() + LEFT_ENDS;
        loop {
            self.remains.retain_mut(|r| !r.gone());
            if self.groups.end() && self.remains.is_empty() || Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The name of the group of a root's manager; and the one that an older manager gave it,
/// which took the root's path as it was given, if that is another.
fn group_names(root: &Path) -> (String, Option<String>) {
    use sha2::{Digest, Sha256};
    use std::os::unix::ffi::OsStrExt;
    let name = |root: &Path| -> String {
        let digest = Sha256::digest(root.as_os_str().as_bytes());
        digest.iter().take(8).map(|b| format!("{b:02x}")).collect()
    };
    let (now, older) = (name(&crate::tree::one_name(root)), name(root));
    let older = (older != now).then_some(older);
    (now, older)
}

/// Whether this process is root, and not merely called so in a user namespace
/// (a container of an ordinary user).
fn is_hosts_root() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    rustix::process::geteuid().is_root() && root_is_root(&map)
}

/// Whether 0 is the same user inside and outside, by `/proc/self/uid_map`.
fn root_is_root(map: &str) -> bool {
    let words = |l: &str| l.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>();
    // Where there is nothing to read, the worst is assumed.
    map.trim().is_empty() || map.lines().any(|l| words(l) == ["0", "0"])
}

/// Why a service is not started.
pub(super) enum StartRefusal {
    /// The host has not the means for it now.
    Now(String),
    /// It would not help to try again.
    Ever(String),
}

impl StartRefusal {
    /// The system's error decides, if there is one.
    fn of(errno: Option<i32>, reason: String) -> Self {
        use rustix::io::Errno;
        let means = [
            Errno::AGAIN,
            Errno::NOMEM,
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOSPC,
            Errno::NOBUFS,
            Errno::TOOMANYREFS,
        ];
        match errno {
            Some(e) if means.iter().any(|m| m.raw_os_error() == e) => StartRefusal::Now(reason),
            _ => StartRefusal::Ever(reason),
        }
    }

    /// This failed, doing that.
    fn doing(what: impl std::fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |e| StartRefusal::of(e.raw_os_error(), format!("{what}: {}", in_flight::words(&e)))
    }
}

impl Daemon {
    /// A service that is wanted could not be started.
    pub(super) fn not_started(&mut self, service: ServiceId, cannot: StartRefusal) {
        self.rim.events.push_back(match cannot {
            StartRefusal::Now(reason) => Event::ServiceDelayed { service, reason },
            StartRefusal::Ever(reason) => Event::ServiceFailed { service, reason },
        });
    }

    /// Where a service's words go: its log, or nowhere if there is no room for it.
    fn log_of(&mut self, start: &Start) -> io::Result<std::fs::File> {
        let append = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        let log = self.tree.service_log(&start.client, &start.function).and_then(|p| append(&p));
        log.or_else(|e| {
            let name = format!("client {}", start.client);
            if self.rim.lines.say(self.now(), &name) == Say::Yes {
                tracing::warn!(
                    "{name}: its service of '{}' has no log, which cannot be written: {e}",
                    start.function
                );
            }
            append(Path::new("/dev/null"))
        })
    }

    /// A client's bounds on its services of a function.
    fn jail_limits(&self, client: &str, function: &str) -> Limits {
        self.rim.core.catalog().policy.of(client, function).jail
    }

    /// Layers without which no service starts.
    fn required_layers(&self) -> BTreeSet<Layer> {
        self.rim.core.catalog().policy.require.clone()
    }

    /// Begins to start a service. What comes of it is an event.
    pub(super) fn launch_service(
        &mut self,
        id: ServiceId,
        mut start: Start,
    ) -> Result<(), StartRefusal> {
        if self.rim.services.len() + self.launching.len() >= SERVICES_MAX {
            return Err(StartRefusal::Now(format!(
                "the host runs {SERVICES_MAX} services already"
            )));
        }
        let program = self.config.program(&start.driver).map_err(StartRefusal::Ever)?;
        let required = self.required_layers();
        if let Some(layer) = required.iter().find(|l| self.jails.lacks(**l)) {
            let lacking = Standing { missing: self.jails.missing.clone(), ..Standing::default() };
            let sentence = lacking.lacks(&BTreeSet::from([*layer]), &[]).unwrap_or_default();
            return Err(StartRefusal::Ever(sentence));
        }
        let limits = self.jail_limits(&start.client, &start.function);
        let client = self.rim.core.catalog().client(&start.client).map_or(0, |c| c.id);
        let user = (self.jails.own_users && !self.jails.lacks(Layer::OwnUser) && client < USERS)
            .then(|| USER_BASE + client);
        if let Some(sentence) = self.jails.refuses_user(user, None) {
            return Err(StartRefusal::Ever(sentence));
        }
        let declared = self.rim.core.catalog().functions.get(&start.function);
        let (mut reads, makes_code, devices) = declared.map_or_else(Default::default, |f| {
            (f.reads.clone(), f.makes_code, f.devices_of(&start.driver).to_vec())
        });
        let (writes, environment) = declared
            .map_or_else(|| Ok(Default::default()), |f| self.own_folders(f, &start.client, user))
            .map_err(StartRefusal::Ever)?;
        let groups = self.device_groups(&start.client, &devices).map_err(StartRefusal::Ever)?;
        reads.extend(vfun_kinds::reads(&start.driver));
        let given = self.given(id, &start.client, &mut start.driver).map_err(StartRefusal::Ever)?;
        let scratch_bytes = vfun_kinds::of(&start.driver).scratch_bytes;
        if !self.jails.lacks(Layer::Seccomp) {
            start.filters =
                vfun_kinds::filters(&start.driver, makes_code, !writes.is_empty(), &devices);
        }
        self.jails.made += 1;
        let name = format!("{}-{}-{}", start.function, self.rim.generation, self.jails.made);
        let (group, ungrouped) =
            self.jails.groups.make(&start.client, &name, &limits, 0, &self.jails.without);
        let plan = Plan {
            program,
            arguments: vec![],
            reads,
            writes,
            environment,
            devices: devices.into_iter().map(|d| d.path).collect(),
            groups,
            scratch_bytes,
            user,
            limits,
            without: self.jails.without.clone(),
            tasks: group.tasks(),
            group: group.unified(),
            memory_grouped: group.bounds_memory(),
        };
        let missing = self.jails.missing.iter().cloned().chain(ungrouped).collect();
        let meant = Meant {
            user,
            groups: group.dirs.clone(),
            missing,
            landlock: None,
            writes: plan.writes.clone(),
        };
        self.launch(id, (start, given), plan, meant, group)
    }

    /// The folders in which a client's services of a function write, made where they are not
    /// there, and their environment.
    fn own_folders(
        &self,
        f: &Function,
        client: &str,
        user: Option<u32>,
    ) -> Result<(Vec<PathBuf>, BTreeMap<String, String>), String> {
        let root = &self.config.writes;
        let fill = |text: &String| folders::fill(text, root, client);
        let writes: Vec<PathBuf> = f.writes.iter().map(|w| fill(w).into()).collect();
        for folder in &writes {
            folders::make(root, folder, user).map_err(|e| format!("writes: {e}"))?;
        }
        Ok((writes, f.environment.iter().map(|(name, v)| (name.clone(), fill(v))).collect()))
    }

    /// Groups that a client's services need to open these devices; a sentence
    /// if they may not or cannot.
    fn device_groups(&self, client: &str, devices: &[Device]) -> Result<Vec<u32>, String> {
        let policy = &self.rim.core.catalog().policy;
        let mut groups = BTreeSet::new();
        for device in devices {
            let path = device.path.display().to_string();
            if !policy.may_open(client, &path) {
                let section = policy.section(client, "", Key::Devices);
                return Err(format!("client {client} may not open {path} (devices in {section})"));
            }
            // An ordinary user's services have the rights that the user has.
            match self.jails.own_users {
                true => groups.extend(device.group()?),
                false => device.own()?,
            }
        }
        Ok(groups.into_iter().collect())
    }

    fn launch(
        &mut self,
        id: ServiceId,
        (start, given): (Start, Vec<OwnedFd>),
        plan: Plan,
        meant: Meant,
        group: Group,
    ) -> Result<(), StartRefusal> {
        let begun = (|| -> Result<_, StartRefusal> {
            let log = self.log_of(&start).map_err(StartRefusal::doing("it has no log"))?;
            let (socket, theirs) = vfun_supervise::pair()
                .and_then(|pair| {
                    rustix::io::ioctl_fionbio(&pair.0, true).map(|()| pair).map_err(Into::into)
                })
                .map_err(StartRefusal::doing("no socket for it"))?;
            let program = &self.config.jail_program;
            let launch = Launch::start(program, &plan, theirs, log)
                .map_err(StartRefusal::doing(format!("{} cannot be started", program.display())))?;
            Ok((launch, socket))
        })();
        let (launch, socket) = match begun {
            Ok(begun) => begun,
            Err(cannot) => {
                self.remove_group(group);
                return Err(cannot);
            }
        };
        if let Err(e) = self.watch(&launch, Kind::Launch, id, EventFlags::IN | EventFlags::RDHUP) {
            self.reap(launch.abandon());
            self.remove_group(group);
            return Err(StartRefusal::Now(format!("its launcher cannot be watched: {e}")));
        }
        let begun = StartingProcess { socket, start, given, plan, meant, group };
        self.launching.insert(id, Launching { launch, begun, since: Instant::now() });
        Ok(())
    }

    /// The launcher said something.
    pub(super) fn hear_launcher(&mut self, id: ServiceId) {
        let Some(l) = self.launching.get_mut(&id) else { return };
        let progress = l.launch.hear();
        if matches!(progress, Progress::Waiting) {
            return;
        }
        let Launching { launch, begun, .. } = self.launching.remove(&id).expect("just seen");
        let _ = epoll::delete(&self.epoll, &launch);
        self.reap(launch.remains());
        let failed = match progress {
            Progress::Waiting => return,
            Progress::Done(done) => self.jailed(id, begun, done),
            Progress::Failed(Failure { layer, reason, errno }) => {
                match (layer, StartRefusal::of(errno, reason.clone())) {
                    // A host that is short of something lacks no layer.
                    (Some(layer), StartRefusal::Ever(_))
                        if !begun.plan.without.contains(&layer) =>
                    {
                        self.launch_without(id, begun, layer, reason)
                    }
                    _ => {
                        self.remove_group(begun.group);
                        Err(StartRefusal::of(
                            errno,
                            format!("its sandbox could not be made: {reason}"),
                        ))
                    }
                }
            }
        };
        if let Err(cannot) = failed {
            self.not_started(id, cannot);
        }
    }

    /// A layer failed half way: once more without it, if policy lets that be.
    fn launch_without(
        &mut self,
        id: ServiceId,
        mut l: StartingProcess,
        layer: Layer,
        reason: String,
    ) -> Result<(), StartRefusal> {
        let missing = Missing::new(layer, &reason);
        l.meant.missing.push(missing.clone());
        let lacking = Standing { missing: vec![missing], ..Standing::default() };
        if let Some(sentence) = self
            .required_layers()
            .get(&layer)
            .and_then(|l| lacking.lacks(&BTreeSet::from([*l]), &[]))
        {
            self.remove_group(l.group);
            return Err(StartRefusal::Ever(sentence));
        }
        if layer == Layer::OwnUser
            && let Some(sentence) = self.jails.refuses_user(None, Some(&reason))
        {
            self.remove_group(l.group);
            return Err(StartRefusal::Ever(sentence));
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
        self.launch(id, (l.start, l.given), l.plan, l.meant, l.group)
    }

    /// A service is in its jail; told what to serve, it loads its driver.
    fn jailed(
        &mut self,
        id: ServiceId,
        mut l: StartingProcess,
        done: Launched,
    ) -> Result<(), StartRefusal> {
        l.meant.missing.extend(done.missing);
        l.meant.landlock = done.landlock;
        let standing = Standing::of(done.pid, done.pidfd.as_fd(), &l.meant);
        let writes = !l.plan.devices.is_empty() || !l.plan.writes.is_empty();
        let lacking = standing
            .lacks(&self.required_layers(), &[Layer::Seccomp])
            .or_else(|| writes.then(|| standing.lacks_for_writing()).flatten());
        let sandbox = Sandbox {
            client: l.start.client.clone(),
            function: l.start.function.clone(),
            standing,
            meant: l.meant,
            group: l.group,
            limits: l.plan.limits,
            note: None,
            windows: BTreeSet::new(),
            shared: 0,
            channels: 0,
        };
        let process = Process::new(done.pid, l.socket, done.pidfd, sandbox);
        if let Some(ticks) = started(process.pid)
            && let Err(e) = self.records.service(process.pid, Some(ticks))
        {
            self.records_fail(format!("the database: {e}"));
        }
        let given: Vec<_> = l.given.iter().map(AsFd::as_fd).collect();
        let told = match lacking {
            Some(sentence) => Err(StartRefusal::Ever(sentence)),
            None => process
                .send(&ToService::Start(l.start), &given)
                .and_then(|()| {
                    self.watch(process.socket(), Kind::ServiceSocket, id, EventFlags::IN)
                })
                .and_then(|()| self.watch(process.pidfd(), Kind::ServiceEnd, id, EventFlags::IN))
                .map_err(StartRefusal::doing("it cannot be told what to serve")),
        };
        if let Err(cannot) = told {
            process.kill();
            self.leaving.push(process);
            return Err(cannot);
        }
        self.rim.services.insert(id, process);
        self.hold_service(id);
        Ok(())
    }

    /// Gives up those whose launcher hangs.
    pub(super) fn mind_the_launches(&mut self) {
        let late = self.launching.iter().filter(|(_, l)| l.since.elapsed() >= LAUNCH_TIME);
        let late: Vec<ServiceId> = late.map(|(id, _)| *id).collect();
        for service in late {
            let reason = format!(
                "its sandbox was not made within {} ms: the launcher {} hangs",
                LAUNCH_TIME.as_millis(),
                self.config.jail_program.file_name().unwrap_or_default().display()
            );
            self.rim.events.push_back(Event::ServiceFailed { service, reason });
            self.settle();
        }
    }

    /// Ends one that is being made; true if there was one.
    pub(super) fn abandon_launch(&mut self, id: ServiceId) -> bool {
        let Some(l) = self.launching.remove(&id) else { return false };
        let _ = epoll::delete(&self.epoll, &l.launch);
        self.reap(l.launch.abandon());
        self.remove_group(l.begun.group);
        let exit = Exit::Signal(9);
        self.rim.events.push_back(Event::ServiceExited { service: id, exit });
        true
    }

    /// The service has loaded its driver: its sandbox is complete now.
    pub(super) fn service_ready(&mut self, id: ServiceId, note: Option<String>) -> Event {
        let required = self.required_layers();
        let Some(process) = self.rim.services.get_mut(&id) else {
            return Event::ServiceReady { service: id };
        };
        process.sandbox.standing =
            Standing::of(process.pid, process.pidfd(), &process.sandbox.meant);
        // A driver's word: it is shown on terminals.
        if let Some(n) = note {
            let shown = n.chars().filter(|c| !c.is_control()).take(SERVICE_NOTE_CHARS);
            process.sandbox.note = Some(shown.collect());
        }
        self.jails.seen = Some(process.sandbox.standing.clone());
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
        let Some(process) = self.rim.services.get_mut(&id) else { return };
        let sandbox = &mut process.sandbox;
        let (windows, further) = (&self.rim.windows, &self.rim.further);
        let bytes = |w: WindowId| {
            let control = windows.get(&w).map(|w| w.window.bytes());
            control.or_else(|| further.get(&w).map(|d| d.pages().bytes()))
        };
        let known = sandbox.windows.contains(&window);
        if sandbox.shares(window, bytes)
            && let Err(e) = sandbox.group.share(&sandbox.limits, sandbox.shared)
        {
            tracing::warn!(service = id, "its bound on memory stays too low: {e}");
        }
        if !known {
            self.hold_service(id);
        }
    }

    /// How a service ended, as its sandbox tells it.
    pub(super) fn exit_of(&mut self, id: ServiceId, exit: Exit) -> Exit {
        let forbidden = self.forbidden.remove(&id);
        let starved = || self.rim.services.get(&id).is_some_and(|p| p.sandbox.group.starved());
        match (exit, forbidden) {
            (Exit::Code(vfun_supervise::EXIT_FORBIDDEN) | Exit::Unknown, Some(call)) => {
                Exit::Forbidden(call)
            }
            (Exit::Code(vfun_supervise::EXIT_ABORTED), _) => Exit::Signal(6),
            (Exit::Signal(9) | Exit::Unknown, _) if starved() => Exit::Starved,
            (exit, _) => exit,
        }
    }

    /// What services get of the sandbox.
    pub(super) fn sandbox(&self) -> SandboxView {
        let expected = || {
            let missing = self.jails.missing.clone();
            let lacks = |layer: &Layer| missing.iter().any(|m| m.layer == *layer);
            let layers = Layer::ALL.into_iter().filter(|l| !lacks(l)).collect();
            Standing { layers, missing, landlock: None }
        };
        let seen = self.jails.seen.clone();
        SandboxView { seen: seen.is_some(), standing: seen.unwrap_or_else(expected) }
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
                channels: self.rim.core.grants().filter(|(_, g)| g.service() == Some(*id)).count(),
                user: s.meant.user,
                limits: s.limits,
                sandbox: s.standing.clone(),
                note: s.note.clone(),
            }
        };
        self.rim.services.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_decides_whether_it_may_help_to_try_again() {
        let now = |errno, reason: &str| {
            matches!(StartRefusal::of(errno, reason.into()), StartRefusal::Now(_))
        };
        assert!(now(Some(11), "no process for it"));
        assert!(now(Some(12), "x"));
        // Descriptors of another program of this user are on their way.
        let full = io::Error::from_raw_os_error(109);
        let told = vfun_supervise::Error::Io(full).into();
        let cannot = StartRefusal::doing("it cannot be told what to serve")(told);
        let StartRefusal::Now(why) = cannot else { panic!("it may be told later") };
        assert!(why.contains("told what to serve: too many descriptors of user"), "{why}");
        assert!(!now(Some(2), "x"));
        // Words of a driver's file, or of anybody, decide nothing.
        assert!(!now(None, "/drivers/x (os error 11).so cannot be read"));
        assert!(!now(Some(13), "/drivers/x (os error 12).so: Permission denied (os error 13)"));
    }

    #[test]
    fn a_root_has_one_group_by_whatever_name_and_an_older_one_by_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (root, link) = (dir.path().join("root"), dir.path().join("link"));
        std::fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&root, &link).unwrap();
        let (name, older) = group_names(&link);
        assert_eq!(group_names(&root.canonicalize().unwrap()), (name.clone(), None));
        assert!(older.is_some_and(|older| older != name));
    }

    #[test]
    fn root_of_a_container_may_be_an_ordinary_user() {
        assert!(root_is_root("         0          0 4294967295\n"));
        assert!(!root_is_root(
            "         0       1000          1\n         1     100000      65536\n"
        ));
        assert!(root_is_root(""), "the worst is assumed");
    }
}
