//! The library without C: what programs cannot bring about, and what they measure.

use gdma::edge::PoolMemory;
use gdma::engine::{Descriptor, Engine, FAULT_MOVES, FAULT_PORT, global};
use gdma::limits::BUFFERS;
use gdma::registers::IRQ_ENABLE;
use gdma::{BUSY, Context, End, GdmaError, OK, Options};
use proptest::prelude::*;
use std::sync::mpsc;
use std::time::Duration;

fn context(fault: u8) -> Context {
    Context::new(&Options { fault, pool_bytes: 1 << 20, local: 2 }).expect("the simulated engine")
}

fn ends(to: u32, from: u32) -> (End, End) {
    (End { buffer: to, offset: 0 }, End { buffer: from, offset: 0 })
}

#[test]
fn an_engine_that_stands_still_is_given_up_and_all_transfers_end() {
    let context = context(FAULT_MOVES);
    let (here, there) = (context.allocate(2, 100), context.allocate(1, 100));
    let (here, there) = (here.expect("room"), there.expect("room"));
    let (tell, told) = mpsc::channel();
    let mut all = vec![];
    for _ in 0..40 {
        let tell = tell.clone();
        let (to, from) = ends(there, here);
        // When the first ones are given up, no more are taken.
        match context.start(
            to,
            from,
            100,
            Some(Box::new(move |id, end| tell.send((id, end)).expect("heard"))),
        ) {
            Ok(id) => all.push(id),
            Err(e) => assert_eq!(e, GdmaError::Lost),
        }
    }
    for id in &all {
        let heard = told.recv_timeout(Duration::from_secs(60)).expect("each is told");
        assert_eq!(heard, (*id, GdmaError::Lost.code()), "in their order");
    }
    let (to, from) = ends(there, here);
    assert_eq!(context.start(to, from, 1, None), Err(GdmaError::Lost));
    assert_eq!(context.allocate(2, 1), Err(GdmaError::Lost));
    assert_eq!(context.query(all[0]).expect("kept").status, GdmaError::Lost.code());
    assert_eq!(context.release(all[0]), Ok(()));
    assert_eq!((context.free(here), context.free(there)), (Ok(()), Ok(())));
    assert_eq!(context.close(), Ok(()));
}

#[test]
fn what_is_aborted_moves_nothing_more_and_all_transfers_end() {
    let context = context(0);
    let half = 1 << 19;
    let (here, there) = (context.allocate(2, half), context.allocate(1, half));
    let (here, there) = (here.expect("room"), there.expect("room"));
    let (tell, told) = mpsc::channel();
    let (to, from) = ends(there, here);
    let start = |_| {
        let tell = tell.clone();
        let done = move |id, end| tell.send((id, end)).expect("heard");
        context.start(to, from, half, Some(Box::new(done))).expect("room for it")
    };
    // More than an engine moves meanwhile.
    let all: Vec<u32> = (0..1000).map(start).collect();
    assert_eq!(context.abort(), Ok(()));
    let heard: Vec<(u32, i32)> = told.try_iter().collect();
    assert_eq!(heard.iter().map(|(id, _)| *id).collect::<Vec<_>>(), all, "each once, in order");
    let moved = heard.iter().take_while(|(_, end)| *end == OK).count();
    assert!(moved < all.len(), "it waited for all of them");
    assert!(heard[moved..].iter().all(|(_, end)| *end == GdmaError::Lost.code()), "{heard:?}");
    let before: Vec<_> = all.iter().map(|id| context.query(*id)).collect();
    assert_eq!(all.iter().map(|id| context.query(*id)).collect::<Vec<_>>(), before);
    assert_eq!(context.start(to, from, 1, None), Err(GdmaError::Lost));
    assert_eq!(
        (context.abort(), context.close()),
        (Err(GdmaError::Argument), Err(GdmaError::Argument))
    );
}

