//! Both ends over a real window, in one process.
#![cfg(not(loom))]

use std::thread;
use std::time::Duration;
use vfun_queue::layout::{CONSUMER_BYTES, header};
use vfun_queue::*;
use vfun_wait::{Policy, WaitHistory, WaitMode};
use vfun_window::{Access, Bell, BellWaiter, Mapping, WriteSpan, memfd};

type Ends<const N: usize> = (Producer<WindowMemory, N>, Consumer<WindowMemory, N>);

fn sides(shape: Shape) -> (WriteSpan, WriteSpan) {
    let bytes = [shape.producer_bytes() as usize, shape.consumer_bytes() as usize];
    let fd = memfd("queue", (bytes[0] + bytes[1]) as u64).unwrap();
    let map = Mapping::new(&fd, 0, bytes[0] + bytes[1], Access::ReadWrite).unwrap();
    let window = map.write().unwrap();
    (window.part(0, bytes[0]).unwrap(), window.part(bytes[0], bytes[1]).unwrap())
}

fn queue<const N: usize>(depth: u32) -> Ends<N> {
    let (p, c) = sides(Shape::new(N as u32, depth).unwrap());
    let producer = Producer::over(p.clone(), c.reader(), depth).unwrap();
    (producer, Consumer::over(c, p.reader(), depth).unwrap())
}

fn entry<const N: usize>(n: u64) -> Entry<N> {
    Entry::of(&n.to_le_bytes())
}

fn number<const N: usize>(entry: &Entry<N>) -> u64 {
    u64::from_le_bytes(entry.payload()[..8].try_into().unwrap())
}

#[test]
fn a_batch_goes_through() {
    fn one<const N: usize>() {
        let (mut p, mut c) = queue::<N>(4);
        let payload: Vec<u8> = (1..=Entry::<N>::PAYLOAD as u8).collect();
        let mut got = [Entry::default(); 8];
        assert_eq!(c.consume(&mut got), Ok(0));
        let batch: [Entry<N>; 5] = std::array::from_fn(|i| match i {
            0 => Entry::of(&payload),
            n => entry(n as u64),
        });
        assert_eq!((p.room(1), p.produce(&batch)), (Ok(4), Ok(4)));
        assert_eq!((p.room(1), p.produce(&batch)), (Ok(0), Ok(0)), "it is full");
        assert_eq!(c.consume(&mut got[..3]), Ok(3));
        assert_eq!(got[..3], batch[..3]);
        assert_eq!(got[0].payload(), payload);
        assert_eq!(p.produce(&batch), Ok(3));
        assert_eq!(c.consume(&mut got), Ok(4));
        assert_eq!(got[..4], [batch[3], batch[0], batch[1], batch[2]]);
        assert_eq!((p.produced(), c.consumed()), (7, 7));
    }
    one::<16>();
    one::<32>();
    one::<64>();
    one::<128>();
}

#[test]
fn shapes_beyond_the_limits_are_refused() {
    for bytes in [0, 8, 24, 256, u32::MAX] {
        assert_eq!(Shape::new(bytes, 8), Err(ShapeError::EntryBytes(bytes)));
    }
    for depth in [0, 1, 3, 48, 1 << 17, u32::MAX] {
        assert_eq!(Shape::new(64, depth), Err(ShapeError::Depth(depth)));
    }
    let shape = Shape::new(16, 2).unwrap();
    assert_eq!((shape.producer_bytes(), shape.consumer_bytes()), (8192, 4096));
    assert_eq!(Shape::new(128, 1 << 16).unwrap().producer_bytes(), 4096 + (8 << 20));
    let (p, c) = sides(Shape::new(64, 64).unwrap());
    let small = |bytes, needed| Some(ShapeError::Side { bytes, needed });
    assert_eq!(Producer::<_, 64>::over(p.clone(), c.reader(), 128).err(), small(8192, 12288));
    let half = c.part(0, 2048).unwrap();
    assert_eq!(Consumer::<_, 64>::over(half, p.reader(), 64).err(), small(2048, CONSUMER_BYTES));
}

