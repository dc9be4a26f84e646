//! VMs that compete for VFs and are domains of libvirt, on the kernel's bridge.

use crate::cli::json;
use crate::flow::Way;
use crate::holder::Holder;
use crate::libvirt::{Domain, Libvirtd};
use crate::nics::{More, Net, Vm, all_at_once, guest_config, mac};
use std::time::Duration;
use vfun_tests_local::Stand;

impl Vm<Domain> {
    /// Boots domains, one for each way, at once.
    pub fn start_domains(
        stand: &Stand,
        libvirtd: &Libvirtd,
        ways: &[Way],
        every: Duration,
    ) -> Vec<Vm<Domain>> {
        all_at_once(ways, |n, way| {
            let config = guest_config(stand, n, Net::Bridge, vec![], More::default());
            let guest = libvirtd.boot(&config, &devices(stand, n, ""));
            let plugs = ["--libvirt", &config.name].map(String::from).into();
            Vm::begin(guest, n, (Net::Bridge, Holder::Bond), way, every, plugs)
        })
    }

    /// Boots a domain whose paravirtual NIC waits for a VF (`<teaming>`): its kernel changes
    /// between the two by itself.
    pub fn start_domain_that_teams(
        stand: &Stand,
        libvirtd: &Libvirtd,
        n: u8,
        every: Duration,
    ) -> Vm<Domain> {
        let more = More { modules: vec!["net_failover"], ..More::default() };
        let config = guest_config(stand, n, Net::Bridge, vec![], more);
        let teaming = format!("<teaming type='persistent'/><alias name='{TEAMS}'/>");
        let guest = libvirtd.boot(&config, &devices(stand, n, &teaming));
        let plugs = ["--libvirt", &config.name].map(String::from).into();
        let of = (Net::Bridge, Holder::Failover);
        Vm::begin(guest, n, of, Way::Answered, every, plugs)
    }
}

/// What a paravirtual NIC that waits for a VF is called.
pub const TEAMS: &str = "ua-paravirtual";

/// Its window, as `vfun client add` prints it, and its paravirtual NIC with these lines more.
fn devices(stand: &Stand, n: u8, more: &str) -> String {
    let name = format!("vm{n}");
    let words = ["client", "add", &name, "--window", "16MiB", "--transport", "ivshmem-doorbell"];
    let client = json(stand, &words);
    let window = client["libvirt"].as_str().expect("a window");
    format!(
        "{window}<interface type='ethernet'><mac address='{}'/><target dev='pv{n}' managed='no'/>\
         <model type='virtio'/><rom enabled='no'/>{more}</interface>",
        mac(n)
    )
}
