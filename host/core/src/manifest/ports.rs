//! Lines of a client's manifest by which its VMs have ports: `[ports.NAME]`, or
//! `[vm.VM.ports.NAME]` where the manifest names VMs.

use super::{ClientToml, ManifestError, Source};
use crate::catalog::ClientKind;
use crate::ports::{MTU_DEFAULT, Mac, Port, PortWay, RING_DEFAULT};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;
use vfun_wire::limits::{PACKETS_RING_MAX, PACKETS_RING_MIN, PORT_NAME_BYTES, PORTS_MAX};

/// The shortest MTU: what IPv4 asks of every network.
const MTU_MIN: u16 = 68;
/// The longest one: of a tap device, whose frames have 65,535 bytes at most.
const MTU_MAX: u16 = 65_521;

/// As many frames of the largest kind fit in a ring, so that a burst is not half lost.
const FRAMES_MIN: u32 = 8;

/// The same fields as the options of `vfun port add`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PortToml {
    number: Option<Spanned<u16>>,
    mac: Option<Spanned<String>>,
    mtu: Option<Spanned<u16>>,
    ring: Option<Spanned<String>>,
    way: Option<Spanned<String>>,
    tap: Option<Spanned<String>>,
    switch: Option<Spanned<String>>,
    offloads: Option<bool>,
}

/// Ports by their names, as a table of a manifest has them.
pub(super) type PortsToml = BTreeMap<Spanned<String>, PortToml>;

/// What a manifest declares, by the VM's name. Those without ports are left out.
pub(super) fn of_client(
    src: &Source<'_>,
    (client, kind): (&str, ClientKind),
    t: &ClientToml,
) -> Result<BTreeMap<String, Vec<Port>>, ManifestError> {
    let mut all = BTreeMap::new();
    if let Some(first) = t.ports.keys().next() {
        let why = match (kind, t.vm.is_empty()) {
            (ClientKind::Host, _) => {
                "a client of kind \"host\" has no VM that could have a port: leave [ports] out"
            }
            (ClientKind::Vm, false) => {
                "this manifest names VMs: write [vm.NAME.ports.PORT] for each port, instead of [ports.PORT]"
            }
            (ClientKind::Vm, true) => "",
        };
        if !why.is_empty() {
            return Err(src.error(first, why));
        }
        all.insert(client.to_owned(), of_vm(src, (client, client), &t.ports)?);
    }
    for (vm, own) in t.vm.iter().filter(|(_, own)| !own.ports.is_empty()) {
        all.insert(vm.get_ref().clone(), of_vm(src, (client, vm.get_ref()), &own.ports)?);
    }
    check_apart(src, t, &all)?;
    Ok(all)
}

/// No two ports of a client have one tap device.
fn check_apart(
    src: &Source<'_>,
    t: &ClientToml,
    all: &BTreeMap<String, Vec<Port>>,
) -> Result<(), ManifestError> {
    let mut taps: BTreeMap<&str, &str> = BTreeMap::new();
    for port in all.values().flatten() {
        if let Some(other) = taps.insert(&port.tap, &port.name) {
            let tables = t.vm.values().map(|vm| &vm.ports).chain([&t.ports]);
            let mut names = tables.flat_map(|ports| ports.keys());
            let at = names.find(|name| *name.get_ref() == port.name).expect("it was read there");
            let why = format!("ports: the tap device {} is port {other}'s already", port.tap);
            return Err(src.error(at, why));
        }
    }
    Ok(())
}

