//! A manager's life: its start, its turns, and its end at any point. What it does
//! is the rim that the daemon has (`vfun_rim`), over the [`World`] as its system.

use crate::keeper::Keeper;
use crate::memory::Memory;
use crate::system::Seat;
use crate::world::{Conn, World};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use vfun_core::kept::PREFIX;
use vfun_core::limits::MESSAGES_A_TURN;
use vfun_core::{Core, Event, Exit, ServiceId, WindowId};
use vfun_rim::methods::*;
use vfun_rim::take_up::EarlierManager;
use vfun_rim::window::HostWindow;
use vfun_rim::{Attached, Rim, Transport};

/// The manager was killed here.
pub struct Killed;

/// A manager that lives.
pub struct Manager {
    pub rim: Rim<World>,
    /// Whether its keeper lives and has everything.
    pub keeper: bool,
}

impl Manager {
    /// The memory of a window it has.
    pub fn memory(&self, id: WindowId) -> Option<&Rc<Memory>> {
        self.rim.windows.get(&id).map(|a| &a.peer.memory)
    }
}

/// What wakes a manager.
enum Due {
    Hear(ServiceId),
    Ended(ServiceId),
    Gone(WindowId),
    Attach(usize),
    Keeper,
}

impl World {
    /// Lets the manager do something. If it is killed meanwhile, nothing more of it
    /// happens: what it was about to do is unwound.
    pub fn manage(&mut self, what: impl FnOnce(&mut World)) {
        let Err(end) = catch_unwind(AssertUnwindSafe(|| what(self))) else { return };
        match end.downcast::<Killed>() {
            Ok(_) => self.manager_dies(),
            Err(finding) => resume_unwind(finding),
        }
    }

    /// Takes over from the manager that was killed, or begins.
    pub fn start(&mut self) {
        self.generation += 1;
        let generation = self.generation;
        let found = self.keeper.is_some();
        let kept = self.keeper.get_or_insert_with(Keeper::default).things.clone();
        if !found || !kept.keys().any(|name| name.starts_with(PREFIX)) {
            self.lost_all();
        }
        self.say(|| format!("manager {generation} starts; the keeper has {} things", kept.len()));
        let left = EarlierManager::of(
            kept.into_iter().map(|(name, thing)| (name, thing.note, thing.held)),
        );
        let notes = left.core.iter().map(|(name, note)| (name.as_str(), note.as_str()));
        let mut core = Core::restore(self.now, generation, self.catalog.clone(), notes)
            .unwrap_or_else(|e| panic!("notes of a manager cannot be read: {e}"));
        // VFs move as often as they can.
        let leases = vfun_leases::Settings {
            policy: vfun_leases::Policy::Random,
            interval_ms: 20,
            min_hold_ms: 0,
            seed: generation.into(),
            ..Default::default()
        };
        core.set_leases(leases).expect("settings that make sense");
        self.unheard.clear();
        let rim = Rim::new(core, generation, self.now);
        self.manager = Some(Manager { rim, keeper: true });
        self.kill_point("restored, nothing taken up");
        if left.is_empty() {
            self.end_left_services();
        } else {
            let alive = self.take_up(left);
            self.end_left_services();
            self.resume(alive);
        }
        self.settle();
    }

    fn end_left_services(&mut self) {
        let left: Vec<u32> = self.records.iter().copied().collect();
        for pid in left {
            let m = self.manager.as_ref().expect("a manager lives");
            if !m.rim.services.values().any(|s| s.pid == pid) {
                self.kill_process(pid, Exit::Signal(9));
                self.records.remove(&pid);
                self.kill_point("ended what another manager left");
            }
        }
    }

    /// One turn of its loop.
    pub fn manager_turn(&mut self) {
        for due in self.due() {
            match due {
                Due::Hear(id) => self.hear_service(id, MESSAGES_A_TURN),
                Due::Ended(id) => self.service_ended(id),
                Due::Gone(id) => self.window_gone(id),
                Due::Attach(guest) => self.attach(guest),
                Due::Keeper => self.keeper_gone(),
            }
            self.kill_point("between two things it was woken for");
            self.settle();
        }
        // Whoever lives has moved its heartbeat by the time that it is looked at.
        if self.heartbeats_due() {
            self.beat_all();
        }
        self.look_around();
    }

