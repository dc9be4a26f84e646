//! What another manager goes on with.

use super::*;

/// Killed before it had set a channel's pages to zero, and before it had
/// started the service: the next manager does both.
#[test]
fn a_channel_begins_with_zeros_whichever_manager_opens_it() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let g = b.negotiate(1, s, want("add")).unwrap();
    b.ask(1, Kind::Activate, s, g.grant.as_bytes());
    b.restore_from(&b.notes.clone());
    let out = b.feed(Event::Resume { alive: vec![] });
    assert!(out.iter().any(|a| matches!(a, Action::StartService { .. })), "{out:?}");
    let out = b.feed(Event::ServiceReady { service: 1 });
    assert!(out.iter().any(|a| matches!(a, Action::Zero { .. })), "{out:?}");
}

/// A request that was acted upon but not answered is read again by the next
/// manager: it gets the same answer, and nothing is given twice.
#[test]
fn what_is_read_again_is_answered_the_same() {
    let mut b = Bed::new();
    let hello = b.hello(1, b"").unwrap();
    let session = hello.session.get();
    let out = b.ask(1, Kind::Negotiate, session, want("add").as_bytes());
    let first = answer(&out).unwrap();
    b.take_over(|_| true);
    b.seq -= 1;
    let out = b.ask(1, Kind::Negotiate, session, want("add").as_bytes());
    assert_eq!(answer(&out).unwrap(), first);
    assert_eq!(b.core.totals().grants, 1);
    let grant = NegotiateAck::read_from_bytes(&first).unwrap().grant.get();
    let activate = |b: &mut Bed| b.ask(1, Kind::Activate, session, &grant.to_le_bytes());
    activate(&mut b);
    // Killed before the service was started: the next one starts it.
    b.take_over(|_| false);
    b.seq -= 1;
    let silent = activate(&mut b).iter().all(|a| !matches!(a, Action::Answer { .. }));
    assert!(silent, "the answer is due when its service is ready");
    let (service, _) = b.core.services.iter().next().map(|(id, s)| (*id, s.state)).unwrap();
    let out = b.feed(Event::ServiceReady { service });
    let (_, channel) = opened(&out).unwrap();
    let out = b.feed(Event::ChannelOpened { service, channel });
    let ack = answer(&out).unwrap();
    b.take_over(|_| true);
    b.seq -= 1;
    assert_eq!(answer(&activate(&mut b)).unwrap(), ack);
}

/// What a service is told after it was asked is not in its report: it is told
/// when that has come, and of each channel once.
#[test]
fn channels_are_opened_once_whenever_the_report_comes() {
    let mut b = Bed::new();
    let session = b.hello(1, b"").unwrap().session.get();
    let (first, service) = b.active(1, session, "add");
    let second = b.negotiate(1, session, want("add")).unwrap().grant;
    b.restore_from(&b.notes.clone());
    b.feed(Event::Resume { alive: vec![service] });
    assert!(b.core.awaits_report(service));
    let out = b.ask(1, Kind::Activate, session, second.as_bytes());
    assert!(opened(&out).is_none(), "not before it has said what it serves: {out:?}");
    let out = b.feed(Event::Serving { service, channels: vec![first] });
    let opens = out.iter().filter(|a| matches!(a, Action::OpenChannel { .. })).count();
    assert_eq!((opens, opened(&out)), (1, Some((service, Handle(second.get())))));
    let out = b.feed(Event::Serving { service, channels: vec![] });
    assert!(out.is_empty(), "nobody asked: {out:?}");
    answer(&b.feed(Event::ChannelOpened { service, channel: Handle(second.get()) })).unwrap();

    // One that was about to be ready is asked as well.
    let third = b.negotiate(1, session, want("mul")).unwrap().grant;
    let out = b.ask(1, Kind::Activate, session, third.as_bytes());
    let starts = |a: &Action| match a {
        Action::StartService { service, .. } => Some(*service),
        _ => None,
    };
    let new = out.iter().find_map(starts).expect("another function's service");
    b.restore_from(&b.notes.clone());
    b.feed(Event::Resume { alive: vec![service, new] });
    assert!(opened(&b.feed(Event::ServiceReady { service: new })).is_none());
    let out = b.feed(Event::Serving { service: new, channels: vec![] });
    assert_eq!(opened(&out), Some((new, Handle(third.get()))));
}

