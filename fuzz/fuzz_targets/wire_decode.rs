//! Everything that is read from a peer's bytes: no panic, and what passes a
//! check is really inside its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vfun_wire::attach::{ATTACH_MAGIC, Attach, AttachAck};
use vfun_wire::channel::*;
use vfun_wire::control::Posted;
use vfun_wire::frame::{CallAnswer, CallHead, FrameHead};
use vfun_wire::header::*;
use vfun_wire::kind::{Calls, CallsShape, ChannelKind};
use vfun_wire::limits::*;
use vfun_wire::message::*;
use vfun_wire::nack::{Nack, NackBody, NackCode};
use vfun_wire::place::ChannelPlace;
use vfun_wire::range::{self, Access, Heap, Range};
use vfun_wire::status::{BreakReason, Status};
use vfun_wire::version::{Features, FunctionVersion, agree};
use vfun_wire::{Handle, PAGE, names, page_up};
use zerocopy::{FromBytes, IntoBytes};

/// The first bytes as a struct, zeros where they end; written back they are the same.
fn read<T: FromBytes + IntoBytes + zerocopy::Immutable>(data: &[u8]) -> T {
    let mut value = T::new_zeroed();
    let n = data.len().min(size_of::<T>());
    value.as_mut_bytes()[..n].copy_from_slice(&data[..n]);
    assert_eq!(&value.as_bytes()[..n], &data[..n]);
    value
}

fn name(room: &[u8; NAME_BYTES]) {
    match names::decode(room) {
        Ok(name) => {
            assert_eq!(names::encode(name).as_ref(), Ok(room));
            assert!(!name.contains('/') && !name.starts_with('.'));
        }
        Err(e) => assert!(!e.to_string().is_empty()),
    }
}

fn header(data: &[u8]) {
    let mut h: WindowHeader = read(data);
    // Half of the time past the fields that random bytes never guess.
    if data.len() % 2 == 0 {
        let mut right = WindowHeader::new(1 << 20, 1, Features::OFFERED, 1, h.client);
        if data.len() % 4 == 0 {
            let roles = [Role::Link, Role::Data];
            let key = h.key.map(|word| word.get());
            right = WindowHeader::further(roles[data.len() / 4 % 2], 1 << 20, 1, key);
            right.client_id = h.client_id;
        }
        let (given, mut fixed) = (h, right);
        (fixed.window_bytes, fixed.generation) = (given.window_bytes, given.generation);
        (fixed.vectors, fixed.features) = (given.vectors, given.features);
        h = fixed;
    }
    let mapped = h.window_bytes.get();
    // The role that it says: it is checked all the same.
    let role = Role::from_wire(h.role.get()).unwrap_or(Role::Control);
    match h.check(mapped, role) {
        Ok(()) => {
            assert!(mapped.is_power_of_two());
            assert!((WINDOW_BYTES_MIN..=WINDOW_BYTES_MAX).contains(&mapped));
            assert!(h.vectors.get() <= VECTORS);
            assert_eq!(names::decode(&h.client).is_ok(), role == Role::Control);
            assert!(h.check(mapped * 2, role).is_err());
            assert!(h.heap().from < h.heap().to);
        }
        Err(e) => assert!(!e.to_string().is_empty()),
    }
}

/// Whatever passes lies inside the heap, in pieces that do not meet.
fn ranges(all: &[Range], data: &[u8]) {
    let heap = Heap { window: 0, from: HEAP_OFF as u64, to: (1u64 << 20) << (data.len() % 17) };
    if let Err(e) = range::check(all, &[heap]) {
        assert!(!e.to_string().is_empty());
        return;
    }
    for (i, r) in all.iter().enumerate() {
        let (from, bytes) = (r.offset.get(), r.bytes.get());
        assert!(bytes > 0 && from >= heap.from && from + bytes <= heap.to);
        assert!(from.is_multiple_of(PAGE as u64) && bytes.is_multiple_of(PAGE as u64));
        for o in &all[..i] {
            assert!(o.offset.get() + o.bytes.get() <= from || from + bytes <= o.offset.get());
        }
    }
}

/// An answer to activate, as an app reads it.
fn place(ack: &[u8], data: &[u8]) {
    let (channel, p) = match ChannelPlace::read(ack) {
        Ok(read) => read,
        Err(e) => return assert!(!e.to_string().is_empty()),
    };
    assert_eq!(ChannelPlace::read(&p.ack(channel)), Ok((channel, p)));
    assert_eq!(p.wants().len(), p.ranges().len());
    let host = |r: &&Range| r.access == Access::HostWrites.to_wire();
    assert_eq!(p.ranges().iter().find(host), Some(p.head()));
    let heap = Heap { window: 0, from: HEAP_OFF as u64, to: (1u64 << 20) << (data.len() % 17) };
    if p.check(&[heap]).is_err() {
        return;
    }
    ranges(p.ranges(), data);
    assert!(p.vector_in() < VECTORS && p.vector_out() < VECTORS);
    let c = Calls::of(&p).expect("both kinds are lines");
    assert!(line_off(c.depth.into()) <= spaces_off(c.depth));
    let spaces = u64::from(c.depth) * u64::from(c.cell_bytes);
    assert!(spaces_off(c.depth) as u64 + spaces <= c.side_bytes);
    assert!(c.dataout + c.side_bytes <= c.datain || c.datain + c.side_bytes <= c.dataout);
}

