//! Everything there is: guests, services' processes, the keeper, time, and the
//! manager while it lives. Who goes next is drawn from the seed.

use crate::app::{App, View};
use crate::catalog;
use crate::hostile::Hostile;
use crate::keeper::Keeper;
use crate::ledger::Ledger;
use crate::manager::Manager;
use crate::memory::Memory;
use crate::plan::{Chance, Plan};
use crate::service::Process;
use crate::trace;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use vfun_core::{Catalog, Event, Exit, ServiceId, WindowId};
use vfun_rim::methods::*;
use vfun_supervise::ToService;
use vfun_wire::message::Kind;

/// Rounds of 20 ms in which everything must come to its end once nothing
/// fails any more: longer than every patience of the manager together.
const ROUNDS: u32 = 6_000;

/// A guest's connection: its window.
#[derive(Clone)]
pub struct Conn {
    pub window: WindowId,
    pub memory: Rc<Memory>,
}

/// A VM with its apps, or a program on the host.
pub struct Guest {
    pub name: String,
    pub client: u32,
    /// The VM's name; of no use to programs on the host.
    pub vm: &'static str,
    pub host: bool,
    pub bytes: u64,
    pub conn: Option<Conn>,
    apps: Vec<App>,
    pub hostile: Option<Hostile>,
    /// Steps until it connects.
    off: u32,
    /// Its kernel asked for a reset in its own cell, and awaits the answer.
    resetting: bool,
    /// What its apps were told.
    pub told: Vec<String>,
    /// It is not to come back.
    gone: bool,
}

/// The cell that a guest's kernel uses for itself.
const KERNEL_CELL: usize = 15;

impl Guest {
    /// Whether it waits for a window.
    pub fn wants(&self) -> bool {
        self.conn.is_none() && self.off == 0 && !self.gone
    }
}

/// See the module.
pub struct World {
    pub plan: Plan,
    pub rng: fastrand::Rng,
    pub now: u64,
    pub manager: Option<Manager>,
    pub keeper: Option<Keeper>,
    pub processes: BTreeMap<u32, Process>,
    /// What the database knows of processes.
    pub records: BTreeSet<u32>,
    pub guests: Vec<Guest>,
    pub catalog: Catalog,
    pub ledger: Ledger,
    pub generation: u32,
    /// Windows whose other end is gone.
    pub hangups: BTreeSet<WindowId>,
    revoked: BTreeSet<u64>,
    losses: u64,
    pub kills: u64,
    jumps: u64,
    points: u64,
    fuse: Option<u64>,
    pub finishing: bool,
    /// Who goes next does not depend on chance.
    pub steady: bool,
    pub starts: BTreeMap<(String, String), u32>,
    pub next_pid: u32,
    /// The word that each service's socket had no room for, since this manager began.
    pub unheard: BTreeMap<ServiceId, ToService>,
    /// Services that a manager said do not run.
    pub stalled: std::cell::Cell<u64>,
    /// Nothing with descriptors reaches a service.
    pub no_room: bool,
    /// Bytes of notes in a packet to the keeper.
    pub packet: usize,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Points at which the manager could have been killed.
    pub points: u64,
    /// Managers that were killed.
    pub kills: u64,
    /// Calls that ended with results, with an error of the service's, otherwise.
    pub calls: [u64; 3],
    /// Requests answered.
    pub answers: u64,
}

impl World {
    pub fn new(plan: Plan) -> Self {
        let mut w = World {
            plan,
            rng: plan.stream("world"),
            now: 1_000_000,
            manager: None,
            keeper: None,
            processes: BTreeMap::new(),
            records: BTreeSet::new(),
            guests: vec![],
            catalog: catalog::catalog(&Default::default()),
            ledger: Ledger::default(),
            generation: 6,
            hangups: BTreeSet::new(),
            revoked: BTreeSet::new(),
            losses: 0,
            kills: 0,
            jumps: 0,
            points: 0,
            fuse: None,
            finishing: false,
            steady: false,
            starts: BTreeMap::new(),
            next_pid: 100,
            unheard: BTreeMap::new(),
            stalled: Default::default(),
            no_room: false,
            packet: vfun_keeper::BATCH_BYTES,
        };
        for (client, name, vm, host, apps, hostile) in catalog::GUESTS {
            if hostile && !plan.may(Chance::Hostile) {
                continue;
            }
            let guest = w.guests.len() as u64;
            let app = |i: u64| {
                let id = u64::from(client) << 8 | guest << 4 | i;
                App::new(id, i as usize, plan.stream(&format!("app {name} {guest} {i}")))
            };
            w.guests.push(Guest {
                name: name.into(),
                client,
                vm,
                host,
                bytes: 1 << 20,
                conn: None,
                apps: (0..apps).map(app).collect(),
                hostile: hostile.then(|| Hostile::new(plan.stream(&format!("hostile {guest}")))),
                off: 0,
                resetting: false,
                told: vec![],
                gone: false,
            });
        }
        w
    }