#[test]
fn an_engine_that_is_aborted_stops_and_can_be_used_again() {
    let mut engine = Engine::new(1, 0).expect("the simulated engine");
    let memory = |_| std::sync::Arc::new(PoolMemory::new(1 << 20).expect("memory"));
    let memories: Vec<_> = (0..2).map(memory).collect();
    let move_all = |engine: &mut Engine| {
        for (node, memory) in (1..).zip(&memories) {
            engine.set_memory(node, memory.clone());
            engine.open_window(node, global(node, 0), 1 << 20).expect("it was closed");
        }
        let descriptor =
            Descriptor { source: global(1, 0), destination: global(2, 0), bytes: 1 << 20, tag: 7 };
        engine.start(&descriptor).expect("room for it");
    };
    memories[0].write((1 << 20) - 1, &[5]).expect("inside");
    let last = |memory: &PoolMemory| {
        let mut byte = [0];
        memory.read((1 << 20) - 1, &mut byte).expect("inside");
        byte[0]
    };
    move_all(&mut engine);
    engine.run(1000);
    engine.abort().expect("it stops");
    engine.run(100_000);
    assert_eq!((engine.take(), last(&memories[1])), (Ok(None), 0), "it went on");
    move_all(&mut engine);
    engine.write(IRQ_ENABLE, 1).expect("written");
    engine.run(100_000);
    assert_eq!(engine.take().expect("it answers").map(|done| done.tag), Some(7));
    assert_eq!((last(&memories[1]), engine.violations()), (5, 0));
}

#[test]
fn a_port_that_does_not_answer_is_a_lost_device() {
    let context = context(FAULT_PORT);
    assert_eq!(context.allocate(2, 100), Err(GdmaError::Lost));
    assert_eq!(context.close(), Ok(()));
}

#[test]
fn a_panic_in_a_callback_leaves_the_other_transfers_alone() {
    let context = context(0);
    let (a, b) = (context.allocate(2, 100).expect("room"), context.allocate(3, 100).expect("room"));
    let (to, from) = ends(a, b);
    let (tell, told) = mpsc::channel();
    context.start(to, from, 1, Some(Box::new(|_, _| panic!("on purpose")))).expect("started");
    context
        .start(to, from, 1, Some(Box::new(move |_, end| tell.send(end).expect("heard"))))
        .expect("started");
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(OK));
}

#[test]
fn a_callback_may_start_the_next_transfer_and_may_not_close() {
    let context = std::sync::Arc::new(context(0));
    let (a, b) = (context.allocate(2, 100).expect("room"), context.allocate(3, 100).expect("room"));
    let (tell, told) = mpsc::channel();
    let again = context.clone();
    let done = move |_, end| {
        let (to, from) = ends(b, a);
        let next = again.start(to, from, 100, None).expect("started");
        tell.send((end, again.close(), next)).expect("heard");
    };
    let (to, from) = ends(a, b);
    context.start(to, from, 100, Some(Box::new(done))).expect("started");
    let (end, closed, next) = told.recv_timeout(Duration::from_secs(60)).expect("called");
    assert_eq!((end, closed), (OK, Err(GdmaError::Busy)));
    while context.query(next).expect("there").status == BUSY {
        std::thread::yield_now();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    /// Buffers that come and go lie in the pool, apart, and have what was written.
    #[test]
    fn buffers_are_apart(steps in proptest::collection::vec((any::<bool>(), 1u64..60_000, any::<prop::sample::Index>()), 1..120)) {
        let context = context(0);
        let mut live: Vec<u32> = vec![];
        for (take, bytes, which) in steps {
            if take || live.is_empty() {
                match context.allocate(2, bytes) {
                    Ok(id) => live.push(id),
                    Err(GdmaError::Memory) => {}
                    Err(e) => prop_assert!(e == GdmaError::Limit && live.len() == BUFFERS as usize),
                }
            } else {
                let id = live.swap_remove(which.index(live.len()));
                prop_assert_eq!(context.free(id), Ok(()));
            }
            let mut all: Vec<_> = live.iter().map(|id| context.buffer(*id).expect("live")).collect();
            all.sort_by_key(|b| b.offset);
            prop_assert!(all.windows(2).all(|w| w[0].offset + w[0].bytes <= w[1].offset));
            prop_assert!(all.last().is_none_or(|b| b.offset + b.bytes <= 1 << 20));
        }
        for id in live {
            prop_assert_eq!(context.free(id), Ok(()));
        }
        prop_assert!(context.allocate(2, 1 << 20).is_ok(), "all holes became one again");
    }
}
