//! Interfaces, as the kernel lists them.

use super::attribute::{as_text, as_u8, as_u32, each};
use crate::links::{BondOptions, Carrier, Link, Mac};
use linux_raw_sys::netlink as n;

/// Bytes of the fixed part.
const FIXED: usize = 16;
const ETHERNET: u16 = 1;
const UP: u32 = 1;
/// The kernel knows of the carrier, or the driver tells of none.
const RUNNING: u32 = 1 << 6;
/// The driver has a carrier.
const LOWER_UP: u32 = 1 << 16;
/// A bond's watch says that this interface works.
const WORKS: u8 = 0;

/// What stands under an interface's `LINKINFO`.
#[derive(Default)]
struct Info<'a> {
    kind: Option<String>,
    data: &'a [u8],
    slave_kind: Option<String>,
    slave_data: &'a [u8],
}

/// Reads an interface.
///
/// # Errors
/// A sentence, if it cannot be read.
pub fn read(body: &[u8]) -> Result<Link, String> {
    let fixed = body.get(..FIXED).ok_or("an interface's message is too short")?;
    let word =
        |at: usize| u32::from_ne_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let flags = word(8);
    let mut link = Link {
        index: word(4),
        name: String::new(),
        mac: None,
        permanent_mac: None,
        ethernet: u16::from_ne_bytes([fixed[2], fixed[3]]) == ETHERNET,
        up: flags & UP != 0,
        carrier: Carrier::None,
        opened_with_carrier: false,
        mtu: 0,
        master: None,
        below: None,
        kind: None,
        works: None,
        bond: None,
        device: None,
    };
    let (mut info, mut has_carrier): (&[u8], bool) = (&[], false);
    each(&body[FIXED..], |kind, value| match u32::from(kind) {
        k if k == n::IFLA_IFNAME as u32 => link.name = as_text(value),
        k if k == n::IFLA_ADDRESS as u32 => link.mac = mac(value),
        k if k == n::IFLA_PERM_ADDRESS as u32 => link.permanent_mac = mac(value),
        k if k == n::IFLA_MASTER as u32 => link.master = as_u32(value).filter(|i| *i != 0),
        k if k == n::IFLA_LINK as u32 => link.below = as_u32(value).filter(|i| *i != 0),
        k if k == n::IFLA_MTU as u32 => link.mtu = as_u32(value).unwrap_or(0),
        k if k == n::IFLA_CARRIER as u32 => has_carrier = as_u8(value) == Some(1),
        k if k == n::IFLA_LINKINFO as u32 => info = value,
        _ => {}
    })?;
    link.carrier = carrier(flags, has_carrier);
    let info = read_info(info)?;
    if info.kind.as_deref() == Some("bond") {
        link.bond = Some(read_bond(info.data)?);
    }
    if info.slave_kind.as_deref() == Some("bond") {
        link.works = read_works(info.slave_data)?;
    }
    link.kind = info.kind;
    if link.name.is_empty() || link.index == 0 {
        return Err("an interface has no name or no number".into());
    }
    Ok(link)
}

/// One that is down may have a carrier, too: only the attribute says so.
fn carrier(flags: u32, has_one: bool) -> Carrier {
    match flags & (RUNNING | LOWER_UP) == RUNNING | LOWER_UP {
        true => Carrier::Settled,
        false if has_one => Carrier::Fresh,
        false => Carrier::None,
    }
}

fn mac(value: &[u8]) -> Option<Mac> {
    value.try_into().ok().map(Mac)
}

fn read_info(bytes: &[u8]) -> Result<Info<'_>, String> {
    let mut info = Info::default();
    each(bytes, |kind, value| match u32::from(kind) {
        k if k == n::IFLA_INFO_KIND as u32 => info.kind = Some(as_text(value)),
        k if k == n::IFLA_INFO_DATA as u32 => info.data = value,
        k if k == n::IFLA_INFO_SLAVE_KIND as u32 => info.slave_kind = Some(as_text(value)),
        k if k == n::IFLA_INFO_SLAVE_DATA as u32 => info.slave_data = value,
        _ => {}
    })?;
    Ok(info)
}

