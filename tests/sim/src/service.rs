//! A service process, step by step: the order of things is that of
//! `services/sdk/src/service`, the cells are served by the real `vfun_ring`.

use crate::ledger::Ledger;
use crate::memory::Memory;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use vfun_core::Exit;
use vfun_ring::{Memory as _, Next, Request, Server, WindowMemory};
use vfun_supervise::{BufferCame, EXIT_CANNOT_START, EXIT_DEADLINE, FromService, Open, ToService};
use vfun_wire::Status;
use vfun_wire::channel::in_header;
use vfun_wire::place::ChannelPlace;
use vfun_wire::range::{Access, Range};

/// How a process behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temper {
    /// As it should.
    Good,
    /// Dies at any step.
    Crashes,
    /// A call of it hangs now and then.
    Hangs,
    /// Takes buffers, keeps them, and says nothing of them.
    Keeps,
    /// Its driver does not load.
    CannotLoad,
    /// Its driver dies while it loads.
    DiesLoading,
    /// Its driver takes longer to load than the manager waits.
    LoadsForEver,
    /// Its driver refuses a channel now and then.
    Refuses,
    /// Says anything at any time.
    Lies,
}

/// What a service computes: a caller knows its own answer again.
pub fn answer_to(number: u64) -> u64 {
    number.wrapping_mul(3).wrapping_add(1)
}

/// Passed from one process to another, past the manager.
pub type Baton = Rc<Cell<bool>>;

/// What it is told, with what comes along.
pub struct Told {
    pub message: ToService,
    /// Which manager says it.
    pub by: u32,
    /// The window of a channel to open.
    pub memory: Option<Rc<Memory>>,
    /// The one to wait for, or to pass.
    pub baton: Option<Baton>,
}

enum At {
    /// The driver has not opened it yet.
    Opening,
    /// Is ready and touches nothing: another process serves it.
    Standing,
    /// Has passed it on and not let go of it.
    Left,
    /// Looks for requests.
    Looking,
    /// Took this one.
    Took(Request),
    /// Said that it computes it.
    Began(Request, u64),
    /// Has its results.
    Computed(Request, u64),
    /// Touches it no more.
    Ended,
}

struct Channel {
    memory: Rc<Memory>,
    place: ChannelPlace,
    deadline_ms: u64,
    server: Option<Server<WindowMemory>>,
    at: At,
    /// Found behind the one that was left half done.
    behind: VecDeque<Request>,
    closing: bool,
    vf: Option<u16>,
    /// What it waits for, if it stands by.
    standby: Option<Baton>,
    /// The manager said that it is its turn.
    turn: Option<Status>,
    /// What it passes when it has let go.
    passes: Option<Baton>,
    standing: bool,
    opened: bool,
    broken: Option<String>,
    /// Its call never ends.
    hangs: bool,
}

/// A service's process.
pub struct Process {
    pub function: String,
    pub temper: Temper,
    /// It is one that [`Temper::Keeps`], and stays so.
    keeps: bool,
    rng: fastrand::Rng,
    pub exit: Option<Exit>,
    /// Whether its socket's other end is there.
    pub linked: bool,
    loaded: bool,
    stopping: bool,
    started_ms: u64,
    loads_ms: u64,
    pub inbox: VecDeque<Told>,
    pub outbox: VecDeque<FromService>,
    channels: BTreeMap<u64, Channel>,
    /// Buffers that it has mapped.
    buffers: BTreeMap<u64, Buffer>,
}

struct Buffer {
    memory: Rc<Memory>,
    range: Range,
    /// Which manager took it away last, if one did; a call uses it still.
    gone: Option<u32>,
}

impl Process {
    pub fn new(function: &str, temper: Temper, mut rng: fastrand::Rng, now: u64) -> Self {
        Process {
            function: function.into(),
            temper,
            keeps: temper == Temper::Keeps,
            loads_ms: rng.u64(0..40),
            rng,
            exit: None,
            linked: true,
            loaded: false,
            stopping: false,
            started_ms: now,
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            channels: BTreeMap::new(),
            buffers: BTreeMap::new(),
        }
    }

