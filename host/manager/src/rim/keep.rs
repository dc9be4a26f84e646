//! The connection to the keeper, and what it gives back: windows and services of
//! an earlier manager. What is kept, and when, is in `vfun_rim::keep`.

use super::{Daemon, Kind, wiring};
use crate::core::{ServiceId, WindowId};
use crate::in_flight;
use crate::limits::{FULL_SAID_AGAIN, KEEPER_AGAIN, TELL_AGAIN};
use crate::process::{self, Process, Sandbox};
use rustix::event::epoll::{self, EventFlags};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use vfun_jail::Standing;
use vfun_keeper::{Keeper, Will};
use vfun_rim::KeptThing;
use vfun_rim::methods::*;
use vfun_rim::take_up::{EarlierManager, OWNED};
use vfun_window::fdpass::no_room;
use vfun_wire::header::{HOST_STATE_OFF, host_state};

#[derive(Serialize, Deserialize)]
struct ServiceNote {
    pid: i32,
    #[serde(default)]
    sandbox: Sandbox,
    /// Which build it was started from, if it is one of `submit`.
    #[serde(default)]
    build: Option<String>,
}

/// What the keeper is still to be given, as there was no room for its descriptors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UnkeptThing {
    /// A window or a service.
    Thing(KeptThing),
    /// The lock of a VM's window in a file.
    Owned(String),
}

/// Ends the services among what is left: nobody goes on with them. When it returns
/// they touch nothing any more.
pub(super) fn end_services(left: &EarlierManager<Vec<OwnedFd>>) {
    let all: Vec<_> = left.services.iter().filter_map(|(_, _, fds)| fds.get(1)).collect();
    for pidfd in &all {
        let _ = rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL);
    }
    all.into_iter().for_each(process::await_end);
}

impl Daemon {
    /// Starts a keeper in the place of the one that is gone.
    pub(super) fn start_another_keeper(&mut self) -> io::Result<()> {
        self.keeper_due = None;
        if let Some(old) = self.keeper.take() {
            let _ = epoll::delete(&self.epoll, &old);
        }
        let socket = self.tree.keeper_socket();
        self.keeper = Some(Keeper::start(&self.config.keeper_program, &socket)?);
        Ok(())
    }

    /// It has all that is noted, or there is none.
    pub(super) fn another_keeper_started(&mut self, done: io::Result<()>) {
        match done {
            Ok(()) => {
                tracing::warn!("the keeper was lost and started again");
                let keeper = self.keeper.as_ref().expect("just started");
                if let Err(e) = self.watch(keeper, Kind::KeeperEnd, 0, EventFlags::RDHUP) {
                    tracing::error!("the keeper cannot be watched: {e}");
                }
            }
            Err(e) => {
                self.keeper = None;
                // Not at once: what one could not take the next one cannot either.
                if self.may_say("the keeper") {
                    tracing::error!(
                        "there is no keeper ({e}): if this manager is killed, its windows are lost; it is tried again"
                    );
                }
                self.keeper_due = Some(Instant::now() + KEEPER_AGAIN);
            }
        }
        if self.keeper.is_some() {
            self.hold_links();
        }
        let owned: Vec<String> = self.owned.keys().cloned().collect();
        owned.iter().for_each(|client| self.hold_owned(client));
    }

    /// What came of giving the keeper something. Where there was no room for its
    /// descriptors it is given again.
    pub(super) fn held(&mut self, what: UnkeptThing, done: io::Result<()>) -> io::Result<()> {
        if let Err(e) = &done
            && no_room(e)
        {
            self.say_if_full(e);
            self.unheld.insert(what);
            return Ok(());
        }
        self.unheld.remove(&what);
        done
    }

    /// Gives the keeper what there was no room for.
    pub(super) fn hold_again(&mut self) {
        for what in std::mem::take(&mut self.unheld) {
            match what {
                UnkeptThing::Thing(KeptThing::Window(id)) => self.hold_window(id),
                UnkeptThing::Thing(KeptThing::Further(id)) => self.hold_further(id),
                UnkeptThing::Thing(KeptThing::Service(id)) => self.hold_service(id),
                UnkeptThing::Owned(client) => self.hold_owned(&client),
            }
        }
    }

