//! Entries: what one end writes the other one reads, in each shape of queue; the bytes are
//! where the page says; whatever a hostile program writes stays within the limits.
#![cfg(not(loom))]

mod common;

use common::*;
use proptest::collection::vec;
use proptest::prelude::*;
use vfun_queue::Entry;
use vfun_verbs::limits::{INLINE_MAX, SGES_MAX};
use vfun_verbs::*;

fn sge() -> impl Strategy<Value = Sge> {
    (any::<u64>(), any::<u32>(), any::<u32>()).prop_map(|(addr, len, lkey)| Sge { addr, len, lkey })
}

fn head() -> impl Strategy<Value = SendHead> {
    let op = prop::sample::select(SendOpcode::ALL);
    (op, 0u8..8, any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>()).prop_map(
        |(op, flags, imm, key, addr, wr_id)| SendHead { op, flags, imm, key, addr, wr_id },
    )
}

#[derive(Clone, Debug)]
enum Body {
    Gather(Vec<Sge>),
    Inline(Vec<u8>),
    Atomic(Sge, u64, u64),
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        vec(sge(), 0..20).prop_map(Body::Gather),
        vec(any::<u8>(), 0..240).prop_map(Body::Inline),
        (sge(), any::<u64>(), any::<u64>()).prop_map(|(s, a, b)| Body::Atomic(s, a, b)),
    ]
}

/// Both of one entry: operands are those of an atomic operation, and of no other.
fn send() -> impl Strategy<Value = (SendHead, Body)> {
    (head(), body()).prop_map(|(head, body)| {
        let op = match (head.op.is_atomic(), &body) {
            (false, Body::Atomic(..)) => SendOpcode::FetchAdd,
            (true, Body::Gather(_)) => SendOpcode::Read,
            _ => head.op,
        };
        (SendHead { op, ..head }, body)
    })
}

/// Whether an entry is possible, told another way: its opcode, and how many lines it needs.
fn fits(head: &SendHead, body: &Body, extension: usize) -> bool {
    let written = !matches!(head.op, SendOpcode::Read) && !head.op.is_atomic();
    match body {
        Body::Gather(list) => list.len() <= 16 && list.len() * 16 <= 32 + extension,
        Body::Inline(bytes) => written && bytes.len() <= 220 && bytes.len() <= 32 + extension,
        Body::Atomic(..) => true,
    }
}

fn check_sent(head: &SendHead, body: &Body, got: &SendEntry) {
    let inline = if matches!(body, Body::Inline(_)) { flags::send::INLINE } else { 0 };
    assert_eq!(got.head, SendHead { flags: head.flags | inline, ..*head });
    match body {
        Body::Gather(list) => {
            let all: Vec<Sge> = (0..got.sges()).map(|i| got.sge(i)).collect();
            assert_eq!((&all, got.inline_bytes()), (list, 0));
            assert_eq!(got.bytes(), list.iter().map(|s| u64::from(s.len)).sum::<u64>());
        }
        Body::Inline(bytes) => {
            let mut all = [0; INLINE_MAX];
            let n = got.inline_to(&mut all);
            assert_eq!((&all[..n], got.sges()), (&bytes[..], 0));
            assert_eq!(got.bytes(), bytes.len() as u64);
        }
        Body::Atomic(sge, compare_add, swap) => {
            assert_eq!((got.sges(), got.sge(0)), (1, *sge));
            let operands = Operands { compare_add: *compare_add, swap: *swap };
            assert_eq!(got.operands(), operands);
        }
    }
}

fn post(to: &mut WorkProducer<Plain>, head: &SendHead, body: &Body) -> Result<u64, PostError> {
    match body {
        Body::Gather(list) => to.post_send(head, SendBody::Gather(list)),
        Body::Inline(bytes) => to.post_send(head, SendBody::Inline(bytes)),
        Body::Atomic(sge, compare_add, swap) => {
            let operands = Operands { compare_add: *compare_add, swap: *swap };
            to.post_send(head, SendBody::Atomic(*sge, operands))
        }
    }
}

