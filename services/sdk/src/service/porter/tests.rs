use super::*;
use std::time::Instant;
use vfun_ring::{Caller, Memory, Next, PollAnswer, Server};
use vfun_window::{Access, Mapping, memfd};
use vfun_wire::Status;
use vfun_wire::channel::{Command, in_header, side_bytes};

const DEPTH: u16 = 4;
const PATIENCE: Duration = Duration::from_secs(20);

/// Both sides of a channel.
fn channel() -> (WindowMemory, WindowMemory) {
    let side = side_bytes(DEPTH, 0).unwrap() as usize;
    let fd = memfd("channel", 2 * side as u64).unwrap();
    let map = |off| Mapping::new(&fd, off, side, Access::ReadWrite).unwrap().write().unwrap();
    let (out, inn) = (map(0), map(side as u64));
    let app = WindowMemory::new(out.clone(), inn.reader()).unwrap();
    (app, WindowMemory::new(inn, out.reader()).unwrap())
}

/// A channel's thread, in the order of the sleeping rules.
fn serve(memory: WindowMemory, sleep_place: &SleepPlace, waiter: &BellWaiter, ended: &AtomicBool) {
    let mut server = Server::new(memory, DEPTH, 0);
    while !ended.load(Ordering::SeqCst) {
        server.declare_sleep();
        let mut next = server.next_anywhere();
        if next == Next::Nothing {
            sleep_place.wait(waiter, None).unwrap();
        }
        server.declare_awake();
        while let Next::Call(r) = next {
            server.answer_inline(r.cell, Status::Ok, &[]);
            next = server.next_anywhere();
        }
    }
}

fn call(caller: &Caller<WindowMemory>, shared: &Bell) {
    let claim = caller.claim().unwrap();
    let ticket = caller.post_inline(claim, Command::Set, &[]);
    if caller.must_ring() {
        shared.ring();
    }
    let start = Instant::now();
    while caller.look(&ticket) == PollAnswer::NotYet {
        assert!(start.elapsed() < PATIENCE, "nobody woke the channel");
        std::thread::yield_now();
    }
    caller.take(ticket);
}

fn rests(memory: &WindowMemory) -> Resting {
    Resting { memory: memory.clone(), depth: DEPTH, wake: Bell::new().unwrap() }
}

/// Everybody goes to rest after each call, so that each has to be woken.
#[test]
fn every_call_wakes_its_channel_and_few_others() {
    const CHANNELS: usize = 3 * CROWD;
    const CALLS: usize = 150;
    let (porter, shared, ended) =
        (Porter::with(Duration::ZERO).unwrap(), Bell::new().unwrap(), AtomicBool::new(false));
    let channels: Vec<_> = (0..CHANNELS).map(|_| channel()).collect();
    let bells: Vec<_> = channels.iter().map(|(_, service)| rests(service)).collect();
    std::thread::scope(|scope| {
        for (number, rests) in bells.iter().enumerate() {
            let sleep_place = porter.sleep_place((1, 0), number as u64, &shared, rests.clone());
            let waiter = BellWaiter::any(&[&shared, &rests.wake]).unwrap();
            let ended = &ended;
            scope.spawn(move || serve(rests.memory.clone(), &sleep_place, &waiter, ended));
        }
        let callers: Vec<_> = channels
            .iter()
            .map(|(app, _)| {
                let caller = Caller::new(app.clone(), DEPTH, 0);
                let shared = &shared;
                scope.spawn(move || {
                    for turn in 0..CALLS {
                        call(&caller, shared);
                        if turn % 8 == 0 {
                            std::thread::sleep(Duration::from_micros(300));
                        }
                    }
                })
            })
            .collect();
        let done: Vec<_> = callers.into_iter().map(|c| c.join()).collect();
        ended.store(true, Ordering::SeqCst);
        bells.iter().for_each(|b| b.wake.ring());
        shared.ring();
        done.into_iter().for_each(|d| d.unwrap());
    });
    let woken = porter.0.woken.load(Ordering::Relaxed) as usize;
    assert!(woken > 0, "nobody rested");
    // Each wakes its own channel once at most. With a ring for everybody it would be
    // so many for each of them.
    assert!(woken <= CALLS * CHANNELS, "{woken}");
    let bells = lock(&porter.0.bells);
    assert!(bells.of.is_empty() && bells.by.is_empty(), "all have left");
}

