//! Posts, looks, sleep and events in every order. The tests named `without_…` leave a step out
//! and must find what is lost. Run: `tests/loom.sh`.
#![cfg(loom)]

use loom::sync::atomic::AtomicU64;
use loom::thread;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vfun_queue::layout::ENTRIES_OFF;
use vfun_queue::{Consumer, Entry, Memory, Producer};
use vfun_verbs::bells::{BITS, NicBells, ProgramBells, RINGS, SLEEPS};
use vfun_verbs::completions::{ASKED, Answerer, Asker, FIRED};
use vfun_verbs::*;

/// A word that the other side reads is loom's; the others are not, so that they do not
/// multiply the orders.
enum Word {
    Modelled(AtomicU64),
    Plain(std::sync::atomic::AtomicU64),
}

type Side = Arc<BTreeMap<usize, Word>>;

#[derive(Clone)]
struct Model {
    mine: Side,
    theirs: Side,
}

fn side(modelled: &[usize], plain: impl Iterator<Item = usize>) -> Side {
    let plain = plain.map(|i| (i, Word::Plain(std::sync::atomic::AtomicU64::new(0))));
    let modelled = modelled.iter().map(|i| (*i, Word::Modelled(AtomicU64::new(0))));
    Arc::new(plain.chain(modelled).collect())
}

macro_rules! on {
    ($word:expr, $w:ident => $do:expr) => {
        match $word {
            Word::Modelled($w) => $do,
            Word::Plain($w) => $do,
        }
    };
}

impl Memory for Model {
    fn load(&self, index: usize, order: Ordering) -> u64 {
        on!(&self.theirs[&index], w => w.load(order))
    }
    fn store(&self, index: usize, value: u64, order: Ordering) {
        on!(&self.mine[&index], w => w.store(value, order))
    }
    fn load_own(&self, index: usize, order: Ordering) -> u64 {
        on!(&self.mine[&index], w => w.load(order))
    }
    fn add_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        on!(&self.mine[&index], w => w.fetch_add(value, order))
    }
    fn sub_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        on!(&self.mine[&index], w => w.fetch_sub(value, order))
    }
}

/// Both views of two sides.
fn views(program: Side, nic: Side) -> (Model, Model) {
    let theirs = Model { mine: nic.clone(), theirs: program.clone() };
    (Model { mine: program, theirs: nic }, theirs)
}

const FIRST: usize = ENTRIES_OFF / 8;
const FLUSHES: usize = 16;

fn work() -> (WorkProducer<Model>, WorkConsumer<Model>) {
    let entries = FIRST..FIRST + 16;
    let program = side(&[FIRST], entries.chain([0, 1, 8]));
    let (mine, theirs) = views(program, side(&[FLUSHES], [0, 1, 8].into_iter()));
    let shape = WorkShape::new(2, 0).unwrap();
    (WorkProducer::new(mine, shape).unwrap(), WorkConsumer::new(theirs, shape).unwrap())
}

fn bells() -> (Model, Model) {
    let program = side(&[RINGS, BITS], std::iter::empty());
    views(program, side(&[SLEEPS, BITS], std::iter::empty()))
}

/// How many orders end as `f` says.
fn count(f: impl Fn() -> bool + Sync + Send + 'static) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        if f() {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    });
    count.load(Ordering::Relaxed)
}

#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    /// The program does not fence between its entry and its look at the NIC's page.
    ProgramsFence,
    /// The NIC looks at the queue first, and then says that it leaves it.
    Order,
}

/// What `ProgramBells::posted` does, without its fence.
fn posted_carelessly(mem: &Model) -> bool {
    if mem.load(BITS, Ordering::Relaxed) & 1 == mem.load_own(BITS, Ordering::Relaxed) & 1 {
        mem.add_own(BITS, 1, Ordering::Relaxed);
        mem.add_own(RINGS, 1, Ordering::Release);
    }
    mem.load(SLEEPS, Ordering::Relaxed) != 0
}

