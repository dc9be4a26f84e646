//! What outlives this manager: everything that must not be lost is with the
//! keeper before anybody sees its effect, and a manager that starts anew goes
//! on from there. See [`vfun_keeper`].

use super::attach::HOST;
use super::ivshmem::{DOORBELL, PLAIN, refuse};
use super::owner::Owned;
use super::tell::Word;
use super::{Attached, Daemon, Kind};
use crate::core::kept::PREFIX;
use crate::core::{Event, ServiceId, WindowId};
use crate::limits::KEEPER_AGAIN;
use crate::process::{self, Process, Sandbox};
use crate::record::LeftService;
use crate::window::{Bells, HostWindow};
use rustix::event::epoll::EventFlags;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use vfun_jail::Standing;
use vfun_keeper::{Change, Keeper, Kept, Will};
use vfun_supervise::ToService;
use vfun_window::Bell;
use vfun_wire::header::{HOST_STATE_OFF, host_state};
use vfun_wire::limits::VECTORS;

const WINDOW: &str = "rim/window/";
const SERVICE: &str = "rim/service/";
const OWN: &str = "rim/self";
const OWNED: &str = "rim/owned/";

#[derive(Serialize, Deserialize)]
struct WindowNote {
    client: u32,
    bytes: u64,
    generation: u64,
    transport: String,
    heartbeats: bool,
    #[serde(default)]
    proven: bool,
    peer: bool,
    bells: bool,
    #[serde(default)]
    handing: bool,
}

#[derive(Serialize, Deserialize)]
struct ServiceNote {
    pid: i32,
    #[serde(default)]
    sandbox: Sandbox,
    /// Which build it was started from, if it is one of `submit`.
    #[serde(default)]
    build: Option<String>,
}

#[derive(Serialize, Deserialize, PartialEq, Clone, Copy)]
struct OwnNote {
    next_id: u32,
    window_generation: u64,
}

/// What an earlier manager left, sorted.
pub(super) struct Left {
    /// The core's notes, by name.
    pub core: Vec<(String, String)>,
    windows: Vec<(WindowId, Kept)>,
    services: Vec<(ServiceId, Kept)>,
    /// Locks of plain windows, by client.
    owned: Vec<(String, Kept)>,
    own: Option<OwnNote>,
}

impl Left {
    /// Sorts it. Things of no known name are dropped.
    pub fn of(kept: Vec<Kept>) -> Self {
        let mut left =
            Left { core: vec![], windows: vec![], services: vec![], owned: vec![], own: None };
        for k in kept {
            let number = |prefix: &str| k.name.strip_prefix(prefix).and_then(|n| n.parse().ok());
            if let Some(id) = number(WINDOW) {
                left.windows.push((id, k));
            } else if let Some(id) = number(SERVICE) {
                left.services.push((id, k));
            } else if let Some(client) = k.name.strip_prefix(OWNED) {
                left.owned.push((client.to_owned(), k));
            } else if k.name == OWN {
                left.own = serde_json::from_str(&k.note).ok();
            } else if k.name.starts_with(PREFIX) {
                left.core.push((k.name, k.note));
            }
        }
        left
    }

    /// Ends the services among it: nobody goes on with them. When it returns
    /// they touch nothing any more.
    pub fn end_services(&self) {
        let all: Vec<_> = self.services.iter().filter_map(|(_, kept)| kept.fds.get(1)).collect();
        for pidfd in &all {
            let _ = rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL);
        }
        all.into_iter().for_each(process::await_end);
    }

    pub fn is_empty(&self) -> bool {
        self.core.is_empty()
            && self.windows.is_empty()
            && self.services.is_empty()
            && self.owned.is_empty()
    }

    /// Names of all of it, to be forgotten.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let held = self.windows.iter().map(|(_, k)| &k.name);
        let held = held.chain(self.services.iter().map(|(_, k)| &k.name));
        let held = held.chain(self.owned.iter().map(|(_, k)| &k.name));
        self.core.iter().map(|(name, _)| name).chain(held).map(String::as_str)
    }
}

