//! Addresses of programs. No program can choose one: each follows from the client, the VM and
//! the manifest, which the manager says, and from a number that the NIC gives.

use std::net::IpAddr;
use vfun_verbs_nic::Address;
use vfun_verbs_nic::cm::Home;

/// The first LID of a connection. The one before it is that of who manages the network.
const LID_FIRST: u16 = SM_LID + 1;
pub const SM_LID: u16 = 1;

/// Bits of a connection's LID in an address that the NIC gives.
const LID_BITS: u64 = 0xffff;

/// FNV-1a, of names with a byte between them that no name has: always the same number for the
/// same names.
fn number(names: &[&str]) -> u64 {
    let bytes = names.iter().flat_map(|name| name.bytes().chain([0xff]));
    let mixed = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // As an EUI-64: administered locally, and no group's.
    mixed & !(1 << 56) | 1 << 57
}

/// The number of a client's NIC.
pub fn guid(client: &str) -> u64 {
    number(&[client])
}

/// Where a program is reached whose connection has this place in the NIC.
pub fn of(client: &str, (vm, given): (Option<&str>, Option<IpAddr>), station: u32) -> Address {
    let lid = station as u16 + LID_FIRST;
    let gid = match given {
        Some(IpAddr::V4(v4)) => v4.to_ipv6_mapped().octets(),
        Some(IpAddr::V6(v6)) => v6.octets(),
        None => own(client, vm, lid),
    };
    Address { gid, lid }
}

/// The part of an address that all programs of a VM share. Addresses that the NIC gives differ in the LID.
pub fn home(mut gid: [u8; 16]) -> Home {
    if gid[..2] == [0xfe, 0x80] {
        gid[14..].fill(0);
    }
    Home(gid)
}

/// A link-local address. Two of a NIC differ in the LID.
fn own(client: &str, vm: Option<&str>, lid: u16) -> [u8; 16] {
    let home = vm.map_or_else(|| guid(client), |vm| number(&[client, vm]));
    let low = home & !LID_BITS | u64::from(lid);
    (0xfe80_u128 << 112 | u128::from(low)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(address: Address) -> String {
        std::net::Ipv6Addr::from(address.gid).to_string()
    }

    #[test]
    fn a_manifests_address_is_that_of_all_programs_of_its_vm() {
        let at = |given: &str, station| of("web", (Some("a"), given.parse().ok()), station);
        assert_eq!(text(at("10.0.0.5", 0)), "::ffff:10.0.0.5");
        assert_eq!(text(at("fd00::5", 0)), "fd00::5");
        let two = [at("fd00::5", 0), at("fd00::5", 1)];
        assert_eq!(two.map(|one| one.lid), [2, 3]);
        assert_eq!(two[0].gid, two[1].gid);
    }

    #[test]
    fn what_the_nic_gives_follows_from_client_vm_and_place() {
        let at = |client, vm, station| text(of(client, (vm, None), station));
        // As it always was: peers keep what they were told.
        assert_eq!(at("web", Some("a"), 0), "fe80::7204:d635:f454:2");
        assert_eq!(at("web", None, 1), "fe80::3e7c:8bf6:19e9:3");
        let all = [
            at("web", None, 0),
            at("web", Some("a"), 0),
            at("web", Some("a"), 1),
            at("web", Some("b"), 0),
            at("weba", None, 0),
            at("we", Some("ba"), 0),
        ];
        let apart: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(apart.len(), all.len(), "{all:?}");
    }

    #[test]
    fn programs_of_a_vm_have_one_home() {
        let at = |vm, given: Option<&str>, station| {
            home(of("web", (vm, given.and_then(|text| text.parse().ok())), station).gid)
        };
        assert_eq!(at(Some("a"), None, 0), at(Some("a"), None, 7));
        assert_ne!(at(Some("a"), None, 0), at(Some("b"), None, 0));
        assert_ne!(at(Some("a"), None, 0), at(None, None, 0));
        assert_ne!(at(Some("a"), Some("10.0.0.5"), 0), at(Some("b"), Some("10.0.0.6"), 0));
    }

    #[test]
    fn a_guid_is_administered_locally_and_no_groups() {
        for client in ["", "web", "host"] {
            assert_eq!(guid(client) >> 56 & 3, 2);
        }
    }
}
