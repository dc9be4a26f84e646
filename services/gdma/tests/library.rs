//! The library without C: what programs cannot bring about, and what they measure.

use gdma::engine::{FAULT_MOVES, FAULT_PORT};
use gdma::limits::BUFFERS;
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
