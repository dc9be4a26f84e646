//! Which rules all frames of a joined port pass.

use super::world::{World, flow, joined};
use super::*;
use crate::limits::PASSED_RULES_MAX;
use crate::passed::{Born, Passed};

/// What is said of a, which is joined with these rules.
fn passed(flows: Vec<Flow>) -> Passed {
    let mut w = World::silent();
    w.switch.flows = flows;
    w.connect();
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"));
    w.passed("a").expect("it is joined")
}

fn not_attributable(flows: Vec<Flow>, why: &str) {
    let said = passed(flows);
    assert!(matches!(&said, Passed::NotAttributable(text) if text.contains(why)), "{said:?}");
}

#[test]
fn each_rule_that_all_frames_pass_is_told_with_its_match() {
    let to_table = |cookie| Flow { cookie, ..flow(0, 100, Some(1), None, &[Step::Table(5)]) };
    let flows = vec![to_table(9), flow(5, 3, None, None, &[Step::Output(2)])];
    let Passed::Rules(rules) = passed(flows) else { panic!("two rules") };
    let names: Vec<_> =
        rules.iter().map(|r| (r.table, r.priority, r.cookie, r.in_port, r.tells_end)).collect();
    assert_eq!(names, [(0, 100, 9, Some(1), false), (5, 3, 7, None, false)]);
    // The world began at 1,000,000; rules are a minute old in each answer.
    assert!(rules.iter().all(|r| r.born.0 <= r.born.1 && r.born.0 >= 940_000), "{rules:?}");
}

#[test]
fn what_not_all_frames_pass_is_not_attributable() {
    let to_b = |priority, dl_type| flow(0, priority, Some(1), dl_type, &[Step::Output(2)]);
    not_attributable(vec![to_b(9, Some(0x0806)), to_b(5, None)], "types differ");
    // Two that take all frames: which of them does is the switch's affair.
    let all = |in_port| flow(0, 5, in_port, None, &[Step::Output(2)]);
    not_attributable(vec![all(Some(1)), all(None)], "types differ");
    let steps = [Step::Table(5), Step::Table(5), Step::Output(2)];
    let drops = flow(5, 0, None, None, &[]);
    not_attributable(vec![flow(0, 5, Some(1), None, &steps), drops], "table 5 more than once");
    // Below a rule that takes all there may be others.
    let below = flow(0, 4, None, Some(0x0806), &[Step::Output(3)]);
    assert!(matches!(passed(vec![to_b(5, None), below]), Passed::Rules(rules) if rules.len() == 1));
}

#[test]
fn more_rules_than_are_told_are_not_attributable() {
    let count = u8::try_from(PASSED_RULES_MAX).unwrap();
    let rule = |table, last| {
        let step = if table == last { Step::Output(2) } else { Step::Table(table + 1) };
        flow(table, 1, None, None, &[step])
    };
    let chain = |last| (0..=last).map(|table| rule(table, last)).collect::<Vec<_>>();
    assert!(matches!(passed(chain(count - 1)), Passed::Rules(rules) if rules.len() == 64));
    not_attributable(chain(count), "more than 64");
}

#[test]
fn a_rule_that_is_another_one_is_told_anew() {
    let mut w = World::joined();
    let Some(Passed::Rules(first)) = w.passed("a") else { panic!("one rule") };
    assert_eq!(w.passed("c"), None);
    w.change(|w| w.switch.flows[0].cookie = 8);
    assert_eq!(w.passed("a"), None, "it is being checked");
    w.settle();
    let Some(Passed::Rules(second)) = w.passed("a") else { panic!("one rule") };
    assert_eq!((first[0].cookie, second[0].cookie), (7, 8));
    // The same rule with its end told is joined, and says so.
    w.change(|w| w.switch.flows[0].flags = Some(Flow::SEND_FLOW_REM));
    w.change(|w| w.switch.flows[0].cookie = 9);
    w.settle();
    assert_eq!(w.verdict("a"), &joined("b"));
    let Some(Passed::Rules(third)) = w.passed("a") else { panic!("one rule") };
    assert!(third[0].tells_end && !second[0].tells_end);
}

#[test]
fn a_rule_that_comes_where_none_was_is_told_from_one_that_takes_a_place() {
    let mut w = World::joined();
    let fresh = |w: &World| match w.passed("a") {
        Some(Passed::Rules(rules)) => rules[0].fresh,
        other => panic!("{other:?}"),
    };
    assert!(!fresh(&w), "it was there");
    let rule = w.switch.flows[0].clone();
    w.change(|w| drop(w.switch.flows.remove(0)));
    w.settle();
    w.change(|w| w.switch.flows.push(rule.clone()));
    w.settle();
    assert!(fresh(&w));
    w.change(|w| w.switch.flows[1].cookie = 8);
    w.settle();
    assert!(!fresh(&w));
}

#[test]
fn a_rule_made_anew_is_told_from_the_one_before() {
    let old = Born::of(1000, 1004, 500);
    assert_eq!(old, Born(500, 504));
    // Asked once more, a second later.
    assert!(old.may_be(&Born::of(2000, 2002, 1499)) && old.may_be(&old));
    assert!(!old.may_be(&Born::of(2000, 2002, 1400)));
    assert!(!Born::of(2000, 2002, 1400).may_be(&old));
}
