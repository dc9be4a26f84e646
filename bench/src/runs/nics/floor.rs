//! What a hot-plug and a hot-unplug cannot take less than: the part of QEMU and of the guest's
//! kernel. The hands of `vfun-nics` plug a NIC into a guest, and no agent takes it.

use crate::error::Doing;
use crate::{BenchError, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use vfun_nicd::hands::{Device, Hands, Kind, Qmp, SaidByVm};
use vfun_nicd::netdev::Netdev;
use vfun_nics::VfId;
use vfun_nics::declared::{Hypervisor, Vm};

/// The host's side of the NIC, which is in no bridge.
const TAP: &str = "floor";
/// No address of a VM: the agent lets the NIC be.
const MAC: &str = "02:00:00:09:0f:01";
/// The NIC of this address is taken into the guest's bond, beside the active NIC.
const MAC_IN_BOND: &str = "02:00:00:09:0f:02";
/// What runs in the guest. It sets a NIC of that address up, waits until it has a carrier, and
/// sends a packet. It looks rarely until it was used once: it is not to slow down
/// what is measured before. A NIC of the other address it takes into the bond, whose agent it
/// ends, and sends by it there.
pub const IN_GUEST: &str = "\
    nic=/sys/class/net/eth1; \
    is() { grep -qs 02:00:00:09:0f:0$1 $nic/address; }; \
    comes() { until is 1 || is 2; do $1; done; }; \
    alone() { ip link set eth1 up; until grep -qs 1 $nic/carrier; do usleep 2000; done; \
    ip addr add 169.254.9.2/30 dev eth1; arping -c 1 -w 1 -I eth1 169.254.9.1 & }; \
    bonded() { kill $(pidof vfun-agent) 2>/dev/null; \
    echo +eth1 >/sys/class/net/bond0/bonding/slaves; arping -D -c 1 -w 1 -I eth1 169.254.9.1 & }; \
    used() { ipv6=/proc/sys/net/ipv6/conf/eth1/disable_ipv6; [ ! -e $ipv6 ] || echo 1 >$ipv6; \
    if is 2; then bonded; else alone; fi; while [ -e $nic ]; do usleep 50000; done; }; \
    comes 'sleep 1'; used; while true; do comes 'usleep 2000'; used; done";
/// Before each order: the guest is to be done with the one before.
const PAUSE: Duration = Duration::from_millis(500);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);
/// How long one step may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What each took, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlugFloor {
    /// From the order to plug until a packet of the guest comes by the NIC.
    pub plugs: Vec<u64>,
    /// From the order to unplug until QEMU says that it is gone. The NIC is in no bond.
    pub unplugs: Vec<u64>,
    /// The same of a NIC in a bond, in which another one is active.
    pub unplugs_from_bond: Vec<u64>,
}

/// Measures it in a VM that `vfun-nics` has no longer anything to do with.
///
/// # Errors
/// [`BenchError::Inside`]: QEMU refuses, or the guest does not take or leave the NIC in time.
pub fn measure(vm: &Vm, times: u32) -> Result<PlugFloor> {
    let mut nic = Nic::make(vm)?;
    // The first one tells the guest to look more often.
    nic.plug()?;
    nic.unplug()?;
    let mut floor = PlugFloor::default();
    for _ in 0..times {
        floor.plugs.push(nic.plug()?);
        floor.unplugs.push(nic.unplug()?);
    }
    nic.device.mac = MAC_IN_BOND.into();
    for _ in 0..times {
        nic.plug()?;
        floor.unplugs_from_bond.push(nic.unplug()?);
    }
    Ok(floor)
}

struct Nic {
    hands: Qmp,
    device: Device,
    tap: Netdev,
}

impl Nic {
    fn make(vm: &Vm) -> Result<Self> {
        let Hypervisor::Qmp { socket } = &vm.hypervisor else {
            return Err(failed("the VM has no control socket"));
        };
        let words = [&["tuntap", "add", TAP, "mode", "tap"][..], &["link", "set", TAP, "up"]];
        for words in words {
            let done = Command::new("ip").args(words).status();
            if !done.doing(|| "ip cannot be run (package iproute2)".into())?.success() {
                return Err(failed(&format!("`ip {}` failed", words.join(" "))));
            }
        }
        let kind = Kind::Emulated { tap: TAP.into(), model: "virtio-net-pci".into() };
        let (mac, bus) = (MAC.into(), vm.bus.clone());
        let device = Device { vf: VfId(TAP.into()), kind, mac, vlan: None, bus };
        let tap = Netdev::new(Path::new("/sys"), TAP);
        Ok(Nic { hands: Qmp::new(PathBuf::from(socket)), device, tap })
    }

    /// Packets that came from the guest.
    fn packets(&self) -> Option<u64> {
        self.tap.read("statistics/rx_packets")?.parse().ok()
    }

    fn plug(&mut self) -> Result<u64> {
        std::thread::sleep(PAUSE);
        let (before, begin) = (self.packets(), Instant::now());
        self.hands.plug(&self.device).map_err(|why| failed(&why))?;
        until("the guest sends by the NIC", || self.packets() > before)?;
        Ok(begin.elapsed().as_nanos() as u64)
    }

    fn unplug(&mut self) -> Result<u64> {
        std::thread::sleep(PAUSE);
        let (begin, vf) = (Instant::now(), self.device.vf.clone());
        self.hands.unplug(&vf).map_err(|why| failed(&why))?;
        let gone = SaidByVm::Deleted(vf);
        until("the NIC is gone", || self.hands.hear().contains(&gone))?;
        Ok(begin.elapsed().as_nanos() as u64)
    }
}

fn failed(why: &str) -> BenchError {
    BenchError::Inside(format!("the floor of a move: {why}"))
}

fn until(what: &str, mut is: impl FnMut() -> bool) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !is() {
        if Instant::now() >= end {
            return Err(failed(&format!("{what}: it did not come to pass in {PATIENCE:?}")));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
