//! On the host: what network VFs need, if the manager lends them (docs/nics.md).

use super::check::Check;
use crate::cmd::nics::ask::Allocator;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use vfun_admin::Status;
use vfun_nicd::iptables;
use vfun_nicd::netdev::Netdev;
use vfun_nicd::providers::LOAD_VFIO;
use vfun_nics::declared::Source;
use vfun_nics::view::{PoolView, VfView, View, VmView};

/// Capabilities that `vfun-nics` needs, with their numbers and what they are for.
const NEEDED: [(&str, u32, &str); 2] = [
    ("net_admin", 12, "sets MAC addresses, VLANs and rates of VFs"),
    ("dac_override", 1, "opens the VMs' QMP sockets"),
];
const DROP_IN: &str = "docs/nics.md says how to give vfund both: the drop-in vfund-nics.conf for its unit; or start vfund as root";
const SWITCH_IOMMU_ON: &str =
    "switch it on in the firmware (VT-d, AMD-Vi) and boot with intel_iommu=on; AMD needs no option";
/// Cards on which a tap of the same card's bridge gets no packets once VFs are on.
const NOT_ON_THE_SAME_CARD: [&str; 1] = ["igb"];

/// Looks, if the manager lends network VFs or pools are declared.
pub fn look(status: &Status) -> Vec<Check> {
    if !status.nics {
        let declared = status.root.join("nics/declared.json").exists();
        let found = "pools or VMs were declared, and vfund runs without --nics: no VF is lent";
        let check = declared.then(|| Check::note("network VFs", found));
        let mend = "start vfund with --nics; or remove the folder nics in its root";
        return check.map(|c| c.mend(mend)).into_iter().collect();
    }
    let mut checks = vec![];
    match Allocator::at(&status.root).view() {
        Ok(view) => {
            checks.push(summary(&view));
            checks.extend(
                view.manifest_troubles
                    .iter()
                    .map(|t| Check::missing(&format!("VM {}", t.vm), t.why.clone())),
            );
            checks.extend(of_view(&view, Path::new("/sys"), Path::new("/proc")));
        }
        Err(e) => {
            let mend = e.advice.unwrap_or_else(|| "see the manager's log".into());
            checks.push(Check::missing("network VFs", e.what).mend(mend));
        }
    }
    checks.extend(capabilities(Path::new("/proc"), status.pid));
    checks
}

fn summary(view: &View) -> Check {
    let waiting = view.vms.iter().filter(|vm| vm.waits).count();
    let (pools, vms) = (view.pools.len(), view.vms.len());
    let found =
        format!("vfun-nics answers: pools {pools}, VMs {vms}, of which {waiting} wait for a VF");
    match (pools, vms) {
        (0, _) => Check::note("network VFs", found).mend("declare a pool: vfun nics pool add"),
        (_, 0) => Check::note("network VFs", found).mend("declare VMs: vfun nics add"),
        _ => Check::ok("network VFs", found),
    }
}

fn of_view(view: &View, sys: &Path, proc: &Path) -> Vec<Check> {
    let cards: Vec<(&PoolView, Netdev)> = view
        .pools
        .iter()
        .filter_map(|pool| match &pool.declared.as_ref()?.source {
            Source::Sriov { pf } => Some((pool, Netdev::new(sys, pf))),
            Source::Emulated { .. } | Source::VhostUser { .. } => None,
        })
        .collect();
    let mut checks = vec![];
    if !cards.is_empty() {
        checks.extend([vfio(sys), iommu(sys)]);
    }
    for (pool, pf) in &cards {
        checks.push(card(pool, pf));
        let vms = view.vms.iter().filter(|vm| vm.pool == pool.name);
        checks.extend(uplinks(vms, pf, sys));
    }
    checks.extend(view.pools.iter().filter_map(switch));
    checks.extend(view.pools.iter().flat_map(|pool| troubles(&pool.vfs)));
    let of_switches = |vm: &&VmView| {
        let pool = view.pools.iter().find(|pool| pool.name == vm.pool);
        pool.is_some_and(|pool| folder_of_switch(pool).is_some())
    };
    checks.extend(filters(view.vms.iter().filter(|vm| !of_switches(vm)), sys, proc));
    checks
}

/// The folder with the sockets of the Open vSwitch whose ports a pool has.
fn folder_of_switch(pool: &PoolView) -> Option<&Path> {
    match &pool.declared.as_ref()?.source {
        Source::VhostUser { switch, .. } => Some(switch),
        _ => None,
    }
}

