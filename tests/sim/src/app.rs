//! A well-behaved app: says hello, negotiates, activates, calls, releases,
//! says goodbye or dies, and knows what it may be told.

use crate::ledger::{Ledger, Place};
use crate::memory::Memory;
use crate::service::answer_to;
use std::collections::BTreeSet;
use std::rc::Rc;
use vfun_ring::{Caller, PollAnswer, Ticket, WindowMemory};
use vfun_wire::channel::Command;
use vfun_wire::kind::CallsShape;
use vfun_wire::limits::CREDENTIAL_BYTES;
use vfun_wire::message::*;
use vfun_wire::place::ChannelPlace;
use vfun_wire::range::Range;
use vfun_wire::version::VERSION_MIN;
use vfun_wire::{Nack, NackCode, Status, names};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// What an app can see of the world.
pub struct View<'a> {
    pub now: u64,
    pub memory: &'a Rc<Memory>,
    pub window: u32,
    pub ledger: &'a mut Ledger,
    /// Nothing new is begun, what is open is finished.
    pub finishing: bool,
    /// How often a manager found nothing left of the one before it.
    pub losses: u64,
    /// How often time jumped by more than a heartbeat may stand still.
    pub jumps: u64,
    pub revoked: &'a BTreeSet<u64>,
    pub functions: &'a [&'a str],
    /// Whether hardware may be asked for.
    pub hardware: bool,
    /// What it sees, in words that do not depend on others.
    pub told: &'a mut Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Hello,
    Negotiate,
    Activate(u64),
    Release(u64),
    Stats(u64),
    List,
    KeepAlive,
    Goodbye,
    /// A buffer, of this grant if it is not 0.
    BufferGet(u64),
    BufferPut(u64),
}

struct Asking {
    seq: u32,
    what: What,
    jumps: u64,
}

struct Channel {
    place: ChannelPlace,
    caller: Caller<WindowMemory>,
    open: Vec<(Ticket, u64)>,
    broken: bool,
}

struct Mine {
    grant: u64,
    channel: Option<Channel>,
}

struct Mapped {
    buffer: u64,
    /// That it belongs to; 0: the session.
    grant: u64,
    range: Range,
    /// Of the world when it was given: if they are others, the session may have ended.
    fates: (u64, u64),
}

struct Session {
    handle: u64,
    line: u16,
    losses: u64,
    /// Time jumped before it knew that it had a heartbeat to move.
    late: bool,
}

/// See the module.
pub struct App {
    pub id: u64,
    cell: usize,
    rng: fastrand::Rng,
    session: Option<Session>,
    asking: Option<Asking>,
    grants: Vec<Mine>,
    buffers: Vec<Mapped>,
    beats: u64,
    calls: u64,
    /// It is not there for so many steps.
    pub away: u32,
    /// Calls it makes at once at most.
    eager: usize,
    /// The grant of the buffer that it gives back.
    putting: u64,
}

impl App {
    pub fn new(id: u64, cell: usize, mut rng: fastrand::Rng) -> Self {
        let eager = rng.usize(1..6);
        App {
            id,
            cell,
            rng,
            session: None,
            asking: None,
            grants: vec![],
            buffers: vec![],
            beats: 0,
            calls: 0,
            away: 0,
            eager,
            putting: 0,
        }
    }

    /// It dies; nobody waits for its calls any more.
    pub fn die(&mut self, ledger: &mut Ledger, away: u32) {
        self.lose_all(ledger);
        self.session = None;
        self.asking = None;
        self.away = away;
    }

    fn lose_all(&mut self, ledger: &mut Ledger) {
        self.buffers.clear();
        for m in std::mem::take(&mut self.grants) {
            for (_, number) in m.channel.into_iter().flat_map(|c| c.open) {
                ledger.abandoned(number);
            }
        }
    }

    /// Whether it holds or waits for anything.
    pub fn idle(&self) -> bool {
        self.session.is_none() && self.asking.is_none() && self.grants.is_empty()
    }

    /// What it waits for, for a report.
    pub fn waits(&self) -> String {
        let asks = self.asking.as_ref().map(|a| (a.seq, a.what));
        let open: usize =
            self.grants.iter().filter_map(|m| m.channel.as_ref()).map(|c| c.open.len()).sum();
        format!("app {}: asks {asks:?}, {} grants, {open} open calls", self.id, self.grants.len())
    }

    /// Whether it has calls that have not ended.
    pub fn has_open(&self) -> bool {
        self.asking.is_some()
            || self.grants.iter().any(|m| m.channel.as_ref().is_some_and(|c| !c.open.is_empty()))
    }

