//! The manager's logic: a pure state machine. Events go in, actions come out;
//! time and randomness are passed in. No sockets, no processes, no memory: so
//! it can be simulated with seeds.
//!
//! - [`requests`], [`sessions`], [`negotiate`], [`activate`], [`offers`]: what apps ask
//!   for, and the checks; [`nacks`]: what they are told when it is refused.
//! - [`buffers`]: memory that both sides write, and who has it.
//! - [`rdma`]: the NIC that programs for RDMA see. [`ports`]: VMs' ports of a switch.
//! - [`rules`]: what policy says to it; [`rights`]: what an app must have besides.
//! - [`bond`]: the agents in VMs that are lent VFs of network cards.
//! - [`starts`], [`exits`]: services, from their start to their crash.
//! - [`channels`]: channels, from their opening to their end.
//! - [`lifecycle`]: ends of grants, sessions and windows; the clock.
//! - [`takeover`]: another manager goes on.
//! - [`watch`]: services that do not run, and what takes its time.
//! - [`breakers`]: what crashed too often is left alone for a while.
//! - [`drain`]: to whom nothing new is granted.
//! - [`catalog`], [`grant`], [`grants`], [`place`], [`services`], [`window`],
//!   [`memory`], [`heap`], [`table`]: what it keeps; [`check`]: what is always so of it.
//! - [`leases`]: who holds a VF, by a [`contest`], and how a channel comes to it, by
//!   [`hands`]; [`failures`]: which one failed whom.
//! - [`switch`]: a channel goes from one service to another between two calls.
//! - [`kept`], [`notes`], [`serial`]: what of it another manager goes on from.
//!
//! Beside it, as pure: [`fair`] (how fast each client may ask), [`policy`] (what
//! each may use: a crate of its own), [`manifest`] (what a person declares; it looks whether the files
//! are there), [`submitted`] (whether a client's own module may come), and
//! [`limits`], the manager's own.

#![forbid(unsafe_code)]

mod activate;
mod asked;
pub mod bond;
pub mod breakers;
mod buffer;
pub mod buffers;
pub mod catalog;
mod channels;
mod check;
mod contest;
mod drain;
pub mod event;
mod exits;
pub mod failures;
pub mod fair;
pub mod further;
pub mod grant;
mod grants;
mod hands;
pub mod heap;
pub mod kept;
pub mod leases;
mod lifecycle;
pub mod limits;
pub mod manifest;
mod memory;
mod nacks;
mod negotiate;
mod notes;
mod offers;
mod page_tables;
pub mod place;
pub mod ports;
pub mod rdma;
mod requests;
mod rights;
mod rules;
mod serial;
pub mod services;
mod sessions;
mod starts;
pub mod submitted;
pub mod switch;
mod table;
mod takeover;
#[cfg(test)]
mod tests;
pub mod watch;
mod window;

pub use catalog::Catalog;
pub use event::*;
pub use grant::{AtSwitch, Grant, GrantState, Stage};
pub use rules::{Charges, Effects, admit, may_submit};
pub use vfun_admin::DrainOf;
pub use vfun_policy as policy;

use buffer::Buffers;
pub use buffers::Buffer;
use fair::Rates;
use grants::Grants;
use kept::Marked;
use limits::STARTS;
use services::Owner;
use services::Service;
pub(crate) use sessions::Session;
use std::collections::{BTreeMap, BTreeSet};
use table::Table;
use vfun_wire::Handle;
use vfun_wire::limits::HEARTBEAT_DEAD_MS;
pub(crate) use window::Window;

/// The manager's decisions: takes events, gives actions, and touches nothing outside.
#[derive(Debug)]
pub struct Core {
    generation: u32,
    catalog: Catalog,
    windows: Marked<WindowId, Window>,
    sessions: Table<Session>,
    grants: Grants,
    buffers: Buffers,
    /// Why the last session of each place ended, and of which window it was.
    ended: BTreeMap<u32, (Handle, WindowId, String)>,
    services: Marked<ServiceId, Service>,
    next_service: ServiceId,
    /// AppIDs by client and name; of a client's names without a session at
    /// most [`APP_NAMES_KEPT`](crate::limits::APP_NAMES_KEPT).
    app_ids: BTreeMap<(u32, String), u32>,
    next_app: u32,
    drain: drain::Drain,
    /// What crashed lately, by owner, function and location.
    breakers: Marked<breakers::BreakerKey, breakers::Breaker>,
    /// How fast services are started, by owner.
    starts: Rates<Owner>,
    /// The time of the event that is handled, ms.
    now: u64,
    /// Services that were asked what they serve and have not said so yet.
    asked: BTreeSet<ServiceId>,
    leases: leases::Leases,
    /// A further window may be there whose memory is not given out yet.
    further_waits: bool,
    /// Since when each grant that moves is at its step, ms. Counted anew by each manager.
    steps: BTreeMap<Handle, (switch::Phase, u64)>,
    watch: watch::Watch,
    /// How long a heartbeat may stand still, ms.
    heartbeat_dead_ms: u64,
    /// What [`kept`] noted last, by name.
    noted: BTreeMap<String, String>,
    /// It has looked at all that an earlier manager left, if there was one: until then
    /// its notes may tell of a grant and not of what belongs to it.
    resumed: bool,
}

