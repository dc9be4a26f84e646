//! The engine against real ends in two VMs, and a real driver in a switch that is a queue.

use super::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use vfun_packet::limits::SILENCE_MS;
use vfun_packet::{Closer, Fence, LinkPlace, LinkedReceiver, LinkedSender, Ring, Sender};

const RING: u64 = vfun_packet::limits::RING_MIN;

type Side = Arc<[AtomicU64]>;

fn side() -> Side {
    (0..(4096 + RING) / 8).map(|_| AtomicU64::new(0)).collect()
}

/// Two sides of this process's memory.
#[derive(Clone)]
struct Fake {
    mine: Side,
    theirs: Side,
}

impl Memory for Fake {
    fn load(&self, index: usize, order: Ordering) -> u64 {
        self.theirs[index].load(order)
    }
    fn store(&self, index: usize, value: u64, order: Ordering) {
        self.mine[index].store(value, order);
    }
    fn load_own(&self, index: usize, order: Ordering) -> u64 {
        self.mine[index].load(order)
    }
    fn add_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.mine[index].fetch_add(value, order)
    }
    fn sub_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.mine[index].fetch_sub(value, order)
    }
}

fn fake(mine: &Side, theirs: &Side) -> Fake {
    Fake { mine: mine.clone(), theirs: theirs.clone() }
}

/// A's port, B's port and the link, each with the sides of two parties.
struct Shared {
    a: Side,
    a_host: Side,
    b: Side,
    b_host: Side,
    link_a: Side,
    link_b: Side,
}

/// All parties. `driver` is the number of its connection.
struct World {
    shared: Shared,
    tx: LinkedSender<Fake>,
    rx: LinkedReceiver<Fake>,
    fence: Fence<Fake, Fake>,
    to_b: Sender<Fake>,
    closer: Option<Closer<Fake>>,
    queue: VecDeque<([u8; 60], u64)>,
    handover: Handover<Fake>,
    driver: DriverView,
    forcing: Option<u64>,
    /// A VM that does nothing.
    a_stopped: bool,
    b_stopped: bool,
    /// A driver that says nothing of links.
    is_dumb: bool,
    /// Who was rung and has not looked at its pages yet: A, and B.
    rung: [bool; 2],
    acts: Vec<LinkAct>,
    now: u64,
    sent: u64,
    got: u64,
}

fn words() -> LinkWords {
    let place = |window, is_second| LinkPlace { window, ring: RING, is_second }.word();
    LinkWords {
        number: 77,
        out_place: place(3, false),
        out_bell: 5 << 16,
        in_place: place(4, true),
    }
}

impl World {
    fn new() -> Self {
        let ring = Ring::new(RING).unwrap();
        let shared = Shared {
            a: side(),
            a_host: side(),
            b: side(),
            b_host: side(),
            link_a: side(),
            link_b: side(),
        };
        let s = &shared;
        World {
            tx: LinkedSender::new(fake(&s.a, &s.a_host), ring),
            rx: LinkedReceiver::new(fake(&s.b, &s.b_host), ring),
            fence: Fence::new(fake(&s.a_host, &s.a), ring),
            to_b: Sender::new(fake(&s.b_host, &s.b), ring),
            closer: None,
            queue: VecDeque::new(),
            handover: Handover::new(pages(s), words(), Had::default(), SILENCE_MS, 1),
            driver: DriverView::There { id: 1, both: true },
            forcing: None,
            a_stopped: false,
            b_stopped: false,
            is_dumb: false,
            rung: [true; 2],
            acts: vec![],
            now: 1,
            sent: 0,
            got: 0,
            shared,
        }
    }

    /// Another manager takes the link up.
    fn take_over(&mut self, noted: u64) {
        self.handover = Handover::new(
            pages(&self.shared),
            words(),
            Had { epoch: noted, over: false },
            SILENCE_MS,
            self.now,
        );
        self.driver = DriverView::There { id: 50, both: true };
    }

