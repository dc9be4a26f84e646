//! Leases and moves: what is not to last for ever, and what is not to move.

use super::policy::why;
use super::*;
use crate::leases::Usage;
use crate::policy::parse;
use crate::services::{CLOSE_GRACE_MS, START_MS};
use crate::switch::Phase;
use std::collections::VecDeque;
use std::path::Path;
use vfun_leases::{Policy, Settings};

/// The catalog with `fast` leased, on two VFs.
pub(super) fn leased() -> Catalog {
    let mut c = catalog();
    c.clients.get_mut(&2).unwrap().functions.push("fast".into());
    let hardware = c.functions.get_mut("fast").unwrap().hardware.as_mut().unwrap();
    (hardware.leased, hardware.instances) = (true, 2);
    c
}

pub(super) fn with_vfs(vfs: u32) -> Catalog {
    let mut c = leased();
    c.functions.get_mut("fast").unwrap().hardware.as_mut().unwrap().instances = vfs;
    c
}

pub(super) fn bed(policy: Policy) -> (Bed, u64) {
    let mut b = Bed::new();
    b.feed(Event::Catalog(leased()));
    lease_by(&mut b, policy);
    let session = b.hello(1, b"").unwrap().session.get();
    (b, session)
}

pub(super) fn lease_by(b: &mut Bed, policy: Policy) {
    let settings = Settings { policy, interval_ms: 100, min_hold_ms: 0, ..Settings::default() };
    b.core.set_leases(settings).unwrap();
}

/// Time passes, and the counters are read once more.
pub(super) fn decide(b: &mut Bed, ms: u64) -> Vec<Action> {
    b.now += ms;
    let values = b.core.grants().map(|(h, _)| (h, Usage::default())).collect();
    b.feed(Event::Usage { values })
}

pub(super) fn started(out: &[Action]) -> Option<ServiceId> {
    out.iter().find_map(|a| match a {
        Action::StartService { service, .. } => Some(*service),
        _ => None,
    })
}

pub(super) fn killed(out: &[Action], id: ServiceId) -> bool {
    out.iter().any(|a| matches!(a, Action::KillService { service } if *service == id))
}

/// A grant in software whose hardware service was just told to stand by: the
/// grant, who serves it, who is to stand by.
pub(super) fn standing_by(b: &mut Bed, session: u64) -> (Handle, ServiceId, ServiceId) {
    let (grant, from) = b.active(1, session, "fast");
    let to = b.core.grants.get(grant).unwrap().moving().expect("a move to a VF begins").service;
    let out = b.feed(Event::ServiceReady { service: to });
    assert_eq!(opened(&out), Some((to, grant)), "it is to stand by");
    (grant, from, to)
}

/// The same, further: whoever serves it was told to hand it over.
pub(super) fn handing(b: &mut Bed, session: u64) -> (Handle, ServiceId, ServiceId) {
    let (grant, from, to) = standing_by(b, session);
    let out = b.feed(Event::ChannelStanding { service: to, channel: grant });
    let told = |a: &Action| matches!(a, Action::HandOver { service, .. } if *service == from);
    assert!(out.iter().any(told), "{out:?}");
    (grant, from, to)
}

/// On a VF: the grant, the hardware's service, the software's.
pub(super) fn on_a_vf(b: &mut Bed, session: u64) -> (Handle, ServiceId, ServiceId) {
    let (grant, from, to) = handing(b, session);
    b.feed(Event::ChannelOpened { service: to, channel: grant });
    b.feed(Event::ChannelClosed { service: from, channel: grant });
    let g = b.core.grants.get(grant).unwrap();
    assert_eq!((g.subject.location, g.vf(), g.moving()), (Location::FpgaSimulated, Some(0), None));
    (grant, to, from)
}

#[test]
fn both_services_of_a_move_are_let_go_of_when_the_window_is_gone() {
    let (mut b, s) = bed(Policy::First);
    let (grant, from, to) = handing(&mut b, s);
    let letting_go = |b: &Bed| -> BTreeSet<ServiceId> {
        b.core.letting_go(|h| (h.client_id, h.window) == (1, 1)).collect()
    };
    assert_eq!(letting_go(&b), [].into(), "the window is there");
    b.feed(Event::WindowDown { window: 1 });
    assert_eq!(letting_go(&b), [from, to].into(), "either may touch it");
    assert_eq!(b.core.letting_go(|h| h.window == 2).count(), 0, "another window's");
    for (service, left) in [(from, vec![to]), (to, vec![])] {
        b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
        assert_eq!(letting_go(&b), left.into_iter().collect(), "{service} is gone");
    }
    assert!(b.core.grants.get(grant).is_err());
}

