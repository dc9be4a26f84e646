//! Where a device can be plugged in while a machine runs, by `query-pci`.

use serde_json::Value;

/// A device that `query-pci` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name in QEMU; empty if it has none.
    pub id: String,
    /// `DOMAIN:BUS:SLOT.FUNCTION`, as the machine's firmware or guest numbered buses.
    pub address: String,
    /// PCI vendor and device.
    pub kind: (u64, u64),
    /// For bridges and ports: how many devices are behind it.
    pub behind: Option<usize>,
}

/// Every device, those behind bridges included.
pub fn devices(query_pci: &Value) -> Vec<Device> {
    let mut found = vec![];
    for bus in query_pci.as_array().into_iter().flatten() {
        walk(&bus["devices"], &mut found);
    }
    found
}

fn walk(devices: &Value, found: &mut Vec<Device>) {
    for d in devices.as_array().into_iter().flatten() {
        let number = |v: &Value| v.as_u64().unwrap_or(0);
        let behind = &d["pci_bridge"]["devices"];
        found.push(Device {
            id: d["qdev_id"].as_str().unwrap_or_default().to_owned(),
            address: format!(
                "0000:{:02x}:{:02x}.{:x}",
                number(&d["bus"]),
                number(&d["slot"]),
                number(&d["function"])
            ),
            kind: (number(&d["id"]["vendor"]), number(&d["id"]["device"])),
            behind: d.get("pci_bridge").map(|_| behind.as_array().map_or(0, Vec::len)),
        });
        walk(behind, found);
    }
}

/// Whether the machine's root bus takes devices while it runs: that of i440FX
/// (machine `pc`) does, that of q35 does not.
pub fn root_takes_devices(devices: &[Device]) -> bool {
    devices.iter().any(|d| d.kind == (0x8086, 0x1237))
}

/// Ports with a name and nothing behind them.
pub fn free(devices: &[Device]) -> impl Iterator<Item = &Device> {
    devices.iter().filter(|d| d.behind == Some(0) && !d.id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn q35() -> Value {
        let device = |slot: u64, qdev: &str, id: u64| {
            json!({"bus": 0, "slot": slot, "function": 0, "qdev_id": qdev,
                   "class_info": {"class": 1540}, "id": {"vendor": 0x1b36, "device": id}, "regions": []})
        };
        let port = |slot, qdev, behind: Value| {
            let mut d = device(slot, qdev, 12);
            d["pci_bridge"] = json!({"bus": {"number": 0, "secondary": slot}, "devices": behind});
            d
        };
        let inner = json!([{"bus": 9, "slot": 0, "function": 1, "qdev_id": "net", "id": {"vendor": 1, "device": 2}}]);
        let full = port(9, "hp1", inner);
        let mut bare = port(10, "hp2", json!([]));
        // A port with nothing behind it may have no list at all.
        bare["pci_bridge"].as_object_mut().unwrap().remove("devices");
        json!([{"bus": 0, "devices": [device(1, "", 5), full, bare, port(11, "", json!([]))]}])
    }

    #[test]
    fn free_ports_are_empty_and_have_names() {
        let all = devices(&q35());
        assert_eq!(all.len(), 5);
        assert_eq!(free(&all).map(|d| d.id.as_str()).collect::<Vec<_>>(), ["hp2"]);
        let net = all.iter().find(|d| d.id == "net").unwrap();
        assert_eq!(net.address, "0000:09:00.1");
        assert!(!root_takes_devices(&all));
        let pc = json!([{"devices": [{"id": {"vendor": 0x8086, "device": 0x1237}}]}]);
        assert!(root_takes_devices(&devices(&pc)));
        assert!(devices(&json!("nonsense")).is_empty());
    }
}