impl Daemon {
    /// Notes what changed in the core, before it is acted upon.
    pub(super) fn note_changes(&mut self) {
        let mut changes = self.core.changes();
        let own = OwnNote { next_id: self.next_id, window_generation: self.window_generation };
        if self.noted != Some((own.next_id, own.window_generation)) {
            self.noted = Some((own.next_id, own.window_generation));
            changes.push(Change { name: OWN.into(), note: Some(text(&own)) });
        }
        if !changes.is_empty() {
            self.tell_keeper(changes);
        }
    }

    fn tell_keeper(&mut self, changes: Vec<Change>) {
        let Some(keeper) = &self.keeper else { return };
        match keeper.change(changes) {
            Ok(too_long) => say_too_long(&too_long),
            Err(e) => {
                tracing::error!("the keeper takes nothing more: {e}");
                self.keeper_gone();
            }
        }
    }

    /// The keeper ended: another one is given everything.
    pub(super) fn keeper_gone(&mut self) {
        self.keeper_due = None;
        if let Some(old) = self.keeper.take() {
            let _ = rustix::event::epoll::delete(&self.epoll, &old);
        }
        let started = Keeper::start(&self.config.keeper_program, &self.tree.keeper_socket())
            .and_then(|keeper| self.give_all(&keeper).map(|()| keeper));
        match started {
            Ok(keeper) => {
                tracing::warn!("the keeper was lost and started again");
                if let Err(e) = self.watch(&keeper, Kind::KeeperEnd, 0, EventFlags::RDHUP) {
                    tracing::error!("the keeper cannot be watched: {e}");
                }
                self.keeper = Some(keeper);
            }
            Err(e) => {
                // Not at once: what one could not take the next one cannot either.
                if self.may_say("the keeper") {
                    tracing::error!(
                        "there is no keeper ({e}): if this manager is killed, its windows are lost; it is tried again"
                    );
                }
                self.keeper_due = Some(std::time::Instant::now() + KEEPER_AGAIN);
                return;
            }
        }
        let windows: Vec<_> = self.windows.keys().copied().collect();
        windows.into_iter().for_each(|id| self.hold_window(id));
        let services: Vec<_> = self.services.keys().copied().collect();
        services.into_iter().for_each(|id| self.hold_service(id));
        self.owned.keys().for_each(|client| self.hold_owned(client));
        // One that lost the connection, not its life, has written its will.
        for a in self.windows.values() {
            a.window.set_state(self.serving_state());
        }
    }

    /// Tells a new keeper all that is noted.
    fn give_all(&mut self, keeper: &Keeper) -> io::Result<()> {
        // What changed and was not noted yet is noted by this.
        drop(self.core.changes());
        // Its own numbers first: without them the next manager would give a
        // window the number of one that services still let go of.
        let own = OwnNote { next_id: self.next_id, window_generation: self.window_generation };
        self.noted = Some((own.next_id, own.window_generation));
        let mut notes = vec![Change { name: OWN.into(), note: Some(text(&own)) }];
        notes.extend(self.core.all_notes());
        say_too_long(&keeper.change(notes)?);
        Ok(())
    }

    /// What windows say of the manager.
    pub(super) fn serving_state(&self) -> u32 {
        match self.core.draining() {
            true => host_state::DRAINING,
            false => host_state::SERVING,
        }
    }

    pub(super) fn hold_window(&mut self, id: WindowId) {
        let (Some(keeper), Some(a)) = (&self.keeper, self.windows.get(&id)) else { return };
        let note = WindowNote {
            client: a.client,
            bytes: a.window.bytes(),
            generation: a.window.generation(),
            transport: a.transport.into(),
            heartbeats: a.heartbeats,
            proven: a.proven,
            peer: a.peer.is_some(),
            bells: a.window.bells().is_some(),
            handing: a.handing,
        };
        let file = a.window.fd();
        let mut fds = vec![file.as_fd()];
        fds.extend(a.peer.as_ref().map(AsFd::as_fd));
        if let Some(b) = a.window.bells() {
            fds.extend(b.to_host.iter().chain(&b.to_app).map(AsFd::as_fd));
        }
        let will = Will { offset: HOST_STATE_OFF as u64, value: host_state::AWAY.into() };
        let held = keeper.hold(&format!("{WINDOW}{id}"), &text(&note), Some(will), &fds);
        if let Err(e) = held {
            tracing::error!("a window cannot be kept: {e}");
        }
    }

