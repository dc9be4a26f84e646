//! Which interface of the bond is the paravirtual NIC, which the VM keeps.

use crate::links::{Holder, Link, View, is_standby};
use serde::{Deserialize, Serialize};

/// Drivers of paravirtual NICs.
const DRIVERS: [&str; 5] = ["virtio_net", "hv_netvsc", "vmxnet3", "xen_netfront", "vif"];

/// How it is known again after a restart of the agent or of its driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Its name, for people.
    pub name: String,
    /// The address that the device came with.
    pub mac: Option<String>,
    /// Its place on the PCI bus.
    pub pci: Option<String>,
}

impl Known {
    /// What is remembered of an interface.
    pub fn of(link: &Link) -> Known {
        Known {
            name: link.name.clone(),
            mac: link.permanent_mac.map(|m| m.to_string()),
            pci: link.device.as_ref().and_then(|d| d.pci.clone()),
        }
    }

    /// Whether it is this one. Names change; devices that say nothing of themselves are
    /// known by their name alone.
    fn is(&self, link: &Link) -> bool {
        let other = Known::of(link);
        let same = self.mac == other.mac && self.pci == other.pci;
        same && (self.pci.is_some() || self.name == other.name)
    }
}

fn is_paravirtual(link: &Link) -> bool {
    link.device.as_ref().is_some_and(|d| DRIVERS.contains(&d.driver.as_str()))
}

/// The paravirtual NIC's index: the one that is known from before, else the one of the
/// bond whose driver is that of a paravirtual NIC. If there are several, one that came with
/// the bond's address; of those the active one, because the VF of a host that emulates it
/// may have the same driver, and comes later.
///
/// # Errors
/// A sentence, if there is none.
pub fn find(view: &View, known: Option<&Known>) -> Result<u32, String> {
    if let Some(again) = known.and_then(|k| view.slaves().find(|l| k.is(l))) {
        return Ok(again.index);
    }
    let bond = &view.bond.name;
    if let Some(known) = known {
        let name = &known.name;
        return Err(format!("the paravirtual NIC, {name}, is not in {bond} any more"));
    }
    if view.holder == Holder::Failover {
        let standby = view.slaves().find(|l| is_standby(&view.bond, l));
        return standby.map(|l| l.index).ok_or_else(|| format!("{bond} has no standby"));
    }
    let mut all: Vec<&Link> = view.slaves().filter(|l| is_paravirtual(l)).collect();
    if all.is_empty() {
        all = view.slaves().collect();
    }
    let active = view.active().map(|l| l.index);
    all.sort_by_key(|l| (!view.has_own(l), Some(l.index) != active, l.index));
    let first = all.first().ok_or_else(|| format!("no interface is in {bond} yet"))?;
    Ok(first.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::{PV, VF, view};
    use crate::links::Mac;

    #[test]
    fn the_one_with_a_paravirtual_driver_is_it() {
        let mut v = view(true);
        v.others[1].device.as_mut().unwrap().driver = "igbvf".into();
        v.set_active(Some(VF));
        assert_eq!(find(&v, None), Ok(PV));
    }

    #[test]
    fn of_two_the_active_one_is_it() {
        let mut v = view(true);
        v.set_active(Some(VF));
        assert_eq!(find(&v, None), Ok(VF));
        v.set_active(None);
        assert_eq!(find(&v, None), Ok(PV));
    }

    #[test]
    fn of_two_networks_the_one_with_the_bonds_address_is_it() {
        let mut v = view(true);
        v.others[1].permanent_mac = Some(Mac([2, 9, 9, 9, 9, 9]));
        v.set_active(Some(VF));
        assert_eq!(find(&v, None), Ok(PV));
    }

    #[test]
    fn it_is_known_again_whatever_is_active_and_by_another_name() {
        let mut v = view(true);
        let known = Known::of(&v.others[0]);
        v.set_active(Some(VF));
        v.others[0].name = "renamed".into();
        v.others[0].index = 99;
        assert_eq!(find(&v, Some(&known)), Ok(99));
    }

    #[test]
    fn nothing_takes_the_place_of_the_known_one() {
        let mut v = view(true);
        let known = Known::of(&v.others[0]);
        v.others.remove(0);
        assert!(find(&v, Some(&known)).unwrap_err().contains("not in bond0 any more"));
    }
}