/// As above, with what follows from a possible shape filled in.
fn near_place(data: &[u8]) {
    let mut head: ActivateAck = read(data);
    let asked: CallsShape = read(&head.shape);
    let depth = 1u16 << (asked.depth.get() % 11);
    let shape = CallsShape::new(depth, asked.cell_bytes.get() % (1 << 20) / 64 * 64);
    let side = side_bytes(depth, shape.cell_bytes.get()).expect("within the limits");
    head.shape = shape.shape();
    head.kind = (head.kind.get() % 4).into();
    head.count = (2 + head.count.get() % 16 / 15).into();
    head.vector_in = (head.vector_in.get() % 9).into();
    head.vector_out = (head.vector_out.get() % 9).into();
    let mut two: [Range; 2] = read(data.get(size_of::<ActivateAck>()..).unwrap_or(&[]));
    for (r, access) in two.iter_mut().zip([1, 2]) {
        r.offset = (r.offset.get() % (1 << 28) / 4096 * 4096).into();
        r.bytes = side.into();
        (r.window, r.reserved0, r.reserved1) = (0.into(), 0, 0.into());
        r.access = if r.access % 16 == 0 { 3 } else { access };
    }
    place(&[head.as_bytes(), two.as_bytes()].concat(), data);
}

fn nack(data: &[u8]) {
    let n = Nack::decode(data);
    assert!(!n.to_string().is_empty());
    // What was read can be sent on, and is then stable.
    let again = Nack::decode(n.encode().as_bytes());
    assert_eq!(again.code, n.code);
    assert_eq!(Nack::decode(again.encode().as_bytes()), again);
}

fn enums(word: u64) {
    let (a, b, c) = (word as u32, word as u16, word as u8);
    for text in [
        NackCode::from_wire(a).map(NackCode::text),
        Status::from_wire(a).map(Status::text),
        BreakReason::from_wire(a).map(BreakReason::text),
        Kind::from_wire(b).map(|k| row(k).kind.text()),
        ChannelKind::from_wire(b).map(ChannelKind::text),
        Command::from_wire(c).map(Command::text),
        CellState::from_wire(c).map(CellState::text),
        Location::from_wire(c).map(Location::text),
        Preference::from_wire(c).map(Preference::text),
    ] {
        assert!(text.is_none_or(|t| !t.is_empty()));
    }
    assert_eq!(Posted::unpack(word).pack(), word);
    assert_eq!(Word0::unpack(word).pack(), word);
    assert_eq!(Word1::unpack(word).pack(), word);
    let h = Handle(word);
    assert_eq!(Handle::new(h.index(), h.generation()), h);
    let v = FunctionVersion(a);
    assert_eq!(v.to_string().parse(), Ok(v));
    assert!(v.serves(v));
    if let Some(up) = page_up(word) {
        assert!(up >= word && up - word < PAGE as u64);
    }
    let theirs = (b, (word >> 16) as u16);
    if let Some(v) = agree((2, 5), theirs) {
        assert!((2..=5).contains(&v) && theirs.0 <= v && v <= theirs.1);
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&which, data)) = data.split_first() else { return };
    match which % 16 {
        0 => header(data),
        1 => ranges(&read::<[Range; 3]>(data), data),
        2 => near_place(data),
        3 => nack(data),
        4 => name(&read::<NackBody>(data).sentence[..NAME_BYTES].try_into().expect("64 bytes")),
        5 => enums(read(data)),
        6 => name(&read::<Hello>(data).app),
        7 => name(&read::<HelloAck>(data).client),
        8 => name(&read::<Negotiate>(data).function),
        9 => place(data, data),
        10 => name(&read::<ListEntry>(data).function),
        11 => {
            let a: Attach = read(data);
            name(&a.client);
            let ack: AttachAck = read(data);
            let _ = (a.magic.get() == ATTACH_MAGIC, NackCode::from_wire(ack.code.get()));
        }
        12 => {
            let head: FrameHead = read(data);
            let _ = (head.body_bytes.get() <= FRAME_BYTES_MAX, Kind::from_wire(head.kind.get()));
            let _ = (read::<CallHead>(data), read::<CallAnswer>(data));
        }
        13 => {
            let _ = (read::<NegotiateAck>(data), read::<OfGrant>(data), read::<Stats>(data));
            let _ = (read::<List>(data), read::<ListAck>(data), read::<Empty>(data));
        }
        14 => {
            let _ = (read::<BufferGet>(data), read::<BufferPut>(data), read::<Codes>(data));
            ranges(&[read::<BufferAck>(data).range], data);
            let _ = read::<CodeEntry>(data);
        }
        _ => {
            let _ = (read::<GuestPage>(data), read::<OutLine>(data), read::<InLine>(data));
        }
    }
});