    pub fn die(&mut self, exit: Exit) {
        if self.exit.is_none() {
            self.exit = Some(exit);
            self.channels.clear(); // unmapped
            self.buffers.clear();
            self.inbox.clear();
        }
    }

    /// From now on it behaves; what hangs goes on hanging.
    pub fn calm(&mut self) {
        if self.temper != Temper::Lies {
            self.temper = Temper::Good;
        }
    }

    pub fn lives(&self) -> bool {
        self.exit.is_none()
    }

    /// The other end of its socket is closed: what it was told it still hears.
    pub fn unlink(&mut self) {
        self.linked = false;
        self.outbox.clear();
        // Nobody will say whose turn it is.
        self.channels.values_mut().filter(|c| !c.opened && c.standby.is_some()).for_each(|c| {
            c.closing = true;
        });
    }

    /// What it has mapped, of which windows: handle, memory, place, and
    /// whether it may touch it.
    pub fn maps(&self) -> impl Iterator<Item = (u64, &Rc<Memory>, &ChannelPlace, bool)> {
        self.channels.iter().filter(|(_, c)| !matches!(c.at, At::Ended)).map(|(h, c)| {
            let touches = match c.at {
                At::Standing | At::Left => false,
                At::Opening => c.standby.is_none(),
                _ => true,
            };
            (*h, &c.memory, &c.place, touches)
        })
    }

    /// The buffers that it has mapped, of which windows.
    pub fn buffers(&self) -> impl Iterator<Item = (u64, &Rc<Memory>, &Range)> {
        self.buffers.iter().map(|(h, b)| (*h, &b.memory, &b.range))
    }

    /// A call writes into a buffer that it has, or one that was taken away is let go of.
    fn use_buffers(&mut self) {
        let Some(pick) = self.buffers.len().checked_sub(1).map(|n| self.rng.usize(0..=n)) else {
            return;
        };
        let (&buffer, b) = self.buffers.iter().nth(pick).expect("so many");
        let (first, word) = (b.range.offset.get() as usize / 8, self.rng.usize(0..512));
        let value = self.rng.u64(1..);
        // Its app has written there, so it may have named it in a call.
        if b.memory.load(first) != 0 {
            b.memory.store(first + word, value);
        }
        if b.gone.is_some() && !self.keeps && self.rng.bool() {
            self.buffers.remove(&buffer);
            self.say(FromService::BufferLeft { buffer });
        }
    }

    /// The VFs that it is on.
    pub fn vfs(&self) -> impl Iterator<Item = u16> {
        self.channels.values().filter(|c| !matches!(c.at, At::Ended)).filter_map(|c| c.vf)
    }

    fn say(&mut self, message: FromService) {
        if self.linked {
            self.outbox.push_back(message);
        }
    }

    /// One small step. If `steady`, it depends on nothing that other clients
    /// have a part in: the values of handles, and the order that follows.
    pub fn step(&mut self, now: u64, steady: bool, ledger: &mut Ledger) {
        if !self.lives() {
            return;
        }
        match self.temper {
            Temper::Crashes if self.rng.u32(0..40) == 0 => return self.die(Exit::Signal(11)),
            Temper::Lies if self.rng.u32(0..12) == 0 => self.lie(ledger),
            _ => {}
        }
        if !self.loaded {
            return self.load(now);
        }
        if self.over() {
            return self.die(Exit::Code(0));
        }
        self.use_buffers();
        while steady && !self.inbox.is_empty() {
            self.hear();
        }
        if !self.inbox.is_empty() && self.rng.bool() {
            return self.hear();
        }
        let mut busy: Vec<u64> = self
            .channels
            .iter()
            .filter(|(_, c)| !matches!(c.at, At::Ended))
            .map(|(h, _)| *h)
            .collect();
        if steady {
            let place = |h: &u64| {
                let c = &self.channels[h];
                (c.memory.guest, c.place.ranges()[0].offset.get())
            };
            busy.sort_by_key(place);
        }
        match busy.is_empty() {
            true if !self.inbox.is_empty() => self.hear(),
            true => {}
            false => {
                let channel = busy[self.rng.usize(0..busy.len())];
                self.serve(channel, now, ledger);
            }
        }
    }

