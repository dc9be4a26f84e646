//! Each condition of docs/links-detector.md: what breaks it withdraws the verdict at once, is
//! named, and mending it brings the verdict back. A model of a switch answers.

mod passed;
mod walk;
mod world;

use super::*;
use crate::limits::{
    CALM_WINDOWS, JUDGE_MS, JUDGED_AT_ONCE, MATCH_BYTES_MAX, NAMED_TYPES_MAX, PACE_CALM, PACE_MAX,
    PACE_MS, RULES_BYTES_MAX,
};
use crate::openflow::{ActionFault, Flow, Instructions, Match, PortNews, Step, Update};
use crate::ovsdb::{InterfaceFacts, Mirror, PortFacts};
use crate::trace::all_packets;
use world::{World, flow, joined};

/// Breaks something in a world that is joined, looks, mends it, looks again.
fn breaks(change: impl Fn(&mut World), expected: Hindrance) {
    let mut w = World::joined();
    let before = w.clone_switch();
    w.change(&change);
    assert_ne!(w.verdict("a"), &joined("b"), "not withdrawn at once: {expected}");
    w.settle();
    assert_eq!(w.verdict("a"), &Verdict::Not(expected.clone()));
    w.change(|w| w.switch = before.clone());
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"), "did not come back after: {expected}");
}

/// The same for what changes the facts.
fn fact(change: impl Fn(&mut Facts), expected: Hindrance) {
    breaks(|w| change(&mut w.switch.facts), expected);
}

fn of_interface(name: &'static str, change: impl Fn(&mut InterfaceFacts)) -> impl Fn(&mut Facts) {
    move |facts| change(&mut facts.ports.get_mut(name).unwrap().interfaces[0])
}

fn has(interface: &str, feature: Feature) -> Hindrance {
    Hindrance::Feature { interface: interface.to_owned(), feature }
}

#[test]
fn two_ports_that_rules_join_are_joined_both_ways() {
    let w = World::joined();
    assert!(w.joins("a", "b") && w.joins("b", "a"));
    assert!(!w.joins("a", "a") && !w.joins("a", "c"));
    let elsewhere = Verdict::Not(Hindrance::JoinedTo("b".to_owned()));
    assert_eq!(w.detector.between("a", "b"), Some(joined("b")));
    assert_eq!(w.detector.between("a", "c"), Some(elsewhere));
    assert_eq!(w.detector.between("a", "nobody"), None);
    assert_eq!(w.verdict("c"), &Verdict::Not(Hindrance::TableDecides(0)), "no rule is for c");
}

#[test]
fn what_the_bridge_does_besides_hinders() {
    fact(|f| f.bridge.stp = true, Hindrance::Stp);
    fact(|f| f.bridge.rstp = true, Hindrance::Rstp);
    fact(|f| f.bridge.sflow = true, Hindrance::Sflow);
    fact(|f| f.bridge.netflow = true, Hindrance::Netflow);
    fact(|f| f.bridge.ipfix = true, Hindrance::Ipfix);
    fact(|f| f.bridge.fails_open = true, Hindrance::FailsOpen);
    fact(|f| f.bridge.in_band = true, Hindrance::InBand);
    fact(|f| f.bridge.evicts = true, Hindrance::BridgeEvicts);
    fact(|f| f.bridge.restoring = true, Hindrance::Restoring);
}

#[test]
fn a_mirror_that_selects_one_of_the_two_hinders() {
    let mirror = |all, ports: &[&str]| Mirror {
        name: "m".to_owned(),
        all,
        ports: ports.iter().map(|p| (*p).to_owned()).collect(),
    };
    let named = |interface: &str| Hindrance::Mirror {
        mirror: "m".to_owned(),
        interface: interface.to_owned(),
    };
    fact(|f| f.bridge.mirrors = vec![mirror(true, &[])], named("a"));
    fact(|f| f.bridge.mirrors = vec![mirror(false, &["a"])], named("a"));
    fact(|f| f.bridge.mirrors = vec![mirror(false, &["b"])], named("b"));
    let mut w = World::joined();
    w.change(|w| w.switch.facts.bridge.mirrors = vec![mirror(false, &["c"])]);
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"), "others may be mirrored");
}

#[test]
fn features_of_both_ports_hinder() {
    for port in ["a", "b"] {
        let of_port = |change: fn(&mut PortFacts)| {
            move |f: &mut Facts| change(f.ports.get_mut(port).unwrap())
        };
        fact(of_port(|p| p.qos = true), has(port, Feature::Qos));
        fact(of_port(|p| p.lacp = true), has(port, Feature::Lacp));
        let second = |p: &mut PortFacts| p.interfaces.push(InterfaceFacts::default());
        fact(of_port(second), has(port, Feature::Bond));
        fact(of_interface(port, |i| i.policed = true), has(port, Feature::Policing));
        fact(of_interface(port, |i| i.bfd = true), has(port, Feature::Bfd));
        fact(of_interface(port, |i| i.cfm = true), has(port, Feature::Cfm));
        fact(of_interface(port, |i| i.lldp = true), has(port, Feature::Lldp));
    }
}