impl Core {
    /// A manager with nobody there yet. `generation` is larger than that of
    /// every manager before it, so that their handles are stale here.
    pub fn new(generation: u32, catalog: Catalog) -> Self {
        let generation = generation.max(1);
        Core {
            generation,
            catalog,
            windows: Marked::default(),
            sessions: Table::new(generation),
            grants: Grants::new(Table::new(generation)),
            buffers: Buffers::new(Table::new(generation)),
            ended: BTreeMap::new(),
            services: Marked::default(),
            next_service: 1,
            app_ids: BTreeMap::new(),
            next_app: 1,
            drain: Default::default(),
            breakers: Marked::default(),
            starts: Rates::new(STARTS),
            now: 0,
            asked: BTreeSet::new(),
            leases: Default::default(),
            further_waits: true,
            steps: BTreeMap::new(),
            watch: Default::default(),
            heartbeat_dead_ms: HEARTBEAT_DEAD_MS,
            noted: BTreeMap::new(),
            resumed: true,
        }
    }

    /// Takes an event at `now` (ms, never going back) and says what to do.
    ///
    /// # Panics
    ///
    /// Where debug assertions are on: if what [`Core::check`] looks at is not so.
    pub fn handle(&mut self, now: u64, event: Event, out: &mut Vec<Action>) {
        self.now = now;
        // These may change for anybody what nobody touched.
        let all = matches!(
            event,
            Event::Catalog(_)
                | Event::Resume { .. }
                | Event::Serving { .. }
                | Event::Usage { .. }
                | Event::Tick
        );
        self.take(now, event, out);
        self.follow_leases(now, all, out);
        self.follow_buffers(out);
        self.follow_further(out);
        #[cfg(debug_assertions)]
        self.check();
    }

    fn other_catalog(&mut self, now: u64, catalog: Catalog, out: &mut Vec<Action>) {
        let old = std::mem::replace(&mut self.catalog, catalog);
        self.outdate(&old);
        self.take_changed_ports(now, out);
        self.apply_policy(now, out);
    }

    fn take(&mut self, now: u64, event: Event, out: &mut Vec<Action>) {
        match event {
            Event::WindowUp { window, client, vm, bytes, doorbell, death_seen, proven } => {
                let mut up = Window::new(client, bytes, doorbell, death_seen);
                (up.vm, up.proven) = (vm, proven);
                self.windows.insert(window, up);
            }
            Event::WindowDown { window } => self.window_down(now, window, out),
            Event::MemoryUp { window, index, bytes, page } => {
                self.memory_up(window, index, (bytes, page), out);
            }
            Event::MemoryDown { window, index } => self.memory_down(window, index, out),
            Event::WindowNamed { window, named } => self.window_named(window, named, out),
            Event::WindowUnnamed { window, index } => self.window_unnamed(window, index, out),
            Event::Request(request) => self.request(now, request, out),
            Event::Heartbeats { window, values } => self.heartbeats(now, window, &values, out),
            Event::Catalog(catalog) => self.other_catalog(now, catalog, out),
            Event::Revoke { grant } => {
                self.take_grant(now, grant, "revoked by the host's operator", out);
            }
            Event::Resume { alive } => self.resume(now, &alive, out),
            Event::Drain => self.drain.set(&DrainOf::All, true),
            Event::DrainOf { of, on } => self.drain.set(&of, on),
            Event::Usage { values } => self.usage(now, &values, out),
            Event::Progress { values } => self.progress(now, &values, out),
            Event::Tick => self.tick(now, out),
            Event::ServiceReady { service } => self.service_ready(now, service, out),
            Event::TakesBuffers { service } => self.takes_buffers(service, out),
            Event::BufferHere { service, buffer } => self.buffer_here(service, buffer, out),
            Event::BufferLeft { service, buffer } => self.buffer_left(service, buffer),
            Event::ServiceFailed { service, reason } => {
                self.service_failed(now, service, &reason, out);
            }
            Event::ServiceDelayed { service, reason } => {
                self.service_delayed(now, service, &reason, out);
            }
            Event::ServiceExited { service, exit } => self.service_exited(now, service, exit, out),
            Event::ServiceAlive { service } => self.alive(now, service),
            Event::Serving { service, channels } => self.serving(now, service, &channels, out),
            Event::ChannelOpened { service, channel } => {
                self.channel_opened(now, service, channel, out);
            }
            Event::ChannelLost { service, channel, reason } => {
                self.channel_lost(now, service, channel, &reason, out);
            }
            Event::ChannelStanding { service, channel } => {
                self.channel_standing(service, channel, out);
            }
            Event::ChannelOpenFailed { service, channel, reason } => {
                self.channel_open_failed(now, service, channel, &reason, out);
            }
            Event::SwitchTakes { channel, switch } => self.switch_takes(channel, switch),
            Event::SwitchLetGo { channel } => self.switch_let_go(channel, out),
            Event::ChannelClosed { service, channel } => {
                self.channel_closed(now, service, channel, out);
            }
            Event::ChannelBroken { service, channel, reason } => {
                self.channel_broken(service, channel, &reason, out);
            }
            Event::CallOverran { service, channel } => {
                if let Some(s) = self.services.get_mut(&service) {
                    s.overran = Some(channel);
                }
            }
        }
    }

