//! Services that crash, hang or cannot be started.

use super::*;

#[test]
fn a_crash_fails_the_current_call_and_the_service_comes_back() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (grant, service) = b.active(1, s, "add");
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(11) });
    assert!(
        out.iter().any(|a| matches!(a, Action::FailCurrent { status: Status::DriverCrashed, .. }))
    );
    assert!(out.iter().any(|a| matches!(a, Action::StartService { .. })));
    assert!(!out.iter().any(|a| matches!(a, Action::Zero { .. })), "calls in flight stay");
    let out = b.feed(Event::ServiceReady { service });
    assert_eq!(opened(&out), Some((service, grant)));
    b.feed(Event::ChannelOpened { service, channel: grant });
    assert_eq!(b.core.grants().next().unwrap().1.restarts, 1);
}

#[test]
fn a_deadline_blames_the_call_that_overran_and_no_other() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (slow, service) = b.active(1, s, "add");
    let (_other, same) = b.active(1, s, "add");
    assert_eq!(service, same, "one service for a client and function");
    b.feed(Event::CallOverran { service, channel: slow });
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Code(EXIT_DEADLINE) });
    let statuses: Vec<_> = out
        .iter()
        .filter_map(|a| match a {
            Action::FailCurrent { status, .. } => Some(*status),
            _ => None,
        })
        .collect();
    assert_eq!(statuses, [Status::Deadline, Status::ServiceLost]);
}

#[test]
fn a_crash_loop_breaks_the_channel_and_release_still_works() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (grant, service) = b.active(1, s, "add");
    for i in 0..=CRASHES_MAX {
        b.now += 3000;
        b.feed(Event::Tick);
        b.feed(Event::ServiceReady { service });
        b.feed(Event::ChannelOpened { service, channel: grant });
        let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(6) });
        let broken = out
            .iter()
            .any(|a| matches!(a, Action::BreakChannel { reason: BreakReason::CrashLoop, .. }));
        assert_eq!(broken, i == CRASHES_MAX, "after {i} crashes");
    }
    let out = b.ask(1, Kind::Release, s, grant.0.to_le_bytes().as_slice());
    assert!(matches!(out[0], Action::AnswerStats { .. }));
    assert_eq!(b.core.totals(), Totals { windows: 2, sessions: 1, ..Totals::default() });
}

#[test]
fn a_driver_that_cannot_load_is_a_nack_with_its_reason_and_costs_nothing() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let g = b.negotiate(1, s, want("add")).unwrap();
    let out = b.ask(1, Kind::Activate, s, g.grant.as_bytes());
    assert!(out.iter().any(|a| matches!(a, Action::StartService { .. })));
    let out = b.feed(Event::ServiceFailed { service: 1, reason: "symbol missing".into() });
    let nack = answer(&out).unwrap_err();
    assert_eq!((nack.code, nack.sentence.as_str()), (NackCode::ServiceFailed, "symbol missing"));
    assert_eq!((b.core.totals().bytes, b.core.totals().services), (0, 0));
    let again = b.ask(1, Kind::Activate, s, g.grant.as_bytes());
    assert!(
        again.iter().any(|a| matches!(a, Action::StartService { .. })),
        "it may be tried again"
    );
}

/// Crashes `service` as often as it is started again, at once each time.
fn crash_until_open(b: &mut Bed, service: ServiceId) {
    for _ in 0..=CRASHES_MAX {
        b.feed(Event::ServiceExited { service, exit: Exit::Signal(11) });
        for _ in 0..200 {
            b.now += 20;
            b.feed(Event::Tick);
        }
        b.feed(Event::ServiceReady { service });
    }
}

#[test]
fn crashes_are_counted_whoever_releases_what_meanwhile() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    for _ in 0..=CRASHES_MAX {
        let (grant, service) = b.active(1, s, "add");
        b.feed(Event::ServiceExited { service, exit: Exit::Signal(11) });
        // Everything is given back while it waits for its next start, which
        // comes to nothing.
        b.ask(1, Kind::Release, s, grant.0.as_bytes());
        b.feed(Event::ServiceFailed { service, reason: "nobody wants it".into() });
        b.now += 3_000;
        b.feed(Event::Tick);
    }
    assert_eq!(b.core.grants().count(), 0);
    let refused = b.negotiate(1, s, want("add")).unwrap_err();
    assert_eq!(refused.code, NackCode::ServiceFailed);
    assert!(refused.sentence.contains("tried again in"), "{refused}");
    b.active(1, s, "mul");
    let s2 = b.hello(2, b"secret").unwrap().session.get();
    b.active(2, s2, "add");
    // Another manager does not forget it either.
    b.take_over(|_| true);
    assert!(b.negotiate(1, s, want("add")).is_err());
    b.now += OPEN_MS;
    let (_, service) = b.active(1, s, "add");
    b.feed(Event::ServiceExited { service, exit: Exit::Signal(11) });
    let refused = b.negotiate(1, s, want("add")).unwrap_err();
    assert!(refused.sentence.contains(&format!("in {} ms", 2 * OPEN_MS)), "{refused}");
}