    /// Its heartbeat, which a thread of its own moves.
    pub fn beat(&mut self, memory: &Memory) {
        if let Some(s) = &self.session {
            self.beats += 1;
            memory.beat(s.line, self.beats);
        }
    }

    /// One small step.
    pub fn step(&mut self, v: &mut View) {
        if self.away > 0 {
            self.away -= 1;
            return;
        }
        self.look(v);
        if self.asking.is_some() {
            self.hear(v);
        } else if v.memory.answered(self.cell).0 == v.memory.posted(self.cell) {
            self.ask(v);
        }
    }

    fn post(&mut self, v: &mut View, what: What, kind: Kind, body: &[u8]) {
        let seq = v.memory.posted(self.cell).wrapping_add(1);
        let session = self.session.as_ref().map_or(0, |s| s.handle);
        v.memory.post(self.cell, seq, kind.to_wire(), session, body);
        self.asking = Some(Asking { seq, what, jumps: v.jumps });
    }

    fn ask(&mut self, v: &mut View) {
        if self.session.is_none() {
            if v.finishing {
                return;
            }
            let h = Hello {
                version_min: U16::new(VERSION_MIN),
                version_max: U16::new(9),
                pid: U32::new(1),
                features: U64::new(u64::MAX),
                app: names::encode(&format!("app{}", self.id)).expect("short"),
                credential_len: U16::new(0),
                reserved: [0; 6],
                credential: [0; CREDENTIAL_BYTES],
            };
            return self.post(v, What::Hello, Kind::Hello, h.as_bytes());
        }
        let chance = if v.finishing { 100 } else { self.rng.u32(0..100) };
        match chance {
            0..=14 if self.grants.len() < 3 => self.negotiate(v),
            15..=17 => self.post(v, What::List, Kind::List, &[0; 8]),
            18..=19 => self.post(v, What::KeepAlive, Kind::KeepAlive, &[0; 8]),
            20..=22 if !self.grants.is_empty() => {
                let grant = self.grants[0].grant;
                self.post(v, What::Stats(grant), Kind::Stats, &grant.to_le_bytes());
            }
            23 => self.leave(v),
            24..=45 => {
                if let Some(m) = self.grants.iter().find(|m| m.channel.is_none()) {
                    let grant = m.grant;
                    self.post(v, What::Activate(grant), Kind::Activate, &grant.to_le_bytes());
                }
            }
            46..=50 => self.release(v, false),
            51..=56 if self.buffers.len() < 3 => self.get_buffer(v),
            57..=61 if !self.buffers.is_empty() => self.put_buffer(v),
            100 => {
                let open = |m: &Mine| m.channel.as_ref().is_some_and(|c| !c.open.is_empty());
                if self.grants.iter().any(|m| !open(m)) {
                    self.release(v, true);
                } else if self.grants.is_empty() {
                    self.leave(v);
                }
            }
            _ => self.call(v),
        }
    }

    fn negotiate(&mut self, v: &mut View) {
        let function = v.functions[self.rng.usize(0..v.functions.len())];
        let preference = if v.hardware { self.rng.u8(0..3) } else { 2 };
        let n = Negotiate {
            function: names::encode(function).expect("short"),
            version: U32::new(0),
            preference,
            wait: self.rng.u8(0..2),
            kind: U16::new(1),
            deadline_ms: U32::new(0),
            reserved0: U32::ZERO,
            signature: U64::new(0),
            shape: CallsShape::new(
                1 << self.rng.u32(0..4),
                [0, 64, 4096, 20_000][self.rng.usize(0..4)],
            )
            .shape(),
            reserved1: [U64::ZERO; 3],
        };
        self.post(v, What::Negotiate, Kind::Negotiate, n.as_bytes());
    }

    fn get_buffer(&mut self, v: &mut View) {
        let grant = self.grants.first().filter(|_| self.rng.bool()).map_or(0, |m| m.grant);
        let get = BufferGet {
            grant: U64::new(grant),
            bytes: U64::new([1, 4096, 9000, 70_000][self.rng.usize(0..4)]),
            align: U64::new([0, 4096, 1 << 16][self.rng.usize(0..3)]),
            flags: U32::ZERO,
            reserved: U32::ZERO,
        };
        self.post(v, What::BufferGet(grant), Kind::BufferGet, get.as_bytes());
    }

    fn put_buffer(&mut self, v: &mut View) {
        let pick = self.rng.usize(0..self.buffers.len());
        let Mapped { buffer, grant, range, fates } = self.buffers.swap_remove(pick);
        if !v.revoked.contains(&grant) && fates == (v.losses, v.jumps) {
            v.memory.soil_buffer(&range, self.rng.u64(..));
        }
        self.putting = grant;
        self.post(v, What::BufferPut(buffer), Kind::BufferPut, &buffer.to_le_bytes());
    }