/// A porter and channels that rest, whose threads sleep on.
struct AtRest {
    porter: Porter,
    shared: Bell,
    apps: Vec<WindowMemory>,
    sleep_places: Vec<(SleepPlace, BellWaiter)>,
}

fn at_rest(which: WhichBell) -> AtRest {
    let (porter, shared) = (Porter::with(Duration::ZERO).unwrap(), Bell::new().unwrap());
    let (apps, services): (Vec<_>, Vec<_>) = (0..2 * CROWD).map(|_| channel()).unzip();
    let mut sleep_places = vec![];
    for (channel, service) in services.iter().enumerate() {
        let rests = rests(service);
        let waiter = BellWaiter::any(&[&shared, &rests.wake]).unwrap();
        sleep_places.push((porter.sleep_place(which, channel as u64, &shared, rests), waiter));
    }
    for (sleep_place, waiter) in &sleep_places {
        sleep_place.wait(waiter, None).unwrap();
        assert!(sleep_place.resting.get());
    }
    AtRest { porter, shared, apps, sleep_places }
}

/// Rings on until this is so.
fn ring_until(shared: &Bell, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < PATIENCE, "the porter does not look");
        shared.ring();
    }
}

#[test]
fn a_channel_that_rests_is_woken_once_and_no_other() {
    let at = at_rest((1, 1));
    let caller = Caller::new(at.apps[0].clone(), DEPTH, 0);
    let ticket = caller.post_inline(caller.claim().unwrap(), Command::Set, &[]);
    let (lodge, none) = (&at.porter.0, Some(Duration::ZERO));
    ring_until(&at.shared, || lodge.looks.load(Ordering::Relaxed) > 5);
    // Those before the last look have ended.
    assert_eq!(lodge.woken.load(Ordering::Relaxed), 1);
    let woken = |at: &AtRest| at.sleep_places.iter().map(|(_, w)| w.wait(none).unwrap()).collect();
    let which: Vec<bool> = woken(&at);
    assert!(which[0] && which[1..].iter().all(|w| !w), "{which:?}");
    drop((at, ticket));
}

#[test]
fn a_bell_that_rings_without_end_is_looked_at_now_and_then() {
    let at = at_rest((1, 1));
    let (start, lodge) = (Instant::now(), &at.porter.0);
    for _ in 0..20_000 {
        at.shared.ring();
        std::thread::yield_now();
    }
    ring_until(&at.shared, || lodge.looks.load(Ordering::Relaxed) > u64::from(IN_VAIN.0) + 2);
    let looks = lodge.looks.load(Ordering::Relaxed);
    // No more than these, however long it took. The first ones count anew after a pause.
    let spans = start.elapsed().as_nanos() / DEAF.as_nanos() + 1;
    let anew = start.elapsed().as_nanos() / IN_VAIN.1.as_nanos() + 1;
    assert!(u128::from(looks) <= spans + anew * u128::from(IN_VAIN.0), "{looks} in {spans}");
}

#[test]
fn a_bell_whose_lock_is_taken_holds_up_no_other_and_no_count() {
    let at = at_rest((1, 1));
    let (tell, told) = std::sync::mpsc::channel();
    let taken = lock(&at.sleep_places[0].0.sharers.state);
    std::thread::scope(|scope| {
        let at = (&at.porter, at.sleep_places[1].0.sharers.clone());
        scope.spawn(move || {
            assert!(at.1.channels.load(Ordering::Relaxed) > CROWD);
            let (shared, rests) = (Bell::new().unwrap(), rests(&channel().1));
            let of = |n| at.0.sleep_place((1, 2), n, &shared, rests.clone());
            let sleep_places: Vec<_> = (0..=CROWD as u64).map(of).collect();
            let waiter = BellWaiter::any(&[&shared, &rests.wake]).unwrap();
            sleep_places[0].wait(&waiter, None).unwrap();
            assert!(sleep_places[0].resting.get());
            drop(sleep_places);
            tell.send(()).unwrap();
        });
        let done = told.recv_timeout(PATIENCE);
        drop(taken);
        assert!(done.is_ok(), "it waited for another bell's lock");
    });
}