    /// A VM looks at its pages when it is rung, and goes on until it has what stands there.
    fn look_of_vms(&mut self) {
        let ring = Ring::new(RING).unwrap();
        let s = &self.shared;
        let told = |side: &Side, word: usize| side[word].load(Ordering::Acquire);
        if self.rung[0] && !self.a_stopped {
            let out = told(&s.a_host, LINK_OUT);
            let is_place = LinkPlace::of(told(&s.a_host, OUT_PLACE)).is_some();
            self.rung[0] = match (out, self.tx.link().is_some()) {
                (0, true) => {
                    self.tx.detach();
                    false
                }
                (1.., false) if is_place => {
                    self.tx.attach(out, fake(&s.link_a, &s.link_b), ring).is_none()
                }
                _ => false,
            };
        }
        if self.rung[1] && !self.b_stopped {
            let from = told(&s.b_host, LINK_IN);
            let is_place = LinkPlace::of(told(&s.b_host, IN_PLACE)).is_some();
            match (from, self.rx.link().is_some()) {
                (0, true) => self.rx.detach(),
                (1.., false) if is_place => {
                    self.rx.attach(from, fake(&s.link_b, &s.link_a), ring);
                }
                _ => {}
            }
            self.rung[1] = false;
        }
    }

    fn act(&mut self, act: LinkAct) {
        match act {
            LinkAct::RingSender => self.rung[0] = true,
            LinkAct::RingReceiver => self.rung[1] = true,
            LinkAct::Forget => self.rung = [true; 2],
            _ => {}
        }
        let DriverView::There { id, .. } = self.driver else { return };
        match act {
            LinkAct::Tell { epoch } => {
                let (fence, closer) = (side(), side());
                self.fence.line(fake(&fence, &closer), words().number, epoch);
                self.closer = Some(Closer::new(fake(&closer, &fence), words().number));
            }
            LinkAct::Allow { epoch } if !self.is_dumb && self.fence.allow(epoch) => {
                self.handover.allowed(id, epoch, self.now);
            }
            LinkAct::Force { epoch } if !self.is_dumb => {
                self.fence.force(epoch);
                self.forcing = Some(epoch);
            }
            LinkAct::Unlink if !self.is_dumb => {
                self.fence.unline();
                self.closer = None;
                self.handover.unlinked(id);
            }
            _ => {}
        }
    }

    fn switch(&mut self) {
        if !matches!(self.driver, DriverView::There { .. }) {
            return;
        }
        let mut frame = [0; 64];
        while let Some(bytes) = self.fence.next(&mut frame) {
            if bytes != 0 {
                self.queue.push_back((frame[..60].try_into().unwrap(), self.fence.stamp()));
            }
        }
        self.fence.take();
        // It keeps some for a while.
        while self.queue.len() > 2 || self.now.is_multiple_of(3) && !self.queue.is_empty() {
            let (frame, stamp) = self.queue.pop_front().unwrap();
            let put = match &mut self.closer {
                Some(closer) => closer.put(&mut self.to_b, &frame, stamp),
                None => self.to_b.put(&frame),
            };
            put.expect("B's ring has room");
        }
        if let Some(closer) = &mut self.closer {
            closer.run(&mut self.to_b);
        }
        self.to_b.publish();
        if let Some(epoch) = self.forcing.filter(|epoch| self.fence.is_over(*epoch)) {
            let DriverView::There { id, .. } = self.driver else { return };
            self.handover.forced(id, epoch);
            self.forcing = None;
        }
    }

    fn receive(&mut self) {
        let mut frame = [0; 64];
        while let Some(bytes) = self.rx.next(&mut frame) {
            if bytes != 0 {
                let number = u64::from_le_bytes(frame[..8].try_into().unwrap());
                let may_be_lost = self.handover.was_silent() && number > self.got;
                assert!(number == self.got || may_be_lost, "lost, repeated or out of order");
                self.got = number + 1;
            }
        }
        self.rx.take();
    }

    /// One millisecond of everybody.
    fn tick(&mut self) {
        self.now += 1;
        if !self.a_stopped {
            let mut frame = [0; 60];
            frame[..8].copy_from_slice(&self.sent.to_le_bytes());
            self.sent += u64::from(self.tx.put(&frame).is_ok());
            self.tx.publish();
        }
        self.switch();
        if !self.b_stopped {
            self.receive();
        }
        for act in self.handover.step(self.now, self.driver) {
            self.acts.push(act);
            self.act(act);
        }
        self.look_of_vms();
    }

    /// Until it is so, or a generous limit.
    fn until(&mut self, what: impl Fn(&World) -> bool) {
        for _ in 0..20_000 {
            if what(self) {
                return;
            }
            self.tick();
        }
        panic!("it does not come: {:?} {:?}", self.handover.state(), self.acts);
    }

