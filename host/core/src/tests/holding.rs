//! VFs, and memory of the manager, that a client or its service would keep for good.

use super::leases::*;
use super::policy::why;
use super::*;
use crate::leases::Usage;
use crate::limits::LEASE_LOST_MOST_MS;
use crate::policy::parse;
use crate::services::{CLOSE_GRACE_MS, LINGER_MS, START_MS, WARMING_MS};
use std::path::Path;
use vfun_leases::Policy;

const MOST: u64 = START_MS + CLOSE_GRACE_MS;

fn ends(b: &mut Bed, grant: Handle, service: ServiceId, session: u64) {
    b.ask(1, Kind::Release, session, grant.0.as_bytes());
    b.feed(Event::ChannelClosed { service, channel: grant });
    assert!(b.core.grants.get(grant).is_err());
}

#[test]
fn who_was_given_a_vf_and_never_serves_is_ended() {
    let (mut b, s) = bed(Policy::First);
    let (grant, from, to) = handing(&mut b, s);
    let out = b.feed(Event::ChannelClosed { service: from, channel: grant });
    assert!(out.iter().any(|a| matches!(a, Action::TakeUp { .. })), "{out:?}");
    decide(&mut b, 100);
    assert!(!killed(&decide(&mut b, MOST), to), "its first call may take long");
    assert!(killed(&decide(&mut b, 1 + MOST), to));
    b.feed(Event::ServiceExited { service: to, exit: Exit::Signal(9) });
    let g = b.core.grants.get(grant).unwrap();
    assert_eq!((g.vf(), g.subject.location), (None, Location::Software));
}

#[test]
fn a_vf_of_a_grant_that_ended_is_not_kept_by_a_service_that_has_others() {
    for broken in [false, true] {
        let (mut b, s) = bed(Policy::First);
        let (grant, hardware, _) = on_a_vf(&mut b, s);
        // A second one on the same service, which goes on.
        let g = b.negotiate(1, s, want("fast")).unwrap().grant;
        let out = b.ask(1, Kind::Activate, s, g.as_bytes());
        play(&mut b, out, |_| false);
        let second = Handle(g.get());
        assert_eq!(b.core.grants.get(second).unwrap().service(), Some(hardware));
        match broken {
            false => drop(b.ask(1, Kind::Release, s, grant.0.as_bytes())),
            true => {
                let (service, reason) = (hardware, "x".to_owned());
                drop(b.feed(Event::ChannelBroken { service, channel: grant, reason }));
            }
        }
        assert!(b.core.needs_tick(), "broken: {broken}");
        b.now += MOST;
        assert!(!killed(&b.feed(Event::Tick), hardware), "a call may be under way");
        b.now += 1;
        assert!(killed(&b.feed(Event::Tick), hardware), "broken: {broken}");
        b.feed(Event::ServiceExited { service: hardware, exit: Exit::Signal(9) });
        assert!(b.core.grants().all(|(_, g)| g.vf().is_none()), "broken: {broken}");
        let g = b.core.grants.get(second).unwrap();
        assert_eq!(g.subject.location, Location::Software, "it goes on there");
    }
}