#[test]
fn who_cannot_be_told_what_a_move_needs_is_not_ended() {
    let most = START_MS + CLOSE_GRACE_MS;
    let (mut b, s) = bed(Policy::First);
    let (_, from, _) = handing(&mut b, s);
    b.core.words_wait(b.now, from, true);
    decide(&mut b, 1);
    assert!(!killed(&decide(&mut b, 3 * most), from), "it does not know of it");
    b.core.words_wait(b.now, from, false);
    assert!(!killed(&decide(&mut b, most), from), "it has been told now");
    assert!(killed(&decide(&mut b, 1 + most), from), "it never handed it over");
}

#[test]
fn who_does_not_do_what_a_move_needs_is_ended() {
    let most = START_MS + CLOSE_GRACE_MS;
    let (mut b, s) = bed(Policy::First);
    let (_, _, to) = standing_by(&mut b, s);
    assert!(!killed(&decide(&mut b, most), to), "it has time for its driver's init");
    assert!(killed(&decide(&mut b, 1 + most), to), "it never stood by");

    let (mut b, s) = bed(Policy::First);
    let (grant, from, to) = handing(&mut b, s);
    assert!(!killed(&decide(&mut b, most), from));
    assert!(killed(&decide(&mut b, 1 + most), from), "it never handed it over");
    // Nothing is lost by its end: the other one takes it up.
    let out = b.feed(Event::ServiceExited { service: from, exit: Exit::Signal(9) });
    let up = |a: &Action| matches!(a, Action::TakeUp { service, .. } if *service == to);
    assert!(out.iter().any(up), "{out:?}");
    assert_eq!(b.core.grants.get(grant).unwrap().service(), Some(to));
}

#[test]
fn a_grant_that_ended_in_a_move_does_not_wait_for_ever() {
    let (mut b, s) = bed(Policy::First);
    let (grant, from, to) = standing_by(&mut b, s);
    b.ask(1, Kind::Release, s, grant.0.as_bytes());
    b.feed(Event::ChannelClosed { service: from, channel: grant });
    assert!(b.core.grants.get(grant).is_ok(), "who was to stand by may touch it still");
    b.now += CLOSE_GRACE_MS + 1;
    assert!(killed(&b.feed(Event::Tick), to));
    b.feed(Event::ServiceExited { service: to, exit: Exit::Signal(9) });
    assert!(b.core.grants.get(grant).is_err());
}

#[test]
fn who_stands_by_hears_of_another_rate() {
    let (mut b, s) = bed(Policy::First);
    let (_, from, to) = handing(&mut b, s);
    let text = "[default]\ncalls_per_s = 7";
    let policy = parse(Path::new("policy.toml"), text).unwrap();
    let out = b.feed(Event::Catalog(Catalog { policy, ..leased() }));
    let told: BTreeSet<_> = out
        .iter()
        .filter_map(|a| match a {
            Action::SetRate { service, calls_per_s: 7, .. } => Some(*service),
            _ => None,
        })
        .collect();
    assert_eq!(told, BTreeSet::from([from, to]));
}

#[test]
fn a_grant_stays_on_what_it_was_granted_when_its_function_changes() {
    for removed in [false, true] {
        let (mut b, s) = bed(Policy::First);
        let (grant, hardware, _) = on_a_vf(&mut b, s);
        let mut c = leased();
        match removed {
            true => drop(c.functions.remove("fast")),
            false => c.functions.get_mut("fast").unwrap().deadline_ms = 77,
        }
        b.feed(Event::Catalog(c));
        lease_by(&mut b, Policy::None);
        for _ in 0..5 {
            let out = decide(&mut b, 100);
            assert_eq!((started(&out), opened(&out)), (None, None), "removed: {removed}");
        }
        assert_eq!(b.core.grants.get(grant).unwrap().service(), Some(hardware));
    }
}

