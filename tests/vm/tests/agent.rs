//! The agent in a real guest: it takes a VF and leaves it, and makes a bond of an interface
//! that is in use. Orders come from a file here, not from a host; tests/nics.rs has both.

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use vfun_testguest::{Guest, GuestConfig};
use vfun_tests_local::programs;
use vfun_tests_vm::module::ok;
use vfun_tests_vm::{LONG, boot};

const MAC: &str = "52:54:00:17:00:01";
/// Private memory that an agent may use, kB.
const MEMORY_KB: u64 = 1024;

/// The bond, as the guest's own network configuration would make it at its start.
const BOND: &str = "echo active-backup > /sys/class/net/bond0/bonding/mode && \
     ip link set eth0 down && echo +eth0 > /sys/class/net/bond0/bonding/slaves && \
     ip link set bond0 up && ip addr add 10.0.2.15/24 dev bond0";

fn guest_config(name: &str) -> GuestConfig {
    let mut c = GuestConfig::new(name);
    for program in ["vfun-agent", "vfun-vm-app"] {
        c.files.push((programs().join(program), format!("/usr/bin/{program}")));
    }
    c.memory_mib = 512;
    c.modules = ["virtio_net", "bonding", "dummy"].map(String::from).into();
    c.hotplug_ports = 1;
    let nic = format!("virtio-net-pci,netdev=pv,romfile=,addr=0x05,mac={MAC}");
    // Both NICs are on one network, with QEMU's own gateway.
    for words in [
        ["-netdev", "user,id=gateway"],
        ["-netdev", "hubport,id=port,hubid=0,netdev=gateway"],
        ["-netdev", "hubport,id=pv,hubid=0"],
        ["-netdev", "hubport,id=vf,hubid=0"],
        ["-device", &nic],
    ] {
        c.extra_args.extend(words.map(String::from));
    }
    c
}

struct Vm(Guest);

impl Vm {
    fn boot(name: &str) -> Vm {
        Vm(boot(&guest_config(name)))
    }

    fn ok(&self, script: &str) -> String {
        ok(&self.0, script)
    }

    fn start_agent(&self) {
        self.ok("(vfun-vm-app bond-agent bond0 /tmp/order >>/tmp/reports 2>>/tmp/agent &)");
    }

    fn order(&self, path: &str) {
        self.ok(&format!("echo {path} > /tmp/order.new && mv /tmp/order.new /tmp/order"));
    }

    fn bonding(&self, option: &str) -> String {
        self.ok(&format!("cat /sys/class/net/bond0/bonding/{option}")).trim().to_owned()
    }

    fn active(&self) -> String {
        self.bonding("active_slave")
    }

    fn report(&self) -> Value {
        serde_json::from_str(self.ok("tail -n 1 /tmp/reports").trim()).unwrap_or_default()
    }