proptest! {
    /// Both ends against each other, over many laps: all that is possible arrives in order,
    /// all else is refused before it is posted.
    #[test]
    fn sends_arrive(
        depth in 1u32..4,
        lines in 0u32..5,
        all in vec((send(), 0usize..4), 1..40),
    ) {
        let shape = WorkShape::new(1 << depth, lines * 64).unwrap();
        let (mut producer, mut consumer, _) = work(shape);
        let mut waiting = std::collections::VecDeque::new();
        let (mut posted, mut got) = (0, SendEntry::default());
        for ((head, body), takes) in all {
            let result = post(&mut producer, &head, &body);
            if waiting.len() == 1 << depth {
                prop_assert_eq!(result, Err(PostError::Full));
            } else if fits(&head, &body, lines as usize * 64) {
                prop_assert_eq!(result, Ok(posted));
                waiting.push_back((head, body));
                posted += 1;
            } else {
                prop_assert!(matches!(result, Err(PostError::Bad(_))), "{:?}", result);
            }
            for _ in 0..takes {
                let position = consumer.position();
                let taken = consumer.take_send(&mut got).unwrap();
                match waiting.pop_front() {
                    None => prop_assert_eq!(taken, Taken::Nothing),
                    Some((head, body)) => {
                        prop_assert_eq!(taken, Taken::Entry);
                        check_sent(&head, &body, &got);
                        prop_assert_eq!(consumer.position(), position + 1);
                    }
                }
            }
        }
    }

    #[test]
    fn receives_arrive(
        lines in 0u32..5,
        all in vec((any::<u64>(), vec(sge(), 0..16)), 1..20),
    ) {
        let shape = WorkShape::new(4, lines * 64).unwrap();
        let (mut producer, mut consumer, _) = work(shape);
        let mut got = ReceiveEntry::default();
        for (wr_id, list) in all {
            let result = producer.post_receive(&ReceiveEntry::new(wr_id, &list).unwrap());
            if list.len() * 16 > 48 + lines as usize * 64 {
                prop_assert!(matches!(result, Err(PostError::Bad(BadEntry::Count(_)))));
                prop_assert_eq!(consumer.take_receive(&mut got), Ok(Taken::Nothing));
                continue;
            }
            prop_assert!(result.is_ok());
            prop_assert_eq!(consumer.posted_hint(), 1);
            prop_assert_eq!(consumer.take_receive(&mut got), Ok(Taken::Entry));
            prop_assert_eq!((got.wr_id, got.sges()), (wr_id, &list[..]));
        }
    }

    /// Any words behind a right stamp: no panic, and nothing beyond the limits.
    #[test]
    fn hostile_entries_stay_within_the_limits(
        lines in 0u32..5,
        words in vec(any::<u64>(), 8),
        beside in vec(any::<u64>(), 32),
        op in 0u64..9, flags in 0u64..20, count in prop_oneof![0u64..40, 0u64..0x10000],
        sends: bool,
    ) {
        let shape = WorkShape::new(2, lines * 64).unwrap();
        let (_, mut consumer, side) = work(shape);
        let first = PAGE_WORDS;
        for (i, word) in words.iter().enumerate().skip(1) {
            poke(&side, first + i, *word);
        }
        for (i, word) in beside.iter().enumerate().take(lines as usize * 8) {
            poke(&side, first + 16 + i, *word);
        }
        if sends {
            poke(&side, first, 1 | op << 32 | flags << 40 | count << 48);
            let mut got = SendEntry::default();
            let taken = consumer.take_send(&mut got).unwrap();
            let inline = flags & 8 != 0;
            let writes = matches!(op, 0..4);
            let most = match (inline, op) {
                (true, _) => if writes { (32 + u64::from(lines) * 64).min(220) } else { 0 },
                (false, 5 | 6) => 1,
                _ => (2 + u64::from(lines) * 4).min(16),
            };
            let good = op < 7 && flags < 16 && count <= most && (writes || !inline);
            prop_assert_eq!(taken == Taken::Entry, good, "{:?}", taken);
            prop_assert_eq!(got.head.wr_id, words[3]);
            prop_assert!(got.sges() <= SGES_MAX && got.inline_bytes() <= INLINE_MAX);
            (0..got.sges()).for_each(|i| { got.sge(i); });
        } else {
            poke(&side, first, 1 | count << 32);
            let mut got = ReceiveEntry::default();
            let taken = consumer.take_receive(&mut got).unwrap();
            let most = (3 + u64::from(lines) * 4).min(16);
            prop_assert_eq!(taken == Taken::Entry, count <= most);
            prop_assert_eq!(got.wr_id, words[1]);
            prop_assert!(got.sges().len() <= SGES_MAX);
        }
        prop_assert_eq!(consumer.position(), 1, "it is counted");
    }
}