/// One grant is on the only VF, another one's calls crash the software again and again.
#[test]
fn a_vf_is_not_kept_by_crashing_the_software() {
    let (mut b, s) = bed(Policy::First);
    b.feed(Event::Catalog(with_vfs(1)));
    let (on_it, hardware, software) = on_a_vf(&mut b, s);
    let (crashing, service) = b.active(1, s, "fast");
    assert_eq!(service, software);
    while b.core.grants.get(crashing).unwrap().state() != GrantState::Broken {
        let mut out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(11) });
        b.now += 2_000;
        out.extend(b.feed(Event::Tick));
        if started(&out).is_some() {
            b.feed(Event::ServiceReady { service });
            b.feed(Event::ChannelOpened { service, channel: crashing });
        }
    }
    // Nobody else wants it: it stays.
    lease_by(&mut b, Policy::None);
    decide(&mut b, 100);
    assert_eq!(b.core.grants.get(on_it).unwrap().state(), GrantState::Active);
    let other = b.hello(2, b"secret").unwrap().session.get();
    let (waits, _) = b.active(2, other, "fast");
    lease_by(&mut b, Policy::Activity);
    let out: Vec<_> = (1..=2)
        .flat_map(|n| {
            b.now += 100;
            let busy = Usage { calls: n * 100, ..Usage::default() };
            b.feed(Event::Usage { values: vec![(waits, busy)] })
        })
        .collect();
    let told =
        |a: &Action| matches!(a, Action::CloseChannel { service, .. } if *service == hardware);
    assert!(out.iter().any(told), "{out:?}");
    assert_eq!(b.core.grants.get(on_it).unwrap().state(), GrantState::Broken);
    let said = why(&out, on_it).unwrap();
    assert_eq!(said, "its VF is lent to another, and its software crashed too often");
    // Its app is answered by the service, or when that has let go: never by both.
    let answers = |a: &Action| matches!(a, Action::BreakChannel { .. });
    assert!(!out.iter().any(answers), "{out:?}");
    // Why does not depend on when that is.
    b.now += 60_000;
    let out = b.feed(Event::ChannelClosed { service: hardware, channel: on_it });
    let told =
        |a: &Action| matches!(a, Action::BreakChannel { reason: BreakReason::CrashLoop, .. });
    assert!(out.iter().any(told), "{out:?}");
    let g = b.core.grants.get(waits).unwrap();
    assert!(g.vf() == Some(0) && g.moving().is_some(), "{g:?}");
}

/// The starts of the client whose grant is on the only VF are always used up.
#[test]
fn a_vf_is_not_kept_by_using_up_the_starts() {
    for lent in [true, false] {
        let (mut b, s) = bed(Policy::First);
        b.feed(Event::Catalog(with_vfs(1)));
        let (on_it, hardware, software) = on_a_vf(&mut b, s);
        // Nothing was left for its service in software to do: it would have to be started.
        b.now += 2 * LINGER_MS;
        b.feed(Event::Tick);
        b.feed(Event::ServiceExited { service: software, exit: Exit::Code(0) });
        let other = b.hello(2, b"secret").unwrap().session.get();
        let (waits, _) = b.active(2, other, "fast");
        lease_by(&mut b, if lent { Policy::Activity } else { Policy::None });
        let began = b.now;
        let mut left = None;
        for n in 1..=2 * WARMING_MS / 100 {
            while b.core.starts.take(b.now, Owner::Client(1)) {}
            b.now += 100;
            while b.core.starts.take(b.now, Owner::Client(1)) {}
            let busy = Usage { calls: n * 100, ..Usage::default() };
            let mut out = b.feed(Event::Tick);
            out.extend(b.feed(Event::Usage { values: vec![(waits, busy)] }));
            let told = |a: &Action| matches!(a, Action::CloseChannel { service, .. } if *service == hardware);
            if left.is_none() && out.iter().any(told) {
                left = Some(b.now - began);
                let said = why(&out, on_it).unwrap();
                assert!(said.starts_with("its VF is lent to another, and its software"), "{said}");
                assert!(said.ends_with("its client used up its service starts"), "{said}");
            }
        }
        let state = b.core.grants.get(on_it).unwrap().state();
        if !lent {
            assert_eq!((left, state), (None, GrantState::Active), "nobody else wants it: it stays");
            continue;
        }
        assert!(left.is_some_and(|ms| ms > WARMING_MS), "{left:?}");
        assert_eq!(state, GrantState::Broken);
        let out = b.feed(Event::ChannelClosed { service: hardware, channel: on_it });
        let told =
            |a: &Action| matches!(a, Action::BreakChannel { reason: BreakReason::NoService, .. });
        assert!(out.iter().any(told), "its software was never started: {out:?}");
        let g = b.core.grants.get(waits).unwrap();
        assert!(g.vf() == Some(0) && g.moving().is_some(), "{g:?}");
    }
}

