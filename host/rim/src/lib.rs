//! The rim around the state machine of `vfun-core`: what is heard becomes events,
//! what the core decides is done, and what must outlive this manager is with its
//! keeper first.
//!
//! It is written once and runs twice: in the daemon over the real system, and in
//! the simulation (`tests/sim`) over a simulated one. What differs is behind
//! [`System`]: sockets, processes, the keeper's connection, the clock, records.
//!
//! - [`act`]: the core handles an event, and what it says is done.
//! - [`tell`]: words to services. [`hear`]: what they say, and their end.
//! - [`keep`]: what outlives this manager. [`take_up`]: what an earlier one left.
//! - [`windows`]: windows come and go. [`requests`]: what is asked in them, in whose
//!   [`turns`].
//! - [`clock`]: what is due by the clock alone.
//! - [`say`]: lines of the log that a client causes.
//! - [`pages`]: a window's memory. [`window`]: a control window, from the host's side.
//!   [`further`]: further windows.

#![forbid(unsafe_code)]

pub mod act;
mod bells;
pub mod clock;
pub mod further;
pub mod hear;
pub mod keep;
pub mod pages;
pub mod requests;
pub mod say;
mod system;
pub mod take_up;
pub mod tell;
mod turns;
pub mod window;
pub mod windows;

pub use system::{KeptThing, Line, SocketFound, System, Unsent, With};

/// All that the rim does, as methods of each [`System`].
pub mod methods {
    pub use crate::act::Act;
    pub use crate::clock::Clock;
    pub use crate::further::FurtherWindows;
    pub use crate::hear::Hear;
    pub use crate::keep::Keep;
    pub use crate::requests::Requests;
    pub use crate::say::Say;
    pub use crate::take_up::TakeUp;
    pub use crate::tell::Tell;
    pub use crate::windows::Windows;
}

use std::collections::{BTreeMap, VecDeque};
pub use vfun_admin::Transport;
use vfun_core::catalog::{VmId, VmOf};
use vfun_core::fair::{Intake, Lines};
use vfun_core::limits::{LINES, LINES_NAMES};
use vfun_core::{Core, Event, ServiceId, WindowId};
use vfun_wire::Handle;

/// A window and how it is reached.
pub struct Attached<P> {
    pub window: window::HostWindow,
    pub client: u32,
    /// The VM that it is in; none of a program on the host or over TCP.
    pub vm: Option<String>,
    /// How it got to its other end.
    pub transport: Transport,
    /// Who holds its other end: the end of that is the window's.
    pub peer: P,
    /// Each app in it must show who it is.
    pub proven: bool,
    /// Its VM has not been told everything yet.
    pub handing: bool,
    /// How fast it may ask, and whose turn it is.
    pub intake: Intake,
}

impl<P> Attached<P> {
    /// Which VM it is in, if it is in one.
    pub fn vm_id(&self) -> Option<VmId> {
        self.vm.clone().map(|vm| VmId { client: self.client, vm })
    }

    /// Whether it is in this VM.
    pub fn is_of(&self, vm: VmOf<'_>) -> bool {
        (self.client, self.vm.as_deref()) == (vm.client.id, Some(vm.vm.name.as_str()))
    }

    /// Whether only a heartbeat shows the end of an app in it.
    pub fn by_heartbeats(&self) -> bool {
        !self.transport.row().sees_app_end
    }
}

/// What a manager has, besides what its [`System`] keeps for itself.
pub struct Rim<S: System> {
    pub core: Core,
    /// Larger than that of every manager before.
    pub generation: u32,
    /// Control windows that are laid out, by number.
    pub windows: BTreeMap<WindowId, Attached<S::Peer>>,
    /// Further windows, by numbers that no window or connection had before.
    pub further: BTreeMap<WindowId, further::HostFurther>,
    /// Services that run.
    pub services: BTreeMap<ServiceId, S::Process>,
    /// What happened and was not handled yet.
    pub events: VecDeque<Event>,
    /// Lines of the log about each client.
    pub lines: Lines,
    /// The number given last, to a window or a connection.
    pub next_id: u32,
    /// Generation of the window laid out last.
    pub window_generation: u64,
    /// Windows whose requests wait for their turn.
    turns: turns::Turns,
    /// What services' sockets had no room for.
    untold: BTreeMap<ServiceId, VecDeque<tell::ServiceMessage>>,
    /// For each channel that somebody stands by for, the end of the baton that
    /// whoever serves it is to pass.
    batons: BTreeMap<Handle, S::Baton>,
    /// Reports of services that are not complete yet.
    reports: BTreeMap<ServiceId, Vec<Handle>>,
    /// Own numbers as the keeper has them.
    noted: Option<keep::OwnNote>,
    /// When something was asked last, heartbeats were looked at last, and the
    /// core was told the time last, ms.
    last_asked: u64,
    last_heartbeats: u64,
    last_tick: u64,
}

impl<S: System> Rim<S> {
    /// A manager of this generation that has nothing yet, at `now`, ms.
    pub fn new(core: Core, generation: u32, now: u64) -> Self {
        Rim {
            core,
            generation,
            windows: BTreeMap::new(),
            further: BTreeMap::new(),
            services: BTreeMap::new(),
            events: VecDeque::new(),
            lines: Lines::new(LINES, LINES_NAMES),
            next_id: 0,
            window_generation: u64::from(generation) << 32,
            turns: turns::Turns::default(),
            untold: BTreeMap::new(),
            batons: BTreeMap::new(),
            reports: BTreeMap::new(),
            noted: None,
            last_asked: now,
            last_heartbeats: now,
            last_tick: now,
        }
    }
}
