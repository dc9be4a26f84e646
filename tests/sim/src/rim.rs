//! The manager around its state machine, in the order of `host/manager/src/rim`:
//! what is kept, noted and done, with a point between any two of these at which
//! it can be killed. Keep it as the real one is.

mod acts;
mod keep;
mod services;
mod system;
mod take_up;
mod windows;

use crate::memory::Memory;
use crate::service::Baton;
use crate::world::World;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use vfun_core::{Core, Event, ServiceId, WindowId};
use vfun_keeper::BATCH_BYTES;
use vfun_rim::window::HostWindow;
use vfun_wire::Handle;

const WINDOW: &str = "rim/window/";
const SERVICE: &str = "rim/service/";
const OWN: &str = "rim/self";
const HEARTBEAT_LOOK: u64 = 1_000;
const TICK: u64 = 20;

/// The manager was killed.
pub struct Killed;
/// What a thing it does comes to.
pub type Done<T = ()> = Result<T, Killed>;

struct Attached {
    window: HostWindow,
    client: u32,
    heartbeats: bool,
    handing: bool,
    guest: usize,
    memory: Rc<Memory>,
}

struct Service {
    pid: u32,
    /// Not one that another manager started: its exit status is told.
    child: bool,
}

/// A manager that lives.
pub struct Manager {
    pub core: Core,
    windows: BTreeMap<WindowId, Attached>,
    services: BTreeMap<ServiceId, Service>,
    reports: BTreeMap<ServiceId, Vec<Handle>>,
    batons: BTreeMap<Handle, Baton>,
    events: VecDeque<Event>,
    next_id: u32,
    window_generation: u64,
    noted: Option<(u32, u64)>,
    /// Whether its keeper lives and has everything.
    keeper: bool,
    last_heartbeats: u64,
    last_tick: u64,
}

impl Manager {
    /// Whether it has looked at all that the one before it left. Until then
    /// there may be grants whose sessions' ends were noted and theirs were not.
    pub fn resumed(&self) -> bool {
        !self.events.iter().any(|e| matches!(e, Event::Resume { .. }))
    }

    /// The memory of a window it has.
    pub fn memory(&self, id: WindowId) -> Option<&Rc<Memory>> {
        self.windows.get(&id).map(|a| &a.memory)
    }
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

impl World {
    fn m(&mut self) -> &mut Manager {
        self.manager.as_mut().expect("a manager lives")
    }

    fn push(&mut self, event: Event) {
        self.m().events.push_back(event);
    }

    /// Lets the core handle what happened, and does what it says.
    fn settle(&mut self) -> Done {
        while let Some(event) = self.m().events.pop_front() {
            let now = self.now;
            // What is not bounded may take several packets.
            let cut = !bounded(&event) && self.rng.u32(0..3) == 0;
            let batch = if cut { 600 } else { BATCH_BYTES };
            self.say(|| match &event {
                Event::Catalog(_) => "event: the catalog changed".into(),
                Event::Heartbeats { window, .. } => format!("event: heartbeats of {window}"),
                Event::Request(r) => format!("event: request {:?} {}", r.to, r.kind),
                e => format!("event: {e:?}"),
            });
            let mut actions = vec![];
            self.m().core.handle(now, event, &mut actions);
            self.point("handled, not noted")?;
            self.note_changes(batch)?;
            for action in actions {
                self.point("noted, not done")?;
                self.act(action)?;
            }
            self.check();
        }
        Ok(())
    }

    /// One turn of its loop.
    pub fn manager_turn(&mut self) -> Done {
        enum Due {
            Look(WindowId),
            Hear(ServiceId),
            Ended(ServiceId),
            Gone(WindowId),
            Attach(usize),
            Keeper,
        }
        let mut due = vec![];
        let m = self.manager.as_ref().expect("a manager lives");
        due.extend(m.windows.keys().map(|id| Due::Look(*id)));
        for (id, s) in &m.services {
            match self.processes.get(&s.pid) {
                Some(p) if p.lives() && !p.outbox.is_empty() => due.push(Due::Hear(*id)),
                Some(p) if p.lives() => {}
                _ => due.push(Due::Ended(*id)),
            }
        }
        due.extend(
            m.windows.keys().filter(|id| self.hangups.contains(id)).map(|id| Due::Gone(*id)),
        );
        due.extend((0..self.guests.len()).filter(|g| self.guests[*g].wants()).map(Due::Attach));
        if self.keeper.is_none() {
            due.push(Due::Keeper);
        }
        if !self.steady {
            self.rng.shuffle(&mut due);
        }
        for d in due {
            match d {
                Due::Look(id) => self.look(id)?,
                Due::Hear(id) => self.hear_service(id),
                Due::Ended(id) => self.service_ended(id)?,
                Due::Gone(id) => self.window_gone(id)?,
                Due::Attach(guest) => self.attach(guest)?,
                Due::Keeper => self.keeper_gone()?,
            }
            self.point("between two things it was woken for")?;
            self.settle()?;
        }
        let now = self.now;
        let (heartbeats, tick) = {
            let m = self.m();
            let watched = m.windows.iter().any(|(id, w)| w.heartbeats && m.core.has_sessions(*id));
            let heartbeats = now - m.last_heartbeats >= HEARTBEAT_LOOK && watched;
            (heartbeats, now - m.last_tick >= TICK && m.core.needs_tick())
        };
        if heartbeats {
            self.beat_all();
            let m = self.m();
            m.last_heartbeats = now;
            let beats: Vec<_> = m
                .windows
                .iter()
                .filter(|(_, w)| w.heartbeats)
                .map(|(id, w)| Event::Heartbeats { window: *id, values: w.window.heartbeats() })
                .collect();
            m.events.extend(beats);
        }
        if tick {
            self.m().last_tick = now;
            self.push(Event::Tick);
        }
        // Policy `random` asks for no figures.
        if !self.steady && self.m().core.leases_due().is_some_and(|due| due <= now) {
            self.push(Event::Usage { values: vec![] });
        }
        self.settle()
    }

    /// An operator's doing.
    pub fn admin(&mut self, event: Event) -> Done {
        self.push(event);
        self.settle()
    }

    /// A client is no longer declared.
    pub fn remove_client(&mut self, client: u32) -> Done {
        let windows = &self.m().windows;
        let ids: Vec<_> =
            windows.iter().filter(|(_, w)| w.client == client).map(|(id, _)| *id).collect();
        for id in ids {
            self.window_gone(id)?;
        }
        let mut catalog = self.m().core.catalog().clone();
        catalog.clients.remove(&client);
        self.catalog = catalog.clone();
        self.admin(Event::Catalog(catalog))
    }
}
