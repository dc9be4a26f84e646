//! A VF goes from one real guest to another and back while packets come at an even pace:
//! the packaged agent, manager and allocator do it, with a NIC that QEMU emulates as VF.

use std::time::Duration;
use vfun_testguest::{Guest, GuestConfig};
use vfun_tests_local::built::long;
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::cli::{json, vfun};
use vfun_tests_vm::module::{doorbell_client, load, module_config, ok};
use vfun_tests_vm::netns::{inside, ip};
use vfun_tests_vm::pinger::{Count, Pinger};
use vfun_tests_vm::{LONG, boot};

/// Time between two packets to a guest.
const EVERY: Duration = Duration::from_millis(2);
/// How long a control counts, in which nothing is moved.
const CONTROL: Duration = Duration::from_secs(3);
/// Rounds that are tried before packets that are lost count against us. A busy machine
/// loses some by itself; a hand-over that is wrong loses some in every round.
const ROUNDS: usize = 4;

/// The address of the first tap, the lowest of the bridge's ports.
const BRIDGE_MAC: &str = "fe:54:00:09:00:00";

/// The bond, as the guest's own network configuration would make it at its start.
const BOND: &str = "echo active-backup > /sys/class/net/bond0/bonding/mode && \
     ip link set eth0 down && echo +eth0 > /sys/class/net/bond0/bonding/slaves && \
     ip link set bond0 up";

/// QEMU's model of the NIC that is the VF (tests/igb.sh names another one).
fn model() -> String {
    std::env::var("VFUN_NICS_MODEL").unwrap_or_else(|_| "virtio-net-pci".into())
}

struct Vm {
    guest: Guest,
    name: String,
    pinger: Pinger,
}

fn guest_config(stand: &Stand, n: u8) -> GuestConfig {
    let name = format!("vm{n}");
    let mut c = module_config(&format!("nics-{name}"), vec![doorbell_client(stand, &name, "")]);
    c.cpus = 1;
    for program in ["vfun-agent", "vfun-vm-app"] {
        c.files.push((programs().join(program), format!("/usr/bin/{program}")));
    }
    c.modules.extend(["virtio_net", "bonding"].map(String::from));
    // Other models have the name of their driver.
    c.modules.extend(Some(model()).filter(|m| m != "virtio-net-pci"));
    c.hotplug_ports = 1;
    let qmp = socket(stand, &name);
    let qmp = format!("socket,id=nics,path={},server=on,wait=off", qmp.display());
    let nic = format!("virtio-net-pci,netdev=pv,romfile=,addr=0x05,mac={}", mac(n));
    for words in [
        ["-chardev", &qmp],
        ["-mon", "chardev=nics,mode=control"],
        ["-netdev", &format!("tap,id=pv,ifname=pv{n},script=no,downscript=no")],
        ["-device", &nic],
    ] {
        c.extra_args.extend(words.map(String::from));
    }
    c
}

fn mac(n: u8) -> String {
    format!("52:54:00:09:00:{n:02x}")
}

fn socket(stand: &Stand, name: &str) -> std::path::PathBuf {
    stand.root().join(format!("{name}.qmp"))
}

/// A bridge with an address of the host's, and a tap for each VM. As libvirt does it, the
/// bridge has the lowest MAC address of its ports, and taps have high ones: a port with a
/// lower one would change the bridge's, and all VMs would send to the old one.
fn network(vms: u8) {
    // Where the kernel has it, iptables of the host would hold for the bridge: a filter.
    for tables in ["iptables", "ip6tables", "arptables"] {
        let file = format!("/proc/sys/net/bridge/bridge-nf-call-{tables}");
        if std::path::Path::new(&file).exists() {
            std::fs::write(file, "0").unwrap();
        }
    }
    ip("link add br0 type bridge");
    ip("addr add 10.9.0.1/24 dev br0");
    ip("link set br0 up");
    for n in 0..vms {
        ip(&format!("tuntap add pv{n} mode tap"));
        ip(&format!("link set pv{n} address fe:54:00:09:00:{n:02x} master br0 up"));
    }
}

