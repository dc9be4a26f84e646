//! What the kernel's files say of an interface's device.

use crate::links::Device;
use std::path::Path;

/// Where the kernel lists interfaces.
pub const NET: &str = "/sys/class/net";

/// The device of the interface of this name; none if it has none.
pub fn device(net: &Path, name: &str) -> Option<Device> {
    let device = std::fs::canonicalize(net.join(name).join("device")).ok()?;
    let driver = std::fs::read_link(device.join("driver")).ok();
    let driver = driver.as_deref().and_then(Path::file_name).map(|n| n.to_string_lossy());
    let places = device.components().filter_map(|c| c.as_os_str().to_str());
    let pci = places.rev().find(|part| is_pci_address(part)).map(String::from);
    Some(Device { driver: driver.map(|d| d.into_owned()).unwrap_or_default(), pci })
}

/// Whether it is of the form `0000:00:05.0`.
fn is_pci_address(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '.']).collect();
    let hex = |part: &str, long: std::ops::RangeInclusive<usize>| {
        long.contains(&part.len()) && part.chars().all(|c| c.is_ascii_hexdigit())
    };
    matches!(parts[..], [domain, bus, slot, function]
        if hex(domain, 4..=8) && hex(bus, 2..=2) && hex(slot, 2..=2) && hex(function, 1..=1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::create_dir_all;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_device_on_another_bus_has_the_pci_device_that_carries_it() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        create_dir_all(at("devices/pci0000:00/0000:00:02.1/0000:01:00.0/virtio3")).unwrap();
        create_dir_all(at("drivers/virtio_net")).unwrap();
        create_dir_all(at("net/eth0")).unwrap();
        create_dir_all(at("net/bond0")).unwrap();
        let virtio = at("devices/pci0000:00/0000:00:02.1/0000:01:00.0/virtio3");
        symlink(&virtio, at("net/eth0/device")).unwrap();
        symlink(at("drivers/virtio_net"), virtio.join("driver")).unwrap();
        let found = device(&at("net"), "eth0").unwrap();
        assert_eq!(found.driver, "virtio_net");
        assert_eq!(found.pci.as_deref(), Some("0000:01:00.0"));
        assert_eq!(device(&at("net"), "bond0"), None);
    }
}
