//! The operating system, as the rim needs it.

use super::keep::UnkeptThing;
use super::wiring::Owner;
use super::{Daemon, Kind};
use crate::core::{Event, Exit, GrantRecord, Refusal, ReplyTo, ServiceId, WindowId};
use crate::fault::{Step, What};
use crate::process::Process;
use crate::window::HostWindow;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use std::fmt::Arguments;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use vfun_bond::Report;
use vfun_keeper::{Change, TooLong};
use vfun_rim::further::FurtherWindows;
use vfun_rim::keep::WindowNote;
use vfun_rim::{Attached, KeptThing, Line, Rim, SocketFound, System, Unsent, With};
use vfun_supervise::{Error, FromService, ModuleRequest, Open, Start, ToService};
use vfun_window::fdpass::no_room;
use vfun_wire::{Handle, Nack};

impl System for Daemon {
    type Process = Process;
    /// The socket of a program on the host, or of a VM's QEMU: its end is theirs.
    type Peer = Option<UnixStream>;
    type Baton = OwnedFd;
    type Kept = Vec<OwnedFd>;
    type What = What;

    fn rim(&self) -> &Rim<Self> {
        &self.rim
    }
    fn rim_mut(&mut self) -> &mut Rim<Self> {
        &mut self.rim
    }
    fn now(&self) -> u64 {
        Daemon::now(self)
    }
    fn log(&self, line: Line, text: Arguments<'_>) {
        match line {
            Line::Debug => tracing::debug!("{text}"),
            Line::Info => tracing::info!("{text}"),
            Line::Warn => tracing::warn!("{text}"),
            Line::Error => tracing::error!("{text}"),
        }
    }

    fn handling(&mut self, event: &Event) -> What {
        let what = What::of(event);
        what.at(Step::Handling);
        if let Event::Catalog(_) = event {
            self.taps.catalog_changed();
            self.switches.changed();
            self.links.changed();
            if let Some(nics) = &mut self.nics {
                nics.catalog_changed();
            }
            if let Some(verdicts) = &mut self.verdicts {
                verdicts.catalog_changed();
            }
        }
        what
    }
    fn noted(&mut self, what: What) {
        self.reserve_generations();
        what.at(Step::Noted);
    }
    fn done(&mut self, what: What) {
        what.at(Step::Done);
        self.follow_ports();
    }

    fn answers(&mut self, _: &ReplyTo, _: &Result<Vec<u8>, Nack>) {}
    fn record(&mut self, g: &GrantRecord, say: bool) {
        if say {
            let client = vfun_admin::vm::owner(&g.client, g.vm.as_deref());
            tracing::info!(
                grant = %g.grant, client = %client, app = %g.app, function = %g.function,
                location = %g.location, why = g.why.as_deref().unwrap_or(""), "{}", g.state.text()
            );
        }
        self.put_on_record(g);
        if let Some(nics) = &mut self.nics {
            nics.changed(g);
        }
        self.switches.changed();
        self.links.changed();
    }
    fn refused(&mut self, refusal: &Refusal) {
        self.audit.refused(None, refusal);
    }

    fn listen(&mut self, id: WindowId, on: bool) -> bool {
        let Some(bells) = self.rim.windows.get(&id).and_then(|a| a.window.bells()) else {
            return false;
        };
        let bell = bells.to_host[0].as_fd();
        match on {
            true => self.watch(bell, Kind::Bell, id, EventFlags::IN | EventFlags::ET).is_ok(),
            false => epoll::delete(&self.epoll, bell).is_ok(),
        }
    }
    fn close(&mut self, _: WindowId, a: Attached<Self::Peer>) {
        // Its program holds the same bell: closing this end would not
        // keep it from waking the manager.
        if let Some(bells) = a.window.bells() {
            let _ = epoll::delete(&self.epoll, bells.to_host[0].as_fd());
        }
        if let Some(peer) = &a.peer {
            let _ = epoll::delete(&self.epoll, peer);
        }
        let of = Owner { client: a.client, vm: a.vm };
        self.ringers.extend(a.window.into_ringer().map(|thread| (of, thread)));
    }

