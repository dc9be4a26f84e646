//! A VF goes from one domain of a real libvirt to another and back while packets come at an
//! even pace: `vfun-nics` plugs by `virsh`, and libvirt knows of the device.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use vfun_tests_local::Stand;
use vfun_tests_local::built::long;
use vfun_tests_vm::cli::{json, vfun};
use vfun_tests_vm::flow::Way;
use vfun_tests_vm::handover::{hand_over, no_packet_is_lost};
use vfun_tests_vm::libvirt::{Domain, Libvirtd, missing};
use vfun_tests_vm::netns::inside;
use vfun_tests_vm::nics::{Vm, model, network, until_free, until_holds};
use vfun_tests_vm::nics_domains::TEAMS;
use vfun_tests_vm::tally::Tally;

/// What the VMs' packets do: one answers, one says nothing, so that only its bond tells the
/// bridge where it is.
const WAYS: [Way; 2] = [Way::Answered, Way::ToVm];
/// Time between two packets of a VM.
const EVERY: Duration = Duration::from_millis(2);
/// What libvirt calls the device of the pool's only VF.
const ALIAS: &str = "<alias name='ua-vfun-vf-cards-0'/>";

/// How much later in a move libvirtd is killed, each time.
const LATER: Duration = Duration::from_millis(200);

/// Rounds of two hand-overs.
const ROUNDS: usize = 5;

/// Whether libvirt has the VF in a domain's description.
fn knows(libvirtd: &Libvirtd, vm: &Vm<Domain>) -> bool {
    libvirtd.must(&["dumpxml", &vm.guest.name]).contains(ALIAS)
}

/// libvirt knows that this domain has the VF, and that the other one has not.
fn only(libvirtd: &Libvirtd, vms: &[Vm<Domain>], holder: usize) {
    for (n, vm) in vms.iter().enumerate() {
        assert_eq!(knows(libvirtd, vm), n == holder, "the VF in {}", vm.guest.name);
    }
}

fn start(stand: &Stand, libvirtd: &Libvirtd) -> Vec<Vm<Domain>> {
    let vms = Vm::start_domains(stand, libvirtd, &WAYS, EVERY);
    json(stand, &["nics", "pool", "add", "cards", "--emulated", "1", "--model", &model()]);
    json(stand, &["nics", "set", "cards", "none", "--interval", "1s", "--tenure", "1s"]);
    (0..).zip(&vms).for_each(|(n, vm)| vm.declare(stand, n));
    vms
}

fn explained(stand: &Stand, vm: &Vm<Domain>) -> String {
    let (rc, said) = vfun(stand, &["nics", "explain", &vm.name]);
    assert_eq!(rc, 0, "{said}");
    said
}

/// libvirtd dies while the first VM has the VF: the domains go on, nothing is moved, and it is
/// said why. Once it is there again, the move takes place.
fn without_libvirtd(stand: &Stand, libvirtd: &mut Libvirtd, vms: &[Vm<Domain>]) {
    libvirtd.kill();
    vms[0].pins(stand, "free");
    vms[1].pins(stand, "pin");
    stand.until("it is said why nothing is moved", |s| {
        explained(s, &vms[1]).contains("failed to connect to the hypervisor")
    });
    assert!(explained(stand, &vms[1]).contains("see that its hypervisor runs"));
    assert!(vms.iter().all(Vm::arrives), "a VM lost its network with libvirtd");
    libvirtd.start_again();
    until_holds(stand, &vms[1]);
    until_free(stand, &vms[0]);
    only(libvirtd, vms, 1);
}

/// libvirtd dies in the middle of moves, each time a little later. Nobody else gets the VF while
/// it is not known who has it; in the end the right domain has it.
fn libvirtd_dies_at_moves(stand: &Stand, libvirtd: &mut Libvirtd, vms: &[Vm<Domain>]) {
    // A move takes some two seconds. After an even number of them the first VM has the VF.
    for n in 0..10 {
        let (from, to) = if n % 2 == 0 { (0, 1) } else { (1, 0) };
        vms[from].pins(stand, "free");
        vms[to].pins(stand, "pin");
        std::thread::sleep(LATER * n);
        libvirtd.kill();
        libvirtd.start_again();
        let begin = Instant::now();
        until_holds(stand, &vms[to]);
        eprintln!(
            "libvirtd died {:?} after the order: {} has the VF {:?} later",
            LATER * n,
            vms[to].name,
            begin.elapsed()
        );
        only(libvirtd, vms, to);
    }
}