#[test]
fn hardware_that_policy_takes_away_is_taken_from_who_cannot_move() {
    let (mut b, s) = bed(Policy::First);
    let (grant, hardware, _) = on_a_vf(&mut b, s);
    let mut c = leased();
    c.functions.get_mut("fast").unwrap().deadline_ms = 77;
    b.feed(Event::Catalog(c.clone()));
    let text = "[default]\nhardware = false";
    c.policy = parse(Path::new("policy.toml"), text).unwrap();
    let out = b.feed(Event::Catalog(c));
    let closed =
        |a: &Action| matches!(a, Action::CloseChannel { service, .. } if *service == hardware);
    assert!(out.iter().any(closed), "{out:?}");
    assert_eq!(b.core.grants.get(grant).unwrap().state(), GrantState::Closing);
}

/// Under this policy, with a device of the hardware.
fn with_device(policy: &str) -> Catalog {
    let mut c = leased();
    let device = vfun_jail::Device { path: "/dev/vfun0".into(), ioctls: vec![] };
    c.functions.get_mut("fast").unwrap().devices = vec![device];
    c.policy = parse(Path::new("policy.toml"), policy).unwrap();
    c
}

#[test]
fn who_may_move_goes_to_software_when_policy_takes_the_device() {
    let (mut b, s) = bed(Policy::First);
    b.feed(Event::Catalog(with_device("")));
    let (grant, hardware, software) = on_a_vf(&mut b, s);
    let hard = Negotiate { preference: Preference::Hardware.to_wire(), ..want("fast") };
    let pinned = Handle(b.negotiate(1, s, hard).unwrap().grant.get());
    let out = b.feed(Event::Catalog(with_device("[default]\ndevices = []")));
    assert!(b.core.grants.get(pinned).is_err(), "it cannot move");
    play(&mut b, out, |_| false);
    let g = b.core.grants.get(grant).unwrap();
    assert_eq!(
        (g.state(), g.subject.location, g.vf()),
        (GrantState::Active, Location::Software, None)
    );
    assert_ne!(g.service(), Some(hardware));
    assert_eq!(g.service(), Some(software));
    let n = b.negotiate(1, s, hard).unwrap_err();
    assert!(n.code == NackCode::Denied && n.software_instead, "{n}");
    assert!(n.sentence.contains("/dev/vfun0") && n.sentence.contains("devices in [default]"));
}

/// A grant in software never had what its hardware's service loses.
#[test]
fn a_move_to_a_service_that_loses_its_device_is_called_off() {
    for phase in [Phase::Warming, Phase::Standby, Phase::Handing] {
        let (mut b, s) = bed(Policy::First);
        b.feed(Event::Catalog(with_device("")));
        let grant = match phase {
            Phase::Warming => b.active(1, s, "fast").0,
            Phase::Standby => standing_by(&mut b, s).0,
            _ => handing(&mut b, s).0,
        };
        let to = b.core.grants.get(grant).unwrap().moving().unwrap();
        assert_eq!(to.phase, phase);
        let out = b.feed(Event::Catalog(leased()));
        let told = |a: &Action| matches!(a, Action::CloseChannel { service, .. } if *service == to.service);
        assert_eq!(out.iter().any(told), phase != Phase::Warming, "{phase:?}: {out:?}");
        if phase == Phase::Handing {
            assert_eq!(b.core.grants.get(grant).unwrap().state(), GrantState::Closing);
            continue;
        }
        if phase == Phase::Standby {
            b.feed(Event::ChannelClosed { service: to.service, channel: grant });
        }
        let g = b.core.grants.get(grant).unwrap();
        assert_eq!((g.state(), g.moving(), g.vf()), (GrantState::Active, None, None), "{phase:?}");
        assert!(!g.subject.location.is_hardware());
    }
}

/// Two policies that take the hardware of `fast`, both with its device.
const NO_HARDWARE: [&str; 2] = ["[default]\nhardware = false", "[default]\ndevices = []"];

/// The same function under this policy, declared anew.
fn anew(policy: &str) -> Catalog {
    let mut c = with_device(policy);
    c.functions.get_mut("fast").unwrap().deadline_ms = 77;
    c
}

