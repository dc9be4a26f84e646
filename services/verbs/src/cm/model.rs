//! Programs that connect, accept, reject, disconnect and go, in any order: each attempt ends in
//! one way, and nothing is left behind.

use super::*;
use crate::attributes::Address;
use crate::limits::{CM_EARLY, CM_EARLY_NS};

const HOMES: [Home; 2] = [Home([1; 16]), Home([2; 16])];

/// xorshift64: the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

fn offer(qpn: u32) -> CmOffer {
    CmOffer { at: Address { gid: [0; 16], lid: 2 }, qpn, ..CmOffer::default() }
}

fn listener(cm: &mut Cm, owner: Owner, home: Home, port: u16) -> u32 {
    let id = cm.make(owner, home, CmSpace::Tcp).unwrap();
    assert_eq!(cm.bind(owner, id, port), Ok(port));
    cm.listen(owner, id, 2).unwrap();
    id
}

fn ask(cm: &mut Cm, owner: Owner, to: (Home, u16)) -> u32 {
    let id = cm.make(owner, HOMES[1], CmSpace::Tcp).unwrap();
    cm.bind(owner, id, 0).unwrap();
    let data = CmData::new(b"hello").unwrap();
    cm.connect(owner, id, to, (offer(7), data)).unwrap();
    id
}

fn two() -> Cm {
    let mut cm = Cm::default();
    HOMES.into_iter().for_each(|home| cm.add_home(home));
    cm
}

#[test]
fn two_programs_connect_and_one_ends_it() {
    let mut cm = two();
    let server = listener(&mut cm, 0, HOMES[0], 500);
    let active = ask(&mut cm, 1, (HOMES[0], 500));
    let (owner, request) = cm.take_event().unwrap();
    assert_eq!((owner, request.kind, request.id), (0, CmKind::ConnectRequest, server));
    assert_eq!((request.offer.qpn, request.data.bytes()), (7, &b"hello"[..]));
    assert!(request.peer_port >= 32768);
    let passive = request.other;
    assert_eq!(cm.accept(0, passive, offer(9), CmData::default()), Err(NO_ID), "not taken yet");
    cm.take(0, passive).unwrap();
    assert_eq!(cm.take(1, passive), Err(NO_ID), "another program's");
    cm.accept(0, passive, offer(9), CmData::new(b"yes").unwrap()).unwrap();
    let (owner, answer) = cm.take_event().unwrap();
    assert_eq!((owner, answer.kind, answer.id), (1, CmKind::ConnectResponse, active));
    assert_eq!((answer.offer.qpn, answer.data.bytes()), (9, &b"yes"[..]));
    cm.establish(1, active).unwrap();
    let (owner, done) = cm.take_event().unwrap();
    assert_eq!((owner, done.kind, done.id), (0, CmKind::Established, passive));
    cm.disconnect(1, active).unwrap();
    let ends: Vec<_> = std::iter::from_fn(|| cm.take_event()).map(|(o, e)| (o, e.kind)).collect();
    assert_eq!(ends, [(1, CmKind::Disconnected), (0, CmKind::Disconnected)]);
    assert_eq!(cm.disconnect(0, passive), Ok(()), "it is over");
    for (owner, id) in [(0, passive), (1, active), (0, server)] {
        cm.end(owner, id).unwrap();
    }
    assert_eq!(cm.counts(), (0, 0));
    assert!(cm.ports.is_empty() && cm.counts.is_empty() && cm.home_counts.is_empty());
}

#[test]
fn who_cannot_be_reached_is_an_event() {
    let mut cm = two();
    let expect = |cm: &mut Cm, kind, status| {
        let (_, event) = cm.take_event().unwrap();
        assert_eq!((event.kind, event.status), (kind, status));
    };
    ask(&mut cm, 1, (HOMES[0], 500));
    assert_eq!(cm.run(5), Some(5 + CM_EARLY_NS));
    assert_eq!(cm.take_event(), None, "somebody may listen soon");
    assert_eq!(cm.run(5 + CM_EARLY_NS), None);
    expect(&mut cm, CmKind::Rejected, NO_SERVICE);
    ask(&mut cm, 1, (Home([9; 16]), 500));
    expect(&mut cm, CmKind::Unreachable, NOBODY);
    let server = listener(&mut cm, 0, HOMES[0], 500);
    for _ in 0..3 {
        ask(&mut cm, 1, (HOMES[0], 500));
    }
    expect(&mut cm, CmKind::ConnectRequest, 0);
    expect(&mut cm, CmKind::ConnectRequest, 0);
    expect(&mut cm, CmKind::Rejected, NO_RESOURCES);
    // A listener that goes rejects who waits.
    cm.end(0, server).unwrap();
    expect(&mut cm, CmKind::Rejected, BY_CONSUMER);
    expect(&mut cm, CmKind::Rejected, BY_CONSUMER);
    assert_eq!(cm.take_event(), None);
}

