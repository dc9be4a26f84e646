//! The world as a manager's system: see [`System`].

use crate::keeper::KeptThing;
use crate::manager::Killed;
use crate::memory::Memory;
use crate::plan::Chance;
use crate::service::{Baton, Process, Temper, Told};
use crate::world::World;
use std::fmt::Arguments;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::resume_unwind;
use std::rc::Rc;
use vfun_bond::Report;
use vfun_core::{Event, Exit, GrantRecord, Refusal, ReplyTo, ServiceId, WindowId};
use vfun_keeper::{BATCH_BYTES, Change, TooLong};
use vfun_rim::keep::WindowNote;
use vfun_rim::methods::*;
use vfun_rim::window::HostWindow;
use vfun_rim::{Attached, Line, Rim, SocketFound, System, Unsent, With};
use vfun_supervise::{ModuleRequest, Start, ToService};
use vfun_wire::{Handle, Nack};

/// Which guest has a window, and its memory.
pub struct Seat {
    pub guest: usize,
    pub memory: Rc<Memory>,
}

/// A service as its manager has it.
pub struct Service {
    pub pid: u32,
    /// Not one that another manager started: its exit status is told.
    child: bool,
}

/// Whether what an event changes is bounded, so that its notes fit one packet.
fn bounded(event: &Event) -> bool {
    matches!(
        event,
        Event::WindowUp { .. }
            | Event::Request(_)
            | Event::ChannelOpened { .. }
            | Event::ChannelStanding { .. }
            | Event::ChannelLost { .. }
            | Event::ChannelOpenFailed { .. }
            | Event::ChannelClosed { .. }
            | Event::ChannelBroken { .. }
            | Event::CallOverran { .. }
            | Event::Revoke { .. }
            | Event::Drain
    )
}

impl System for World {
    type Process = Service;
    type Peer = Seat;
    type Baton = Baton;
    type Kept = KeptThing;
    type What = ();

    fn rim(&self) -> &Rim<Self> {
        &self.manager.as_ref().expect("a manager lives").rim
    }
    fn rim_mut(&mut self) -> &mut Rim<Self> {
        &mut self.manager.as_mut().expect("a manager lives").rim
    }
    fn now(&self) -> u64 {
        self.now
    }
    fn log(&self, _: Line, text: Arguments<'_>) {
        self.say(|| format!("log: {text}"));
        if text.to_string().contains(" does not run: ") {
            self.stalled.set(self.stalled.get() + 1);
        }
    }

    fn point(&mut self, what: &'static str) {
        self.kill_point(what);
    }
    fn handling(&mut self, event: &Event) {
        // What is not bounded may take several packets.
        let cut = !bounded(event) && self.rng.u32(0..3) == 0;
        self.packet = if cut { 600 } else { BATCH_BYTES };
        self.say(|| match event {
            Event::Catalog(_) => "event: the catalog changed".into(),
            Event::Heartbeats { window, .. } => format!("event: heartbeats of {window}"),
            Event::Request(r) => format!("event: request {:?} {}", r.to, r.kind),
            e => format!("event: {e:?}"),
        });
    }
    fn noted(&mut self, (): ()) {
        self.packet = BATCH_BYTES;
    }
    fn done(&mut self, (): ()) {
        self.check();
    }

    fn answers(&mut self, to: &ReplyTo, result: &Result<Vec<u8>, Nack>) {
        let how = match result {
            Ok(body) => format!("ack of {} bytes", body.len()),
            Err(nack) => format!("{:?}: {}", nack.code, nack.sentence),
        };
        self.say(|| format!("answer {to:?}: {how}"));
        let seat = self.rim().windows.get(&to.window).map(|a| &a.peer);
        if seat.is_some_and(|s| !s.memory.scribbled.get()) {
            self.ledger.answer((to.window, to.cell, to.seq), how);
        }
    }
    fn record(&mut self, _: &GrantRecord, _: bool) {}
    fn refused(&mut self, _: &Refusal) {}

    fn listen(&mut self, _: WindowId, _: bool) -> bool {
        false // there are no bells
    }
    fn close(&mut self, window: WindowId, attached: Attached<Seat>) {
        self.hung_up(attached.peer.guest, window);
    }