#[test]
fn an_interface_that_is_not_the_declared_one_hinders() {
    let missing = |missing| Hindrance::NotKnown(missing);
    for port in ["a", "b"] {
        let name = || port.to_owned();
        let other = |expected: &str, found: &str| Hindrance::OtherKind {
            interface: name(),
            expected: expected.to_owned(),
            found: found.to_owned(),
        };
        fact(of_interface(port, |i| i.kind = "tap".to_owned()), other("dpdk", "tap"));
        let device = format!("dev-{port}");
        let moved = |i: &mut InterfaceFacts| i.devargs = Some("dev-x".to_owned());
        fact(of_interface(port, moved), other(&device, "dev-x"));
        let none = |i: &mut InterfaceFacts| i.devargs = None;
        fact(of_interface(port, none), other(&device, "without dpdk-devargs"));
        fact(of_interface(port, |i| i.number = None), missing(Missing::Number(name())));
        fact(of_interface(port, |i| i.mtu = None), missing(Missing::Mtu(name())));
        let number = if port == "a" { 1 } else { 2 };
        let gone = Missing::OpenFlowPort { interface: name(), number };
        breaks(|w| w.switch.ports.retain(|p| p.number != number), missing(gone.clone()));
        let at = number as usize - 1;
        breaks(|w| w.switch.ports[at].name = "x".to_owned(), missing(gone.clone()));
        let absent = Missing::Interface(name());
        fact(|f| drop(f.ports.remove(port)), missing(absent));
    }
}

#[test]
fn a_receiver_with_a_smaller_mtu_hinders() {
    fact(of_interface("b", |i| i.mtu = Some(1400)), Hindrance::Mtu { from: 1500, to: 1400 });
    fact(of_interface("a", |i| i.mtu = Some(9000)), Hindrance::Mtu { from: 9000, to: 1500 });
    let mut w = World::joined();
    let mut smaller = world::ours();
    smaller[1].mtu = 1400;
    w.tell(Event::Ours(smaller));
    w.settle();
    let expected = Verdict::Not(Hindrance::Mtu { from: 1500, to: 1400 });
    assert_eq!((w.verdict("a"), w.verdict("b")), (&expected, &joined("a")));
}

#[test]
fn states_of_openflow_ports_hinder() {
    for (at, port) in [(0, "a"), (1, "b")] {
        breaks(|w| w.switch.ports[at].config = OfPort::DOWN, has(port, Feature::Down));
        breaks(|w| w.switch.ports[at].state = OfPort::LINK_DOWN, has(port, Feature::LinkDown));
    }
    breaks(|w| w.switch.ports[0].config = OfPort::NO_RECEIVE, has("a", Feature::NoReceive));
    breaks(|w| w.switch.ports[1].config = OfPort::NO_FORWARD, has("b", Feature::NoForward));
    // Each says nothing of the other direction.
    let mut w = World::joined();
    w.change(|w| w.switch.ports[0].config = OfPort::NO_FORWARD);
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"));
}

fn fault(priority: u16, fault: RuleFault) -> Hindrance {
    Hindrance::Rule(RuleName { table: 0, priority, cookie: 7 }, fault)
}

#[test]
fn a_rule_that_does_more_than_to_send_hinders_also_where_traces_hide_it() {
    for name in ["group", "meter", "learn", "ct", "controller", "NORMAL"] {
        let action = ActionFault::Named(name);
        let does = Instructions::Else(action.clone());
        breaks(|w| w.switch.flows[0].does = does.clone(), fault(100, RuleFault::Action(action)));
    }
    breaks(|w| w.switch.flows[0].idle_timeout = 10, fault(100, RuleFault::IdleTimeout(10)));
    // Whose counts are told at its end can be corrected only if all frames pass it.
    let told = |w: &mut World| {
        w.switch.flows[0].flags = Some(Flow::SEND_FLOW_REM);
        w.switch.flows.push(flow(0, 200, None, Some(0x0806), &[Step::Output(2)]));
    };
    breaks(told, fault(100, RuleFault::SendFlowRem));
    let mut w = World::joined();
    w.change(|w| w.switch.flows[0].hard_timeout = 10);
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"), "its end is told");
}