    /// What is on offer and to whom.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// A grant, if it is there.
    pub fn grant(&self, grant: Handle) -> Option<&Grant> {
        self.grants.get(grant).ok()
    }

    /// Every grant.
    pub fn grants(&self) -> impl Iterator<Item = (Handle, &Grant)> {
        self.grants.iter()
    }

    /// Starts of services that had to wait for their client's rate, or were refused for it.
    pub fn starts_held_up(&self) -> u64 {
        self.starts.refused()
    }

    /// How many sessions, grants, buffers and services there are, and bytes of windows given out.
    pub fn totals(&self) -> Totals {
        Totals {
            windows: self.windows.len(),
            sessions: self.sessions.len(),
            grants: self.grants.len(),
            buffers: self.buffers.len(),
            services: self.services.len(),
            bytes: self.windows.values().map(Window::given_out).sum(),
        }
    }

    /// Whether something waits for time to pass, so that ticks are needed.
    pub fn needs_tick(&self) -> bool {
        let idle = |id: &ServiceId| !self.has_channels(*id);
        let waits =
            |(id, s): (&ServiceId, &Service)| s.state != services::ServiceState::Ready || idle(id);
        self.watches()
            || self.services.iter().any(waits)
            || self.windows.values().any(Window::holds_back)
    }

    /// Whether a window has apps.
    pub fn has_sessions(&self, window: WindowId) -> bool {
        self.windows.get(&window).is_some_and(|w| w.lines.iter().any(Option::is_some))
    }

    /// The highest generation of a handle that was given out: a manager that
    /// knows nothing of this one must begin above it.
    pub fn highest_generation(&self) -> u32 {
        self.grants.highest().max(self.sessions.highest()).max(self.buffers.highest())
    }

    /// The services of grants and buffers that end in windows that are gone, of holders for
    /// whom `of` is so: they may touch the window still.
    pub fn letting_go<'a>(
        &'a self,
        of: impl Fn(&grant::Holder) -> bool + Copy + 'a,
    ) -> impl Iterator<Item = ServiceId> + 'a {
        let buffers = self
            .buffers()
            .filter(move |(_, b)| !self.windows.contains_key(&b.holder.window) && of(&b.holder))
            .flat_map(|(_, b)| b.at.iter().copied());
        self.grants
            .iter()
            .filter(move |(_, g)| !self.windows.contains_key(&g.holder.window) && of(&g.holder))
            .flat_map(|(_, g)| g.services())
            .chain(buffers)
    }

    /// Whether a service was started and has not said yet that it can serve.
    pub fn awaits_ready(&self, service: ServiceId) -> bool {
        self.services.get(&service).is_some_and(|s| s.state == services::ServiceState::Starting)
    }

    /// Whether there is an app with this handle.
    pub fn has_session(&self, session: Handle) -> bool {
        self.sessions.get(session).is_ok()
    }

    /// A service's owner and function.
    pub fn service_of(&self, service: ServiceId) -> Option<(Owner, &str)> {
        self.services.get(&service).map(|s| (s.owner, s.function.as_str()))
    }

    /// Whose channel this is, if this service serves it.
    pub fn holder_of(&self, service: ServiceId, channel: Handle) -> Option<&grant::Holder> {
        let g = self.grants.get(channel).ok()?;
        (g.service() == Some(service)).then_some(&g.holder)
    }

    /// Whether a service was asked what it serves and has not said so yet.
    pub fn awaits_report(&self, service: ServiceId) -> bool {
        self.asked.contains(&service)
    }
}

/// Counts, for people and for leak checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Windows laid out.
    pub windows: usize,
    pub sessions: usize,
    pub grants: usize,
    pub buffers: usize,
    pub services: usize,
    /// Bytes of windows given out to channels and buffers.
    pub bytes: u64,
}
