//! Messages of a real switch, with what went past its rules added.

mod captured;

use super::*;
use crate::message::Messages;
use captured::*;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};

fn message(hex: &str) -> Message {
    let digit = |d: u8| (d as char).to_digit(16).unwrap() as u8;
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    Message(digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect())
}

/// A manager that says this.
struct Said {
    rows: RefCell<Option<Vec<FlowRow>>>,
    last: RefCell<Option<Vec<FlowRow>>>,
    asked: Cell<usize>,
}

/// The time of all messages, ms.
const NOW: u64 = 1_000_000;

impl Sums for Said {
    fn rows(&self) -> Option<Vec<FlowRow>> {
        self.asked.set(self.asked.get() + 1);
        self.rows.borrow().clone()
    }
    fn last_rows(&self) -> Option<Vec<FlowRow>> {
        self.last.borrow().clone()
    }
    fn now(&self) -> u64 {
        NOW
    }
}

fn row(priority: u16, in_port: Option<u32>, cookie: u64, age: u64) -> FlowRow {
    FlowRow {
        bridge: "br0".into(),
        table: 0,
        priority,
        cookie,
        in_port,
        made: (NOW - age - 3, NOW - age),
        frames: 1000,
        bytes: 70_000,
        ports: vec![],
    }
}

/// Two directions, a manager, and what was done.
struct Path {
    down: FromController,
    up: FromSwitch,
    said: Said,
    tally: Arc<Tally>,
}

impl Path {
    fn of(rows: Vec<FlowRow>) -> Path {
        let tally = Arc::<Tally>::default();
        let (down, up) = connection(tally.clone());
        let rows = RefCell::new(Some(rows));
        let said = Said { rows, last: RefCell::new(None), asked: Cell::new(0) };
        Path { down, up, said, tally }
    }

    /// One past whose rules frames went: of port 1, and of none.
    fn usual() -> Path {
        let version_ages = |age| vec![row(4321, Some(1), 0x1234, age)];
        Path::of(version_ages(age_of_first()))
    }

    fn ask(&mut self, hex: &str) -> Vec<Message> {
        self.down.pass(message(hex), &self.said)
    }

    fn hear(&mut self, message: Message) -> Option<Message> {
        self.up.pass(message, &self.said)
    }

    fn done(&self) -> (u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.tally.corrected), of(&self.tally.uncorrected))
    }
}

/// That of the first captured rule, as the answer of 1.3 has it; that of 1.0 is a moment older or
/// younger.
fn age_of_first() -> u64 {
    of_reply(&message(REPLY_FLOW_13), Version::V13).unwrap()[0].age_ms
}

fn with_age(version: Version) -> (Path, &'static str, &'static str) {
    let (ask, reply) = match version {
        Version::V10 => (ASK_FLOW_10, REPLY_FLOW_10),
        Version::V13 => (ASK_FLOW_13, REPLY_FLOW_13),
    };
    let age = of_reply(&message(reply), version).unwrap()[0].age_ms;
    (Path::of(vec![row(4321, Some(1), 0x1234, age)]), ask, reply)
}

const BOTH: [Version; 2] = [Version::V10, Version::V13];

/// The message with other counts of frames and bytes.
fn counted(mut message: Message, at: usize, frames: u64, bytes: u64) -> Message {
    message.set_u64(at, frames);
    message.set_u64(at + 8, bytes);
    message
}