impl Vm {
    /// Boots it, with its bond, its agent and a program that sends packets back.
    fn start(config: &GuestConfig, n: u8) -> Vm {
        let guest = boot(config);
        load(&guest);
        ok(&guest, &format!("{BOND} && ip addr add 10.9.0.1{n}/24 dev bond0"));
        ok(&guest, "(vfun-vm-app udp-echo 7 >/dev/null 2>&1 &)");
        start_agent(&guest);
        let to = format!("10.9.0.1{n}:7").parse().unwrap();
        let pinger = Pinger::start("10.9.0.1:0".parse().unwrap(), to, EVERY);
        Vm { guest, name: format!("vm{n}"), pinger }
    }

    fn row(&self, stand: &Stand) -> serde_json::Value {
        let list = json(stand, &["nics", "list"]);
        let vms = list["vms"].as_array().expect("vms");
        vms.iter().find(|v| v["vm"]["client"] == self.name).expect("it was added").clone()
    }

    /// Whether its packets go through the VF, by the host's word and by the guest's.
    fn holds(&self, stand: &Stand) -> bool {
        self.row(stand)["path"] == "vf" && !self.active().contains("eth0")
    }

    fn active(&self) -> String {
        ok(&self.guest, "cat /sys/class/net/bond0/bonding/active_slave")
    }

    fn pins(&self, stand: &Stand, what: &str) {
        let (rc, said) = vfun(stand, &["nics", what, &self.name]);
        assert_eq!(rc, 0, "{said}");
    }
}

