//! The conditions that are not asked for by traces: those of the bridge, of the sender and of
//! the receiver.

use super::rules::Rules;
use super::verdict::{Feature, Hindrance, Missing};
use super::{Database, Detector, Known, OurPort, Switch};
use crate::openflow::OfPort;
use crate::ovsdb::{BridgeFacts, Facts, InterfaceFacts};
use crate::trace::shown;

/// Bytes of a port's name that OpenFlow shows.
const NAME_BYTES: usize = 15;

impl Detector {
    pub(super) fn rules(&self) -> Result<&Rules, Hindrance> {
        match &self.switch {
            Switch::Known(Known { rules, reading: None, .. }) => Ok(rules),
            _ => Err(Hindrance::NotKnown(Missing::Rules)),
        }
    }

    fn facts(&self) -> Result<&Facts, Hindrance> {
        match &self.database {
            Database::Read(Some(facts)) => Ok(facts),
            _ => Err(Hindrance::NotKnown(Missing::Bridge)),
        }
    }

    /// All that hinders frames of this port, wherever they go; the answer is its number.
    pub(super) fn sender(&self, from: &str) -> Result<u32, Hindrance> {
        bridge(&self.facts()?.bridge)?;
        let (interface, open) = self.port(&self.ours[from].port)?;
        if open.config & OfPort::NO_RECEIVE != 0 {
            return Err(feature(interface, Feature::NoReceive));
        }
        Ok(open.number)
    }

    /// All that hinders that frames of this port go to that one; the answer is its number.
    pub(super) fn receiver(&self, from: &str, to: &str) -> Result<u32, Hindrance> {
        let (Some(a), Some(b)) = (self.ours.get(from), self.ours.get(to)) else {
            return Err(not_ours(to));
        };
        if from == to {
            return Err(not_ours(to));
        }
        let (sends, _) = self.port(&a.port)?;
        let (takes, open) = self.port(&b.port)?;
        if open.config & OfPort::NO_FORWARD != 0 {
            return Err(feature(takes, Feature::NoForward));
        }
        let mtu = |i: &InterfaceFacts| {
            i.mtu.ok_or_else(|| Hindrance::NotKnown(Missing::Mtu(i.name.clone())))
        };
        for (from, to) in [(mtu(sends)?, mtu(takes)?), (a.port.mtu, b.port.mtu)] {
            if from > to {
                return Err(Hindrance::Mtu { from, to });
            }
        }
        Ok(open.number)
    }

    /// What is asked of a port of either side.
    fn port(&self, ours: &OurPort) -> Result<(&InterfaceFacts, &OfPort), Hindrance> {
        let name = &ours.interface;
        let facts = self.facts()?;
        let gone = || Hindrance::NotKnown(Missing::Interface(name.clone()));
        let port = facts.port_of(name).ok_or_else(gone)?;
        let interface = port.interface(name).ok_or_else(gone)?;
        let features = [
            (port.interfaces.len() > 1, Feature::Bond),
            (port.qos, Feature::Qos),
            (port.lacp, Feature::Lacp),
            (interface.policed, Feature::Policing),
            (interface.bfd, Feature::Bfd),
            (interface.cfm, Feature::Cfm),
            (interface.lldp, Feature::Lldp),
        ];
        if let Some((_, found)) = features.into_iter().find(|(has, _)| *has) {
            return Err(feature(interface, found));
        }
        let mirrors = |m: &&crate::ovsdb::Mirror| {
            m.all || m.ports.iter().any(|p| facts.ports.get(p) == Some(port))
        };
        if let Some(mirror) = facts.bridge.mirrors.iter().find(mirrors) {
            return Err(Hindrance::Mirror { mirror: shown(&mirror.name), interface: name.clone() });
        }
        is_kind(ours, interface)?;
        let number = interface.number;
        let number = number.ok_or_else(|| Hindrance::NotKnown(Missing::Number(name.clone())))?;
        let open = self.open_port(name, number)?;
        if open.config & OfPort::DOWN != 0 {
            return Err(feature(interface, Feature::Down));
        }
        if open.state & OfPort::LINK_DOWN != 0 {
            return Err(feature(interface, Feature::LinkDown));
        }
        Ok((interface, open))
    }

    /// The port as OpenFlow shows it.
    fn open_port(&self, interface: &str, number: u32) -> Result<&OfPort, Hindrance> {
        let Switch::Known(Known { ports: Some(ports), .. }) = &self.switch else {
            return Err(Hindrance::NotKnown(Missing::Ports));
        };
        let cut = &interface.as_bytes()[..interface.len().min(NAME_BYTES)];
        let found = ports.get(&number).filter(|p| p.name.as_bytes() == cut);
        let missing = Missing::OpenFlowPort { interface: interface.to_owned(), number };
        found.ok_or(Hindrance::NotKnown(missing))
    }

    /// The OpenFlow port of an interface of ours.
    pub(super) fn number_of(facts: &Facts, interface: &str) -> Option<u32> {
        facts.port_of(interface)?.interface(interface)?.number
    }
}

fn bridge(facts: &BridgeFacts) -> Result<(), Hindrance> {
    let all = [
        (facts.stp, Hindrance::Stp),
        (facts.rstp, Hindrance::Rstp),
        (facts.sflow, Hindrance::Sflow),
        (facts.netflow, Hindrance::Netflow),
        (facts.ipfix, Hindrance::Ipfix),
        (facts.fails_open, Hindrance::FailsOpen),
        (facts.in_band, Hindrance::InBand),
        (facts.evicts, Hindrance::BridgeEvicts),
        (facts.restoring, Hindrance::Restoring),
    ];
    all.into_iter().find(|(has, _)| *has).map_or(Ok(()), |(_, why)| Err(why))
}

fn is_kind(ours: &OurPort, is: &InterfaceFacts) -> Result<(), Hindrance> {
    let other = |expected: &str, found: &str| {
        let (expected, found) = (expected.to_owned(), shown(found));
        Err(Hindrance::OtherKind { interface: ours.interface.clone(), expected, found })
    };
    if is.kind != ours.kind {
        return other(&ours.kind, &is.kind);
    }
    match (&ours.devargs, &is.devargs) {
        (Some(expected), found) if found.as_ref() != Some(expected) => {
            other(expected, found.as_deref().unwrap_or("without dpdk-devargs"))
        }
        _ => Ok(()),
    }
}

fn feature(interface: &InterfaceFacts, feature: Feature) -> Hindrance {
    Hindrance::Feature { interface: interface.name.clone(), feature }
}

fn not_ours(to: &str) -> Hindrance {
    Hindrance::NotOurs(to.to_owned())
}