#[test]
fn what_makes_no_sense_breaks_the_queue_for_both() {
    let (pages, counts) = sides(Shape::new(16, 4).unwrap());
    let mut p = Producer::<_, 16>::over(pages.clone(), counts.reader(), 4).unwrap();
    let mut c = Consumer::<_, 16>::over(counts.clone(), pages.reader(), 4).unwrap();
    p.produce(&[entry(1)]).unwrap();
    pages.store(512, 9, std::sync::atomic::Ordering::Relaxed);
    let broken = Broken::Stamp { position: 0, found: 9 };
    assert_eq!(c.consume(&mut [Entry::default()]), Err(broken));
    pages.store(512, 1, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(c.consume(&mut [Entry::default()]), Err(broken), "it stays broken");
    assert!(broken.to_string().contains("entry 0 bears number 9"), "{broken}");
    // The producer hears of it when it is full and looks hard.
    p.produce(&[entry(2), entry(3), entry(4)]).unwrap();
    assert_eq!(p.ready(false), Ok(false));
    assert_eq!(p.ready(true), Err(Broken::Ended(Reason::BadStamp)));

    counts.store(header::POSITION, 5, std::sync::atomic::Ordering::Relaxed);
    let mut p = Producer::<_, 16>::over(pages.clone(), counts.reader(), 4).unwrap();
    let beyond = Broken::Count { known: 0, produced: 4, found: 5 };
    assert_eq!(p.produce(&[entry(5)]), Err(beyond));
    assert_eq!(pages.load(header::BROKEN, std::sync::atomic::Ordering::Relaxed), 2);
}

fn bells() -> (Bells, Bells) {
    let (a, b) = (Bell::new().unwrap(), Bell::new().unwrap());
    let one = Bells { mine: BellWaiter::new(&a).unwrap(), theirs: b.clone() };
    (one, Bells { mine: BellWaiter::new(&b).unwrap(), theirs: a })
}

/// Two threads that sleep whenever they can, through a queue of four places.
fn two_threads(out: WaitMode, inn: WaitMode, count: u64) {
    let (mut p, mut c) = queue::<32>(4);
    let (here, there) = bells();
    let consumer = thread::spawn(move || {
        let (policy, learned) = (Policy::service(inn), WaitHistory::default());
        let (mut next, mut got) = (0, [Entry::default(); 3]);
        while next < count {
            assert_eq!(wait(&mut c, &there, true, (&policy, &learned), None), Ok(true));
            let n = c.consume(&mut got).unwrap();
            for e in &got[..n] {
                assert_eq!(number(e), next);
                next += 1;
            }
            if c.must_ring() {
                there.ring();
            }
        }
        // Closed while it waits.
        let end = wait(&mut c, &there, true, (&policy, &learned), None);
        assert_eq!(end, Err(Broken::Ended(Reason::Closed)));
    });
    let (policy, learned) = (Policy::caller(out), WaitHistory::default());
    let mut next = 0;
    while next < count {
        assert_eq!(wait(&mut p, &here, true, (&policy, &learned), None), Ok(true));
        let upto = count.min(next + 2);
        let batch: Vec<_> = (next..upto).map(entry).collect();
        next += p.produce(&batch).unwrap() as u64;
        if p.must_ring() {
            here.ring();
        }
    }
    p.close();
    if p.must_ring() {
        here.ring();
    }
    consumer.join().unwrap();
}

#[test]
fn two_threads_wait_in_any_modes() {
    for &out in WaitMode::ALL {
        for &inn in WaitMode::ALL {
            two_threads(out, inn, 2_000);
        }
    }
}

#[test]
fn a_wait_ends_at_its_time() {
    let (_p, mut c) = queue::<16>(2);
    let (here, _there) = bells();
    let (policy, learned) = (Policy::service(WaitMode::Sleep), WaitHistory::default());
    let from = here.now();
    let until = from + Duration::from_millis(5).as_nanos() as u64;
    assert_eq!(wait(&mut c, &here, true, (&policy, &learned), Some(until)), Ok(false));
    assert!(here.now() >= until, "too soon");
}