    fn start_service(&mut self, service: ServiceId, start: Start) {
        if let Err(cannot) = self.launch_service(service, start) {
            self.not_started(service, cannot);
        }
    }
    fn abandon_start(&mut self, service: ServiceId) -> bool {
        self.abandon_launch(service)
    }
    fn pid(process: &Process) -> u32 {
        process.pid as u32
    }
    fn send(
        &mut self,
        service: ServiceId,
        message: &ToService,
        with: With<'_, OwnedFd>,
    ) -> Result<Option<OwnedFd>, Unsent> {
        let open = matches!(with, With::Window(..) | With::Memory(..));
        let sent = match with {
            With::Nothing => self.send_plain(service, message, None),
            With::Baton(baton) => self.send_plain(service, message, baton),
            With::Memory(window, memory) => {
                let data = self.data_of(window, memory).map(|(id, _)| id);
                self.share_window(service, data.unwrap_or(window));
                self.send_memory(service, message, window, memory)
            }
            With::Window(window, vectors) => {
                self.share_window(service, window);
                self.make_room_for_threads(service);
                self.send_open(service, message, window, vectors)
            }
        };
        if let Err(Error::Io(e)) = &sent {
            self.say_if_full(e);
        }
        sent.map_err(|e| unsent(e, open))
    }
    fn receive(&mut self, service: ServiceId) -> SocketFound {
        let Some(process) = self.rim.services.get(&service) else { return SocketFound::Nothing };
        match vfun_supervise::receive::<FromService>(process.socket()) {
            Ok(Some((message, files))) => SocketFound::Message(message, files),
            Ok(None) => {
                self.mute(service);
                SocketFound::Nothing
            }
            Err(Error::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => SocketFound::Nothing,
            Err(e) => SocketFound::Nonsense(e.to_string()),
        }
    }
    fn kill(&mut self, service: ServiceId) {
        if let Some(process) = self.rim.services.get(&service) {
            process.kill();
        }
    }
    fn mute(&mut self, service: ServiceId) {
        if let Some(process) = self.rim.services.get(&service) {
            let _ = epoll::delete(&self.epoll, process.socket());
        }
    }
    fn reap(&mut self, service: ServiceId) -> Option<Exit> {
        let exit = self.rim.services.get(&service)?.reap()?;
        Some(self.exit_of(service, exit))
    }
    fn bury(&mut self, _: ServiceId, process: Process) {
        // The keeper holds both for a moment more.
        let _ = epoll::delete(&self.epoll, process.socket());
        let _ = epoll::delete(&self.epoll, process.pidfd());
        let _ = self.records.service(process.pid, None);
        self.remove_group(process.sandbox.group);
    }
    fn loaded(&mut self, service: ServiceId, note: Option<String>) -> Event {
        self.service_ready(service, note)
    }
    fn forbidden(&mut self, service: ServiceId, call: u32) {
        self.forbidden.insert(service, call);
    }
    fn wished(
        &mut self,
        service: ServiceId,
        ask: u64,
        channel: Handle,
        wish: ModuleRequest,
        files: Vec<OwnedFd>,
    ) {
        Daemon::wished(self, service, ask, channel, wish, files);
    }

    fn told(&mut self, service: ServiceId, channel: Handle, report: Report) {
        self.bond_told(service, channel, report);
    }

    fn keep(&mut self, changes: Vec<Change>) -> io::Result<Vec<TooLong>> {
        self.keeper.as_ref().map_or(Ok(vec![]), |keeper| keeper.change(changes))
    }
    fn hold(&mut self, name: &str, note: &str, what: KeptThing) -> io::Result<()> {
        let done = match what {
            KeptThing::Window(id) => self.keep_window(id, name, note),
            KeptThing::Further(id) => self.keep_further(id, name, note),
            KeptThing::Service(id) => self.keep_service(id, name, note),
        };
        self.held(UnkeptThing::Thing(what), done)
    }
    fn service_note(&self, service: ServiceId) -> String {
        self.note_of_service(service)
    }
    fn start_keeper(&mut self) -> io::Result<()> {
        self.start_another_keeper()
    }
    fn keeper_started(&mut self, done: io::Result<()>) {
        self.another_keeper_started(done);
    }

    fn regain_window(
        &mut self,
        window: WindowId,
        note: &WindowNote,
        kept: Vec<OwnedFd>,
    ) -> Result<(HostWindow, Self::Peer), String> {
        self.window_of(window, note, kept)
    }
    fn regain_further(&mut self, kept: Vec<OwnedFd>) -> Result<OwnedFd, String> {
        kept.into_iter().next().ok_or_else(|| "no memory was kept of it".into())
    }
    fn fresh_key(&mut self) -> [u64; 2] {
        super::further::fresh_key()
    }
    fn regain_service(
        &mut self,
        service: ServiceId,
        note: &str,
        kept: Vec<OwnedFd>,
    ) -> Result<Process, String> {
        self.service_of(service, note, kept)
    }
    fn lost(&mut self, what: KeptThing, why: &str) {
        match what {
            KeptThing::Window(id) => tracing::error!("window {id} could not be taken up: {why}"),
            KeptThing::Further(id) => {
                tracing::error!("further window {id} could not be taken up: {why}")
            }
            KeptThing::Service(id) => tracing::error!("service {id} could not be taken up: {why}"),
        }
    }
}

impl Daemon {
    fn send_plain(
        &self,
        id: ServiceId,
        message: &ToService,
        baton: Option<&OwnedFd>,
    ) -> Result<Option<OwnedFd>, Error> {
        let process = self.rim.services.get(&id).ok_or_else(gone)?;
        let fds: Vec<_> = baton.iter().map(|b| b.as_fd()).collect();
        vfun_supervise::send(process.socket(), message, &fds)?;
        Ok(None)
    }

