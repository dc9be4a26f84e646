//! The detector on a real, stock Open vSwitch: packaging/ovs-dpdk.sh unpacks one, and prints the
//! folder for VFUN_OVS_DIR. Its datapath is the dummy one, so it needs no root, and no frame moves.

mod features;
mod switch;
mod watched;

use features::{APART, FEATURES, Feature, HARMLESS};
use std::time::Instant;
use switch::{Switch, end, programs, run, start_database};
use watched::Watched;

/// Rules in the test of many, and in a burst.
const MANY: usize = 10_000;
/// Changes of one rule among them.
const ROUNDS: usize = 20;

#[test]
fn each_feature_of_the_switch_withdraws_the_verdict_and_its_end_brings_it_back() {
    let Some(programs) = programs() else { return };
    let switch = Switch::start(programs);
    let mut watched = Watched::of(&switch);
    watched.joins("at the start");
    for (name, on, off, reason) in FEATURES {
        let began = Instant::now();
        run(&switch, on);
        watched.has_reason(1, reason);
        run(&switch, off);
        watched.joins(name);
        eprintln!("{name} ({:?}): {reason}", began.elapsed());
    }
}

#[test]
fn what_does_no_harm_leaves_ports_joined() {
    let Some(programs) = programs() else { return };
    let switch = Switch::start(programs);
    let mut watched = Watched::of(&switch);
    watched.joins("at the start");
    for (name, on, off, _) in HARMLESS {
        run(&switch, on);
        settled(&switch, &mut watched);
        watched.joins(name);
        run(&switch, off);
        settled(&switch, &mut watched);
        watched.joins(&format!("without {name}"));
    }
}

/// Waits until all changes so far have been judged: a change behind them has.
fn settled(switch: &Switch, watched: &mut Watched) {
    switch.ofctl("mod-port br0 p2 down");
    watched.says(2, "set down");
    switch.ofctl("mod-port br0 p2 up");
}

/// These cause no event: the next look finds them.
#[test]
fn what_causes_no_event_is_found_by_looking_again() {
    let Some(programs) = programs() else { return };
    let switch = Switch::start(programs);
    let mut watched = Watched::of(&switch);
    watched.joins("at the start");
    run(&switch, &["f mod-table br0 0 evict"]);
    watched.says(1, "eviction");
    run(&switch, &["f mod-table br0 0 noevict"]);
    watched.joins("without eviction");
    run(&switch, &["f set-frags br0 drop"]);
    watched.says(1, "drop");
    run(&switch, &["f set-frags br0 normal"]);
    watched.joins("with fragments as others");
}

#[test]
fn a_new_start_of_the_switch_or_of_its_database_withdraws_the_verdict() {
    let Some(programs) = programs() else { return };
    let mut switch = Switch::start(programs);
    let mut watched = Watched::of(&switch);
    watched.joins("at the start");
    end(&mut switch.daemon);
    watched.says(1, "there is no connection to the");
    watched.says(2, "there is no connection to the");
    switch.restart();
    watched.says(1, "no rule of table 0 takes all its frames");
    assert!(!watched.joined(2), "its rules are gone: {:?}", watched.now);
    switch.join();
    watched.joins("after a new start of the switch");
    end(&mut switch.database);
    watched.says(1, "database");
    watched.says(2, "database");
    switch.database = start_database(&switch.programs, switch.folder.path());
    watched.joins("after a new start of the database");
    switch.vsctl("del-port br0 p2");
    watched.says(1, "p2");
    switch.vsctl("add-port br0 p2 -- set Interface p2 type=dummy ofport_request=2");
    switch.join();
    watched.joins("with the port again");
    switch.vsctl("del-br br0");
    watched.says(1, "br0.mgmt: No such file");
}

/// Writes rules into a file and gives all of them to the switch at once.
fn add_all(switch: &Switch, rules: impl Iterator<Item = String>) {
    let file = switch.path("rules");
    std::fs::write(&file, rules.collect::<Vec<_>>().join("\n")).unwrap();
    switch.ofctl(&format!("add-flows br0 {}", file.display()));
}

