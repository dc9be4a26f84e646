//! A genuine virtual function goes from VM to VM: of a card with SR-IOV that QEMU emulates,
//! in an emulated host with an IOMMU, whose VMs are emulated once more. Everything that moves
//! it is the packaged programs: manager and allocator in the host, agents in the VMs.
//!
//! It takes minutes, so only `make test-all` runs it (tests/nested.sh).

use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use vfun_testguest::{Adopted, GuestConfig};
use vfun_tests_local::programs;
use vfun_tests_vm::module::{MODULE, module};
use vfun_tests_vm::nested::{Host, Vm, qemu};
use vfun_tests_vm::netns::{inside, ip};
use vfun_tests_vm::pinger::{Count, Pinger};

/// How long one step may take. A machine in a machine does in seconds what takes
/// milliseconds elsewhere: the longest step, a plug, took 22 s where nothing else ran.
const STEP: Duration = Duration::from_secs(150);
/// Time between two packets to a VM, and how late an answer may be.
const EVERY: Duration = Duration::from_millis(100);
const LATE: Duration = Duration::from_secs(6);
/// How long a control counts, in which nothing is moved.
const CONTROL: Duration = Duration::from_secs(10);
/// Rounds that are tried before packets that are lost count against us. A busy machine
/// loses some by itself; a hand-over that is wrong loses some in every round.
const ROUNDS: usize = 3;
/// Of all programs that the host needs.
const PROGRAMS: [&str; 6] =
    ["vfund", "vfun", "vfun-service", "vfun-keeper", "vfun-jail", "vfun-nics"];
/// MAC address of the host's other NIC.
const UPLINK: &str = "52:54:00:0a:00:01";

/// The bond, an address, and a program that sends packets back.
fn vm_script(n: u8) -> String {
    format!(
        "echo active-backup > /sys/class/net/bond0/bonding/mode && ip link set eth0 down && \
         echo +eth0 > /sys/class/net/bond0/bonding/slaves && ip link set bond0 up && \
         ip addr add 10.9.0.1{n}/24 dev bond0 && (vfun-vm-app udp-echo 7 >/dev/null 2>&1 &)"
    )
}

fn vm_config(n: u8) -> GuestConfig {
    let mut c = GuestConfig::new(&format!("vm{n}"));
    for program in ["vfun-agent", "vfun-vm-app"] {
        c.files.push((programs().join(program), format!("/usr/bin/{program}")));
    }
    c.files.push((module().into(), MODULE.into()));
    c.modules = ["virtio_net", "bonding", "igbvf"].map(String::from).into();
    c
}

fn host_config() -> GuestConfig {
    let mut c = GuestConfig::new("host");
    c.memory_mib = 2048;
    c.kernel_args = "intel_iommu=on iommu=pt".into();
    for program in PROGRAMS {
        c.files.push((programs().join(program), format!("/usr/bin/{program}")));
    }
    // In the place of busybox's, which know nothing of VFs.
    for program in ["ip", "bridge", "tc"] {
        let at = ["/usr/sbin", "/sbin", "/usr/bin"].map(|d| Path::new(d).join(program));
        let found = at.into_iter().find(|p| p.is_file()).expect("iproute2 is installed");
        c.files.push((found, format!("/bin/{program}")));
    }
    // With igbvf the VF is an interface of the host at first, as on most hosts.
    let modules = "virtio_net igb igbvf vfio_pci vfio_iommu_type1 bridge tun 9pnet_virtio 9p";
    c.modules = modules.split(' ').map(String::from).collect();
    c
}

/// The test's own network: a switch between the host's two NICs and the test.
fn network() {
    ip("link add br0 type bridge");
    ip("addr add 10.9.0.1/24 dev br0");
    ip("link set br0 up");
    for tap in ["card", "uplink"] {
        ip(&format!("tuntap add {tap} mode tap"));
        ip(&format!("link set {tap} master br0 up"));
    }
}

