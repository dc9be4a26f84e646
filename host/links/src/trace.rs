//! What Open vSwitch itself says that it does with a frame: the text of `ofproto/trace`.

use crate::limits::{SENTENCE_CHARS, TRACE_BYTES_MAX};
use std::collections::BTreeSet;

/// How a fragment of IP looks in a question.
const FRAGMENTS: [&str; 3] = ["no", "first", "later"];
/// EtherTypes of IPv4 and IPv6.
const IP: [u16; 2] = [0x0800, 0x86dd];
/// EtherTypes that the switch has code of its own for: ARP, RARP, MPLS, LACP, CFM, LLDP, NSH, and
/// frames of IEEE 802.2, among them those of STP. A second VLAN tag is one as well.
const SPECIAL: [u16; 11] =
    [0x0806, 0x8035, 0x8847, 0x8848, 0x8809, 0x8902, 0x88cc, 0x894f, 0x05ff, 0x8100, 0x88a8];
/// Where the search for an EtherType that no rule names begins: one for experiments.
const UNKNOWN: u16 = 0x88b5;

/// A kind of frames that is asked about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packets {
    /// The EtherType.
    pub dl_type: u16,
    /// For IP: which part of a packet.
    pub fragment: Option<&'static str>,
    /// Whether it bears a VLAN tag.
    pub tagged: bool,
}

impl std::fmt::Display for Packets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "dl_type={:#06x}", self.dl_type)?;
        if let Some(fragment) = self.fragment {
            write!(f, ",nw_frag={fragment}")?;
        }
        if self.tagged { write!(f, ",dl_vlan=1") } else { Ok(()) }
    }
}

/// All kinds of frames that have to be asked about, as one for each way in which a rule that
/// looks at nothing but the port may tell them apart. `named`: EtherTypes of rules.
pub fn all_packets(named: impl IntoIterator<Item = u16>) -> Vec<Packets> {
    let mut types: BTreeSet<u16> = named.into_iter().chain(SPECIAL).collect();
    let unknown = (UNKNOWN..).find(|t| !types.contains(t) && !IP.contains(t));
    types.extend(unknown);
    let others = types.into_iter().filter(|t| !IP.contains(t)).map(|t| (t, None));
    let ip = IP.iter().flat_map(|t| FRAGMENTS.map(|f| (*t, Some(f))));
    let all = others.chain(ip);
    all.flat_map(|(dl_type, fragment)| {
        [false, true].map(|tagged| Packets { dl_type, fragment, tagged })
    })
    .collect()
}

/// What became of a frame in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It and all like it go unchanged to the interface of this name, and nowhere else.
    Goes(String),
    /// It is dropped.
    Dropped,
    /// Something else is done with it: the actions.
    Else(String),
    /// What is done depends on this, too.
    Depends(String),
    /// The switch does it in its slow path.
    Slow,
    /// The text is not what a trace says.
    Unclear,
}

/// Reads the text of a trace with names of ports.
pub fn fate(text: &str) -> Fate {
    if text.len() > TRACE_BYTES_MAX {
        return Fate::Unclear;
    }
    let lines = |begin: &'static str| text.lines().filter_map(move |l| l.strip_prefix(begin));
    let mut megaflows = lines("Megaflow: ");
    let mut actions = lines("Datapath actions: ");
    let (Some(megaflow), None) = (megaflows.next(), megaflows.next()) else {
        // Several are those of a frame that comes back, by conntrack for instance.
        return actions.next().map_or(Fate::Unclear, |a| Fate::Else(shown(a)));
    };
    let (Some(done), None) = (actions.next(), actions.next()) else { return Fate::Unclear };
    if text.contains("This flow is handled by the userspace slow path") {
        return Fate::Slow;
    }
    if let Some(field) = megaflow.split(',').find(|f| !may_depend_on(f)) {
        return Fate::Depends(shown(field));
    }
    if !lines("Final flow: ").eq(["unchanged"]) {
        return Fate::Else(shown(done));
    }
    match done {
        "drop" => Fate::Dropped,
        name if is_name(name) => Fate::Goes(name.to_owned()),
        other => Fate::Else(shown(other)),
    }
}

/// Fields that differ between the kinds of frames that are asked about, or never.
fn may_depend_on(field: &str) -> bool {
    const NAMES: [&str; 8] = ["recirc_id=0", "eth", "eth()", "ip", "ipv6", "arp", "rarp", "mpls"];
    let (name, value) = field.split_once('=').unwrap_or((field, ""));
    NAMES.contains(&field)
        || field == "mplsm"
        || (["in_port", "dl_type", "eth_type", "nw_frag", "frag"].contains(&name)
            && !value.is_empty())
}

/// One name of an interface and no list, no action with arguments, no number: a port that is
/// not the bridge's has no name here.
fn is_name(text: &str) -> bool {
    text.len() <= SENTENCE_CHARS
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:@".contains(&b))
}

/// The begin of what another program said.
pub(crate) fn shown(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(SENTENCE_CHARS).map(plain).collect()
}

#[cfg(test)]
mod tests;