    fn over(&self) -> bool {
        let served = self.channels.values().any(|c| !matches!(c.at, At::Ended));
        let alone = !self.linked && self.inbox.is_empty();
        !served && (self.stopping || alone)
    }

    fn load(&mut self, now: u64) {
        match self.temper {
            Temper::LoadsForEver => {}
            _ if now < self.started_ms + self.loads_ms => {}
            Temper::CannotLoad => {
                self.say(FromService::Failed { reason: "no such symbol".into() });
                self.die(Exit::Code(EXIT_CANNOT_START));
            }
            Temper::DiesLoading => self.die(Exit::Signal(6)),
            _ => {
                self.loaded = true;
                self.say(FromService::Ready {
                    max_args: 48,
                    max_result: 48,
                    note: None,
                    buffers: true,
                });
            }
        }
    }

    fn open(&mut self, order: &Open, memory: Rc<Memory>, baton: Option<Baton>) {
        let channel = order.channel;
        let refused = if self.stopping {
            Some("this service is being stopped")
        } else if self.channels.contains_key(&channel) {
            Some("a channel with this handle is being served")
        } else {
            None
        };
        if let Some(reason) = refused {
            self.say(FromService::OpenFailed { channel, reason: reason.into() });
            return;
        }
        let opening = Channel {
            memory,
            place: order.place.read().expect("what the core grants is possible"),
            deadline_ms: order.deadline_ms.into(),
            server: None,
            at: At::Opening,
            behind: VecDeque::new(),
            closing: !self.linked && baton.is_some(),
            vf: order.vf,
            standby: baton,
            turn: None,
            passes: None,
            standing: false,
            opened: false,
            broken: None,
            hangs: false,
        };
        self.channels.insert(channel, opening);
    }

    fn hear(&mut self) {
        let Told { message, by, memory, baton } = self.inbox.pop_front().expect("seen");
        match message {
            ToService::Open(order) => {
                self.open(&order, memory.expect("it comes along"), baton);
            }
            ToService::BufferCame(came) => {
                self.buffer_came(&came, memory.expect("it comes along"));
            }
            ToService::BufferGone { buffer } => self.buffer_gone(buffer, by),
            ToService::Close { channel } => match self.channels.get_mut(&channel) {
                Some(c) if !matches!(c.at, At::Ended) => c.closing = true,
                Some(_) => {
                    self.channels.remove(&channel);
                    self.say(FromService::Closed { channel });
                }
                None => {}
            },
            ToService::HandOver { channel } => match self.channels.get_mut(&channel) {
                Some(c) if !matches!(c.at, At::Ended) => {
                    c.passes = baton.or(c.passes.take());
                    c.closing = true;
                }
                Some(_) => {
                    self.channels.remove(&channel);
                    self.say(FromService::Closed { channel });
                }
                None => {}
            },
            ToService::TakeUp { channel, status } => {
                if let Some(c) = self.channels.get_mut(&channel) {
                    c.turn = Some(Status::from_wire(status).unwrap_or(Status::DriverCrashed));
                }
            }
            ToService::Stop => self.stopping = true,
            ToService::Report { by } => self.report(by),
            ToService::Live => self.outbox.push_back(FromService::Alive),
            // It is made from what it is to serve, takes any number of calls, and
            // wishes for nothing.
            ToService::Start(_)
            | ToService::Rate { .. }
            | ToService::Look { .. }
            | ToService::Verdict { .. }
            | ToService::Order { .. } => {}
        }
    }

    fn buffer_came(&mut self, came: &BufferCame, memory: Rc<Memory>) {
        let range = Range::new(0, Access::Both, came.offset, came.bytes);
        let b = Buffer { memory, range, gone: None };
        self.buffers.entry(came.buffer).or_insert(b);
        if !self.keeps {
            self.say(FromService::BufferHere { buffer: came.buffer });
        }
    }

