//! The manager's state machine fed from a fuzzer's bytes.

use crate::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use vfun_core::manifest;
use vfun_core::{Action, Catalog, ControlRequest, Core, Event, Exit, ReplyTo, ServiceId};
use vfun_wire::Handle;
use vfun_wire::kind::CallsShape;
use vfun_wire::limits::CREDENTIAL_BYTES;
use vfun_wire::message::*;
use vfun_wire::names;
use vfun_wire::version::VERSION_MIN;
use zerocopy::IntoBytes;

const MIB: u64 = 1 << 20;

/// Two clients, one function with hardware and one without.
pub fn catalog() -> Catalog {
    let exe = std::env::current_exe().expect("a program has a file");
    let library = exe.display();
    let mut catalog = Catalog::default();
    for (id, name) in [(1, "add"), (2, "fast")] {
        let mut text = format!("name = \"{name}\"\nversion = \"1.2\"\nlibrary = \"{library}\"\n");
        if name == "fast" {
            text += &format!(
                "[hardware]\nlocation = \"fpga-simulated\"\nlibrary = \"{library}\"\ninstances = 1\n"
            );
        }
        let f = manifest::function(Path::new("f.toml"), &text, Path::new("/"), id).expect("right");
        catalog.functions.insert(name.into(), f);
    }
    for id in [1, 2] {
        let text = format!("name = \"vm{id}\"\nwindow = \"1 MiB\"\nmax_grants = 4\n");
        let c = manifest::client(Path::new("c.toml"), &text, id).expect("right");
        catalog.clients.insert(id, c);
    }
    catalog
}

/// The machine with its notes, a clock and what was answered.
pub struct Bed {
    core: Core,
    now: u64,
    generation: u32,
    notes: BTreeMap<String, String>,
    windows: [u32; 2],
    next_window: u32,
    seq: u32,
    services: BTreeSet<ServiceId>,
    answered: BTreeSet<(u32, u32)>,
}

impl Bed {
    /// With both windows up.
    pub fn new() -> Self {
        let mut bed = Self::of(Core::new(7, catalog()));
        for client in [1, 2] {
            bed.up(client);
        }
        bed
    }

    /// Around a core that is there.
    pub fn of(core: Core) -> Self {
        Bed {
            core,
            now: 1_000,
            generation: 9,
            notes: BTreeMap::new(),
            windows: [0; 2],
            next_window: 1,
            seq: 0,
            services: BTreeSet::new(),
            answered: BTreeSet::new(),
        }
    }

    fn up(&mut self, client: u32) {
        let window = self.next_window;
        self.next_window += 1;
        self.windows[client as usize - 1] = window;
        self.feed(Event::WindowUp {
            window,
            client,
            vm: None,
            bytes: MIB,
            doorbell: true,
            death_seen: false,
            proven: false,
        });
    }

    fn feed(&mut self, event: Event) {
        let mut out = vec![];
        self.core.handle(self.now, event, &mut out);
        self.core.check();
        for c in self.core.changes() {
            match c.note {
                Some(note) => drop(self.notes.insert(c.name, note)),
                None => drop(self.notes.remove(&c.name)),
            }
        }
        for action in out {
            match action {
                Action::Answer { to, .. } | Action::AnswerStats { to, .. } => {
                    let place = (to.window, to.seq);
                    assert!(
                        self.seq == 0 || self.answered.insert(place),
                        "{place:?} answered twice"
                    );
                }
                Action::StartService { service, .. } => drop(self.services.insert(service)),
                _ => {}
            }
        }
    }

    /// Time passes.
    pub fn time(&mut self, ms: u64) {
        self.now += ms;
        self.feed(Event::Tick);
    }

    /// As a manager begins after another one.
    pub fn take_up(&mut self) {
        self.feed(Event::Resume { alive: vec![] });
    }

    fn grant(&self, pick: u8) -> Option<(Handle, u64)> {
        let all: Vec<_> = self.core.grants().map(|(h, g)| (h, g.holder.session.0)).collect();
        (!all.is_empty()).then(|| all[usize::from(pick) % all.len()])
    }