#[test]
fn a_rule_for_one_ethertype_is_seen() {
    let arp = |does: &[Step]| flow(0, 200, None, Some(0x0806), does);
    let mut w = World::joined();
    w.change(|w| w.switch.flows.push(arp(&[])));
    assert_eq!(w.verdict("a"), &Verdict::Anew { was: "b".to_owned() });
    w.settle();
    assert!(matches!(w.verdict("a"), Verdict::Not(Hindrance::Dropped(p)) if p.dl_type == 0x0806));
    w.change(|w| w.switch.flows[2] = arp(&[Step::Output(2)]));
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"), "ARP goes there as well");
    // It does not cover what is below it for other frames.
    w.change(|w| w.switch.flows[0].idle_timeout = 5);
    w.settle();
    assert_eq!(w.verdict("a"), &Verdict::Not(fault(100, RuleFault::IdleTimeout(5))));
    w.change(|w| w.switch.flows[0].idle_timeout = 0);
    // One that no set of special types has.
    w.change(|w| w.switch.flows[2] = flow(0, 200, Some(1), Some(0x1234), &[Step::Output(3)]));
    w.settle();
    let splits = |a: &str, b: &str| Verdict::Not(Hindrance::Splits(a.to_owned(), b.to_owned()));
    assert!([splits("b", "c"), splits("c", "b")].contains(w.verdict("a")), "{}", w.verdict("a"));
    assert_eq!(w.verdict("b"), &joined("a"));
}

/// Its frames come to the receiver, but by rules of which nothing is heard.
#[test]
fn a_way_over_another_bridge_hinders() {
    let mut w = World::joined();
    const BACK: &str = "Final flow: unchanged\nMegaflow: recirc_id=0,eth,in_port=a,dl_type=0x0806\nDatapath actions: b";
    w.switch.traces.push((1, |_| true, BACK));
    w.change(|w| w.switch.flows[0] = flow(0, 100, Some(1), None, &[Step::Output(9)]));
    w.settle();
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::OtherOutput(9)));
}

#[test]
fn what_a_trace_shows_hinders() {
    type Case = (&'static str, fn(Packets) -> Hindrance);
    const FIELD: &str = "Final flow: unchanged\nMegaflow: recirc_id=0,eth,in_port=a,dl_dst=00:00:00:00:00:00,dl_type=0x88b5\nDatapath actions: b";
    const TWO: &str = "Final flow: unchanged\nMegaflow: recirc_id=0,eth,in_port=a,dl_type=0x88b5\nDatapath actions: b,c";
    const SLOW: &str = "Final flow: unchanged\nMegaflow: recirc_id=0,eth,in_port=a,dl_type=0x88b5\nDatapath actions: b\nThis flow is handled by the userspace slow path because it:\n  - Consists of LACP packets.";
    const OTHER: &str = "Final flow: unchanged\nMegaflow: recirc_id=0,eth,in_port=a,dl_type=0x88b5\nDatapath actions: vxlan";
    let cases: [Case; 3] = [
        (FIELD, |p| Hindrance::Depends(p, "dl_dst=00:00:00:00:00:00".to_owned())),
        (TWO, |p| Hindrance::DoneTo(p, "b,c".to_owned())),
        (SLOW, Hindrance::Slow),
    ];
    let is: fn(&Packets) -> bool = |p| p.dl_type == 0x88b5 && !p.tagged;
    let packets = Packets { dl_type: 0x88b5, fragment: None, tagged: false };
    for (text, expected) in cases {
        // What causes it is told as a change of facts that by itself hinders nothing.
        let w = looked_again(1, is, text);
        assert_eq!(w.verdict("a"), &Verdict::Not(expected(packets.clone())));
    }
    let w = looked_again(1, |_| true, OTHER);
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::NotOurs("vxlan".to_owned())));
    let back = OTHER.replace("vxlan", "a").leak();
    let w = looked_again(1, |_| true, back);
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::NotOurs("a".to_owned())));
    let w = looked_again(1, is, "nonsense");
    let unclear = Missing::TraceOf(packets, "nonsense".to_owned());
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::NotKnown(unclear)));
}

/// A world whose traces change without any event, after it was looked at again and before it
/// was the next time.
fn looked_again(port: u32, is: fn(&Packets) -> bool, text: &'static str) -> World {
    let mut w = World::joined();
    w.switch.traces.push((port, is, text));
    assert_eq!(w.verdict("a"), &joined("b"), "nobody looked yet");
    w.pass(LOOK_MS_MAX);
    w.answer_all();
    assert_ne!(w.verdict("a"), &joined("b"), "looked again");
    let broken = w.verdict("a").clone();
    w.switch.traces.clear();
    w.pass(LOOK_MS_MAX);
    w.answer_all();
    assert_eq!(w.verdict("a"), &joined("b"), "came back by itself");
    w.switch.traces.push((port, is, text));
    w.pass(LOOK_MS_MAX);
    w.answer_all();
    assert_eq!(w.verdict("a"), &broken);
    w
}

#[test]
fn all_kinds_of_frames_are_asked_about() {
    let w = World::joined();
    let of_a: Vec<String> =
        w.traced.iter().filter(|(port, _)| *port == 1).map(|(_, p)| p.to_string()).collect();
    for kind in [
        "0x0800,nw_frag=no",
        "0x0800,nw_frag=first",
        "0x0800,nw_frag=later",
        "0x86dd,nw_frag=no",
        "0x0806",
        "0x8809",
        "0x8902",
        "0x88cc",
        "0x88b5",
    ] {
        for tag in ["", ",dl_vlan=1"] {
            let asked = format!("dl_type={kind}{tag}");
            assert!(of_a.contains(&asked), "{asked} in {of_a:?}");
        }
    }
}