    fn send_memory(
        &self,
        id: ServiceId,
        message: &ToService,
        window: WindowId,
        memory: u16,
    ) -> Result<Option<OwnedFd>, Error> {
        let process = self.rim.services.get(&id).ok_or_else(gone)?;
        let control = self.rim.windows.get(&window).filter(|_| memory == 0);
        let data = || self.data_of(window, memory).map(|(_, d)| d.pages());
        let pages = control.map(|a| a.window.pages()).or_else(data).ok_or_else(gone)?;
        let vm = match message {
            ToService::BufferCame(came) if came.pages => self.shared_memory(window),
            _ => None,
        };
        let memory = pages.fd();
        let files = [Some(memory.as_fd()), vm.as_ref().map(|vm| vm.as_fd())];
        let files: Vec<_> = files.into_iter().flatten().collect();
        vfun_supervise::send(process.socket(), message, &files)?;
        Ok(None)
    }

    fn send_open(
        &self,
        id: ServiceId,
        message: &ToService,
        window: WindowId,
        vectors: (u16, u16),
    ) -> Result<Option<OwnedFd>, Error> {
        let process = self.rim.services.get(&id).ok_or_else(gone)?;
        let a = self.rim.windows.get(&window).ok_or_else(gone)?;
        let file = a.window.fd();
        let reading = a.window.pages().for_reading()?;
        let mut fds = vec![reading.as_fd(), file.as_fd()];
        if let Some(bells) = a.window.bells() {
            fds.push(bells.to_host[usize::from(vectors.0)].as_fd());
            fds.push(bells.to_app[usize::from(vectors.1)].as_fd());
        }
        let standby = matches!(message, ToService::Open(open) if open.standby);
        let baton = if standby { Some(vfun_window::baton()?) } else { None };
        if let Some((_, taker)) = &baton {
            fds.push(taker.as_fd());
        }
        let tap = match message {
            ToService::Open(Open { channel, port: Some(port), .. }) if !port.switch => {
                Some(self.tap_of(*channel)?)
            }
            _ => None,
        };
        fds.extend(tap.as_ref().map(|tap| tap.as_fd()));
        vfun_supervise::send(process.socket(), message, &fds)?;
        Ok(baton.map(|(giver, _)| giver))
    }
}

fn gone() -> io::Error {
    io::Error::other("its service or window is gone")
}

/// Whether a service can be told later what it could not be told now; `open` if
/// that is a channel to open.
fn unsent(e: Error, open: bool) -> Unsent {
    match e {
        Error::Io(e) => match Errno::from_io_error(&e) {
            _ if no_room(&e) => Unsent::NoRoom,
            Some(Errno::AGAIN) => Unsent::Later,
            // Its end is about to be noticed, and what follows from that
            // is better than a channel that cannot be opened.
            Some(Errno::PIPE | Errno::CONNRESET) => Unsent::Later,
            _ if open => Unsent::Never(e),
            _ => Unsent::Later,
        },
        e => Unsent::Never(io::Error::other(e)),
    }
}