#[test]
fn who_has_let_go_of_hardware_that_is_not_leased_is_not_ended() {
    let (mut b, s) = bed(Policy::First);
    let hard = Negotiate { preference: 1, ..want("fast") };
    let grant = b.negotiate(1, s, hard).unwrap().grant;
    let out = b.ask(1, Kind::Activate, s, grant.as_bytes());
    play(&mut b, out, |_| false);
    let grant = Handle(grant.get());
    let service = b.core.grants.get(grant).unwrap().service().expect("it serves");
    assert!(b.core.grants.get(grant).unwrap().vf().is_some());
    b.feed(Event::ChannelBroken { service, channel: grant, reason: "x".into() });
    b.feed(Event::ChannelClosed { service, channel: grant });
    b.now += MOST + 1;
    assert!(!killed(&b.feed(Event::Tick), service));
    // Nobody is on it: another manager tells its app at once that it is broken.
    let out = restart(&mut b, &[(service, &[])]);
    let told = |a: &Action| matches!(a, Action::BreakChannel { .. });
    assert!(out.iter().any(told), "{out:?}");
    b.ask(1, Kind::Release, s, grant.0.as_bytes());
    assert!(b.core.grants.get(grant).is_err(), "nothing is waited for");
}

#[test]
fn another_manager_tells_a_service_again_before_it_ends_it() {
    let (mut b, s) = bed(Policy::First);
    let (grant, hardware, software) = on_a_vf(&mut b, s);
    b.feed(Event::ChannelBroken { service: hardware, channel: grant, reason: "x".into() });
    b.now += 10 * MOST;
    let out = restart(&mut b, &[(hardware, &[grant]), (software, &[])]);
    let told = |a: &Action| matches!(a, Action::CloseChannel { service, channel } if (*service, *channel) == (hardware, grant));
    assert!(out.iter().any(told), "{out:?}");
    assert!(!killed(&b.feed(Event::Tick), hardware), "it has had no time");
    b.now += MOST + 1;
    assert!(killed(&b.feed(Event::Tick), hardware));
}

#[test]
fn who_does_what_it_is_told_each_time_is_not_ended_for_all_of_it_together() {
    // The steps of one move.
    let (mut b, s) = bed(Policy::First);
    let (grant, from, to) = standing_by(&mut b, s);
    decide(&mut b, 1);
    assert!(!killed(&decide(&mut b, MOST * 3 / 4), to), "its driver's init takes its time");
    b.feed(Event::ChannelStanding { service: to, channel: grant });
    assert!(!killed(&decide(&mut b, MOST * 3 / 4), from), "so does the call under way");
    // One move after the other.
    let (mut b, s) = bed(Policy::First);
    let (grant, from, to) = handing(&mut b, s);
    b.feed(Event::ChannelOpened { service: to, channel: grant });
    let (mut leaves, mut serves) = (from, to);
    for round in 0..10 {
        lease_by(&mut b, if round % 2 == 0 { Policy::None } else { Policy::First });
        let out = decide(&mut b, MOST / 2);
        assert!(!killed(&out, leaves) && !killed(&out, serves), "round {round}");
        // Its driver's exit is done, and it goes back at once.
        b.feed(Event::ChannelClosed { service: leaves, channel: grant });
        b.feed(Event::ChannelStanding { service: leaves, channel: grant });
        b.feed(Event::ChannelOpened { service: leaves, channel: grant });
        (leaves, serves) = (serves, leaves);
        assert_eq!(b.core.grants.get(grant).unwrap().service(), Some(serves), "round {round}");
    }
}