    fn leave(&mut self, v: &mut View) {
        self.post(v, What::Goodbye, Kind::Goodbye, &[0; 8]);
        self.lose_all(v.ledger);
    }

    fn release(&mut self, v: &mut View, done: bool) {
        let open = |m: &Mine| m.channel.as_ref().is_some_and(|c| !c.open.is_empty());
        let mut ready: Vec<usize> = (0..self.grants.len()).collect();
        // In the middle of its calls, too, but when everything is to be finished.
        ready.retain(|i| !done || !open(&self.grants[*i]));
        if ready.is_empty() {
            return;
        }
        let m = self.grants.remove(ready[self.rng.usize(0..ready.len())]);
        self.buffers.retain(|b| b.grant != m.grant);
        if let Some(c) = m.channel {
            for (_, number) in c.open {
                v.ledger.abandoned(number);
            }
            if !c.broken && !v.revoked.contains(&m.grant) {
                v.memory.soil(&c.place, self.rng.u64(..));
            }
        }
        self.post(v, What::Release(m.grant), Kind::Release, &m.grant.to_le_bytes());
    }

    fn call(&mut self, v: &mut View) {
        let eager = self.eager;
        let ready = self.grants.iter_mut().filter_map(|m| m.channel.as_mut());
        let Some(c) = ready.filter(|c| !c.broken && c.open.len() < eager).last() else { return };
        let Ok(claim) = c.caller.claim() else { return };
        let number = self.id << 32 | self.calls;
        self.calls += 1;
        v.ledger.posted(number);
        let ticket = c.caller.post_inline(claim, Command::Set, &number.to_le_bytes());
        c.open.push((ticket, number));
    }

    /// Looks how its calls are.
    fn look(&mut self, v: &mut View) {
        let id = self.id;
        for m in &mut self.grants {
            let Some(c) = &mut m.channel else { continue };
            if v.revoked.contains(&m.grant) {
                // The pages may be another's by now; whoever is told looks no more.
                c.broken = true;
                for (_, number) in c.open.drain(..) {
                    v.ledger.abandoned(number);
                }
                continue;
            }
            let mut left = vec![];
            for (ticket, number) in std::mem::take(&mut c.open) {
                let how = match c.caller.look_hard(&ticket) {
                    PollAnswer::NotYet => {
                        left.push((ticket, number));
                        continue;
                    }
                    PollAnswer::Done(a) if a.status == Status::Ok.to_wire() => {
                        let got = u64::from_le_bytes(a.inline[..8].try_into().expect("eight"));
                        assert!(
                            a.len == 8 && got == answer_to(number),
                            "call {number} of app {id} has another's results: {got}"
                        );
                        c.caller.take(ticket);
                        "ok".to_owned()
                    }
                    PollAnswer::Done(a) => {
                        c.caller.take(ticket);
                        let status = Status::from_wire(a.status);
                        assert!(
                            matches!(
                                status,
                                Some(
                                    Status::DriverCrashed | Status::Deadline | Status::ServiceLost
                                )
                            ),
                            "call {number} of app {id} ended with {status:?}"
                        );
                        format!("status {}", a.status)
                    }
                    PollAnswer::Broken(reason) => {
                        c.broken = true;
                        format!("broken: {reason:?}")
                    }
                    PollAnswer::Nonsense => panic!("the answer to call {number} makes no sense"),
                };
                v.told.push(format!("{}: app {id}: call {number}: {how}", v.now));
                v.ledger.ended(number, &how);
            }
            c.open = left;
            c.broken |= c.caller.broken().is_some();
        }
    }

    fn hear(&mut self, v: &mut View) {
        let asked = self.asking.as_ref().expect("the caller looked");
        let (seq, kind, body) = v.memory.answered(self.cell);
        if seq != asked.seq {
            return;
        }
        let Asking { seq, what, jumps } = self.asking.take().expect("seen");
        let place = (v.window, self.cell, seq);
        if kind == 0 {
            v.told.push(format!("{}: app {}: {}: ack", v.now, self.id, word(what)));
            self.granted(v, what, &body, place, jumps != v.jumps);
        } else {
            let nack = Nack::decode(&body);
            v.told.push(format!("{}: app {}: {}: {:?}", v.now, self.id, word(what), nack.code));
            self.refused(v, what, &nack);
        }
    }