    fn due(&mut self) -> Vec<Due> {
        let m = self.manager.as_ref().expect("a manager lives");
        let mut due = vec![];
        for (id, s) in &m.rim.services {
            match self.processes.get(&s.pid) {
                Some(p) if p.lives() && !p.outbox.is_empty() => due.push(Due::Hear(*id)),
                Some(p) if p.lives() => {}
                _ => due.push(Due::Ended(*id)),
            }
        }
        let gone = m.rim.windows.keys().filter(|id| self.hangups.contains(id));
        due.extend(gone.map(|id| Due::Gone(*id)));
        due.extend((0..self.guests.len()).filter(|g| self.guests[*g].wants()).map(Due::Attach));
        if self.keeper.is_none() {
            due.push(Due::Keeper);
        }
        if !self.steady {
            self.rng.shuffle(&mut due);
        }
        due
    }

    /// A window for a guest that wants one; VMs are told when it is kept,
    /// programs before.
    fn attach(&mut self, guest: usize) {
        let g = &self.guests[guest];
        let (client, host, bytes) = (g.client, g.host, g.bytes);
        let vm = (!host).then(|| g.vm.to_owned());
        let m = self.manager.as_ref().expect("a manager lives");
        let declared = m.rim.core.catalog().clients.get(&client);
        let Some(name) = declared.map(|c| c.name.clone()) else { return };
        let memory = Memory::new(guest, bytes);
        let (generation, id) = (self.next_window_generation(), self.fresh_id());
        let window = HostWindow::lay_out(memory.file(), bytes, generation, client, &name, None);
        let conn = Conn { window: id, memory: memory.clone() };
        let transport = if host { Transport::Host } else { Transport::IvshmemDoorbell };
        let attached = Attached {
            window: window.expect("a window"),
            client,
            vm,
            transport,
            peer: Seat { guest, memory },
            proven: false,
            handing: false,
            intake: self.intake(client),
        };
        if host {
            self.guests[guest].conn = Some(conn);
            self.kill_point("the app has its window, the keeper has not");
            self.window_up(id, attached);
        } else {
            let given: Result<(), std::convert::Infallible> =
                self.window_given(id, attached, |w| {
                    w.guests[guest].conn = Some(conn);
                    Ok(())
                });
            given.unwrap_or_else(|e| match e {});
        }
        self.settle();
    }

    /// An operator's doing.
    pub fn admin(&mut self, event: Event) {
        self.push(event);
        self.settle();
    }

    /// A client is no longer declared.
    pub fn remove_client(&mut self, client: u32) {
        let m = self.manager.as_ref().expect("a manager lives");
        let theirs = m.rim.windows.iter().filter(|(_, w)| w.client == client);
        let ids: Vec<_> = theirs.map(|(id, _)| *id).collect();
        let mut catalog = m.rim.core.catalog().clone();
        ids.into_iter().for_each(|id| self.window_gone(id));
        catalog.clients.remove(&client);
        self.catalog = catalog.clone();
        self.admin(Event::Catalog(catalog));
    }

    /// Its process is gone: what nobody else holds is closed.
    pub fn manager_dies(&mut self) {
        let Some(m) = self.manager.take() else { return };
        self.kills += 1;
        self.say(|| "the manager is killed".into());
        self.keeper = self.keeper.take().filter(|_| m.keeper);
        self.close_what_nobody_holds();
    }

    /// The keeper is killed.
    pub fn keeper_dies(&mut self) {
        self.say(|| "the keeper is killed".into());
        self.keeper = None;
        match &mut self.manager {
            Some(m) => m.keeper = false,
            // What it held was held by nobody else.
            None => self.close_what_nobody_holds(),
        }
    }

    /// There is no manager: connections that the keeper has not are closed.
    fn close_what_nobody_holds(&mut self) {
        let none = Keeper::default();
        let keeper = self.keeper.as_ref().unwrap_or(&none);
        let (pids, windows) = keeper.held();
        for (pid, p) in &mut self.processes {
            if !pids.contains(pid) {
                p.unlink();
            }
        }
        let guests = self.guests.iter().enumerate();
        let lost: Vec<_> = guests
            .filter_map(|(i, g)| Some((i, g.conn.as_ref()?.window)))
            .filter(|(_, w)| !windows.contains(w))
            .collect();
        for (guest, window) in lost {
            self.hung_up(guest, window);
        }
    }
}
