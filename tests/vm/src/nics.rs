//! VMs that compete for the VFs of a pool, on a bridge of the test's own network.

use crate::cli::{json, vfun};
use crate::flow::{Flow, HOST, Way};
use crate::holder::Holder;
use crate::module::{doorbell_client, load, module_config, ok};
use crate::netns::ip;
use crate::runs::Runs;
use crate::{LONG, boot};
use serde_json::{Value, json as object};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vfun_testguest::{Doorbell, Guest, GuestConfig};
use vfun_tests_local::{Stand, programs};

/// The address of the first tap, the lowest of the bridge's ports.
pub const BRIDGE_MAC: &str = "fe:54:00:09:00:00";
/// What the device with a VM's window is called in QEMU.
pub const WINDOW: &str = "window";
/// How long after the bond has moved to the paravirtual NIC packets still come by the VF.
/// `vfun-nics` waits longer than that before it unplugs (`SETTLE_MS`).
const STILL_COMING: Duration = Duration::from_millis(300);

/// QEMU's model of the NIC that is the VF (tests/igb.sh names another one).
pub fn model() -> String {
    std::env::var("VFUN_NICS_MODEL").unwrap_or_else(|_| "virtio-net-pci".into())
}

/// A VM; `G` runs its QEMU.
pub struct Vm<G = Guest> {
    pub guest: G,
    pub name: String,
    pub flow: Flow,
    net: Net,
    holder: Holder,
    /// How `vfun-nics` plugs, as options of `vfun nics add`.
    plugs: Vec<String>,
}

/// What the VMs' NICs are ports of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    /// A bridge of the kernel.
    Bridge,
    /// A bridge of an [`OpenVSwitch`](crate::openvswitch::OpenVSwitch), which has to reach the
    /// VM's memory, and adds no checksums that a VM left out.
    Switch,
}

impl Net {
    /// The bridge.
    pub fn bridge(self) -> &'static str {
        match self {
            Net::Bridge => "br0",
            Net::Switch => "sw0",
        }
    }
}

/// What a VM has besides.
#[derive(Default)]
pub struct More {
    pub files: Vec<(PathBuf, String)>,
    /// Instead of the usual RAM, MiB.
    pub memory_mib: Option<u32>,
    /// Drivers.
    pub modules: Vec<&'static str>,
    /// Arguments of QEMU.
    pub arguments: Vec<String>,
}

pub(crate) fn guest_config(
    stand: &Stand,
    n: u8,
    net: Net,
    doorbells: Vec<Doorbell>,
    more: More,
) -> GuestConfig {
    let name = format!("vm{n}");
    let mut c = module_config(&format!("nics-{name}"), doorbells);
    c.cpus = 1;
    c.memory_mib = more.memory_mib.unwrap_or(c.memory_mib);
    c.files.extend(more.files);
    for program in ["vfun-agent", "vfun-vm-app"] {
        c.files.push((programs().join(program), format!("/usr/bin/{program}")));
    }
    c.modules.extend(["virtio_net", "bonding"].map(String::from));
    // Other models have the name of their driver.
    c.modules.extend(Some(model()).filter(|m| m != "virtio-net-pci"));
    c.modules.extend(more.modules.into_iter().map(String::from));
    // One for the VF, one for a window that is plugged in.
    c.hotplug_ports = 2;
    let qmp = socket(stand, &name);
    let qmp = format!("socket,id=nics,path={},server=on,wait=off", qmp.display());
    let mut nic = format!("virtio-net-pci,netdev=pv,romfile=,addr=0x05,mac={}", mac(n));
    if net == Net::Switch {
        nic += ",csum=off";
        c.hotplug_ports = 0;
        let port = "pcie-root-port,id=hp0,chassis=1,slot=0,addr=0x08";
        c.extra_args.extend(["-device", port].map(String::from));
        let memory = format!("memory-backend-memfd,id=ram,size={}M,share=on", c.memory_mib);
        let words = ["-object", &memory, "-machine", "memory-backend=ram"];
        c.extra_args.extend(words.map(String::from));
    }
    for words in [
        ["-chardev", &qmp],
        ["-mon", "chardev=nics,mode=control"],
        ["-netdev", &format!("tap,id=pv,ifname=pv{n},script=no,downscript=no")],
        ["-device", &nic],
    ] {
        c.extra_args.extend(words.map(String::from));
    }
    c.extra_args.extend(more.arguments);
    c
}

