//! A domain's description, as far as VFs are concerned.

use crate::hands::{Device, Kind, ONLY_QMP, device_id, vf_of_device};
use vfun_nics::VfId;

/// What libvirt calls a VF's device. libvirt takes names of others only with `ua-`.
pub fn alias(vf: &VfId) -> String {
    format!("ua-{}", device_id(vf))
}

/// The VFs that a running domain's description has.
pub fn plugged(xml: &str) -> Vec<VfId> {
    // libvirt itself writes descriptions, in this form.
    let names = xml.split("<alias name='ua-").skip(1);
    names.filter_map(|rest| vf_of_device(rest.split('\'').next()?)).collect()
}

/// The device as libvirt plugs it in. Its MAC address, VLAN and vfio driver are set already;
/// libvirt is to set the same and not to touch the driver.
///
/// # Errors
/// A device that libvirt is not asked for.
pub fn interface(device: &Device) -> Result<String, String> {
    let (kind, source, model) = match &device.kind {
        Kind::Pci => ("type='hostdev' managed='no'", pci_source(&device.vf), String::new()),
        Kind::Emulated { tap, model } => (
            "type='ethernet'",
            format!("<target dev='{}' managed='no'/>", escape(tap)),
            format!("<model type='{}'/>", escape(model.trim_end_matches("-pci"))),
        ),
        Kind::VhostUser { .. } => return Err(ONLY_QMP.into()),
    };
    let vlan = device.vlan.map(|v| format!("<vlan><tag id='{v}'/></vlan>")).unwrap_or_default();
    Ok(format!(
        "<interface {kind}><mac address='{mac}'/>{source}{model}{vlan}<alias name='{alias}'/></interface>",
        mac = escape(&device.mac),
        alias = alias(&device.vf),
    ))
}

/// `0000:01:10.0` as libvirt writes an address.
fn pci_source(vf: &VfId) -> String {
    let mut parts = vf.0.split([':', '.']);
    let mut part = || escape(parts.next().unwrap_or_default());
    format!(
        "<source><address type='pci' domain='0x{}' bus='0x{}' slot='0x{}' function='0x{}'/></source>",
        part(),
        part(),
        part(),
        part()
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(kind: Kind) -> Device {
        let mac = "02:00:00:00:00:01".into();
        Device { vf: VfId("0000:01:10.3".into()), kind, mac, vlan: Some(7), bus: None }
    }

    #[test]
    fn a_vf_is_given_by_its_address_and_found_by_its_alias() {
        let xml = interface(&device(Kind::Pci)).unwrap();
        let address = "domain='0x0000' bus='0x01' slot='0x10' function='0x3'";
        assert!(xml.contains(address) && xml.contains("<vlan><tag id='7'/>"), "{xml}");
        assert_eq!(plugged(&xml), [VfId("0000:01:10.3".into())]);
        assert!(plugged("<alias name='net0'/><alias name='ua-web'/>").is_empty());
    }

    #[test]
    fn nothing_that_was_declared_becomes_xml() {
        let kind = Kind::Emulated { tap: "t'/><x/>".into(), model: "igb".into() };
        assert!(!interface(&device(kind)).unwrap().contains("<x/>"));
    }

    #[test]
    fn a_port_of_open_vswitch_is_refused() {
        let kind = Kind::VhostUser { socket: "/v".into() };
        assert!(interface(&device(kind)).unwrap_err().contains("--qmp"));
    }
}