const PAGE_WORDS: usize = 4096 / 8;

/// The bytes of the page: docs/verbs-protocol.md.
#[test]
fn entries_are_laid_out_as_the_page_says() {
    let (mut producer, _, side) = work(WorkShape::new(2, 64).unwrap());
    let line = |at: usize| -> Vec<u8> {
        (at..at + 8).flat_map(|w| peek(&side, PAGE_WORDS + w).to_le_bytes()).collect()
    };
    let sges: Vec<Sge> = (1..=3).map(|i| Sge { addr: i, len: i as u32 + 16, lkey: 32 }).collect();
    let head = SendHead {
        op: SendOpcode::SendImm,
        flags: 6,
        imm: 0x0102_0304,
        key: 0x0506_0708,
        addr: 0x1112_1314_1516_1718,
        wr_id: 0x2122_2324_2526_2728,
    };
    producer.post_send(&head, SendBody::Gather(&sges)).unwrap();
    let mut expected = vec![1, 0, 0, 0, 3, 6, 3, 0, 4, 3, 2, 1, 8, 7, 6, 5];
    expected.extend(0x1112_1314_1516_1718u64.to_le_bytes());
    expected.extend(0x2122_2324_2526_2728u64.to_le_bytes());
    let element = |i: u8| [i, 0, 0, 0, 0, 0, 0, 0, i + 16, 0, 0, 0, 32, 0, 0, 0];
    expected.extend([element(1), element(2)].concat());
    assert_eq!(line(0), expected);
    assert_eq!(line(16)[..16], element(3), "beside the entry");
    producer.post_receive(&ReceiveEntry::new(9, &sges[..2]).unwrap()).unwrap();
    let mut expected = vec![2, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    expected.extend([element(1), element(2), [0; 16]].concat());
    assert_eq!(line(8), expected);
}

#[test]
fn completions_are_laid_out_as_the_page_says() {
    let done = Completion {
        status: Status::RemoteAccess,
        opcode: CompletionOpcode::ReceiveWrite,
        flags: 3,
        wr_id: 0x0102_0304_0506_0708,
        qpn: 1,
        src_qp: 2,
        byte_len: 3,
        imm: 4,
        position: 5,
        slid: 6,
    };
    let entry = done.entry();
    let mut expected = vec![10, 129, 3, 0, 8, 7, 6, 5, 4, 3, 2, 1];
    expected.extend((1..=5u32).flat_map(u32::to_le_bytes));
    expected.extend([6, 0]);
    assert_eq!(entry.payload()[..expected.len()], expected);
    assert!(entry.payload()[expected.len()..].iter().all(|b| *b == 0));
    assert_eq!(Completion::of(&entry), Some(done));
    for (at, value) in [(0, 3u8), (0, 255), (1, 9), (1, 127)] {
        let mut wrong = Entry::<64>::of(entry.payload());
        wrong.payload_mut()[at] = value;
        assert_eq!(Completion::of(&wrong), None);
    }
}

#[test]
fn a_queue_that_is_reset_gives_nothing_of_before() {
    let (mut producer, mut consumer, side) = work(WorkShape::new(4, 0).unwrap());
    for i in 0..3 {
        producer.post_receive(&ReceiveEntry::new(i, &[]).unwrap()).unwrap();
    }
    consumer.discard().unwrap();
    producer.post_receive(&ReceiveEntry::new(7, &[]).unwrap()).unwrap();
    let mut got = ReceiveEntry::default();
    assert_eq!(consumer.take_receive(&mut got), Ok(Taken::Entry));
    assert_eq!((got.wr_id, consumer.position()), (7, 4));
    assert!(!producer.is_flushed());
    consumer.say_flushes(true);
    assert!(producer.is_flushed());
    poke(&side, PAGE_WORDS, 99);
    assert!(consumer.discard().is_err(), "a wrong stamp");
}

#[test]
fn shapes_are_bounded() {
    assert!(WorkShape::new(3, 0).is_err() && WorkShape::new(1 << 17, 0).is_err());
    assert!(WorkShape::new(4, 320).is_err() && WorkShape::new(4, 32).is_err());
    let shape = WorkShape::new(65536, 256).unwrap();
    assert_eq!(shape.program_bytes(), 4096 + 65536 * (64 + 256));
    assert_eq!(shape.nic_bytes(), 4096);
}
