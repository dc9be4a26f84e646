//! What an operator may switch on in Open vSwitch, and what is to be seen of it.

/// What becomes of the numbers that are sent meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrives {
    /// Each comes once, and in order.
    All,
    /// Some are dropped.
    Some,
    /// None comes to the program in the VM, though its interface may get them.
    Unread,
    /// None comes to the VM, which gets frames of the switch itself.
    Unheard,
    /// None comes to the VM.
    Nothing,
    /// The VM itself cannot send.
    Unsent,
}

/// Who counts frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// The rules of the first table for frames of the sender.
    Rules,
    /// A rule of another table.
    Table(u8),
    /// What was sent to the mirror's port.
    Mirror,
    Group,
    Meter,
    /// Frames that the sender's port dropped, and those of its rules.
    Policed,
    /// Frames that the receiver's port dropped, and those that came to the VM.
    Shaped,
    SFlow,
    NetFlow,
    Ipfix,
    /// What a controller was shown.
    Controller,
}

/// How a feature comes and goes, and what it does. `{a}` and `{b}` are the ports of the sender and the receiver, `{br}` is
/// their bridge; the commands are those of `OpenVSwitch::tries_line`.
pub struct Feature {
    pub name: &'static str,
    pub on: &'static [&'static str],
    pub off: &'static [&'static str],
    /// What `vfun links` says of it.
    pub why: &'static str,
    pub arrives: Arrives,
    /// Each of them counts each frame.
    pub counters: &'static [Counter],
    /// A question to the switch, and words in its answer.
    pub shows: Option<(&'static str, &'static str)>,
}

const ONLY: Feature = Feature {
    name: "",
    on: &[],
    off: JOIN,
    why: "",
    arrives: Arrives::All,
    counters: &[Counter::Rules],
    shows: None,
};
/// The rule that joins.
const JOIN: &[&str] = &["f add-flow {br} in_port={a},actions=output:{b}"];

/// A rule that no frame meets. Open vSwitch 3.1.0 does not look through what it has cached when a mirror comes: a
/// flow that it knows goes on without it, for minutes, until a rule changes. It is so without links.
const CHANGE: &str = "f add-flow {br} table=99,actions=drop";
const UNCHANGE: &str = "f del-flows {br} table=99";

use Arrives::{Nothing, Some as Part, Unheard, Unread, Unsent};
use Counter::{
    Controller, Group, Ipfix, Meter, Mirror, NetFlow, Policed, Rules, SFlow, Shaped, Table,
};