#[test]
fn a_thread_that_listens_again_has_nothing_left_of_its_ring() {
    let at = at_rest((1, 1));
    let (sleep_place, waiter) = &at.sleep_places[0];
    at.shared.ring();
    sleep_place.rests.wake.ring();
    sleep_place.wait(waiter, None).unwrap();
    assert!(!sleep_place.resting.get());
    assert!(!waiter.wait(Some(Duration::ZERO)).unwrap(), "the next sleep ends at once");
}

#[test]
fn a_porter_that_unwinds_wakes_all_and_takes_nobody_any_more() {
    let at = at_rest((1, 1));
    let lodge = at.porter.0.clone();
    let thread = std::thread::spawn(move || {
        let _closes = WakesAllOnDrop(&lodge);
        panic!("as a thread that unwinds");
    });
    assert!(thread.join().is_err());
    for (sleep_place, waiter) in &at.sleep_places {
        assert!(waiter.wait(Some(PATIENCE)).unwrap(), "it sleeps on");
        sleep_place.wait(waiter, Some(Duration::ZERO)).unwrap();
        assert!(sleep_place.go_to_rest(waiter).is_err() && !sleep_place.resting.get());
    }
}

#[test]
fn few_channels_do_not_go_to_rest() {
    let (porter, shared) = (Porter::with(Duration::ZERO).unwrap(), Bell::new().unwrap());
    let rests = rests(&channel().1);
    let sleep_places: Vec<_> =
        (0..=CROWD as u64).map(|n| porter.sleep_place((7, 0), n, &shared, rests.clone())).collect();
    let waiter = BellWaiter::any(&[&shared, &rests.wake]).unwrap();
    let wait = |sleep_place: &SleepPlace| {
        rests.wake.ring();
        sleep_place.wait(&waiter, None).unwrap();
        sleep_place.resting.get()
    };
    // The ring itself ends the first wait; with none it goes to rest.
    assert!(!wait(&sleep_places[0]));
    sleep_places[0].wait(&waiter, None).unwrap();
    assert!(sleep_places[0].resting.get() && *lock(&porter.0.staffed));
    assert!(!wait(&sleep_places[0]), "woken, it listens by itself");
    drop(sleep_places);
    let alone = porter.sleep_place((7, 0), 0, &shared, rests.clone());
    assert!(waiter.wait(Some(Duration::ZERO)).is_ok());
    assert!(!wait(&alone) && !wait(&alone));
}

#[test]
fn what_is_posted_is_seen_and_what_is_answered_or_held_is_not() {
    let (app, service) = channel();
    let posted = || is_posted(&service, DEPTH);
    let (caller, mut server) = (Caller::new(app, DEPTH, 0), Server::new(service.clone(), DEPTH, 0));
    assert!(!posted());
    let ticket = caller.post_inline(caller.claim().unwrap(), Command::Set, &[]);
    assert!(posted());
    let Next::Call(r) = server.next() else { panic!("it was posted") };
    server.hold(r.cell, true);
    assert!(!posted(), "it is held open");
    let second = caller.post_inline(caller.claim().unwrap(), Command::Set, &[]);
    assert!(posted());
    server.answer_inline(r.cell, Status::Ok, &[]);
    let Next::Call(s) = server.next_anywhere() else { panic!("it was posted") };
    server.answer_inline(s.cell, Status::Ok, &[]);
    assert!(!posted());
    caller.take(ticket);
    caller.take(second);
    assert_eq!(service.load_own(in_header::SLEEPS, Ordering::Relaxed), 0);
}
