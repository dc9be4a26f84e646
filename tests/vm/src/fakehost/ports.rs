//! Ports of the fake host. On the other end of each is a machine that answers ARP and
//! pings, whatever its address, and checks the sums of all that comes.

use super::memory::Memory;
use super::places::{PORTS, port_at};
use super::{FakeHost, Host, Request, locked, word};
use std::sync::atomic::Ordering;
use vfun_packet::layout::header::{FRAME, STATE, TAKES};
use vfun_packet::layout::{DOWN, UP, takes};
use vfun_packet::limits::NOTED_RING_MIN;
use vfun_packet::{Memory as _, Note, Receiver, Ring, Sender, WindowMemory};
use vfun_wire::channel::in_header;
use vfun_wire::header::PortEntry;
use vfun_wire::kind::{ChannelKind, Shape};
use vfun_wire::limits::PORT_NAME_BYTES;
use vfun_wire::message::{ActivateAck, Hello, HelloAck, Negotiate};
use vfun_wire::packets::{PacketsShape, RING_OFF, SIDE_OFF};
use vfun_wire::range::{Access, Range};
use vfun_wire::version::Features;
use vfun_wire::{Nack, NackCode};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of each ring of most ports.
pub const RING_BYTES: u32 = 1 << 16;
/// The last place: its rings have room for frames with notes.
pub const LARGE: u16 = 3;

/// Bytes of each ring of the port at this place.
pub const fn ring_of(place: u64) -> u32 {
    if place == LARGE as u64 { NOTED_RING_MIN as u32 } else { RING_BYTES }
}
/// The vector by which ports are rung.
pub(super) const VECTOR: usize = 2;
/// The longest frame that this host takes, and the longest that is to be cut.
const LONGEST: usize = 9018;
const LONGEST_CUT: usize = 65_553;
/// The address of the machine on the other end.
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x11];

/// What came through all ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    pub frames: u64,
    /// Whose sums are wrong, or whose length cannot be.
    pub wrong: u64,
    pub pings: u64,
    /// Those whose sum was to be completed, and those that were to be cut.
    pub unsummed: u64,
    pub uncut: u64,
    /// Channels of ports that were activated.
    pub channels: u64,
}

/// One that a guest has.
pub(super) struct Wire {
    pub place: u16,
    pub grant: u64,
    pub session: u64,
    host: usize,
    /// A test has its other end.
    pub lent: bool,
    news: u64,
    sender: Sender<WindowMemory>,
    receiver: Receiver<WindowMemory>,
}

#[derive(Default)]
pub(super) struct Wires {
    pub all: Vec<Wire>,
    pub came: Came,
    /// Shapes of ports that were negotiated, by grant.
    pub granted: Vec<(u64, Shape)>,
    /// Sessions that may have ports.
    pub admins: Vec<u64>,
}

impl Wire {
    fn new(memory: &Memory, place: u16, (grant, session): (u64, u64)) -> Self {
        let (program, host) = port_at(place.into());
        let ring = Ring::new(ring_of(place.into()).into()).expect("possible");
        let side =
            |at: usize| memory.all.part(at + SIDE_OFF, ring.side_bytes() as usize).expect("inside");
        for at in [program, host] {
            memory.all.part(at, RING_OFF).expect("inside").zero();
        }
        let ends = WindowMemory::of_sides(side(host), side(program).reader());
        let (sender, receiver) = (Sender::new(ends.clone(), ring), Receiver::new(ends, ring));
        let mut wire = Wire { place, grant, session, host, lent: false, news: 0, sender, receiver };
        wire.sender.must_ring();
        wire.say(UP);
        wire
    }

    fn say(&self, state: u64) {
        self.sender.memory().store(FRAME, LONGEST as u64, Ordering::Relaxed);
        let takes = if self.place == LARGE { takes::ALL } else { 0 };
        self.sender.memory().store(TAKES, takes, Ordering::Relaxed);
        self.sender.memory().store(STATE, state, Ordering::Release);
    }