fn until_holds(stand: &Stand, vm: &Vm) {
    let all = |s: &Stand| {
        let agent = vm.guest.run("tail -n 20 /tmp/agent", LONG).map(|o| o.text());
        format!("{}\n{agent:?}\n{}", json(s, &["nics", "list"]), s.log())
    };
    let end = std::time::Instant::now() + LONG;
    while !vm.holds(stand) {
        assert!(std::time::Instant::now() < end, "{} gets no VF\n{}", vm.name, all(stand));
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Takes the VF from one VM and gives it to the other; what both lost meanwhile.
fn hand_over(stand: &Stand, from: &Vm, to: &Vm) -> [Count; 2] {
    let (((), lost_to), lost_from) = from.pinger.during(|| {
        to.pinger.during(|| {
            from.pins(stand, "free");
            to.pins(stand, "pin");
            until_holds(stand, to);
            // What is sent just after the move counts, too.
            std::thread::sleep(Duration::from_millis(500));
        })
    });
    // VMs that asked for the host's address in the meantime would send to a wrong one.
    assert_eq!(bridge_address(), BRIDGE_MAC, "the bridge took the address of the VF's tap");
    [lost_from, lost_to]
}

fn bridge_address() -> String {
    std::fs::read_to_string("/sys/class/net/br0/address").unwrap().trim().to_owned()
}

fn control(vms: &[Vm; 2]) -> [Count; 2] {
    let (((), b), a) =
        vms[0].pinger.during(|| vms[1].pinger.during(|| std::thread::sleep(CONTROL)));
    [a, b]
}

fn lost(counts: &[Count]) -> usize {
    counts.iter().map(|c| c.lost).sum()
}

fn show(what: &str, counts: &[Count]) {
    let texts: Vec<String> = counts.iter().map(Count::to_string).collect();
    eprintln!("{what}: {}", texts.join("; "));
}

/// Moves the VF there and back until a round loses nothing.
fn no_packet_is_lost(stand: &Stand, vms: &[Vm; 2]) {
    let mut all = vec![];
    for _ in 0..ROUNDS {
        let before = control(vms);
        show("control", &before);
        let there = hand_over(stand, &vms[0], &vms[1]);
        show("to vm1", &there);
        let back = hand_over(stand, &vms[1], &vms[0]);
        show("to vm0", &back);
        match (lost(&before), lost(&there) + lost(&back)) {
            (_, 0) => return,
            (0, n) => all.push(n),
            // Void: the machine lost packets by itself.
            _ => {}
        }
    }
    assert!(all.is_empty(), "each announced hand-over lost packets, the controls none: {all:?}");
    eprintln!("\n*** LOSS IS NOT JUDGED: the machine lost packets in each control ***\n");
}

/// Without its agent a VM keeps its paravirtual NIC, and loses its VF after 30 s.
fn an_agent_dies(stand: &Stand, vm: &Vm) {
    let ((), count) = vm.pinger.during(|| {
        ok(&vm.guest, "killall -9 vfun-agent");
        stand.until("the VF is taken away", |s| vm.row(s)["vf"].is_null());
    });
    show("agent killed", &[count]);
    assert!(vm.active().contains("eth0") && vm.pinger.answers());
    start_agent(&vm.guest);
}

fn start_agent(guest: &Guest) {
    ok(guest, "(vfun-agent run --bond bond0 >/tmp/agent 2>&1 &)");
}

#[test]
fn a_vf_goes_from_vm_to_vm_and_no_packet_is_lost() {
    if !inside("nics::a_vf_goes_from_vm_to_vm_and_no_packet_is_lost") {
        return;
    }
    network(2);
    let stand = Stand::with(&["--nics"]);
    let configs = [0, 1].map(|n| guest_config(&stand, n));
    let vms = std::thread::scope(|s| {
        let starts = [0, 1].map(|n| {
            let config = &configs[usize::from(n)];
            s.spawn(move || Vm::start(config, n))
        });
        starts.map(|t| t.join().unwrap())
    });
    json(&stand, &["nics", "pool", "add", "cards", "--emulated", "1", "--model", &model()]);
    json(&stand, &["nics", "set", "cards", "none", "--interval", "1s", "--tenure", "1s"]);
    for (n, vm) in (0..).zip(&vms) {
        let qmp = socket(&stand, &vm.name);
        let words = ["nics", "add", &vm.name, "--pool", "cards", "--bridge", "br0", "--tap"];
        let more = [&format!("pv{n}"), "--mac", &mac(n), "--bus", "hp0", "--qmp"];
        let qmp = qmp.to_str().unwrap();
        json(&stand, &[&words[..], &more[..], &[qmp]].concat());
    }
    vms[0].pins(&stand, "pin");
    until_holds(&stand, &vms[0]);
    for _ in 0..long(1, 10) {
        no_packet_is_lost(&stand, &vms);
    }

    if long(false, true) {
        an_agent_dies(&stand, &vms[0]);
    }
    // The VM that holds the VF dies: the other one may have it.
    hand_over(&stand, &vms[0], &vms[1]);
    let [first, second] = vms;
    second.guest.kill();
    first.pins(&stand, "pin");
    until_holds(&stand, &first);
    assert!(first.pinger.answers());
}

#[test]
fn a_guest_in_a_bridge_competes_as_long_as_it_runs() {
    if !inside("nics::a_guest_in_a_bridge_competes_as_long_as_it_runs") {
        return;
    }
    network(0);
    let stand = Stand::with(&["--nics"]);
    stand.until("vfun-nics answers", |s| vfun(s, &["nics", "list"]).0 == 0);
    json(&stand, &["nics", "pool", "add", "cards", "--emulated", "1"]);
    json(&stand, &["nics", "set", "cards", "activity", "--interval", "1s", "--tenure", "1s"]);
    let (rc, said) = vfun(&stand, &["guest", "--bridge", "br7", "--", "true"]);
    assert!(rc != 0 && said.contains("no bridge 'br7'"), "{said}");
    let script = "while grep -q eth0 /sys/class/net/bond0/bonding/active_slave; do sleep 0.1; done; \
         ping -c 3 -w 30 10.9.0.1 && cat /sys/class/net/bond0/bonding/active_slave";
    let words = ["guest", "--client", "vm7", "--bridge", "br0", "--address", "10.9.0.17/24"];
    let more = ["--pool", "cards", "--timeout", "180", "--", script];
    let (rc, said) = vfun(&stand, &[&words[..], &more[..]].concat());
    assert!(rc == 0 && said.contains("3 packets received"), "{rc}: {said}\n{}", stand.log());
    // Once its QEMU is known to have ended.
    let gone = |s: &Stand| json(s, &["nics", "list"])["vms"].as_array().is_some_and(Vec::is_empty);
    stand.until("the VM is gone", gone);
}