/// The notes of one event may take several packets, and the manager be killed
/// between two of them.
#[test]
fn grants_whose_end_was_noted_by_half_end() {
    let mut b = Bed::new();
    let session = b.hello(1, b"").unwrap().session.get();
    let (grant, service) = b.active(1, session, "add");
    b.negotiate(1, session, want("add")).unwrap();
    let before = b.notes.clone();
    b.feed(Event::WindowDown { window: 1 });
    let after = b.notes.clone();
    // Grants are noted last; sessions before them, after windows.
    for late in [&["core/grant"][..], &["core/session", "core/grant"]] {
        let mut half = after.clone();
        let is_late = |k: &String| late.iter().any(|l| k.starts_with(l));
        half.extend(before.clone().into_iter().filter(|(k, _)| is_late(k)));
        b.restore_from(&half);
        assert_eq!(b.core.totals().grants, 2);
        b.feed(Event::Resume { alive: vec![service] });
        let out = b.feed(Event::Serving { service, channels: vec![grant] });
        let told =
            |a: &Action| matches!(a, Action::CloseChannel { channel, .. } if *channel == grant);
        assert!(out.iter().any(told), "{out:?}");
        b.feed(Event::ChannelClosed { service, channel: grant });
        assert_eq!((b.core.totals().grants, b.core.totals().sessions), (0, 0));
    }
}

/// Its app may not have been told: the manager was killed before it could.
#[test]
fn a_broken_channel_is_broken_again_for_the_next_manager() {
    let mut b = Bed::new();
    let session = b.hello(1, b"").unwrap().session.get();
    let (channel, service) = b.active(1, session, "add");
    b.feed(Event::ChannelBroken { service, channel, reason: "x".into() });
    b.restore_from(&b.notes.clone());
    let out = b.feed(Event::Resume { alive: vec![service] });
    assert!(out.iter().any(|a| matches!(a, Action::BreakChannel { .. })), "{out:?}");
}

/// A service can name any number: none of them may reach the notes, from which
/// the next manager would make a table of as many places.
#[test]
fn handles_that_a_service_makes_up_are_not_noted() {
    let mut b = Bed::new();
    let session = b.hello(1, b"").unwrap().session.get();
    let (_, service) = b.active(1, session, "add");
    let before = b.notes.clone();
    let channel = Handle::new(u32::MAX, 7);
    b.feed(Event::ChannelOpened { service, channel });
    b.feed(Event::ChannelOpenFailed { service, channel, reason: "x".into() });
    b.feed(Event::ChannelClosed { service, channel });
    b.feed(Event::ChannelBroken { service, channel, reason: "x".into() });
    assert_eq!(b.notes, before);
}

/// A function that was declared anew while no manager was there is served by a
/// new service, as if one had been there.
#[test]
fn a_service_of_what_a_function_was_before_gets_no_more_channels() {
    let mut b = Bed::new();
    let session = b.hello(1, b"").unwrap().session.get();
    let (channel, service) = b.active(1, session, "add");
    for (deadline_ms, same) in [(1000, true), (500, false)] {
        let mut anew = catalog();
        anew.functions.get_mut("add").unwrap().deadline_ms = deadline_ms;
        let notes = b.notes.clone();
        let notes = notes.iter().map(|(name, note)| (name.as_str(), note.as_str()));
        b.core = Core::restore(b.now, 8, anew, notes).unwrap();
        b.feed(Event::Resume { alive: vec![service] });
        b.feed(Event::Serving { service, channels: vec![channel] });
        assert_eq!(b.active(1, session, "add").1 == service, same);
    }
}