    fn buffer_gone(&mut self, buffer: u64, by: u32) {
        match self.buffers.get_mut(&buffer) {
            // Another manager says it again, as nobody may have heard the one before.
            Some(b) => {
                let before = b.gone.replace(by);
                assert_ne!(before, Some(by), "a manager takes buffer {buffer:x} away twice");
            }
            None if self.keeps => {}
            None => self.say(FromService::BufferLeft { buffer }),
        }
    }

    fn report(&mut self, to: u32) {
        let served: Vec<u64> = self.channels.keys().copied().collect();
        // In two parts now and then, as a long one would come.
        let cut = if served.len() > 1 && self.rng.bool() { served.len() / 2 } else { 0 };
        if cut > 0 {
            self.say(FromService::Channels {
                channels: served[..cut].to_vec(),
                more: true,
                to,
                buffers: true,
            });
        }
        self.say(FromService::Channels {
            channels: served[cut..].to_vec(),
            more: false,
            to,
            buffers: true,
        });
        let mut again = vec![];
        for (&channel, c) in &self.channels {
            if c.opened {
                again.push(FromService::Opened { channel });
            } else if c.standing {
                again.push(FromService::Standing { channel });
            }
            if let Some(reason) = &c.broken {
                again.push(FromService::Broken { channel, reason: reason.clone() });
            }
        }
        again.into_iter().for_each(|m| self.say(m));
    }

    fn serve(&mut self, channel: u64, now: u64, ledger: &mut Ledger) {
        let c = self.channels.get_mut(&channel).expect("listed");
        let stop = c.closing || self.stopping;
        match std::mem::replace(&mut c.at, At::Ended) {
            At::Ended => unreachable!("not listed"),
            At::Opening => self.opening(channel),
            At::Standing => match (c.turn, &c.standby) {
                (Some(status), _) => self.take(channel, status),
                _ if stop => self.end(channel, None),
                (None, Some(baton)) if baton.get() => self.take(channel, Status::DriverCrashed),
                _ => c.at = At::Standing,
            },
            At::Left => self.end(channel, None),
            At::Looking if stop => self.let_go(channel),
            At::Looking => self.look(channel),
            At::Took(r) => {
                c.server.as_ref().expect("open").begin(r.cell, r.seq);
                c.at = At::Began(r, now);
            }
            At::Began(r, since) => self.compute(channel, r, since, now, ledger),
            At::Computed(r, number) => {
                let server = c.server.as_mut().expect("open");
                server.answer_inline(r.cell, Status::Ok, &answer_to(number).to_le_bytes());
                c.at = At::Looking;
            }
        }
    }

    fn opening(&mut self, channel: u64) {
        if self.temper == Temper::Refuses && self.rng.u32(0..3) == 0 {
            self.channels.remove(&channel);
            self.say(FromService::OpenFailed { channel, reason: "no memory".into() });
            return;
        }
        let c = self.channels.get_mut(&channel).expect("listed");
        if c.standby.is_some() {
            c.standing = true;
            c.at = At::Standing;
            return self.say(FromService::Standing { channel });
        }
        self.take(channel, Status::DriverCrashed);
    }

    /// Between two calls, and told to stop: leaves the channel, to the next one if that waits.
    fn let_go(&mut self, channel: u64) {
        let c = self.channels.get_mut(&channel).expect("listed");
        let server = c.server.as_mut().expect("open");
        match c.behind.front() {
            Some(r) => server.leave_at(r.cell),
            None => server.leave(),
        }
        if let Some(baton) = c.passes.take() {
            baton.set(true);
            (c.server, c.at) = (None, At::Left);
            return;
        }
        self.end(channel, None)
    }

