//! testpmd of DPDK in a guest, with the driver of ports, as Debian's packages have it.

use crate::module::{load, module_config, ok};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vfun_testguest::{Doorbell, Guest, GuestConfig};
use vfun_tests_local::programs;

/// Where Debian's DPDK has its drivers, on the host and in the guest.
pub const DRIVERS: &str = "/usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0";
const PROGRAM: &str = "/usr/bin/dpdk-testpmd";
/// Between two looks at what it says.
const LOOK: Duration = Duration::from_millis(100);
/// What the guest's testpmd says.
const LOG: &str = "/tmp/testpmd";

/// The driver of ports for DPDK, where tests/ports.sh says so.
pub fn driver() -> Option<PathBuf> {
    std::env::var_os("VFUN_DPDK_DRIVER").map(PathBuf::from)
}

/// A guest's configuration with testpmd along, and these drivers of Debian's.
pub fn config(name: &str, doorbells: Vec<Doorbell>, drivers: &[&str]) -> GuestConfig {
    let mut c = module_config(name, doorbells);
    c.memory_mib = 768;
    c.files.push((PROGRAM.into(), PROGRAM.into()));
    for name in ["librte_mempool_ring.so.23"].iter().chain(drivers) {
        let at = format!("{DRIVERS}/{name}");
        c.files.push((Path::new(&at).canonicalize().unwrap(), at));
    }
    let of_ours = driver().expect("asked for");
    c.files.push((of_ours, "/usr/local/lib/librte_net_vfun.so".into()));
    let library = "libvfun.so.0";
    c.files.push((programs().join(library), format!("/lib/x86_64-linux-gnu/{library}")));
    c
}

/// Loads the module, and leaves interfaces down.
pub fn prepare(guest: &Guest) {
    load(guest);
    // DPDK loads nothing from below a folder that everybody may write to.
    ok(guest, "chmod go-w / /usr /usr/* /usr/local/lib /usr/lib/* /usr/lib/x86_64-linux-gnu/*");
    ok(
        guest,
        "for i in $(seq 600); do [ -e /sys/class/net/eth1 ] && exit 0; usleep 50000; done; exit 1",
    );
}

/// Starts testpmd with these words for DPDK, and those for itself; it runs on.
pub fn start(guest: &Guest, dpdk: &str, own: &str) {
    let line = format!(
        "{PROGRAM} -l 0,1 -m 128 --no-telemetry -d {DRIVERS}/librte_mempool_ring.so.23 \
         {dpdk} -- --total-num-mbufs=4096 --mbcache=256 --burst=32 --stats-period=1 {own}"
    );
    // It ends with its standard input.
    ok(
        guest,
        &format!(
            "mkdir -p /run; : >{LOG}; ((sleep 100000 | {line} >{LOG} 2>&1) >/dev/null 2>&1 </dev/null &)"
        ),
    );
}

/// A VM's own port, as testpmd's device.
pub fn own_port(more: &str) -> String {
    format!("--no-huge --no-pci -d /usr/local/lib/librte_net_vfun.so --vdev net_vfun0{more}")
}

/// A card of PCI that is bound to a driver for user space, likewise. With its memory in huge
/// pages: the card is told physical addresses.
pub fn card(at: &str) -> String {
    let drivers = ["bus_pci", "net_virtio"].map(|d| format!("-d {DRIVERS}/librte_{d}.so.23"));
    format!("{} -a {at}", drivers.join(" "))
}

/// What it has said.
pub fn said(guest: &Guest) -> String {
    ok(guest, &format!("cat {LOG}"))
}

/// Waits until it has said this.
pub fn says(guest: &Guest, words: &str) {
    let known = || said(guest).contains(words);
    if !(0..200).any(|_| {
        known() || {
            std::thread::sleep(LOOK);
            false
        }
    }) {
        panic!("testpmd does not say '{words}', but: {}", said(guest));
    }
}

/// Frames that it has sent by one of its devices, and received, as it said last.
pub fn counted(guest: &Guest, port: u32) -> (u64, u64) {
    let of = format!("NIC statistics for port {port} ");
    let text = ok(guest, &format!("grep -A 4 '{of}' {LOG} | tail -n 4"));
    let number = |name: &str| {
        let rest = &text[text.find(name).unwrap_or_else(|| panic!("{text}")) + name.len()..];
        rest.split_whitespace()
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or_else(|| panic!("{text}"))
    };
    (number("TX-packets:"), number("RX-packets:"))
}

/// Ends it.
pub fn end(guest: &Guest, signal: &str) {
    ok(
        guest,
        &format!(
            "killall -{signal} dpdk-testpmd; for i in $(seq 400); do \
             pidof dpdk-testpmd >/dev/null || break; usleep 50000; done; killall sleep; true"
        ),
    );
}