    fn until_state(&mut self, state: LinkState) {
        self.until(|w| w.handover.state().0 == state);
    }

    fn direct() -> Self {
        let mut w = World::new();
        w.handover.wish(Wish::Direct);
        w.until_state(LinkState::Direct);
        w
    }

    fn forgotten(&mut self) {
        self.until(|w| {
            w.acts.last() == Some(&LinkAct::Forget) || w.acts.contains(&LinkAct::Forget)
        });
        for (side, words) in [
            (&self.shared.a_host, &[LINK_OUT, OUT_PLACE, OUT_BELL][..]),
            (&self.shared.b_host, &[LINK_IN, IN_PLACE]),
        ] {
            assert!(words.iter().all(|word| side[*word].load(Ordering::Relaxed) == 0));
        }
    }

    fn place_of(&self, act: impl Fn(&LinkAct) -> bool) -> usize {
        self.acts.iter().position(act).expect("it was done")
    }
    fn count(&self, act: LinkAct) -> usize {
        self.acts.iter().filter(|a| **a == act).count()
    }
}

fn pages(s: &Shared) -> (Fake, Fake) {
    (fake(&s.a_host, &s.a), fake(&s.b_host, &s.b))
}

#[test]
fn frames_go_to_the_link_and_back_and_the_link_ends() {
    let mut w = World::direct();
    let taken = |w: &World| w.shared.link_b[TAKEN].load(Ordering::Relaxed);
    let before = taken(&w);
    for _ in 0..100 {
        w.tick();
    }
    assert!(taken(&w) >= before + 99, "the switch has none of them");
    w.handover.wish(Wish::Leave);
    w.forgotten();
    let (over, unlink) =
        (w.place_of(|a| *a == LinkAct::NoteOver), w.place_of(|a| *a == LinkAct::Unlink));
    assert!(over < unlink && unlink < w.acts.len() - 1);
    assert!(!w.handover.was_silent() && w.acts.contains(&LinkAct::RingReceiver));
    let (note, allow) = (LinkAct::Note { epoch: 1 }, LinkAct::Allow { epoch: 1 });
    assert_eq!(w.place_of(|a| *a == note) + 1, w.place_of(|a| *a == allow));
    assert_eq!(w.acts[0], LinkAct::Tell { epoch: 0 });
    for _ in 0..50 {
        w.tick();
    }
    assert!(w.got + 10 > w.sent, "frames go on through the switch");
}

#[test]
fn a_thousand_turns_lose_nothing() {
    let mut w = World::direct();
    for n in 0..1000 {
        w.handover.wish(if n % 2 == 0 { Wish::Wait } else { Wish::Direct });
        if n % 7 != 0 {
            w.until_state(if n % 2 == 0 { LinkState::Switch } else { LinkState::Direct });
        }
        (0..n % 5).for_each(|_| w.tick());
    }
    assert!(w.handover.epoch() > 300 && !w.acts.contains(&LinkAct::NoteOver));
    assert!(w.got > 3000);
}

#[test]
fn what_one_party_does_not_know_is_not_begun() {
    for dumb in [true, false] {
        let mut w = World::new();
        (w.is_dumb, w.a_stopped) = (dumb, !dumb);
        w.handover.wish(Wish::Direct);
        (0..1500).for_each(|_| w.tick());
        let (state, _) = w.handover.state();
        assert_eq!(w.handover.is_ready(), dumb);
        assert_eq!(w.shared.a_host[TURN].load(Ordering::Relaxed), 0);
        // A driver that does not answer is asked again after a rest.
        assert_eq!((state, w.handover.rests(w.now)), (LinkState::Switch, dumb));
        (w.is_dumb, w.a_stopped) = (false, false);
        w.until_state(LinkState::Direct);
        assert!(w.count(LinkAct::Allow { epoch: 1 }) == 1 || dumb);
    }
}

#[test]
fn a_vm_may_be_silent_for_as_long_as_the_manager_is_set_to() {
    for silence in [SILENCE_MS, 700] {
        let mut w = World::new();
        w.handover = Handover::new(pages(&w.shared), words(), Had::default(), silence, w.now);
        w.handover.wish(Wish::Direct);
        w.until_state(LinkState::Direct);
        w.a_stopped = true;
        w.handover.wish(Wish::Wait);
        let since = w.now;
        w.until(|w| w.count(LinkAct::Force { epoch: 1 }) == 1);
        let waited = w.now - since;
        assert!((silence..silence + 10).contains(&waited), "{waited} of {silence}");
    }
}