    fn look(&mut self, channel: u64) {
        let c = self.channels.get_mut(&channel).expect("listed");
        if let Some(r) = c.behind.pop_front() {
            c.at = At::Took(r);
            return;
        }
        let server = c.server.as_mut().expect("open");
        match server.next_anywhere() {
            Next::Call(r) => c.at = At::Took(r),
            Next::Nothing => {
                server.idle();
                c.at = At::Looking;
            }
            Next::Broken(v) => self.end(channel, Some(v.to_string())),
        }
    }

    fn compute(&mut self, channel: u64, r: Request, since: u64, now: u64, ledger: &mut Ledger) {
        let c = self.channels.get_mut(&channel).expect("listed");
        // Its device goes: the call stays where it is.
        if c.vf.is_some() && self.temper == Temper::Refuses && self.rng.u32(0..4) == 0 {
            c.server.as_ref().expect("open").leave_at(r.cell);
            self.channels.remove(&channel);
            return self.say(FromService::DeviceLost { channel, reason: "gone".to_owned() });
        }
        if now > since + c.deadline_ms {
            self.say(FromService::Deadline { channel });
            return self.die(Exit::Code(EXIT_DEADLINE));
        }
        if c.hangs || self.temper == Temper::Hangs && self.rng.u32(0..8) == 0 {
            c.hangs = true;
            c.at = At::Began(r, since);
            return;
        }
        let number = u64::from_le_bytes(r.inline[..8].try_into().expect("eight"));
        if !c.memory.scribbled.get() {
            ledger.ran(number);
        }
        c.at = At::Computed(r, number);
    }

    /// Takes a channel up, as after a crash.
    fn take(&mut self, channel: u64, status: Status) {
        let c = self.channels.get_mut(&channel).expect("listed");
        let mut server = c.memory.server(&c.place);
        // As in `Calls::finish_half_done`.
        let left = server.memory().load_own(in_header::CURRENT, Ordering::Relaxed);
        if left != 0 {
            while let Next::Call(r) = server.next_anywhere() {
                if left == (r.cell as u64 + 1) << 32 | u64::from(r.seq) {
                    server.answer_inline(r.cell, status, &[]);
                    break;
                }
                c.behind.push_back(r);
            }
        }
        match c.behind.front() {
            Some(r) => server.settle_at(r.cell),
            None => server.settle(),
        }
        (c.server, c.at, c.opened) = (Some(server), At::Looking, true);
        self.say(FromService::Opened { channel });
    }

    fn end(&mut self, channel: u64, broken: Option<String>) {
        let c = self.channels.get_mut(&channel).expect("listed");
        (c.server, c.at) = (None, At::Ended);
        let closing = c.closing;
        if let Some(reason) = broken {
            c.broken = Some(reason.clone());
            self.say(FromService::Broken { channel, reason });
        }
        if closing {
            self.channels.remove(&channel);
            self.say(FromService::Closed { channel });
        }
    }

    /// Its driver has taken it over.
    fn lie(&mut self, ledger: &Ledger) {
        let own = self.channels.keys().next().copied();
        let channel = match self.rng.u32(0..4) {
            0 => self.rng.u64(..),
            1 => u64::from(self.rng.u32(0..8)) | 7 << 32,
            2 => own.unwrap_or(3),
            _ => ledger.handle(self.rng.usize(..)).unwrap_or(1),
        };
        let reason = "a lie".to_owned();
        let message = match self.rng.u32(0..12) {
            10 => FromService::BufferHere { buffer: channel },
            11 => FromService::BufferLeft { buffer: channel },
            0 => FromService::Opened { channel },
            1 if self.rng.bool() => FromService::DeviceLost { channel, reason },
            1 => FromService::Standing { channel },
            2 => FromService::OpenFailed { channel, reason },
            3 | 4 => FromService::Closed { channel },
            5 => FromService::Broken { channel, reason },
            6 => FromService::Channels {
                channels: vec![channel; 3],
                more: self.rng.bool(),
                to: 0,
                buffers: true,
            },
            7 => FromService::Deadline { channel },
            8 => {
                FromService::Ready { max_args: 0, max_result: u32::MAX, note: None, buffers: true }
            }
            _ => FromService::Failed { reason },
        };
        self.say(message);
    }
}
