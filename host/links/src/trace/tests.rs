//! Texts are those of Open vSwitch 3.1.0.

use super::*;
use proptest::prelude::*;

fn text(megaflow: &str, actions: &str) -> String {
    format!(
        "Flow: in_port=p1,vlan_tci=0x0000,dl_type=0x0000\n\nbridge(\"br0\")\n-------------\n 0. in_port=p1, priority 32768\n    output:p2\n\nFinal flow: unchanged\nMegaflow: {megaflow}\nDatapath actions: {actions}"
    )
}

#[test]
fn one_output_that_looks_at_nothing_else_goes() {
    for megaflow in [
        "recirc_id=0,eth,in_port=p1,dl_type=0x0000",
        "recirc_id=0,eth,ip,in_port=p1,nw_frag=no",
        "recirc_id=0,eth,ipv6,in_port=p1,nw_frag=later",
        "recirc_id=0,eth,arp,in_port=p1",
        "recirc_id=0,eth,mpls,in_port=1",
        "recirc_id=0,eth(),in_port=1,eth_type=0x0806",
    ] {
        assert_eq!(fate(&text(megaflow, "p2")), Fate::Goes("p2".to_owned()), "{megaflow}");
        assert_eq!(fate(&text(megaflow, "drop")), Fate::Dropped);
    }
}

#[test]
fn each_other_field_is_named() {
    for (megaflow, field) in [
        ("recirc_id=0,eth,ip,in_port=p1,nw_proto=0,nw_frag=no", "nw_proto=0"),
        ("recirc_id=0,eth,tcp,in_port=p1,nw_frag=no", "tcp"),
        (
            "recirc_id=0,eth,in_port=p1,dl_dst=00:00:00:00:00:00,dl_type=0x8902",
            "dl_dst=00:00:00:00:00:00",
        ),
        ("recirc_id=0,eth,ip,in_port=p1,dl_vlan=9,nw_frag=no", "dl_vlan=9"),
        ("recirc_id=0,skb_priority=0,eth,ip,in_port=p1,nw_frag=no", "skb_priority=0"),
        ("recirc_id=0x1,eth,ip,in_port=p1,nw_frag=no", "recirc_id=0x1"),
    ] {
        assert_eq!(fate(&text(megaflow, "p2")), Fate::Depends(field.to_owned()));
    }
}

#[test]
fn each_other_action_is_named() {
    let megaflow = "recirc_id=0,eth,ip,in_port=p1,nw_frag=no";
    for actions in [
        "p2,p4",
        "sample(sample=1.6%,actions(userspace(pid=0,sFlow(vid=0,pcp=0,output=2147483649),actions))),p2",
        "meter(0),p2",
        "userspace(pid=0,controller(reason=1))",
        "ct,recirc(0x1)",
        "set(skb_priority(0x1)),p2",
        "2",
        "",
    ] {
        assert_eq!(fate(&text(megaflow, actions)), Fate::Else(actions.to_owned()));
    }
    let changed = text(megaflow, "p2").replace("unchanged", "skb_priority=0x1,ip,in_port=1");
    assert_eq!(fate(&changed), Fate::Else("p2".to_owned()));
    let twice = format!("{}\n{}", text(megaflow, "ct,recirc(0x1)"), text(megaflow, "p2"));
    assert_eq!(fate(&twice), Fate::Else("ct,recirc(0x1)".to_owned()));
}

#[test]
fn the_slow_path_and_what_is_no_trace_are_seen() {
    let slow = "This flow is handled by the userspace slow path because it:\n  - Consists of LACP packets.";
    let megaflow = "recirc_id=0,eth,in_port=p1,dl_type=0x8809";
    assert_eq!(fate(&format!("{}\n{slow}", text(megaflow, "p2"))), Fate::Slow);
    for nonsense in ["", "bridge not found", "Datapath actions", "Megaflow: recirc_id=0,eth"] {
        assert_eq!(fate(nonsense), Fate::Unclear, "{nonsense}");
    }
    let long = format!("{}{}", "x".repeat(TRACE_BYTES_MAX), text(megaflow, "p2"));
    assert_eq!(fate(&long), Fate::Unclear);
}

#[test]
fn an_ethertype_that_no_rule_names_is_among_those_that_are_asked_about() {
    let unknown = |named: &[u16]| {
        let all = all_packets(named.iter().copied());
        let strange = |t: &u16| !named.contains(t) && !SPECIAL.contains(t) && !IP.contains(t);
        let found: BTreeSet<u16> = all.iter().map(|p| p.dl_type).filter(strange).collect();
        assert!(named.iter().all(|n| all.iter().any(|p| p.dl_type == *n)));
        found.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(unknown(&[]), [UNKNOWN]);
    assert_eq!(unknown(&[UNKNOWN, UNKNOWN + 1, 0x9000]), [UNKNOWN + 2]);
    let kinds = all_packets([]);
    assert_eq!(kinds.len(), 2 * (SPECIAL.len() + 1 + IP.len() * FRAGMENTS.len()));
}

proptest! {
    #[test]
    fn any_text_is_read(text in "\\PC*") {
        let _ = fate(&text);
    }

    /// No field that is added is overlooked.
    #[test]
    fn a_field_of_any_name_is_seen(name in "[a-z_]{1,12}", value in "[0-9a-f]{1,8}") {
        let known = ["in_port", "dl_type", "eth_type", "nw_frag", "frag"];
        prop_assume!(!known.contains(&&*name));
        let megaflow = format!("recirc_id=0,eth,in_port=p1,{name}={value},dl_type=0x88b5");
        prop_assert_eq!(fate(&text(&megaflow, "p2")), Fate::Depends(format!("{name}={value}")));
    }
}