#[test]
fn a_grant_whose_move_off_denied_hardware_fails_does_not_stay_there() {
    for policy in NO_HARDWARE {
        let (mut b, s) = bed(Policy::First);
        b.feed(Event::Catalog(with_device("")));
        let (grant, hardware, software) = on_a_vf(&mut b, s);
        b.feed(Event::ServiceExited { service: software, exit: Exit::Signal(9) });
        let out = b.feed(Event::Catalog(with_device(policy)));
        assert_eq!(opened(&out), None, "its software is not there yet");
        let g = b.core.grants.get(grant).unwrap();
        assert_eq!(g.moving().map(|m| (m.service, m.phase)), Some((software, Phase::Warming)));
        b.feed(Event::Catalog(anew(policy)));
        assert_eq!(b.core.grants.get(grant).unwrap().state(), GrantState::Active, "it moves");
        let reason = "it could not start".to_owned();
        let out = b.feed(Event::ServiceFailed { service: software, reason });
        let told =
            |a: &Action| matches!(a, Action::CloseChannel { service, .. } if *service == hardware);
        assert!(out.iter().any(told), "{policy}: {out:?}");
        assert_eq!(b.core.grants.get(grant).unwrap().state(), GrantState::Closing, "{policy}");
    }
}

/// Each start fails by itself, which is not counted as a crash: there is no end to tries.
#[test]
fn a_vf_that_policy_takes_is_not_kept_by_software_that_does_not_start() {
    for policy in NO_HARDWARE {
        let (mut b, s) = bed(Policy::First);
        b.feed(Event::Catalog(with_device("")));
        let (grant, hardware, software) = on_a_vf(&mut b, s);
        b.feed(Event::ServiceExited { service: software, exit: Exit::Signal(9) });
        b.feed(Event::Catalog(with_device(policy)));
        let mut told = None;
        for _ in 0..1000 {
            b.now += 200;
            let mut out = b.feed(Event::Tick);
            if let Some(m) = b.core.grants.get(grant).unwrap().moving() {
                let reason = "it could not start".to_owned();
                out.extend(b.feed(Event::ServiceFailed { service: m.service, reason }));
            }
            told = told.or(why(&out, grant));
            if told.is_some() {
                break;
            }
        }
        let words = "its client may not have its VF any more, and its software";
        assert!(told.as_deref().is_some_and(|t| t.starts_with(words)), "{policy}: {told:?}");
        let g = b.core.grants.get(grant).unwrap();
        assert_eq!((g.state(), g.service()), (GrantState::Broken, Some(hardware)));
    }
}

#[test]
fn a_grant_that_lands_on_denied_hardware_does_not_stay_there() {
    for policy in NO_HARDWARE {
        let (mut b, s) = bed(Policy::First);
        b.feed(Event::Catalog(with_device("")));
        let (grant, from, to) = handing(&mut b, s);
        b.feed(Event::Catalog(anew(policy)));
        b.feed(Event::ChannelOpened { service: to, channel: grant });
        let out = b.feed(Event::ChannelClosed { service: from, channel: grant });
        let told = |a: &Action| matches!(a, Action::CloseChannel { service, .. } if *service == to);
        assert!(out.iter().any(told), "{policy}: {out:?}");
        assert_eq!(b.core.grants.get(grant).unwrap().state(), GrantState::Closing, "{policy}");
    }
}

/// Its driver may have the device open already.
#[test]
fn a_start_that_nobody_waits_for_ends_where_its_device_is_taken() {
    for new in [with_device(NO_HARDWARE[1]), leased()] {
        let (mut b, s) = bed(Policy::First);
        b.feed(Event::Catalog(with_device("")));
        let (grant, _) = b.active(1, s, "fast");
        let to = b.core.grants.get(grant).unwrap().moving().expect("it begins to move").service;
        assert!(b.core.awaits_ready(to));
        assert!(killed(&b.feed(Event::Catalog(new)), to));
        assert!(!b.core.knows_service(to));
        let g = b.core.grants.get(grant).unwrap();
        assert_eq!((g.state(), g.moving()), (GrantState::Active, None));
    }
}

/// Whoever may not have a VF any more does not keep it by crashing its software.
#[test]
fn a_vf_that_policy_takes_is_not_kept_by_crashing_the_software() {
    for policy in NO_HARDWARE {
        let (mut b, s) = bed(Policy::First);
        b.feed(Event::Catalog(with_device("")));
        let (grant, hardware, _) = on_a_vf(&mut b, s);
        let key = (Owner::Client(1), "fast".to_owned(), Location::Software.to_wire());
        while b.core.check_breaker(b.now, Owner::Client(1), "fast", Location::Software).is_ok() {
            let _ = b.core.crashed(b.now, key.clone(), &mut vec![]);
        }
        let out = b.feed(Event::Catalog(with_device(policy)));
        let told =
            |a: &Action| matches!(a, Action::CloseChannel { service, .. } if *service == hardware);
        assert!(out.iter().any(told), "{policy}: {out:?}");
        assert_eq!(b.core.grants.get(grant).unwrap().state(), GrantState::Broken, "{policy}");
        let said = why(&out, grant).unwrap();
        let expected =
            "its client may not have its VF any more, and its software crashed too often";
        assert_eq!(said, expected, "{policy}");
    }
}