    /// Its memory, as its other end sees it.
    pub fn memory(&self) -> WindowMemory {
        self.sender.memory().clone()
    }

    fn guest_is_up(&self) -> bool {
        self.receiver.memory().load(STATE, Ordering::Acquire) == UP
    }

    pub fn ring(&mut self, memory: &Memory) {
        self.news += 1;
        memory.store(self.host + 8 * in_header::NEWS, self.news);
        memory.to_app[VECTOR].ring();
    }

    fn publish(&mut self, memory: &Memory) {
        if self.sender.publish() && self.sender.must_ring() {
            self.ring(memory);
        }
    }

    /// Takes what came and answers it.
    fn serve(&mut self, memory: &Memory, came: &mut Came) {
        let (mut frame, mut note) = (vec![0; LONGEST_CUT], Note::default());
        for _ in 0..1000 {
            let next = match self.place {
                LARGE => self.receiver.next_noted(&mut frame, &mut note),
                _ => self.receiver.next(&mut frame[..LONGEST]),
            };
            let Some(bytes) = next else { break };
            came.frames += 1;
            let frame = &mut frame[..bytes];
            came.unsummed += u64::from(note.asks() & takes::SUM != 0);
            came.uncut += u64::from(note.is_cut());
            complete(&note, frame);
            let frame = &*frame;
            came.wrong += u64::from(!is_right(frame));
            came.pings += u64::from(is_ping(frame));
            if let Some(answer) = answer(frame) {
                let _ = self.sender.put(&answer);
            }
        }
        self.receiver.take();
        self.receiver.declare_sleep();
        self.publish(memory);
    }
}

/// The sum of section 4.1 of RFC 1071, over what makes a number of words.
fn sum(bytes: &[u8]) -> u16 {
    let mut all: u32 = bytes
        .chunks(2)
        .map(|c| u32::from(u16::from_be_bytes([c[0], c.get(1).copied().unwrap_or(0)])))
        .sum();
    while all > 0xffff {
        all = (all >> 16) + (all & 0xffff);
    }
    all as u16
}

fn is_ipv4(frame: &[u8]) -> bool {
    frame.len() >= 34 && frame[12..14] == [8, 0] && frame[14] == 0x45
}

fn is_ping(frame: &[u8]) -> bool {
    is_ipv4(frame) && frame[23] == 1 && frame.len() >= 42 && frame[34] == 8
}

/// Completes the sum of a frame whose note asks for it, as if the frame were not to be cut.
fn complete(note: &Note, frame: &mut [u8]) {
    let header = note.header();
    let word = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let (from, at) = (word(6), word(6) + word(8));
    if note.asks() & takes::SUM == 0 || at + 2 > frame.len() {
        return;
    }
    let all = !sum(&frame[from..]);
    frame[at..at + 2].copy_from_slice(&all.to_be_bytes());
}

/// Whether the sums of IPv4, ICMP, UDP and TCP are right; what is none of them is.
fn is_right(frame: &[u8]) -> bool {
    if frame.len() < 14 {
        return false;
    }
    if !is_ipv4(frame) {
        return true;
    }
    let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let Some(packet) = frame.get(14..14 + total) else { return false };
    let Some(body) = packet.get(20..) else { return false };
    let whole = packet[6] & 0x3f == 0 && packet[7] == 0;
    let body_right = match packet[9] {
        1 => sum(body) == 0xffff,
        6 | 17 => {
            let head = [0, packet[9], (body.len() >> 8) as u8, body.len() as u8];
            sum(&[&packet[12..20], &head, body].concat()) == 0xffff
        }
        _ => true,
    };
    sum(&packet[..20]) == 0xffff && (!whole || body_right)
}