#[test]
fn rules_are_read_as_the_switch_wrote_them() {
    for (version, reply) in [(Version::V10, REPLY_FLOW_10), (Version::V13, REPLY_FLOW_13)] {
        let reply = message(reply);
        let rules = of_reply(&reply, version).unwrap();
        let names: Vec<_> =
            rules.iter().map(|r| (r.table, r.priority, r.cookie, r.matches)).collect();
        assert_eq!(
            names,
            [
                (Some(0), 4321, 0x1234, Matches::InPort(1)),
                (Some(0), 7, 0, Matches::Else),
                (Some(0), 0, 0, Matches::All)
            ]
        );
        let first = &rules[0];
        assert_eq!((reply.u64(first.counts), reply.u64(first.counts + 8)), (Some(2), Some(28)));
        assert!((1000..60_000).contains(&first.age_ms), "{first:?}");
        assert_eq!(reply.kind(), Kind::Reply { stats: Stats::Flow, more: false });
    }
    for (version, removed) in [(Version::V10, REMOVED_10), (Version::V13, REMOVED_13)] {
        let removed = message(removed);
        let rule = of_removed(&removed, version).unwrap();
        assert_eq!((rule.priority, rule.cookie, rule.matches), (55, 0x99, Matches::InPort(3)));
        assert_eq!((removed.u64(rule.counts), removed.u64(rule.counts + 8)), (Some(3), Some(42)));
        assert_eq!(rule.table, (version == Version::V13).then_some(0));
    }
}

#[test]
fn what_went_past_a_rule_is_added_to_its_counts_and_to_nothing_else() {
    for version in BOTH {
        let (mut path, ask, reply) = with_age(version);
        assert_eq!(path.ask(ask), [message(ask)]);
        let at = of_reply(&message(reply), version).unwrap()[0].counts;
        let expected = counted(message(reply), at, 1002, 70_028);
        assert_eq!(path.hear(message(reply)), Some(expected));
        assert_eq!(path.done(), (1, 0));
    }
}

#[test]
fn another_rule_of_the_same_place_or_life_is_not_corrected() {
    let age = age_of_first();
    let passes = |rows: Vec<FlowRow>, done| {
        let mut path = Path::of(rows);
        path.ask(ASK_FLOW_13);
        assert_eq!(path.hear(message(REPLY_FLOW_13)), Some(message(REPLY_FLOW_13)));
        assert_eq!(path.done(), done);
    };
    let it = || row(4321, Some(1), 0x1234, age);
    passes(vec![], (0, 0));
    for other in [
        FlowRow { table: 1, ..it() },
        FlowRow { priority: 4322, ..it() },
        FlowRow { in_port: Some(2), ..it() },
        FlowRow { in_port: None, ..it() },
        // That one was made later.
        row(4321, Some(1), 0x1234, age - 200),
        FlowRow { frames: 0, bytes: 0, ..row(4321, Some(1), 0x1234, age + 200) },
        FlowRow { frames: 0, bytes: 0, ..it() },
    ] {
        passes(vec![other], (0, 0));
    }
    // Its cookie is being changed.
    passes(vec![FlowRow { cookie: 1, ..it() }], (0, 1));
    // It was made later, perhaps with the counts of that one.
    passes(vec![row(4321, Some(1), 0x1234, age + 200)], (0, 1));
    // It matches more than a port, and is no rule of ours.
    let mut ip = row(7, None, 0, age);
    ip.in_port = Some(0);
    passes(vec![ip], (0, 0));
}

#[test]
fn nothing_is_changed_while_nobody_answers() {
    let mut path = Path::usual();
    *path.said.rows.borrow_mut() = None;
    for (ask, reply) in [(ASK_FLOW_13, REPLY_FLOW_13), (ASK_SUM_13, REPLY_SUM_13)] {
        assert_eq!(path.ask(ask), [message(ask)]);
        assert_eq!(path.hear(message(reply)), Some(message(reply)));
    }
    assert_eq!(path.hear(message(REMOVED_13)), Some(message(REMOVED_13)));
    assert_eq!(path.done(), (0, 3));
}

/// The captured answer in parts, each of which has one rule.
fn parts() -> Vec<Message> {
    let whole = message(REPLY_FLOW_13);
    let mut starts = vec![16];
    while *starts.last().unwrap() < whole.0.len() {
        let at = *starts.last().unwrap();
        starts.push(at + usize::from(whole.u16(at).unwrap()));
    }
    let count = starts.len() - 1;
    let part = |n: usize| {
        let mut bytes = whole.0[..16].to_vec();
        bytes[11] = u8::from(n + 1 < count);
        bytes.extend(&whole.0[starts[n]..starts[n + 1]]);
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        bytes[2..4].copy_from_slice(&length);
        Message(bytes)
    };
    (0..count).map(part).collect()
}