/// The address of a VM's bond.
pub(crate) fn mac(n: u8) -> String {
    format!("52:54:00:09:00:{n:02x}")
}

/// The address of a VM's tap on the host.
pub fn tap_mac(n: u8) -> String {
    format!("fe:54:00:09:00:{n:02x}")
}

/// The socket of QEMU that `vfun-nics` uses.
pub fn socket(stand: &Stand, name: &str) -> PathBuf {
    stand.root().join(format!("{name}.qmp"))
}

/// A bridge with an address of the host's, and a tap for each VM. As libvirt does it, the
/// bridge has the lowest MAC address of its ports, and taps have high ones: a port with a
/// lower one would change the bridge's, and all VMs would send to the old one.
pub fn network(vms: u8) {
    // Where the kernel has it, iptables of the host would hold for the bridge: a filter.
    for tables in ["iptables", "ip6tables", "arptables"] {
        let file = format!("/proc/sys/net/bridge/bridge-nf-call-{tables}");
        if std::path::Path::new(&file).exists() {
            std::fs::write(file, "0").unwrap();
        }
    }
    ip("link add br0 type bridge");
    ip(&format!("addr add {HOST}/24 dev br0"));
    ip("link set br0 up");
    for n in 0..vms {
        ip(&format!("tuntap add pv{n} mode tap"));
        ip(&format!("link set pv{n} address {} master br0 up", tap_mac(n)));
    }
}

impl Vm {
    /// Boots it, with its bond, its agent, and packets that go one way or both.
    pub fn start(stand: &Stand, n: u8, net: Net, way: Way, every: Duration) -> Vm {
        Vm::start_with(stand, n, net, way, every, More::default())
    }

    /// The same, with more in it.
    pub fn start_with(stand: &Stand, n: u8, net: Net, way: Way, every: Duration, more: More) -> Vm {
        let doorbell = doorbell_client(stand, &format!("vm{n}"), "");
        let config = guest_config(stand, n, net, vec![doorbell], more);
        Vm::begin(boot(&config), n, (net, Holder::Bond), way, every, by_qmp(stand, n))
    }

    /// A VM of the kernel's bridge whose kernel itself changes between the NICs.
    pub fn start_with_failover(stand: &Stand, n: u8, every: Duration) -> Vm {
        let doorbell = doorbell_client(stand, &format!("vm{n}"), "");
        let more = More { modules: vec!["net_failover"], ..More::default() };
        let mut config = guest_config(stand, n, Net::Bridge, vec![doorbell], more);
        let nic = config.extra_args.iter_mut().find(|a| a.contains("netdev=pv"));
        nic.expect("it has a paravirtual NIC").push_str(",failover=on");
        let of = (Net::Bridge, Holder::Failover);
        Vm::begin(boot(&config), n, of, Way::Answered, every, by_qmp(stand, n))
    }

    /// All VMs, one for each way, booted at once.
    pub fn start_all(stand: &Stand, net: Net, ways: &[Way], every: Duration) -> Vec<Vm> {
        all_at_once(ways, |n, way| Vm::start(stand, n, net, way, every))
    }

    /// A VM of the kernel's bridge with a window that can be unplugged: a VM with a window is
    /// not migrated.
    pub fn start_to_migrate(stand: &Stand, n: u8, way: Way, every: Duration) -> Vm {
        let guest = boot(&guest_config(stand, n, Net::Bridge, vec![], More::default()));
        let doorbell = doorbell_client(stand, &format!("vm{n}"), "");
        guest.plug_doorbell(1, WINDOW, &doorbell).unwrap();
        ok(&guest, "until grep -q 0x1110 /sys/bus/pci/devices/*/device; do usleep 5000; done");
        Vm::begin(guest, n, (Net::Bridge, Holder::Bond), way, every, by_qmp(stand, n))
    }

