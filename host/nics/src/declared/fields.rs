//! Whether a VM's declaration makes sense by itself. Options and manifests name the fields.

use super::{Hypervisor, Vm};
use crate::limits::{BUS_BYTES, DOMAIN_BYTES, SOCKET_BYTES};
use std::fmt;
use std::path::Path;

/// What the names of emulated VFs' taps on the host begin with.
pub const TAP_PREFIX: &str = "vt-";

/// A field that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongField {
    /// As options and manifests call it: `mac`, `vlan`, `qmp`.
    pub field: &'static str,
    /// Why, and what to do, in a sentence that names what was said.
    pub why: String,
}

impl fmt::Display for WrongField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.why)
    }
}

type Checked = Result<(), WrongField>;

fn wrong(field: &'static str, why: impl Into<String>) -> Checked {
    Err(WrongField { field, why: why.into() })
}

/// Whether the kernel could give this name to an interface.
pub fn is_interface(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_graphic() && !"/:%\\'\"".contains(c);
    (1..16).contains(&name.len())
        && ![".", ".."].contains(&name)
        && !name.starts_with('-')
        && name.chars().all(fits)
}

impl Vm {
    /// Checks each field.
    ///
    /// # Errors
    /// The first one that makes no sense.
    pub fn check(&self) -> Checked {
        interface("bridge", &self.bridge)?;
        interface("tap", &self.tap)?;
        if self.tap.starts_with(TAP_PREFIX) {
            return wrong(
                "tap",
                format!(
                    "{} has the name of an emulated VF's: names that begin with {TAP_PREFIX} are theirs. Name the tap of the VM's paravirtual NIC",
                    self.tap
                ),
            );
        }
        mac(&self.mac)?;
        if let Some(vlan) = self.vlan.filter(|v| !(1..=4094).contains(v)) {
            return wrong("vlan", format!("{vlan} is no VLAN: they are numbers of 1 to 4094"));
        }
        if self.rate_mbit == Some(0) {
            return wrong(
                "rate",
                "0 is no rate: it is 1 Mbit/s at least; leave it out for no bound",
            );
        }
        self.bus()?;
        self.hypervisor()
    }

    fn bus(&self) -> Checked {
        let Some(bus) = &self.bus else { return Ok(()) };
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if bus.is_empty() || bus.len() > BUS_BYTES || !bus.chars().all(fits) {
            return wrong("bus", format!("'{bus}' is no name of a bus in QEMU"));
        }
        match self.hypervisor {
            Hypervisor::Libvirt { .. } => {
                wrong("bus", format!("libvirt chooses the bus itself: leave '{bus}' out"))
            }
            _ => Ok(()),
        }
    }

    fn hypervisor(&self) -> Checked {
        match &self.hypervisor {
            Hypervisor::Qmp { socket } => qmp(socket),
            Hypervisor::Libvirt { domain }
                if domain.is_empty()
                    || domain.len() > DOMAIN_BYTES
                    || domain.contains(char::is_control) =>
            {
                wrong("libvirt", format!("'{domain}' is no domain of libvirt"))
            }
            _ => Ok(()),
        }
    }
}

fn interface(field: &'static str, name: &str) -> Checked {
    match is_interface(name) {
        true => Ok(()),
        false => wrong(field, format!("'{name}' is no name of an interface")),
    }
}

fn qmp(socket: &Path) -> Checked {
    if !socket.is_absolute() || socket.as_os_str().len() > SOCKET_BYTES {
        return wrong(
            "qmp",
            format!(
                "{}: name the control socket by a path from the root, of at most {SOCKET_BYTES} bytes",
                socket.display()
            ),
        );
    }
    Ok(())
}

fn mac(mac: &str) -> Checked {
    let parts: Vec<_> = mac.split(':').collect();
    let is_byte = |p: &&str| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit());
    if parts.len() != 6 || !parts.iter().all(is_byte) {
        return wrong("mac", format!("'{mac}' is no MAC address: write it as 02:00:00:00:00:01"));
    }
    let first = u8::from_str_radix(parts[0], 16).unwrap_or(1);
    match first & 1 == 1 || parts.iter().all(|p| *p == "00") {
        true => wrong("mac", format!("{mac} is no MAC address of one NIC")),
        false => Ok(()),
    }
}
