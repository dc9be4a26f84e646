//! The virtual functions of a card, by the kernel's common interface: sysfs, `ip link` and
//! VFIO. igb, ixgbe, ice, mlx5 and others have it.

mod function;
mod settings;

use super::{Provider, VfOwner};
use crate::child;
use crate::limits::IP_TIME;
use crate::netdev::Netdev;
use crate::places::Places;
use function::Function;
pub use function::LOAD_VFIO;
use std::collections::BTreeMap;
use std::fs;
use vfun_nics::{VfFound, VfId};

/// A card.
pub struct Sriov {
    /// Its interface on the host.
    pf: Netdev,
    places: Places,
    /// Whether its VFs have ever counted a packet.
    counts: BTreeMap<VfId, bool>,
}

impl Sriov {
    pub fn new(pf: String, places: Places) -> Self {
        Sriov { pf: Netdev::new(&places.sys, &pf), places, counts: BTreeMap::new() }
    }

    /// Its VFs by number.
    fn functions(&self) -> Result<BTreeMap<u16, Function>, String> {
        let mut functions = BTreeMap::new();
        let device = self.pf.folder().join("device");
        let entries = match fs::read_dir(&device) {
            Ok(entries) => entries,
            // The card, or its driver, is gone, and its VFs with it.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(functions),
            Err(e) => return Err(format!("{} cannot be read: {e}", device.display())),
        };
        for entry in entries {
            let entry = entry.map_err(|e| format!("{} cannot be read: {e}", device.display()))?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|n| n.strip_prefix("virtfn")?.parse().ok());
            if let Some(number) = number
                && let Ok(to) = fs::read_link(entry.path())
                && let Some(address) = to.file_name().and_then(|n| n.to_str())
            {
                functions.insert(number, Function::new(address.to_owned(), &self.places));
            }
        }
        Ok(functions)
    }

    fn function(&self, vf: &VfId) -> Result<(u16, Function), String> {
        self.functions()?.into_iter().find(|(_, f)| f.address() == vf.0).ok_or_else(|| {
            format!(
                "{} has no VF {vf} any more: was sriov_numvfs changed, or the driver loaded again?",
                self.pf.name()
            )
        })
    }
}

impl Provider for Sriov {
    fn list(&mut self) -> Result<Vec<VfFound>, String> {
        let found = |f: &Function| VfFound {
            vf: VfId(f.address().to_owned()),
            unusable: f.unusable(),
            // What others did with it is not known.
            clean: false,
        };
        let functions = self.functions()?;
        function::forget_old_marks(&self.places, functions.values());
        Ok(functions.values().map(found).collect())
    }

    fn prepare(&mut self, vf: &VfId, owner: &VfOwner) -> Result<(), String> {
        let (number, function) = self.function(vf)?;
        if let Some(why) = function.unusable().or_else(|| function.in_use()) {
            return Err(why);
        }
        settings::write(self.pf.name(), number, owner)?;
        function.bind()
    }

    fn reset(&mut self, vf: &VfId) -> Result<(), String> {
        let (number, function) = self.function(vf)?;
        if let Some(why) = function.unusable().or_else(|| function.in_use()) {
            return Err(why);
        }
        function.reset()?;
        settings::clear(self.pf.name(), number, vf)
    }

    fn packets(&mut self) -> BTreeMap<VfId, u64> {
        let Ok(functions) = self.functions() else { return BTreeMap::new() };
        // Nobody holds one: nothing is to be counted.
        if !functions.values().any(Function::is_bound_by_us) {
            return BTreeMap::new();
        }
        let words = ["-s", "-j", "link", "show", "dev", self.pf.name()];
        let Ok(text) = child::must("ip", &words, "", IP_TIME) else { return BTreeMap::new() };
        let mut packets = BTreeMap::new();
        for (number, count) in settings::packets(&text) {
            let Some(function) = functions.get(&number) else { continue };
            let vf = VfId(function.address().to_owned());
            // A card that does not count shows 0 for ever.
            let counts = self.counts.entry(vf.clone()).or_default();
            *counts |= count > 0;
            if *counts {
                packets.insert(vf, count);
            }
        }
        packets
    }
}