#[test]
fn calls_that_fail_count_for_nothing_whenever_their_counters_are_read() {
    let (mut b, s) = bed(Policy::Activity);
    let (grant, _) = b.active(1, s, "fast");
    let mut most = 0.0f64;
    for look in 1..=100u64 {
        b.now += 100;
        // Each fails; at every other look one of them is in the one counter only.
        let usage = Usage { calls: 1000 * look + look % 2, errors: 1000 * look, busy_ns: 0 };
        b.feed(Event::Usage { values: vec![(grant, usage)] });
        if look > 20 {
            most = most.max(b.core.devices(b.now)[0].grants[0].1.per_s);
        }
    }
    assert!(most < 0.01, "{most} a second");
}

#[test]
fn a_vf_that_failed_is_not_lent_to_its_client_for_a_while() {
    let (mut b, s) = bed(Policy::First);
    let (grant, hardware, _) = on_a_vf(&mut b, s);
    b.feed(Event::ChannelLost { service: hardware, channel: grant, reason: "gone".into() });
    let only = Negotiate { preference: Preference::Hardware.to_wire(), ..want("fast") };
    b.negotiate(1, s, only).unwrap();
    let vfs = |b: &Bed| -> Vec<_> { b.core.grants().filter_map(|(_, g)| g.vf()).collect() };
    assert_eq!(vfs(&b), [1], "not the one that failed");
    assert_eq!(b.negotiate(1, s, only).unwrap_err().code, NackCode::DeviceBusy);
    let other = b.hello(2, b"secret").unwrap().session.get();
    b.negotiate(2, other, only).unwrap();
    assert_eq!(vfs(&b), [1, 0], "another client may have it");
}

/// Plays all services: each does what it is told at once, and on a VF it fails
/// whoever is to fail. How often that was.
pub(super) fn play(b: &mut Bed, out: Vec<Action>, fails: impl Fn(u32) -> bool) -> u32 {
    let (mut failed, mut todo) = (0, VecDeque::from(out));
    while let Some(action) = todo.pop_front() {
        let more = match action {
            Action::StartService { service, .. } => b.feed(Event::ServiceReady { service }),
            Action::OpenChannel { service, channel, standby: true, .. } => {
                b.feed(Event::ChannelStanding { service, channel })
            }
            Action::OpenChannel { service, channel, .. } => {
                b.feed(Event::ChannelOpened { service, channel })
            }
            Action::HandOver { service, channel } => {
                let g = b.core.grants.get(channel).unwrap();
                let (client, to) = (g.holder.client_id, g.moving().expect("it is handed over"));
                let mut more = b.feed(Event::ChannelOpened { service: to.service, channel });
                more.extend(b.feed(Event::ChannelClosed { service, channel }));
                if to.to.is_hardware() && fails(client) {
                    failed += 1;
                    let (service, reason) = (to.service, "gone".to_owned());
                    more.extend(b.feed(Event::ChannelLost { service, channel, reason }));
                }
                more
            }
            Action::CloseChannel { service, channel } => {
                b.feed(Event::ChannelClosed { service, channel })
            }
            Action::StopService { service } => {
                b.feed(Event::ServiceExited { service, exit: Exit::Code(0) })
            }
            _ => continue,
        };
        todo.extend(more);
    }
    failed
}

/// So long a tenth of a second after the other, in which every grant calls.
fn live(b: &mut Bed, ms: u64, fails: impl Fn(u32) -> bool, mut look: impl FnMut(&Bed)) -> u32 {
    let mut failed = 0;
    for _ in 0..ms / 100 {
        b.now += 100;
        let calls = Usage { calls: b.now, errors: 0, busy_ns: b.now * 1000 };
        let values = b.core.grants().map(|(h, _)| (h, calls)).collect();
        let mut out = b.feed(Event::Usage { values });
        out.extend(b.feed(Event::Tick));
        failed += play(b, out, &fails);
        look(b);
    }
    failed
}