    pub(super) fn hold_service(&mut self, id: ServiceId) {
        let (Some(keeper), Some(p)) = (&self.keeper, self.services.get(&id)) else { return };
        let build = self.submissions.started_from(id).map(str::to_owned);
        let note = text(&ServiceNote { pid: p.pid, sandbox: p.sandbox.clone(), build });
        if let Err(e) =
            keeper.hold(&format!("{SERVICE}{id}"), &note, None, &[p.socket(), p.pidfd()])
        {
            tracing::error!("a service cannot be kept: {e}");
        }
    }

    pub(super) fn let_window_go(&mut self, id: WindowId) {
        self.forget(format!("{WINDOW}{id}"));
    }

    pub(super) fn let_service_go(&mut self, id: ServiceId) {
        self.forget(format!("{SERVICE}{id}"));
    }

    pub(super) fn hold_owned(&self, client: &str) {
        let (Some(keeper), Some(owned)) = (&self.keeper, self.owned.get(client)) else { return };
        if let Err(e) = keeper.hold(&format!("{OWNED}{client}"), "", None, &[owned.as_fd()]) {
            tracing::error!("the lock of a window cannot be kept: {e}");
        }
    }

    pub(super) fn let_owned_go(&mut self, client: &str) {
        self.forget(format!("{OWNED}{client}"));
    }

    fn forget(&mut self, name: String) {
        self.tell_keeper(vec![Change { name, note: None }]);
    }

    /// Takes up what an earlier manager left, and lets the core say what is to
    /// be put right. Whatever cannot be taken up counts as gone.
    pub(super) fn take_up(&mut self, left: Left, services: &[LeftService]) {
        if let Some(own) = left.own {
            self.next_id = self.next_id.max(own.next_id);
            self.window_generation = self.window_generation.max(own.window_generation);
        }
        for (client, kept) in left.owned {
            self.owned.extend(kept.fds.into_iter().next().map(|fd| (client, Owned::kept(fd))));
        }
        let mut known: BTreeMap<WindowId, bool> =
            self.core.window_ids().map(|id| (id, false)).collect();
        for (id, kept) in left.windows {
            match self.take_up_window(id, kept) {
                Ok(event) => {
                    // Its number may not have been noted before it was kept.
                    self.next_id = self.next_id.max(id);
                    if known.insert(id, true).is_none() {
                        // It was made, and its manager killed before it was noted.
                        self.events.push_back(event);
                    }
                }
                Err(e) => {
                    tracing::error!("window {id} could not be taken up: {e}");
                    self.let_window_go(id);
                }
            }
        }
        for (id, _) in known.iter().filter(|(_, there)| !**there) {
            self.events.push_back(Event::WindowDown { window: *id });
            self.let_window_go(*id);
        }
        let mut alive = vec![];
        for (id, kept) in left.services {
            match self.take_up_service(id, kept) {
                Ok(()) => alive.push(id),
                Err(e) => {
                    tracing::error!("service {id} could not be taken up: {e}");
                    self.let_service_go(id);
                }
            }
        }
        for (id, p) in &self.services {
            if !self.core.knows_service(*id) {
                p.kill();
            }
        }
        self.end_left_services(services);
        tracing::info!(
            windows = self.windows.len(),
            services = alive.len(),
            grants = self.core.totals().grants,
            "goes on where another manager was"
        );
        self.find_strays();
        self.events.push_back(Event::Resume { alive: alive.clone() });
        self.settle();
        // Without its answer nothing can be opened or given back there. It comes
        // behind what else it is told, as its report is read.
        for id in alive {
            self.tell(id, Word::Plain(ToService::Report { by: self.generation }));
        }
    }

