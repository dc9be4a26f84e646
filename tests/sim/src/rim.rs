//! The manager around its state machine, in the order of `host/manager/src/rim`:
//! what is kept, noted and done, with a point between any two of these at which
//! it can be killed. Keep it as the real one is.

use crate::keeper::{Held, Keeper};
use crate::memory::Memory;
use crate::plan::Chance;
use crate::service::{Process, Temper, Told};
use crate::world::{Conn, World};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use vfun_keeper::{BATCH_BYTES, Change};
use vfun_manager::core::kept::PREFIX;
use vfun_manager::core::{Action, ControlRequest, Core, Event, Exit, ReplyTo, ServiceId, WindowId};
use vfun_manager::window::HostWindow;
use vfun_supervise::FromService;
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

    fn tell_keeper(&mut self, tell: impl FnOnce(&mut Keeper)) {
        // One that was killed takes nothing, and is noticed later.
        if self.m().keeper
            && let Some(k) = &mut self.keeper
        {
            tell(k);
        }
    }

    fn note_changes(&mut self, batch: usize) -> Done {
        let m = self.m();
        let mut changes = m.core.changes();
        let own = (m.next_id, m.window_generation);
        if m.noted != Some(own) {
            m.noted = Some(own);
            changes.push(Change { name: OWN.into(), note: Some(json!(own).to_string()) });
        }
        self.change(changes, batch)
    }

    /// As `Keeper::change` of the real one cuts it.
    fn change(&mut self, changes: Vec<Change>, batch: usize) -> Done {
        let size = |c: &Change| c.name.len() + c.note.as_ref().map_or(0, |n| n.len() * 2) + 64;
        let (mut part, mut bytes) = (vec![], 0);
        for c in changes {
            if bytes + size(&c) > batch && !part.is_empty() {
                let sent = std::mem::take(&mut part);
                self.tell_keeper(|k| k.change(&sent));
                self.point("between two packets of notes")?;
                bytes = 0;
            }
            bytes += size(&c);
            part.push(c);
        }
        if !part.is_empty() {
            self.tell_keeper(|k| k.change(&part));
        }
        Ok(())
    }

    fn forget(&mut self, name: String) {
        self.tell_keeper(|k| k.change(&[Change { name, note: None }]));
    }

    fn hold_window(&mut self, id: WindowId) {
        let Some(a) = self.m().windows.get(&id) else { return };
        let note = json!({
            "client": a.client, "bytes": a.window.bytes(), "generation": a.window.generation(),
            "heartbeats": a.heartbeats, "handing": a.handing, "guest": a.guest,
        });
        let held = Held::Window(a.memory.clone());
        self.tell_keeper(|k| k.hold(format!("{WINDOW}{id}"), note.to_string(), held));
    }

    fn hold_service(&mut self, id: ServiceId) {
        let Some(s) = self.m().services.get(&id) else { return };
        let pid = s.pid;
        let note = json!(pid).to_string();
        self.tell_keeper(|k| k.hold(format!("{SERVICE}{id}"), note, Held::Service(pid)));
    }

    /// The keeper ended: another one is given everything.
    fn keeper_gone(&mut self) -> Done {
        self.keeper = Some(Keeper::default());
        self.m().keeper = true;
        self.point("a new keeper has nothing yet")?;
        self.m().noted = None;
        self.note_changes(BATCH_BYTES)?;
        self.point("a new keeper has the manager's numbers")?;
        let notes = self.m().core.all_notes();
        self.change(notes, BATCH_BYTES)?;
        self.point("a new keeper has the notes")?;
        let ids: Vec<_> = self.m().windows.keys().copied().collect();
        for id in ids {
            self.hold_window(id);
            self.point("a new keeper has a window")?;
        }
        let ids: Vec<_> = self.m().services.keys().copied().collect();
        for id in ids {
            self.hold_service(id);
            self.point("a new keeper has a service")?;
        }
        Ok(())
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

    fn act(&mut self, action: Action) -> Done {
        match action {
            Action::Answer { to, result } => {
                let how = match &result {
                    Ok(body) => format!("ack of {} bytes", body.len()),
                    Err(nack) => format!("{:?}: {}", nack.code, nack.sentence),
                };
                self.say(|| format!("answer {to:?}: {how}"));
                let windows = self.manager.as_mut().map(|m| &mut m.windows);
                if let Some(a) = windows.and_then(|w| w.get_mut(&to.window)) {
                    if !a.memory.scribbled.get() {
                        self.ledger.answer((to.window, to.cell, to.seq), how);
                    }
                    a.window.answer(to.cell, to.seq, &result);
                }
            }
            Action::AnswerStats { to, channel, .. } => {
                if let Some((window, geometry)) = channel
                    && let Some(a) = self.m().windows.get(&window)
                {
                    a.window.counters(&geometry);
                }
                self.act(Action::Answer { to, result: Ok(vec![0; 72]) })?;
            }
            Action::StartService { service, client, function, .. } => {
                self.start_service(service, &client, &function)?;
            }
            Action::StopService { service } => self.tell(service, || Told::Stop),
            Action::KillService { service } => {
                self.say(|| format!("kill service {service}"));
                if let Some(pid) = self.m().services.get(&service).map(|s| s.pid) {
                    self.kill_process(pid, Exit::Signal(9));
                }
            }
            Action::Zero { window, geometry } => {
                if let Some(a) = self.m().windows.get(&window) {
                    a.window.zero(&geometry);
                }
            }
            Action::OpenChannel { service, channel, window, geometry, deadline_ms, .. } => {
                let refused = self.plan.may(Chance::Refusals) && self.rng.u32(0..60) == 0;
                let m = self.m();
                let there = m.services.get(&service).zip(m.windows.get(&window));
                let sent = there.filter(|_| !refused).map(|(s, a)| (s.pid, a.memory.clone()));
                let process = sent.and_then(|(pid, memory)| {
                    Some((self.processes.get_mut(&pid)?, memory)).filter(|(p, _)| p.lives())
                });
                match process {
                    Some((p, memory)) => {
                        crate::trace::say(0, || format!("tell service {service}: open {channel}"));
                        p.inbox.push_back(Told::Open {
                            channel: channel.0,
                            geometry,
                            memory,
                            deadline_ms: deadline_ms.into(),
                        });
                    }
                    None => {
                        let reason = "the channel could not be passed to its service".into();
                        self.push(Event::ChannelOpenFailed { service, channel, reason });
                    }
                }
            }
            Action::CloseChannel { service, channel } => {
                self.say(|| format!("tell service {service}: close {channel}"));
                self.tell(service, || Told::Close(channel.0));
            }
            Action::FailCurrent { window, geometry, status } => {
                if let Some(a) = self.m().windows.get(&window) {
                    a.window.fail_current(&geometry, status);
                }
            }
            Action::BreakChannel { window, geometry, reason, .. } => {
                if let Some(a) = self.m().windows.get(&window) {
                    a.window.break_channel(&geometry, reason);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn tell(&mut self, service: ServiceId, what: impl FnOnce() -> Told) {
        let Some(pid) = self.m().services.get(&service).map(|s| s.pid) else { return };
        if let Some(p) = self.processes.get_mut(&pid).filter(|p| p.lives()) {
            p.inbox.push_back(what());
        }
    }

    fn start_service(&mut self, service: ServiceId, client: &str, function: &str) -> Done {
        if self.plan.may(Chance::Refusals) && self.rng.u32(0..30) == 0 {
            let reason = "the service program cannot be started".into();
            self.push(Event::ServiceFailed { service, reason });
            return Ok(());
        }
        let pid = self.spawn(client, function);
        self.say(|| format!("service {service} is process {pid}"));
        let failed = self.point("started, not recorded");
        if failed.is_err() {
            // Nobody has its socket.
            self.processes.get_mut(&pid).expect("just started").unlink();
            return failed;
        }
        self.records.insert(pid);
        self.m().services.insert(service, Service { pid, child: true });
        self.point("recorded, not kept")?;
        self.hold_service(service);
        Ok(())
    }

    /// A window for a guest that wants one; VMs are told when it is kept,
    /// programs before.
    fn attach(&mut self, guest: usize) -> Done {
        let (client, host, bytes) = {
            let g = &self.guests[guest];
            (g.client, g.host, g.bytes)
        };
        let Some(name) = self.m().core.catalog().clients.get(&client).map(|c| c.name.clone())
        else {
            return Ok(());
        };
        let memory = Memory::new(guest, bytes);
        self.m().window_generation += 1;
        self.m().next_id += 1;
        let (generation, id) = (self.m().window_generation, self.m().next_id);
        let window = HostWindow::lay_out(memory.file(), bytes, generation, client, &name, None);
        let window = window.expect("a window");
        let conn = Conn { window: id, memory: memory.clone() };
        if host {
            self.guests[guest].conn = Some(conn.clone());
            self.point("the app has its window, the keeper has not")?;
        }
        let attached =
            Attached { window, client, heartbeats: !host, handing: !host, guest, memory };
        self.m().windows.insert(id, attached);
        self.hold_window(id);
        self.point("a window is kept, not noted")?;
        if !host {
            self.guests[guest].conn = Some(conn);
            self.point("a VM has its window and counts as not told")?;
            self.m().windows.get_mut(&id).expect("just put there").handing = false;
            self.hold_window(id);
            self.point("a VM's window is kept, not noted")?;
        }
        self.push(Event::WindowUp { window: id, client, bytes, doorbell: false, death_seen: host });
        self.settle()
    }

    fn window_gone(&mut self, id: WindowId) -> Done {
        if self.m().windows.contains_key(&id) {
            self.forget(format!("{WINDOW}{id}"));
            self.point("a window is let go, not noted")?;
            self.push(Event::WindowDown { window: id });
            self.settle()?;
            if let Some(a) = self.m().windows.remove(&id) {
                self.hung_up(a.guest, id);
            }
        }
        Ok(())
    }

    fn hear_service(&mut self, id: ServiceId) {
        for _ in 0..64 {
            let Some(pid) = self.m().services.get(&id).map(|s| s.pid) else { return };
            let Some(said) = self.processes.get_mut(&pid).and_then(|p| p.outbox.pop_front()) else {
                return;
            };
            let (service, of) = (id, Handle);
            let event = match said {
                FromService::Ready { .. } => Event::ServiceReady { service },
                FromService::Failed { reason } => Event::ServiceFailed { service, reason },
                FromService::Opened { channel } => {
                    Event::ChannelOpened { service, channel: of(channel) }
                }
                FromService::OpenFailed { channel, reason } => {
                    Event::ChannelOpenFailed { service, channel: of(channel), reason }
                }
                FromService::Closed { channel } => {
                    Event::ChannelClosed { service, channel: of(channel) }
                }
                FromService::Broken { channel, reason } => {
                    Event::ChannelBroken { service, channel: of(channel), reason }
                }
                FromService::Channels { channels, more, to } => {
                    if to != 0 && to != self.generation {
                        continue;
                    }
                    let m = self.m();
                    if !m.core.awaits_report(service) {
                        m.reports.remove(&service);
                        continue;
                    }
                    let report = m.reports.entry(service).or_default();
                    report.extend(channels.into_iter().map(Handle));
                    if more {
                        continue;
                    }
                    let channels = m.reports.remove(&service).unwrap_or_default();
                    Event::Serving { service, channels }
                }
                // Only the sentence of its end changes by it.
                FromService::Forbidden { .. } => continue,
                FromService::Deadline { channel } => {
                    Event::CallOverran { service, channel: of(channel) }
                }
            };
            self.push(event);
        }
    }

    fn service_ended(&mut self, id: ServiceId) -> Done {
        self.hear_service(id);
        let Some(s) = self.m().services.get(&id) else { return Ok(()) };
        let (pid, child) = (s.pid, s.child);
        let Some(exit) = self.processes.get(&pid).map_or(Some(Exit::Unknown), |p| p.exit) else {
            return Ok(());
        };
        self.m().services.remove(&id);
        self.records.remove(&pid);
        self.processes.remove(&pid);
        self.point("a service is reaped, not let go")?;
        self.m().reports.remove(&id);
        self.forget(format!("{SERVICE}{id}"));
        self.point("a service is let go, its end not noted")?;
        let exit = if child { exit } else { Exit::Unknown };
        self.push(Event::ServiceExited { service: id, exit });
        Ok(())
    }

    fn look(&mut self, id: WindowId) -> Done {
        let Some(a) = self.m().windows.get_mut(&id) else { return Ok(()) };
        a.window.beat();
        if !a.window.anything_posted() {
            return Ok(());
        }
        let requests = a.window.requests();
        for r in requests {
            let to = ReplyTo { window: id, cell: r.cell, seq: r.seq };
            match r.body {
                Ok(body) => self.push(Event::Request(ControlRequest {
                    to,
                    kind: r.kind,
                    session: r.session,
                    body,
                })),
                Err(nack) => self.act(Action::Answer { to, result: Err(nack) })?,
            }
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

    /// Takes over from the manager that was killed, or begins.
    pub fn start(&mut self) -> Done {
        self.generation += 1;
        let generation = self.generation;
        let found = self.keeper.is_some();
        let kept = self.keeper.get_or_insert_with(Keeper::default).things.clone();
        if !found || !kept.keys().any(|name| name.starts_with(PREFIX)) {
            self.lost();
        }
        let core_notes: Vec<(&str, &str)> = kept
            .iter()
            .filter(|(name, _)| name.starts_with(PREFIX))
            .map(|(name, t)| (name.as_str(), t.note.as_str()))
            .collect();
        let core = Core::restore(self.now, generation, self.catalog.clone(), core_notes)
            .unwrap_or_else(|e| panic!("notes of a manager cannot be read: {e}"));
        self.say(|| format!("manager {generation} starts; the keeper has {} things", kept.len()));
        self.manager = Some(Manager {
            core,
            windows: BTreeMap::new(),
            services: BTreeMap::new(),
            reports: BTreeMap::new(),
            events: VecDeque::new(),
            next_id: 0,
            window_generation: u64::from(generation) << 32,
            noted: None,
            keeper: true,
            last_heartbeats: self.now,
            last_tick: self.now,
        });
        self.point("restored, nothing taken up")?;
        if kept.is_empty() {
            self.end_left_services()?;
        } else {
            self.take_up(kept)?;
        }
        self.settle()
    }

    fn end_left_services(&mut self) -> Done {
        let left: Vec<u32> = self.records.iter().copied().collect();
        for pid in left {
            if !self.m().services.values().any(|s| s.pid == pid) {
                self.kill_process(pid, Exit::Signal(9));
                self.records.remove(&pid);
                self.point("ended what another manager left")?;
            }
        }
        Ok(())
    }

    fn take_up(&mut self, kept: BTreeMap<String, crate::keeper::Thing>) -> Done {
        if let Some(own) = kept.get(OWN) {
            let (next_id, generation): (u32, u64) =
                serde_json::from_str(&own.note).expect("its own note");
            let m = self.m();
            m.next_id = m.next_id.max(next_id);
            m.window_generation = m.window_generation.max(generation);
        }
        let mut known: BTreeMap<WindowId, bool> =
            self.m().core.window_ids().map(|id| (id, false)).collect();
        let number = |name: &str, prefix: &str| name.strip_prefix(prefix)?.parse::<u32>().ok();
        for (name, thing) in &kept {
            let Some(id) = number(name, WINDOW) else { continue };
            match self.take_up_window(thing) {
                Some((attached, up)) => {
                    let m = self.m();
                    m.next_id = m.next_id.max(id);
                    m.windows.insert(id, attached);
                    if known.insert(id, true).is_none() {
                        let Event::WindowUp { client, bytes, doorbell, death_seen, .. } = up else {
                            unreachable!("that is what it gives")
                        };
                        let up =
                            Event::WindowUp { window: id, client, bytes, doorbell, death_seen };
                        self.push(up);
                    }
                }
                None => {
                    self.forget(format!("{WINDOW}{id}"));
                    self.hang_up_window(id);
                }
            }
            self.point("took a window up")?;
        }
        for (id, _) in known.iter().filter(|(_, there)| !**there) {
            self.push(Event::WindowDown { window: *id });
            self.forget(format!("{WINDOW}{id}"));
        }
        let mut alive = vec![];
        for (name, thing) in &kept {
            let Some(id) = number(name, SERVICE) else { continue };
            match thing.held {
                Held::Service(pid) => {
                    self.m().services.insert(id, Service { pid, child: false });
                    alive.push(id);
                }
                _ => self.forget(format!("{SERVICE}{id}")),
            }
        }
        let unknown: Vec<u32> = {
            let m = self.m();
            let unknown = m.services.iter().filter(|(id, _)| !m.core.knows_service(**id));
            unknown.map(|(_, s)| s.pid).collect()
        };
        for pid in unknown {
            self.kill_process(pid, Exit::Signal(9));
        }
        self.end_left_services()?;
        self.point("taken up, not resumed")?;
        self.push(Event::Resume { alive: alive.clone() });
        self.settle()?;
        let by = self.generation;
        for id in alive {
            let Some(pid) = self.m().services.get(&id).map(|s| s.pid) else { continue };
            match self.processes.get_mut(&pid) {
                Some(p) if p.lives() => p.inbox.push_back(Told::Report(by)),
                _ => {}
            }
            self.say(|| format!("tell service {id}: report"));
            self.point("asked a service what it serves")?;
        }
        Ok(())
    }

    fn take_up_window(&mut self, thing: &crate::keeper::Thing) -> Option<(Attached, Event)> {
        let note: Value = serde_json::from_str(&thing.note).expect("its own note");
        let Held::Window(memory) = &thing.held else { return None };
        if note["handing"].as_bool()? {
            return None;
        }
        let (client, guest) = (note["client"].as_u64()? as u32, note["guest"].as_u64()? as usize);
        let (bytes, generation) = (note["bytes"].as_u64()?, note["generation"].as_u64()?);
        let heartbeats = note["heartbeats"].as_bool()?;
        let window = HostWindow::take_up(memory.file(), bytes, generation, None).ok()?;
        let up =
            Event::WindowUp { window: 0, client, bytes, doorbell: false, death_seen: !heartbeats };
        let memory = memory.clone();
        Some((Attached { window, client, heartbeats, handing: false, guest, memory }, up))
    }

    /// Its process is gone: what nobody else holds is closed.
    pub fn manager_dies(&mut self) {
        let Some(m) = self.manager.take() else { return };
        self.kills += 1;
        self.say(|| "the manager is killed".into());
        let keeper = self.keeper.take();
        let keeper = if m.keeper { keeper } else { None };
        let holds = |name: String| keeper.as_ref().is_some_and(|k| k.holds(&name));
        for (id, s) in &m.services {
            if !holds(format!("{SERVICE}{id}"))
                && let Some(p) = self.processes.get_mut(&s.pid)
            {
                p.unlink();
            }
        }
        let lost: Vec<_> = self
            .guests
            .iter()
            .enumerate()
            .filter_map(|(i, g)| Some((i, g.conn.as_ref()?.window)))
            .filter(|(_, w)| !holds(format!("{WINDOW}{w}")))
            .collect();
        self.keeper = keeper;
        for (guest, window) in lost {
            self.hung_up(guest, window);
        }
    }

    /// The keeper is killed.
    pub fn keeper_dies(&mut self) {
        self.say(|| "the keeper is killed".into());
        self.keeper = None;
        match &mut self.manager {
            Some(m) => m.keeper = false,
            // What it held was held by nobody else.
            None => {
                self.processes.values_mut().for_each(Process::unlink);
                for guest in 0..self.guests.len() {
                    if let Some(c) = &self.guests[guest].conn {
                        let window = c.window;
                        self.hung_up(guest, window);
                    }
                }
            }
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
            _ => Temper::Good,
        }
    }

    fn kill_process(&mut self, pid: u32, exit: Exit) {
        if let Some(p) = self.processes.get_mut(&pid) {
            p.die(exit);
        }
    }
}