/// What the other end answers.
pub fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let mut to = frame.to_vec();
    let is_arp = frame.len() >= 42 && frame[12..14] == [8, 6] && frame[20..22] == [0, 1];
    if is_arp {
        to[21] = 2;
        to[22..28].copy_from_slice(&MAC);
        to[28..32].copy_from_slice(&frame[38..42]);
        to[32..42].copy_from_slice(&frame[22..32]);
    } else if is_ping(frame) {
        to[26..30].copy_from_slice(&frame[30..34]);
        to[30..34].copy_from_slice(&frame[26..30]);
        to[34] = 0;
        // One's complement: the type went down by 8 in the upper half of its word.
        let was = u32::from(u16::from_be_bytes([frame[36], frame[37]])) + 0x800;
        let now = (was & 0xffff) as u16 + (was >> 16) as u16;
        to[36..38].copy_from_slice(&now.to_be_bytes());
    } else {
        return None;
    }
    to[0..6].copy_from_slice(&frame[6..12]);
    to[6..12].copy_from_slice(&MAC);
    Some(to)
}

impl Host {
    /// The kernel's own session may have ports, and that of a program which tries it.
    pub(super) fn greet(&mut self, body: &[u8], ack: &mut HelloAck) {
        let hello = Hello::read_from_bytes(body).expect("its size was checked");
        let wants = Features::PACKETS.0 | Features::NET_ADMIN.0 | Features::MODULE.0;
        let has_ports = hello.app.starts_with(b"kernel\0") || hello.app.starts_with(b"proglink\0");
        if hello.features.get() & wants == wants && has_ports {
            ack.features = U64::new(ack.features.get() | wants);
            locked(&self.shared.wires).admins.push(ack.session.get());
        }
    }

    /// Notes a grant, if it is for a port.
    pub(super) fn grant(&mut self, r: &Request, n: &Negotiate, grant: u64) -> Result<(), Nack> {
        let is_port = n.function.starts_with(b"ports\0");
        if is_port != (n.kind.get() == ChannelKind::Packets.to_wire()) {
            return Err(Nack::new(NackCode::Unsupported, "no such kind"));
        }
        let mut wires = locked(&self.shared.wires);
        if is_port && !wires.admins.contains(&r.session) {
            return Err(Nack::new(NackCode::Denied, "the network is not this program's"));
        }
        if is_port {
            wires.granted.push((grant, n.shape));
        }
        Ok(())
    }

    /// The shape of a port's grant.
    pub(super) fn granted(&self, grant: u64) -> Option<Shape> {
        let wires = locked(&self.shared.wires);
        wires.granted.iter().find(|(g, _)| *g == grant).map(|(_, shape)| *shape)
    }

    /// A channel of packets for the port that a grant is for.
    pub(super) fn activate_port(&mut self, r: &Request, shape: &Shape) -> Result<Vec<u8>, Nack> {
        let asked = PacketsShape::read(shape).map_err(|e| Nack::new(NackCode::Malformed, e.0))?;
        let mut wires = locked(&self.shared.wires);
        let place = asked.port.get();
        let bytes = ring_of(place.into());
        if asked.ring_bytes.get() != bytes || wires.all.iter().any(|w| w.place == place) {
            return Err(Nack::new(NackCode::OverQuota, "another one has the port"));
        }
        wires.all.push(Wire::new(&self.shared.memory, place, (word(&r.body), r.session)));
        wires.came.channels += 1;
        let (program, host) = port_at(place.into());
        let side = RING_OFF as u64 + u64::from(bytes);
        let mut ranges = vec![
            Range::new(0, Access::AppWrites, program as u64, side),
            Range::new(0, Access::HostWrites, host as u64, side),
        ];
        locked(&self.shared.bend)(&mut ranges);
        let head = ActivateAck {
            channel: U64::new(0x10000 + self.next),
            kind: U16::new(ChannelKind::Packets.to_wire()),
            count: U16::new(ranges.len() as u16),
            vector_out: U16::new(VECTOR as u16),
            vector_in: U16::new(VECTOR as u16),
            shape: asked.shape(),
            reserved: U64::ZERO,
        };
        Ok([head.as_bytes(), ranges.as_bytes()].concat())
    }