/// Whether the Open vSwitch of a pool runs. What it lacks is a trouble of each VF.
fn switch(pool: &PoolView) -> Option<Check> {
    let folder = folder_of_switch(pool)?;
    let (name, at) = (format!("pool {}", pool.name), folder.display());
    Some(match folder.join("db.sock").exists() {
        true => Check::ok(&name, format!("Open vSwitch has its sockets in {at}")),
        false => Check::missing(&name, format!("no Open vSwitch has its sockets in {at}"))
            .mend("start it: systemctl start openvswitch-switch; or make the pool with --switch and the folder that has its db.sock"),
    })
}

fn vfio(sys: &Path) -> Check {
    match sys.join("bus/pci/drivers/vfio-pci").is_dir() {
        true => Check::ok("vfio-pci", "the driver is loaded"),
        false => Check::missing(
            "vfio-pci",
            "the driver is not loaded: no VF of a card can be given to a VM",
        )
        .mend(LOAD_VFIO),
    }
}

fn iommu(sys: &Path) -> Check {
    let groups = fs::read_dir(sys.join("kernel/iommu_groups")).map_or(0, Iterator::count);
    match groups {
        0 => Check::missing("IOMMU", "off: no device can be given to a VM").mend(SWITCH_IOMMU_ON),
        n => Check::ok("IOMMU", format!("on, {n} groups")),
    }
}

/// Whether a card has VFs.
fn card(pool: &PoolView, pf: &Netdev) -> Check {
    let (name, pf_name) = (format!("pool {}", pool.name), pf.name());
    if !pf.is_there() {
        return Check::missing(&name, format!("there is no interface {pf_name}"))
            .mend("see whether its driver is loaded and whether it was renamed: ip link");
    }
    let file = pf.folder().join("device/sriov_numvfs");
    let most = pf.read("device/sriov_totalvfs").unwrap_or_else(|| "?".into());
    match pf.read("device/sriov_numvfs").as_deref() {
        None => Check::missing(&name, format!("{pf_name} has no virtual functions at all"))
            .mend("it needs a card with SR-IOV, and SR-IOV switched on in the firmware"),
        Some("0") => Check::missing(&name, format!("{pf_name} has no VFs now, of {most} possible"))
            .mend(format!("make them, at each boot: echo N > {}", file.display())),
        Some(n) => Check::ok(&name, format!("{pf_name} has {n} VFs of {most} possible")),
    }
}

/// Bridges of VMs whose way out is the card of their own VFs.
fn uplinks<'a>(vms: impl Iterator<Item = &'a VmView>, pf: &Netdev, sys: &Path) -> Vec<Check> {
    let bridges: BTreeSet<&str> = vms.map(|vm| vm.declared.bridge.as_str()).collect();
    let mut checks = vec![];
    for bridge in bridges {
        let ports = Netdev::new(sys, bridge).ports();
        let Some(port) = ports.iter().find(|port| Netdev::new(sys, port).stands_on(pf.name()))
        else {
            continue;
        };
        let driver = pf.driver().unwrap_or_else(|| "unknown".into());
        let name = format!("bridge {bridge}");
        let found = format!(
            "its port {port} is the card {} (driver {driver}), which also has the VFs",
            pf.name()
        );
        let mend = "give the bridge another card as its way out; or try whether a VM without a VF gets packets";
        checks.push(
            match NOT_ON_THE_SAME_CARD.contains(&driver.as_str()) {
                true => Check::missing(
                    &name,
                    format!(
                        "{found}: with this driver VMs get no packets by their paravirtual NICs"
                    ),
                ),
                false => Check::note(&name, format!("{found}: not every card can do that")),
            }
            .mend(mend),
        );
    }
    checks
}

/// VFs with which something is wrong. What is wrong with many of them is said once.
fn troubles(vfs: &[VfView]) -> Vec<Check> {
    let mut by_trouble: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for vf in vfs {
        if let Some(trouble) = &vf.trouble {
            by_trouble.entry(trouble).or_default().push(&vf.vf);
        }
    }
    let check = |(trouble, vfs): (&str, Vec<&str>)| {
        let found = match vfs.len() - 1 {
            0 => trouble.to_owned(),
            n => format!("{trouble} (so it is with {n} more)"),
        };
        Check::note(&format!("VF {}", vfs[0]), found).mend("vfun nics list shows each VF")
    };
    by_trouble.into_iter().map(check).collect()
}

/// Bridges whose packets pass iptables, which a VF would pass by.
fn filters<'a>(vms: impl Iterator<Item = &'a VmView>, sys: &Path, proc: &Path) -> Vec<Check> {
    let mut found: BTreeMap<String, bool> = BTreeMap::new();
    for vm in vms {
        for sentence in iptables(&vm.declared.bridge, sys, proc) {
            *found.entry(sentence).or_default() |= !vm.declared.bypass_filters;
        }
    }
    let check = |(sentence, hinders): (String, bool)| {
        let name = "iptables on bridges";
        match hinders {
            true => Check::missing(name, sentence)
                .mend("until then VMs that were added without --bypass-filters get no VF"),
            false => Check::note(name, sentence),
        }
    };
    found.into_iter().map(check).collect()
}