    /// From now on QEMU keeps the packets to its VF, as a switch with a long queue would.
    pub fn delays_packets_to_its_vf(&self) {
        let qmp = |what: &str, arguments| self.guest.qmp(what, arguments).unwrap();
        let devices = qmp("qom-list", object!({ "path": "/machine/peripheral" }));
        let mut names =
            devices.as_array().expect("devices").iter().filter_map(|d| d["name"].as_str());
        let vf = names.find(|name| name.starts_with("vfun-vf-")).expect("it has a VF");
        let path = format!("/machine/peripheral/{vf}");
        let netdev = qmp("qom-get", object!({ "path": path, "property": "netdev" }));
        qmp(
            "object-add",
            object!({
                "qom-type": "filter-buffer", "id": "delay", "netdev": netdev, "queue": "tx",
                "interval": LONG.as_micros() as u64,
            }),
        );
    }

    /// Lets the kept packets arrive, some time after the bond has left the VF. An unplug
    /// that came before loses them.
    pub fn gets_delayed_packets(&self) {
        let end = Instant::now() + LONG;
        while !self.active().contains("eth0") {
            assert!(Instant::now() < end, "{} does not leave its VF", self.name);
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(STILL_COMING);
        let off = object!({ "path": "/objects/delay", "property": "status", "value": "off" });
        if let Err(e) = self.guest.qmp("qom-set", off) {
            eprintln!("{}: the VF went away with the packets on their way: {e}", self.name);
        }
    }

    /// Its address in the test's network.
    pub fn address(n: u8) -> String {
        format!("10.9.0.1{n}")
    }
}

impl<G: Runs> Vm<G> {
    /// Gives a guest that runs its bond, its agent, and packets that go one way or both.
    pub(crate) fn begin(
        guest: G,
        n: u8,
        (net, holder): (Net, Holder),
        way: Way,
        every: Duration,
        plugs: Vec<String>,
    ) -> Self {
        load(&guest);
        // Packets that were delayed come all at once.
        ok(&guest, "echo 4194304 > /proc/sys/net/core/rmem_default");
        let (make, interface) = (holder.make(), holder.interface());
        ok(&guest, &format!("{make} && ip addr add 10.9.0.1{n}/24 dev {interface}"));
        let flow = Flow::start(way, &guest, n, &mac(n), every);
        start_agent(&guest, holder, &flow);
        Vm { guest, name: format!("vm{n}"), flow, net, holder, plugs }
    }

    /// Declares it, in the pool `cards`.
    pub fn declare(&self, stand: &Stand, n: u8) {
        self.declare_with(stand, n, &[]);
    }

    /// The same with more options.
    pub fn declare_with(&self, stand: &Stand, n: u8, options: &[&str]) {
        let bridge = self.net.bridge();
        let words = ["nics", "add", &self.name, "--pool", "cards", "--bridge", bridge, "--tap"];
        let more = [&format!("pv{n}"), "--mac", &mac(n)];
        let plugs: Vec<&str> = self.plugs.iter().map(String::as_str).collect();
        json(stand, &[&words[..], &more[..], &plugs, options].concat());
    }

    pub fn row(&self, stand: &Stand) -> Value {
        let list = json(stand, &["nics", "list"]);
        let vms = list["vms"].as_array().expect("vms");
        vms.iter().find(|v| v["vm"]["client"] == self.name).expect("it was added").clone()
    }

    /// Whether its packets go through the VF, by the host's word and by the guest's.
    pub fn holds(&self, stand: &Stand) -> bool {
        self.row(stand)["path"] == "vf" && !self.active().contains("eth0")
    }

    /// The interface that its packets take.
    pub fn active(&self) -> String {
        ok(&self.guest, self.holder.active())
    }

    pub fn pins(&self, stand: &Stand, what: &str) {
        let (rc, said) = vfun(stand, &["nics", what, &self.name]);
        assert_eq!(rc, 0, "{said}");
    }

    /// Waits until the kernel's bridge sends this VM's packets to its VF, or to its paravirtual
    /// NIC. If the VM says nothing by itself, only the bond's own word tells the bridge of it.
    pub fn until_the_bridge_sends_to(&self, stand: &Stand, n: u8, vf: bool) {
        if self.net == Net::Bridge {
            let paravirtual = port_number(&format!("pv{n}"));
            stand.until("the bridge sends to the VM's other NIC", |_| {
                bridge_port(&mac(n)).is_some_and(|port| (port != paravirtual) == vf)
            });
        }
    }