#[test]
fn a_crash_loop_opens_the_breaker_and_a_trial_that_lives_closes_it() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (grant, service) = b.active(1, s, "add");
    crash_until_open(&mut b, service);
    assert_eq!(b.core.grants().next().unwrap().1.state(), GrantState::Broken);
    assert_eq!(b.core.breakers(b.now).count(), 1);
    b.ask(1, Kind::Release, s, grant.0.as_bytes());
    b.now += 2 * OPEN_MS;
    let (_, service) = b.active(1, s, "add");
    b.now += super::breakers::CRASH_WINDOW_MS;
    b.feed(Event::Tick);
    assert_eq!(b.core.breakers(b.now).count(), 0);
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(11) });
    assert!(out.iter().any(|a| matches!(a, Action::StartService { .. })), "{out:?}");
}

#[test]
fn a_host_without_means_to_start_a_service_says_so_and_tries_again() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let reason = || "there is no process to be had".to_owned();
    // One that waits for its activation is told.
    let g = b.negotiate(1, s, want("add")).unwrap();
    let out = b.ask(1, Kind::Activate, s, g.grant.as_bytes());
    assert!(out.iter().any(|a| matches!(a, Action::StartService { service: 1, .. })));
    let out = b.feed(Event::ServiceDelayed { service: 1, reason: reason() });
    let nack = answer(&out).unwrap_err();
    assert_eq!(nack.code, NackCode::NoCapacity);
    assert!(nack.sentence.contains("no process"), "{nack}");
    assert_eq!((b.core.totals().services, b.core.totals().bytes), (0, 0));
    b.ask(1, Kind::Release, s, g.grant.as_bytes());
    // One that had a service waits for the next.
    let (grant, service) = b.active(1, s, "add");
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
    assert!(out.iter().any(|a| matches!(a, Action::StartService { .. })));
    let mut tries = 0;
    let began = b.now;
    while b.core.totals().services > 0 && tries < 1000 {
        let mut started = false;
        b.feed(Event::ServiceDelayed { service, reason: reason() });
        while !started && b.core.totals().services > 0 && b.now < began + 200_000 {
            b.now += 20;
            let out = b.feed(Event::Tick);
            started = out.iter().any(|a| matches!(a, Action::StartService { .. }));
        }
        tries += 1;
        if b.now - began > 5_000 && tries < 100 {
            // There is one again: it goes on as if nothing had been.
            let out = b.feed(Event::ServiceReady { service });
            assert_eq!(opened(&out), Some((service, grant)));
            b.feed(Event::ChannelOpened { service, channel: grant });
            break;
        }
    }
    assert!((5..50).contains(&tries), "{tries} tries in 5 s");
    assert_eq!(b.core.grants().next().unwrap().1.state(), GrantState::Active);
    assert_eq!(b.core.breakers(b.now).count(), 0, "no driver crashed");
}

#[test]
fn services_of_one_client_start_at_a_bounded_rate() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let starts =
        |out: &[Action]| out.iter().filter(|a| matches!(a, Action::StartService { .. })).count();
    let began = b.now;
    let mut started = 0;
    // One that asks again each time its service could not load.
    for _ in 0..500 {
        let Ok(g) = b.negotiate(1, s, want("add")) else { break };
        let out = b.ask(1, Kind::Activate, s, g.grant.as_bytes());
        started += starts(&out);
        let service = b.core.services.keys().next().copied().unwrap_or(0);
        b.feed(Event::ServiceFailed { service, reason: "no".into() });
        b.ask(1, Kind::Release, s, g.grant.as_bytes());
        b.now += 1;
    }
    let may = u64::from(crate::limits::STARTS.burst) + (b.now - began) / 100 + 1;
    assert!(started as u64 <= may, "{started} starts where {may} are allowed");
    // Another client is not kept waiting, and this one is served in its time.
    let s2 = b.hello(2, b"secret").unwrap().session.get();
    b.active(2, s2, "add");
    let g = b.negotiate(1, s, want("mul")).unwrap();
    let mut started = starts(&b.ask(1, Kind::Activate, s, g.grant.as_bytes()));
    for _ in 0..20 {
        b.now += 20;
        started += starts(&b.feed(Event::Tick));
    }
    assert_eq!(started, 1);
}
