//! A network card in a bridge of the host, in the guest in a bond that vfun-agent owns, so
//! that the guest can be given a network VF.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use vfun_cli::cmd::guest::Args;
use vfun_cli::cmd::nics::Nic;
use vfun_cli::fail::{self, Exit, Failure, Result};
use vfun_cli::programs;
use vfun_testguest::GuestConfig;

/// The bond in the guest, which the kernel's module makes by itself.
const BOND: &str = "bond0";
/// The port that a VF is plugged into: the guest's first.
const BUS: &str = "hp0";

/// What the guest's card needs on the host; its files go with it.
pub struct Bonded {
    pub nic: Nic,
    /// Their folder, removed when this is dropped.
    _dir: tempfile::TempDir,
}

impl Bonded {
    /// Gives a guest a card in a bridge. The client names the guest, so that it always has
    /// the same MAC address. The bridge was [checked](check).
    pub fn give(config: &mut GuestConfig, args: &Args, bridge: &str) -> Result<Self> {
        let agent = programs::find("vfun-agent").ok_or_else(|| {
            Failure::new(Exit::Failed, "the program vfun-agent is not there to be taken along")
                .advise("build or install it beside vfun-guest; guests with --bridge need it")
        })?;
        let dir = tempfile::tempdir().map_err(|e| fail::file(&std::env::temp_dir(), "used", &e))?;
        let (tap, mac) = names(&args.client);
        let qmp = dir.path().join("qmp");
        // A bridge without a fixed address takes the lowest of its ports': not this one's,
        // which comes and goes.
        let high = mac.replacen("52:54:00", "fe:ff:fe", 1);
        let up = format!("exec ip link set \"$1\" address {high} master {bridge} up\n");
        let up = script(dir.path(), "up", &up)?;
        let start = script(dir.path(), "start", &bond(args.address.as_deref(), args.probe))?;
        config.files.push((agent, "/usr/bin/vfun-agent".into()));
        config.files.push((start, "/etc/vfun-start".into()));
        config.modules.extend(["virtio_net", "bonding"].map(String::from));
        config.hotplug_ports = 1;
        config.extra_args.extend(arguments(&tap, &mac, &qmp, &up));
        let nic = Nic { bridge: bridge.into(), tap, mac, qmp, bus: BUS.into() };
        Ok(Bonded { nic, _dir: dir })
    }
}

/// Refuses a bridge in which a guest can have no card.
pub fn check(bridge: &str) -> Result<()> {
    is_bridge(Path::new("/sys/class/net"), bridge)?;
    may_make_taps()
}

/// Refuses what is no bridge of this host.
fn is_bridge(net: &Path, bridge: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if bridge.chars().all(plain) && net.join(bridge).join("bridge").is_dir() {
        return Ok(());
    }
    Err(Failure::usage(format!("there is no bridge '{bridge}' on this host")).advise(
        "`ip link show type bridge` lists bridges; `ip link add br0 type bridge` makes one",
    ))
}

/// QEMU makes the guest's tap, and would say less.
fn may_make_taps() -> Result<()> {
    let root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    if root && Path::new("/dev/net/tun").exists() {
        return Ok(());
    }
    let why = if root { "this host has no /dev/net/tun" } else { "only root can make it" };
    Err(Failure::new(Exit::Failed, format!("--bridge needs a tap on this host: {why}"))
        .advise("run it as root where /dev/net/tun is, or use --net, which needs neither"))
}

/// The tap and the MAC address of a guest's card, by the guest's name.
fn names(client: &str) -> (String, String) {
    let mut hasher = DefaultHasher::new();
    client.hash(&mut hasher);
    let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
    // QEMU's own range of addresses; a name of an interface has at most 15 bytes.
    (format!("vfg{a:02x}{b:02x}{c:02x}{d:02x}"), format!("52:54:00:{a:02x}:{b:02x}:{c:02x}"))
}

fn script(dir: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = dir.join(name);
    let made = fs::write(&path, format!("#!/bin/sh\n{text}"))
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)));
    made.map_err(|e| fail::file(&path, "written", &e))?;
    Ok(path)
}

/// What a guest's own network configuration would do at its start.
fn bond(address: Option<&str>, probe: Option<IpAddr>) -> String {
    let bonding = format!("/sys/class/net/{BOND}/bonding");
    let mut text = format!(
        "echo active-backup >{bonding}/mode\n\
         ip link set eth0 down && echo +eth0 >{bonding}/slaves && ip link set {BOND} up\n"
    );
    if let Some(address) = address {
        text += &format!("ip addr add {address} dev {BOND}\n");
    }
    let mut agent = format!("vfun-agent run --bond {BOND}");
    if let Some(probe) = probe {
        // Lets root ask without a raw socket; it holds for IPv6, too.
        text += "echo 0 0 >/proc/sys/net/ipv4/ping_group_range\n";
        agent += &format!(" --probe {probe}");
    }
    text + &format!("{agent} </dev/null >/tmp/vfun-agent.log 2>&1 &\n")
}

fn arguments(tap: &str, mac: &str, qmp: &Path, up: &Path) -> Vec<String> {
    let (qmp, up) = (qmp.display(), up.display());
    [
        "-chardev",
        &format!("socket,id=nics,path={qmp},server=on,wait=off"),
        "-mon",
        "chardev=nics,mode=control",
        "-netdev",
        &format!("tap,id=pv,ifname={tap},script={up},downscript=no"),
        "-device",
        &format!("virtio-net-pci,netdev=pv,romfile=,addr=0x05,mac={mac}"),
    ]
    .map(String::from)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_always_the_same_card_and_no_other_has_it() {
        assert_eq!(names("vm1"), names("vm1"));
        assert_ne!(names("vm1"), names("vm2"));
        let (tap, mac) = names("a/long-name-of-a-client");
        assert!(tap.len() <= 15 && mac.len() == 17, "{tap} {mac}");
    }

    #[test]
    fn what_is_no_bridge_is_refused_by_name() {
        let net = tempfile::tempdir().unwrap();
        fs::create_dir_all(net.path().join("br0/bridge")).unwrap();
        fs::create_dir_all(net.path().join("eth0")).unwrap();
        is_bridge(net.path(), "br0").unwrap();
        for bad in ["eth0", "br1", "../br0", ""] {
            let e = is_bridge(net.path(), bad).unwrap_err();
            assert!(e.exit == Exit::Usage && e.what.contains(&format!("'{bad}'")), "{e:?}");
        }
    }

    #[test]
    fn the_bond_has_its_address_only_if_one_was_named() {
        assert!(bond(Some("10.9.0.2/24"), None).contains("ip addr add 10.9.0.2/24 dev bond0"));
        assert!(!bond(None, None).contains("ip addr"));
    }

    #[test]
    fn the_agent_asks_an_address_only_if_one_was_named() {
        let asks = bond(None, Some("10.9.0.1".parse().unwrap()));
        assert!(asks.contains("ping_group_range\nvfun-agent run --bond bond0 --probe 10.9.0.1 <"));
        assert!(!bond(None, None).contains("ping_group_range"));
    }
}
