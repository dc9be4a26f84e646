//! VFs that are ports of an Open vSwitch, which is a script here.

use crate::stand::{Stand, mac, write};
use std::path::PathBuf;
use vfun_nicd::ask::Ask;
use vfun_nics::declared::{Pool, Rule, Source};

/// Keeps ports as files; a file has the VF that it is marked with.
const VSCTL: &str = r#"
ports=@DIR@/ports
words="$*"
echo "$words" >> @DIR@/ovs-calls
rows() { printf '{"headings":[%s],"data":[%s]}\n' "$1" "$2"; }
case "$words" in
    *" list Open_vSwitch") rows '"iface_types"' '[["set",["tap","dpdkvhostuserclient"]]]' ;;
    *"=name,datapath_type list Bridge") rows '"name","datapath_type"' '["br0","netdev"]' ;;
    *" list Bridge") rows '"name","ports"' '["br0",["set",[["uuid","u0"],["uuid","u1"]]]]' ;;
    *"=name,external_ids list Port")
        for p in "$ports"/*; do
            [ -e "$p" ] && all="${all-}${all+,}[\"${p##*/}\",[\"map\",[[\"vfun-nics\",\"$(cat "$p")\"]]]]"
        done
        rows '"name","external_ids"' "${all-}" ;;
    *" list Port") rows '"_uuid","name"' '[["uuid","u0"],"pv0"],[["uuid","u1"],"pv1"]' ;;
    *"=ofport list Interface vt-"*) rows '"ofport"' '[7]' ;;
    *" list Interface vt-"*) rows '"error"' "$(cat @DIR@/ovs-error 2>/dev/null || echo '[["set",[]]]')" ;;
    *" list Interface") rows '"name","ingress_policing_rate"' '' ;;
    *" list Mirror") rows '"select_src_port","select_dst_port"' '' ;;
    *" add-port br0 "*) name=${words#* add-port br0 }; name=${name%% *}
        mark=${words#*vfun-nics=?}; printf %s "${mark%%?\ *}" > "$ports/$name" ;;
    *" del-port "*) rm "$ports/${words##* }" ;;
    *) echo "not known: $words" >&2; exit 1 ;;
esac
"#;

/// With VMs that run, a pool `p` of ports and the VMs declared.
fn stand(vms: usize) -> Stand {
    let mut stand = Stand::new(vms);
    write(&stand.host.file("switch/db.sock"), "");
    std::fs::create_dir_all(ports(&stand)).unwrap();
    stand.host.program("ovs-vsctl", VSCTL);
    stand.host.program("ovs-ofctl", "true");
    write(&stand.host.file("switch/ovs-vswitchd.pid"), "4711\n");
    // The port of VM 0, if it knows one.
    stand.host.program("ovs-appctl", "echo \"$*\" >> @DIR@/ovs-asked; cat @DIR@/ovs-fdb; true");
    stand.start();
    let mut pool = Pool::new(Source::VhostUser { vfs: 1, switch: stand.host.file("switch") });
    (pool.interval_ms, pool.tenure_ms) = (1000, 1000);
    pool.policy = vfun_leases::Policy::None;
    stand.must(&Ask::AddPool { name: "p".into(), pool });
    (0..vms).for_each(|n| stand.add(n));
    stand
}

fn ports(stand: &Stand) -> PathBuf {
    stand.host.file("ports")
}

fn port(stand: &Stand) -> PathBuf {
    ports(stand).join("vt-p-0")
}

/// What is wrong with the VF, or with the VM.
fn troubles(stand: &mut Stand) -> String {
    let view = stand.try_view().unwrap();
    let vf = view.pools[0].vfs.first().and_then(|vf| vf.trouble.clone());
    format!("{vf:?} {:?}", view.vms[0].why)
}

