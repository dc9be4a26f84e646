//! `vfun nics add`.

use super::ask::Allocator;
use super::vm_name;
use crate::fail::{Failure, Result};
use crate::out::Output;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use vfun_admin::VmName;
use vfun_nicd::ask::Ask;
use vfun_nics::declared::{Hypervisor, TAP_PREFIX, Vm};

/// Where the kernel shows interfaces.
const NET: &str = "/sys/class/net";

/// Declare a VM that competes for the VFs of a pool.
///
/// Adding a VM again changes its settings; its rule, reserve and cap stay. The VM needs a
/// window (`vfun client add`) and vfun-agent.
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("hypervisor").required(true))]
pub struct Args {
    /// The VM.
    #[arg(value_name = "CLIENT[/VM]", value_parser = vm_name)]
    vm: VmName,
    /// The pool of its VFs.
    #[arg(long, value_name = "POOL")]
    pool: String,
    /// The bridge of its paravirtual NIC.
    #[arg(long, value_name = "BRIDGE")]
    bridge: String,
    /// The tap of its paravirtual NIC
    /// [default: the only tap of the bridge that no other VM is declared with].
    #[arg(long, value_name = "TAP")]
    tap: Option<String>,
    /// The MAC address of its paravirtual NIC, which its VF gets too
    /// [default: the only address that the bridge has learned at the tap].
    #[arg(long, value_name = "MAC")]
    mac: Option<String>,
    /// Plug by this control socket of QEMU (QMP), which no other program uses.
    #[arg(long, value_name = "SOCKET", group = "hypervisor")]
    qmp: Option<PathBuf>,
    /// Plug by libvirt: the domain's UUID or name.
    #[arg(long, value_name = "DOMAIN", group = "hypervisor")]
    libvirt: Option<String>,
    /// Another program plugs (`vfun nics orders`).
    #[arg(long, group = "hypervisor")]
    external: bool,
    /// The bus in the VM that VFs are plugged into, a pcie-root-port [default: QEMU chooses].
    #[arg(long, value_name = "BUS", conflicts_with = "libvirt")]
    bus: Option<String>,
    /// The VLAN of its port.
    #[arg(long, value_name = "N")]
    vlan: Option<u16>,
    /// Most that its VF may send, Mbit/s [default: no bound].
    #[arg(long, value_name = "MBIT")]
    rate: Option<u32>,
    /// Give it a VF although its port has filters that a VF passes by.
    #[arg(long)]
    bypass_filters: bool,
}

/// Declares it.
pub fn run(allocator: &Allocator, output: Output, args: &Args) -> Result<()> {
    let tap = match &args.tap {
        Some(tap) => tap.clone(),
        None => {
            let others = allocator.taps()?.into_iter().filter(|(vm, _)| *vm != args.vm);
            let others: Vec<String> = others.map(|(_, tap)| tap).collect();
            only_tap(Path::new(NET), &args.bridge, &others)?
        }
    };
    let mac = match &args.mac {
        Some(mac) => mac.clone(),
        None => only_mac(&args.bridge, &tap)?,
    };
    let vm = Vm {
        bus: args.bus.clone(),
        vlan: args.vlan,
        rate_mbit: args.rate,
        bypass_filters: args.bypass_filters,
        ..Vm::new(&args.pool, hypervisor(args)?, mac, &args.bridge, tap)
    };
    output.done(allocator.tell(&Ask::AddVm { name: args.vm.clone(), vm })?)
}

fn hypervisor(args: &Args) -> Result<Hypervisor> {
    Ok(match (&args.qmp, &args.libvirt) {
        (Some(socket), _) => {
            let socket =
                std::path::absolute(socket).map_err(|e| crate::fail::file(socket, "found", &e))?;
            Hypervisor::Qmp { socket }
        }
        (_, Some(domain)) => Hypervisor::Libvirt { domain: domain.clone() },
        _ => Hypervisor::External,
    })
}

