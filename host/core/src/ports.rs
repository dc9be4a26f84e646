//! Ports: packets between a VM and a switch of its host. A client's manifest says which
//! ports its VMs have; a VM's kernel module has each by a channel of the function `ports`.

use super::catalog::{Catalog, Client, Function};
use super::grant::{AtSwitch, Grant, Shape, Stage};
use super::grants::Key;
use super::sessions::Session;
use super::{Action, Core, nacks};
use sha2::{Digest, Sha256};
use std::fmt;
use vfun_supervise::Driver;
use vfun_wire::header::PortEntry;
use vfun_wire::kind::ChannelKind;
use vfun_wire::limits::{DEADLINE_MS_DEFAULT, PORT_NAME_BYTES, PORTS_MAX};
use vfun_wire::packets::PacketsShape;
use vfun_wire::version::FunctionVersion;
use vfun_wire::{Handle, Nack};
use zerocopy::little_endian::{U16, U32, U64};

/// The function's name.
pub const FUNCTION: &str = "ports";
/// Longest packets behind an Ethernet header of a port that says nothing, bytes.
pub const MTU_DEFAULT: u16 = 1500;
/// Bytes of each ring of a port that says nothing: some 1,300 full frames of 1500 bytes, and
/// 14,000 small ones.
pub const RING_DEFAULT: u32 = 2 << 20;

/// The function: part of every catalog. It has no calls.
pub fn built_in(id: u32) -> Function {
    Function {
        id,
        name: FUNCTION.into(),
        version: FunctionVersion::new(1, 0),
        summary: "network ports of a VM".into(),
        software: Some(Driver::Ports),
        hardware: None,
        deadline_ms: DEADLINE_MS_DEFAULT,
        fixed_deadline: false,
        max_args: 0,
        max_result: 0,
        settings: Default::default(),
        reads: vec![],
        writes: vec![],
        environment: Default::default(),
        makes_code: false,
        devices: vec![],
        codes: Default::default(),
        signature: None,
    }
}

/// The address of a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl std::str::FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            |what: &str| Err(format!("'{text}' {what}: write one such as \"52:54:00:12:34:56\""));
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let two =
                parts.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()));
            let Some(two) = two else { return wrong("is no address of a network interface") };
            *byte = u8::from_str_radix(two, 16).expect("two digits");
        }
        match (parts.next().is_some(), bytes[0] & 1 != 0, bytes == [0; 6]) {
            (true, ..) => wrong("is no address of a network interface"),
            (_, true, _) => wrong("is an address of several interfaces"),
            (_, _, true) => wrong("is no interface's address"),
            _ => Ok(Mac(bytes)),
        }
    }
}

/// How the host's end of a port gets its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortWay {
    /// A service relays them to a tap device.
    #[default]
    Tap,
    /// A switch with DPDK has the port's memory, and a driver in it.
    Dpdk,
}

impl PortWay {
    /// What a manifest calls it.
    pub fn text(self) -> &'static str {
        match self {
            PortWay::Tap => "tap",
            PortWay::Dpdk => "dpdk",
        }
    }
}

impl std::str::FromStr for PortWay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [PortWay::Tap, PortWay::Dpdk];
        all.into_iter()
            .find(|w| w.text() == text)
            .ok_or_else(|| format!("'{text}' is no way of a port: write \"tap\" or \"dpdk\""))
    }
}

/// A port of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// What its interface in the VM is called.
    pub name: String,
    /// Its place in the VM's table of ports.
    pub number: u16,
    pub mac: Mac,
    /// Bytes of the longest packet behind an Ethernet header.
    pub mtu: u16,
    /// Bytes of each ring.
    pub ring_bytes: u32,
    pub way: PortWay,
    /// The host's end: a tap device, or a port of a switch with DPDK.
    pub tap: String,
    /// The bridge or switch in which that is; `None`: the manager puts it into none.
    pub switch: Option<String>,
    /// Checksums may be completed, and long packets of TCP cut, by the host's kernel, if that is the switch.
    pub offloads: bool,
}