    pub(super) fn hold_patience(&self) -> Option<Duration> {
        (!self.unheld.is_empty()).then_some(TELL_AGAIN)
    }

    /// Says, now and then, that there is no room for descriptors on their way.
    pub(super) fn say_if_full(&mut self, e: &io::Error) {
        if no_room(e) && self.said_full.is_none_or(|t| t.elapsed() >= FULL_SAID_AGAIN) {
            self.said_full = Some(Instant::now());
            tracing::warn!("services and the keeper are told later: {}", in_flight::words(e));
        }
    }

    /// Gives the keeper a window with all that belongs to it.
    pub(super) fn keep_window(&self, id: WindowId, name: &str, note: &str) -> io::Result<()> {
        let (Some(keeper), Some(a)) = (&self.keeper, self.rim.windows.get(&id)) else {
            return Ok(());
        };
        let file = a.window.fd();
        let mut fds = vec![file.as_fd()];
        fds.extend(wiring::of(a.transport).keep(a));
        let offset = a.window.origin() + HOST_STATE_OFF as u64;
        let will = Will { offset, value: host_state::AWAY.into() };
        keeper.hold(name, note, Some(will), &fds)
    }

    /// Gives the keeper the memory of a further window, and connections of QEMUs to it.
    pub(super) fn keep_further(&self, id: WindowId, name: &str, note: &str) -> io::Result<()> {
        let (Some(keeper), Some(d)) = (&self.keeper, self.rim.further.get(&id)) else {
            return Ok(());
        };
        let memory = d.pages().fd();
        let mut fds = vec![memory.as_fd()];
        fds.extend(self.taken_of(id).map(AsFd::as_fd));
        keeper.hold(name, note, None, &fds)
    }

    /// Gives the keeper a service's socket and pidfd.
    pub(super) fn keep_service(&self, id: ServiceId, name: &str, note: &str) -> io::Result<()> {
        let (Some(keeper), Some(p)) = (&self.keeper, self.rim.services.get(&id)) else {
            return Ok(());
        };
        let fds: [BorrowedFd<'_>; 2] = [p.socket(), p.pidfd()];
        keeper.hold(name, note, None, &fds)
    }

    /// What the next manager is to know of a service.
    pub(super) fn note_of_service(&self, id: ServiceId) -> String {
        let Some(p) = self.rim.services.get(&id) else { return String::new() };
        let build = self.submissions.started_from(id).map(str::to_owned);
        let note = ServiceNote { pid: p.pid, sandbox: p.sandbox.clone(), build };
        serde_json::to_string(&note).expect("plain data")
    }

    pub(super) fn hold_owned(&mut self, client: &str) {
        let (Some(keeper), Some(owned)) = (&self.keeper, self.owned.get(client)) else { return };
        let done = keeper.hold(&format!("{OWNED}{client}"), "", None, &[owned.as_fd()]);
        if let Err(e) = self.held(UnkeptThing::Owned(client.to_owned()), done) {
            tracing::error!("the lock of a window cannot be kept: {e}");
        }
    }

    pub(super) fn let_owned_go(&mut self, client: &str) {
        let name = format!("{OWNED}{client}");
        self.tell_keeper(vec![vfun_keeper::Change { name, note: None }]);
    }

    /// Takes a service up by its socket and pidfd.
    pub(super) fn service_of(
        &mut self,
        id: ServiceId,
        note: &str,
        kept: Vec<OwnedFd>,
    ) -> Result<Process, String> {
        let note: ServiceNote = serde_json::from_str(note).map_err(|e| e.to_string())?;
        let [socket, pidfd] =
            <[OwnedFd; 2]>::try_from(kept).map_err(|_| "two descriptors were due")?;
        let mut process = Process::new(note.pid, socket, pidfd, note.sandbox);
        let standing = Standing::of(note.pid, process.pidfd(), &process.sandbox.meant);
        self.jails.seen = Some(standing.clone());
        process.sandbox.standing = standing;
        self.watch(process.socket(), Kind::ServiceSocket, id, EventFlags::IN)
            .and_then(|()| self.watch(process.pidfd(), Kind::ServiceEnd, id, EventFlags::IN))
            .map_err(|e| e.to_string())?;
        if let Some(build) = note.build {
            self.submissions.was_started_from(id, build);
        }
        Ok(process)
    }
}