/// The only tap of a bridge, apart from those of other VMs.
fn only_tap(net: &Path, bridge: &str, others: &[String]) -> Result<String> {
    let ports = fs::read_dir(net.join(bridge).join("brif")).map_err(|_| {
        Failure::usage(format!("the kernel has no bridge {bridge} on this host"))
            .advise("`ip link show type bridge` lists bridges; name the VM's with --bridge. On a bridge of Open vSwitch name --tap and --mac, too")
    })?;
    let mut taps: Vec<String> = ports
        .flatten()
        .map(|port| port.file_name().to_string_lossy().into_owned())
        .filter(|name| net.join(name).join("tun_flags").exists())
        .filter(|name| !name.starts_with(TAP_PREFIX) && !others.contains(name))
        .collect();
    taps.sort();
    match taps.len() {
        1 => Ok(taps.remove(0)),
        0 => Err(Failure::usage(format!("the bridge {bridge} has no tap that is free"))
            .advise("start the VM first, or name its tap with --tap")),
        _ => Err(Failure::usage(format!(
            "the bridge {bridge} has several taps: {}",
            taps.join(", ")
        ))
        .advise("name the VM's with --tap")),
    }
}

/// The only address that a bridge has learned at a tap.
fn only_mac(bridge: &str, tap: &str) -> Result<String> {
    let said = Command::new("bridge")
        .args(["-j", "fdb", "show", "br", bridge, "brport", tap])
        .output()
        .map_err(|e| {
            Failure::usage(format!("`bridge` cannot be asked for the VM's MAC address: {e}"))
                .advise("name it with --mac")
        })?;
    let mut macs = learned(&String::from_utf8_lossy(&said.stdout));
    match macs.len() {
        1 => Ok(macs.remove(0)),
        0 => Err(Failure::usage(format!("the bridge has learned no MAC address at {tap}"))
            .advise("name the address of the VM's paravirtual NIC with --mac")),
        _ => Err(Failure::usage(format!(
            "the bridge has learned several MAC addresses at {tap}: {}",
            macs.join(", ")
        ))
        .advise("name that of the VM's paravirtual NIC with --mac")),
    }
}

/// Addresses that `bridge -j fdb` says were learned; others are the bridge's own.
fn learned(json: &str) -> Vec<String> {
    let all: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let entries = all.as_array().cloned().unwrap_or_default();
    let mut macs: Vec<String> = entries
        .iter()
        .filter(|e| e["state"].as_str().is_none_or(|s| s.is_empty()))
        .filter_map(|e| e["mac"].as_str().map(str::to_owned))
        .collect();
    macs.sort();
    macs.dedup();
    macs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_tap_is_found_and_several_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let tap = |name: &str, is_tap: bool| {
            fs::create_dir_all(dir.path().join("br0/brif").join(name)).unwrap();
            fs::create_dir_all(dir.path().join(name)).unwrap();
            if is_tap {
                fs::write(dir.path().join(name).join("tun_flags"), "").unwrap();
            }
        };
        let only = |others: &[String]| only_tap(dir.path(), "br0", others);
        assert!(only(&[]).unwrap_err().what.contains("no bridge"));
        tap("eth0", false);
        tap("vt-cards-0", true);
        assert!(only(&[]).unwrap_err().what.contains("no tap"));
        tap("vnet0", true);
        assert_eq!(only(&[]).unwrap(), "vnet0");
        tap("vnet1", true);
        assert!(only(&[]).unwrap_err().what.contains("vnet0, vnet1"));
        assert_eq!(only(&["vnet0".into()]).unwrap(), "vnet1");
    }

    #[test]
    fn only_learned_addresses_are_a_vms() {
        let json = r#"[{"mac":"52:54:00:00:00:01","ifname":"vnet0","flags":[],"state":""},
            {"mac":"fe:54:00:00:00:01","ifname":"vnet0","state":"permanent"}]"#;
        assert_eq!(learned(json), ["52:54:00:00:00:01"]);
        assert!(learned("").is_empty());
    }
}
