//! What the kernel is asked to do.

use super::attribute::{attribute, nested, number, text};
use crate::links::{ACTIVE_BACKUP, BondOptions, Mac};
use linux_raw_sys::netlink as n;

const UP: u32 = 1;

/// A request: its kind, its flags beside those of all, and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub kind: u16,
    pub flags: u16,
    pub body: Vec<u8>,
}

/// The fixed part of requests about interfaces.
fn about(index: u32, flags: u32, change: u32) -> Vec<u8> {
    [[0; 4], index.to_ne_bytes(), flags.to_ne_bytes(), change.to_ne_bytes()].concat()
}

fn set(index: u32, attributes: &[Vec<u8>]) -> Request {
    let body = [about(index, 0, 0), attributes.concat()].concat();
    Request { kind: n::RTM_NEWLINK as u16, flags: 0, body }
}

fn bond_info(data: &[Vec<u8>]) -> Vec<u8> {
    let info = [text(n::IFLA_INFO_KIND as u16, "bond"), nested(n::IFLA_INFO_DATA as u16, data)];
    nested(n::IFLA_LINKINFO as u16, &info)
}

/// Sets an interface up or down.
pub fn set_up(index: u32, up: bool) -> Request {
    let body = about(index, if up { UP } else { 0 }, UP);
    Request { kind: n::RTM_NEWLINK as u16, flags: 0, body }
}

/// Takes an interface into a bond; 0 takes it out.
pub fn set_master(index: u32, master: u32) -> Request {
    set(index, &[number(n::IFLA_MASTER as u16, master)])
}

/// Sets an interface's MTU.
pub fn set_mtu(index: u32, mtu: u32) -> Request {
    set(index, &[number(n::IFLA_MTU as u16, mtu)])
}

/// Sets an interface's address.
pub fn set_mac(index: u32, mac: Mac) -> Request {
    set(index, &[attribute(n::IFLA_ADDRESS as u16, &mac.0)])
}

/// Makes a bond's packets take this interface.
pub fn set_active(bond: u32, slave: u32) -> Request {
    set(bond, &[bond_info(&[number(n::IFLA_BOND_ACTIVE_SLAVE as u16, slave)])])
}

/// Sets the options of a bond that is in use, those that differ.
pub fn set_options(bond: u32, is: &BondOptions, wanted: &BondOptions) -> Vec<Request> {
    let mut data = vec![];
    // Each by itself: one that this kernel does not take does not keep the others back.
    if is.primary != wanted.primary {
        data.push(number(n::IFLA_BOND_PRIMARY as u16, wanted.primary.unwrap_or(0)));
    }
    if is.miimon_ms != wanted.miimon_ms {
        data.push(number(n::IFLA_BOND_MIIMON as u16, wanted.miimon_ms));
    }
    if is.all_slaves_active != wanted.all_slaves_active {
        let on = [u8::from(wanted.all_slaves_active)];
        data.push(attribute(n::IFLA_BOND_ALL_SLAVES_ACTIVE as u16, &on));
    }
    if is.peer_notices != wanted.peer_notices {
        data.push(attribute(n::IFLA_BOND_NUM_PEER_NOTIF as u16, &[wanted.peer_notices]));
    }
    data.into_iter().map(|option| set(bond, &[bond_info(&[option])])).collect()
}

/// The mode of a bond that has no interfaces yet and is down.
pub fn set_mode(bond: u32) -> Request {
    set(bond, &[bond_info(&[attribute(n::IFLA_BOND_MODE as u16, &[ACTIVE_BACKUP])])])
}

/// Makes a bond.
pub fn make_bond(name: &str) -> Request {
    let mode = attribute(n::IFLA_BOND_MODE as u16, &[ACTIVE_BACKUP]);
    let attributes = [text(n::IFLA_IFNAME as u16, name), bond_info(&[mode])].concat();
    let body = [about(0, 0, 0), attributes].concat();
    let flags = (n::NLM_F_CREATE | n::NLM_F_EXCL) as u16;
    Request { kind: n::RTM_NEWLINK as u16, flags, body }
}

/// Removes an interface.
pub fn remove(index: u32) -> Request {
    Request { kind: n::RTM_DELLINK as u16, flags: 0, body: about(index, 0, 0) }
}

/// Lists all interfaces, without their counters.
pub fn list_links() -> Request {
    let mask = number(n::IFLA_EXT_MASK as u16, n::RTEXT_FILTER_SKIP_STATS);
    let body = [about(0, 0, 0), mask].concat();
    Request { kind: n::RTM_GETLINK as u16, flags: n::NLM_F_DUMP as u16, body }
}

/// Lists all addresses.
pub fn list_addresses() -> Request {
    Request { kind: n::RTM_GETADDR as u16, flags: n::NLM_F_DUMP as u16, body: vec![0; 8] }
}

/// Lists all routes of all tables.
pub fn list_routes() -> Request {
    Request { kind: n::RTM_GETROUTE as u16, flags: n::NLM_F_DUMP as u16, body: vec![0; 12] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::options_wanted;
    use crate::netlink::link;

    /// What is asked for reads as what the kernel would list then.
    #[test]
    fn requests_read_as_interfaces() {
        let named = |request: Request| {
            let body = [request.body, text(n::IFLA_IFNAME as u16, "x")].concat();
            link::read(&body).unwrap()
        };
        let active = named(set_active(5, 3));
        assert_eq!((active.index, active.bond.unwrap().active), (5, Some(3)));
        assert_eq!(named(set_master(3, 5)).master, Some(5));
        assert_eq!(named(set_mtu(3, 9000)).mtu, 9000);
        assert!(named(set_up(3, true)).up && !named(set_up(3, false)).up);
        let made = link::read(&[&[0, 0, 0, 0, 1, 0, 0, 0][..], &make_bond("b").body[8..]].concat());
        assert_eq!(made.unwrap().bond.unwrap().mode, ACTIVE_BACKUP);
    }

    #[test]
    fn only_options_that_differ_are_set() {
        let is = BondOptions { miimon_ms: 100, peer_notices: 60, ..BondOptions::default() };
        let wanted = options_wanted(&is).unwrap();
        let asked = set_options(5, &is, &wanted);
        assert_eq!(asked.len(), 1);
        let body = [asked[0].body.clone(), text(n::IFLA_IFNAME as u16, "x")].concat();
        assert!(link::read(&body).unwrap().bond.unwrap().all_slaves_active);
    }
}
