//! What went past rules of a switch, and what the proxy of OpenFlow has done about it.

use super::*;
use crate::admin::Reply;
use crate::admin::links::{FlowRow, FlowsAsk, FlowsView, ProxyRow};
use crate::limits::{LINK_BRIDGES_MAX, LINKS_HOLD_MS_MAX};
use vfun_links::passed::{Born, PassedRule};

/// One that was made at this time.
fn rule(table: u8, cookie: u64, born: u64) -> PassedRule {
    let (in_port, born) = (Some(1), Born(born, born + 5));
    PassedRule { table, priority: 9, cookie, in_port, born, tells_end: false, fresh: true }
}

fn past(rules: &[PassedRule]) -> Passed {
    Passed::Rules(rules.to_vec())
}

fn proxy(connections: u32) -> FlowsAsk {
    FlowsAsk::Proxy(ProxyRow { bridge: "br0".into(), connections, ..ProxyRow::default() })
}

impl Rig {
    fn view(&mut self, bridge: Option<&str>) -> FlowsView {
        let ask = FlowsAsk::Sums { bridge: bridge.map(str::to_owned) };
        match self.m.answer_of_flows(ask) {
            Reply::LinkFlows(view) => view,
            other => panic!("{other:?}"),
        }
    }

    /// What went past each rule: its table, its cookie and the frames.
    fn sums(&mut self) -> Vec<(u8, u64, u64)> {
        let is_sixty = |row: &FlowRow| row.bytes == 60 * row.frames;
        let flows = self.view(Some("br0")).flows;
        assert!(flows.iter().all(is_sixty), "{flows:?}");
        flows.iter().map(|row| (row.table, row.cookie, row.frames)).collect()
    }

    fn some_go_direct(&mut self) {
        let before = self.direct;
        self.until(|rig| rig.direct > before + 5);
    }
}

#[test]
fn frames_past_the_switch_count_for_each_rule_that_was_in_force() {
    let mut rig = Rig::new();
    rig.joined_past(past(&[rule(0, 7, 1000), rule(4, 8, 1000)]));
    rig.until_state("direct");
    rig.some_go_direct();
    let first = rig.direct;
    assert_eq!(rig.sums(), [(0, 7, first), (4, 8, first)]);
    assert_eq!(rig.view(None).flows[0].ports, ["a1"]);
    assert_eq!(rig.view(Some("br1")).flows, []);
    // Another rule in the second table: the first one goes on.
    rig.joined_past(past(&[rule(0, 7, 1000), rule(5, 8, 1000)]));
    rig.some_go_direct();
    assert_eq!(rig.sums(), [(0, 7, rig.direct), (4, 8, first), (5, 8, rig.direct - first)]);
    // What is on its way back counts for the last rules.
    rig.joined(false);
    rig.until_state("switch");
    let second = rig.direct;
    (0..20).for_each(|_| rig.pump());
    assert_eq!(rig.direct, second);
    assert_eq!(rig.sums(), [(0, 7, second), (4, 8, first), (5, 8, second - first)]);
    // It ends, and its counts stay.
    rig.m.links_off("a1", "b1", true);
    rig.until(|rig| rig.row().link.is_none());
    assert_eq!(rig.sums(), [(0, 7, second), (4, 8, first), (5, 8, second - first)]);
    assert_eq!(rig.view(None).flows[0].ports, [""; 0]);
}

#[test]
fn a_rule_made_anew_begins_at_zero_and_one_with_another_cookie_goes_on() {
    let mut rig = Rig::new();
    rig.joined_past(past(&[rule(0, 7, 1000)]));
    rig.until_state("direct");
    rig.some_go_direct();
    let first = rig.direct;
    // The switch rounds times.
    rig.joined_past(past(&[rule(0, 9, 1004)]));
    assert_eq!(rig.sums(), [(0, 9, first)]);
    rig.joined_past(past(&[rule(0, 9, 2000)]));
    assert_eq!(rig.sums(), [(0, 9, 0)]);
    rig.some_go_direct();
    assert_eq!(rig.sums(), [(0, 9, rig.direct - first)]);
    let row = rig.view(None).flows.remove(0);
    assert_eq!((row.made, row.in_port, row.priority), ((2000, 2005), Some(1), 9));
    // Another one that may go on with the counts of this one: both are told.
    let second = rig.direct - first;
    rig.joined_past(past(&[PassedRule { fresh: false, ..rule(0, 9, 3000) }]));
    assert_eq!(rig.sums(), [(0, 9, second), (0, 9, 0)]);
    // It goes, and one comes that does not.
    rig.joined_past(past(&[rule(0, 9, 4000)]));
    assert_eq!(rig.sums(), [(0, 9, 0)]);
}