/// The network in the host: its card `card0` with a VF, and a bridge with the other NIC.
fn host_network(host: &Host) {
    host.ok(&format!(
        "set -e; IP=/bin/ip\n\
         for n in /sys/class/net/*; do [ \"$(cat $n/address)\" != {UPLINK} ] || up=${{n##*/}}; done\n\
         card=$(ls /sys/bus/pci/drivers/igb/0000:*/net); \
         $IP link set $card down; $IP link set $card name card0; $IP link set card0 up\n\
         $IP link add br0 type bridge; $IP link set $up master br0 up\n\
         $IP addr add 10.9.0.2/24 dev br0; $IP link set br0 up\n\
         for n in 0 1; do $IP tuntap add pv$n mode tap; $IP link set pv$n master br0 up; done\n\
         echo 1 > /sys/class/net/card0/device/sriov_numvfs"
    ));
}

struct Guest {
    name: String,
    commands: Adopted,
    pinger: Pinger,
}

/// The whole of it.
struct Scene {
    host: Host,
    vms: Vec<Guest>,
    began: Instant,
}

impl Scene {
    fn say(&self, what: &str) {
        eprintln!("{:6.1} s  {what}", self.began.elapsed().as_secs_f64());
    }

    fn fail(&self, why: &str) -> ! {
        let agents = self.vms.iter().map(|vm| {
            let script = "tail -n 20 /tmp/agent; dmesg | tail -n 20; ls /sys/class/net";
            format!("{}: {:?}", vm.name, vm.commands.run(script, STEP).map(|o| o.text()))
        });
        let list = self.host.guest.run("vfun nics list; vfun nics explain vm0", STEP);
        let list = list.map(|o| o.text());
        let agents: Vec<String> = agents.collect();
        panic!("{why}\n{}\n{list:?}\n{}", self.host.said(), agents.join("\n"))
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let began = Instant::now();
        while !holds() {
            if began.elapsed() > STEP {
                self.fail(&format!("{what}: not in {STEP:?}"));
            }
            // Each look costs the machines some of the time that they need.
            std::thread::sleep(Duration::from_secs(1));
        }
        self.say(&format!("{what}: {:.1} s", began.elapsed().as_secs_f64()));
    }

    fn in_vm(&self, n: usize, script: &str) -> String {
        let done = self.vms[n].commands.run_ok(script, STEP);
        done.unwrap_or_else(|e| self.fail(&e.to_string()))
    }

    fn row(&self, n: usize) -> Value {
        let list = self.host.vfun("nics list");
        let vms = list["vms"].as_array().expect("vms");
        let row = vms.iter().find(|v| v["vm"]["client"] == self.vms[n].name.as_str());
        row.expect("it was added").clone()
    }

    fn active(&self, n: usize) -> String {
        self.in_vm(n, "cat /sys/class/net/bond0/bonding/active_slave")
    }

    fn until_holds(&self, n: usize) {
        self.until(&format!("vm{n} has the VF"), || self.row(n)["path"] == "vf");
        assert_ne!(self.active(n), "eth0");
    }

    /// Does something, and counts what both VMs lost meanwhile.
    fn counting(&self, what: &str, doing: impl FnOnce()) -> usize {
        let begin = Instant::now();
        doing();
        let end = Instant::now();
        let counts: Vec<Count> = self.vms.iter().map(|vm| vm.pinger.count(begin, end)).collect();
        self.say(&format!("{what}: vm0 {}; vm1 {}", counts[0], counts[1]));
        let lost = counts.iter().map(|c| c.lost).sum();
        if lost > 0 {
            self.explain_loss(begin, end);
        }
        lost
    }

    /// Says when packets were lost, and what the VMs' kernels did at that time.
    fn explain_loss(&self, begin: Instant, end: Instant) {
        for (n, vm) in self.vms.iter().enumerate() {
            let lost = vm.pinger.lost_at(begin, end);
            if lost.is_empty() {
                continue;
            }
            // The kernel's log counts from the VM's start.
            let up: f64 = self.in_vm(n, "cut -d' ' -f1 /proc/uptime").trim().parse().unwrap_or(0.0);
            let now = Instant::now();
            let at = |sent: &Instant| format!("{:.1}", up - (now - *sent).as_secs_f64());
            let at: Vec<String> = lost.iter().map(at).collect();
            eprintln!("{}: lost what was sent at {} s of its uptime", vm.name, at.join(", "));
            eprintln!("{}", self.in_vm(n, "dmesg | tail -n 30; ip -s link; tail -n 5 /tmp/agent"));
        }
    }

