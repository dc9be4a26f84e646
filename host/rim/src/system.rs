//! What the rim needs of its surroundings.

use crate::{Attached, Rim};
use std::fmt::Arguments;
use std::io;
use std::os::fd::OwnedFd;
use vfun_bond::Report;
use vfun_core::{Event, Exit, GrantRecord, Refusal, ReplyTo, ServiceId, WindowId};
use vfun_keeper::{Change, TooLong};
use vfun_supervise::{FromService, ModuleRequest, Start, ToService};
use vfun_wire::{Handle, Nack};

use crate::keep::WindowNote;
use crate::window::HostWindow;

/// A line of the log by its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// For whoever looks for a fault.
    Debug,
    /// What an operator may want to know.
    Info,
    /// Something that should not be.
    Warn,
    /// Something that is to be seen to.
    Error,
}

/// What goes to a service along with a message.
pub enum With<'a, B> {
    Nothing,
    /// A window, with a channel's two vectors, and, where the service is to stand
    /// by, the end of a new baton.
    Window(WindowId, (u16, u16)),
    /// A memory of a window, for writing, by its number.
    Memory(WindowId, u16),
    /// The baton to pass, if there is one still.
    Baton(Option<&'a B>),
}

/// Why a service was not told something.
#[derive(Debug)]
pub enum Unsent {
    /// Its socket is full, or it is gone: that is noticed by its end.
    Later,
    /// The host has no room for descriptors on their way now.
    NoRoom,
    /// It can never be told this.
    Never(io::Error),
}

/// What a service's socket holds.
pub enum SocketFound {
    /// A message, with the descriptors that came along.
    Message(FromService, Vec<OwnedFd>),
    /// Nothing now, or nothing ever again.
    Nothing,
    /// No message: a driver has taken the service over.
    Nonsense(String),
}

/// What is given to the keeper besides a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeptThing {
    /// A window: its memory, its peer and its bells.
    Window(WindowId),
    /// A further window: its memory.
    Further(WindowId),
    /// A service: its socket, and what shows its end.
    Service(ServiceId),
}

/// The surroundings of a manager: the operating system, or a simulation of it.
///
/// Nothing here decides anything. Errors of the system that a manager survives are
/// told in the return values.
pub trait System: Sized {
    /// A service's process.
    type Process;
    /// The other end of a window.
    type Peer;
    /// The end of a baton that a service passes.
    type Baton;
    /// What a keeper held under a name.
    type Kept;
    /// What an event is about, for [`System::noted`] and [`System::done`].
    type What: Copy;

    /// What the manager has besides its surroundings.
    fn rim(&self) -> &Rim<Self>;
    /// What the manager has besides its surroundings.
    fn rim_mut(&mut self) -> &mut Rim<Self>;
    /// Milliseconds on a clock that never goes back, the same for all managers.
    fn now(&self) -> u64;
    /// Writes a line of the log.
    fn log(&self, line: Line, text: Arguments<'_>);

    /// Between two steps: here a simulation kills the manager, by unwinding.
    #[inline(always)]
    fn point(&mut self, _what: &'static str) {}
    /// An event is about to be handled.
    fn handling(&mut self, event: &Event) -> Self::What;
    /// It was handled, the keeper has what changed, and nothing was done yet.
    fn noted(&mut self, what: Self::What);
    /// All was done about it.
    fn done(&mut self, what: Self::What);

    /// A request is about to be answered in a window that is there.
    fn answers(&mut self, to: &ReplyTo, result: &Result<Vec<u8>, Nack>);
    /// Something became of a grant; `say` if the log has room for it.
    fn record(&mut self, grant: &GrantRecord, say: bool);
    /// Somebody was refused something.
    fn refused(&mut self, refusal: &Refusal);

    /// Listens to a window's control bell, or no longer. False if that failed.
    fn listen(&mut self, window: WindowId, on: bool) -> bool;
    /// A window is gone: its other end is let go of.
    fn close(&mut self, window: WindowId, attached: Attached<Self::Peer>);

    /// Begins to start a service. What comes of it is an event.
    fn start_service(&mut self, service: ServiceId, start: Start);
    /// Ends one that is being started; false if it is not.
    fn abandon_start(&mut self, service: ServiceId) -> bool;
    fn pid(process: &Self::Process) -> u32;
    /// Tells a service something. With [`With::Window`] for one that stands by:
    /// the baton's other end.
    fn send(
        &mut self,
        service: ServiceId,
        message: &ToService,
        with: With<'_, Self::Baton>,
    ) -> Result<Option<Self::Baton>, Unsent>;
    /// The next message of a service, without waiting.
    fn receive(&mut self, service: ServiceId) -> SocketFound;
    /// Ends a service at once.
    fn kill(&mut self, service: ServiceId);
    /// Hears nothing of a service any more but its end.
    fn mute(&mut self, service: ServiceId);
    /// Whether a service has ended, and how.
    fn reap(&mut self, service: ServiceId) -> Option<Exit>;
    /// It has, and nobody asks for it any more.
    fn bury(&mut self, service: ServiceId, process: Self::Process);
    /// A service has loaded its driver, and says how it computes.
    fn loaded(&mut self, service: ServiceId, note: Option<String>) -> Event;
    /// A service's driver made this forbidden system call; it is ending.
    fn forbidden(&mut self, service: ServiceId, call: u32);
    /// A service passes on what its client wishes.
    fn wished(
        &mut self,
        service: ServiceId,
        ask: u64,
        channel: Handle,
        wish: ModuleRequest,
        files: Vec<OwnedFd>,
    );

    /// A service passes on what the agent in a VM reported, by its own word and the
    /// service's.
    fn told(&mut self, service: ServiceId, channel: Handle, report: Report);

    /// Notes changes with the keeper, if there is one: notes that were too long, or
    /// that the keeper is gone.
    fn keep(&mut self, changes: Vec<Change>) -> io::Result<Vec<TooLong>>;
    /// Gives the keeper a thing, if there is a keeper.
    fn hold(&mut self, name: &str, note: &str, what: KeptThing) -> io::Result<()>;
    /// What the next manager is to know of a service.
    fn service_note(&self, service: ServiceId) -> String;
    /// Starts a keeper in the place of one that is gone.
    fn start_keeper(&mut self) -> io::Result<()>;
    /// There is a new keeper with all that is noted; or there is none, and another
    /// one is started later.
    fn keeper_started(&mut self, done: io::Result<()>);

    /// Takes a window up that was kept.
    fn regain_window(
        &mut self,
        window: WindowId,
        note: &WindowNote,
        kept: Self::Kept,
    ) -> Result<(HostWindow, Self::Peer), String>;
    /// The memory of a further window that was kept.
    fn regain_further(&mut self, kept: Self::Kept) -> Result<OwnedFd, String>;
    /// Random bits that nobody can guess, for the key of a further window.
    fn fresh_key(&mut self) -> [u64; 2];
    /// Takes a service up that was kept.
    fn regain_service(
        &mut self,
        service: ServiceId,
        note: &str,
        kept: Self::Kept,
    ) -> Result<Self::Process, String>;
    /// Something kept could not be taken up: all there is of it is let go of.
    fn lost(&mut self, what: KeptThing, why: &str);
}
