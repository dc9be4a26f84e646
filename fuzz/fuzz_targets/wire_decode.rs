//! Everything that is read from a peer's bytes: no panic, and what passes a
//! check is really inside its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vfun_wire::attach::{ATTACH_MAGIC, Attach, AttachAck};
use vfun_wire::channel::*;
use vfun_wire::control::Posted;
use vfun_wire::frame::{CallAnswer, CallHead, FrameHead};
use vfun_wire::header::*;
use vfun_wire::limits::*;
use vfun_wire::message::*;
use vfun_wire::nack::{Nack, NackBody, NackCode};
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
        let right = WindowHeader::new(1 << 20, 1, Features::OFFERED, 1, h.client);
        let (given, mut fixed) = (h, right);
        (fixed.window_bytes, fixed.generation) = (given.window_bytes, given.generation);
        (fixed.vectors, fixed.features) = (given.vectors, given.features);
        h = fixed;
    }
    let mapped = h.window_bytes.get();
    match h.check(mapped) {
        Ok(()) => {
            assert!(mapped.is_power_of_two());
            assert!((WINDOW_BYTES_MIN..=WINDOW_BYTES_MAX).contains(&mapped));
            assert!(h.vectors.get() <= VECTORS);
            assert!(names::decode(&h.client).is_ok());
            assert!(h.check(mapped * 2).is_err());
        }
        Err(e) => assert!(!e.to_string().is_empty()),
    }
}

fn geometry(g: Geometry, data: &[u8]) {
    let window = (1u64 << 20) << (data.len() % 17);
    let heap = HEAP_OFF as u64;
    if let Err(e) = g.check(heap, window) {
        assert!(!e.to_string().is_empty());
        return;
    }
    let (out, inn, side) = (g.dataout_off.get(), g.datain_off.get(), g.side_bytes.get());
    assert!(out >= heap && inn >= heap && out + side <= window && inn + side <= window);
    assert!(out + side <= inn || inn + side <= out);
    assert!(out.is_multiple_of(PAGE as u64) && inn.is_multiple_of(PAGE as u64));
    let (depth, cell) = (g.depth.get(), u64::from(g.cell_bytes.get()));
    assert!(line_off(depth.into()) <= spaces_off(depth));
    assert!(spaces_off(depth) as u64 + u64::from(depth) * cell <= side);
    assert!(g.vector_in.get() < VECTORS && g.vector_out.get() < VECTORS);
}

/// As above, with the sizes that follow from depth and cell size filled in.
fn near_geometry(mut g: Geometry, data: &[u8]) {
    let (depth, cell) = (1u16 << (g.depth.get() % 11), g.cell_bytes.get() % (1 << 20) / 64 * 64);
    let side = side_bytes(depth, cell).expect("within the limits");
    g.depth = depth.into();
    g.cell_bytes = cell.into();
    g.side_bytes = side.into();
    g.dataout_off = (g.dataout_off.get() % (1 << 28) / 4096 * 4096).into();
    g.datain_off = (g.datain_off.get() % (1 << 28) / 4096 * 4096).into();
    g.kind = (g.kind.get() % 4).into();
    g.vector_in = (g.vector_in.get() % 5).into();
    g.vector_out = (g.vector_out.get() % 5).into();
    g.reserved = 0.into();
    geometry(g, data);
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
        1 => geometry(read(data), data),
        2 => near_geometry(read(data), data),
        3 => nack(data),
        4 => name(&read::<NackBody>(data).sentence[..NAME_BYTES].try_into().expect("64 bytes")),
        5 => enums(read(data)),
        6 => name(&read::<Hello>(data).app),
        7 => name(&read::<HelloAck>(data).client),
        8 => name(&read::<Negotiate>(data).function),
        9 => geometry(read::<ActivateAck>(data).geometry, data),
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
            let _ = (read::<BufferGet>(data), read::<BufferAck>(data), read::<BufferPut>(data));
        }
        _ => {
            let _ = (read::<GuestPage>(data), read::<OutLine>(data), read::<InLine>(data));
        }
    }
});