fn read_bond(bytes: &[u8]) -> Result<BondOptions, String> {
    let mut o = BondOptions::default();
    let index = |value| as_u32(value).filter(|i| *i != 0);
    each(bytes, |kind, value| match u32::from(kind) {
        k if k == n::IFLA_BOND_MODE as u32 => o.mode = as_u8(value).unwrap_or(u8::MAX),
        k if k == n::IFLA_BOND_ACTIVE_SLAVE as u32 => o.active = index(value),
        k if k == n::IFLA_BOND_MIIMON as u32 => o.miimon_ms = as_u32(value).unwrap_or(0),
        k if k == n::IFLA_BOND_ARP_INTERVAL as u32 => {
            o.arp_interval_ms = as_u32(value).unwrap_or(0);
        }
        k if k == n::IFLA_BOND_PRIMARY as u32 => o.primary = index(value),
        k if k == n::IFLA_BOND_FAIL_OVER_MAC as u32 => o.fail_over_mac = as_u8(value).unwrap_or(0),
        k if k == n::IFLA_BOND_NUM_PEER_NOTIF as u32 => {
            o.peer_notices = as_u8(value).unwrap_or(0);
        }
        k if k == n::IFLA_BOND_ALL_SLAVES_ACTIVE as u32 => {
            o.all_slaves_active = as_u8(value) == Some(1);
        }
        _ => {}
    })?;
    Ok(o)
}

fn read_works(bytes: &[u8]) -> Result<Option<bool>, String> {
    let mut works = None;
    each(bytes, |kind, value| {
        if u32::from(kind) == n::IFLA_BOND_SLAVE_MII_STATUS as u32 {
            works = as_u8(value).map(|status| status == WORKS);
        }
    })?;
    Ok(works)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute::{attribute, nested, number, text};

    fn fixed(index: u32, flags: u32) -> Vec<u8> {
        let mut bytes = vec![0, 0, 1, 0];
        bytes.extend(index.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn a_bond_is_read_with_its_options() {
        let data = [
            attribute(n::IFLA_BOND_MODE as u16, &[1]),
            number(n::IFLA_BOND_ACTIVE_SLAVE as u16, 3),
            number(n::IFLA_BOND_MIIMON as u16, 100),
            attribute(n::IFLA_BOND_ALL_SLAVES_ACTIVE as u16, &[1]),
            attribute(n::IFLA_BOND_NUM_PEER_NOTIF as u16, &[2]),
            attribute(999, &[1, 2, 3]),
        ];
        let info =
            [text(n::IFLA_INFO_KIND as u16, "bond"), nested(n::IFLA_INFO_DATA as u16, &data)];
        let bytes = [
            fixed(5, UP | RUNNING | LOWER_UP),
            text(n::IFLA_IFNAME as u16, "bond0"),
            attribute(n::IFLA_ADDRESS as u16, &[2, 0, 0, 0, 0, 1]),
            nested(n::IFLA_LINKINFO as u16, &info),
        ]
        .concat();
        let link = read(&bytes).unwrap();
        assert_eq!((link.index, link.name.as_str(), link.carrier), (5, "bond0", Carrier::Settled));
        assert_eq!(link.mac, Some(Mac([2, 0, 0, 0, 0, 1])));
        let bond = link.bond.unwrap();
        assert_eq!((bond.mode, bond.active, bond.miimon_ms), (1, Some(3), 100));
        assert!(bond.all_slaves_active && bond.peer_notices == 2 && bond.primary.is_none());
    }

    #[test]
    fn a_slave_says_whether_it_works() {
        for (status, works) in [(0, true), (2, false)] {
            let info = [
                text(n::IFLA_INFO_SLAVE_KIND as u16, "bond"),
                nested(
                    n::IFLA_INFO_SLAVE_DATA as u16,
                    &[attribute(n::IFLA_BOND_SLAVE_MII_STATUS as u16, &[status])],
                ),
            ];
            let bytes = [
                fixed(5, UP),
                text(n::IFLA_IFNAME as u16, "eth0"),
                number(n::IFLA_MASTER as u16, 9),
                nested(n::IFLA_LINKINFO as u16, &info),
            ]
            .concat();
            let link = read(&bytes).unwrap();
            assert_eq!((link.master, link.works, link.kind), (Some(9), Some(works), None));
        }
    }

    #[test]
    fn a_carrier_is_settled_once_the_kernel_has_taken_note() {
        let of = |flags, has_one| {
            let name = text(n::IFLA_IFNAME as u16, "eth0");
            let carrier = attribute(n::IFLA_CARRIER as u16, &[has_one]);
            read(&[fixed(5, flags), name, carrier].concat()).unwrap().carrier
        };
        assert_eq!(of(UP | RUNNING | LOWER_UP, 1), Carrier::Settled);
        for flags in [0, UP, UP | LOWER_UP, UP | RUNNING] {
            assert_eq!((of(flags, 1), of(flags, 0)), (Carrier::Fresh, Carrier::None), "{flags:#x}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        assert!(read(&[]).is_err());
        assert!(read(&fixed(1, 0)).is_err());
        let cut = [fixed(1, 0), vec![20, 0, 3, 0, b'e']].concat();
        assert!(read(&cut).is_err());
    }
}