#[test]
fn a_silent_sender_is_turned_by_the_driver_and_its_memory_is_not_used_again() {
    let mut w = World::direct();
    w.a_stopped = true;
    w.handover.wish(Wish::Wait);
    w.until_state(LinkState::Over);
    assert!(w.handover.was_silent());
    assert_eq!(w.count(LinkAct::Force { epoch: 1 }), 1);
    w.forgotten();
    // It wakes up, and is back on the switch.
    w.a_stopped = false;
    (0..20).for_each(|_| w.tick());
    assert!(w.tx.link().is_none() && w.got + 5 > w.sent);
}

#[test]
fn a_driver_that_comes_again_is_told_in_each_stage() {
    for wish in [Wish::Direct, Wish::Wait, Wish::Leave] {
        for after in 0..12 {
            let mut w = World::new();
            w.handover.wish(Wish::Direct);
            (0..after).for_each(|_| w.tick());
            w.handover.wish(wish);
            w.tick();
            let told = w.acts.len();
            // It may have been taken out of the driver already.
            let is_out = w.acts.contains(&LinkAct::Unlink);
            w.driver = DriverView::Away;
            (0..20).for_each(|_| w.tick());
            let is_tell = |a: &LinkAct| matches!(a, LinkAct::Tell { .. });
            assert!(!w.acts[told..].iter().any(is_tell));
            assert!(is_out || !w.acts.contains(&LinkAct::Forget));
            w.driver = DriverView::There { id: 2, both: true };
            w.tick();
            match wish {
                Wish::Direct => w.until_state(LinkState::Direct),
                Wish::Wait => w.until_state(LinkState::Switch),
                _ => w.forgotten(),
            }
            let again =
                w.acts[told..].iter().any(|a| matches!(a, LinkAct::Tell { .. } | LinkAct::Unlink));
            assert!(again || is_out, "{wish:?} after {after}: {:?}", &w.acts[told..]);
        }
    }
}

#[test]
fn without_a_driver_a_link_that_is_to_end_ends() {
    let mut w = World::direct();
    w.handover.wish(Wish::End);
    w.driver = DriverView::Gone;
    w.forgotten();
    assert!(!w.handover.was_silent() && !w.acts.contains(&LinkAct::Unlink));
}

#[test]
fn a_driver_that_cannot_ends_the_link_and_is_not_told_again() {
    for direct in [true, false] {
        let mut w = if direct { World::direct() } else { World::new() };
        w.tick();
        let told = w.acts.len();
        w.handover.unlinked(9);
        assert!(!w.handover.ends(), "another connection says nothing of it");
        w.handover.allowed(9, 1, w.now);
        w.handover.forced(9, 1);
        w.handover.unlinked(1);
        assert!(w.handover.was_refused() && w.handover.ends());
        w.handover.wish(Wish::Direct);
        w.forgotten();
        assert!(
            !w.acts[told..]
                .iter()
                .any(|a| matches!(a, LinkAct::Tell { .. } | LinkAct::Force { .. }))
        );
    }
}

#[test]
fn another_manager_goes_on_in_each_stage() {
    for after in 0..12 {
        for wish in [Wish::Direct, Wish::Wait] {
            let mut w = World::new();
            w.handover.wish(Wish::Direct);
            (0..after).for_each(|_| w.tick());
            w.handover.wish(wish);
            (0..after % 3).for_each(|_| w.tick());
            let noted = w.handover.noted;
            w.take_over(noted);
            assert!(!w.handover.ends(), "after {after}");
            w.until_state(LinkState::Switch);
            w.handover.wish(Wish::Direct);
            w.until_state(LinkState::Direct);
            assert!(w.handover.epoch() > 0 && !w.handover.was_silent());
        }
    }
}