/// The NIC looks at a queue, leaves it and goes to sleep while a program posts: whether it
/// sleeps on, with an entry there and nobody ringing.
fn sleeps_on(without: Without) -> bool {
    let (mut producer, mut consumer) = work();
    let (mine, theirs) = bells();
    let nic = thread::spawn(move || {
        let mut bells = NicBells::new(theirs);
        let mut entry = ReceiveEntry::default();
        let mut takes = move || consumer.take_receive(&mut entry) == Ok(Taken::Entry);
        if without == Without::Order {
            if takes() {
                return true;
            }
            bells.leave(0);
        } else {
            bells.leave(0);
            if takes() {
                return true;
            }
        }
        bells.declare_sleep();
        let mut rung = false;
        if bells.rang() {
            bells.each(0..1, |_| rung = true);
        }
        rung && takes()
    });
    producer.post_receive(&ReceiveEntry::new(5, &[]).unwrap()).unwrap();
    let rings = match without {
        Without::ProgramsFence => posted_carelessly(&mine),
        _ => ProgramBells::new(mine).posted(0),
    };
    let found = nic.join().unwrap();
    !found && !rings
}

#[test]
fn a_post_is_found_or_rung_for() {
    assert_eq!(count(|| sleeps_on(Without::Nothing)), 0);
}

#[test]
fn without_the_programs_fence_a_post_is_lost() {
    assert!(count(|| sleeps_on(Without::ProgramsFence)) > 0);
}

#[test]
fn without_the_order_of_leaving_a_post_is_lost() {
    assert!(count(|| sleeps_on(Without::Order)) > 0);
}

/// A queue pair fails while a receive is posted: whether nobody flushes it. `looks_after`: the
/// NIC says that it flushes before it looks, as it must.
fn receive_is_forgotten(looks_after: bool) -> bool {
    let (mut producer, mut consumer) = work();
    let (mine, theirs) = bells();
    let nic = thread::spawn(move || {
        let mut entry = ReceiveEntry::default();
        if looks_after {
            consumer.say_flushes(true);
        }
        let taken = consumer.take_receive(&mut entry) == Ok(Taken::Entry);
        if !looks_after {
            consumer.say_flushes(true);
        }
        taken
    });
    producer.post_receive(&ReceiveEntry::new(5, &[]).unwrap()).unwrap();
    let bells = ProgramBells::new(mine);
    bells.posted_receive(0, &producer);
    let taken = nic.join().unwrap();
    let mut bells = NicBells::new(theirs);
    !taken && !bells.rang()
}

#[test]
fn a_receive_of_a_failed_queue_pair_is_flushed() {
    assert_eq!(count(|| receive_is_forgotten(true)), 0);
}

#[test]
fn without_the_order_of_flushing_a_receive_is_forgotten() {
    assert!(count(|| receive_is_forgotten(false)) > 0);
}

/// A program asks for an event and looks once more while a completion comes: whether it
/// found nothing and gets no event. `asks_first`: as it must.
fn completion_is_missed(asks_first: bool) -> bool {
    let entries = FIRST..FIRST + 16;
    let program = side(&[ASKED], [0, 1, 8].into_iter());
    let nic = side(&[FIRST], entries.chain([0, 1, 8, FIRED]));
    let (mine, theirs) = views(program, nic);
    let mut producer = Producer::<_, 64>::new(theirs, 2).unwrap();
    let mut consumer = Consumer::<_, 64>::new(mine, 2).unwrap();
    let nic = thread::spawn(move || {
        producer.produce(&[Entry::default()]).unwrap();
        Answerer::default().completed(&producer, false)
    });
    let mut asker = Asker::new();
    let polls = |c: &mut Consumer<Model, 64>| c.consume(&mut [Entry::default(); 1]) == Ok(1);
    let found = if asks_first {
        asker.ask(&consumer, false);
        polls(&mut consumer)
    } else {
        let found = polls(&mut consumer);
        asker.ask(&consumer, false);
        found
    };
    let event = nic.join().unwrap();
    !found && !event
}

#[test]
fn a_completion_is_found_or_brings_an_event() {
    assert_eq!(count(|| completion_is_missed(true)), 0);
}

#[test]
fn without_a_look_after_asking_a_completion_is_missed() {
    assert!(count(|| completion_is_missed(false)) > 0);
}