/// What `vfun-nics`, which the manager started, may do.
fn capabilities(proc: &Path, manager: u32) -> Option<Check> {
    let of_manager = proc.join(manager.to_string());
    let children = of_manager.join(format!("task/{manager}/children"));
    let children = fs::read_to_string(children).ok()?;
    let runs_nics = |pid: &&str| {
        fs::read_to_string(proc.join(pid).join("comm")).is_ok_and(|c| c.trim() == "vfun-nics")
    };
    let pid = children.split_whitespace().find(runs_nics)?;
    let status = fs::read_to_string(proc.join(pid).join("status")).ok()?;
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(effective.trim(), 16).ok()?;
    let lacks: Vec<String> = NEEDED
        .iter()
        .filter(|(_, bit, _)| effective & (1 << bit) == 0)
        .map(|(name, _, what)| format!("{name} (it {what})"))
        .collect();
    Some(match lacks.is_empty() {
        true => Check::ok("vfun-nics", format!("process {pid} has the capabilities that it needs")),
        false => Check::missing("vfun-nics", format!("process {pid} lacks {}", lacks.join(", ")))
            .mend(DROP_IN),
    })
}

#[cfg(test)]
mod tests {
    use super::super::check::{self, State};
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use vfun_admin::VmName;
    use vfun_nics::declared::{Hypervisor, Pool, Rule, Vm};

    /// A host with a card `eth2` that has VFs, and a bridge `br0` with another card.
    struct Trees(tempfile::TempDir);

    impl Trees {
        fn new() -> Self {
            let trees = Trees(tempfile::tempdir().unwrap());
            for folder in [
                "bus/pci/drivers/vfio-pci",
                "kernel/iommu_groups/7",
                "class/net/eth2/device",
                "class/net/eth3",
                "class/net/br0/brif/eth3",
            ] {
                fs::create_dir_all(trees.sys().join(folder)).unwrap();
            }
            trees.write("sys/class/net/eth2/device/sriov_numvfs", "2");
            trees.write("sys/class/net/eth2/device/sriov_totalvfs", "7");
            symlink(
                "../../../bus/pci/drivers/igb",
                trees.sys().join("class/net/eth2/device/driver"),
            )
            .unwrap();
            trees
        }

        fn sys(&self) -> PathBuf {
            self.0.path().join("sys")
        }

        fn proc(&self) -> PathBuf {
            self.0.path().join("proc")
        }

        fn write(&self, file: &str, text: &str) {
            let file = self.0.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }

        fn found(&self, view: &View) -> Vec<Check> {
            of_view(view, &self.sys(), &self.proc())
        }

        /// What is not all right, as text.
        fn wrong(&self, view: &View) -> String {
            let mut checks = self.found(view);
            checks.retain(|c| c.state != State::Ok);
            check::render(&checks)
        }
    }

    fn view(bypass_filters: bool) -> View {
        let source = Source::Sriov { pf: "eth2".into() };
        let pool =
            PoolView { name: "cards".into(), declared: Some(Pool::new(source)), vfs: vec![] };
        let declared = Vm {
            pool: "cards".into(),
            hypervisor: Hypervisor::External,
            mac: "02:00:00:00:00:01".into(),
            bridge: "br0".into(),
            tap: "tap0".into(),
            bus: None,
            vlan: None,
            rate_mbit: None,
            rule: Rule::None,
            reserve_percent: 0,
            cap_percent: 100,
            bypass_filters,
        };
        let vm = VmView {
            vm: VmName::new("web", "web"),
            declared,
            pool: "cards".into(),
            hypervisor: String::new(),
            agent: String::new(),
            has_agent: true,
            trouble: None,
            path: None,
            packets_per_s: 0.0,
            paravirtual_us: None,
            vf_us: None,
            vf: None,
            vf_state: None,
            waits: true,
            why: vec![],
            change: vec![],
            abrupt: 0,
            moves: 0,
            failed: 0,
            back_off_ms: 0,
        };
        View { pools: vec![pool], vms: vec![vm], stray: vec![], manifest_troubles: vec![] }
    }

    #[test]
    fn a_host_that_has_all_is_all_right() {
        let trees = Trees::new();
        assert_eq!(trees.wrong(&view(false)), "");
        let found = check::render(&trees.found(&view(false)));
        assert!(
            found.contains("eth2 has 2 VFs of 7 possible") && found.contains("1 groups"),
            "{found}"
        );
    }