#[test]
fn eviction_and_other_ways_with_fragments_hinder() {
    let evicts = |tables: Vec<u8>| {
        let mut w = World::joined();
        w.switch.evicting = tables;
        w.pass(LOOK_MS_MAX);
        w.answer_all();
        w.verdict("a").clone()
    };
    assert_eq!(evicts(vec![0]), Verdict::Not(Hindrance::Evicts(0)));
    assert_eq!(evicts(vec![5]), joined("b"), "no frame of ours comes there");
    let mut w = World::joined();
    w.switch.config = 1;
    w.pass(LOOK_MS_MAX);
    w.answer_all();
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::Fragments));
}

#[test]
fn tables_are_followed() {
    let table = |table| flow(0, 100, Some(1), None, &[Step::Table(table)]);
    let mut w = World::joined();
    w.change(|w| {
        w.switch.flows[0] = table(4);
        w.switch.flows.push(flow(4, 1, None, None, &[Step::Output(2)]));
    });
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"));
    let timeout = |rule: &mut Flow| rule.idle_timeout = 9;
    w.change(|w| timeout(&mut w.switch.flows[2]));
    assert_eq!(w.verdict("a"), &Verdict::Anew { was: "b".to_owned() });
    w.settle();
    let name = RuleName { table: 4, priority: 1, cookie: 7 };
    let expected = Verdict::Not(Hindrance::Rule(name, RuleFault::IdleTimeout(9)));
    assert_eq!((w.verdict("a"), w.verdict("b")), (&expected, &joined("a")));
    // A table that sends to itself is no endless walk.
    w.change(|w| w.switch.flows[2] = flow(4, 1, Some(3), None, &[Step::Table(4)]));
    w.settle();
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::TableDecides(4)));
}

/// A table without a rule for all frames may send the rest to the next one (`mod-table
/// continue`): rules of that one join, and the walk does not come there.
#[test]
fn a_table_that_decides_about_some_frames_hinders() {
    let next = |w: &mut World| {
        w.switch.misses_go_on = vec![0, 1];
        w.switch.flows[0] = flow(2, 100, Some(1), None, &[Step::Output(2)]);
    };
    let decides = Verdict::Not(Hindrance::TableDecides(0));
    let mut w = World::joined();
    w.change(next);
    w.settle();
    assert_eq!(w.verdict("a"), &decides);
    // Rules for some kinds of frames are not one for all.
    w.change(|w| w.switch.flows.push(flow(0, 200, Some(1), Some(0x0806), &[Step::Output(2)])));
    w.settle();
    assert_eq!(w.verdict("a"), &decides);
    // Nor is one in the table that the first one sends to.
    w.change(|w| w.switch.flows.push(flow(0, 100, Some(1), None, &[Step::Table(1)])));
    w.settle();
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::TableDecides(1)));
    w.change(|w| w.switch.flows.push(flow(1, 100, Some(1), None, &[Step::Table(2)])));
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"));
}

/// A trace that ends at the receiver though no rule sends anything there is not believed.
#[test]
fn rules_without_an_output_hinder() {
    let mut w = World::joined();
    const THERE: &str = "Final flow: unchanged\nMegaflow: recirc_id=0,eth,in_port=a,dl_type=0x0806\nDatapath actions: b";
    w.switch.traces.push((1, |_| true, THERE));
    w.change(|w| w.switch.flows[0] = flow(0, 100, Some(1), None, &[]));
    w.settle();
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::NoOutput));
    w.switch.traces.clear();
    w.pass(LOOK_MS_MAX);
    w.answer_all();
    assert!(matches!(w.verdict("a"), Verdict::Not(Hindrance::Dropped(_))));
}

#[test]
fn rules_that_cannot_be_met_change_nothing() {
    let mut w = World::joined();
    w.changes.clear();
    let normal = |priority, in_port| Flow {
        does: Instructions::Else(ActionFault::Named("NORMAL")),
        ..flow(0, priority, in_port, None, &[])
    };
    w.change(|w| w.switch.flows.push(normal(0, None)));
    w.change(|w| w.switch.flows.push(normal(200, Some(3))));
    w.change(|w| {
        w.switch.flows.push(Flow {
            key: crate::openflow::FlowKey { table: 9, priority: 1, fields: vec![] },
            ..normal(1, None)
        })
    });
    w.settle();
    let of_two: Vec<_> = w.changes.iter().filter(|(from, _)| from != "c").collect();
    assert!(of_two.is_empty(), "{of_two:?}");
    // Once the rule that covered it is gone, it is met.
    w.change(|w| drop(w.switch.flows.remove(0)));
    w.settle();
    let normal = fault(0, RuleFault::Action(ActionFault::Named("NORMAL")));
    assert_eq!(w.verdict("a"), &Verdict::Not(normal));
    // One of the same priority is met.
    let mut w = World::joined();
    w.change(|w| w.switch.flows.push(flow(0, 100, None, None, &[Step::Output(2)])));
    assert_eq!(w.verdict("a"), &Verdict::Anew { was: "b".to_owned() });
}

