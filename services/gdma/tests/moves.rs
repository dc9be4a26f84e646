//! What the engine moves, against a software model of it.

use crate::fabric::*;
use gdma::engine::{Descriptor, global};
use gdma::limits::NODES;
use gdma::registers::*;
use proptest::prelude::*;

/// A range of a node's memory.
type Part = (u32, u64, u64);
/// A node and a byte of its memory.
type Place = (u32, u64);
/// From, to, bytes.
type Move = (Place, Place, u32);

#[derive(Clone, Debug)]
struct Story {
    /// What is registered.
    windows: Vec<Part>,
    moves: Vec<Move>,
    pauses: u64,
}

fn place() -> impl Strategy<Value = Place> {
    // Addresses at the seams of beats and bursts are as likely as all others together.
    let seam = (0..MEMORY / 64, 0u64..3).prop_map(|(beat, by)| (64 * beat + by).saturating_sub(1));
    (1..=NODES, prop_oneof![seam, 0..MEMORY])
}

fn length() -> impl Strategy<Value = u32> {
    prop_oneof![
        prop_oneof![Just(0), Just(1), Just(63), Just(64), Just(65)],
        0u32..300,
        3900u32..4300,
        0u32..MEMORY as u32,
    ]
}

fn story() -> impl Strategy<Value = Story> {
    let window = prop_oneof![
        (1..=NODES).prop_map(|node| (node, 0, MEMORY)),
        (place(), 0..MEMORY).prop_map(|((node, at), bytes)| (node, at, bytes.min(MEMORY - at))),
    ];
    let near = prop_oneof![4 => Just(0), 1 => 1u32..=NODES];
    // Most moves have an end at node 1, whose engine does them.
    let one =
        (place(), place(), length(), near, any::<bool>()).prop_map(|(mut a, b, n, node, turn)| {
            a.0 = if node == 0 { 1 } else { node };
            if turn { (a, b, n) } else { (b, a, n) }
        });
    let pauses = prop_oneof![Just(0), 1..u64::MAX];
    (proptest::collection::vec(window, 3..10), proptest::collection::vec(one, 1..24), pauses)
        .prop_map(|(windows, moves, pauses)| Story { windows, moves, pauses })
}

/// How the model ends a move, which it does in its own memories.
fn expected(story: &Story, memories: &mut [Vec<u8>], m: &Move) -> u32 {
    let (from, to, bytes) = *m;
    let known = |(node, at): Place| {
        let holds = |w: &&Part| w.0 == node && w.1 <= at && at + u64::from(bytes) <= w.1 + w.2;
        story.windows.iter().find(holds).is_some()
    };
    let (first, second) = (from.1.min(to.1), from.1.max(to.1));
    if from.0 != 1 && to.0 != 1 {
        return DONE_NODE;
    }
    if !known(from) || !known(to) {
        return DONE_WINDOW;
    }
    if bytes > 0 && from.0 == to.0 && second - first < u64::from(bytes) {
        return DONE_OVERLAP;
    }
    let (at, end) = (from.1 as usize, from.1 as usize + bytes as usize);
    let moved = memories[from.0 as usize - 1][at..end].to_vec();
    memories[to.0 as usize - 1][to.1 as usize..][..bytes as usize].copy_from_slice(&moved);
    DONE_OKAY
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn the_engine_moves_what_the_model_moves(story in story()) {
        let fabric = Fabric::new(MEMORY);
        let mut engine = fabric.engine(1);
        engine.set_pauses(story.pauses);
        for (entry, (node, at, bytes)) in (0..).zip(&story.windows) {
            engine.open_window(entry, global(*node, *at), *bytes as u32).expect("a free entry");
        }
        let mut memories = fabric.all();
        let mut ends = vec![];
        for some in story.moves.chunks(16) {
            for (tag, m) in (1..).zip(some) {
                engine.start(&descriptor(m.0, m.1, m.2, tag)).expect("room for 16");
            }
            settle(&mut engine);
            for (tag, m) in (1..).zip(some) {
                let done = engine.take().expect("an answer").expect("one for each");
                prop_assert_eq!(done.tag, tag, "in the order of the descriptors");
                ends.push((done.status, done.moved));
                let status = expected(&story, &mut memories, m);
                let moved = if status == DONE_OKAY { m.2 } else { 0 };
                prop_assert_eq!((done.status, done.moved), (status, moved), "{:?}", m);
            }
        }
        prop_assert!(fabric.all() == memories, "{ends:?}");
        prop_assert_eq!(engine.violations(), 0);
    }
}