#[test]
fn who_asks_before_somebody_listens_is_heard() {
    let mut cm = two();
    let bound = cm.make(0, HOMES[0], CmSpace::Tcp).unwrap();
    cm.bind(0, bound, 500).unwrap();
    let asked: Vec<u32> = (0..3).map(|_| ask(&mut cm, 1, (HOMES[0], 500))).collect();
    let gone = ask(&mut cm, 1, (HOMES[0], 500));
    cm.end(1, gone).unwrap();
    let elsewhere = ask(&mut cm, 1, (HOMES[0], 501));
    cm.run(1);
    cm.listen(0, bound, 2).unwrap();
    let told: Vec<_> =
        std::iter::from_fn(|| cm.take_event()).map(|(_, e)| (e.kind, e.id, e.status)).collect();
    let request = (CmKind::ConnectRequest, bound, 0);
    assert_eq!(told, [request, request, (CmKind::Rejected, asked[2], NO_RESOURCES)]);
    cm.run(1 + CM_EARLY_NS);
    let (_, event) = cm.take_event().unwrap();
    assert_eq!((event.id, event.kind, event.status), (elsewhere, CmKind::Rejected, NO_SERVICE));
    assert_eq!(cm.take_event(), None);
    assert!(cm.early.is_empty());
}

#[test]
fn no_more_wait_than_there_is_room_for() {
    let mut cm = two();
    for _ in 0..CM_EARLY {
        ask(&mut cm, 1, (HOMES[0], 500));
    }
    assert_eq!(cm.take_event(), None);
    ask(&mut cm, 1, (HOMES[0], 500));
    assert_eq!(cm.take_event().map(|(_, event)| event.status), Some(NO_SERVICE));
}

#[test]
fn ports_are_a_vms() {
    let mut cm = two();
    listener(&mut cm, 0, HOMES[0], 500);
    let same = cm.make(1, HOMES[0], CmSpace::Tcp).unwrap();
    assert!(matches!(cm.bind(1, same, 500), Err(Refused::Busy(_))));
    let udp = cm.make(1, HOMES[0], CmSpace::Udp).unwrap();
    assert_eq!(cm.bind(1, udp, 500), Ok(500), "of another space");
    listener(&mut cm, 1, HOMES[1], 500);
    let idle = cm.make(1, HOMES[0], CmSpace::Tcp).unwrap();
    assert_eq!(cm.listen(1, idle, 0), Err(WRONG_STATE), "it has no port");
    assert_eq!(cm.listen(0, idle, 0), Err(NO_ID), "another program's");
}

#[test]
fn a_program_has_its_share_of_ids() {
    let mut cm = two();
    let made = (0..).take_while(|_| cm.make(0, HOMES[0], CmSpace::Tcp).is_ok()).count();
    assert_eq!(made, CM_IDS_OF_PROGRAM);
    assert!(cm.make(1, HOMES[0], CmSpace::Tcp).is_ok(), "others have theirs");
    cm.end_owner(0);
    assert_eq!(cm.counts().0, 1);
}

#[test]
fn a_vm_has_its_share_of_ids() {
    let mut cm = two();
    let made = |cm: &mut Cm, owner, home| {
        (0..).take_while(|_| cm.make(owner, home, CmSpace::Tcp).is_ok()).count()
    };
    let all: usize = (0..4).map(|owner| made(&mut cm, owner, HOMES[0])).sum();
    assert_eq!(all, CM_IDS_OF_HOME);
    assert_eq!(made(&mut cm, 4, HOMES[1]), CM_IDS_OF_PROGRAM, "other VMs have theirs");
}