#[test]
fn any_event_about_one_of_the_two_withdraws_until_it_is_judged() {
    let mut w = World::joined();
    w.change(|w| w.switch.flows[0].cookie = 8);
    let anew = Verdict::Anew { was: "b".to_owned() };
    assert_eq!((w.verdict("a"), w.verdict("b")), (&anew, &joined("a")));
    w.pass(SETTLE_MS - 1);
    assert!(w.asked.is_empty(), "rules may not be still yet");
    w.pass(1);
    assert!(!w.asked.is_empty());
    // Another event while it is being judged: the answers so far are worth nothing.
    let id = |a: &Action| matches!(a, Action::Trace { .. });
    let old: Vec<Action> = w.asked.drain(..).filter(id).collect();
    w.change(|w| w.switch.flows[0].cookie = 9);
    for action in old {
        let Action::Trace { id, .. } = action else { continue };
        let said = Ok(world::text("recirc_id=0,eth,in_port=a,dl_type=0x0806", "b"));
        w.tell(Event::Traced { id, said });
    }
    assert_eq!(w.verdict("a"), &anew);
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"));
}

/// Until the last answer nothing is joined: an event may be on its way.
#[test]
fn the_verdict_waits_for_an_answer_behind_all_events() {
    let mut w = World::joined();
    w.change(|w| w.switch.flows[0].cookie = 8);
    w.pass(SETTLE_MS);
    let last =
        |a: &Action| matches!(a, Action::Ask(Request::Tables { .. } | Request::Config { .. }));
    while !w.asked.iter().any(last) {
        w.answer_one();
    }
    assert_eq!(w.verdict("a"), &Verdict::Anew { was: "b".to_owned() });
    w.change(|w| w.switch.flows[0].idle_timeout = 3);
    w.answer_all();
    assert_eq!(w.verdict("a"), &Verdict::Anew { was: "b".to_owned() }, "the event was first");
    w.settle();
    let rule = RuleName { table: 0, priority: 100, cookie: 8 };
    let expected = Hindrance::Rule(rule, RuleFault::IdleTimeout(3));
    assert_eq!(w.verdict("a"), &Verdict::Not(expected));
}

/// The same of the database: what it changed before it was asked comes before its answer.
#[test]
fn the_verdict_waits_for_an_answer_behind_all_changes_of_the_database() {
    let mut w = World::joined();
    w.change(|w| w.switch.flows[0].cookie = 8);
    w.pass(SETTLE_MS);
    let of_database = |a: &Action| matches!(a, Action::AskDatabase(_));
    while !w.asked.iter().all(of_database) {
        w.answer_one();
        w.asked.sort_by_key(of_database);
    }
    assert_eq!(w.asked.len(), 1);
    assert_eq!(w.verdict("a"), &Verdict::Anew { was: "b".to_owned() }, "the switch alone");
    let late = w.asked.clone();
    w.change(|w| w.switch.facts.bridge.sflow = true);
    w.answer_all();
    assert_eq!(w.verdict("a"), &Verdict::Anew { was: "b".to_owned() }, "an old answer");
    w.settle();
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::Sflow));
    w.asked = late;
    w.answer_all();
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::Sflow));
}

#[test]
fn a_lost_connection_withdraws_all() {
    for peer in [Peer::OpenFlow, Peer::Ovsdb, Peer::Trace] {
        let mut w = World::joined();
        w.tell(Event::Lost(peer, "gone".to_owned()));
        let expected = Missing::Peer(peer, "gone".to_owned());
        let expected = Verdict::Not(Hindrance::NotKnown(expected));
        assert_eq!((w.verdict("a"), w.verdict("b")), (&expected, &expected));
        w.settle();
        assert_eq!(w.verdict("a"), &expected);
        w.asked.clear();
        w.tell(Event::Connected(peer));
        assert_ne!(w.verdict("a"), &joined("b"));
        if peer == Peer::Ovsdb {
            w.settle();
            assert_ne!(w.verdict("a"), &joined("b"), "its rows have not come");
            w.tell(Event::Facts(Some(w.switch.facts.clone())));
        }
        w.settle();
        assert_eq!(w.verdict("a"), &joined("b"));
    }
}

#[test]
fn a_bridge_that_is_not_there_has_no_links() {
    let mut w = World::joined();
    w.tell(Event::Facts(None));
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::NotKnown(Missing::Bridge)));
    w.tell(Event::Facts(Some(w.switch.facts.clone())));
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"));
}