#[test]
fn long_moves_from_and_to_any_byte() {
    const BYTES: u32 = 8 << 20;
    let fabric = Fabric::new(u64::from(BYTES) + (64 << 10));
    let mut engine = fabric.open_engine(1);
    for (from, to, bytes) in
        [(0, 0, BYTES), (5, 3, BYTES), (4095, 64, BYTES - 1), (3, 4093, 1 << 20)]
    {
        let (before, after) = (fabric.read(3, from, bytes as usize), to + u64::from(bytes));
        let beside = (fabric.read(1, 0, to as usize), fabric.read(1, after, 64));
        let done = run(&mut engine, &descriptor((3, from), (1, to), bytes, 9));
        assert_eq!((done.tag, done.status, done.moved), (9, DONE_OKAY, bytes));
        assert!(fabric.read(1, to, bytes as usize) == before, "{from} {to} {bytes}");
        assert!((fabric.read(1, 0, to as usize), fabric.read(1, after, 64)) == beside);
        // One beat a cycle, and some cycles to begin and to end with.
        assert!(done.cycles < bytes / 64 + 64, "{} cycles", done.cycles);
    }
    assert_eq!(engine.violations(), 0);
}

#[test]
fn memory_that_is_slow_to_be_written_does_not_make_the_buffer_run_over() {
    let fabric = Fabric::new(MEMORY);
    let mut engine = fabric.open_engine(1);
    // The W channel pauses three of four cycles, the others never.
    engine.set_pauses(3 << 22 | 1);
    let done = run(&mut engine, &descriptor((1, 1), (2, 2), MEMORY as u32 - 64, 1));
    assert_eq!(done.status, DONE_OKAY);
    assert!(done.cycles > 3 * MEMORY as u32 / 64, "{} cycles", done.cycles);
    assert!(fabric.read(2, 2, MEMORY as usize - 64) == fabric.read(1, 1, MEMORY as usize - 64));
}

#[test]
fn two_nodes_write_to_one_at_the_same_time() {
    let fabric = Fabric::new(MEMORY);
    let (mut second, mut third) = (fabric.open_engine(2), fabric.open_engine(3));
    second.start(&descriptor((2, 7), (1, 1), 16_000, 1)).expect("room");
    third.start(&descriptor((3, 9), (1, 16_001), 16_000, 2)).expect("room");
    while [&mut second, &mut third]
        .into_iter()
        .any(|e| e.read(STATUS).expect("read") & STATUS_BUSY != 0)
    {
        second.run(3);
        third.run(5);
    }
    assert!(fabric.read(1, 1, 16_000) == fabric.read(2, 7, 16_000));
    assert!(fabric.read(1, 16_001, 16_000) == fabric.read(3, 9, 16_000));
    assert_eq!(fabric.read(1, 0, 1), [pattern(1, 0)]);
}

#[test]
fn memory_that_refuses_ends_the_move_with_an_error_and_the_next_one_works() {
    let fabric = Fabric::new(MEMORY);
    let mut engine = fabric.engine(1);
    for node in 1..=2 {
        // Windows say more than there is: the memory itself refuses then.
        engine.open_window(node, global(node, 0), 2 * MEMORY as u32).expect("a free entry");
    }
    let near = MEMORY - 1000;
    let mut end = |d: &Descriptor| {
        let done = run(&mut engine, d);
        (done.status, done.moved)
    };
    let (status, moved) = end(&descriptor((2, near), (1, 64), 9000, 1));
    assert_eq!(status, DONE_READ);
    assert!(moved <= 1000, "{moved} bytes were there");
    assert!(fabric.read(1, 64, moved as usize) == fabric.read(2, near, moved as usize));
    assert_eq!(fabric.read(1, 64 + 1000, 64)[0], pattern(1, 64 + 1000), "nothing came of the rest");
    assert_eq!(end(&descriptor((1, 0), (2, near), 9000, 2)).0, DONE_WRITE);
    assert_eq!(end(&descriptor((1, 0), (2, MEMORY + 5), 1, 3)).0, DONE_WRITE);
    assert_eq!(end(&descriptor((1, 0), (2, 0), 9000, 4)), (DONE_OKAY, 9000));
    assert_eq!(engine.violations(), 0);
}