    fn service(&self, b: &mut Bytes) -> ServiceId {
        let pick = usize::from(b.u8());
        let near = self.services.iter().nth(pick % self.services.len().max(1)).copied();
        b.or(near.unwrap_or(1), Bytes::u32)
    }

    fn channel(&self, b: &mut Bytes) -> Handle {
        let near = self.grant(b.u8()).map_or(0, |(h, _)| h.0);
        Handle(b.or(near, Bytes::u64))
    }

    fn buffer(&self, b: &mut Bytes) -> Handle {
        let all: Vec<_> = self.core.buffers().map(|(h, _)| h.0).collect();
        let near = all.get(usize::from(b.u8()) % all.len().max(1)).copied();
        Handle(b.or(near.unwrap_or(0), Bytes::u64))
    }

    /// What a service says of buffers, and memory that comes and goes.
    fn of_buffers(&mut self, b: &mut Bytes) {
        let (service, buffer) = (self.service(b), self.buffer(b));
        let window = self.windows[usize::from(b.u8() & 1)];
        let index = u16::from(b.u8() % 3);
        self.feed(match b.u8() % 6 {
            0 => Event::TakesBuffers { service },
            1 | 2 => Event::BufferHere { service, buffer },
            3 => Event::BufferLeft { service, buffer },
            4 => {
                let page = b.or(4096, Bytes::u64);
                Event::MemoryUp { window, index, bytes: b.or(4 << 20, Bytes::u64), page }
            }
            _ => Event::MemoryDown { window, index },
        });
    }

    fn ask(&mut self, b: &mut Bytes) {
        let window = self.windows[usize::from(b.u8() & 1)];
        let near = self.grant(b.u8());
        let session = near.map_or(u64::from(b.u8() % 8) | 7 << 32, |(_, s)| s);
        let session = b.or(session, Bytes::u64);
        let grant = b.or(near.map_or(0, |(h, _)| h.0), Bytes::u64).to_le_bytes().to_vec();
        let (kind, body) = match b.u8() % 12 {
            10 => {
                let near = u64::from(b.u8()) << 9;
                let get = BufferGet {
                    grant: b.or(0, Bytes::u64).into(),
                    bytes: b.or(near, Bytes::u64).into(),
                    align: (1u64 << (b.u8() % 24)).into(),
                    flags: u32::from(b.u8() % 3).into(),
                    reserved: 0.into(),
                };
                (Kind::BufferGet.to_wire(), get.as_bytes().to_vec())
            }
            11 => {
                let buffer = self.buffer(b);
                (Kind::BufferPut.to_wire(), buffer.0.to_le_bytes().to_vec())
            }
            0 | 1 => {
                let h = Hello {
                    version_min: VERSION_MIN.into(),
                    version_max: b.or(9, Bytes::u16).into(),
                    pid: 1.into(),
                    features: b.u64().into(),
                    app: names::encode("app").expect("short"),
                    credential_len: 0.into(),
                    reserved: [0; 6],
                    credential: [0; CREDENTIAL_BYTES],
                };
                (Kind::Hello.to_wire(), h.as_bytes().to_vec())
            }
            2..=4 => {
                let n = Negotiate {
                    function: names::encode(["add", "fast"][usize::from(b.u8() & 1)])
                        .expect("short"),
                    version: 0.into(),
                    preference: b.u8() % 4,
                    wait: b.u8() % 3,
                    kind: 1.into(),
                    deadline_ms: 0.into(),
                    reserved0: 0.into(),
                    signature: 0.into(),
                    shape: CallsShape::new(b.or(8, Bytes::u16), b.or(64, Bytes::u32)).shape(),
                    reserved1: [0.into(); 3],
                };
                (Kind::Negotiate.to_wire(), n.as_bytes().to_vec())
            }
            5 | 6 => (Kind::Activate.to_wire(), grant),
            7 => (Kind::Release.to_wire(), grant),
            8 => (
                [Kind::Goodbye, Kind::Reset, Kind::List][usize::from(b.u8() % 3)].to_wire(),
                vec![0; 8],
            ),
            _ => {
                let n = usize::from(b.u8());
                (b.u16() % 24, (0..n).map(|_| b.u8()).collect())
            }
        };
        self.seq += 1;
        let to = ReplyTo { window, cell: usize::from(b.u8() % 16), seq: self.seq };
        self.feed(Event::Request(ControlRequest { to, kind, session, body }));
    }