    fn hand_over(&self, from: usize, to: usize) -> usize {
        self.counting(&format!("to vm{to}"), || {
            self.host.vfun(&format!("nics free vm{from}"));
            self.host.vfun(&format!("nics pin vm{to}"));
            self.until_holds(to);
            // What is sent just after the move counts, too.
            std::thread::sleep(Duration::from_secs(1));
        })
    }

    /// Interrupts that VFIO has passed on to VMs.
    fn interrupts(&self) -> u64 {
        let script = "awk '/vfio-msi/ { for (i = 2; i <= 3; i++) n += $i } END { print n + 0 }' /proc/interrupts";
        self.host.ok(script).parse().expect("a number")
    }
}

/// Boots both VMs here, and the host; both VMs go on in the host.
fn scene(folder: &Path, began: Instant) -> Scene {
    let vms = [0, 1].map(|n| Vm { number: n, mac: mac(n) });
    for vm in &vms {
        let n = vm.number;
        ip(&format!("tuntap add pv{n} mode tap"));
        vm.save(folder, &vm_config(n), &vm_script(n));
        ip(&format!("link del pv{n}"));
    }
    let host = Host::boot(folder, &host_config(), UPLINK);
    let mut scene = Scene { host, vms: vec![], began };
    scene.say("the host is up, both VMs are saved");
    host_network(&scene.host);
    scene.host.ok(
        "mkdir /run/functions; (vfund --nics --functions /run/functions >/tmp/vfund.log 2>&1 &)",
    );
    scene.until("manager", || {
        scene.host.guest.run("vfun status", STEP).is_ok_and(|out| out.status == 0)
    });
    for vm in &vms {
        let n = vm.number;
        let commands = SocketAddr::from(([10, 9, 0, 2], 7000 + u16::from(n)));
        scene.host.ok(&format!("({} >/tmp/vm{n}.log 2>&1 &)", vm.restore(commands)));
        let commands = vm.adopt(folder, commands);
        let to = format!("10.9.0.1{n}:7").parse().unwrap();
        let pinger = Pinger::start("10.9.0.1:0".parse().unwrap(), to, EVERY).patient(LATE);
        scene.vms.push(Guest { name: format!("vm{n}"), commands, pinger });
    }
    scene.until("both VMs answer", || scene.vms.iter().all(|vm| vm.pinger.answers()));
    scene
}

fn mac(n: u8) -> String {
    format!("52:54:00:09:00:{n:02x}")
}

/// The pool of the card's VF. It is the host's own while that gives it an address.
fn pool(scene: &Scene) {
    let address = |what: &str| {
        let vf = "/sys/class/net/card0/device/virtfn0/net";
        scene.host.ok(&format!("/bin/ip addr {what} 192.0.2.1/24 dev $(ls {vf})"));
    };
    let trouble = || {
        let list = scene.host.vfun("nics list");
        let vf = list["pools"][0]["vfs"].get(0).cloned();
        vf.map(|vf| vf["trouble"].as_str().unwrap_or_default().to_owned())
    };
    address("add");
    scene.host.vfun("nics pool add cards --pf card0");
    scene.host.vfun("nics set cards none --interval 1s --tenure 1s");
    scene.until("the VF is the host's own", || trouble().is_some_and(|t| t.contains("address")));
    address("del");
    scene.until("the VF is free", || trouble().is_some_and(|t| t.is_empty()));
}