    /// Serves all ports once.
    pub(super) fn serve_ports(&mut self) {
        let mut wires = locked(&self.shared.wires);
        let Wires { all, came, .. } = &mut *wires;
        for wire in all.iter_mut().filter(|w| !w.lent) {
            wire.serve(&self.shared.memory, came);
        }
    }

    /// Takes the channels of ports that some grants or sessions had.
    pub(super) fn end_ports(&mut self, which: impl Fn(&Wire) -> bool) {
        locked(&self.shared.wires).all.retain(|w| !which(w));
    }
}

impl FakeHost {
    /// Names a port in the table; with `id` 0 it is taken out.
    pub fn names_port(&self, place: usize, id: u64, name: &str, mac: [u8; 6], mtu: u16) {
        let mut of = [0; PORT_NAME_BYTES + 1];
        of[..name.len()].copy_from_slice(name.as_bytes());
        let entry = PortEntry {
            id: U64::new(id),
            mac,
            mtu: U16::new(mtu),
            name: of,
            ring_bytes: U32::new(ring_of(place as u64)),
            ..PortEntry::NONE
        };
        self.shared.memory.write_port(place, &entry);
    }

    /// What came so far.
    pub fn came(&self) -> Came {
        locked(&self.shared.wires).came
    }

    /// How many ports a guest has a channel for, and is there.
    pub fn ports_up(&self) -> usize {
        locked(&self.shared.wires).all.iter().filter(|w| w.guest_is_up()).count()
    }

    /// How many channels of ports there are.
    pub fn ports_held(&self) -> usize {
        locked(&self.shared.wires).all.len()
    }

    /// Sends frames to the guest in one burst; how many had room.
    pub fn sends(&self, place: u16, frames: &[&[u8]]) -> usize {
        let mut wires = locked(&self.shared.wires);
        let Some(wire) = wires.all.iter_mut().find(|w| w.place == place) else { return 0 };
        let sent = frames.iter().filter(|f| wire.sender.put(f).is_ok()).count();
        wire.publish(&self.shared.memory);
        sent
    }

    /// Sends frames with notes to the guest, in one burst; how many had room.
    pub fn sends_noted(&self, place: u16, frames: &[(Note, Vec<u8>)]) -> usize {
        let mut wires = locked(&self.shared.wires);
        let Some(wire) = wires.all.iter_mut().find(|w| w.place == place) else { return 0 };
        let sent = frames.iter().filter(|(n, f)| wire.sender.put_noted(n, f).is_ok()).count();
        wire.publish(&self.shared.memory);
        sent
    }

    /// Says which frames with notes the other end of a port takes from now on; its state stays.
    pub fn takes(&self, place: u16, takes: u64) {
        let mut wires = locked(&self.shared.wires);
        for wire in wires.all.iter_mut().filter(|w| w.place == place) {
            wire.sender.memory().store(TAKES, takes, Ordering::Relaxed);
            wire.ring(&self.shared.memory);
        }
    }

    /// Which frames with notes the guest says that it takes.
    pub fn guest_takes(&self, place: u16) -> Option<u64> {
        let wires = locked(&self.shared.wires);
        let wire = wires.all.iter().find(|w| w.place == place)?;
        Some(wire.receiver.memory().load(TAKES, Ordering::Relaxed))
    }

    /// Whether the other end of each port is there, from now on.
    pub fn carrier(&self, is_up: bool) {
        for wire in &mut locked(&self.shared.wires).all {
            wire.say(if is_up { UP } else { DOWN });
            wire.ring(&self.shared.memory);
        }
    }

    /// Breaks the channels of all ports.
    pub fn breaks_ports(&self, reason: u64) {
        for n in 0..PORTS {
            let (_, host) = port_at(n);
            self.shared.memory.store(host + 8 * in_header::BROKEN, reason);
        }
        self.shared.memory.to_app[VECTOR].ring();
    }
}
