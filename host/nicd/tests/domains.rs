//! Domains of libvirt, by a virsh that the test plays.

use crate::stand::{Stand, vm, write};
use vfun_nicd::ask::Ask;
use vfun_nics::declared::{Hypervisor, Rule};

/// A domain `dom` whose devices are files, as long as there is a file `state`. With the file
/// `fails` an attach loses its connection.
const VIRSH: &str = r#"
echo "$*" >> @DIR@/virsh-calls
[ ! -e @DIR@/libvirt-down ] || { echo "error: failed to connect to the hypervisor" >&2; exit 1; }
case "$2" in
    domstate) if [ -e @DIR@/state ]; then cat @DIR@/state
        else echo "error: failed to get domain '$4'" >&2; exit 1; fi ;;
    list) [ ! -e @DIR@/state ] || echo "c7a5fdbd-edaf-9455-926a-d65c16db1809 dom"
        echo "6695eb01-f6a4-8304-79aa-97f2502e193f other" ;;
    dumpxml) for f in @DIR@/dom/*; do [ -e "$f" ] && cat "$f"; done; true ;;
    attach-device) xml=$(cat); id=$(echo "$xml" | sed "s/.*alias name='\([^']*\)'.*/\1/")
        if [ -e @DIR@/fails ]; then echo "error: End of file while reading data" >&2; exit 1; fi
        echo "$xml" > "@DIR@/dom/$id" ;;
    detach-device-alias) if [ -e "@DIR@/dom/$6" ]; then rm "@DIR@/dom/$6"
        else echo "error: device not found: no device found with alias $6" >&2; exit 1; fi ;;
esac
"#;

fn stand() -> Stand {
    let mut stand = Stand::new(2);
    stand.host.program("virsh", VIRSH);
    write(&stand.host.file("state"), "running\n");
    std::fs::create_dir(stand.host.file("dom")).unwrap();
    stand.start();
    stand.pool(1);
    let mut declared = stand.declared(0);
    declared.hypervisor = Hypervisor::Libvirt { domain: "dom".into() };
    stand.must(&Ask::AddVm { name: vm(0), vm: declared });
    stand.add(1);
    stand
}

fn plugged(stand: &Stand) -> usize {
    std::fs::read_dir(stand.host.file("dom")).unwrap().count()
}

fn state(stand: &Stand) -> String {
    stand.try_view().unwrap().pools[0].vfs[0].state.clone()
}

#[test]
fn a_domain_gets_a_vf_and_gives_it_back() {
    let mut stand = stand();
    stand.rule(0, Rule::Pinned);
    stand.until("it is plugged in", |s| plugged(s) == 1);
    stand.rule(0, Rule::Banned);
    stand.rule(1, Rule::Pinned);
    stand.until("it is taken out", |s| plugged(s) == 0);
    stand.until("vm1 holds it", |s| s.holds(1));
}

#[test]
fn while_libvirt_is_down_nobody_else_gets_its_vf() {
    let mut stand = stand();
    stand.rule(0, Rule::Pinned);
    stand.until("it is plugged in", |s| plugged(s) == 1);
    stand.kill();
    write(&stand.host.file("libvirt-down"), "");
    stand.start();
    stand.rule(1, Rule::Pinned);
    stand.until("its word is missed", |s| {
        let view = s.try_view().unwrap();
        view.vms.iter().any(|r| r.vm == vm(0) && r.hypervisor.contains("failed to connect"))
    });
    assert_eq!(state(&stand), "unknown");
    assert!(stand.qemus[1].devices().is_empty());
    // It ends: the VF is free.
    write(&stand.host.file("state"), "shut off\n");
    std::fs::remove_dir_all(stand.host.file("dom")).unwrap();
    std::fs::remove_file(stand.host.file("libvirt-down")).unwrap();
    stand.until("vm1 holds it", |s| s.holds(1));
}

#[test]
fn a_domain_that_libvirt_no_longer_knows_has_ended() {
    let mut stand = stand();
    stand.rule(0, Rule::Pinned);
    stand.until("it is plugged in", |s| plugged(s) == 1);
    // A transient domain is gone once it has ended.
    std::fs::remove_dir_all(stand.host.file("dom")).unwrap();
    std::fs::remove_file(stand.host.file("state")).unwrap();
    stand.rule(1, Rule::Pinned);
    stand.until("vm1 holds it", |s| s.holds(1));
}

#[test]
fn a_plug_that_may_still_be_under_way_counts_as_one() {
    let mut stand = stand();
    write(&stand.host.file("fails"), "");
    stand.rule(0, Rule::Pinned);
    let calls = |s: &Stand| std::fs::read_to_string(s.host.file("virsh-calls")).unwrap();
    stand.until("it is tried", |s| calls(s).contains("attach-device"));
    stand.rule(0, Rule::Banned);
    stand.rule(1, Rule::Pinned);
    // libvirt is asked again and again, and does not have it; that says nothing yet.
    let looks = calls(&stand).matches("dumpxml").count();
    stand.until("libvirt was looked at", |s| calls(s).matches("dumpxml").count() > looks + 3);
    assert_ne!(state(&stand), "free");
    assert!(stand.qemus[1].devices().is_empty(), "{}", stand.log());
    // A minute later it is certain, and another VM gets it.
    if std::env::var_os("VFUN_TESTS").is_some_and(|length| length == "full") {
        stand.until("vm1 holds it", |s| s.holds(1));
    }
}