#[test]
fn an_answer_in_parts_is_corrected_with_the_sums_of_one_moment() {
    let mut path = Path::usual();
    path.ask(ASK_FLOW_13);
    let before = path.said.asked.get();
    let passed: Vec<Message> = parts().into_iter().map(|p| path.hear(p).unwrap()).collect();
    assert_eq!(path.said.asked.get() - before, 1);
    assert_eq!(passed[0].u64(16 + 32), Some(1002));
    assert_eq!(passed[1..], parts()[1..]);
    assert_eq!(path.done(), (1, 0));
    // The next answer is another one.
    path.hear(message(REPLY_FLOW_13));
    assert_eq!(path.said.asked.get() - before, 2);
}

#[test]
fn a_sum_is_corrected_by_the_rules_that_the_switch_says_it_is_about() {
    for version in BOTH {
        let (mut path, _, reply) = with_age(version);
        let (ask, sum) = match version {
            Version::V10 => (ASK_SUM_10, REPLY_SUM_10),
            Version::V13 => (ASK_SUM_13, REPLY_SUM_13),
        };
        let asked = path.ask(ask);
        let [ours, theirs] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!((theirs, ours.kind()), (&message(ask), Kind::Request(Stats::Flow)));
        assert_ne!(ours.xid(), theirs.xid());
        assert_eq!(ours.0[12..], theirs.0[12..], "the same question");
        let answer = message(reply).with_xid(ours.xid());
        assert_eq!(path.hear(answer), None, "the controller did not ask for it");
        let at = of_aggregate(&message(sum), version).unwrap();
        let expected = counted(message(sum), at, 1002, 70_028);
        assert_eq!(path.hear(message(sum)), Some(expected));
        // One that is about no such rule.
        let asked = path.ask(ask);
        let mut none = message(reply).with_xid(asked[0].xid());
        none.0.truncate(if version == Version::V10 { 12 } else { 16 });
        assert_eq!(path.hear(none), None);
        assert_eq!(path.hear(message(sum)), Some(message(sum)));
        assert_eq!(path.done(), (1, 0));
    }
}

#[test]
fn a_sum_about_rules_that_nobody_tells_is_not_corrected() {
    let mut path = Path::usual();
    let asked = path.ask(ASK_SUM_13);
    // The switch refuses both.
    let error = message(ERROR_13);
    assert_eq!(path.hear(error.clone().with_xid(asked[0].xid())), None);
    let theirs = error.with_xid(asked[1].xid());
    assert_eq!(path.hear(theirs.clone()), Some(theirs));
    // It refuses ours.
    let asked = path.ask(ASK_SUM_13);
    assert_eq!(path.hear(message(ERROR_13).with_xid(asked[0].xid())), None);
    assert_eq!(path.hear(message(REPLY_SUM_13)), Some(message(REPLY_SUM_13)));
    // Nothing went past when it was asked, and something had when it was answered.
    let rows = path.said.rows.replace(Some(vec![]));
    assert_eq!(path.ask(ASK_SUM_13), [message(ASK_SUM_13)]);
    assert_eq!(path.hear(message(REPLY_SUM_13)), Some(message(REPLY_SUM_13)));
    assert_eq!(path.done(), (0, 1));
    path.ask(ASK_SUM_13);
    *path.said.rows.borrow_mut() = rows;
    assert_eq!(path.hear(message(REPLY_SUM_13)), Some(message(REPLY_SUM_13)));
    assert_eq!(path.done(), (0, 2));
    // More at once than are kept.
    let asked: Vec<usize> = (0..=AGGREGATES_MAX).map(|_| path.ask(ASK_SUM_13).len()).collect();
    assert_eq!((asked[AGGREGATES_MAX - 1], asked[AGGREGATES_MAX]), (2, 1));
}