    fn granted(&mut self, v: &mut View, what: What, body: &[u8], place: Place, late: bool) {
        match what {
            What::Hello => {
                let (a, _) = HelloAck::read_from_prefix(body).expect("a whole answer");
                v.ledger.given(true, a.session.get(), place);
                self.session = Some(Session {
                    handle: a.session.get(),
                    line: a.session_line.get(),
                    losses: v.losses,
                    late,
                });
            }
            What::Negotiate => {
                let (a, _) = NegotiateAck::read_from_prefix(body).expect("a whole answer");
                v.ledger.given(false, a.grant.get(), place);
                self.grants.push(Mine { grant: a.grant.get(), channel: None });
            }
            What::Activate(grant) => {
                let (channel, place) = ChannelPlace::read(body).expect("a whole answer");
                assert_eq!(channel, grant, "another channel than the one asked for");
                let at = &[v.memory.heap()];
                place.check(at).unwrap_or_else(|e| panic!("a place that cannot be: {e}"));
                let Some(m) = self.grants.iter_mut().find(|m| m.grant == grant) else { return };
                if v.revoked.contains(&grant) {
                    return;
                }
                let broken = v.memory.caller(&place).broken().is_some();
                if !broken && let Some(at) = v.memory.dirt(&place) {
                    panic!("channel {grant:x} is given with what another left in it, at {at}");
                }
                let caller = v.memory.caller(&place);
                m.channel = Some(Channel { place, caller, open: vec![], broken });
            }
            What::Goodbye => self.session = None,
            What::Stats(_) => {
                let s =
                    Stats::read_from_bytes(body).expect("an answer as long as the message says");
                assert!(s.errors.get() <= s.calls.get(), "more errors than calls: {s:?}");
            }
            What::BufferGet(grant) => {
                let ack = BufferAck::read_from_bytes(body).expect("a whole answer");
                let range = ack.range;
                let at = &[v.memory.heap()];
                vfun_wire::range::check(&[range], at).unwrap_or_else(|e| panic!("a buffer: {e}"));
                // Its grant or session may have been taken away since.
                if v.revoked.contains(&grant) || late {
                    return;
                }
                if let Some(at) = v.memory.dirt_in(&range) {
                    panic!("a buffer is given with what another left in it, at {at}");
                }
                v.memory.soil_buffer(&range, self.rng.u64(..));
                let (buffer, fates) = (ack.buffer.get(), (v.losses, v.jumps));
                self.buffers.push(Mapped { buffer, grant, range, fates });
            }
            What::Release(_) | What::List | What::KeepAlive | What::BufferPut(_) => {}
        }
    }

    fn refused(&mut self, v: &mut View, what: What, nack: &Nack) {
        let gone = matches!(nack.code, NackCode::Stale | NackCode::BadHandle);
        let about = match what {
            What::Activate(g) | What::Release(g) | What::Stats(g) => Some(g),
            What::BufferGet(g) => Some(g).filter(|g| *g != 0),
            // It ends with its grant.
            What::BufferPut(_) => Some(self.putting).filter(|g| *g != 0),
            _ => None,
        };
        if gone {
            let lost = self.session.as_ref().is_some_and(|s| s.late || s.losses != v.losses);
            let revoked = about.is_some_and(|g| v.revoked.contains(&g));
            assert!(
                lost || revoked,
                "app {} holds what it asks about ({what:?}) and is refused: {nack}",
                self.id
            );
            if what == What::Goodbye || lost && !revoked {
                self.lose_all(v.ledger);
                self.session = None;
            } else if let Some(g) = about {
                self.drop_grant(v, g);
            }
            return;
        }
        let expected = match what {
            What::Hello => matches!(nack.code, NackCode::NoCapacity | NackCode::Denied),
            What::Negotiate => !matches!(
                nack.code,
                NackCode::Malformed | NackCode::BadCredential | NackCode::WrongProtocol
            ),
            What::Activate(_) => {
                use NackCode::{NoCapacity, ServiceFailed, Starting};
                matches!(nack.code, NoCapacity | ServiceFailed | Starting)
                    || about.is_some_and(|g| v.revoked.contains(&g))
            }
            What::BufferGet(g) => {
                use NackCode::{Denied, NoCapacity, OverQuota, Starting};
                matches!(nack.code, NoCapacity | OverQuota | Denied | Starting)
                    || v.revoked.contains(&g)
            }
            // The window's client was removed.
            What::List => nack.code == NackCode::Denied,
            _ => false,
        };
        assert!(expected, "app {} asked rightly ({what:?}) and is refused: {nack}", self.id);
    }

    fn drop_grant(&mut self, v: &mut View, grant: u64) {
        self.buffers.retain(|b| b.grant != grant);
        if let Some(i) = self.grants.iter().position(|m| m.grant == grant) {
            for (_, number) in self.grants.remove(i).channel.into_iter().flat_map(|c| c.open) {
                v.ledger.abandoned(number);
            }
        }
    }
}

fn word(what: What) -> String {
    // Handles depend on what others do; the rest does not.
    format!("{what:?}").split('(').next().unwrap_or_default().to_owned()
}