fn of_vm(
    src: &Source<'_>,
    (client, vm): (&str, &str),
    ports: &PortsToml,
) -> Result<Vec<Port>, ManifestError> {
    if let Some(beyond) = ports.keys().nth(PORTS_MAX) {
        return Err(src.error(beyond, format!("ports: a VM has at most {PORTS_MAX}")));
    }
    let mut found: Vec<Port> = vec![];
    // Those that say their number first: the others get what is left.
    let (numbered, free): (Vec<_>, Vec<_>) = ports.iter().partition(|(_, t)| t.number.is_some());
    for (name, t) in numbered.into_iter().chain(free) {
        let taken = |n: u16| found.iter().find(|p| p.number == n);
        let number = match &t.number {
            None => (0..PORTS_MAX as u16)
                .find(|n| taken(*n).is_none())
                .expect("not more than there are"),
            Some(n) if usize::from(*n.get_ref()) >= PORTS_MAX => {
                return Err(src.error(n, format!("ports: number is from 0 to {}", PORTS_MAX - 1)));
            }
            Some(n) => match taken(*n.get_ref()) {
                Some(p) => {
                    return Err(src.error(n, format!("ports: port {} has this number", p.name)));
                }
                None => *n.get_ref(),
            },
        };
        found.push(one(src, (client, vm), (name, t), number)?);
    }
    found.sort_by_key(|p| p.number);
    Ok(found)
}

/// A name that Linux takes for an interface.
fn interface(src: &Source<'_>, key: &str, name: &Spanned<String>) -> Result<String, ManifestError> {
    let text = name.get_ref();
    let plain = |b: u8| b.is_ascii_graphic() && !b"/:%,\\\"'".contains(&b);
    let fits = (1..=PORT_NAME_BYTES).contains(&text.len()) && text.bytes().all(plain);
    match fits && !text.starts_with(['.', '-']) {
        true => Ok(text.clone()),
        false => Err(src.error(
            name,
            format!("ports: {key}: '{text}' is no name of an interface: these have 1 to {PORT_NAME_BYTES} letters, digits, '.', '-' and '_'"),
        )),
    }
}