#[test]
fn who_asks_and_leaves_again_and_again_floods_nobody() {
    let mut cm = two();
    let server = listener(&mut cm, 0, HOMES[0], 500);
    let mut told = vec![];
    for _ in 0..5 {
        let id = ask(&mut cm, 1, (HOMES[0], 500));
        told.extend(std::iter::from_fn(|| cm.take_event()));
        cm.end(1, id).unwrap();
    }
    let requests: Vec<u32> =
        told.iter().map(|(_, event)| event.other).filter(|other| *other != 0).collect();
    assert_eq!(requests.len(), 2, "as many as the backlog");
    for request in requests {
        assert_eq!(cm.take(0, request), Err(NO_ID), "who asked has gone");
    }
    ask(&mut cm, 1, (HOMES[0], 500));
    assert_eq!(cm.take_event().map(|(_, event)| event.kind), Some(CmKind::ConnectRequest));
    // Who leaves before the program is told was never there.
    let id = ask(&mut cm, 1, (HOMES[0], 500));
    cm.end(1, id).unwrap();
    assert_eq!(cm.take_event(), None);
    cm.end(0, server).unwrap();
    (0..2).for_each(|owner| cm.end_owner(owner));
    assert_eq!(cm.counts(), (0, 0));
}

/// What a program of the model knows of an id.
#[derive(Default)]
struct Known {
    /// Events of each attempt to connect that end it.
    ends: HashMap<u32, Vec<CmKind>>,
    ids: Vec<(Owner, u32)>,
}

fn hear(cm: &mut Cm, known: &mut Known) {
    while let Some((owner, event)) = cm.take_event() {
        match event.kind {
            CmKind::ConnectRequest => {
                assert_eq!(cm.take(owner, event.other), Ok(()));
                known.ids.push((owner, event.other));
            }
            CmKind::ConnectResponse => {}
            kind => known.ends.entry(event.id).or_default().push(kind),
        }
    }
}

fn step(cm: &mut Cm, known: &mut Known, dice: &mut Dice) {
    let owner = dice.below(3) as u32;
    let home = HOMES[dice.below(2)];
    if dice.below(3) == 0 || known.ids.is_empty() {
        if let Ok(id) = cm.make(owner, home, CmSpace::Tcp) {
            let port = 500 + dice.below(3) as u16;
            let bound = cm.bind(owner, id, if dice.below(2) == 0 { port } else { 0 });
            if bound.is_ok() && dice.below(2) == 0 {
                cm.listen(owner, id, 4).unwrap();
            }
            known.ids.push((owner, id));
        }
        return;
    }
    let at = dice.below(known.ids.len());
    let (owner, id) = known.ids[at];
    let port = 500 + dice.below(3) as u16;
    let none = CmData::default;
    let _ = match dice.below(8) {
        0 | 1 => cm.connect(owner, id, (HOMES[dice.below(2)], port), (offer(id), none())),
        2 | 3 => cm.accept(owner, id, offer(id), none()),
        4 => cm.establish(owner, id),
        5 => cm.reject(owner, id, none()),
        6 => cm.disconnect(owner, id),
        _ => {
            known.ids.swap_remove(at);
            cm.end(owner, id)
        }
    };
    if dice.below(200) == 0 {
        cm.end_owner(owner);
        known.ids.retain(|(of, _)| *of != owner);
    }
}

#[test]
fn any_order_leaves_nothing_behind_and_tells_each_end_once() {
    for seed in 1..200u64 {
        let (mut cm, mut known, mut dice) = (two(), Known::default(), Dice(seed * 7919));
        for now in 0..400 {
            step(&mut cm, &mut known, &mut dice);
            // Some wait for a while.
            cm.run(now * CM_EARLY_NS / 5);
            hear(&mut cm, &mut known);
        }
        for (id, ends) in &known.ends {
            let established = ends.iter().filter(|k| **k == CmKind::Established).count();
            let over = ends.len() - established;
            assert!(established <= 1 && over <= 1, "seed {seed}, id {id}: {ends:?}");
        }
        (0..3).for_each(|owner| cm.end_owner(owner));
        cm.run(401 * CM_EARLY_NS);
        hear(&mut cm, &mut known);
        assert!(cm.early.is_empty(), "seed {seed}");
        assert_eq!(cm.counts(), (0, 0), "seed {seed}");
        assert!(
            cm.ports.is_empty() && cm.counts.is_empty() && cm.home_counts.is_empty(),
            "seed {seed}"
        );
    }
}