#[test]
fn a_number_of_the_controller_is_not_taken_for_ours() {
    let mut path = Path::usual();
    let first = path.ask(ASK_SUM_13)[0].xid();
    // The controller asks for rules with the number that would be the next one.
    let theirs = message(ASK_FLOW_13).with_xid(first + 1);
    path.down.pass(theirs, &path.said);
    let second = path.ask(ASK_SUM_13)[0].xid();
    assert!(second != first && second != first + 1);
    let answer = message(REPLY_FLOW_13).with_xid(first + 1);
    assert!(path.hear(answer).is_some());
    // Both sums have the number of the same question: answers come in their order.
    assert!(path.hear(message(REPLY_FLOW_13).with_xid(first)).is_none());
    assert!(path.hear(message(REPLY_FLOW_13).with_xid(second)).is_none());
    for _ in 0..2 {
        assert_ne!(path.hear(message(REPLY_SUM_13)), Some(message(REPLY_SUM_13)));
    }
}

#[test]
fn the_end_of_a_rule_tells_the_last_counts() {
    for (version, removed) in [(Version::V10, REMOVED_10), (Version::V13, REMOVED_13)] {
        let removed = message(removed);
        let rule = of_removed(&removed, version).unwrap();
        let gone = || row(55, Some(3), 0x99, rule.age_ms);
        let expected = counted(removed.clone(), rule.counts, 1003, 70_042);
        let mut path = Path::of(vec![gone()]);
        assert_eq!(path.hear(removed.clone()), Some(expected.clone()));
        // Frames still go past it: they are waited for.
        let mut path = Path::of(vec![FlowRow { ports: vec!["a".into()], frames: 7, ..gone() }]);
        *path.said.last.borrow_mut() = Some(vec![gone()]);
        assert_eq!(path.hear(removed.clone()), Some(expected));
        *path.said.last.borrow_mut() = None;
        assert_eq!(path.hear(removed.clone()), Some(removed.clone()));
        assert_eq!(path.done(), (1, 1));
        // Of 1.0, one of two tables.
        let mut path = Path::of(vec![gone(), FlowRow { table: 9, ..gone() }]);
        let is_unclear = version == Version::V10;
        assert_eq!(path.hear(removed.clone()) == Some(removed.clone()), is_unclear);
        assert_eq!(path.done(), if is_unclear { (0, 1) } else { (1, 0) });
    }
}

#[test]
fn a_count_that_the_switch_does_not_know_stays_unknown() {
    let (mut path, ..) = with_age(Version::V13);
    let at = of_reply(&message(REPLY_FLOW_13), Version::V13).unwrap()[0].counts;
    let unknown = counted(message(REPLY_FLOW_13), at, u64::MAX, u64::MAX);
    assert_eq!(path.hear(unknown.clone()), Some(unknown));
    let most = counted(message(REPLY_FLOW_13), at, u64::MAX - 5, 1);
    assert_eq!(path.hear(most).unwrap().u64(at), Some(u64::MAX));
    assert_eq!(path.done(), (1, 1));
}

#[test]
fn another_version_and_extensions_pass_unread() {
    let mut path = Path::usual();
    for version in [2, 3, 5, 6] {
        for hex in [REPLY_FLOW_13, REMOVED_13] {
            let mut other = message(hex);
            other.0[0] = version;
            assert_eq!(path.hear(other.clone()), Some(other));
        }
    }
    assert_eq!(path.done(), (0, 8));
    let nicira = message("0111001000000001ffff0000000023200000000000000000");
    assert_eq!(path.hear(nicira.clone()), Some(nicira));
    let removed = message("01040014000000010000232 00000000e00000000");
    assert_eq!(path.hear(removed.clone()), Some(removed));
    assert_eq!(path.done(), (0, 10));
    // Where nothing went past rules, nothing is missing.
    let mut path = Path::of(vec![]);
    let mut other = message(REPLY_FLOW_13);
    other.0[0] = 6;
    path.hear(other);
    assert_eq!(path.done(), (0, 0));
}

