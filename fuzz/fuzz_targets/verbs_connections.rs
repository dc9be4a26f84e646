//! Programs of several VMs that connect, accept, reject, end and go in any order, with any numbers: the connection
//! manager of a NIC neither panics nor tells a program of what is not its own, and keeps nothing of who has gone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vfun_fuzz::Bytes;
use vfun_verbs_nic::Address;
use vfun_verbs_nic::cm::{Cm, CmData, CmKind, CmOffer, CmSpace, Home};

/// Programs, and the VMs of which each is in one.
const OWNERS: u32 = 4;
const HOMES: [Home; 2] = [Home([1; 16]), Home([2; 16])];

const fn home_of(owner: u32) -> Home {
    HOMES[owner as usize % HOMES.len()]
}

fn offer(b: &mut Bytes) -> CmOffer {
    CmOffer { at: Address { gid: [0; 16], lid: 2 }, qpn: b.u16().into(), ..CmOffer::default() }
}

fn data(b: &mut Bytes) -> CmData {
    let bytes = vec![b.u8(); usize::from(b.u8())];
    CmData::new(&bytes).unwrap_or_default()
}

/// Few ports, so that programs meet.
fn port(b: &mut Bytes) -> u16 {
    match b.u8() {
        near @ 0..224 => u16::from(near % 4),
        _ => b.u16(),
    }
}

/// An id that a program has, or any number.
fn id(b: &mut Bytes, known: &[u32]) -> u32 {
    let at = usize::from(b.u8());
    known.get(at % (known.len() + 1)).copied().unwrap_or_else(|| b.u32())
}

fn step(b: &mut Bytes, cm: &mut Cm, known: &mut Vec<u32>, now: &mut u64) {
    let owner = u32::from(b.u8()) % OWNERS;
    let of = id(b, known);
    let _ = match b.u8() % 16 {
        0..=2 => {
            let space = if b.u8() & 1 == 0 { CmSpace::Tcp } else { CmSpace::Udp };
            cm.make(owner, home_of(owner), space).map(|made| known.push(made))
        }
        3..=4 => cm.bind(owner, of, port(b)).map(drop),
        5 => cm.listen(owner, of, b.u8().into()),
        6..=7 => {
            let to = if b.u8() < 224 { home_of(b.u8().into()) } else { Home([b.u8(); 16]) };
            cm.connect(owner, of, (to, port(b)), (offer(b), data(b)))
        }
        8 => cm.take(owner, of),
        9 => cm.accept(owner, of, offer(b), data(b)),
        10 => cm.establish(owner, of),
        11 => cm.reject(owner, of, data(b)),
        12 => cm.disconnect(owner, of),
        13 => cm.end(owner, of),
        14 => {
            *now += u64::from(b.u16()) << 16;
            cm.run(*now);
            Ok(())
        }
        _ => {
            cm.end_owner(owner);
            Ok(())
        }
    };
}

/// Each event is about an id of who is told; that of a request, once it is taken, is another one's to nobody.
fn hear(cm: &mut Cm, known: &mut Vec<u32>, takes: bool) {
    while let Some((owner, event)) = cm.take_event() {
        assert!(owner < OWNERS, "nobody's event: {event:?}");
        if event.kind == CmKind::ConnectRequest {
            assert_ne!(event.other, 0);
            for other in (0..OWNERS).filter(|other| *other != owner) {
                assert!(cm.take(other, event.other).is_err(), "another program's request");
            }
            if takes && cm.take(owner, event.other).is_ok() {
                known.push(event.other);
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut b = Bytes(data);
    let (mut cm, mut known, mut now) = (Cm::default(), vec![], 0);
    (0..OWNERS).for_each(|owner| cm.add_home(home_of(owner)));
    while !b.is_empty() {
        step(&mut b, &mut cm, &mut known, &mut now);
        let how = b.u8();
        if how < 192 {
            hear(&mut cm, &mut known, how & 1 == 0);
        }
    }
    (0..OWNERS).for_each(|owner| cm.end_owner(owner));
    hear(&mut cm, &mut known, false);
    assert_eq!(cm.counts().0, 0, "ids of programs that have gone");
});