fn one(
    src: &Source<'_>,
    (client, vm): (&str, &str),
    (name, t): (&Spanned<String>, &PortToml),
    number: u16,
) -> Result<Port, ManifestError> {
    let port = interface(src, "name", name)?;
    let mtu = match &t.mtu {
        Some(m) if !(MTU_MIN..=MTU_MAX).contains(m.get_ref()) => {
            return Err(src.error(m, format!("ports: mtu is from {MTU_MIN} to {MTU_MAX}")));
        }
        said => said.as_ref().map_or(MTU_DEFAULT, |m| *m.get_ref()),
    };
    let least = (u32::from(mtu) * FRAMES_MIN).next_power_of_two().max(PACKETS_RING_MIN);
    let ring_bytes = match &t.ring {
        None => RING_DEFAULT.max(least),
        Some(text) => {
            let bytes = vfun_policy::size(text.get_ref()).map_err(|e| src.error(text, e))?;
            let fits = bytes.is_power_of_two()
                && (u64::from(least)..=PACKETS_RING_MAX.into()).contains(&bytes);
            match fits {
                true => bytes as u32,
                false => return Err(src.error(text, format!("ports: ring is a power of two from {least} (for an mtu of {mtu}) to {PACKETS_RING_MAX} bytes"))),
            }
        }
    };
    let mac = match &t.mac {
        None => Port::own_mac(client, vm, &port),
        Some(text) => text
            .get_ref()
            .parse::<Mac>()
            .map_err(|e| src.error(text, format!("ports: mac: {e}")))?,
    };
    let way = match &t.way {
        None => PortWay::Tap,
        Some(text) => {
            text.get_ref().parse().map_err(|e| src.error(text, format!("ports: way: {e}")))?
        }
    };
    let tap = match &t.tap {
        None => Port::own_tap(client, vm, &port),
        Some(tap) => interface(src, "tap", tap)?,
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
    if way == PortWay::Dpdk && !tap.bytes().all(plain) {
        let at = t.tap.as_ref().unwrap_or(name);
        let why = format!(
            "ports: a switch with DPDK takes no port '{tap}': write `tap` with letters, digits, '.', '-' and '_'"
        );
        return Err(src.error(at, why));
    }
    let switch = t.switch.as_ref().map(|s| interface(src, "switch", s)).transpose()?;
    let offloads = t.offloads.unwrap_or(true);
    Ok(Port { name: port, number, mac, mtu, ring_bytes, way, tap, switch, offloads })
}

#[cfg(test)]
mod tests {
    use super::super::client;
    use super::*;
    use std::path::Path;

    fn read(text: &str) -> Result<BTreeMap<String, Vec<Port>>, String> {
        client(Path::new("web.toml"), text, 1).map(|c| c.ports).map_err(|e| e.to_string())
    }

    #[test]
    fn a_port_says_what_it_wants_and_the_rest_follows() {
        assert!(read("name = \"web\"").unwrap().is_empty());
        let text = "name = \"web\"\n[ports.eth1]\nswitch = \"br0\"\n[ports.eth0]\nnumber = 3\nmtu = 9000\nring = \"4 MiB\"\nmac = \"52:54:00:00:00:01\"\ntap = \"t0\"\nway = \"dpdk\"\noffloads = false\n[ports.eth2]";
        let all = read(text).unwrap();
        let found: Vec<_> = all["web"].iter().map(|p| (p.name.as_str(), p.number)).collect();
        assert_eq!(found, [("eth1", 0), ("eth2", 1), ("eth0", 3)]);
        let (plain, own) = (&all["web"][0], &all["web"][2]);
        assert_eq!((plain.mtu, plain.ring_bytes, plain.tap.as_str()), (1500, 2 << 20, "web.eth1"));
        assert_eq!((plain.switch.as_deref(), own.switch.as_deref()), (Some("br0"), None));
        assert_eq!((own.mtu, own.ring_bytes, own.tap.as_str()), (9000, 4 << 20, "t0"));
        assert_eq!((plain.way, own.way), (PortWay::Tap, PortWay::Dpdk));
        assert_eq!((plain.offloads, own.offloads), (true, false));
        assert_eq!(own.mac.to_string(), "52:54:00:00:00:01");
        let vms = read("name = \"web\"\n[vm.a.ports.eth1]\n[vm.b.ports.eth1]\n[vm.c]").unwrap();
        assert_eq!(vms.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_ne!(vms["a"][0].mac, vms["b"][0].mac);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_line() {
        let wrong = |rest: &str, line: u32, says: &str| {
            let said = read(&format!("name = \"web\"\n{rest}")).unwrap_err();
            assert!(said.contains(&format!("web.toml:{line}: ")) && said.contains(says), "{said}");
        };
        wrong("[ports.eth1]\nnumber = 16", 3, "0 to 15");
        wrong("[ports.a]\nnumber = 1\n[ports.b]\nnumber = 1", 5, "port a has this number");
        wrong("[ports.eth1]\nmtu = 67", 3, "from 68");
        wrong("[ports.eth1]\nmtu = 65522", 3, "to 65521");
        wrong("[ports.eth1]\nmtu = 200\nring = \"2 KiB\"", 4, "from 4096");
        wrong("[ports.eth1]\nring = \"3 MiB\"", 3, "power of two");
        wrong("[ports.eth1]\nmtu = 9000\nring = \"64 KiB\"", 4, "for an mtu of 9000");
        wrong("[ports.eth1]\nmac = \"01:00:00:00:00:00\"", 3, "several");
        wrong("[ports.eth1]\ntap = \"a/b\"", 3, "no name of an interface");
        wrong("[ports.eth1]\nway = \"memif\"", 3, "no way of a port");
        wrong("[ports.eth1]\noffloads = 1", 3, "boolean");
        wrong("[ports.sixteen-letters-]", 2, "no name of an interface");
        wrong("[ports.eth1]\ncolour = 1", 3, "colour");
        wrong("[ports.a]\ntap = \"t\"\n[ports.b]\ntap = \"t\"", 4, "port a's already");
        wrong("[ports.eth1]\n[vm.a]", 2, "[vm.NAME.ports.PORT]");
        wrong("kind = \"host\"\n[ports.eth1]", 3, "no VM");
        let many: String = (0..17).map(|n| format!("[ports.p{n:02}]\n")).collect();
        wrong(&many, 18, "at most 16");
    }
}
