use super::*;
use crate::limits::WHY_CHARS;
use std::cell::RefCell;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use vfun_links::passed::{Born, PassedRule};
use vfun_links::{Hindrance, Verdict};

/// Keeps what it was told.
#[derive(Default)]
struct Told(RefCell<Vec<VerdictNews>>);

impl Tell for Told {
    fn tell(&self, about: About, word: FromLinks) {
        let FromLinks::Verdict(news) = word else { panic!("{word:?}") };
        assert_eq!(about, About::Port(news.from.clone()));
        self.0.borrow_mut().push(news);
    }
}

impl Bridges<Told> {
    fn of(folder: &Path) -> (Self, Receiver<Heard>, SwitchBridge) {
        let (hearing, heard) = sync_channel(4096);
        let bridge = SwitchBridge {
            run: folder.into(),
            database: folder.join("db.sock"),
            bridge: "br0".into(),
        };
        (Bridges::new(Told::default(), Hearing(hearing)), heard, bridge)
    }

    fn port(&mut self, port: &str, number: u64, switch: &SwitchBridge) {
        let switch = switch.clone();
        let watched = WatchedPort { number, switch, kind: "dpdk".into(), devargs: None, mtu: 1500 };
        self.declare(WatchNews { port: port.into(), declared: Some(watched) });
    }

    fn gone(&mut self, port: &str) {
        self.declare(WatchNews { port: port.into(), declared: None });
    }

    fn id(&self, bridge: &SwitchBridge) -> BridgeId {
        self.watched[bridge].id
    }

    /// What it has told since the last time.
    fn told(&self) -> Vec<VerdictNews> {
        self.teller.0.take()
    }
}

fn joined(from: &str, to: &str) -> Change {
    Change { from: from.into(), verdict: Verdict::Joined { to: to.into() }, passed: None }
}

#[test]
fn verdicts_bear_the_number_of_their_port() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bridges, _heard, br0) = Bridges::of(folder.path());
    bridges.port("a", 7, &br0);
    bridges.port("b", 8, &br0);
    bridges.follow();
    let id = bridges.id(&br0);
    bridges.changed(id, joined("a", "b"));
    let one = |verdict| VerdictNews { from: "a".into(), number: 7, verdict, passed: None };
    assert_eq!(bridges.told(), [one(SaidVerdict::JoinedTo("b".into()))]);
    let anew = Verdict::Anew { was: "b".into() };
    bridges.changed(id, Change { from: "a".into(), verdict: anew, passed: None });
    assert!(matches!(&bridges.told()[..], [VerdictNews { verdict: SaidVerdict::Why(_), .. }]));
}

#[test]
fn a_verdict_of_before_a_change_is_never_told() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bridges, _heard, br0) = Bridges::of(folder.path());
    bridges.port("a", 1, &br0);
    bridges.port("b", 2, &br0);
    bridges.follow();
    let first = bridges.id(&br0);
    // A port more or less is told to the one that watches.
    bridges.port("c", 3, &br0);
    bridges.follow();
    bridges.gone("c");
    bridges.follow();
    assert_eq!(bridges.id(&br0), first);
    bridges.changed(first, joined("c", "a"));
    assert_eq!(bridges.told(), [], "it is gone");
    // One that is another one now is not.
    bridges.port("c", 4, &br0);
    bridges.follow();
    let second = bridges.id(&br0);
    assert_ne!(second, first);
    let told: BTreeMap<String, VerdictNews> =
        bridges.told().into_iter().map(|news| (news.from.clone(), news)).collect();
    assert_eq!(told.keys().collect::<Vec<_>>(), ["a", "b", "c"], "none is joined any more");
    assert!(told.values().all(|news| matches!(news.verdict, SaidVerdict::Why(_))));
    for from in ["a", "c"] {
        bridges.changed(first, joined(from, "b"));
    }
    assert_eq!(bridges.told(), []);
    bridges.changed(second, joined("c", "b"));
    assert_eq!(bridges.told()[0].number, 4);
    // Nor is one that went to another bridge.
    let br1 = SwitchBridge { bridge: "br1".into(), ..br0.clone() };
    bridges.port("a", 5, &br1);
    bridges.changed(second, joined("a", "b"));
    bridges.follow();
    bridges.changed(second, joined("a", "b"));
    assert_eq!(bridges.told(), []);
    assert!(bridges.has(bridges.id(&br1)) && bridges.has(second) && !bridges.has(first));
}

#[test]
fn a_bridge_without_ports_is_not_watched() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bridges, heard, br0) = Bridges::of(folder.path());
    bridges.port("a", 1, &br0);
    bridges.follow();
    let id = bridges.id(&br0);
    bridges.gone("a");
    bridges.gone("never there");
    bridges.follow();
    assert!(bridges.watched.is_empty() && !bridges.has(id));
    // Its thread says so.
    while !matches!(heard.recv().unwrap(), Heard::WatchEnded(ended) if ended == id) {}
}

#[test]
fn what_cannot_be_watched_is_said_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bridges, _heard, br0) = Bridges::of(folder.path());
    for n in 0..=BRIDGES_MAX as u64 {
        let bridge = SwitchBridge { bridge: format!("br{n:03}"), ..br0.clone() };
        bridges.port(&format!("p{n:03}"), n, &bridge);
    }
    bridges.port("q", 1000, &SwitchBridge { bridge: "../br0".into(), ..br0 });
    bridges.follow();
    assert_eq!(bridges.watched.len(), BRIDGES_MAX);
    let told = bridges.told();
    let why = |at: usize| match &told[at].verdict {
        SaidVerdict::Why(why) => why.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((told.len(), told[0].from.as_str(), told[1].from.as_str()), (2, "q", "p064"));
    assert!(why(0).contains("no name of a bridge"), "{}", why(0));
    assert!(why(1).contains("which is the most"), "{}", why(1));
}

#[test]
fn a_reason_is_cut_and_has_no_signs_that_move_a_cursor() {
    let why = format!("a\u{1b}[2J\n{}", "ä".repeat(2 * WHY_CHARS));
    let cut = cut(&why);
    assert!(cut.starts_with("a [2J ä") && cut.chars().count() == WHY_CHARS, "{cut}");
    let news = VerdictNews {
        from: "a".into(),
        number: u64::MAX,
        verdict: SaidVerdict::Why("\"".repeat(WHY_CHARS)),
        passed: None,
    };
    let bytes =
        |news: &VerdictNews| serde_json::to_vec(&FromLinks::Verdict(news.clone())).unwrap().len();
    assert!(bytes(&news) < vfun_links::relay::PACKET_BYTES);
    // The same of the most rules that a joined port may pass.
    let rule = PassedRule {
        table: u8::MAX,
        priority: u16::MAX,
        cookie: u64::MAX,
        in_port: Some(u32::MAX),
        born: Born(u64::MAX, u64::MAX),
        tells_end: false,
        fresh: false,
    };
    let rules = vec![rule; vfun_links::limits::PASSED_RULES_MAX];
    let verdict = SaidVerdict::JoinedTo("b".repeat(vfun_links::limits::TEXT_BYTES_MAX));
    let joined = VerdictNews { verdict, passed: Some(Passed::Rules(rules)), ..news };
    assert!(bytes(&joined) < vfun_links::relay::PACKET_BYTES);
    let odd = Verdict::Not(Hindrance::NotOurs("b".into())).to_string();
    assert!(odd.len() < WHY_CHARS, "{odd}");
}