#[test]
fn changes_that_are_held_back_withdraw_all_and_the_rules_are_read_again() {
    let mut w = World::joined();
    w.tell(Event::OpenFlow(Message::Updates(vec![Update::Paused])));
    let paused = Verdict::Not(Hindrance::NotKnown(Missing::Paused));
    assert_eq!((w.verdict("a"), w.verdict("b")), (&paused, &paused));
    w.settle();
    assert_eq!(w.verdict("a"), &paused);
    // A rule changed meanwhile, and nobody tells.
    w.switch.flows[0].idle_timeout = 5;
    w.tell(Event::OpenFlow(Message::Updates(vec![Update::Resumed])));
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::NotKnown(Missing::Rules)));
    w.settle();
    assert_eq!(w.verdict("a"), &Verdict::Not(fault(100, RuleFault::IdleTimeout(5))));
    assert_eq!(w.verdict("b"), &joined("a"));
}

#[test]
fn too_many_changes_withdraw_all_until_it_is_calm() {
    let mut w = World::joined();
    let other = |cookie| Update::Is(Flow { cookie, ..flow(0, 9, Some(77), None, &[]) });
    let burst =
        |n: u32| Event::OpenFlow(Message::Updates((0..n).map(|n| other(n.into())).collect()));
    w.tell(burst(PACE_MAX));
    assert_eq!(w.verdict("a"), &joined("b"), "so many can be judged");
    w.tell(burst(1));
    let storm = Verdict::Not(Hindrance::TooManyChanges);
    assert_eq!((w.verdict("a"), w.verdict("b")), (&storm, &storm));
    let asked = w.traced.len();
    for _ in 0..3 * CALM_WINDOWS {
        // Below the first limit and above the second.
        w.pass(PACE_MS);
        w.tell(burst(PACE_CALM));
    }
    assert_eq!((w.verdict("a"), w.traced.len()), (&storm, asked), "not calm enough");
    w.pass(PACE_MS);
    for _ in 1..CALM_WINDOWS {
        w.tell(burst(PACE_CALM - 1));
        w.pass(PACE_MS);
        w.pass(SETTLE_MS);
        assert_eq!((w.verdict("a"), w.traced.len()), (&storm, asked), "calm for too short");
    }
    assert!(w.detector.wake().is_some(), "its end is not missed");
    w.pass(PACE_MS);
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"));
}

#[test]
fn more_types_and_rules_than_are_kept_hinder() {
    let named = |n: u16| flow(0, 9, Some(3), Some(0x2000 + n), &[]);
    let count = u16::try_from(NAMED_TYPES_MAX).unwrap();
    let mut w = World::joined();
    w.change(|w| w.switch.flows.extend((0..=count).map(named)));
    w.pass(LOOK_MS_MAX);
    w.answer_all();
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::TooManyTypes));
    let mut rules = Rules::default();
    for n in 0..=u32::try_from(crate::limits::RULES_MAX).unwrap() {
        assert!(!rules.overflowed(), "{n}");
        rules.put(flow(0, 9, Some(n), None, &[]), None);
    }
    assert!(rules.overflowed());
    // Fewer that are longer. What goes makes room.
    let mut rules = Rules::default();
    let long = |n: u32| {
        let mut long = flow(0, 9, Some(n), None, &[]);
        long.key.fields.resize(MATCH_BYTES_MAX, 0);
        long.key.fields[..4].copy_from_slice(&n.to_be_bytes());
        long
    };
    // The fields of each stand there twice.
    let all = u32::try_from(RULES_BYTES_MAX / MATCH_BYTES_MAX / 2).unwrap();
    for n in 0..2 * all {
        rules.put(long(n), None);
        rules.take(&long(n).key);
    }
    assert!(!rules.overflowed());
    (0..all - all / 4).for_each(|n| rules.put(long(n), None));
    assert!(!rules.overflowed());
    (all - all / 4..all).for_each(|n| rules.put(long(n), None));
    assert!(rules.overflowed());
}

/// Two copies of all rules would be twice the memory.
#[test]
fn rules_are_not_kept_while_all_are_read_again() {
    let mut w = World::joined();
    w.tell(Event::OpenFlow(Message::Updates(vec![Update::Paused, Update::Resumed])));
    let Switch::Known(known) = &w.detector.switch else { panic!() };
    assert!(known.reading.is_some() && known.rules.walk(1).is_err(), "no rule is there");
    w.settle();
    assert!(w.joins("a", "b"));
}

#[test]
fn a_switch_that_does_not_answer_or_refuses_hinders() {
    let mut w = World::joined();
    w.change(|w| w.switch.flows[0].cookie = 8);
    w.pass(SETTLE_MS);
    w.asked.clear();
    w.pass(JUDGE_MS - 1);
    assert_eq!(w.verdict("a"), &Verdict::Anew { was: "b".to_owned() });
    w.pass(1);
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::NotKnown(Missing::Answer)));
    let mut w = World::joined();
    w.tell(Event::OpenFlow(Message::Error { xid: 0, class: 1, code: 2 }));
    let refused = Verdict::Not(Hindrance::NotKnown(Missing::Refused { class: 1, code: 2 }));
    assert_eq!((w.verdict("a"), w.verdict("b")), (&refused, &refused));
}

