//! An interface of the host, as sysfs shows it.

use crate::limits::STACKED_MAX;
use std::path::{Path, PathBuf};

/// Flags of interfaces: `IFF_TAP` and `IFF_VNET_HDR` of linux/if_tun.h, `IFF_UP` of linux/if.h.
const TAP: u32 = 2;
const VNET_HDR: u32 = 0x4000;
const UP: u32 = 1;

/// An interface by its name, there or not.
pub struct Netdev {
    folder: PathBuf,
    name: String,
}

impl Netdev {
    pub fn new(sys: &Path, name: &str) -> Self {
        Netdev { folder: sys.join("class/net").join(name), name: name.to_owned() }
    }

    /// One of this host.
    pub fn of_host(name: &str) -> Self {
        Netdev::new(Path::new("/sys"), name)
    }

    /// All of this host's, in this network namespace, by name.
    pub fn all() -> Vec<String> {
        let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
        entries.filter_map(|e| e.file_name().into_string().ok()).collect()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn is_there(&self) -> bool {
        self.folder.is_dir()
    }

    pub fn is_bridge(&self) -> bool {
        self.folder.join("bridge").is_dir()
    }

    /// Whether it is a tap device that was last opened with a note before each frame
    /// ([`Before::Note`](crate::taps::Before)).
    pub fn has_notes(&self) -> bool {
        self.flags("tun_flags").is_some_and(|flags| flags & VNET_HDR != 0)
    }

    /// Whether it is a tap device: one with whole Ethernet frames.
    pub fn is_tap(&self) -> bool {
        self.flags("tun_flags").is_some_and(|flags| flags & TAP != 0)
    }

    /// Whether it is set up.
    pub fn is_up(&self) -> bool {
        self.flags("flags").is_some_and(|flags| flags & UP != 0)
    }

    fn flags(&self, file: &str) -> Option<u32> {
        u32::from_str_radix(self.read(file)?.strip_prefix("0x")?, 16).ok()
    }

    /// Who made it, in the text that people see in `ip link` (its alias); empty if nobody said so.
    pub fn alias(&self) -> String {
        self.read("ifalias").unwrap_or_default()
    }

    /// A file's text, without the end of the line.
    pub fn read(&self, file: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.folder.join(file)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The ports of a bridge, by name.
    pub fn ports(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.join("brif")).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Whether it is this interface, or a VLAN or bond that stands on it.
    pub fn stands_on(&self, other: &str) -> bool {
        self.reaches(other, STACKED_MAX)
    }

    fn reaches(&self, other: &str, depth: u32) -> bool {
        if self.name == other {
            return true;
        }
        let Some(deeper) = depth.checked_sub(1) else { return false };
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut below = entries.filter_map(|e| {
            let name = e.file_name().to_str()?.strip_prefix("lower_")?.to_owned();
            Some(Netdev { folder: self.folder.with_file_name(&name), name })
        });
        below.any(|lower| lower.reaches(other, deeper))
    }

    /// The driver of its device.
    pub fn driver(&self) -> Option<String> {
        let to = std::fs::read_link(self.folder.join("device/driver")).ok()?;
        Some(to.file_name()?.to_string_lossy().into_owned())
    }

    /// The interface that it is a port of.
    pub fn master(&self) -> Option<String> {
        let to = std::fs::read_link(self.folder.join("master")).ok()?;
        Some(to.file_name()?.to_string_lossy().into_owned())
    }

    /// Packets in both directions.
    pub fn packets(&self) -> Option<u64> {
        let count = |file| self.read(&format!("statistics/{file}"))?.parse::<u64>().ok();
        Some(count("rx_packets")?.saturating_add(count("tx_packets")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::create_dir_all;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_vlan_on_a_bond_stands_on_the_bonds_card() {
        let dir = tempfile::tempdir().unwrap();
        let net = dir.path().join("class/net");
        let at = |name: &str| net.join(name);
        for name in ["br0/brif/bond1.7", "br0/brif/tap0", "bond1.7", "bond1", "eth2", "tap0"] {
            create_dir_all(at(name)).unwrap();
        }
        symlink("../bond1", at("bond1.7/lower_bond1")).unwrap();
        symlink("../eth2", at("bond1/lower_eth2")).unwrap();
        // The kernel never shows such a circle; it must not keep this program either.
        symlink("../bond1.7", at("bond1/lower_bond1.7")).unwrap();
        let dev = |name: &str| Netdev::new(dir.path(), name);
        assert_eq!(dev("br0").ports(), ["bond1.7", "tap0"]);
        assert!(dev("bond1.7").stands_on("eth2") && dev("eth2").stands_on("eth2"));
        assert!(!dev("tap0").stands_on("eth2") && !dev("bond1.7").stands_on("eth3"));
    }
}