    #[test]
    fn what_a_card_lacks_is_said_with_the_cure() {
        let trees = Trees::new();
        fs::remove_dir(trees.sys().join("bus/pci/drivers/vfio-pci")).unwrap();
        fs::remove_dir(trees.sys().join("kernel/iommu_groups/7")).unwrap();
        trees.write("sys/class/net/eth2/device/sriov_numvfs", "0\n");
        let said = trees.wrong(&view(false));
        for word in ["modprobe vfio-pci", "intel_iommu=on", "echo N > ", "no VFs now, of 7"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        fs::remove_file(trees.sys().join("class/net/eth2/device/sriov_numvfs")).unwrap();
        assert!(trees.wrong(&view(false)).contains("no virtual functions at all"));
        fs::remove_dir_all(trees.sys().join("class/net/eth2")).unwrap();
        assert!(trees.wrong(&view(false)).contains("there is no interface eth2"));
        // Emulated VFs need none of that.
        let mut emulated = view(false);
        let pool = emulated.pools[0].declared.as_mut().unwrap();
        pool.source = Source::Emulated { vfs: 1, model: "igb".into() };
        assert_eq!(trees.wrong(&emulated), "");
    }

    #[test]
    fn an_open_vswitch_that_does_not_run_is_said() {
        let trees = Trees::new();
        let folder = trees.0.path().join("switch");
        let mut fast = view(false);
        let pool = fast.pools[0].declared.as_mut().unwrap();
        pool.source = Source::VhostUser { vfs: 1, switch: folder };
        // What iptables do does not concern its bridges.
        trees.write("proc/sys/net/bridge/bridge-nf-call-iptables", "1\n");
        let said = trees.wrong(&fast);
        assert!(said.starts_with("MISSING  pool cards") && said.lines().count() == 2, "{said}");
        trees.write("switch/db.sock", "");
        assert_eq!(trees.wrong(&fast), "");
    }

    #[test]
    fn a_bridge_on_the_card_of_the_pool_is_said() {
        let trees = Trees::new();
        symlink("../eth2", trees.sys().join("class/net/eth3/lower_eth2")).unwrap();
        let said = trees.wrong(&view(false));
        assert!(said.starts_with("MISSING  bridge br0  its port eth3 is the card eth2"), "{said}");
        let driver = trees.sys().join("class/net/eth2/device/driver");
        fs::remove_file(&driver).unwrap();
        symlink("../../../bus/pci/drivers/ice", &driver).unwrap();
        let said = trees.wrong(&view(false));
        assert!(said.starts_with("note     bridge br0") && said.contains("driver ice"), "{said}");
    }

    #[test]
    fn iptables_on_bridges_hinders_only_vms_that_heed_it() {
        let trees = Trees::new();
        trees.write("proc/sys/net/bridge/bridge-nf-call-iptables", "1\n");
        assert!(trees.wrong(&view(false)).starts_with("MISSING  iptables on bridges"));
        assert!(trees.wrong(&view(true)).starts_with("note     iptables on bridges"));
    }

    #[test]
    fn what_is_wrong_with_many_vfs_is_said_once() {
        let vf = |vf: &str, trouble: Option<&str>| VfView {
            vf: vf.into(),
            state: "free".into(),
            trouble: trouble.map(str::to_owned),
            ..VfView::default()
        };
        let all = [vf("a", Some("shared")), vf("b", None), vf("c", Some("shared"))];
        let said = check::render(&troubles(&all));
        assert_eq!(said.lines().count(), 2, "{said}");
        assert!(said.contains("VF a") && said.contains("with 1 more"), "{said}");
    }

    #[test]
    fn a_capability_that_is_not_there_is_named() {
        let trees = Trees::new();
        let proc = trees.proc();
        assert!(capabilities(&proc, 10).is_none(), "who may not look says nothing");
        trees.write("proc/10/task/10/children", "11 12 ");
        trees.write("proc/11/comm", "vfun-keeper\n");
        trees.write("proc/12/comm", "vfun-nics\n");
        trees.write("proc/12/status", "Name:\tvfun-nics\nCapEff:\t0000000000001002\n");
        assert_eq!(capabilities(&proc, 10).unwrap().state, State::Ok);
        trees.write("proc/12/status", "Name:\tvfun-nics\nCapEff:\t0000000000000002\n");
        let check = capabilities(&proc, 10).unwrap();
        assert!(check.state == State::Missing && check.found.contains("lacks net_admin"));
        assert!(!check.found.contains("dac_override"), "{}", check.found);
    }
}