#[test]
fn a_vf_that_fails_each_time_is_tried_less_and_less_until_it_works() {
    let (mut b, s) = bed(Policy::None);
    // So that no other is tried instead.
    b.feed(Event::Catalog(with_vfs(1)));
    let (grant, _) = b.active(1, s, "fast");
    lease_by(&mut b, Policy::First);
    let minute = 60_000;
    let failed = live(&mut b, 10 * minute, |_| true, |_| {});
    assert!((9..=11).contains(&failed), "1 + 2 + 4 ... 256 s, then 300 s each: {failed}");
    let shown = b.core.devices(b.now)[0].kept_off.clone();
    assert_eq!(shown.iter().map(|(of, f)| (*of, f.times)).collect::<Vec<_>>(), [((1, 0), failed)]);
    let failed = live(&mut b, 60 * minute, |_| true, |_| {});
    assert!((11..=13).contains(&failed), "one in five minutes: {failed}");
    // It works, but not for long: the next pause is as long as it was.
    let on_vf = |b: &Bed| b.core.grants.get(grant).unwrap().subject.location.is_hardware();
    let works = |b: &mut Bed, ms: u64| {
        let mut there = 0;
        live(b, 8 * minute, |_| false, |b| there += u64::from(on_vf(b)));
        assert!(there * 100 >= ms);
    };
    let fails = |b: &mut Bed| {
        let service = b.core.grants.get(grant).unwrap().service().unwrap();
        let out = b.feed(Event::ChannelLost { service, channel: grant, reason: "gone".into() });
        play(b, out, |_| false);
        assert!(!on_vf(b));
    };
    while !on_vf(&b) {
        live(&mut b, 100, |_| false, |_| {});
    }
    live(&mut b, 2_000, |_| false, |_| {});
    fails(&mut b);
    live(&mut b, 290_000, |_| false, |b| assert!(!on_vf(b)));
    // It works: the next pause is the first one.
    works(&mut b, minute);
    fails(&mut b);
    live(&mut b, 1_200, |_| false, |_| {});
    assert!(on_vf(&b));
}

#[test]
fn a_client_that_fails_on_purpose_takes_no_vf_from_others() {
    for vfs in [1, 2] {
        let (mut b, s) = bed(Policy::None);
        b.feed(Event::Catalog(with_vfs(vfs)));
        let other = b.hello(2, b"secret").unwrap().session.get();
        for _ in 0..2 {
            b.active(1, s, "fast");
            b.active(2, other, "fast");
        }
        lease_by(&mut b, Policy::Fair);
        let (mut good, mut looks) = (0, 0);
        let failed = live(
            &mut b,
            60_000,
            |client| client == 1,
            |b| {
                let on_vf = |(_, g): &(Handle, &Grant)| {
                    g.holder.client_id == 2 && g.subject.location.is_hardware()
                };
                good += b.core.grants().filter(on_vf).count();
                looks += vfs as usize;
            },
        );
        assert!(good * 10 > looks * 8, "{good} of {looks} with {vfs} VFs");
        assert!(failed > 2 && failed <= 8 * vfs, "{failed} with {vfs} VFs");
    }
}

/// What the call that was left half done is answered with, by whom.
fn answered(out: &[Action]) -> Vec<(Option<ServiceId>, Status)> {
    out.iter()
        .filter_map(|a| match a {
            Action::TakeUp { service, status, .. } => Some((Some(*service), *status)),
            Action::FailCurrent { status, .. } => Some((None, *status)),
            _ => None,
        })
        .collect()
}