/// A refusal is that of one judgement, of none any more, or of what all need.
#[test]
fn refusals_are_told_apart_by_their_numbers() {
    let refusal = |xid| Event::OpenFlow(Message::Error { xid, class: 1, code: 2 });
    let refused = Verdict::Not(Hindrance::NotKnown(Missing::Refused { class: 1, code: 2 }));
    let mut w = World::joined();
    let number = |w: &World| {
        w.asked.iter().rev().find_map(|a| match a {
            Action::Ask(Request::OneFlow { xid, .. } | Request::AllFlows { xid }) => Some(*xid),
            _ => None,
        })
    };
    let asks = |w: &mut World, cookie| {
        w.change(|w| w.switch.flows[0].cookie = cookie);
        w.pass(SETTLE_MS);
        number(w).expect("a question for flags")
    };
    let old = asks(&mut w, 8);
    let new = asks(&mut w, 9);
    w.tell(refusal(old));
    assert_eq!(w.verdict("a"), &Verdict::Anew { was: "b".to_owned() }, "nobody waits for it");
    w.settle();
    assert!(w.joins("a", "b") && new != old);
    let of_one = asks(&mut w, 10);
    w.tell(refusal(of_one));
    assert_eq!((w.verdict("a"), w.verdict("b")), (&refused, &joined("a")));
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"), "it is asked again");
    w.asked.clear();
    w.tell(Event::OpenFlow(Message::Updates(vec![Update::Paused, Update::Resumed])));
    let of_all = number(&w).expect("a question for all rules");
    w.tell(refusal(of_all));
    assert_eq!((w.verdict("a"), w.verdict("b")), (&refused, &refused));
    let mut w = World::joined();
    w.tell(refusal(u32::MAX));
    assert_eq!((w.verdict("a"), w.verdict("b")), (&refused, &refused), "never asked");
}

#[test]
fn ports_of_ours_come_and_go() {
    let mut w = World::joined();
    let mut two = world::ours();
    let b = two.remove(1);
    w.tell(Event::Ours(two.clone()));
    assert!(!w.joins("a", "b"), "withdrawn at once");
    w.settle();
    assert_eq!(w.verdict("a"), &Verdict::Not(Hindrance::NotOurs("b".to_owned())));
    assert_eq!(w.detector.verdict("b"), None);
    two.push(b);
    w.tell(Event::Ours(two));
    w.settle();
    assert!(w.joins("a", "b") && w.joins("b", "a"));
}

/// Who only follows the events knows what the detector knows.
#[test]
fn each_change_of_a_declaration_is_told() {
    let mut w = World::joined();
    let told = |w: &mut World, ours: Vec<OurPort>| {
        w.changes.clear();
        w.tell(Event::Ours(ours));
        w.changes.clone()
    };
    let all = world::ours();
    assert_eq!(told(&mut w, all.clone()), [], "nothing is another one");
    assert_eq!(w.verdict("a"), &joined("b"));
    let mut other = all.clone();
    other[0].mtu = 1400;
    let not = |hindrance| Verdict::Not(hindrance);
    let unknown = || not(Hindrance::NotKnown(Missing::Judgement));
    let b_anew = ("b".to_owned(), Verdict::Anew { was: "a".to_owned() });
    assert_eq!(told(&mut w, other), [("a".to_owned(), unknown()), b_anew.clone()]);
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"));
    w.tell(Event::Ours(all.clone()));
    w.settle();
    let gone = ("a".to_owned(), not(Hindrance::NotDeclared));
    assert_eq!(told(&mut w, all[1..].to_vec()), [gone, b_anew]);
    // Beyond the limit, and back. The others stay as they are.
    w.settle();
    let many: Vec<OurPort> = (0..OURS_MAX - 2)
        .map(|n| OurPort { interface: format!("x{n}"), ..all[2].clone() })
        .collect();
    let with = |last: &[OurPort]| [&all[1..], &many, last].concat();
    let a = |verdict: &Verdict| [("a".to_owned(), verdict.clone())];
    told(&mut w, with(&[]));
    let before = w.verdict("c").clone();
    let beyond = not(Hindrance::TooManyPorts);
    assert_eq!(told(&mut w, with(&all[..1])), a(&beyond));
    assert_eq!(w.detector.verdict("a"), Some(&beyond));
    assert_eq!(w.detector.between("b", "a"), Some(w.verdict("b").clone()));
    assert_eq!(told(&mut w, with(&all[..1])), [], "it was told");
    assert_eq!(told(&mut w, with(&[])), a(&not(Hindrance::NotDeclared)));
    assert_eq!(w.verdict("c"), &before);
    w.tell(Event::Ours(with(&all[..1])));
    let first = told(&mut w, all.clone());
    assert!(first.contains(&a(&unknown())[0]), "{first:?}");
    w.settle();
    assert!(w.joins("a", "b") && w.joins("b", "a"));
}

