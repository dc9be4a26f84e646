//! Services that do not run: stopped, stuck or taken over.

use super::*;
use crate::services::{LIFE_AFTER_MS, LIFE_MS, OVERDUE_MS, STARTING_MS};
use crate::watch::Progress;

/// A deadline of the functions here.
const DEADLINE: u64 = 1000;

fn killed(out: &[Action]) -> bool {
    out.iter().any(|a| matches!(a, Action::KillService { .. }))
}

impl Bed {
    fn look(&mut self, channel: Handle, calls: u64, waits: bool, begun: bool) -> Vec<Action> {
        self.feed(Event::Progress { values: vec![(channel, Progress { calls, waits, begun })] })
    }
}

#[test]
fn a_call_that_stays_begun_beyond_its_deadline_ends_its_service() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (grant, service) = b.active(1, s, "add");
    assert_eq!(b.core.watched().count(), 1);
    b.look(grant, 5, true, true);
    b.now += DEADLINE + OVERDUE_MS - 1;
    // Another call by now.
    assert!(!killed(&b.look(grant, 6, true, true)));
    assert_eq!(b.core.progress_due(), Some(b.now + DEADLINE + OVERDUE_MS));
    b.now += DEADLINE + OVERDUE_MS - 1;
    assert!(!killed(&b.look(grant, 6, true, true)));
    b.now += 1;
    assert!(killed(&b.look(grant, 6, true, true)));
    b.now += DEADLINE;
    assert!(!killed(&b.look(grant, 6, true, true)), "once is enough");
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
    assert!(out.iter().any(|a| matches!(a, Action::FailCurrent { status: Status::Deadline, .. })));
    assert!(out.iter().any(|a| matches!(a, Action::StartService { .. })));
}

#[test]
fn a_call_that_is_not_begun_is_pointed_at_before_its_service_is_ended() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (grant, service) = b.active(1, s, "add");
    b.look(grant, 0, true, false);
    b.now += DEADLINE + OVERDUE_MS;
    let out = b.look(grant, 0, true, false);
    assert!(matches!(out[..], [Action::Look { channel, .. }] if channel == grant), "{out:?}");
    b.now += OVERDUE_MS - 1;
    assert!(b.look(grant, 0, true, false).is_empty());
    b.now += 1;
    assert!(killed(&b.look(grant, 0, true, false)));
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
    assert!(!out.iter().any(|a| matches!(a, Action::FailCurrent { status: Status::Deadline, .. })));
}

#[test]
fn a_service_that_owes_an_answer_is_asked_for_a_sign_of_life_and_ended_without() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (_, service) = b.active(1, s, "add");
    let g = b.negotiate(1, s, want("add")).unwrap();
    b.ask(1, Kind::Activate, s, g.grant.as_bytes());
    let mut asked = 0;
    let mut wait = |b: &mut Bed, ms: u64, answers: bool| {
        for _ in 0..ms / 20 {
            b.now += 20;
            let out = b.feed(Event::Tick);
            if out.iter().any(|a| matches!(a, Action::AskLife { .. })) {
                asked += 1;
                if answers {
                    b.feed(Event::ServiceAlive { service });
                }
            }
            if killed(&out) {
                return true;
            }
        }
        false
    };
    let enough = LIFE_AFTER_MS + LIFE_MS + 100;
    assert!(!wait(&mut b, enough, true), "one whose driver takes its time answers that");
    assert!(wait(&mut b, enough, false));
    assert!(asked > 1);
    // The next one opens what this one did not, and nobody is refused.
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
    assert!(!out.iter().any(|a| matches!(a, Action::Answer { .. })), "{out:?}");
    let out = b.feed(Event::ServiceReady { service });
    assert!(
        out.iter().any(
            |a| matches!(a, Action::OpenChannel { channel, .. } if channel.0 == g.grant.get())
        )
    );
}

#[test]
fn a_service_that_does_not_let_go_of_a_channel_is_ended_though_it_serves_another() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (other, service) = b.active(1, s, "add");
    let (grant, same) = b.active(1, s, "add");
    assert_eq!(service, same);
    b.ask(1, Kind::Release, s, grant.0.to_le_bytes().as_slice());
    let mut ended = None;
    for _ in 0..1000 {
        b.now += 20;
        let out = b.feed(Event::Tick);
        if out.iter().any(|a| matches!(a, Action::AskLife { .. })) {
            b.feed(Event::ServiceAlive { service });
        }
        if killed(&out) {
            ended.get_or_insert(b.now);
        }
    }
    assert!(ended.is_some_and(|at| at > 2 * DEADLINE), "{ended:?}");
    b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
    assert!(b.core.grants().all(|(h, g)| h == other && g.state() == GrantState::Recovering));
}

#[test]
fn an_activation_that_takes_its_time_is_said_to_and_goes_on() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let g = b.negotiate(1, s, want("add")).unwrap();
    b.ask(1, Kind::Activate, s, g.grant.as_bytes());
    b.feed(Event::Tick);
    b.now += STARTING_MS;
    let nack = answer(&b.feed(Event::Tick)).unwrap_err();
    assert_eq!(nack.code, NackCode::Starting);
    assert!(nack.sentence.contains("service/vm1/add.log"), "{nack}");
    assert!(b.ask(1, Kind::Activate, s, g.grant.as_bytes()).is_empty(), "it waits again");
    b.feed(Event::ServiceReady { service: 1 });
    let channel = Handle(g.grant.get());
    answer(&b.feed(Event::ChannelOpened { service: 1, channel })).unwrap();
    // And where nobody waited when it was done.
    let g = b.negotiate(1, s, want("mul")).unwrap();
    b.ask(1, Kind::Activate, s, g.grant.as_bytes());
    b.feed(Event::Tick);
    b.now += STARTING_MS;
    answer(&b.feed(Event::Tick)).unwrap_err();
    b.feed(Event::ServiceReady { service: 2 });
    b.feed(Event::ChannelOpened { service: 2, channel: Handle(g.grant.get()) });
    // Also while its service is started again.
    b.feed(Event::ServiceExited { service: 2, exit: Exit::Signal(11) });
    answer(&b.ask(1, Kind::Activate, s, g.grant.as_bytes())).unwrap();
}

#[test]
fn a_driver_that_does_not_open_a_channel_in_time_is_not_asked_again_for_ever() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let g = b.negotiate(1, s, want("add")).unwrap();
    b.ask(1, Kind::Activate, s, g.grant.as_bytes());
    b.feed(Event::ServiceReady { service: 1 });
    b.feed(Event::CallOverran { service: 1, channel: Handle(g.grant.get()) });
    let nack =
        answer(&b.feed(Event::ServiceExited { service: 1, exit: Exit::Code(EXIT_DEADLINE) }));
    let nack = nack.unwrap_err();
    assert!(nack.sentence.contains("did not open the channel in time"), "{nack}");
}