/// Bits that are the same each time for the same port.
fn bits(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

impl Port {
    /// A number that is another one when anything of the port is.
    pub fn print(&self) -> u64 {
        let Port { name, number, mac, mtu, ring_bytes, way, tap, switch, offloads } = self;
        let terms = format!(
            "{number} {mac} {mtu} {ring_bytes} {}{}",
            way.text(),
            if *offloads { "" } else { " whole" }
        );
        // No bridge has an empty name.
        let hash = bits(&["print", name, &terms, tap, switch.as_deref().unwrap_or("")]);
        u64::from_le_bytes(hash[..8].try_into().expect("eight of 32"))
    }

    /// The address of a port that names none: one of those that everybody may give out.
    pub fn own_mac(client: &str, vm: &str, port: &str) -> Mac {
        let hash = bits(&["mac", client, vm, port]);
        let [_, b, c, d, e, f] = hash[..6].try_into().expect("six of 32");
        Mac([0x02, b, c, d, e, f])
    }

    /// The tap device of a port that names none: the VM's name and the port's, or what can be
    /// read of them.
    pub fn own_tap(client: &str, vm: &str, port: &str) -> String {
        let whole = format!("{vm}.{port}");
        if whole.len() <= PORT_NAME_BYTES && client == vm {
            return whole;
        }
        let hash = bits(&["tap", client, vm, port]);
        let short: String = whole.chars().take(PORT_NAME_BYTES - 7).collect();
        format!("{short}-{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2])
    }

    /// What a VM is told of it.
    pub fn entry(&self) -> PortEntry {
        let terms = format!("{} {} {}", self.mac, self.mtu, self.ring_bytes);
        let hash = bits(&["port", &self.name, &terms]);
        let id = u64::from_le_bytes(hash[..8].try_into().expect("eight of 32")).max(1);
        let mut name = [0; PORT_NAME_BYTES + 1];
        name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        PortEntry {
            id: U64::new(id),
            mac: self.mac.0,
            mtu: U16::new(self.mtu),
            name,
            ring_bytes: U32::new(self.ring_bytes),
            reserved0: U32::ZERO,
            reserved1: [U64::ZERO; 3],
        }
    }
}

impl Client {
    /// A port of one of its VMs by its number.
    pub fn port(&self, vm: &str, number: u16) -> Option<&Port> {
        self.ports.get(vm)?.iter().find(|p| p.number == number)
    }

    /// The table of ports that a VM is shown.
    pub fn port_table(&self, vm: &str) -> [PortEntry; PORTS_MAX] {
        let mut table = [PortEntry::NONE; PORTS_MAX];
        for port in self.ports.get(vm).into_iter().flatten() {
            if let Some(entry) = table.get_mut(usize::from(port.number)) {
                *entry = port.entry();
            }
        }
        table
    }
}

impl Catalog {
    /// The port that a grant is the VM's way to, if it is one's.
    pub fn port_of(&self, g: &Grant) -> Option<&Port> {
        if g.subject.shape.kind != ChannelKind::Packets {
            return None;
        }
        let number = PacketsShape::read(&g.subject.shape.shape).ok()?.port.get();
        self.clients.get(&g.holder.client_id)?.port(g.holder.vm.as_deref()?, number)
    }
}

impl Core {
    /// The port that a shape names, of a session's VM.
    pub(super) fn port_of_shape<'a>(
        &self,
        s: &Session,
        client: &'a Client,
        shape: &Shape,
    ) -> Option<&'a Port> {
        let vm = self.windows.get(&s.window)?.vm.as_deref()?;
        let packets = shape.kind == ChannelKind::Packets;
        let number = packets.then(|| PacketsShape::read(&shape.shape).ok())??.port.get();
        client.port(vm, number)
    }

    /// Whether a session may have the port that it asks for: its VM has it, as large as it
    /// was asked for, and no other channel is its way there.
    pub(super) fn check_port(
        &self,
        s: &Session,
        client: &Client,
        shape: &Shape,
    ) -> Result<(), Nack> {
        if shape.kind != ChannelKind::Packets {
            return Ok(());
        }
        let asked = PacketsShape::read(&shape.shape).map_err(|_| nacks::shape(shape))?;
        let number = asked.port.get();
        let vm = self.windows.get(&s.window).and_then(|w| w.vm.as_deref());
        let Some(port) = self.port_of_shape(s, client, shape) else {
            return Err(nacks::no_such_port(&client.name, number));
        };
        if asked.ring_bytes.get() != port.ring_bytes {
            return Err(nacks::other_ring(port));
        }
        let all = self.grants.of(&Key::Client(client.id)).into_iter();
        let mut others = all.filter_map(|h| self.grants.get(h).ok());
        let taken = others.any(|g| {
            let over = matches!(g.stage, Stage::Broken { .. } | Stage::Closing { .. });
            let same = self.catalog.port_of(g).is_some_and(|p| p.number == number);
            !over && same && g.holder.vm.as_deref() == vm
        });
        match taken {
            true => Err(nacks::port_taken(port)),
            false => Ok(()),
        }
    }

    /// Whether a switch may be given a grant's memory: the grant is served, and is of a port for
    /// a switch with DPDK.
    pub fn may_go_to_switch(&self, grant: Handle) -> bool {
        self.grants.get(grant).is_ok_and(|g| g.stage.goes_on() && self.is_for_switch(g))
    }

    /// Whether a grant is of a port that a switch with DPDK has.
    fn is_for_switch(&self, g: &Grant) -> bool {
        self.catalog.port_of(g).is_some_and(|p| p.way == PortWay::Dpdk)
    }

    pub(super) fn switch_takes(&mut self, grant: Handle, switch: AtSwitch) {
        if self.may_go_to_switch(grant)
            && let Some(g) = self.grants.get_mut(grant)
        {
            g.at_switch = Some(switch);
        }
    }

    /// A switch has let go of a grant's memory for ever.
    pub(super) fn switch_let_go(&mut self, grant: Handle, out: &mut Vec<Action>) {
        let at_switch = |g: &&mut Grant| g.at_switch.is_some();
        let Some(g) = self.grants.get_mut(grant).filter(at_switch) else { return };
        g.at_switch = None;
        if matches!(g.stage, Stage::Closing { service: None, .. }) {
            self.free_grant(grant, out);
        }
    }

    /// Takes ports away that are no more what they were when they were granted: also those
    /// that changed while no manager was there.
    pub(super) fn take_changed_ports(&mut self, now: u64, out: &mut Vec<Action>) {
        let other = |g: &Grant| g.port != self.catalog.port_of(g).map(Port::print);
        for grant in self.all_of(|g| g.port.is_some() && !g.is_over() && other(g)) {
            self.take_grant(now, grant, "its port was changed or removed", out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        let mac: Mac = "52:54:00:aB:34:56".parse().unwrap();
        assert_eq!(mac.to_string(), "52:54:00:ab:34:56");
        for bad in [
            "",
            "52:54",
            "52:54:00:ab:34:5",
            "52:54:00:ab:34:56:78",
            "52:54:00:ab:34:5g",
            "+2:54:00:ab:34:56",
        ] {
            assert!(bad.parse::<Mac>().unwrap_err().contains("no address"), "{bad}");
        }
        assert!("01:00:5e:00:00:01".parse::<Mac>().unwrap_err().contains("several"));
        assert!("00:00:00:00:00:00".parse::<Mac>().is_err());
    }

    #[test]
    fn what_a_port_does_not_say_follows_from_its_names() {
        assert_eq!(Port::own_tap("vm1", "vm1", "eth1"), "vm1.eth1");
        let long = Port::own_tap("web", "frontend-server", "eth1");
        assert_eq!(long.len(), PORT_NAME_BYTES);
        assert!(long.starts_with("frontend-"), "{long}");
        // Two clients may have VMs of one name.
        assert_ne!(Port::own_tap("a", "vm", "eth1"), Port::own_tap("b", "vm", "eth1"));
        let (a, b) = (Port::own_mac("a", "vm", "eth1"), Port::own_mac("a", "vm", "eth2"));
        assert!(a != b && a.0[0] == 2);
        assert_eq!(a, Port::own_mac("a", "vm", "eth1"));
    }

    #[test]
    fn an_entry_changes_its_number_with_its_terms() {
        let port = Port {
            name: "eth1".into(),
            number: 3,
            mac: Mac([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            ring_bytes: RING_DEFAULT,
            way: PortWay::Tap,
            tap: "vm1.eth1".into(),
            switch: None,
            offloads: true,
        };
        let entry = port.entry();
        assert_eq!(&entry.name[..5], b"eth1\0");
        assert_eq!(entry, port.entry());
        let moved =
            Port { number: 4, tap: "other".into(), switch: Some("br0".into()), ..port.clone() };
        assert_eq!(moved.entry(), entry, "nothing that the VM sees");
        assert_ne!(Port { mtu: 9000, ..port }.entry().id, entry.id);
    }
}