/// One more domain than there are VFs. It keeps its paravirtual NIC, which waits for a VF
/// (`<teaming>`), and it is said why it has none.
fn more_domains_than_vfs(stand: &Stand, libvirtd: &Libvirtd, vms: &[Vm<Domain>]) {
    let n = vms.len() as u8;
    let one_more = Vm::start_domain_that_teams(stand, libvirtd, n, EVERY);
    one_more.declare(stand, n);
    one_more.pins(stand, "pin");
    stand.until("it is said why it gets no VF", |s| {
        explained(s, &one_more).contains("no VF can be won now: each is pinned")
    });
    let said = explained(stand, &one_more);
    assert!(said.contains("or one more VF") && said.contains("net_failover"), "{said}");
    assert!(one_more.arrives() && one_more.active() == "eth0");
    only(libvirtd, vms, 0);
    assert!(!knows(libvirtd, &one_more));
    // libvirt itself pairs it with devices of the host only: the hands write nothing of it.
    let file = libvirtd.folder().join("transient.xml");
    let xml = format!(
        "<interface type='ethernet'><target dev='pv{n}' managed='no'/><model type='e1000e'/>\
         <teaming type='transient' persistent='{TEAMS}'/></interface>"
    );
    std::fs::write(&file, xml).unwrap();
    let words = ["attach-device", "--live", "--", &one_more.guest.name, file.to_str().unwrap()];
    let (ok, said) = libvirtd.virsh(&words);
    assert!(!ok && said.contains("hostdev"), "{said}");
    json(stand, &["nics", "remove", &one_more.name]);
    libvirtd.must(&["destroy", &one_more.guest.name]);
}

#[test]
fn domains_take_turns_with_a_vf_and_no_packet_is_lost() {
    let test = "nics_libvirt::domains_take_turns_with_a_vf_and_no_packet_is_lost";
    // A minute and more on two processors.
    let short = long(Some("`make test-all` runs it".to_owned()), None);
    if let Some(why) = missing().or(short) {
        eprintln!("\n*** {test} IS NOT TESTED: {why} ***\n");
        return;
    }
    if !inside(test) {
        return;
    }
    network(WAYS.len() as u8 + 1);
    let stand = Stand::with(&["--nics"]);
    // QEMU's user reaches the windows' sockets.
    std::fs::set_permissions(stand.root(), std::fs::Permissions::from_mode(0o711)).unwrap();
    let mut libvirtd = Libvirtd::start();
    libvirtd.is_found();
    let mut vms = start(&stand, &libvirtd);
    vms[0].pins(&stand, "pin");
    until_holds(&stand, &vms[0]);
    only(&libvirtd, &vms, 0);
    // By this word the hands know that a device is not there.
    let words = ["detach-device-alias", "--live", "--", &vms[0].guest.name, "ua-vfun-vf-other"];
    let (ok, said) = libvirtd.virsh(&words);
    assert!(!ok && said.contains("no device found"), "{said}");
    more_domains_than_vfs(&stand, &libvirtd, &vms);
    let mut tally = Tally::default();
    for _ in 0..ROUNDS {
        no_packet_is_lost(&stand, &vms, &mut tally);
    }
    eprintln!("{tally}");
    only(&libvirtd, &vms, 0);
    // libvirtd is started again while a domain has the VF.
    libvirtd.kill();
    libvirtd.start_again();
    only(&libvirtd, &vms, 0);
    hand_over(&stand, &vms, 0, 1);
    only(&libvirtd, &vms, 1);
    hand_over(&stand, &vms, 1, 0);
    libvirtd_dies_at_moves(&stand, &mut libvirtd, &vms);
    without_libvirtd(&stand, &mut libvirtd, &vms);
    // The domain that has the VF ends: another one may have it.
    let dead = vms.remove(1);
    libvirtd.must(&["destroy", &dead.guest.name]);
    vms[0].pins(&stand, "pin");
    until_holds(&stand, &vms[0]);
    only(&libvirtd, &vms, 0);
    assert!(vms[0].arrives());
    // The same for a domain that libvirt does not know at all, as a transient one is that ended.
    json(&stand, &["nics", "remove", &dead.name]);
    libvirtd.must(&["undefine", &dead.guest.name]);
    dead.declare(&stand, 1);
    stand.until("it is said that it does not run", |s| {
        explained(s, &dead).contains("it does not run")
    });
}
