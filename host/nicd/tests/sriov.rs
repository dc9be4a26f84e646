//! The VFs of a card, in a tree of devices that the test makes.

use crate::stand::{Stand, write};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use vfun_nicd::ask::Ask;
use vfun_nics::declared::{Pool, Rule, Source};

/// As if the program had bound this VF.
fn mark(stand: &Stand, address: &str) -> PathBuf {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let mark = stand.root().join("nics/bound").join(address);
    write(&mark, &boot);
    mark
}

/// A card `eth2`.
struct Card<'a>(&'a Stand);

impl Card<'_> {
    fn sys(&self) -> PathBuf {
        self.0.host.sys()
    }

    /// One more VF; its folder.
    fn vf(&self, number: u16, driver: Option<&str>) -> PathBuf {
        let address = format!("0000:01:10.{number}");
        let folder = self.sys().join("bus/pci/devices").join(&address);
        write(&folder.join("reset"), "");
        write(&folder.join("driver_override"), "");
        let group = self.sys().join(format!("kernel/iommu_groups/{}", 20 + number));
        fs::create_dir_all(group.join("devices").join(&address)).unwrap();
        symlink(&group, folder.join("iommu_group")).unwrap();
        if let Some(driver) = driver {
            let drivers = self.sys().join("bus/pci/drivers").join(driver);
            fs::create_dir_all(&drivers).unwrap();
            symlink(drivers, folder.join("driver")).unwrap();
        }
        let device = self.sys().join("class/net/eth2/device");
        fs::create_dir_all(&device).unwrap();
        symlink(&folder, device.join(format!("virtfn{number}"))).unwrap();
        folder
    }

    /// The interface that a VF is on the host.
    fn interface(&self, folder: &std::path::Path, name: &str) -> PathBuf {
        fs::create_dir_all(folder.join("net").join(name)).unwrap();
        let shown = self.sys().join("class/net").join(name);
        fs::create_dir_all(&shown).unwrap();
        shown
    }
}

fn declare(stand: &Stand) {
    let mut pool = Pool::new(Source::Sriov { pf: "eth2".into() });
    pool.policy = vfun_leases::Policy::Fair;
    (pool.interval_ms, pool.tenure_ms) = (1000, 1000);
    stand.must(&Ask::AddPool { name: "p".into(), pool });
}

#[test]
fn a_vf_that_somebody_else_uses_is_given_to_nobody_and_it_is_said_why() {
    let mut stand = Stand::new(0);
    let card = Card(&stand);
    card.vf(0, None);
    card.vf(1, Some("vfio-pci"));
    card.vf(2, Some("mlx5_vfio_pci"));
    card.vf(3, Some("igbvf"));
    let addressed = card.vf(4, Some("igbvf"));
    card.interface(&addressed, "addressed");
    let in_bridge = card.vf(5, Some("igbvf"));
    fs::create_dir(card.interface(&in_bridge, "ported").join("upper_br0")).unwrap();
    let idle = card.vf(6, Some("igbvf"));
    card.interface(&idle, "idle");
    let neighbour = card.vf(7, None);
    fs::create_dir(neighbour.join("iommu_group/devices/0000:00:00.0")).unwrap();
    let addresses = r#"[{"addr_info": [{"local": "10.0.0.1", "scope": "global"}]}]"#;
    write(&stand.host.file("addresses-addressed"), addresses);
    let link = r#"[{"addr_info": [{"local": "fe80::1", "scope": "link"}]}]"#;
    write(&stand.host.file("addresses-idle"), link);
    stand.start();
    declare(&stand);
    stand.until("the VFs are there", |s| s.try_view().unwrap().pools[0].vfs.len() == 8);
    let expected = [
        None,
        Some("another program bound it"),
        Some("the driver mlx5_vfio_pci uses it"),
        Some("another network namespace"),
        Some("has an address"),
        Some("belongs to br0"),
        None,
        Some("shares its IOMMU group with 0000:00:00.0"),
    ];
    stand.until("they are free", |s| {
        s.try_view().unwrap().pools[0].vfs.iter().all(|vf| vf.state == "free")
    });
    let view = stand.try_view().unwrap();
    for (vf, expected) in view.pools[0].vfs.iter().zip(expected) {
        match (&vf.trouble, expected) {
            (None, None) => {}
            (Some(said), Some(part)) if said.contains(part) => {}
            other => panic!("{}: {other:?}", vf.vf),
        }
    }
}

