//! Verdicts and their reasons, each with a sentence for people.

use crate::limits::{CALM_WINDOWS, JUDGE_MS, NAMED_TYPES_MAX, OURS_MAX, PACE_CALM, PACE_MAX};
use crate::limits::{RULES_BYTES_MAX, RULES_MAX};
use crate::openflow::ActionFault;
use crate::trace::Packets;
use std::fmt::{Display, Formatter, Result};

/// What holds for frames of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of them go unchanged to this port of ours, and nowhere else.
    Joined {
        /// The interface of that port.
        to: String,
    },
    /// They did so, and something happened that may end it.
    Anew {
        /// The interface to which they went.
        was: String,
    },
    /// They go through the switch.
    Not(Hindrance),
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The bridge's management socket.
    OpenFlow,
    /// The database.
    Ovsdb,
    /// The socket for traces.
    Trace,
}

/// A rule, as people find it in the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleName {
    /// Its table.
    pub table: u8,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
}

/// What a rule does that a direct link would pass by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleFault {
    /// It does more than to send a frame on.
    Action(ActionFault),
    /// It ends when the switch sees no frame for so many seconds.
    IdleTimeout(u16),
    /// Its end is told with counts that would miss the link's frames.
    SendFlowRem,
}

/// What is not known (yet).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A connection, and why.
    Peer(Peer, String),
    /// The database is being read.
    Rows,
    /// The rules are being read.
    Rules,
    /// The ports are being read.
    Ports,
    /// The switch holds changes of rules back.
    Paused,
    /// The bridge is not in the database.
    Bridge,
    /// No port of the bridge has this interface.
    Interface(String),
    /// The switch has not opened this interface.
    Number(String),
    /// The switch does not say the MTU of this interface.
    Mtu(String),
    /// The switch shows no such port, or under another name.
    OpenFlowPort {
        /// The interface.
        interface: String,
        /// Its number.
        number: u32,
    },
    /// Not judged since it was declared.
    Judgement,
    /// An answer that did not come in time.
    Answer,
    /// The switch refused a trace, or its text is not clear: its words.
    TraceOf(Packets, String),
    /// The switch refused a question.
    Refused {
        /// OpenFlow's class of error.
        class: u16,
        /// What exactly.
        code: u16,
    },
    /// There are more rules than are kept.
    TooManyRules,
}

/// Why frames of a port go through the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// Something is not known.
    NotKnown(Missing),
    /// Rules change too often.
    TooManyChanges,
    /// Rules name too many EtherTypes.
    TooManyTypes,
    /// More ports were declared than are looked at.
    TooManyPorts,
    /// It is no port of ours any more.
    NotDeclared,
    /// The bridge speaks STP.
    Stp,
    /// The bridge speaks RSTP.
    Rstp,
    /// The bridge samples for sFlow.
    Sflow,
    /// The bridge reports to a NetFlow collector.
    Netflow,
    /// The bridge samples for IPFIX.
    Ipfix,
    /// A mirror copies frames of this interface.
    Mirror {
        /// The mirror's name.
        mirror: String,
        /// The interface.
        interface: String,
    },
    /// The bridge forwards by itself when its controller is gone.
    FailsOpen,
    /// The bridge has hidden rules for its controller.
    InBand,
    /// The bridge throws rules away when a table is full.
    BridgeEvicts,
    /// The switch waits until its rules have been restored.
    Restoring,
    /// The bridge treats fragments in another way than other frames.
    Fragments,
    /// A table throws rules away when it is full.
    Evicts(u8),
    /// An interface has a feature that the link would pass by.
    Feature {
        /// The interface.
        interface: String,
        /// The feature.
        feature: Feature,
    },
    /// An interface is not what it should be.
    OtherKind {
        /// The interface.
        interface: String,
        /// The kind that it is to have.
        expected: String,
        /// The kind that it has.
        found: String,
    },
    /// A frame of the one port may be too long for the other one.
    Mtu {
        /// Of the sender.
        from: u32,
        /// Of the receiver.
        to: u32,
    },
    /// No rule of this table takes all frames: the table decides about the rest.
    TableDecides(u8),
    /// No rule that frames may meet sends them anywhere.
    NoOutput,
    /// A rule does what a link cannot do.
    Rule(RuleName, RuleFault),
    /// Some frames are dropped.
    Dropped(Packets),
    /// They are joined to another port of ours.
    JoinedTo(String),
    /// Frames go to a port that is not ours.
    NotOurs(String),
    /// A rule that frames may meet sends to another OpenFlow port.
    OtherOutput(u32),
    /// Frames go to several ports, each its own.
    Splits(String, String),
    /// Something else is done with some frames: the switch's words.
    DoneTo(Packets, String),
    /// What is done depends on this, too.
    Depends(Packets, String),
    /// The switch looks at some frames itself.
    Slow(Packets),
}