    pub fn say(&self, what: impl FnOnce() -> String) {
        trace::say(self.now, what);
    }

    /// Whether the manager is killed here; if not, others can run.
    pub fn is_killed_at(&mut self, what: &'static str) -> bool {
        self.points += 1;
        let due = self.plan.kill_at == Some(self.points) || self.fuse == Some(0);
        self.fuse = self.fuse.map(|n| n.saturating_sub(1));
        if due {
            self.fuse = None;
            self.say(|| format!("point {}: {what}", self.points));
            return true;
        }
        if !self.steady && self.plan.may(Chance::Races) && self.rng.u32(0..8) == 0 {
            for _ in 0..self.rng.u32(1..4) {
                self.anybody();
            }
        }
        false
    }

    /// A manager found nothing of the one before it.
    pub fn lost_all(&mut self) {
        self.losses += 1;
        self.revoked.clear();
        self.ledger.forget();
    }

    /// A guest's connection is closed by the other side.
    pub fn hung_up(&mut self, guest: usize, window: WindowId) {
        let g = &mut self.guests[guest];
        if g.conn.as_ref().is_some_and(|c| c.window == window) {
            g.conn = None;
            g.resetting = false;
            g.apps.iter_mut().for_each(|a| a.die(&mut self.ledger, 0));
        }
        self.hangups.remove(&window);
    }

    pub fn hang_up_window(&mut self, window: WindowId) {
        if let Some(guest) =
            self.guests.iter().position(|g| g.conn.as_ref().is_some_and(|c| c.window == window))
        {
            self.hung_up(guest, window);
        }
    }

    /// A guest goes: its VM is turned off, or the program ends.
    fn leave(&mut self, guest: usize, off: u32) {
        let g = &mut self.guests[guest];
        g.off = off;
        let Some(c) = g.conn.take() else { return };
        trace::say(self.now, || format!("guest {guest} ({}) goes", g.name));
        g.resetting = false;
        g.apps.iter_mut().for_each(|a| a.die(&mut self.ledger, 0));
        self.hangups.insert(c.window);
    }

    pub fn beat_all(&mut self) {
        for g in &mut self.guests {
            if let Some(c) = &g.conn {
                g.apps.iter_mut().filter(|a| a.away == 0).for_each(|a| a.beat(&c.memory));
            }
        }
    }

    fn step_guest(&mut self, guest: usize, app: usize) {
        let g = &mut self.guests[guest];
        g.off = g.off.saturating_sub(1);
        let Some(c) = g.conn.clone() else { return };
        if let Some(h) = &mut g.hostile {
            if !self.finishing {
                h.step(&c.memory, &self.ledger);
            }
            return;
        }
        if g.resetting {
            g.resetting = c.memory.answered(KERNEL_CELL).0 != c.memory.posted(KERNEL_CELL);
            return;
        }
        let Some(a) = g.apps.get_mut(app) else { return };
        let mut view = View {
            now: self.now,
            memory: &c.memory,
            window: c.window,
            ledger: &mut self.ledger,
            finishing: self.finishing,
            losses: self.losses,
            jumps: self.jumps,
            revoked: &self.revoked,
            // Whoever moves depends on everybody else who does.
            functions: &catalog::FUNCTIONS[..if self.steady { 3 } else { 4 }],
            hardware: !self.steady,
            told: &mut g.told,
        };
        a.step(&mut view);
    }

    fn step_process(&mut self, pid: u32) {
        if let Some(p) = self.processes.get_mut(&pid) {
            p.step(self.now, self.steady, &mut self.ledger);
        }
    }

    /// A guest or a process does something.
    fn anybody(&mut self) {
        let pids: Vec<u32> =
            self.processes.iter().filter(|(_, p)| p.lives()).map(|(pid, _)| *pid).collect();
        if !pids.is_empty() && self.rng.bool() {
            let pid = pids[self.rng.usize(0..pids.len())];
            return self.step_process(pid);
        }
        let guest = self.rng.usize(0..self.guests.len());
        let app = self.rng.usize(0..self.guests[guest].apps.len().max(1));
        self.step_guest(guest, app);
    }

    fn turn(&mut self) {
        match self.manager {
            Some(_) => self.manage(World::manager_turn),
            None => self.manage(World::start),
        }
    }