#[test]
fn all_settings_of_a_vf_are_written_for_each_owner_and_taken_back() {
    let mut stand = Stand::new(2);
    let folder = Card(&stand).vf(0, Some("vfio-pci"));
    mark(&stand, "0000:01:10.0");
    stand.start();
    declare(&stand);
    let mut limited = stand.declared(0);
    limited.rate_mbit = Some(100);
    stand.must(&Ask::AddVm { name: crate::stand::vm(0), vm: limited });
    stand.add(1);
    stand.rule(0, Rule::Pinned);
    stand.until("vm0 holds it", |s| s.holds(0));
    assert_eq!(stand.qemus[0].devices(), ["vfun-vf-0000_c01_c10_d0"]);
    fs::write(folder.join("reset"), "").unwrap();
    let calls = |s: &Stand| fs::read_to_string(s.host.file("ip-calls")).unwrap();
    let before = calls(&stand).len();
    stand.rule(0, Rule::None);
    stand.rule(1, Rule::Pinned);
    stand.until("vm1 holds it", |s| s.holds(1));
    assert_eq!(fs::read_to_string(folder.join("reset")).unwrap(), "1");
    let all = calls(&stand);
    let settings: Vec<&str> = all[before..]
        .lines()
        .filter_map(|call| call.strip_prefix("link set dev eth2 vf 0 "))
        .collect();
    let reset = ["mac 00:00:00:00:00:00", "vlan 0", "max_tx_rate 0", "spoofchk on", "trust off"];
    let mac = format!("mac {}", crate::stand::mac(1));
    let prepare = ["spoofchk on", "trust off", "vlan 0", "max_tx_rate 0", &mac];
    assert_eq!(settings, [&reset[..], &prepare[..]].concat());
    assert!(all[..before].contains("max_tx_rate 100"));
    stand.check_owners();
}

#[test]
fn a_vf_that_another_driver_has_taken_is_not_reset_under_it() {
    let mut stand = Stand::new(1);
    let folder = Card(&stand).vf(0, Some("vfio-pci"));
    mark(&stand, "0000:01:10.0");
    stand.start();
    declare(&stand);
    stand.add(0);
    stand.rule(0, Rule::Pinned);
    stand.until("vm0 holds it", |s| s.holds(0));
    fs::write(folder.join("reset"), "").unwrap();
    fs::remove_file(folder.join("driver")).unwrap();
    symlink(stand.host.sys().join("bus/pci/drivers/mlx5_vfio_pci"), folder.join("driver")).unwrap();
    stand.rule(0, Rule::Banned);
    stand.until("it is said who has it", |s| {
        let vf = &s.try_view().unwrap().pools[0].vfs[0];
        let said = vf.trouble.as_deref().unwrap_or_default();
        s.qemus[0].devices().is_empty() && said.contains("the driver mlx5_vfio_pci uses it")
    });
    assert_eq!(fs::read_to_string(folder.join("reset")).unwrap(), "");
}

#[test]
fn a_vf_that_was_let_go_is_not_taken_for_the_programs_own_later() {
    let mut stand = Stand::new(0);
    Card(&stand).vf(0, Some("vfio-pci"));
    Card(&stand).vf(1, None);
    let marks = ["0000:01:10.0", "0000:01:10.1", "0000:01:10.7"].map(|a| mark(&stand, a));
    stand.start();
    declare(&stand);
    stand.until("the VFs are there", |s| s.try_view().unwrap().pools[0].vfs.len() == 2);
    assert_eq!(marks.map(|m| m.exists()), [true, false, false]);
}

#[test]
fn vfs_that_are_gone_are_given_to_nobody() {
    let mut stand = Stand::new(1);
    let folder = Card(&stand).vf(0, None);
    stand.start();
    declare(&stand);
    stand.until("it is there", |s| s.try_view().unwrap().pools[0].vfs.len() == 1);
    fs::remove_dir_all(stand.host.sys().join("class/net/eth2")).unwrap();
    stand.until("it is gone", |s| s.try_view().unwrap().pools[0].vfs.is_empty());
    drop(folder);
}

#[test]
fn where_vfio_is_not_loaded_it_is_said_how_to_load_it() {
    let mut stand = Stand::new(1);
    Card(&stand).vf(0, None);
    stand.start();
    declare(&stand);
    stand.add(0);
    stand.rule(0, Rule::Pinned);
    stand.until("it is said", |s| {
        let view = s.try_view().unwrap();
        serde_json::to_string(&view).unwrap().contains("and now: modprobe vfio-pci")
    });
    assert!(!stand.holds(0));
}