#[test]
fn another_manager_finds_a_link_that_is_over_and_takes_it_out() {
    let mut w = World::direct();
    w.a_stopped = true;
    w.handover.wish(Wish::Wait);
    w.until(|w| w.acts.contains(&LinkAct::NoteOver));
    let had = Had { epoch: 1, over: true };
    w.handover = Handover::new(pages(&w.shared), words(), had, SILENCE_MS, w.now);
    let b_in = |w: &World| w.shared.b_host[LINK_IN].load(Ordering::Relaxed);
    assert_eq!((b_in(&w), w.handover.state().0), (0, LinkState::Over));
    w.acts.clear();
    w.driver = DriverView::Away;
    w.tick();
    assert!(w.acts.is_empty(), "its driver comes again");
    w.driver = DriverView::There { id: 8, both: false };
    w.forgotten();
    assert_eq!(w.acts[0], LinkAct::Unlink);
}

#[test]
fn words_that_a_vm_has_changed_are_not_believed() {
    let mut w = World::direct();
    w.handover.wish(Wish::Wait);
    w.until_state(LinkState::Switch);
    w.handover.wish(Wish::Direct);
    w.until_state(LinkState::Direct);
    w.shared.a_host[LINK_OUT].store(5, Ordering::Relaxed);
    let noted = w.handover.noted;
    w.take_over(noted);
    assert!(noted == 2 && w.shared.a_host[LINK_OUT].load(Ordering::Relaxed) != 5);
    w.until_state(LinkState::Switch);
    w.handover.wish(Wish::Direct);
    w.until_state(LinkState::Direct);
}

#[test]
fn a_vm_that_comes_back_by_itself_rests_before_the_next_try() {
    let mut w = World::direct();
    w.tx.detach();
    w.until_state(LinkState::Switch);
    assert!(w.handover.rests(w.now) && w.handover.epoch() == 1);
    w.until_state(LinkState::Direct);
    assert_eq!(w.handover.epoch(), 2);
}

#[test]
fn sides_begin_with_counts_of_zero_and_the_way_back_is_left_alone() {
    let (a, b) = (side(), side());
    for word in 0..64 {
        a[word].store(9, Ordering::Relaxed);
        b[word].store(9, Ordering::Relaxed);
    }
    begin_sides(&fake(&a, &b), &fake(&b, &a));
    let word = |side: &Side, at: usize| side[at].load(Ordering::Relaxed);
    assert_eq!([HEAD, SENT, SENT_BYTES, FULL].map(|at| word(&a, at)), [0; 4]);
    assert_eq!([TAIL, TAKEN, TAKEN_BYTES, REFUSED, WAKE].map(|at| word(&b, at)), [0; 5]);
    assert_eq!([TAIL, TAKEN, REFUSED, WAKE].map(|at| word(&a, at)), [9; 4]);
    assert_eq!([HEAD, SENT, FULL].map(|at| word(&b, at)), [9; 3]);
}

#[test]
fn a_driver_is_believed_only_what_it_was_asked_on_this_connection() {
    let mut w = World::new();
    w.is_dumb = true;
    w.handover.wish(Wish::Direct);
    w.until(|w| w.acts.contains(&LinkAct::Allow { epoch: 1 }));
    let turn = |w: &World| w.shared.a_host[TURN].load(Ordering::Relaxed);
    for (driver, epoch) in [(9, 1), (1, 2), (1, 0)] {
        w.handover.allowed(driver, epoch, w.now);
        assert_eq!(turn(&w), 0, "{driver} {epoch}");
    }
    w.fence.allow(1);
    w.handover.allowed(1, 1, w.now);
    assert_eq!(turn(&w), 2);
    w.until_state(LinkState::Direct);
    (w.a_stopped, w.b_stopped) = (true, true);
    w.handover.wish(Wish::Wait);
    w.until(|w| w.acts.contains(&LinkAct::Force { epoch: 1 }));
    for (driver, epoch) in [(9, 1), (1, 2), (1, 0)] {
        w.handover.forced(driver, epoch);
        w.tick();
        assert_eq!(w.handover.state().0, LinkState::Back, "{driver} {epoch}");
    }
    w.is_dumb = true;
    w.handover.forced(1, 1);
    w.tick();
    assert_eq!(w.handover.state().0, LinkState::Over);
    // The order to let go is answered by who got it, and waited for.
    for driver in [0, 9] {
        w.handover.unlinked(driver);
        (0..20).for_each(|_| w.tick());
        assert!(w.acts.contains(&LinkAct::Unlink) && !w.acts.contains(&LinkAct::Forget));
    }
    w.handover.unlinked(1);
    w.forgotten();
}