#[test]
fn a_client_that_comes_anew_has_its_failures_still() {
    let (mut b, s) = bed(Policy::First);
    b.feed(Event::Catalog(with_vfs(1)));
    let (grant, hardware, software) = on_a_vf(&mut b, s);
    let reason = "gone".to_owned();
    b.feed(Event::ChannelLost { service: hardware, channel: grant, reason });
    b.feed(Event::ChannelOpened { service: software, channel: grant });
    ends(&mut b, grant, software, s);
    assert_eq!(b.core.leases_due(), None, "nothing is to be decided");
    let (grant, _) = b.active(1, s, "fast");
    assert_eq!(b.core.grants.get(grant).unwrap().moving(), None, "it is set aside still");
    assert_eq!(b.core.devices(b.now)[0].kept_off.len(), 1);
    ends(&mut b, grant, software, s);
    // They are forgotten in the end, with all that was kept of the device.
    b.now += 2 * LEASE_LOST_MOST_MS;
    b.feed(Event::Tick);
    assert!(b.core.devices(b.now).is_empty());
}

#[test]
fn nothing_is_kept_of_grants_that_are_gone() {
    let (mut b, s) = bed(Policy::First);
    let other = b.hello(2, b"secret").unwrap().session.get();
    b.active(2, other, "fast");
    let mut c = leased();
    let text = "[client.vm1]\nhardware = false";
    c.policy = parse(Path::new("policy.toml"), text).unwrap();
    for denied in [true, false] {
        if !denied {
            c.policy = Default::default();
        }
        b.feed(Event::Catalog(c.clone()));
        for _ in 0..20 {
            let (grant, service) = b.active(1, s, "fast");
            decide(&mut b, 100);
            b.ask(1, Kind::Release, s, grant.0.as_bytes());
            // The service has not let go of it yet.
            decide(&mut b, 100);
            let beside = b.core.grants.get(grant).unwrap().also();
            for service in beside.into_iter().chain([service]) {
                b.feed(Event::ChannelClosed { service, channel: grant });
            }
            assert!(b.core.grants.get(grant).is_err(), "denied: {denied}");
        }
        decide(&mut b, 100);
        assert!(b.core.told_of_leases() <= b.core.grants().count(), "denied: {denied}");
    }
}

/// Of what ended at once only a part may have been noted: the end of a service, and not
/// that its broken grant lost it.
#[test]
fn a_broken_grant_whose_service_nobody_knows_gives_its_vf_back() {
    let (mut b, s) = bed(Policy::First);
    let (grant, hardware, software) = on_a_vf(&mut b, s);
    b.feed(Event::ChannelBroken { service: hardware, channel: grant, reason: "x".into() });
    assert_eq!(b.core.grants.get(grant).unwrap().vf(), Some(0), "its service may be on it");
    b.notes.remove(&format!("core/service/{hardware}"));
    restart(&mut b, &[(software, &[])]);
    let g = b.core.grants.get(grant).unwrap();
    assert_eq!((g.state(), g.service(), g.vf()), (GrantState::Broken, None, None));

    // The same where two services are to part from it, and one or both are unknown.
    for both in [false, true] {
        let (mut b, s) = bed(Policy::First);
        let (grant, from, to) = handing(&mut b, s);
        b.feed(Event::ChannelBroken { service: from, channel: grant, reason: "x".into() });
        let g = b.core.grants.get(grant).unwrap();
        assert_eq!((g.also(), g.vf()), (Some(to), Some(0)));
        b.notes.remove(&format!("core/service/{to}"));
        if both {
            b.notes.remove(&format!("core/service/{from}"));
        }
        let has = [grant];
        let alive: &[(ServiceId, &[Handle])] = if both { &[] } else { &[(from, &has)] };
        restart(&mut b, alive);
        let g = b.core.grants.get(grant).unwrap();
        let service = if both { None } else { Some(from) };
        assert_eq!((g.state(), g.service(), g.also()), (GrantState::Broken, service, None));
        assert_eq!(g.vf(), None, "nobody is on it");
    }
}
