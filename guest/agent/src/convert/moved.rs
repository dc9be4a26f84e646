//! Addresses and routes, as the kernel lists them, made to name another interface. All that
//! is not about the interface stays byte for byte.

use crate::netlink::attribute::{as_text, as_u32, attribute, each, number, text};
use crate::netlink::request::Request;
use linux_raw_sys::netlink as n;
use linux_raw_sys::netlink::rtattr_type_t as rta;

const IPV6: u8 = 10;
/// Bytes of the fixed parts of addresses and routes.
const ADDRESS: usize = 8;
const ROUTE: usize = 12;
/// Bytes of the fixed part of one way of a route with several.
const WAY: usize = 8;
/// The one flag of a route that is ours to set.
const ONLINK: u8 = 4;
/// Flags of an address that tell how far the kernel is with it.
const PROGRESS: u32 = n::IFA_F_TENTATIVE | n::IFA_F_DADFAILED | n::IFA_F_PERMANENT;
/// Longest name of an interface and of a label, bytes.
const NAME_MAX: usize = 15;
/// Parts of a second in which the kernel tells how long a route lives.
const TICKS: u32 = 100;

/// An interface by its number and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub index: u32,
    pub name: String,
}

fn kind_of(value: impl TryInto<u16>) -> u16 {
    value.try_into().unwrap_or_default()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    as_u32(bytes.get(at..at + 4)?)
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(Vec<u8>);

impl Address {
    /// Of this interface; not the link-local one of IPv6, which each interface makes itself.
    pub fn of(body: &[u8], index: u32) -> Option<Address> {
        let mine = body.len() >= ADDRESS && word(body, 4) == Some(index);
        let address = Address(body.to_vec());
        (mine && !address.is_link_local()).then_some(address)
    }

    fn is_link_local(&self) -> bool {
        let mut found = false;
        let _ = each(&self.0[ADDRESS..], |kind, value| {
            let is_address = kind == n::IFA_ADDRESS as u16;
            found |= is_address && matches!(value, [0xfe, b, ..] if b & 0xc0 == 0x80);
        });
        self.0[0] == IPV6 && found
    }

    /// The address in the usual form, for people.
    pub fn shown(&self) -> String {
        let mut shown = "?".into();
        let _ = each(&self.0[ADDRESS..], |kind, value| {
            let local = kind == n::IFA_LOCAL as u16 || kind == n::IFA_ADDRESS as u16;
            if let (true, Ok(v4)) = (local, <[u8; 4]>::try_from(value)) {
                shown = std::net::Ipv4Addr::from(v4).to_string();
            }
            if let (true, Ok(v6)) = (local, <[u8; 16]>::try_from(value)) {
                shown = std::net::Ipv6Addr::from(v6).to_string();
            }
        });
        format!("{shown}/{}", self.0[1])
    }

    /// Gives it to an interface that may be another one.
    pub fn add(&self, from: &str, to: &Named) -> Request {
        let v6 = self.0[0] == IPV6;
        // It was in use here: nobody else has it.
        let no_dad = if v6 { n::IFA_F_NODAD } else { 0 };
        let mut body = self.0[..ADDRESS].to_vec();
        body[2] = (u32::from(body[2]) & !PROGRESS | no_dad) as u8;
        body[4..8].copy_from_slice(&to.index.to_ne_bytes());
        let _ = each(&self.0[ADDRESS..], |kind, value| match kind {
            k if k == n::IFA_LABEL as u16 => {
                body.extend(label(&as_text(value), from, &to.name).unwrap_or_default());
            }
            k if k == n::IFA_FLAGS as u16 => {
                let flags = as_u32(value).unwrap_or(0) & !PROGRESS | no_dad;
                body.extend(number(kind, flags));
            }
            _ => body.extend(attribute(kind, value)),
        });
        let flags = (n::NLM_F_CREATE | n::NLM_F_EXCL) as u16;
        Request { kind: kind_of(n::RTM_NEWADDR as u32), flags, body }
    }

    /// Takes it from the interface that had it.
    pub fn remove(&self) -> Request {
        Request { kind: kind_of(n::RTM_DELADDR as u32), flags: 0, body: self.0.clone() }
    }
}

/// `eth0:web` becomes `bond0:web`; a label that is the interface's name is left out.
fn label(old: &str, from: &str, to: &str) -> Option<Vec<u8>> {
    let end = old.strip_prefix(from)?;
    let new = format!("{to}{end}");
    (end.starts_with(':') && new.len() <= NAME_MAX).then(|| text(n::IFA_LABEL as u16, &new))
}

/// A route that names an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route(Vec<u8>);

/// What a route's attributes say.
#[derive(Default)]
struct Facts {
    out: Option<u32>,
    ways: Vec<u32>,
    through_gateway: bool,
    by_object: bool,
    link_local: bool,
}

impl Route {
    /// Over this interface; not those that the kernel makes by itself for each address.
    pub fn of(body: &[u8], index: u32) -> Option<Route> {
        let fixed = body.get(..ROUTE)?;
        let route = Route(body.to_vec());
        let facts = route.facts();
        let names = facts.out == Some(index) || facts.ways.contains(&index);
        let cloned = word(fixed, 8)? & n::RTM_F_CLONED != 0;
        let plain = u32::from(fixed[7]) == n::RTN_UNICAST as u32;
        (names && plain && !cloned && !facts.link_local).then_some(route)
    }

    fn facts(&self) -> Facts {
        let mut facts = Facts::default();
        let (v6, long) = (self.0[0] == IPV6, self.0[1]);
        let _ = each(&self.0[ROUTE..], |kind, value| match u32::from(kind) {
            k if k == rta::RTA_OIF as u32 => facts.out = as_u32(value),
            k if k == rta::RTA_GATEWAY as u32 || k == rta::RTA_VIA as u32 => {
                facts.through_gateway = true;
            }
            k if k == rta::RTA_NH_ID as u32 => facts.by_object = true,
            k if k == rta::RTA_DST as u32 => {
                facts.link_local = v6 && long == 64 && value.starts_with(&[0xfe, 0x80]);
            }
            k if k == rta::RTA_MULTIPATH as u32 => {
                facts.through_gateway = true;
                ways(value, |fixed, _| facts.ways.extend(word(fixed, 4)));
            }
            _ => {}
        });
        facts
    }

    /// Whether it goes by a nexthop object, which is not ours to make anew.
    pub fn is_by_object(&self) -> bool {
        self.facts().by_object
    }

    /// Routes to gateways need those without one first.
    pub fn needs_others(&self) -> bool {
        self.facts().through_gateway
    }

    /// Makes it, with `to` in the place of `from`.
    pub fn add(&self, from: u32, to: u32) -> Request {
        let instead = |index: u32| if index == from { to } else { index };
        let mut body = self.0[..ROUTE].to_vec();
        body[8..12]
            .copy_from_slice(&(word(&self.0, 8).unwrap_or(0) & u32::from(ONLINK)).to_ne_bytes());
        let _ = each(&self.0[ROUTE..], |kind, value| match u32::from(kind) {
            k if k == rta::RTA_OIF as u32 => {
                body.extend(number(kind, instead(as_u32(value).unwrap_or(0))));
            }
            k if k == rta::RTA_MULTIPATH as u32 => {
                let mut all = vec![];
                ways(value, |fixed, rest| {
                    let index = instead(word(fixed, 4).unwrap_or(0));
                    all.extend(&fixed[..2]);
                    all.extend([fixed[2] & ONLINK, fixed[3]]);
                    all.extend(index.to_ne_bytes());
                    all.extend(rest);
                });
                body.extend(attribute(kind, &all));
            }
            // What it says is the kernel's to tell, but for how long the route lives.
            k if k == rta::RTA_CACHEINFO as u32 => body.extend(expiry(value).unwrap_or_default()),
            _ => body.extend(attribute(kind, value)),
        });
        let flags = (n::NLM_F_CREATE | n::NLM_F_EXCL) as u16;
        Request { kind: kind_of(n::RTM_NEWROUTE as u32), flags, body }
    }
}

fn expiry(cache_info: &[u8]) -> Option<Vec<u8>> {
    let ticks = word(cache_info, 8).filter(|t| (1..=i32::MAX as u32).contains(t))?;
    Some(number(rta::RTA_EXPIRES as u16, ticks.div_ceil(TICKS)))
}

/// Calls `see` with the fixed part and the rest of each way.
fn ways<'a>(mut bytes: &'a [u8], mut see: impl FnMut(&'a [u8], &'a [u8])) {
    while let Some(fixed) = bytes.get(..WAY) {
        let length = usize::from(u16::from_ne_bytes([fixed[0], fixed[1]]));
        let Some(rest) = bytes.get(WAY..length) else { return };
        see(fixed, rest);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(family: u8, index: u32, bytes: &[u8], more: &[u8]) -> Vec<u8> {
        let mut body = vec![family, 24, 0x80, 0];
        body.extend(index.to_ne_bytes());
        body.extend(attribute(n::IFA_ADDRESS as u16, bytes));
        body.extend(more);
        body
    }

    fn route(family: u8, kind: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![family, 0, 0, 0, 254, 3, 0, kind];
        body.extend(20u32.to_ne_bytes());
        body.extend(attributes.concat());
        body
    }

    fn bond() -> Named {
        Named { index: 9, name: "bond0".into() }
    }

    #[test]
    fn an_address_names_the_other_interface_and_its_label_too() {
        let label = text(n::IFA_LABEL as u16, "eth0:web");
        let body = address(2, 3, &[10, 0, 0, 1], &label);
        let moved = Address::of(&body, 3).unwrap();
        assert_eq!(moved.shown(), "10.0.0.1/24");
        let new = text(n::IFA_LABEL as u16, "bond0:web");
        let mut wanted = address(2, 9, &[10, 0, 0, 1], &new);
        wanted[2] = 0;
        assert_eq!(moved.add("eth0", &bond()).body, wanted);
        let plain = text(n::IFA_LABEL as u16, "eth0");
        let plain = Address::of(&address(2, 3, &[10, 0, 0, 1], &plain), 3).unwrap();
        assert_eq!(plain.add("eth0", &bond()).body.len(), ADDRESS + 8);
    }

    #[test]
    fn addresses_of_others_and_link_local_ones_stay() {
        assert_eq!(Address::of(&address(2, 4, &[10, 0, 0, 1], &[]), 3), None);
        let mut local = [0; 16];
        (local[0], local[1]) = (0xfe, 0x80);
        assert_eq!(Address::of(&address(IPV6, 3, &local, &[]), 3), None);
        local[1] = 0xc0;
        assert!(Address::of(&address(IPV6, 3, &local, &[]), 3).is_some());
    }

    #[test]
    fn a_route_with_several_ways_keeps_those_of_others() {
        let way = |index: u32| {
            let gateway = attribute(rta::RTA_GATEWAY as u16, &[10, 0, 0, 9]);
            let mut bytes = vec![(WAY + gateway.len()) as u8, 0, 16, 1];
            bytes.extend(index.to_ne_bytes());
            bytes.extend(gateway);
            bytes
        };
        let several = |a, b| attribute(rta::RTA_MULTIPATH as u16, &[way(a), way(b)].concat());
        let body = route(2, 1, &[several(3, 4)]);
        let moved = Route::of(&body, 3).unwrap();
        assert!(moved.needs_others());
        let mut wanted = route(2, 1, &[several(9, 4)]);
        wanted[8..12].copy_from_slice(&4u32.to_ne_bytes());
        // Flags that tell of the link's state are the kernel's.
        (wanted[ROUTE + 4 + 2], wanted[ROUTE + 4 + 16 + 2]) = (0, 0);
        assert_eq!(moved.add(3, 9).body, wanted);
        assert_eq!(Route::of(&body, 7), None);
    }

    #[test]
    fn what_the_kernel_makes_by_itself_is_not_moved() {
        let out = number(rta::RTA_OIF as u16, 3);
        for kind in [2, 3, 5] {
            assert_eq!(Route::of(&route(2, kind, std::slice::from_ref(&out)), 3), None);
        }
        let mut local =
            route(IPV6, 1, &[attribute(rta::RTA_DST as u16, &[0xfe, 0x80, 0, 0]), out.clone()]);
        local[1] = 64;
        assert_eq!(Route::of(&local, 3), None);
        let object = Route::of(&route(2, 1, &[out, number(rta::RTA_NH_ID as u16, 5)]), 3);
        assert!(object.unwrap().is_by_object());
    }

    #[test]
    fn a_route_that_expires_goes_on_to_do_so() {
        let mut info = vec![0; 32];
        info[8..12].copy_from_slice(&1750u32.to_ne_bytes());
        let out = number(rta::RTA_OIF as u16, 3);
        let body = route(IPV6, 1, &[out, attribute(rta::RTA_CACHEINFO as u16, &info)]);
        let moved = Route::of(&body, 3).unwrap().add(3, 9).body;
        assert!(moved.ends_with(&number(rta::RTA_EXPIRES as u16, 18)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(route) = Route::of(&bytes, 3) {
                route.add(3, 9);
            }
            if bytes.len() >= ROUTE {
                Route(bytes.clone()).add(3, 9);
                let address = Address(bytes);
                address.shown();
                address.add("eth0", &bond());
            }
        }
    }
}
