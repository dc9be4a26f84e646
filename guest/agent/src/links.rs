//! What there is: a bond, and the interfaces that matter to it.

use std::fmt;

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the kernel's files say of an interface's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Such as `virtio_net`.
    pub driver: String,
    /// Its place on the PCI bus, such as `0000:00:05.0`; none for a device of another bus.
    pub pci: Option<String>,
}

/// Whether an interface has a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    None,
    /// The driver has one, and the kernel has not taken note of it yet, which can take a second.
    /// Until then the kernel drops what is sent by an interface that was opened without one.
    Fresh,
    Settled,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    pub mac: Option<Mac>,
    /// The address that the device came with.
    pub permanent_mac: Option<Mac>,
    pub ethernet: bool,
    /// Administratively up.
    pub up: bool,
    pub carrier: Carrier,
    /// It had its carrier when this program opened it: the kernel sends by it since then.
    pub opened_with_carrier: bool,
    pub mtu: u32,
    /// The bond, bridge or the like that it is in.
    pub master: Option<u32>,
    /// The interface that it stands on (a VLAN's device).
    pub below: Option<u32>,
    /// What kind of virtual interface it is, such as `vlan`; none for a device.
    pub kind: Option<String>,
    /// As part of a bond: whether the bond's own watch says that it works.
    pub works: Option<bool>,
    /// Options, if it is a bond.
    pub bond: Option<BondOptions>,
    /// Only looked up where it matters.
    pub device: Option<Device>,
}

impl Link {
    /// Whether packets can be sent by it, as far as the bond knows.
    pub fn ready(&self) -> bool {
        let sends = match self.carrier {
            Carrier::None => false,
            Carrier::Fresh => self.opened_with_carrier,
            Carrier::Settled => true,
        };
        self.up && sends && self.works.unwrap_or(true)
    }
}

/// Number of the mode active-backup.
pub const ACTIVE_BACKUP: u8 = 1;

/// A bond's options, as far as they matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BondOptions {
    pub mode: u8,
    /// Index of the interface that packets take.
    pub active: Option<u32>,
    pub miimon_ms: u32,
    pub arp_interval_ms: u32,
    pub all_slaves_active: bool,
    pub peer_notices: u8,
    pub fail_over_mac: u8,
    /// Index of the interface that the bond goes back to by itself.
    pub primary: Option<u32>,
}

/// The names of modes, by number.
const MODES: [&str; 7] = [
    "balance-rr",
    "active-backup",
    "balance-xor",
    "broadcast",
    "802.3ad",
    "balance-tlb",
    "balance-alb",
];

impl BondOptions {
    /// The mode's name.
    pub fn mode_name(&self) -> &'static str {
        MODES.get(usize::from(self.mode)).copied().unwrap_or("an unknown mode")
    }

    /// The name of `fail_over_mac`'s value.
    pub fn fail_over_mac_name(&self) -> &'static str {
        ["none", "active", "follow"].get(usize::from(self.fail_over_mac)).copied().unwrap_or("?")
    }
}

/// What holds the NICs together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    Bond(BondOptions),
    /// The kernel's net_failover.
    Failover,
}

/// The bond, or what does its work, and the interfaces that are in it or have its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub bond: Link,
    pub holder: Holder,
    pub others: Vec<Link>,
}

impl View {
    /// Picks the bond of this name out of all interfaces. `device` looks an interface's
    /// device up.
    ///
    /// # Errors
    /// A sentence, if there is no such bond.
    pub fn of(
        name: &str,
        all: Vec<Link>,
        device: impl Fn(&Link) -> Option<Device>,
    ) -> Result<View, String> {
        let (mut bonds, mut others): (Vec<Link>, Vec<Link>) =
            all.into_iter().partition(|l| l.name == name);
        let mut bond = bonds.pop().ok_or_else(|| format!("there is no interface {name}"))?;
        bond.device = device(&bond);
        others.retain(|l| {
            let same = l.mac.is_some() && (l.mac == bond.mac || l.permanent_mac == bond.mac);
            l.index != bond.index && (l.master == Some(bond.index) || same)
        });
        for link in &mut others {
            link.device = device(link);
        }
        let holder = match &bond.bond {
            Some(options) => Holder::Bond(options.clone()),
            None if is_failover(&bond, &others) => Holder::Failover,
            None => return Err(format!("{name} is no bond")),
        };
        Ok(View { bond, holder, others })
    }

    /// The interfaces that are in the bond.
    pub fn slaves(&self) -> impl Iterator<Item = &Link> {
        self.others.iter().filter(|l| l.master == Some(self.bond.index))
    }

    /// The interface of this index, if it is in the bond.
    pub fn slave(&self, index: u32) -> Option<&Link> {
        self.slaves().find(|l| l.index == index)
    }

    /// Whether it came with the bond's address. In the bond, all have that address, so there
    /// the one that it has now says nothing.
    pub fn has_own(&self, link: &Link) -> bool {
        let inside = link.master == Some(self.bond.index);
        let own = link.permanent_mac.or(link.mac.filter(|_| !inside));
        own.is_some() && own == self.bond.mac
    }

    /// The interface that packets take, while the bond has a carrier.
    pub fn active(&self) -> Option<&Link> {
        match &self.holder {
            Holder::Bond(options) => options.active.and_then(|index| self.slave(index)),
            // The driver takes the one that is not its standby while that has a carrier.
            Holder::Failover => {
                let standby = |l: &&Link| is_standby(&self.bond, l);
                let primary = self.slaves().find(|l| !standby(l) && l.ready());
                primary.or_else(|| self.slaves().find(|l| standby(l) && l.ready()))
            }
        }
    }
}

/// Whether it is the interface behind a net_failover: both have the same device.
pub fn is_standby(failover: &Link, link: &Link) -> bool {
    let pci = |l: &Link| l.device.as_ref().and_then(|d| d.pci.clone());
    pci(failover).is_some() && pci(failover) == pci(link)
}

fn is_failover(bond: &Link, others: &[Link]) -> bool {
    let inside = |l: &&Link| l.master == Some(bond.index);
    bond.kind.is_none() && others.iter().filter(inside).any(|l| is_standby(bond, l))
}