/// What an interface may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// A limit of what it receives.
    Policing,
    /// A QoS.
    Qos,
    /// LACP.
    Lacp,
    /// Several interfaces in one port.
    Bond,
    /// BFD.
    Bfd,
    /// CFM.
    Cfm,
    /// LLDP.
    Lldp,
    /// An operator set it down.
    Down,
    /// It has no carrier.
    LinkDown,
    /// What it receives is dropped.
    NoReceive,
    /// Nothing is sent to it.
    NoForward,
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Verdict::Joined { to } => write!(f, "joined to {to}"),
            Verdict::Anew { was } => {
                write!(f, "it is being checked again; until now it was joined to {was}")
            }
            Verdict::Not(why) => write!(f, "through the switch: {why}"),
        }
    }
}

impl Display for Peer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Peer::OpenFlow => "the bridge's management socket",
            Peer::Ovsdb => "the switch's database",
            Peer::Trace => "the switch's control socket",
        })
    }
}

impl Display for RuleName {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let RuleName { table, priority, cookie } = self;
        write!(f, "the rule in table {table} with priority {priority} and cookie {cookie:#x}")
    }
}

impl Display for RuleFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            RuleFault::Action(action) => {
                write!(f, "does not only forward frames: one of its actions is {action}")
            }
            RuleFault::IdleTimeout(s) => {
                write!(f, "would end after {s} s without frames in the switch (idle_timeout)")
            }
            RuleFault::SendFlowRem => f.write_str("tells its counts at its end (send_flow_rem)"),
        }
    }
}

impl Display for Missing {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Missing::Peer(peer, why) => write!(f, "there is no connection to {peer}: {why}"),
            Missing::Rows => f.write_str("the switch's database is being read"),
            Missing::Rules => f.write_str("the rules are being read"),
            Missing::Ports => f.write_str("the ports are being read"),
            Missing::Paused => f.write_str("the switch holds changes of rules back"),
            Missing::Bridge => f.write_str(
                "the bridge is not in the switch's database: make it, or name another one",
            ),
            Missing::Interface(i) => write!(f, "the bridge has no interface {i}: add it as a port"),
            Missing::Number(i) => {
                write!(f, "the switch has not opened interface {i}: its column `error` says why")
            }
            Missing::Mtu(i) => write!(f, "the switch does not say the MTU of {i}"),
            Missing::OpenFlowPort { interface, number } => {
                write!(f, "the switch shows no port {number} with the name {interface}")
            }
            Missing::Judgement => f.write_str("not judged yet"),
            Missing::Answer => write!(
                f,
                "the switch or its database did not answer in {} s: see whether it hangs, and its log",
                JUDGE_MS / 1000
            ),
            Missing::TraceOf(packets, why) => {
                write!(f, "the switch does not say what becomes of {packets}: {why}")
            }
            Missing::Refused { class, code } => write!(
                f,
                "the bridge refused a question that Open vSwitch 3.1 answers (class {class:#x}, code {code:#x}): its log says more"
            ),
            Missing::TooManyRules => write!(
                f,
                "the bridge has more than {RULES_MAX} rules, or more than {} MiB of them",
                RULES_BYTES_MAX >> 20
            ),
        }
    }
}