    fn start_service(&mut self, service: ServiceId, start: Start) {
        if self.plan.may(Chance::Refusals) && self.rng.u32(0..30) == 0 {
            let reason = "the service program cannot be started".into();
            return self.push(Event::ServiceFailed { service, reason });
        }
        let pid = self.spawn(&start.client, &start.function);
        self.say(|| format!("service {service} is process {pid}"));
        self.kill_point("started, not recorded");
        self.records.insert(pid);
        self.rim_mut().services.insert(service, Service { pid, child: true });
        self.kill_point("recorded, not kept");
        self.hold_service(service);
    }
    fn abandon_start(&mut self, _: ServiceId) -> bool {
        false // each is there at once
    }
    fn pid(process: &Service) -> u32 {
        process.pid
    }
    fn send(
        &mut self,
        service: ServiceId,
        message: &ToService,
        with: With<'_, Baton>,
    ) -> Result<Option<Baton>, Unsent> {
        // What had no room comes first, or a service would be told things out of order.
        if let Some(first) = self.unheard.remove(&service) {
            assert_eq!(&first, message, "service {service} is told this ahead of what waits");
        }
        if self.no_room && !matches!(with, With::Nothing) {
            self.unheard.insert(service, message.clone());
            return Err(Unsent::NoRoom);
        }
        let refusal = self.plan.may(Chance::Refusals).then(|| self.rng.u32(0..60));
        let (memory, baton) = match with {
            With::Nothing => (None, None),
            With::Baton(baton) => (None, baton.cloned()),
            With::Window(..) | With::Memory(..) if refusal == Some(2) => {
                self.unheard.insert(service, message.clone());
                return Err(Unsent::NoRoom);
            }
            With::Window(..) | With::Memory(..) if refusal == Some(0) => {
                return Err(Unsent::Never(io::Error::other("no descriptors")));
            }
            With::Window(window, _) | With::Memory(window, 0) => {
                let gone = || Unsent::Never(io::Error::other("its window is gone"));
                let memory = self.rim().windows.get(&window).map(|a| a.peer.memory.clone());
                let standby = matches!(message, ToService::Open(open) if open.standby);
                (Some(memory.ok_or_else(gone)?), standby.then(Baton::default))
            }
            With::Memory(_, other) => panic!("no window has a memory {other} here"),
        };
        let giver = baton.clone().filter(|_| memory.is_some());
        let pid = self.rim().services.get(&service).map(|s| s.pid);
        let process = pid.and_then(|pid| self.processes.get_mut(&pid)).filter(|p| p.lives());
        // Its socket is full, or its end is about to be noticed.
        let Some(process) = process.filter(|_| refusal != Some(1)) else {
            self.unheard.insert(service, message.clone());
            return Err(Unsent::Later);
        };
        let by = self.generation;
        process.inbox.push_back(Told { message: message.clone(), by, memory, baton });
        self.say(|| format!("tell service {service}: {message:?}"));
        Ok(giver)
    }
    fn receive(&mut self, service: ServiceId) -> SocketFound {
        let pid = self.rim().services.get(&service).map(|s| s.pid);
        let process = pid.and_then(|pid| self.processes.get_mut(&pid));
        match process.and_then(|p| p.outbox.pop_front()) {
            Some(message) => SocketFound::Message(message, vec![]),
            None => SocketFound::Nothing,
        }
    }
    fn kill(&mut self, service: ServiceId) {
        self.say(|| format!("kill service {service}"));
        if let Some(pid) = self.rim().services.get(&service).map(|s| s.pid) {
            self.kill_process(pid, Exit::Signal(9));
        }
    }
    // Only those that were killed: their end comes next.
    fn mute(&mut self, _: ServiceId) {}
    fn reap(&mut self, service: ServiceId) -> Option<Exit> {
        let s = self.rim().services.get(&service)?;
        let exit = self.processes.get(&s.pid).map_or(Some(Exit::Unknown), |p| p.exit)?;
        Some(if s.child { exit } else { Exit::Unknown })
    }
    fn bury(&mut self, service: ServiceId, process: Service) {
        self.unheard.remove(&service);
        self.records.remove(&process.pid);
        self.processes.remove(&process.pid);
    }
    fn loaded(&mut self, service: ServiceId, _: Option<String>) -> Event {
        Event::ServiceReady { service }
    }
    // Only the sentence of its end changes by it.
    fn forbidden(&mut self, _: ServiceId, _: u32) {}
    // The core hears of modules as a new catalog.
    fn wished(&mut self, _: ServiceId, _: u64, _: Handle, _: ModuleRequest, _: Vec<OwnedFd>) {}
    // The core hears nothing of what agents report.
    fn told(&mut self, _: ServiceId, _: Handle, _: Report) {}