    /// The next thing that happens.
    pub fn step(&mut self, b: &mut Bytes) {
        let reason = String::from("x");
        match b.u8() % 22 {
            0..=6 => self.ask(b),
            7 | 8 => {
                let service = self.service(b);
                self.feed(Event::ServiceReady { service });
            }
            9 | 10 => {
                let (service, channel) = (self.service(b), self.channel(b));
                self.feed(Event::ChannelOpened { service, channel });
            }
            11 => {
                let (service, channel) = (self.service(b), self.channel(b));
                self.feed(match b.u8() % 4 {
                    0 => Event::ChannelOpenFailed { service, channel, reason },
                    1 => Event::ChannelBroken { service, channel, reason },
                    2 => Event::CallOverran { service, channel },
                    _ => Event::ChannelClosed { service, channel },
                });
            }
            12 => {
                let (service, channel) = (self.service(b), self.channel(b));
                self.feed(Event::ChannelClosed { service, channel });
            }
            13 => {
                let service = self.service(b);
                let exit = [Exit::Signal(9), Exit::Code(86), Exit::Code(0), Exit::Unknown];
                self.feed(Event::ServiceExited { service, exit: exit[usize::from(b.u8() % 4)] });
            }
            14 => {
                let service = self.service(b);
                self.feed(Event::ServiceFailed { service, reason });
            }
            15 => {
                let window = self.windows[usize::from(b.u8() & 1)];
                let values = vec![(u16::from(b.u8()), b.u64())];
                self.feed(Event::Heartbeats { window, values });
            }
            16 => {
                let client = u32::from(b.u8() & 1) + 1;
                let window = self.windows[client as usize - 1];
                self.feed(Event::WindowDown { window });
                self.up(client);
            }
            17 => {
                let grant = self.channel(b);
                self.feed(Event::Revoke { grant });
            }
            18 => self.take_over(b),
            20 | 21 => self.of_buffers(b),
            _ => {
                let ms = u64::from(b.u16() % 40_000);
                self.time(ms);
            }
        }
    }

    fn take_over(&mut self, b: &mut Bytes) {
        self.generation += 1;
        let notes = self.notes.iter().map(|(name, note)| (name.as_str(), note.as_str()));
        self.core = Core::restore(self.now, self.generation, catalog(), notes)
            .unwrap_or_else(|e| panic!("its own notes cannot be read: {e}"));
        let bits = b.u8();
        let alive: Vec<_> =
            self.services.iter().copied().filter(|s| bits >> (s % 8) & 1 == 1).collect();
        self.feed(Event::Resume { alive: alive.clone() });
        for service in alive {
            let channels = (0..b.u8() % 4).map(|_| self.channel(b)).collect();
            self.feed(Event::Serving { service, channels });
        }
    }

    /// Everybody goes; nothing is left.
    pub fn end(mut self) {
        for window in self.windows {
            self.feed(Event::WindowDown { window });
        }
        for _ in 0..8 {
            self.time(10_000);
            for service in self.services.clone() {
                self.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
            }
        }
        let t = self.core.totals();
        assert_eq!(
            (t.windows, t.sessions, t.grants, t.buffers, t.services, t.bytes),
            (0, 0, 0, 0, 0, 0),
            "left: {t:?}"
        );
    }
}

impl Default for Bed {
    fn default() -> Self {
        Self::new()
    }
}