#[test]
fn frames_that_may_pass_different_rules_count_for_none_and_it_is_said() {
    let mut rig = Rig::new();
    rig.joined_past(Passed::NotAttributable("types differ".into()));
    rig.until_state("direct");
    rig.some_go_direct();
    assert_eq!(rig.sums(), []);
    assert_eq!(rig.row().not_attributable.as_deref(), Some("types differ"));
    let before = rig.direct;
    rig.joined_past(past(&[rule(0, 7, 1000)]));
    assert_eq!((rig.sums(), rig.row().not_attributable), (vec![(0, 7, 0)], None));
    rig.some_go_direct();
    assert_eq!(rig.sums(), [(0, 7, rig.direct - before)]);
}

#[test]
fn the_next_manager_goes_on_counting() {
    let mut rig = Rig::new();
    rig.joined_past(past(&[rule(0, 7, 1000)]));
    rig.until_state("direct");
    rig.some_go_direct();
    rig.joined_past(past(&[rule(0, 7, 1000), rule(3, 7, 1000)]));
    let first = rig.direct;
    rig.some_go_direct();
    rig.next_manager();
    rig.until_state("switch");
    let second = rig.direct;
    assert_eq!(rig.sums(), [(0, 7, second), (3, 7, second - first)]);
    rig.joined_past(past(&[rule(0, 7, 1003)]));
    rig.until_state("direct");
    rig.some_go_direct();
    assert_eq!(rig.sums(), [(0, 7, rig.direct), (3, 7, second - first)]);
}

#[test]
fn links_of_a_bridge_that_is_held_come_back_and_wait() {
    let hold = |rig: &mut Rig, bridge: &str, ms| {
        rig.m.answer_of_flows(FlowsAsk::Hold { bridge: bridge.into(), ms })
    };
    let direct = |reply| match reply {
        Reply::LinksHeld { direct } => direct,
        other => panic!("{other:?}"),
    };
    let mut rig = Rig::new();
    rig.joined_past(past(&[rule(0, 7, 1000)]));
    rig.until_state("direct");
    assert_eq!(direct(hold(&mut rig, "br1", 60)), 0, "it has no links");
    assert_eq!(direct(hold(&mut rig, "br0", LINKS_HOLD_MS_MAX)), 1);
    rig.until_state("switch");
    assert_eq!(direct(hold(&mut rig, "br0", 60)), 0);
    assert!(rig.row().why.contains("are about to change"), "{}", rig.row().why);
    let number = rig.row().link;
    rig.until_state("direct");
    assert_eq!(rig.row().link, number, "it waited in its place");
    for n in 0..LINK_BRIDGES_MAX {
        hold(&mut rig, &format!("x{n}"), LINKS_HOLD_MS_MAX);
    }
    for (bridge, ms) in [("y", 5), ("br0", LINKS_HOLD_MS_MAX + 1)] {
        assert!(matches!(hold(&mut rig, bridge, ms), Reply::Error { .. }), "{bridge}");
    }
}

#[test]
fn a_rule_that_tells_its_end_is_passed_by_only_where_a_proxy_corrects_it() {
    let mut rig = Rig::new();
    rig.joined_past(past(&[PassedRule { tells_end: true, ..rule(0, 7, 1000) }]));
    (0..20).for_each(|_| rig.pump());
    assert!(
        rig.row().link.is_none() && rig.row().why.contains("vfun-links-proxy"),
        "{:?}",
        rig.row()
    );
    assert_eq!(rig.view(None).proxies, []);
    rig.m.answer_of_flows(proxy(1));
    assert_eq!(rig.view(None).proxies.len(), 1);
    rig.until_state("direct");
    // Without a connection of the switch nothing is corrected.
    rig.m.answer_of_flows(proxy(0));
    rig.until_state("switch");
    rig.m.answer_of_flows(proxy(2));
    rig.until_state("direct");
    // It says nothing more.
    rig.m.links.flows.proxies_said(crate::limits::LINK_PROXY_MS);
    rig.until_state("switch");
    assert_eq!(rig.view(None).proxies, []);
}

#[test]
fn rules_that_no_link_passes_are_forgotten_before_there_are_too_many() {
    use crate::limits::LINK_FLOWS_MAX;
    let mut rig = Rig::new();
    rig.joined_past(past(&[rule(0, 7, 1000)]));
    rig.until_state("direct");
    rig.some_go_direct();
    rig.m.links.flows.has_others(LINK_FLOWS_MAX, &rule(0, 1, 1));
    rig.joined_past(past(&[rule(0, 7, 1000), rule(1, 7, 1000)]));
    let sums = rig.sums();
    assert_eq!(sums.len(), 2, "{sums:?}");
    assert_eq!(rig.view(None).flows.len(), LINK_FLOWS_MAX);
    assert_eq!(sums[0].2, rig.direct, "what is passed now stays");
}