#[test]
fn a_port_is_made_for_each_owner_and_taken_away() {
    let mut stand = stand(2);
    stand.qemus.iter().for_each(|q| q.share(true));
    for (from, to) in [(1, 0), (0, 1)] {
        stand.rule(from, Rule::None);
        stand.rule(to, Rule::Pinned);
        stand.until("it holds the VF", |s| s.holds(to));
        assert_eq!((stand.qemus[to].netdevs(), stand.qemus[to].chardevs()), (1, 1));
        assert_eq!((stand.qemus[from].netdevs(), stand.qemus[from].chardevs()), (0, 0));
        assert_eq!(std::fs::read_to_string(port(&stand)).unwrap(), "p-0");
    }
    let folder = stand.root().join("vhost/vt-p-0");
    assert!(folder.exists());
    let socket = folder.join("socket");
    let calls = std::fs::read_to_string(stand.host.file("ovs-calls")).unwrap();
    assert!(calls.contains(&format!("vhost-server-path=\"{}\"", socket.display())), "{calls}");
    stand.rule(1, Rule::None);
    stand.until("the port is gone", |s| !port(s).exists());
    stand.until("nothing is left", |s| !folder.exists() && s.qemus[1].chardevs() == 0);
    stand.check_owners();
}

#[test]
fn a_vm_keeps_its_port_until_the_switch_sends_elsewhere() {
    let mut stand = stand(1);
    stand.qemus[0].share(true);
    stand.rule(0, Rule::Pinned);
    stand.until("it holds the VF", |s| s.holds(0));
    let mac = mac(0);
    let knows = |s: &Stand, port| {
        write(&s.host.file("ovs-fdb"), &format!(" port VLAN MAC Age\n {port} 0 {mac} 1\n"));
    };
    knows(&stand, 7);
    stand.rule(0, Rule::None);
    let asked = |s: &Stand| std::fs::read_to_string(s.host.file("ovs-asked")).unwrap_or_default();
    stand.until("it was asked again", |s| asked(s).lines().count() >= 3);
    let calls = asked(&stand);
    assert!(calls.contains("ovs-vswitchd.4711.ctl fdb/show br0"), "{calls}");
    assert!(port(&stand).exists() && stand.qemus[0].devices().len() == 1);
    knows(&stand, 1);
    stand.until("the port is gone", |s| !port(s).exists());
}

#[test]
fn a_switch_that_does_not_learn_keeps_no_vf_in_its_vm() {
    let mut stand = stand(1);
    stand.qemus[0].share(true);
    stand.rule(0, Rule::Pinned);
    stand.until("it holds the VF", |s| s.holds(0));
    stand.host.program("ovs-appctl", "echo no such bridge >&2; exit 1");
    stand.rule(0, Rule::None);
    stand.until("the port is gone", |s| !port(s).exists());
}

#[test]
fn a_vm_whose_memory_is_its_own_is_told_what_to_do() {
    let mut stand = stand(1);
    stand.rule(0, Rule::Pinned);
    stand.until("it is said", |s| troubles(s).contains("share=on"));
    stand.until("the port is gone", |s| !port(s).exists());
    let qemu = &stand.qemus[0];
    assert_eq!((qemu.devices().len(), qemu.netdevs(), qemu.chardevs()), (0, 0, 0));
}

#[test]
fn a_port_of_another_program_is_left_alone() {
    let mut stand = stand(1);
    write(&port(&stand), "others");
    stand.rule(0, Rule::Pinned);
    stand.until("it is said", |s| troubles(s).contains("another program made the port vt-p-0"));
    assert_eq!(std::fs::read_to_string(port(&stand)).unwrap(), "others");
}

#[test]
fn a_port_that_the_switch_cannot_make_is_taken_away_and_the_reason_is_said() {
    let mut stand = stand(1);
    stand.qemus[0].share(true);
    write(&stand.host.file("ovs-error"), "[\"no memory for it\"]");
    stand.rule(0, Rule::Pinned);
    stand.until("it is said", |s| troubles(s).contains("no memory for it"));
    stand.until("the port is gone", |s| !port(s).exists());
}
