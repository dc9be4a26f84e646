//! Every interleaving (and every stale value the memory model allows) of small
//! queues. Run:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p vfun-queue --test loom --release
//! ```
//!
//! The tests named `without_…` leave a step out on purpose and must find what
//! goes wrong: they prove that the others could fail. Where a model blocks on a
//! doorbell, a lost wakeup shows as a deadlock, which loom reports (the process
//! then aborts).
#![cfg(loom)]

mod memory;
mod waits;

use loom::thread;
use memory::{Model, queue, weakened};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vfun_queue::*;

fn model(preemptions: Option<usize>, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 20_000;
    builder.check(f);
}

const N: usize = 16;
type Out = Producer<Model, N>;
type In = Consumer<Model, N>;

/// Both words of an entry say its number.
fn entry(n: u32) -> Entry<N> {
    let mut entry = Entry::default();
    entry.payload_mut()[..4].copy_from_slice(&n.to_le_bytes());
    entry.payload_mut()[4..].copy_from_slice(&u64::from(n * 1000 + 7).to_le_bytes());
    entry
}

/// An entry's number; 0 if its words are not of one entry.
fn number(entry: &Entry<N>) -> u32 {
    let n = u32::from_le_bytes(entry.payload()[..4].try_into().unwrap());
    if *entry == self::entry(n) { n } else { 0 }
}

/// Takes `count` entries, at most `most` at a time: their numbers.
fn take(consumer: &mut In, most: usize, count: usize) -> Vec<u32> {
    let mut got = vec![];
    while got.len() < count {
        let mut batch = [Entry::default(); 4];
        let n = consumer.consume(&mut batch[..most.min(count - got.len())]).unwrap();
        got.extend(batch[..n].iter().map(number));
        if n == 0 {
            thread::yield_now();
        }
    }
    got
}

/// Puts entries 1 to `count` into the queue, at most `most` at a time.
fn put(producer: &mut Out, most: u32, count: u32) {
    let mut done = 0;
    while done < count {
        let upto = count.min(done + most);
        let batch: Vec<_> = (done + 1..=upto).map(entry).collect();
        let n = producer.produce(&batch).unwrap() as u32;
        done += n;
        if n == 0 {
            thread::yield_now();
        }
    }
}

fn transfer(ends: (Out, In), batches: (u32, usize), count: u32) -> Vec<u32> {
    let (mut producer, mut consumer) = ends;
    let p = thread::spawn(move || put(&mut producer, batches.0, count));
    let got = take(&mut consumer, batches.1, count as usize);
    p.join().unwrap();
    got
}

/// All arrive, whole and in order, over the end of the ring.
#[test]
fn entries_arrive_in_order() {
    for batches in [(1, 1), (2, 2), (2, 1), (1, 2)] {
        model(Some(3), move || assert_eq!(transfer(queue(2), batches, 3), [1, 2, 3]));
    }
}

/// A batch of a whole ring, and one across its end.
#[test]
fn batches_arrive_whole() {
    model(Some(3), || assert_eq!(transfer(queue(4), (3, 4), 6), [1, 2, 3, 4, 5, 6]));
}

/// How many interleavings end with something else than the entries in order.
fn damaged(weak: memory::Weak, batches: (u32, usize)) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    model(Some(3), move || {
        if transfer(weakened(2, weak), batches, 3) != [1, 2, 3] {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    });
    count.load(Ordering::Relaxed)
}

#[test]
fn without_the_release_of_the_first_entry_one_is_seen_half() {
    assert!(damaged(memory::Weak::Publish, (1, 1)) > 0);
    assert!(damaged(memory::Weak::Publish, (2, 2)) > 0);
}

#[test]
fn without_the_acquire_of_an_entry_one_is_seen_half() {
    assert!(damaged(memory::Weak::Look, (2, 2)) > 0);
}

/// Sleeps as R-SLP says until `ready`.
fn sleep_until_ready<E: End>(end: &mut E, bell: &memory::Bell) {
    while !end.ready(false).unwrap() {
        end.declare_sleep();
        if !end.ready(true).unwrap() {
            bell.wait();
        }
        end.declare_awake();
    }
}

/// Both sides sleep at every chance, for three entries through two places.
#[test]
fn both_sides_sleep_and_wake() {
    model(Some(3), || {
        let (mut producer, mut consumer) = queue(2);
        let (to_consumer, to_producer) = (memory::Bell::new(), memory::Bell::new());
        let (theirs, mine) = (to_consumer.clone(), to_producer.clone());
        let p = thread::spawn(move || {
            for n in 1..=3 {
                sleep_until_ready(&mut producer, &mine);
                assert_eq!(producer.produce(&[entry(n)]), Ok(1));
                if producer.must_ring() {
                    theirs.ring();
                }
            }
        });
        for n in 1..=3 {
            sleep_until_ready(&mut consumer, &to_consumer);
            assert_eq!(take(&mut consumer, 1, 1), [n]);
            if consumer.must_ring() {
                to_producer.ring();
            }
        }
        p.join().unwrap();
    });
}

/// What was published before the queue ended is taken; then the end is seen.
#[test]
fn what_was_published_before_the_end_counts() {
    model(Some(3), move || {
        let (mut producer, mut consumer) = queue(2);
        let p = thread::spawn(move || {
            producer.produce(&[entry(1)]).unwrap();
            producer.close();
        });
        let mut got = 0;
        let end = loop {
            match consumer.ready(true) {
                Ok(true) => got += take(&mut consumer, 1, 1).len(),
                Ok(false) => thread::yield_now(),
                Err(end) => break end,
            }
        };
        assert_eq!((end, got), (Broken::Ended(Reason::Closed), 1));
        p.join().unwrap();
    });
}