#[test]
fn many_rules_and_bursts_of_changes_end_with_the_right_verdict() {
    let Some(programs) = programs() else { return };
    let switch = Switch::start(programs);
    let mut watched = Watched::of(&switch);
    watched.joins("at the start");
    let began = Instant::now();
    add_all(
        &switch,
        (0..MANY).map(|n| {
            format!(
                "priority=9,in_port=3,dl_dst=02:00:00:00:{:02x}:{:02x},actions=drop",
                n >> 8,
                n & 255
            )
        }),
    );
    settled(&switch, &mut watched);
    watched.joins("after many rules");
    eprintln!("{MANY} rules for another port: {:?}", began.elapsed());
    let mut at_once = 0;
    for _ in 0..ROUNDS {
        switch.ofctl("add-flow br0 idle_timeout=300,in_port=1,actions=output:2");
        watched.take_all();
        at_once += usize::from(!watched.joined(1));
        watched.says(1, "idle_timeout");
        let began = Instant::now();
        switch.ofctl("add-flow br0 in_port=1,actions=output:2");
        watched.joins("among many rules");
        eprintln!("joined {:?} after ovs-ofctl's begin", began.elapsed());
    }
    eprintln!("withdrawn before ovs-ofctl's end: {at_once} of {ROUNDS}");
    // A detector that begins now finds all rules there.
    let began = Instant::now();
    let mut second = Watched::of(&switch);
    second.joins("at a start among many rules");
    eprintln!("a start among them: {:?}", began.elapsed());
    for last in ["drop", "output:2"] {
        let changes = ["output:2", "NORMAL", "drop", "output:3", last];
        let rule = |n| format!("in_port=1,actions={}", changes[n % changes.len()]);
        add_all(&switch, (0..MANY).map(rule));
        for watched in [&mut watched, &mut second] {
            match last {
                "drop" => watched.says(1, "dropped"),
                _ => watched.joins("after a burst"),
            }
        }
    }
}

/// They come and go faster than they are judged. As long as one is there, p1 is not joined.
#[test]
fn features_that_come_and_go_in_any_order_end_with_the_right_verdict() {
    let Some(programs) = programs() else { return };
    let switch = Switch::start(programs);
    let mut watched = Watched::of(&switch);
    watched.joins("at the start");
    let features: Vec<&Feature> = FEATURES.iter().filter(|f| APART.contains(&f.0)).collect();
    assert_eq!(features.len(), APART.len());
    let mut on = vec![false; features.len()];
    // Any row of numbers would do; this one is the same each time.
    let mut number: u32 = 1;
    for round in 0..12 {
        for _ in 0..8 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = (number >> 16) as usize % features.len();
            run(&switch, if on[at] { features[at].2 } else { features[at].1 });
            on[at] = !on[at];
        }
        if round % 3 == 2 {
            for (at, feature) in features.iter().enumerate().filter(|(at, _)| on[*at]) {
                eprintln!("{} goes, number {at}", feature.0);
                run(&switch, feature.2);
            }
            on.fill(false);
            watched.joins("without any of them");
        } else if on.contains(&true) {
            // Between two of them it may have been joined.
            watched.take_rest();
            watched.until("withdrawn", |w| !w.joined(1));
            watched.take_rest();
            assert!(!watched.joined(1), "{on:?}");
        }
    }
}

/// Why rules are read, and the database is asked, though there are traces (docs/links-detector.md,
/// "Where Open vSwitch is not as was thought").
#[test]
fn traces_hide_and_show_what_the_page_says() {
    let Some(programs) = programs() else { return };
    let switch = Switch::start(programs);
    let trace = |flow: &str| switch.appctl(&format!("ofproto/trace --names br0 in_port=1,{flow}"));
    let megaflow = |flow: &str| {
        let text = trace(flow);
        let line = text.lines().find(|line| line.starts_with("Megaflow: "));
        line.expect("a trace has one").to_owned()
    };
    assert!(!megaflow("dl_type=0x0800").contains("nw_proto"), "nothing asks for it");
    let of = |feature: &str| FEATURES.iter().find(|f| f.0 == feature).expect("it is in the list");
    for feature in ["learn", "a group of one bucket"] {
        let (_, on, off, _) = of(feature);
        run(&switch, on);
        let text = trace("dl_type=0x88b5");
        let goes = text.lines().any(|line| line == "Datapath actions: p2");
        assert!(goes, "{feature} is hidden: {text}");
        run(&switch, off);
    }
    let shows = |feature: &str, flow: &str, field: &str, is: bool| {
        let (_, on, off, _) = of(feature);
        run(&switch, on);
        let megaflow = megaflow(flow);
        assert_eq!(megaflow.contains(field), is, "{feature} {flow}: {megaflow}");
        run(&switch, off);
    };
    shows("NetFlow", "dl_type=0x0800", "nw_proto", true);
    shows("BFD", "dl_type=0x0800", "nw_proto", true);
    shows("a rule for a VLAN", "dl_type=0x0806", "dl_vlan", false);
    shows("a rule for a VLAN", "dl_type=0x0806,dl_vlan=1", "dl_vlan", true);
}
