//! The notes of [`kept`](super::kept): plain types, and the way from and to
//! what the core keeps. A number that no manager can have written is refused
//! here: what is laid out by it later is trusted.

use super::breakers::{self, Breaker};
use super::grants::{Grant, GrantState};
use super::services::{Service, ServiceState};
use super::switch::{Moving, Phase};
use super::window::HOLD_MS;
use super::{Catalog, ReplyTo, ServiceId, Session, Window, WindowId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use vfun_jail::Device;
use vfun_wire::channel::{ChannelKind, Geometry, side_bytes};
use vfun_wire::header::{HEAP_OFF, check_size};
use vfun_wire::limits::{CONTROL_CELLS, SESSIONS, VECTORS};
use vfun_wire::message::{Location, WaitMode};
use vfun_wire::status::BreakReason;
use vfun_wire::version::Features;
use vfun_wire::{Handle, PAGE, Status, names};
use zerocopy::little_endian::{U16, U32, U64};

#[derive(Serialize, Deserialize)]
pub(super) struct CoreNote {
    pub next_service: ServiceId,
    pub next_app: u32,
    pub draining: bool,
    #[serde(default)]
    pub draining_clients: BTreeSet<String>,
    #[serde(default)]
    pub draining_functions: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct WindowNote {
    pub client: u32,
    pub bytes: u64,
    pub doorbell: bool,
    pub death_seen: bool,
    /// Whether each app in it must show who it is.
    #[serde(default)]
    pub proven: bool,
    /// Ranges that are held back: until when, where, how long.
    #[serde(default)]
    pub held: Vec<(u64, u64, u64)>,
    /// Until when nothing is given out.
    #[serde(default)]
    pub shut: Option<u64>,
    /// Control cells and the last request of each by which something ended.
    #[serde(default)]
    pub ended: Vec<(usize, u32)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct BreakerNote {
    pub client: u32,
    pub function: String,
    pub location: u8,
    pub breaker: Breaker,
}

/// A place in a table: its generation counts on even while nothing is in it.
#[derive(Serialize, Deserialize)]
pub(super) struct Place<T> {
    pub generation: u32,
    pub thing: Option<T>,
}

impl<T> Place<T> {
    pub fn read<U>(
        self,
        read: impl FnOnce(T) -> Result<U, String>,
    ) -> Result<(u32, Option<U>), String> {
        // Handles of generation 0 name nothing.
        if self.generation == 0 && self.thing.is_some() {
            return Err("a generation of 0".into());
        }
        Ok((self.generation, self.thing.map(read).transpose()?))
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Reply(WindowId, usize, u32);

impl From<ReplyTo> for Reply {
    fn from(r: ReplyTo) -> Self {
        Reply(r.window, r.cell, r.seq)
    }
}
impl Reply {
    fn read(self) -> Result<ReplyTo, String> {
        if self.1 >= CONTROL_CELLS {
            return Err(format!("there is no control cell {}", self.1));
        }
        Ok(ReplyTo { window: self.0, cell: self.1, seq: self.2 })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct SessionNote {
    pub window: WindowId,
    pub line: u16,
    pub app: String,
    pub app_id: u32,
    pub features: u64,
    pub version: u16,
    pub asked: Reply,
    #[serde(default)]
    pub token: Option<u64>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct GeometryNote {
    pub dataout_off: u64,
    pub datain_off: u64,
    pub side_bytes: u64,
    pub vector_out: u16,
    pub vector_in: u16,
}

#[derive(Serialize, Deserialize)]
pub(super) struct GrantNote {
    pub session: u64,
    pub window: WindowId,
    pub client_id: u32,
    pub client: String,
    pub app_id: u32,
    pub app: String,
    pub function: String,
    pub location: u8,
    pub kind: u16,
    pub depth: u16,
    pub cell_bytes: u32,
    pub deadline_ms: u32,
    #[serde(default)]
    pub calls_per_s: u32,
    pub wait: u8,
    pub state: GrantState,
    pub geometry: Option<GeometryNote>,
    pub service: Option<ServiceId>,
    pub waiting: Option<Reply>,
    pub since_ms: u64,
    pub closing_ms: u64,
    pub restarts: u32,
    pub asked: Reply,
    pub activated: Option<Reply>,
    #[serde(default)]
    pub hold_back: bool,
    #[serde(default)]
    pub device: String,
    #[serde(default)]
    pub leased: bool,
    #[serde(default)]
    pub vf: Option<u16>,
    /// Location, service and phase.
    #[serde(default)]
    pub moving: Option<(u8, ServiceId, Phase)>,
    #[serde(default)]
    pub also: Option<ServiceId>,
    #[serde(default)]
    pub switches: u64,
    #[serde(default)]
    pub of: Option<u64>,
    pub left: Option<u32>,
    #[serde(default)]
    pub over: Option<u32>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ServiceNote {
    pub client: u32,
    pub function: String,
    pub location: u8,
    pub state: ServiceState,
    pub ever_ready: bool,
    #[serde(default)]
    pub delayed: Option<u64>,
    pub overran: Option<u64>,
    /// None if nobody knows, and of a manager that did not note them.
    #[serde(default)]
    pub devices: Option<Vec<Device>>,
    #[serde(default)]
    pub outdated: bool,
    /// What its function was when it was noted; see [`print`].
    #[serde(default)]
    pub of: Option<u64>,
}

/// Tells whether a function was declared anew while no manager was there.
pub(super) fn print(catalog: &Catalog, client: u32, function: &str) -> u64 {
    let text = match catalog.terms(client, function) {
        Some(terms) => format!("Some({terms})"),
        None => "None".to_owned(),
    };
    let hash = Sha256::digest(text.as_bytes());
    u64::from_le_bytes(hash[..8].try_into().expect("eight of 32"))
}

pub(super) fn text(note: &impl Serialize) -> String {
    serde_json::to_string(note).expect("plain data")
}

pub(super) fn grant_note(g: &Grant) -> GrantNote {
    GrantNote {
        session: g.session.0,
        window: g.window,
        client_id: g.client_id,
        client: g.client.clone(),
        app_id: g.app_id,
        app: g.app.clone(),
        function: g.function.clone(),
        location: g.location.to_wire(),
        kind: g.kind.to_wire(),
        depth: g.depth,
        cell_bytes: g.cell_bytes,
        deadline_ms: g.deadline_ms,
        calls_per_s: g.calls_per_s,
        wait: g.wait.to_wire(),
        state: g.state,
        geometry: g.geometry.map(|geo| GeometryNote {
            dataout_off: geo.dataout_off.get(),
            datain_off: geo.datain_off.get(),
            side_bytes: geo.side_bytes.get(),
            vector_out: geo.vector_out.get(),
            vector_in: geo.vector_in.get(),
        }),
        service: g.service,
        waiting: g.waiting.map(Reply::from),
        since_ms: g.since_ms,
        closing_ms: g.closing_ms,
        restarts: g.restarts,
        asked: g.asked.into(),
        activated: g.activated.map(Reply::from),
        hold_back: g.hold_back,
        device: g.device.clone(),
        leased: g.leased,
        vf: g.vf,
        moving: g.moving.map(|m| (m.to.to_wire(), m.service, m.phase)),
        also: g.also,
        switches: g.switches,
        of: g.of,
        left: g.left.map(Status::to_wire),
        over: g.over.map(BreakReason::to_wire),
    }
}

/// A name that may become a file's.
fn named(what: &str, name: &str) -> Result<(), String> {
    names::check(name).map_err(|e| format!("the {what}'s name: {e}"))
}

/// Whether a range is one that [`Heap`](super::heap::Heap) gives out.
fn in_pages(off: u64, bytes: u64) -> bool {
    let page = PAGE as u64;
    off >= HEAP_OFF as u64
        && off.is_multiple_of(page)
        && bytes >= page
        && bytes.is_multiple_of(page)
        && off.checked_add(bytes).is_some()
}

impl WindowNote {
    pub fn of(w: &Window) -> Self {
        WindowNote {
            client: w.client,
            bytes: w.heap.total() + HEAP_OFF as u64,
            doorbell: w.doorbell,
            death_seen: w.death_seen,
            proven: w.proven,
            held: w.held.clone(),
            shut: w.shut,
            ended: w.ended.iter().enumerate().filter_map(|(c, s)| Some((c, (*s)?))).collect(),
        }
    }

    pub fn read(self, now: u64) -> Result<Window, String> {
        check_size(self.bytes).map_err(|e| e.to_string())?;
        let mut window = Window::new(self.client, self.bytes, self.doorbell, self.death_seen);
        window.proven = self.proven;
        let latest = now.saturating_add(HOLD_MS);
        window.shut = self.shut.map(|until| until.min(latest));
        for (cell, seq) in self.ended {
            let cell = window.ended.get_mut(cell).ok_or("there is no such control cell")?;
            *cell = Some(seq);
        }
        for (until, off, bytes) in self.held {
            if !in_pages(off, bytes) || off + bytes > self.bytes {
                return Err(format!("{bytes} bytes at {off} cannot be held back in it"));
            }
            window.held.push((until.min(latest), off, bytes));
        }
        Ok(window)
    }
}

impl SessionNote {
    pub fn of(s: &Session) -> Self {
        SessionNote {
            window: s.window,
            line: s.line,
            app: s.app.clone(),
            app_id: s.app_id,
            features: s.features.0,
            version: s.version,
            asked: s.asked.into(),
            token: s.token,
        }
    }

    pub fn read(self) -> Result<Session, String> {
        named("app", &self.app)?;
        if usize::from(self.line) >= SESSIONS {
            return Err(format!("a window has no line {}", self.line));
        }
        Ok(Session {
            window: self.window,
            line: self.line,
            app: self.app,
            app_id: self.app_id,
            features: Features(self.features),
            version: self.version,
            asked: self.asked.read()?,
            token: self.token,
        })
    }
}

impl GrantNote {
    pub fn read(self) -> Result<Grant, String> {
        use GrantState::*;
        let n = self;
        for (what, name) in [("client", &n.client), ("app", &n.app), ("function", &n.function)] {
            named(what, name)?;
        }
        let side = side_bytes(n.depth, n.cell_bytes)
            .ok_or_else(|| format!("{} cells of {} bytes", n.depth, n.cell_bytes))?;
        if n.state == Released {
            return Err("a grant that is released is none".into());
        }
        match &n.geometry {
            None if matches!(n.state, Activating | Active | Recovering) => {
                return Err(format!("it is {} and has no channel", n.state.text()));
            }
            Some(geo) => geo.check(side)?,
            None => {}
        }
        Ok(Grant {
            session: Handle(n.session),
            window: n.window,
            client_id: n.client_id,
            client: n.client,
            app_id: n.app_id,
            app: n.app,
            function: n.function,
            location: location(n.location)?,
            kind: ChannelKind::from_wire(n.kind).ok_or("an unknown kind of channel")?,
            depth: n.depth,
            cell_bytes: n.cell_bytes,
            deadline_ms: n.deadline_ms,
            calls_per_s: n.calls_per_s,
            wait: WaitMode::from_wire(n.wait).ok_or("an unknown way to wait")?,
            state: n.state,
            geometry: n.geometry.map(|geo| Geometry {
                dataout_off: U64::new(geo.dataout_off),
                datain_off: U64::new(geo.datain_off),
                side_bytes: U64::new(geo.side_bytes),
                cell_bytes: U32::new(n.cell_bytes),
                depth: U16::new(n.depth),
                kind: U16::new(n.kind),
                vector_out: U16::new(geo.vector_out),
                vector_in: U16::new(geo.vector_in),
                reserved: U32::new(0),
            }),
            service: n.service,
            waiting: n.waiting.map(Reply::read).transpose()?,
            since_ms: n.since_ms,
            closing_ms: n.closing_ms,
            restarts: n.restarts,
            asked: n.asked.read()?,
            activated: n.activated.map(Reply::read).transpose()?,
            hold_back: n.hold_back,
            device: match n.device.is_empty() {
                true => String::new(),
                false => {
                    named("device", &n.device)?;
                    n.device
                }
            },
            leased: n.leased,
            vf: n.vf,
            moving: match n.moving {
                Some((to, service, phase)) => Some(Moving { to: location(to)?, service, phase }),
                None => None,
            },
            also: n.also,
            switches: n.switches,
            of: n.of,
            left: match n.left {
                Some(wire) => Some(Status::from_wire(wire).ok_or("an unknown status")?),
                None => None,
            },
            over: match n.over {
                Some(wire) => Some(BreakReason::from_wire(wire).ok_or("an unknown reason")?),
                None => None,
            },
        })
    }
}

impl GeometryNote {
    /// Whether it can be a channel with sides of `side` bytes. That it ends
    /// inside its window shows when its ranges are taken.
    fn check(&self, side: u64) -> Result<(), String> {
        if self.side_bytes != side {
            return Err(format!("sides of {} bytes, not {side}", self.side_bytes));
        }
        if let Some(off) =
            [self.dataout_off, self.datain_off].into_iter().find(|off| !in_pages(*off, side))
        {
            return Err(format!("a channel cannot be at {off}"));
        }
        match [self.vector_out, self.vector_in].into_iter().find(|v| *v >= VECTORS) {
            Some(vector) => Err(format!("there is no vector {vector}")),
            None => Ok(()),
        }
    }
}

fn location(wire: u8) -> Result<Location, String> {
    Location::from_wire(wire).ok_or_else(|| format!("there is no location {wire}"))
}

impl ServiceNote {
    pub fn of(s: &Service, catalog: &Catalog) -> Self {
        ServiceNote {
            client: s.client,
            function: s.function.clone(),
            location: s.location.to_wire(),
            state: s.state,
            ever_ready: s.ever_ready,
            delayed: s.delayed,
            overran: s.overran.map(|h| h.0),
            devices: s.devices.clone(),
            outdated: s.outdated,
            of: Some(print(catalog, s.client, &s.function)),
        }
    }

    pub fn read(self, now: u64, catalog: &Catalog) -> Result<Service, String> {
        named("function", &self.function)?;
        let anew = self.of.is_some_and(|of| of != print(catalog, self.client, &self.function));
        // No wait is longer than a breaker's: one that says so would never end.
        let latest = now.saturating_add(breakers::OPEN_MOST_MS);
        let location = location(self.location)?;
        let outdated = self.outdated || anew;
        let f = catalog.function(self.client, &self.function);
        // A client's own function has none, whichever it is.
        let known = !outdated || vfun_submit::is_own(&self.function);
        let declared = || known.then(|| f.map_or(vec![], |f| f.devices_at(location).to_vec()));
        Ok(Service {
            client: self.client,
            function: self.function,
            location,
            state: match self.state {
                ServiceState::Backoff(at) => ServiceState::Backoff(at.min(latest)),
                state => state,
            },
            since_ms: now,
            used_ms: now,
            ever_ready: self.ever_ready,
            delayed: self.delayed,
            overran: self.overran.map(Handle),
            stalled: None,
            devices: self.devices.or_else(declared),
            outdated,
        })
    }
}

impl BreakerNote {
    pub fn read(self, now: u64) -> Result<(breakers::Key, Breaker), String> {
        named("function", &self.function)?;
        location(self.location)?;
        Ok(((self.client, self.function, self.location), self.breaker.kept_until(now)))
    }
}