    fn keep(&mut self, changes: Vec<Change>) -> io::Result<Vec<TooLong>> {
        let most = self.packet;
        vfun_keeper::packets(changes, most, |packet| {
            if let Some(keeper) = self.keeper_that_has_all() {
                keeper.change(&packet);
            }
            self.kill_point("a packet of notes is kept");
            Ok(())
        })
    }
    fn hold(&mut self, name: &str, note: &str, what: vfun_rim::KeptThing) -> io::Result<()> {
        let rim = self.rim();
        let held = match what {
            vfun_rim::KeptThing::Window(id) => {
                KeptThing::Window(rim.windows[&id].peer.memory.clone())
            }
            vfun_rim::KeptThing::Further(_) => KeptThing::Nothing,
            vfun_rim::KeptThing::Service(id) => KeptThing::Service(rim.services[&id].pid),
        };
        if let Some(keeper) = self.keeper_that_has_all() {
            keeper.hold(name.into(), note.into(), held);
        }
        Ok(())
    }
    fn service_note(&self, service: ServiceId) -> String {
        self.rim().services[&service].pid.to_string()
    }
    fn start_keeper(&mut self) -> io::Result<()> {
        self.keeper = Some(Default::default());
        self.manager.as_mut().expect("a manager lives").keeper = true;
        Ok(())
    }
    fn keeper_started(&mut self, _: io::Result<()>) {}

    fn regain_window(
        &mut self,
        _: WindowId,
        note: &WindowNote,
        kept: KeptThing,
    ) -> Result<(HostWindow, Seat), String> {
        let KeptThing::Window(memory) = kept else { return Err("no memory was kept of it".into()) };
        if note.handing {
            return Err("its manager was killed while it told the VM of it".into());
        }
        let window = HostWindow::take_up(memory.file(), note.bytes, note.generation, None);
        let seat = Seat { guest: memory.guest, memory };
        Ok((window.map_err(|e| e.to_string())?, seat))
    }
    fn regain_further(&mut self, _: KeptThing) -> Result<OwnedFd, String> {
        Err("no VM here has a further window".into())
    }
    fn fresh_key(&mut self) -> [u64; 2] {
        [1, 1]
    }
    fn regain_service(
        &mut self,
        _: ServiceId,
        _: &str,
        kept: KeptThing,
    ) -> Result<Service, String> {
        match kept {
            KeptThing::Service(pid) => Ok(Service { pid, child: false }),
            _ => Err("no process was kept of it".into()),
        }
    }
    fn lost(&mut self, what: vfun_rim::KeptThing, _: &str) {
        if let vfun_rim::KeptThing::Window(id) = what {
            self.hang_up_window(id);
        }
    }
}

impl World {
    /// One that was killed takes nothing, and is noticed later.
    fn keeper_that_has_all(&mut self) -> Option<&mut crate::keeper::Keeper> {
        let has_all = self.manager.as_ref().is_some_and(|m| m.keeper);
        self.keeper.as_mut().filter(|_| has_all)
    }

    /// Here the manager can be killed, and others can run.
    pub fn kill_point(&mut self, what: &'static str) {
        if self.is_killed_at(what) {
            resume_unwind(Box::new(Killed));
        }
    }

    fn spawn(&mut self, client: &str, function: &str) -> u32 {
        self.next_pid += 1;
        let starts = self.starts.entry((client.into(), function.into())).or_insert(0);
        *starts += 1;
        let mut rng = self.plan.stream(&format!("process {client} {function} {starts}"));
        let temper = self.temper(client, &mut rng);
        let process = Process::new(function, temper, rng, self.now);
        self.say(|| format!("{temper:?} process for {client} {function}"));
        self.processes.insert(self.next_pid, process);
        self.next_pid
    }

    fn temper(&self, client: &str, rng: &mut fastrand::Rng) -> Temper {
        let roll = rng.u32(0..20);
        let trusted = !self.guests.iter().any(|g| g.hostile.is_some() && g.name == client);
        if self.finishing {
            return Temper::Good;
        }
        if !trusted && self.plan.may(Chance::ServicesLie) && roll >= 10 {
            return Temper::Lies;
        }
        match roll {
            _ if !self.plan.may(Chance::ServicesDie) => Temper::Good,
            0..=3 => Temper::Crashes,
            4 | 5 => Temper::Hangs,
            6 => Temper::CannotLoad,
            7 => Temper::DiesLoading,
            8 => Temper::LoadsForEver,
            9 => Temper::Refuses,
            10 => Temper::Keeps,
            _ => Temper::Good,
        }
    }

    pub fn kill_process(&mut self, pid: u32, exit: Exit) {
        if let Some(p) = self.processes.get_mut(&pid) {
            p.die(exit);
        }
    }
}