/// A window, the kernel module and an agent in a VM, and its declaration.
fn agent(scene: &Scene, n: usize) {
    let host = &scene.host;
    host.vfun(&format!("client add vm{n} --window 16MiB"));
    host.vfun(&format!("attach --qmp /run/vm{n}.attach --client vm{n} --bus hp0 --timeout 120"));
    let seen = "cat /sys/bus/pci/devices/*/device";
    scene.until(&format!("vm{n} sees its window"), || scene.in_vm(n, seen).contains("0x1110"));
    scene.in_vm(n, &format!("insmod {MODULE} && test -c /dev/vfun0"));
    start_agent(scene, n);
    let mac = mac(n as u8);
    host.vfun(&format!(
        "nics add vm{n} --pool cards --bridge br0 --tap pv{n} --mac {mac} --bus hp1 \
         --qmp /run/vm{n}.qmp"
    ));
    scene.until(&format!("vm{n}'s agent reports"), || !scene.row(n)["path"].is_null());
}

fn start_agent(scene: &Scene, n: usize) {
    scene.in_vm(n, "(vfun-agent run --bond bond0 >/tmp/agent 2>&1 &)");
}

/// Moves the VF there and back until a round loses nothing.
fn no_packet_is_lost(scene: &Scene) {
    let mut all = vec![];
    for _ in 0..ROUNDS {
        let before = scene.interrupts();
        let control = scene.counting("control", || std::thread::sleep(CONTROL));
        let rose = scene.interrupts() - before;
        scene.say(&format!("the VF's interrupts rose by {rose}"));
        assert!(rose > 0, "vm0 holds the VF, and it interrupts nobody\n{}", scene.host.said());
        match (control, scene.hand_over(0, 1) + scene.hand_over(1, 0)) {
            (_, 0) => return,
            (0, lost) => all.push(lost),
            _ => scene.say("void: packets were lost while nothing was moved"),
        }
    }
    assert!(all.is_empty(), "each announced hand-over lost packets, the controls none: {all:?}");
    eprintln!("\n*** LOSS IS NOT JUDGED: packets were lost in each control ***\n");
}

/// Without its agent a VM loses its VF, and goes on with its paravirtual NIC.
fn an_agent_dies(scene: &Scene) {
    scene.counting("agent killed", || {
        scene.in_vm(0, "killall -9 vfun-agent");
        scene.until("the VF is taken away", || scene.row(0)["vf"].is_null());
    });
    scene.until("vm0 answers", || scene.vms[0].pinger.answers());
    assert_eq!(scene.active(0), "eth0");
    start_agent(scene, 0);
}

/// The VF stays where it is: its owner has it open, and the notes say who that is.
fn the_allocator_dies(scene: &Scene) {
    scene.counting("vfun-nics killed", || {
        scene.host.ok("killall -9 vfun-nics");
        scene.until("vfun-nics is back", || {
            scene.host.guest.run("vfun nics list", STEP).is_ok_and(|out| out.status == 0)
        });
        scene.until_holds(0);
    });
}

/// The VF is free then, and the other VM gets it.
fn a_qemu_dies(scene: &Scene) {
    scene.host.vfun("nics free vm0");
    scene.host.vfun("nics pin vm1");
    scene.until_holds(1);
    scene.host.ok("kill -9 $(cat /run/vm1.pid)");
    scene.host.vfun("nics pin vm0");
    scene.until_holds(0);
}

#[test]
fn a_genuine_vf_goes_from_vm_to_vm() {
    const NAME: &str = "nested::a_genuine_vf_goes_from_vm_to_vm";
    if qemu().is_none() {
        eprintln!("\n*** {NAME} IS NOT TESTED: run tests/run.sh nested ***\n");
        return;
    }
    if !inside(NAME) {
        return;
    }
    network();
    let began = Instant::now();
    let folder = tempfile::Builder::new().prefix("vfun-nested-").tempdir().unwrap();
    let scene = &scene(folder.path(), began);
    pool(scene);
    std::thread::scope(|s| {
        let both = [0, 1].map(|n| s.spawn(move || agent(scene, n)));
        for thread in both {
            thread.join().unwrap();
        }
    });
    scene.counting("first plug", || {
        scene.host.vfun("nics pin vm0");
        scene.until_holds(0);
    });
    no_packet_is_lost(scene);
    the_allocator_dies(scene);
    an_agent_dies(scene);
    a_qemu_dies(scene);
}