    fn until(&self, what: &str, mut holds: impl FnMut(&Vm) -> bool) {
        let end = Instant::now() + LONG;
        while !holds(self) {
            let said = || self.ok("tail -n 5 /tmp/reports; cat /tmp/agent; ip link; dmesg | tail");
            assert!(Instant::now() < end, "{what} did not come to pass\n{}", said());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn reports(&self, path: &str, vf: bool) {
        self.until(path, |vm| {
            let report = vm.report();
            report["path"] == path && report["vf"].is_string() == vf && report["trouble"].is_null()
        });
    }

    fn plug(&self) {
        let device = json!({
            "driver": "virtio-net-pci", "id": "vf", "netdev": "vf", "mac": MAC,
            "romfile": "", "bus": Guest::hotplug_bus(0),
        });
        self.0.qmp("device_add", device).unwrap();
    }

    fn unplug(&self) {
        self.0.qmp("device_del", json!({ "id": "vf" })).unwrap();
        let gone = self.0.wait_event("DEVICE_DELETED", |data| data["device"] == "vf", LONG);
        gone.unwrap();
    }

    fn pings(&self) {
        self.ok("ping -c 3 -W 10 10.0.2.2");
    }
}

#[test]
fn the_bond_goes_to_the_vf_and_back() {
    let vm = Vm::boot("agent");
    vm.ok(&format!("touch /tmp/order && {BOND}"));
    vm.start_agent();
    vm.reports("paravirtual", false);
    let options = ["miimon", "all_slaves_active", "num_grat_arp"].map(|o| vm.bonding(o));
    assert!(["100", "1", "40"].iter().zip(&options).all(|(w, o)| o.ends_with(w)), "{options:?}");

    // The order may come before the VF does.
    vm.order("vf");
    vm.plug();
    vm.reports("vf", true);
    assert_ne!(vm.active(), "eth0");
    vm.pings();
    // It stays in the bond when it is left, and can be taken again.
    vm.order("paravirtual");
    vm.reports("paravirtual", true);
    assert_eq!((vm.active().as_str(), vm.bonding("slaves").split(' ').count()), ("eth0", 2));
    vm.pings();
    vm.order("vf");
    vm.reports("vf", true);
    // It goes without a word.
    vm.unplug();
    vm.reports("paravirtual", false);
    vm.pings();

    // An agent that is started again leaves the bond as it is, and still knows which NIC is
    // the paravirtual one, although both have the same driver and address.
    vm.plug();
    vm.reports("vf", true);
    vm.ok("killall -9 vfun-vm-app && echo > /tmp/reports && echo > /tmp/order");
    vm.start_agent();
    vm.reports("vf", true);
    assert_ne!(vm.active(), "eth0");
    vm.order("paravirtual");
    vm.reports("paravirtual", true);
    assert_eq!(vm.active(), "eth0");
    only_one_agent_and_only_active_backup(&vm);
}

/// The program that ships, beside the one of this test.
fn only_one_agent_and_only_active_backup(vm: &Vm) {
    vm.ok("vfun-agent run --bond bond0 2>/tmp/second; test $? = 78 && grep another /tmp/second");
    let status: Value = serde_json::from_str(&vm.ok("vfun-agent status --json")).unwrap();
    assert_eq!((&status[0]["running"], &status[0]["path"]), (&json!(true), &json!("paravirtual")));
    assert!(status[0]["packets"].as_u64().unwrap() > 0, "{status}");
    vm.ok("echo +bond9 > /sys/class/net/bonding_masters");
    vm.ok("vfun-agent run --bond bond9 2>/tmp/mode; test $? = 78 && grep balance-rr /tmp/mode");

    // Without a host it waits: little memory, no bond moved, one line in the log.
    vm.ok("killall vfun-vm-app && (vfun-agent run >/tmp/alone 2>&1 &)");
    vm.until("the agent's status", |vm| vm.ok("vfun-agent status || true").contains("runs"));
    std::thread::sleep(Duration::from_secs(8));
    let memory =
        vm.ok("sed -n 's/^RssAnon:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$(pidof vfun-agent)/status");
    eprintln!("an agent's private memory: {} kB", memory.trim());
    assert!(memory.trim().parse::<u64>().unwrap() <= MEMORY_KB, "{memory}");
    let log = vm.ok("cat /tmp/alone");
    assert_eq!(log.lines().count(), 1, "{log}");
    assert_eq!(vm.active(), "eth0");
}

/// What belongs to an interface, with its name taken out; and the flag that says that nobody
/// was asked whether he has the address.
fn belongings(vm: &Vm, name: &str) -> String {
    let script = format!(
        "ip addr show dev {name} | grep inet | grep -v fe80: | sed 's/{name}/IF/g; s/flags 02 //'; \
         {{ ip route show table all; ip -6 route show table all; }} | grep -w {name} | \
         grep -v -e fe80: -e ff00: | sed 's/{name}/IF/g; s/ linkdown//' | sort; \
         cat /sys/class/net/{name}/address /sys/class/net/{name}/mtu"
    );
    vm.ok(&script)
}

fn make_dummy(vm: &Vm, name: &str, net: u8) {
    vm.ok(&format!(
        "ip link add {name} type dummy && ip link set {name} mtu 1400 up && \
         ip addr add 10.{net}.0.2/24 dev {name} && ip addr add 10.{net}.0.3/24 dev {name} && \
         ip addr add fd00:{net}::2/64 dev {name} && \
         ip route add 10.{net}.8.0/24 via 10.{net}.0.1 && \
         ip route add 10.{net}.9.0/24 via 10.{net}.0.1 table 100 && \
         ip -6 route add fd00:{net}:1::/64 via fd00:{net}::1 && sleep 3"
    ));
}

#[test]
fn an_interface_in_use_becomes_a_bond_or_stays_as_it_was() {
    let vm = Vm::boot("agent-convert");
    // One that fails at its last step: no carrier.
    make_dummy(&vm, "lame", 5);
    vm.ok("echo 0 > /sys/class/net/lame/carrier");
    let before = belongings(&vm, "lame");
    assert_eq!(before.matches("inet").count(), 3, "{before}");
    vm.ok("! vfun-agent convert lame --bond bond7 --yes >/tmp/lame 2>&1 && \
           grep 'All is as it was before' /tmp/lame");
    assert_eq!(belongings(&vm, "lame"), before);
    vm.ok("! test -e /sys/class/net/bond7");

    make_dummy(&vm, "good", 6);
    let before = belongings(&vm, "good");
    // Nobody says yes.
    vm.ok("! vfun-agent convert good --bond bond8 </dev/null && ! test -e /sys/class/net/bond8");
    let said = vm.ok("vfun-agent convert good --bond bond8 --yes");
    assert!(said.contains("Interrupted"), "{said}");
    assert_eq!(belongings(&vm, "bond8"), before);
    assert_eq!(vm.ok("cat /sys/class/net/bond8/bonding/slaves").trim(), "good");
}
