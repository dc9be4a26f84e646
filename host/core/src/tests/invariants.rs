//! Whatever happens in whatever order: nothing is given twice, nothing is left.

use super::*;

/// What a random run may do.
#[derive(Clone, Debug)]
enum Step {
    Hello(u32),
    Negotiate(u32, usize, usize, u16, u32),
    OnGrant(u32, usize, u8),
    Goodbye(u32, usize),
    Garbage(u32, u16, u64, Vec<u8>),
    ServiceReady(usize),
    ServiceFailed(usize),
    ServiceExits(usize, u8),
    Channels(u8),
    WindowBounces(u32),
    BufferGet(u32, usize, u64, u32, bool),
    BufferPut(u32, usize),
    Buffers(usize, bool),
    Memory(u32, u16, bool),
    TakeOver(u32),
    Time(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let w = 1u32..=2;
    prop_oneof![
        2 => w.clone().prop_map(Step::Hello),
        6 => (w.clone(), any::<usize>(), any::<usize>(), 0u16..70, 0u32..80_000)
            .prop_map(|(w, s, f, d, c)| Step::Negotiate(w, s, f, d, c)),
        8 => (w.clone(), any::<usize>(), 0u8..3).prop_map(|(w, g, k)| Step::OnGrant(w, g, k)),
        1 => (w.clone(), any::<usize>()).prop_map(|(w, s)| Step::Goodbye(w, s)),
        2 => (w.clone(), 0u16..20, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..160))
            .prop_map(|(w, k, s, b)| Step::Garbage(w, k, s, b)),
        6 => any::<usize>().prop_map(Step::ServiceReady),
        1 => any::<usize>().prop_map(Step::ServiceFailed),
        2 => (any::<usize>(), any::<u8>()).prop_map(|(s, e)| Step::ServiceExits(s, e)),
        8 => any::<u8>().prop_map(Step::Channels),
        1 => w.clone().prop_map(Step::WindowBounces),
        5 => (w.clone(), any::<usize>(), 0u64..70_000, 0u32..12, any::<bool>())
            .prop_map(|(w, g, n, a, c)| Step::BufferGet(w, g, n, a, c)),
        4 => (w.clone(), any::<usize>()).prop_map(|(w, b)| Step::BufferPut(w, b)),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(b, h)| Step::Buffers(b, h)),
        1 => (w, 1u16..3, any::<bool>()).prop_map(|(w, i, up)| Step::Memory(w, i, up)),
        2 => any::<u32>().prop_map(Step::TakeOver),
        3 => (1u64..5000).prop_map(Step::Time),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever apps, services and time do, and whenever the manager is killed: what
    /// [`Core::check`] looks at after each event is so, each request is answered exactly
    /// once, and when all have gone nothing is left.
    #[test]
    fn invariants_hold(steps in proptest::collection::vec(step(), 1..150)) {
        let mut b = Bed::new();
        let mut sessions: Vec<(u32, u64)> = vec![];
        let mut asked = BTreeSet::new();
        let mut answered: Vec<(u32, u32)> = vec![];
        // Window numbers are never used again: which one each client has now.
        let mut ids = [1u32, 2];
        for step in steps {
            let names = ["add", "mul", "fast", "none"];
            match step {
                Step::Hello(c) => {
                    let w = ids[c as usize - 1];
                    if let Ok(a) = b.hello(w, if c == 2 { b"secret" } else { b"" }) {
                        sessions.push((w, a.session.get()));
                    }
                    asked.insert((w, b.seq));
                }
                Step::Negotiate(w, s, f, depth, cell) => {
                    let w = ids[w as usize - 1];
                    let Some(&(_, s)) = sessions.get(s % sessions.len().max(1)) else { continue };
                    let n = Negotiate { shape: cells(depth, cell), ..want(names[f % 4]) };
                    b.ask(w, Kind::Negotiate, s, n.as_bytes());
                    asked.insert((w, b.seq));
                }
                Step::OnGrant(w, g, k) => {
                    let w = ids[w as usize - 1];
                    let all: Vec<_> = b.core.grants().map(|(h, g)| (h, g.holder.session)).collect();
                    let Some((h, s)) = all.get(g % all.len().max(1)).copied() else { continue };
                    let kind = [Kind::Activate, Kind::Release, Kind::Stats][k as usize];
                    b.ask(w, kind, s.0, h.0.to_le_bytes().as_slice());
                    asked.insert((w, b.seq));
                }
                Step::Goodbye(w, s) => {
                    let w = ids[w as usize - 1];
                    let Some(&(_, s)) = sessions.get(s % sessions.len().max(1)) else { continue };
                    b.ask(w, Kind::Goodbye, s, &[0; 8]);
                    asked.insert((w, b.seq));
                }
                Step::Garbage(w, kind, session, body) => {
                    let w = ids[w as usize - 1];
                    b.seq += 1;
                    let to = ReplyTo { window: w, cell: 0, seq: b.seq };
                    b.feed(Event::Request(ControlRequest { to, kind, session, body }));
                    asked.insert((w, b.seq));
                }
                Step::ServiceReady(s) => {
                    let ids: Vec<_> = b.core.services.keys().copied().collect();
                    let Some(&service) = ids.get(s % ids.len().max(1)) else { continue };
                    b.feed(Event::ServiceReady { service });
                }
                Step::ServiceFailed(s) => {
                    let ids: Vec<_> = b.core.services.keys().copied().collect();
                    let Some(&service) = ids.get(s % ids.len().max(1)) else { continue };
                    b.feed(Event::ServiceFailed { service, reason: "x".into() });
                }
                Step::ServiceExits(s, e) => {
                    let ids: Vec<_> = b.core.services.keys().copied().collect();
                    let Some(&service) = ids.get(s % ids.len().max(1)) else { continue };
                    let exit = match e % 3 { 0 => Exit::Signal(9), 1 => Exit::Code(EXIT_DEADLINE), _ => Exit::Code(0) };
                    b.feed(Event::ServiceExited { service, exit });
                }
                Step::Channels(k) => {
                    let all: Vec<_> = b.core.grants()
                        .filter_map(|(h, g)| Some((g.service()?, h, g.state()))).collect();
                    for (service, channel, state) in all {
                        let event = match (k % 4, state) {
                            (0, GrantState::Closing) | (1, _) => Event::ChannelClosed { service, channel },
                            (2, GrantState::Active) => Event::ChannelBroken { service, channel, reason: "y".into() },
                            (3, GrantState::Activating) => Event::ChannelOpenFailed { service, channel, reason: "z".into() },
                            _ => Event::ChannelOpened { service, channel },
                        };
                        b.feed(event);
                    }
                }
                Step::WindowBounces(c) => {
                    let w = ids[c as usize - 1];
                    let waiting: Vec<_> = asked.iter().filter(|(aw, _)| *aw == w).copied().collect();
                    b.feed(Event::WindowDown { window: w });
                    for (_, seq) in waiting { asked.remove(&(w, seq)); }
                    let window = ids[0].max(ids[1]) + 1;
                    ids[c as usize - 1] = window;
                    b.feed(Event::WindowUp { window, client: c, vm: None, bytes: MIB, doorbell: true, death_seen: false, proven: false });
                }
                Step::BufferGet(w, g, bytes, shift, contiguous) => {
                    let w = ids[w as usize - 1];
                    let all: Vec<_> = b.core.grants().map(|(h, g)| (h.0, g.holder.session.0)).collect();
                    let of = sessions.get(g % sessions.len().max(1)).map(|(_, s)| (0, *s));
                    let of_grant = all.get(g % all.len().max(1)).copied();
                    let Some((grant, s)) = of_grant.filter(|_| g % 3 == 0).or(of) else { continue };
                    let want = BufferGet {
                        grant: U64::new(grant),
                        bytes: U64::new(bytes),
                        align: U64::new(if shift == 0 { 0 } else { 2048 << shift }),
                        flags: U32::new(contiguous.into()),
                        reserved: U32::ZERO,
                    };
                    b.ask(w, Kind::BufferGet, s, want.as_bytes());
                    asked.insert((w, b.seq));
                }
                Step::BufferPut(w, i) => {
                    let w = ids[w as usize - 1];
                    let all: Vec<_> = b.core.buffers().map(|(h, b)| (h, b.holder.session)).collect();
                    let Some((h, s)) = all.get(i % all.len().max(1)).copied() else { continue };
                    b.ask(w, Kind::BufferPut, s.0, h.0.as_bytes());
                    asked.insert((w, b.seq));
                }
                Step::Buffers(i, here) => {
                    let ids: Vec<_> = b.core.services.keys().copied().collect();
                    let Some(&service) = ids.get(i % ids.len().max(1)) else { continue };
                    b.feed(Event::TakesBuffers { service });
                    let all: Vec<_> = b.core.buffers().map(|(h, _)| h).collect();
                    for buffer in all {
                        b.feed(match here {
                            true => Event::BufferHere { service, buffer },
                            false => Event::BufferLeft { service, buffer },
                        });
                    }
                }
                Step::Memory(c, index, up) => {
                    let window = ids[c as usize - 1];
                    let page = if index == 1 { 4096 } else { 2 << 20 };
                    b.feed(match up {
                        true => Event::MemoryUp { window, index, bytes: 8 * MIB, page },
                        false => Event::MemoryDown { window, index },
                    });
                }
                Step::TakeOver(bits) => b.take_over(|id| bits >> (id % 32) & 1 == 1),
                Step::Time(ms) => {
                    b.now += ms;
                    b.feed(Event::Tick);
                }
            }
            // Answers are counted, and are answers to something asked.
            for a in std::mem::take(&mut b.log) {
                match a {
                    Action::Answer { to, .. } | Action::AnswerStats { to, .. } => answered.push((to.window, to.seq)),
                    _ => {}
                }
            }
            let mut once = BTreeSet::new();
            for a in &answered { prop_assert!(once.insert(*a), "answered twice: {a:?}"); }
        }
        // Everybody goes.
        for window in ids { b.feed(Event::WindowDown { window }); }
        for _ in 0..8 {
            b.now += 10_000;
            b.feed(Event::Tick);
            let ids: Vec<_> = b.core.services.keys().copied().collect();
            for service in ids { b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) }); }
        }
        prop_assert_eq!(b.core.totals(), Totals::default());
    }
}