    /// One step of a run.
    fn step(&mut self) {
        match self.rng.u32(0..200) {
            0..=119 => self.anybody(),
            120..=164 if self.manager.is_some() => self.turn(),
            120..=130 => self.turn(),
            165..=189 => self.now += self.rng.u64(1..30),
            190 if self.plan.may(Chance::Jumps) => {
                self.beat_all();
                self.jumps += 1;
                self.now += [100, 3_000, 12_000, 40_000][self.rng.usize(0..4)];
            }
            191 | 192 if self.plan.may(Chance::ManagerDies) && self.fuse.is_none() => {
                self.fuse = Some(self.rng.u64(0..80));
            }
            193 if self.plan.may(Chance::ManagerDies) => self.manager_dies(),
            194 if self.plan.may(Chance::KeeperDies) && self.rng.u32(0..4) == 0 => {
                self.keeper_dies();
                if self.rng.bool() {
                    self.fuse = Some(self.rng.u64(0..20));
                }
            }
            195 if self.plan.may(Chance::ServicesDie) => {
                let pids: Vec<u32> = self.processes.keys().copied().collect();
                if !pids.is_empty() {
                    let pid = pids[self.rng.usize(0..pids.len())];
                    self.say(|| format!("process {pid} is killed"));
                    self.processes.get_mut(&pid).expect("listed").die(Exit::Signal(9));
                }
            }
            196 if self.plan.may(Chance::Reboots) => self.reboot(),
            197 if self.plan.may(Chance::Admin) => self.operate(),
            _ => self.anybody(),
        }
    }

    fn reboot(&mut self) {
        let guest = self.rng.usize(0..self.guests.len());
        let away = self.rng.u32(1..200);
        match self.rng.u32(0..3) {
            0 => self.leave(guest, away),
            // An app is killed.
            1 if !self.guests[guest].apps.is_empty() && !self.guests[guest].host => {
                let n = self.guests[guest].apps.len();
                let app = self.rng.usize(0..n);
                self.guests[guest].apps[app].die(&mut self.ledger, away);
            }
            // Its kernel starts anew; its window stays.
            _ => {
                let g = &mut self.guests[guest];
                if g.host || g.hostile.is_some() {
                    return;
                }
                let Some(c) = &g.conn else { return };
                g.apps.iter_mut().for_each(|a| a.die(&mut self.ledger, 0));
                if !g.resetting {
                    g.resetting = true;
                    let seq = c.memory.posted(KERNEL_CELL).wrapping_add(1);
                    c.memory.post(KERNEL_CELL, seq, Kind::Reset.to_wire(), 0, &[0; 8]);
                }
            }
        }
    }

    fn operate(&mut self) {
        let Some(m) = &self.manager else { return };
        match self.rng.u32(0..4) {
            0 => {
                let grants: Vec<_> = m.rim.core.grants().map(|(h, _)| h).collect();
                if grants.is_empty() {
                    return;
                }
                let grant = grants[self.rng.usize(0..grants.len())];
                self.revoked.insert(grant.0);
                self.manage(|w| w.admin(Event::Revoke { grant }));
            }
            1 if self.rng.u32(0..3) == 0 => {
                let hostile: Vec<u32> =
                    self.guests.iter().filter(|g| g.hostile.is_some()).map(|g| g.client).collect();
                if hostile.is_empty() {
                    return;
                }
                let client = hostile[self.rng.usize(0..hostile.len())];
                self.manage(|w| w.remove_client(client));
            }
            _ => {
                let change = catalog::Change {
                    deadline_ms: [500, 1_000, 2_000][self.rng.usize(0..3)],
                    without_mul: self.rng.u32(0..4) == 0,
                    max_grants: [4, 8, 16][self.rng.usize(0..3)],
                };
                self.catalog = catalog::catalog(&change);
                let catalog = self.catalog.clone();
                self.manage(|w| w.admin(Event::Catalog(catalog)));
            }
        }
    }

    /// Runs it and lets it settle; panics if something is not as it must be.
    pub fn run(mut self) -> Report {
        for step in 0..self.plan.steps {
            trace::at(step);
            self.step();
            self.check();
        }
        self.finish()
    }

    fn open(&self) -> Vec<String> {
        let all = self.guests.iter().flat_map(|g| &g.apps);
        all.filter(|a| a.away == 0 && a.has_open()).map(App::waits).collect()
    }