/// Rules that a port cannot meet do not hold its judgement up, however often they change.
#[test]
fn changes_of_rules_that_are_not_met_hold_nothing_up() {
    let mut w = World::joined();
    let elsewhere = |cookie| Flow { cookie, ..flow(9, 1, None, None, &[]) };
    let rounds = |w: &World| w.traced.iter().filter(|(port, _)| *port == 1).count();
    w.change(|w| w.switch.flows[0].cookie = 8);
    for n in 0..100 {
        w.tell(Event::OpenFlow(Message::Updates(vec![Update::Is(elsewhere(n))])));
        w.pass(SETTLE_MS / 2);
        (0..w.asked.len().min(10)).for_each(|_| w.answer_one());
    }
    assert_eq!(w.verdict("a"), &joined("b"));
    // Nor do they begin a new judgement of one that is not joined.
    w.change(|w| {
        w.switch.flows[0] = flow(0, 100, Some(1), None, &[Step::Output(2), Step::Output(3)])
    });
    w.settle();
    assert!(matches!(w.verdict("a"), Verdict::Not(Hindrance::DoneTo(..))));
    let before = rounds(&w);
    w.tell(Event::OpenFlow(Message::Updates(vec![Update::Is(elsewhere(100))])));
    w.pass(SETTLE_MS);
    assert_eq!(rounds(&w), before);
}

/// The database tells changes that change no fact.
#[test]
fn the_same_facts_begin_nothing_anew() {
    let mut w = World::joined();
    w.change(|w| w.switch.flows[0].cookie = 8);
    w.pass(SETTLE_MS);
    let asked = w.traced.len();
    w.tell(Event::Facts(Some(w.switch.facts.clone())));
    w.answer_all();
    assert_eq!(w.verdict("a"), &joined("b"), "its judgement went on");
    assert!(w.traced.len() >= asked);
}

#[test]
fn few_traces_are_out_at_once() {
    let mut w = World::silent();
    w.connect();
    let answers = |a: &Action| matches!(a, Action::Ask(_));
    let asks: Vec<Action> = w.asked.drain(..).filter(answers).collect();
    w.asked = asks;
    w.answer_all();
    w.pass(SETTLE_MS);
    let out = w.asked.iter().filter(|a| matches!(a, Action::Trace { .. })).count();
    assert_eq!(out, TRACES_AT_ONCE, "of three ports with some forty each");
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"));
}

/// Ports that wait for others are judged in the end, and are no reason to be called all the time.
#[test]
fn few_ports_are_judged_at_once() {
    let mut w = World::silent();
    let names: Vec<String> = (0..3 * JUDGED_AT_ONCE).map(|n| format!("x{n:03}")).collect();
    let mut ours = world::ours();
    for (number, name) in (10..).zip(&names) {
        w.add(number, name, &mut ours);
    }
    w.tell(Event::Ours(ours));
    w.connect();
    while w.asked.iter().any(|a| matches!(a, Action::Ask(_))) {
        w.answer_one();
    }
    w.pass(SETTLE_MS);
    let judged = w.detector.agenda.asking().count();
    assert_eq!(judged, JUDGED_AT_ONCE);
    assert!(w.detector.wake().is_some_and(|at| at > w.now), "it waits for answers");
    w.settle();
    assert!(names.iter().all(|name| w.verdict(name) == &joined("b")));
}

/// Each is judged once before one is looked at again, though that one is due meanwhile.
#[test]
fn ports_are_judged_in_the_order_in_which_they_are_due() {
    let mut w = World::silent();
    let numbers = 10..10 + 3 * u32::try_from(JUDGED_AT_ONCE).unwrap();
    let mut ours = world::ours();
    for number in numbers.clone() {
        w.add(number, &format!("x{number}"), &mut ours);
    }
    w.tell(Event::Ours(ours));
    w.connect();
    for _ in 0..600 {
        (0..w.asked.len().min(8)).for_each(|_| w.answer_one());
        w.pass(LOOK_MS_MIN / 10);
    }
    let begins = |number: u32, round: usize| {
        let each = all_packets([]).len();
        let mut of_it = w.traced.iter().enumerate().filter(|(_, (port, _))| *port == number);
        of_it.nth(round * each).expect("it was judged").0
    };
    let last_first = numbers.clone().map(|number| begins(number, 0)).max().unwrap();
    let first_second = numbers.map(|number| begins(number, 1)).min().unwrap();
    assert!(last_first < first_second, "{last_first} {first_second}");
}

#[test]
fn each_reason_is_a_sentence() {
    let w = World::joined();
    for (from, verdict) in &w.changes {
        let text = verdict.to_string();
        assert!(text.len() > 10 && !text.contains(['{', '"']), "{from}: {text}");
    }
    let rule = fault(100, RuleFault::Action(ActionFault::Named("group")));
    assert_eq!(
        Verdict::Not(rule).to_string(),
        "through the switch: the rule in table 0 with priority 100 and cookie 0x7 does not only forward frames: one of its actions is group"
    );
}
