//! What the manager's end decides, without the others.

use crate::common::plain::{peek, poke};
use crate::handover::memory::{Process, Shared, View};
use vfun_packet::layout::header;
use vfun_packet::limits::SILENCE_MS;
use vfun_packet::{Director, Stage, Todo, Turn, Way};

const LINK: u64 = 4;

fn director(s: &Shared, noted: u64, now: u64) -> Director<View> {
    let p = Process::new();
    Director::new(p.view(&s.a_host, &s.a), p.view(&s.b_host, &s.b), LINK, noted, now)
}

/// What both VMs say: the turn that they have made last.
fn vms_say(s: &Shared, turn: Turn) {
    for (side, has, made) in
        [(&s.a, header::HAS_OUT, header::ACK), (&s.b, header::HAS_IN, header::OPEN)]
    {
        poke(side, header::KNOWS, 1);
        poke(side, has, LINK);
        poke(side, made, turn.word());
    }
}

fn turn(s: &Shared) -> Option<Turn> {
    Turn::of(peek(&s.a_host, header::TURN))
}

/// A link whose frames go past the switch, in its first epoch.
fn direct() -> (Shared, Director<View>) {
    let s = Shared::new();
    vms_say(&s, Turn::new(0, Way::Switch));
    let mut d = director(&s, 0, 0);
    assert!(d.go(0));
    assert_eq!(d.look(0, true), Todo::Allow(1));
    d.allowed(1, 0);
    assert_eq!(turn(&s), Some(Turn::new(1, Way::Link)));
    vms_say(&s, Turn::new(1, Way::Link));
    d.look(0, true);
    assert_eq!(d.stage(), Stage::Direct { epoch: 1 });
    (s, d)
}

/// What the pages of a port say is the VM's as well. A manager that is started again takes the
/// epoch from its own notes, whatever stands there, and ends it.
#[test]
fn a_manager_believes_its_notes_and_no_page() {
    for (word, value) in [
        (header::TURN, 0),
        (header::TURN, Turn::new(9, Way::Link).word()),
        (header::TURN, u64::MAX),
        (header::LINK_OUT, 0),
        (header::LINK_OUT, LINK + 1),
    ] {
        let (s, _) = direct();
        poke(&s.a_host, word, value);
        let mut d = director(&s, 1, 0);
        assert_eq!(d.epoch(), Some(1));
        assert_eq!(d.look(0, true), Todo::Allow(1), "{word} {value}");
        d.allowed(1, 0);
        assert_eq!(turn(&s), Some(Turn::new(1, Way::Switch)));
        assert_eq!(peek(&s.a_host, header::LINK_OUT), LINK);
        vms_say(&s, Turn::new(1, Way::Switch));
        d.look(0, true);
        assert_eq!(d.stage(), Stage::Switch { epoch: 1 });
        assert!(d.go(0));
        assert_eq!(d.look(0, true), Todo::Allow(2));
    }
}

/// Without a switch nobody is late; then the driver at A's port hears of the noted epoch
/// before A is told to come back.
#[test]
fn a_manager_that_is_started_again_waits_for_the_switch() {
    let (s, _) = direct();
    let mut d = director(&s, 1, 0);
    d.look(10 * SILENCE_MS, false);
    assert_eq!(turn(&s), Some(Turn::new(1, Way::Link)));
    assert_eq!(d.look(10 * SILENCE_MS, true), Todo::Allow(1));
    // A driver that takes an older epoch for the present one: the link cannot go on.
    assert_eq!(d.look(11 * SILENCE_MS, true), Todo::Force(1));
    assert_eq!(turn(&s), Some(Turn::new(1, Way::Switch)));
}

/// An epoch that is not wanted any more before its sender was told: the driver may allow it
/// already, so that it is closed as any other one, and not left open.
#[test]
fn an_epoch_that_is_withdrawn_is_closed() {
    let s = Shared::new();
    vms_say(&s, Turn::new(0, Way::Switch));
    let mut d = director(&s, 0, 0);
    assert!(d.go(0));
    assert_eq!(d.look(0, true), Todo::Allow(1));
    d.back(0);
    // However long the driver takes: it may allow it still.
    assert_eq!(d.look(9 * SILENCE_MS, true), Todo::Allow(1));
    assert_eq!((d.stage(), turn(&s), d.go(0)), (Stage::Withdrawn { epoch: 1 }, None, false));
    d.allowed(1, 9 * SILENCE_MS);
    assert_eq!(turn(&s), Some(Turn::new(1, Way::Switch)));
    assert!(!d.go(0));
    vms_say(&s, Turn::new(1, Way::Switch));
    d.look(9 * SILENCE_MS, true);
    assert_eq!(d.stage(), Stage::Switch { epoch: 1 });
    assert!(d.go(0));
    // One that goes without a word is seen.
    d.back(0);
    vms_say(&s, Turn::new(2, Way::Link));
    assert_eq!(d.look(0, true), Todo::Force(2));
}

/// Who is silent for so long is passed over: 100 ms, or what the manager is set to.
#[test]
fn silence_is_what_the_manager_is_set_to() {
    assert_eq!(SILENCE_MS, 100);
    for (set, silence) in [(None, SILENCE_MS), (Some(7), 7), (Some(5000), 5000)] {
        let (s, d) = direct();
        let mut d = match set {
            Some(ms) => d.with_silence(ms),
            None => d,
        };
        d.back(0);
        assert_eq!(d.look(silence - 1, true), Todo::Nothing);
        assert_eq!(d.look(silence, true), Todo::Force(1));
        assert_eq!(d.look(2 * silence - 1, true), Todo::Force(1));
        assert_eq!(peek(&s.b_host, header::LINK_IN), LINK);
        d.look(2 * silence, true);
        assert_eq!((d.stage(), peek(&s.b_host, header::LINK_IN)), (Stage::Over, 0));
    }
}

/// A link that is to end does so from each stage, and is over once the turn back is made.
#[test]
fn a_link_ends_from_each_stage() {
    let back = Turn::new(1, Way::Switch);
    // Nothing is under way.
    for is_allowing in [false, true] {
        let s = Shared::new();
        vms_say(&s, Turn::new(0, Way::Switch));
        let mut d = director(&s, 0, 0);
        assert!(!is_allowing || d.go(0));
        assert_eq!((d.end(0), d.stage()), (Todo::Nothing, Stage::Over));
        assert_eq!((turn(&s), peek(&s.b_host, header::LINK_IN)), (None, 0));
    }
    // An epoch is: going, direct, going back, forced, of an earlier manager.
    for stage in 0..5 {
        let (s, mut d) = direct();
        match stage {
            0 => poke(&s.b, header::OPEN, 0),
            2 => d.back(0),
            3 => {
                d.back(0);
                d.look(SILENCE_MS, true);
            }
            4 => d = director(&s, 1, 0),
            _ => {}
        }
        assert_eq!(d.end(0), Todo::Force(1), "{:?}", d.stage());
        assert_eq!(turn(&s), Some(back));
        assert_eq!(peek(&s.b_host, header::LINK_IN), LINK);
        d.forced();
        assert_eq!((d.stage(), peek(&s.b_host, header::LINK_IN)), (Stage::Over, 0));
        assert!(!d.go(0));
        assert_eq!((d.end(0), d.epoch()), (Todo::Nothing, None));
    }
}