    fn take_up_window(&mut self, id: WindowId, kept: Kept) -> Result<Event, String> {
        let note: WindowNote = serde_json::from_str(&kept.note).map_err(|e| e.to_string())?;
        let transport = [HOST, DOORBELL, PLAIN]
            .into_iter()
            .find(|t| *t == note.transport)
            .ok_or("an unknown transport")?;
        let mut fds = kept.fds.into_iter();
        let file = fds.next().ok_or("no memory was kept of it")?;
        let peer: Option<UnixStream> = match note.peer {
            true => Some(fds.next().ok_or("no connection was kept of it")?.into()),
            false => None,
        };
        if note.handing {
            // A mere hang-up would let its QEMU wait for ever.
            peer.iter().for_each(refuse);
            return Err("its manager was killed while it told the VM of it".into());
        }
        let client = self.core.catalog().clients.get(&note.client).map(|c| c.name.clone());
        if let Some(client) = client.as_deref().filter(|_| transport == PLAIN) {
            self.own_window(client)?;
        }
        let bells = match note.bells {
            true => Some(bells(fds.collect(), transport)?),
            false => None,
        };
        let control = bells.as_ref().map(|b| b.to_host[0].clone());
        let mut window = HostWindow::take_up(file, note.bytes, note.generation, bells)
            .map_err(|e| e.to_string())?;
        if let Some(client) = &client {
            window.expect_header(note.client, client);
        }
        window.set_state(self.serving_state());
        let watched = (|| -> io::Result<()> {
            if let Some(peer) = &peer {
                self.watch(peer, Kind::Peer, id, EventFlags::RDHUP)?;
            }
            if let Some(control) = &control {
                self.watch(control, Kind::Bell, id, EventFlags::IN | EventFlags::ET)?;
            }
            Ok(())
        })();
        watched.map_err(|e| e.to_string())?;
        let up = Event::WindowUp {
            window: id,
            client: note.client,
            bytes: note.bytes,
            doorbell: note.bells,
            death_seen: !note.heartbeats,
            proven: note.proven,
        };
        let attached = Attached {
            window,
            client: note.client,
            transport,
            peer,
            heartbeats: note.heartbeats,
            proven: note.proven,
            handing: false,
            intake: self.intake(note.client),
        };
        self.windows.insert(id, attached);
        Ok(up)
    }

    fn take_up_service(&mut self, id: ServiceId, kept: Kept) -> Result<(), String> {
        let note: ServiceNote = serde_json::from_str(&kept.note).map_err(|e| e.to_string())?;
        let [socket, pidfd] =
            <[OwnedFd; 2]>::try_from(kept.fds).map_err(|_| "two descriptors were due")?;
        let mut process = Process::new(note.pid, socket, pidfd, note.sandbox);
        process.sandbox.standing = Standing::of(note.pid, process.pidfd(), &process.sandbox.meant);
        self.watch(process.socket(), Kind::ServiceSocket, id, EventFlags::IN)
            .and_then(|()| self.watch(process.pidfd(), Kind::ServiceEnd, id, EventFlags::IN))
            .map_err(|e| e.to_string())?;
        self.services.insert(id, process);
        if let Some(build) = note.build {
            self.submissions.was_started_from(id, build);
        }
        Ok(())
    }
}

fn bells(fds: Vec<OwnedFd>, transport: &str) -> Result<Bells, String> {
    let vectors = usize::from(VECTORS);
    if fds.len() != 2 * vectors {
        return Err(format!("{} bells were kept of it, not {}", fds.len(), 2 * vectors));
    }
    let mut all: Vec<Bell> = fds.into_iter().map(Bell::from_fd).collect();
    let to_app = all.split_off(vectors);
    match transport {
        DOORBELL => Bells::of_vm(all, to_app).map_err(|e| e.to_string()),
        _ => Ok(Bells::of_program(all, to_app)),
    }
}

/// Notes that were not kept as they are: the next manager begins anew then.
fn say_too_long(names: &[String]) {
    for name in names {
        tracing::error!(
            "{name} is too long to be noted: if this manager is killed now, the next one begins anew"
        );
    }
}

fn text(note: &impl Serialize) -> String {
    serde_json::to_string(note).expect("plain data")
}