pub const FEATURES: &[Feature] = &[
    Feature {
        name: "mirror",
        on: &[
            "v -- --id=@p get Port {a} -- --id=@m get Port mirror -- --id=@x create Mirror name=x select-src-port=@p output-port=@m -- set Bridge {br} mirrors=@x",
            CHANGE,
        ],
        off: &["v clear Bridge {br} mirrors", UNCHANGE],
        why: "the mirror x copies frames of {a}",
        counters: &[Rules, Mirror],
        ..ONLY
    },
    Feature {
        name: "sFlow",
        on: &[
            "v -- --id=@s create sFlow agent=lo targets=\"127.0.0.1:6343\" sampling=1 polling=0 -- set Bridge {br} sflow=@s",
        ],
        off: &["v clear Bridge {br} sflow"],
        why: "samples frames for sFlow",
        counters: &[Rules, SFlow],
        ..ONLY
    },
    Feature {
        name: "NetFlow",
        on: &[
            "v -- --id=@s create NetFlow targets=\"127.0.0.1:5566\" active_timeout=1 -- set Bridge {br} netflow=@s",
        ],
        off: &["v clear Bridge {br} netflow"],
        why: "counts frames for NetFlow",
        counters: &[Rules, NetFlow],
        ..ONLY
    },
    Feature {
        name: "IPFIX",
        on: &[
            "v -- --id=@s create IPFIX targets=\"127.0.0.1:4739\" sampling=1 cache_active_timeout=0 other_config:enable-output-sampling=false -- set Bridge {br} ipfix=@s",
        ],
        off: &["v clear Bridge {br} ipfix"],
        why: "samples frames for IPFIX",
        counters: &[Rules, Ipfix],
        ..ONLY
    },
    Feature {
        name: "meter",
        on: &[
            "f add-meter {br} meter=1,kbps,stats,band=type=drop,rate=8",
            "f add-flow {br} in_port={a},actions=meter:1,output:{b}",
        ],
        off: &[JOIN[0], "f del-meters {br}"],
        why: "one of its actions is meter",
        arrives: Part,
        counters: &[Rules, Meter],
        ..ONLY
    },
    Feature {
        name: "ingress policing",
        on: &["v set Interface {a} ingress_policing_rate=8 ingress_policing_burst=8"],
        off: &["v set Interface {a} ingress_policing_rate=0 ingress_policing_burst=0"],
        why: "{a} has a limit of what it receives",
        arrives: Part,
        counters: &[Policed],
        ..ONLY
    },
    Feature {
        name: "QoS (egress-policer)",
        on: &[
            "v set Port {b} qos=@q -- --id=@q create QoS type=egress-policer other-config:cir=1000 other-config:cbs=2048",
        ],
        off: &["v clear Port {b} qos -- --all destroy QoS"],
        why: "{b} has a QoS",
        arrives: Part,
        counters: &[Rules, Shaped],
        ..ONLY
    },
    Feature {
        name: "action controller",
        on: &["f add-flow {br} in_port={a},actions=controller,output:{b}"],
        why: "one of its actions is controller",
        counters: &[Rules, Controller],
        ..ONLY
    },
    Feature {
        name: "action NORMAL",
        on: &["f add-flow {br} in_port={a},actions=NORMAL"],
        why: "one of its actions is NORMAL",
        ..ONLY
    },
    Feature {
        name: "VLANs of ports (tag) with NORMAL",
        on: &[
            "v set Port {a} tag=7 -- set Port {b} tag=8",
            "f add-flow {br} in_port={a},actions=NORMAL",
        ],
        off: &[JOIN[0], "v clear Port {a} tag -- clear Port {b} tag"],
        why: "one of its actions is NORMAL",
        arrives: Nothing,
        ..ONLY
    },
    Feature {
        name: "action mod_vlan_vid",
        on: &["f add-flow {br} in_port={a},actions=mod_vlan_vid:7,output:{b}"],
        why: "one of its actions is",
        arrives: Unread,
        ..ONLY
    },
    Feature {
        name: "action push_vlan",
        on: &[
            "f add-flow {br} in_port={a},actions=push_vlan:0x8100,set_field:4103->vlan_vid,output:{b}",
        ],
        why: "one of its actions is push_vlan",
        arrives: Unread,
        ..ONLY
    },
    Feature {
        name: "a rule for a VLAN",
        on: &["f add-flow {br} priority=40000,in_port={a},dl_vlan=7,actions=drop"],
        off: &["f del-flows {br} --strict priority=40000,in_port={a},dl_vlan=7"],
        why: "dl_vlan",
        ..ONLY
    },
    Feature {
        name: "action learn",
        on: &[
            "f add-flow {br} in_port={a},actions=learn(table=9,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),output:{b}",
        ],
        off: &[JOIN[0], "f del-flows {br} table=9"],
        why: "one of its actions is learn",
        shows: Some(("f dump-flows {br} table=9", "dl_dst=")),
        ..ONLY
    },
    Feature {
        name: "conntrack",
        on: &["f add-flow {br} priority=40000,in_port={a},ip,actions=ct(commit),output:{b}"],
        off: &["f del-flows {br} --strict priority=40000,in_port={a},ip"],
        why: "one of its actions is ct",
        shows: Some(("a dpctl/dump-conntrack", "dport=7)")),
        ..ONLY
    },
    Feature {
        name: "group of type all",
        on: &[
            "f add-group {br} group_id=3,type=all,bucket=output:{b}",
            "f add-flow {br} in_port={a},actions=group:3",
        ],
        off: &[JOIN[0], "f del-groups {br}"],
        why: "one of its actions is group",
        counters: &[Rules, Group],
        ..ONLY
    },
    Feature {
        name: "group of type select",
        on: &[
            "f add-group {br} group_id=3,type=select,bucket=output:{b},bucket=output:{b}",
            "f add-flow {br} in_port={a},actions=group:3",
        ],
        off: &[JOIN[0], "f del-groups {br}"],
        why: "one of its actions is group",
        counters: &[Rules, Group],
        ..ONLY
    },
    Feature {
        name: "tables with different results",
        on: &[
            "f add-flow {br} table=1,priority=9,udp,tp_dst=7,actions=output:{b}",
            "f add-flow {br} table=1,priority=1,actions=drop",
            "f add-flow {br} in_port={a},actions=resubmit(,1)",
        ],
        off: &[JOIN[0], "f del-flows {br} table=1"],
        why: "are dropped",
        counters: &[Rules, Table(1)],
        ..ONLY
    },
    Feature {
        name: "a rule for one kind of frames (ICMP)",
        on: &["f add-flow {br} priority=40000,in_port={a},icmp,actions=drop"],
        off: &["f del-flows {br} --strict priority=40000,in_port={a},icmp"],
        why: "depends on more",
        ..ONLY
    },
    Feature {
        name: "a rule for ARP",
        on: &["f add-flow {br} priority=40000,arp,actions=drop"],
        off: &["f del-flows {br} --strict priority=40000,arp"],
        why: "frames with dl_type=0x0806 are dropped",
        ..ONLY
    },
    Feature {
        name: "drop",
        on: &["f add-flow {br} in_port={a},actions=drop"],
        why: "are dropped",
        arrives: Nothing,
        ..ONLY
    },
    Feature {
        name: "action FLOOD",
        on: &["f add-flow {br} in_port={a},actions=FLOOD"],
        why: "one of its actions is FLOOD",
        counters: &[Rules, Mirror],
        ..ONLY
    },
    Feature {
        name: "a queue",
        on: &["f add-flow {br} in_port={a},actions=set_queue:1,output:{b}"],
        why: "one of its actions is set_queue",
        ..ONLY
    },
    Feature {
        name: "a changed field",
        on: &["f add-flow {br} in_port={a},actions=mod_dl_src:02:00:00:00:00:01,output:{b}"],
        why: "one of its actions is set_field",
        ..ONLY
    },
    Feature {
        name: "idle_timeout",
        on: &["f add-flow {br} idle_timeout=300,in_port={a},actions=output:{b}"],
        why: "(idle_timeout)",
        ..ONLY
    },
    Feature {
        name: "send_flow_rem",
        on: &["f add-flow {br} send_flow_rem,in_port={a},actions=output:{b}"],
        why: "(send_flow_rem)",
        ..ONLY
    },
    Feature {
        name: "STP",
        on: &["v set Bridge {br} stp_enable=true"],
        off: &["v set Bridge {br} stp_enable=false"],
        why: "the bridge speaks STP",
        // The port listens for half a minute before it lets frames pass.
        arrives: Unheard,
        counters: &[],
        ..ONLY
    },
    Feature {
        name: "BFD",
        on: &["v set Interface {a} bfd:enable=true"],
        off: &["v clear Interface {a} bfd"],
        why: "{a} speaks BFD",
        shows: Some(("a bfd/show", "Local Session State")),
        ..ONLY
    },
    Feature {
        name: "CFM",
        on: &["v set Interface {b} cfm_mpid=5"],
        off: &["v clear Interface {b} cfm_mpid"],
        why: "{b} speaks CFM",
        shows: Some(("a cfm/show", "MPID 5")),
        ..ONLY
    },
    Feature {
        name: "LACP",
        on: &["v set Port {a} lacp=active"],
        // As with a mirror: until a rule changes, the switch goes on to look at these frames itself.
        off: &["v clear Port {a} lacp", CHANGE, UNCHANGE],
        why: "{a} speaks LACP",
        shows: Some(("a lacp/show", "active")),
        ..ONLY
    },
    Feature {
        name: "no-forward",
        on: &["f mod-port {br} {b} no-forward"],
        off: &["f mod-port {br} {b} forward"],
        why: "{b} is sent nothing (no-forward)",
        arrives: Nothing,
        ..ONLY
    },
    Feature {
        name: "no-receive",
        on: &["f mod-port {br} {a} no-receive"],
        off: &["f mod-port {br} {a} receive"],
        why: "{a} receives nothing (no-receive)",
        arrives: Nothing,
        counters: &[],
        ..ONLY
    },
    Feature {
        name: "the receiver's port down",
        on: &["f mod-port {br} {b} down"],
        off: &["f mod-port {br} {b} up"],
        why: "{b} is set down",
        arrives: Nothing,
        ..ONLY
    },
    Feature {
        name: "the sender's port down",
        on: &["f mod-port {br} {a} down"],
        off: &["f mod-port {br} {a} up"],
        why: "{a} is set down",
        arrives: Unsent,
        counters: &[],
        ..ONLY
    },
    Feature {
        name: "fail_mode standalone with a controller",
        on: &["v set Bridge {br} fail_mode=standalone -- set-controller {br} unix:/nonexistent/x"],
        off: &[
            "v del-controller {br} -- clear Bridge {br} fail_mode",
            "f del-flows {br}",
            JOIN[0],
            "f add-flow {br} in_port={b},actions=output:{a}",
        ],
        why: "set fail_mode=secure",
        arrives: Part,
        ..ONLY
    },
];