impl Display for Hindrance {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Hindrance::NotKnown(what) => write!(f, "something is not known: {what}"),
            Hindrance::TooManyChanges => f.write_str(&too_many_changes()),
            Hindrance::TooManyTypes => {
                write!(f, "rules of the bridge name more than {NAMED_TYPES_MAX} EtherTypes")
            }
            Hindrance::TooManyPorts => f.write_str(&too_many_ports()),
            Hindrance::NotDeclared => f.write_str("it was taken from the ports that are checked"),
            Hindrance::Stp => f.write_str("the bridge speaks STP"),
            Hindrance::Rstp => f.write_str("the bridge speaks RSTP"),
            Hindrance::Sflow => f.write_str("the bridge samples frames for sFlow"),
            Hindrance::Netflow => f.write_str("the bridge counts frames for NetFlow"),
            Hindrance::Ipfix => f.write_str("the bridge samples frames for IPFIX"),
            Hindrance::Mirror { mirror, interface } => {
                write!(f, "the mirror {mirror} copies frames of {interface}")
            }
            Hindrance::FailsOpen => f.write_str(
                "the bridge forwards by itself when its controller is gone: set fail_mode=secure",
            ),
            Hindrance::InBand => f.write_str(
                "the bridge has hidden rules for its controller: set other_config:disable-in-band=true",
            ),
            Hindrance::BridgeEvicts => f.write_str(
                "the bridge throws rules away when a table is full (overflow_policy=evict)",
            ),
            Hindrance::Restoring => {
                f.write_str("the rules of the switch are being restored (flow-restore-wait)")
            }
            Hindrance::Fragments => f.write_str("the bridge treats fragments of IP differently"),
            Hindrance::Evicts(table) => {
                write!(f, "table {table} throws rules away when it is full (eviction)")
            }
            Hindrance::Feature { interface, feature } => write!(f, "{interface} {feature}"),
            Hindrance::OtherKind { interface, expected, found } => {
                write!(f, "{interface} is {found} and not {expected}")
            }
            Hindrance::Mtu { from, to } => {
                write!(f, "frames of the sender (MTU {from}) are too long for the receiver ({to})")
            }
            Hindrance::TableDecides(table) => write!(
                f,
                "no rule of table {table} takes all its frames: add one without other fields than in_port"
            ),
            Hindrance::NoOutput => {
                f.write_str("no rule that its frames may meet sends them to a port")
            }
            Hindrance::Rule(rule, fault) => write!(f, "{rule} {fault}"),
            Hindrance::Dropped(packets) => write!(f, "frames with {packets} are dropped"),
            Hindrance::JoinedTo(to) => write!(f, "frames go to {to}"),
            Hindrance::NotOurs(to) => write!(f, "frames go to {to}, which is no other port of ours"),
            Hindrance::OtherOutput(port) => {
                write!(f, "a rule that its frames may meet sends to port {port}")
            }
            Hindrance::Splits(one, other) => write!(f, "some frames go to {one}, some to {other}"),
            Hindrance::DoneTo(packets, what) => {
                write!(f, "frames with {packets} are not only sent on: {what}")
            }
            Hindrance::Depends(packets, field) => {
                write!(f, "what becomes of frames with {packets} depends on more: {field}")
            }
            Hindrance::Slow(packets) => {
                write!(f, "the switch itself looks at frames with {packets} (slow path)")
            }
        }
    }
}

fn too_many_changes() -> String {
    format!(
        "more than {PACE_MAX} rules change in a second; it ends after {CALM_WINDOWS} seconds with less than {PACE_CALM}"
    )
}

fn too_many_ports() -> String {
    format!(
        "more ports were declared for the bridge than the {OURS_MAX} that are checked: use a second bridge"
    )
}

impl Display for Feature {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Feature::Policing => "has a limit of what it receives (ingress_policing)",
            Feature::Qos => "has a QoS",
            Feature::Lacp => "speaks LACP",
            Feature::Bond => "is one of several in a bond",
            Feature::Bfd => "speaks BFD",
            Feature::Cfm => "speaks CFM",
            Feature::Lldp => "speaks LLDP",
            Feature::Down => "is set down",
            Feature::LinkDown => "has no carrier",
            Feature::NoReceive => "receives nothing (no-receive)",
            Feature::NoForward => "is sent nothing (no-forward)",
        })
    }
}