#[test]
fn what_changes_rules_is_known_in_all_versions() {
    let is = |hex: &str| message(hex).kind() == Kind::Changes;
    for changes in [
        "010e000800000001",
        "040e000800000001",
        "060e000800000001",
        // Groups, ports, tables and meters.
        "040f000800000001",
        "0410000800000001",
        "0411000800000001",
        "041d000800000001",
        // Rules of Open vSwitch's own, and bundles.
        "0104001000000001000023200000000d",
        "04040010000000014f4e4600000008fc",
        "04040010000000014f4e4600000008fd",
    ] {
        assert!(is(changes), "{changes}");
    }
    for other in [
        "0400000800000001",
        "0414000800000001",
        "0112000800000001",
        "0404001000000001000023200000000a",
        "04040010000000014f4e460000000001",
        "0404000800000001",
        ASK_FLOW_10,
        ASK_FLOW_13,
        ASK_SUM_10,
    ] {
        assert!(!is(other), "{other}");
    }
}

#[test]
fn messages_are_taken_whole_and_one_that_is_too_short_is_an_error() {
    let (one, two) = (message(REPLY_FLOW_10), message(FEATURES_13));
    let mut messages = Messages::default();
    messages.push(&one.0[..7]);
    assert_eq!(messages.take(), Ok(None));
    messages.push(&one.0[7..20]);
    assert_eq!(messages.take(), Ok(None));
    messages.push(&[&one.0[20..], &two.0[..], &[4, 0, 0]].concat());
    assert_eq!(messages.take(), Ok(Some(one)));
    assert_eq!(messages.take(), Ok(Some(two)));
    assert_eq!(messages.take(), Ok(None));
    messages.push(&[7, 0, 0, 0, 0]);
    let why = messages.take().unwrap_err().to_string();
    assert!(why.contains("7 bytes") && why.contains("at least 8"), "{why}");
}

/// A message with some bytes that are others.
fn spoilt() -> impl Strategy<Value = Message> {
    let all = [
        ASK_FLOW_10,
        REPLY_FLOW_10,
        ASK_SUM_10,
        REPLY_SUM_10,
        REMOVED_10,
        ASK_FLOW_13,
        REPLY_FLOW_13,
        ASK_SUM_13,
        REPLY_SUM_13,
        REMOVED_13,
        ERROR_13,
        FEATURES_13,
    ];
    let changes = proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6);
    (proptest::sample::select(all.to_vec()), changes, any::<proptest::sample::Index>()).prop_map(
        |(hex, changes, cut)| {
            let mut message = message(hex);
            for (at, byte) in changes {
                let at = at.index(message.0.len());
                message.0[at] = byte;
            }
            let cut = 8 + cut.index(message.0.len() - 7);
            message.0.truncate(cut);
            message
        },
    )
}

proptest! {
    /// Whatever comes, in both directions: nothing fails, and nothing changes but counts.
    #[test]
    fn whatever_comes_keeps_its_length(messages in proptest::collection::vec((spoilt(), any::<bool>()), 1..40)) {
        let mut path = Path::usual();
        for (message, is_down) in messages {
            if is_down {
                let passed = path.down.pass(message.clone(), &path.said);
                prop_assert_eq!(passed.last(), Some(&message));
                prop_assert!(passed.len() <= 2);
            } else if let Some(passed) = path.hear(message.clone()) {
                prop_assert_eq!(passed.0.len(), message.0.len());
                prop_assert_eq!(&passed.0[..8], &message.0[..8]);
            }
        }
    }

    /// Bytes of no meaning end in an error, or wait for more, or are messages.
    #[test]
    fn any_bytes_are_taken(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..20)) {
        let mut path = Path::usual();
        let mut messages = Messages::default();
        let mut taken = vec![];
        for piece in &pieces {
            messages.push(piece);
            while let Ok(Some(message)) = messages.take() {
                taken.extend(message.0.clone());
                path.down.pass(message.clone(), &path.said);
                path.hear(message);
            }
        }
        let all = pieces.concat();
        prop_assert_eq!(&taken[..], &all[..taken.len()]);
    }
}