    /// Nothing fails any more: everything that was begun comes to an end.
    pub fn finish(mut self) -> Report {
        self.say(|| "nothing fails any more".into());
        self.finishing = true;
        self.fuse = None;
        self.plan.chances = 0;
        self.plan.kill_at = None;
        for p in self.processes.values_mut() {
            p.calm();
        }
        self.catalog = catalog::catalog(&Default::default());
        if self.manager.is_some() {
            let catalog = self.catalog.clone();
            self.manage(|w| w.admin(Event::Catalog(catalog)));
        }
        let mut rounds = 0;
        while !self.open().is_empty() || rounds < 100 {
            self.round();
            rounds += 1;
            if rounds > ROUNDS {
                panic!("what was asked has no end: {:?}", self.open());
            }
        }
        assert!(self.ledger.open().next().is_none(), "calls were lost: {:?}", {
            self.ledger.open().collect::<Vec<_>>()
        });
        self.give_all_back();
        // Pages may still be held back, processes be on their way out.
        for _ in 0..150 {
            self.round();
        }
        self.nothing_is_left();
        Report {
            points: self.points,
            kills: self.kills,
            calls: self.ledger.totals,
            answers: self.ledger.answered,
        }
    }

    /// Well-behaved apps give everything back; then the others are turned off.
    fn give_all_back(&mut self) {
        for guest in 0..self.guests.len() {
            if self.guests[guest].hostile.is_some() {
                self.guests[guest].gone = true;
                self.leave(guest, 0);
            }
        }
        for _ in 0..ROUNDS {
            self.round();
            let idle = self.guests.iter().all(|g| g.apps.iter().all(App::idle));
            let t = self.manager.as_ref().map(|m| m.rim.core.totals());
            if idle && t.is_some_and(|t| t.sessions + t.grants + t.services == 0 && t.bytes == 0) {
                break;
            }
        }
        let m = self.manager.as_ref().expect("it lives");
        let t = m.rim.core.totals();
        let left = (t.sessions, t.grants, t.services, t.bytes);
        assert_eq!(left, (0, 0, 0, 0), "sessions, grants, services, bytes are left: {t:?}");
        let windows = self.guests.iter().filter(|g| g.conn.is_some()).count();
        assert_eq!(t.windows, windows, "a window without a guest is left");
    }

    /// No process, and nothing with the database or the keeper, that nobody needs.
    fn nothing_is_left(&self) {
        let m = self.manager.as_ref().expect("it lives");
        assert!(!m.rim.core.needs_tick(), "it waits for something that never comes");
        let alive: Vec<_> = self.processes.iter().filter(|(_, p)| p.lives()).collect();
        assert!(
            alive.is_empty(),
            "processes that nobody needs are left: {:?}",
            alive.iter().map(|(pid, p)| (**pid, p.function.clone())).collect::<Vec<_>>()
        );
        assert!(self.records.is_empty(), "the database has processes: {:?}", self.records);
        let keeper = self.keeper.as_ref().expect("it lives");
        let held: Vec<_> = keeper
            .things
            .iter()
            .filter(|(name, t)| {
                let place = t.note.contains("\"thing\":null");
                // How often a function crashed is remembered when its clients have gone.
                let memory = name.starts_with("core/breaker/");
                !(name.ends_with("/self") || name.contains("/window/") || place || memory)
            })
            .map(|(name, _)| name.clone())
            .collect();
        assert!(held.is_empty(), "the keeper holds what nobody has: {held:?}");
    }

    /// Everybody goes in turn for so many rounds; the manager is killed now and
    /// then, between two rounds. What the apps of each guest were told, and when.
    pub fn in_turn(mut self, rounds: u32) -> BTreeMap<usize, Vec<String>> {
        self.steady = true;
        let mut kills = self.plan.stream("kills");
        for round in 0..rounds {
            trace::at(round.into());
            if kills.u32(0..40) == 0 && self.plan.may(Chance::ManagerDies) {
                self.manager_dies();
            }
            self.round();
        }
        let kind = self.guests.into_iter().enumerate().filter(|(_, g)| g.hostile.is_none());
        kind.map(|(i, g)| (i, g.told)).collect()
    }

    /// Nothing that goes with descriptors reaches services for so many rounds; then it
    /// does, and all comes to its end. Services that were not told something meanwhile,
    /// and those that the manager ended for it.
    pub fn without_room(mut self, rounds: u32) -> (usize, u64) {
        self.steady = true;
        for _ in 0..100 {
            self.round();
        }
        self.no_room = true;
        for _ in 0..rounds {
            self.round();
        }
        let services = &self.manager.as_ref().expect("it lives").rim.services;
        let untold = services.keys().filter(|id| self.words_waiting(**id) > 0).count();
        let stalled = self.stalled.get();
        self.no_room = false;
        self.finish();
        (untold, stalled)
    }

    /// Everybody goes once, in turn.
    pub fn round(&mut self) {
        self.now += 20;
        for guest in 0..self.guests.len() {
            for app in 0..self.guests[guest].apps.len().max(1) {
                self.step_guest(guest, app);
            }
        }
        let pids: Vec<u32> = self.processes.keys().copied().collect();
        for pid in pids {
            for _ in 0..4 {
                self.step_process(pid);
            }
        }
        self.turn();
        self.check();
    }
}