    pub fn start_agent(&self) {
        start_agent(&self.guest, self.holder, &self.flow);
    }

    /// Says where packets were dropped, as the kernels of the VM and of the host count them.
    pub fn says_what_was_dropped(&self) {
        let script = "grep ^Udp: /proc/net/snmp; cat /proc/net/softnet_stat /proc/net/dev; uptime";
        let said = self.guest.run(script, LONG).map(|o| o.text());
        let host = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        eprintln!("{}: {said:?}\nthe host:\n{host}", self.name);
    }

    pub fn arrives(&self) -> bool {
        self.flow.arrives(&self.guest)
    }
}

/// Starts VMs, one for each way, at once.
pub(crate) fn all_at_once<T: Send>(ways: &[Way], start: impl Fn(u8, Way) -> T + Sync) -> Vec<T> {
    std::thread::scope(|s| {
        let start = &start;
        let starts: Vec<_> =
            (0..).zip(ways).map(|(n, way)| s.spawn(move || start(n, *way))).collect();
        starts.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// The options for a VM that `vfun-nics` plugs by QEMU's own socket.
fn by_qmp(stand: &Stand, n: u8) -> Vec<String> {
    let qmp = socket(stand, &format!("vm{n}"));
    ["--bus", "hp0", "--qmp", qmp.to_str().expect("UTF-8")].map(String::from).into()
}

/// Waits until it has the VF and uses it.
pub fn until_holds(stand: &Stand, vm: &Vm<impl Runs>) {
    until(stand, vm, "gets no VF", |vm| vm.holds(stand));
}

/// Waits until it has no VF, and uses its paravirtual NIC.
pub fn until_free<G: Runs>(stand: &Stand, vm: &Vm<G>) {
    let free = |vm: &Vm<G>| vm.row(stand)["vf"].is_null() && vm.active().contains("eth0");
    until(stand, vm, "keeps its VF", free);
}

fn until<G: Runs>(stand: &Stand, vm: &Vm<G>, otherwise: &str, so: impl Fn(&Vm<G>) -> bool) {
    let all = |s: &Stand| {
        let agent = vm.guest.run("tail -n 20 /tmp/agent", LONG).map(|o| o.text());
        format!("{}\n{agent:?}\n{}", json(s, &["nics", "list"]), s.log())
    };
    let end = Instant::now() + LONG;
    while !so(vm) {
        assert!(Instant::now() < end, "{} {otherwise}\n{}", vm.name, all(stand));
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The bridge's MAC address.
pub fn bridge_address() -> String {
    std::fs::read_to_string("/sys/class/net/br0/address").unwrap().trim().to_owned()
}

/// The number of a bridge's port.
fn port_number(interface: &str) -> u16 {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/brport/port_no"));
    let text = text.expect("it is a port of a bridge");
    u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).expect("a number")
}

/// The port that the bridge sends packets to this address to, if it knows.
fn bridge_port(mac: &str) -> Option<u16> {
    // struct __fdb_entry of linux/if_bridge.h.
    const ENTRY: usize = 16;
    let table = std::fs::read("/sys/class/net/br0/brforward").expect("the bridge's table");
    let text = |mac: &[u8]| mac.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":");
    let entry = table.chunks_exact(ENTRY).find(|e| text(&e[..6]) == mac)?;
    Some(u16::from_le_bytes([entry[6], entry[12]]))
}

/// The agent measures latencies where the VM's packets are answered; from a VM that is to
/// say nothing a question would teach the bridge where it is.
fn start_agent(guest: &impl Runs, holder: Holder, flow: &Flow) {
    ok(guest, "echo 0 0 > /proc/sys/net/ipv4/ping_group_range");
    let probe = match flow {
        Flow::Answered(_) => format!("--probe {HOST}"),
        Flow::ToVm(_) | Flow::FromVm(_) => String::new(),
    };
    let interface = holder.interface();
    ok(guest, &format!("(vfun-agent run --bond {interface} {probe} >/tmp/agent 2>&1 &)"));
}
