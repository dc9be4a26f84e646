//! What is to be moved, and whether it can be.

use super::moved::{Address, Named, Route};
use crate::links::{Link, Mac};
use crate::netlink::Socket;
use std::fmt;

/// What becomes a bond, and all that goes there.
#[derive(Clone, Debug)]
pub struct Plan {
    pub interface: Named,
    /// Whether the interface was up.
    pub up: bool,
    pub bond: String,
    pub mac: Mac,
    pub mtu: u32,
    pub addresses: Vec<Address>,
    /// Those without a gateway first.
    pub routes: Vec<Route>,
}

/// Kinds of interfaces that behave as a network card does; a card has none.
const LIKE_CARDS: [&str; 2] = ["veth", "dummy"];

impl Plan {
    /// Reads all that is to be moved.
    ///
    /// # Errors
    /// A sentence, if this interface cannot become part of a bond.
    pub fn make(socket: &mut Socket, interface: &str, bond: &str) -> Result<Plan, String> {
        let links = socket.links().map_err(|e| format!("the interfaces cannot be read: {e}"))?;
        let link = fitting(&links, interface, bond)?;
        let mac = link.mac.ok_or_else(|| format!("{interface} has no MAC address"))?;
        let addresses = socket.addresses().map_err(|e| format!("addresses cannot be read: {e}"))?;
        let routes = socket.routes().map_err(|e| format!("routes cannot be read: {e}"))?;
        let mut routes: Vec<Route> =
            routes.iter().filter_map(|r| Route::of(r, link.index)).collect();
        if routes.iter().any(Route::is_by_object) {
            return Err(format!(
                "routes over {interface} use nexthop objects (`ip nexthop`): replace them by \
                 plain routes first"
            ));
        }
        routes.sort_by_key(Route::needs_others);
        Ok(Plan {
            interface: Named { index: link.index, name: interface.into() },
            up: link.up,
            bond: bond.into(),
            mac,
            mtu: link.mtu,
            addresses: addresses.iter().filter_map(|a| Address::of(a, link.index)).collect(),
            routes,
        })
    }
}

fn fitting<'a>(links: &'a [Link], interface: &str, bond: &str) -> Result<&'a Link, String> {
    let named = |name: &str| links.iter().find(|l| l.name == name);
    let link = named(interface).ok_or_else(|| format!("there is no interface {interface}"))?;
    let name_of = |index: u32| links.iter().find(|l| l.index == index).map_or("?", |l| &l.name);
    if interface == bond {
        return Err(format!("{interface} cannot be in itself: give the bond another name"));
    }
    if let Some(kind) = link.kind.as_deref().filter(|k| !LIKE_CARDS.contains(k)) {
        return Err(format!("{interface} is a {kind}, not a network card"));
    }
    if !link.ethernet {
        return Err(format!("{interface} is no Ethernet interface"));
    }
    if let Some(master) = link.master {
        let master = name_of(master);
        return Err(format!("{interface} is in {master}: take it out first"));
    }
    // A veth names its other end.
    let above = |l: &&Link| l.below == Some(link.index) && l.kind.as_deref() != Some("veth");
    if let Some(above) = links.iter().find(above) {
        let above = &above.name;
        return Err(format!(
            "{above} stands on {interface}: remove it, and make it on {bond} then"
        ));
    }
    match named(bond) {
        None => Ok(link),
        Some(there) if there.bond.is_none() => Err(format!("{bond} is there, and is no bond")),
        Some(there) if there.up || links.iter().any(|l| l.master == Some(there.index)) => {
            Err(format!("the bond {bond} is in use: give another name with --bond"))
        }
        Some(_) => Ok(link),
    }
}

fn count(n: usize, what: &str) -> String {
    match n {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        _ => format!("{n} {what}s"),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, bond) = (&self.interface.name, &self.bond);
        let shown: Vec<String> = self.addresses.iter().map(Address::shown).collect();
        let addresses = match shown.len() {
            0 => String::new(),
            _ => format!(" ({})", shown.join(", ")),
        };
        let routes = count(self.routes.len(), "route");
        let plural = if shown.len() == 1 { "" } else { "es" };
        writeln!(f, "{name} becomes part of the bond {bond} (active-backup).")?;
        writeln!(
            f,
            "Moved to {bond}: {} address{plural}{addresses}, {routes}, MTU {}, MAC address {}.",
            shown.len(),
            self.mtu,
            self.mac
        )?;
        writeln!(f, "Interrupted: the network over {name}, for about a second.")?;
        write!(
            f,
            "Not moved: DHCP clients, firewall rules and programs that name {name}, rules of \
             `ip rule` that name it, and its settings in /proc/sys/net. After the next boot {name} \
             is as it was, unless you change the network configuration."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::link;
    use crate::links::BondOptions;

    fn refused(change: impl Fn(&mut Vec<Link>)) -> String {
        let mut links = vec![link(2, "eth0")];
        change(&mut links);
        fitting(&links, "eth0", "bond0").map(|l| l.name.clone()).unwrap_err()
    }

    #[test]
    fn what_cannot_become_part_of_a_bond_is_refused() {
        assert!(fitting(&[link(2, "eth0")], "eth0", "bond0").is_ok());
        assert!(refused(|l| l.clear()).contains("no interface"));
        assert!(refused(|l| l[0].kind = Some("bridge".into())).contains("bridge"));
        assert!(refused(|l| l[0].master = Some(9)).contains("take it out"));
        let vlan = Link { below: Some(2), kind: Some("vlan".into()), ..link(3, "eth0.5") };
        assert!(refused(|l| l.push(vlan.clone())).contains("eth0.5 stands on eth0"));
        assert!(refused(|l| l.push(link(3, "bond0"))).contains("is no bond"));
    }

    #[test]
    fn an_empty_bond_that_is_down_is_used() {
        let options = Some(BondOptions::default());
        let mut bond =
            Link { kind: Some("bond".into()), bond: options, up: false, ..link(3, "bond0") };
        assert!(fitting(&[link(2, "eth0"), bond.clone()], "eth0", "bond0").is_ok());
        bond.up = true;
        assert!(fitting(&[link(2, "eth0"), bond], "eth0", "bond0").is_err());
    }
}