#[test]
fn a_call_over_its_deadline_is_told_so_in_a_hand_over_too() {
    let overruns = |b: &mut Bed, service, channel| {
        b.feed(Event::CallOverran { service, channel });
        b.feed(Event::ServiceExited { service, exit: Exit::Code(EXIT_DEADLINE) })
    };
    // The one that it comes from computes it: the other one answers it.
    let (mut b, s) = bed(Policy::First);
    let (grant, from, to) = handing(&mut b, s);
    let out = overruns(&mut b, from, grant);
    assert_eq!(answered(&out), [(Some(to), Status::Deadline)]);

    // The one that it goes to does, which has its turn and has not said so yet. The
    // first one may have the channel still, until it has said that it has not.
    let (mut b, s) = bed(Policy::First);
    let (grant, from, to) = handing(&mut b, s);
    assert_eq!(answered(&overruns(&mut b, to, grant)), []);
    // Another manager knows it, too.
    restart(&mut b, &[(from, &[])]);
    let out = b.log.split_off(0);
    assert_eq!(answered(&out), [(None, Status::Deadline)]);
    let at = |f: &dyn Fn(&Action) -> bool| out.iter().position(f).expect("it is there");
    let told = at(&|a| matches!(a, Action::FailCurrent { .. }));
    let opened = at(&|a| matches!(a, Action::OpenChannel { service, .. } if *service == from));
    assert!(told < opened, "before anybody is on it again: {out:?}");

    // And the first one dies before it has let go.
    let (mut b, s) = bed(Policy::First);
    let (grant, from, to) = handing(&mut b, s);
    overruns(&mut b, to, grant);
    let out = b.feed(Event::ServiceExited { service: from, exit: Exit::Signal(9) });
    assert_eq!(answered(&out), [(None, Status::Deadline)]);
}

/// The manager is killed; the next one has the notes, and these services with what
/// they say that they serve. All others have died.
pub(super) fn restart(b: &mut Bed, alive: &[(ServiceId, &[Handle])]) -> Vec<Action> {
    b.log.clear();
    let notes = b.notes.iter().map(|(name, note)| (name.as_str(), note.as_str()));
    b.core = Core::restore(b.now, 8, b.core.catalog().clone(), notes).expect("it can be read");
    b.feed(Event::Resume { alive: b.core.services.keys().copied().collect() });
    let dead: Vec<_> = b.core.services.keys().copied().collect();
    for service in dead.into_iter().filter(|id| !alive.iter().any(|(a, _)| a == id)) {
        b.feed(Event::ServiceExited { service, exit: Exit::Unknown });
    }
    for (service, channels) in alive {
        b.feed(Event::Serving { service: *service, channels: channels.to_vec() });
    }
    b.log.clone()
}

/// A manager is killed when it has noted that a grant is handed over: before it
/// told the one that has it, or after; and whoever it is dies or goes on meanwhile.
#[test]
fn the_next_manager_ends_a_hand_over_wherever_it_stopped() {
    type Case = (bool, bool, bool);
    let all: [Case; 6] = [
        // from has it still, to stands by
        (true, true, false),
        // from let go of it, to serves it and said so to nobody
        (false, true, false),
        // the same, and from has died
        (false, true, true),
        // from died with it, to stands by
        (true, true, true),
        // to has died, from has it
        (true, false, false),
        // to has died, and had it
        (false, false, false),
    ];
    for case @ (has, to_lives, from_dies) in all {
        let (mut b, s) = bed(Policy::First);
        let (grant, from, to) = handing(&mut b, s);
        let (with, none) = ([grant], []);
        let held: &[Handle] = if has { &with } else { &none };
        let mut alive: Vec<(ServiceId, &[Handle])> = vec![];
        if !from_dies {
            alive.push((from, held));
        }
        if to_lives {
            alive.push((to, &with));
        }
        let mut out = restart(&mut b, &alive);
        if has && !from_dies {
            // It is told again, and no baton comes along: it lets go and says so. Calls
            // that it began and answers later go on, which a close would end.
            let told =
                |a: &Action| matches!(a, Action::HandOver { service, .. } if *service == from);
            assert!(out.iter().any(told), "{case:?}: {out:?}");
            let ended = |a: &Action| matches!(a, Action::CloseChannel { .. });
            assert!(!out.iter().any(ended), "{case:?}: {out:?}");
            out = b.feed(Event::ChannelClosed { service: from, channel: grant });
        }
        // Exactly one is told that it is its turn.
        let up: Vec<_> = out
            .iter()
            .filter_map(|a| match a {
                Action::TakeUp { service, .. } => Some(*service),
                Action::OpenChannel { service, standby: false, .. } => Some(*service),
                _ => None,
            })
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let serves = if to_lives { to } else { from };
        assert_eq!(up, [serves], "{case:?}: {out:?}");
        b.feed(Event::ChannelOpened { service: serves, channel: grant });
        let g = b.core.grants.get(grant).unwrap();
        assert_eq!(
            (g.service(), g.state(), g.moving()),
            (Some(serves), GrantState::Active, None),
            "{case:?}"
        );
        let vf = if to_lives { Some(0) } else { None };
        assert_eq!((g.subject.location.is_hardware(), g.vf()), (to_lives, vf), "{case:?}");
    }
}
