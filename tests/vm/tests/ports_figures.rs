//! What a port costs beside QEMU's virtio-net card, in one guest, turn by turn: the kernel's interface
//! beside a card with a tap device, and testpmd beside a card with vhost-user.
//!
//! Nothing is demanded here: a machine that does other work shows other times. `tests/ports.sh
//! figures` runs it and prints the table.

use crate::ports::{reaches, up};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use vfun_testguest::Guest;
use vfun_tests_local::Stand;
use vfun_tests_vm::boot;
use vfun_tests_vm::module::{doorbell_client, load, module_config, ok};
use vfun_tests_vm::netns::{inside, ip};
use vfun_tests_vm::netprograms::{files, folder, install, packed};
use vfun_tests_vm::testpmd::{self, driver};

const ROUNDS: usize = 5;
/// Each with the host's address and the guest's: the port, and the card.
const WAYS: [(&str, &str, &str); 2] =
    [("port", "10.9.0.1", "10.9.0.10"), ("virtio-net", "10.8.0.1", "10.8.0.10")];

/// What a card of QEMU does not offer, so that each frame is whole.
const NO_OFFLOADS: &str = ",csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ufo=off,host_tso4=off,host_tso6=off,host_ufo=off,mrg_rxbuf=off";

/// A guest with a port in one bridge and a card in another one, both with offloads or both without.
fn guest(stand: &Stand, offloads: bool) -> Guest {
    for (bridge, address) in [("br0", "10.9.0.1"), ("br1", "10.8.0.1")] {
        ip(&format!("link add {bridge} type bridge"));
        ip(&format!("addr add {address}/24 dev {bridge}"));
        ip(&format!("link set {bridge} up"));
    }
    ip("tuntap add pv0 mode tap");
    ip("link set pv0 master br1 up");
    let port = format!("[ports.eth1]\nswitch = \"br0\"\noffloads = {offloads}\n");
    let doorbell = doorbell_client(stand, "vm0", &port);
    let mut config = module_config("ports-figures", vec![doorbell]);
    config.cpus = 1;
    config.files.extend(files(packed()));
    config.modules.push("virtio_net".into());
    let off = if offloads { "" } else { NO_OFFLOADS };
    for words in [
        ["-netdev", "tap,id=pv,ifname=pv0,script=no,downscript=no"],
        [
            "-device",
            &format!("virtio-net-pci,netdev=pv,romfile=,addr=0x05,mac=52:54:00:08:00:01{off}"),
        ],
    ] {
        config.extra_args.extend(words.map(String::from));
    }
    let guest = boot(&config);
    load(&guest);
    up(&guest, 10);
    ok(&guest, "ip addr add 10.8.0.10/24 dev eth0; ip link set eth0 up");
    install(&guest);
    for (_, host, _) in WAYS {
        reaches(&guest, host);
    }
    ok(
        &guest,
        "chroot /programs /usr/bin/iperf3 -s -D; (chroot /programs /usr/bin/sockperf server >/dev/null 2>&1 &)",
    );
    guest
}

/// What a program at the host says.
fn said(program: &str, words: &[&str]) -> String {
    let out = Command::new(folder().expect("asked for").join("run"))
        .arg(program)
        .args(words)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        out.status.success(),
        "{program} {words:?}: {text}{}",
        String::from_utf8_lossy(&out.stderr)
    );
    text
}

/// Mbit/s of one TCP connection, to or from the guest.
fn megabits(vm: &str, from_vm: bool) -> f64 {
    let mut words = vec!["-c", vm, "-J", "-t", "4", "-O", "1"];
    words.extend(from_vm.then_some("-R"));
    let mut last = serde_json::Value::Null;
    for _ in 0..5 {
        last = serde_json::from_str(&said("/usr/bin/iperf3", &words)).unwrap();
        if let Some(bits) = last["end"]["sum_received"]["bits_per_second"].as_f64() {
            return bits / 1e6;
        }
        // Its server is with the client before for a moment more.
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    panic!("{vm}: {last}")
}

/// Microseconds of half a round trip: the median, and the 99th percentile.
fn latency(vm: &str) -> [f64; 2] {
    let text = said("/usr/bin/sockperf", &["ping-pong", "-i", vm, "-t", "4", "-m", "64"]);
    ["percentile 50.000", "percentile 99.000"].map(|of| {
        let rest = &text[text.find(of).unwrap_or_else(|| panic!("{text}")) + of.len()..];
        rest.lines().next().unwrap().trim_start_matches([' ', '=']).trim().parse().unwrap()
    })
}

pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// A row: medians of both ways, and the median and the range of the ratio within a round.
pub fn row(what: &str, both: &[(f64, f64)]) -> String {
    let ratios: Vec<f64> = both.iter().map(|(port, card)| port / card).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let [port, card] = [0, 1].map(|n| median(both.iter().map(|b| [b.0, b.1][n]).collect()));
    let ratio = median(ratios);
    format!("| {what} | {port:.1} | {card:.1} | {ratio:.2} ({least:.2} to {most:.2}) |")
}

/// Milliseconds of processor time that a process has used, and its children that ended.
pub fn used_ms(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    // In ticks of 10 ms.
    fields[11..15].iter().map(|n| n.parse::<u64>().unwrap()).sum::<u64>() * 10
}

/// Shows what manager, service and VM use while nobody sends; of the VM, beside one without a port.
fn idle(stand: &Stand, guest: &Guest) {
    const LONG: std::time::Duration = std::time::Duration::from_secs(30);
    let service = stand.grants()[0].pid.expect("it is served");
    let used_by = |pids: [u32; 3]| {
        let before = pids.map(used_ms);
        std::thread::sleep(LONG);
        [0, 1, 2].map(|n| used_ms(pids[n]) - before[n])
    };
    let [manager, relay, with] = used_by([stand.pid(), service, guest.pid()]);
    ok(guest, "ip link set eth1 down; rmmod vfun");
    let [_, _, without] = used_by([stand.pid(), stand.pid(), guest.pid()]);
    eprintln!(
        "idle for {LONG:?}: the manager used {manager} ms of a processor, the service {relay} ms, \
         the VM {with} ms, and {without} ms without the module"
    );
    load(guest);
    up(guest, 10);
    reaches(guest, WAYS[0].1);
}

fn is_asked() -> bool {
    std::env::var_os("VFUN_PORTS_FIGURES").is_some() && folder().is_some()
}

#[test]
fn beside_a_card_of_qemu() {
    if !is_asked() || !inside("ports_figures::beside_a_card_of_qemu") {
        return;
    }
    let stand = Stand::with(&["--ports"]);
    let guest = guest(&stand, false);
    idle(&stand, &guest);
    eprintln!("without offloads on either");
    beside(&guest);
}

#[test]
fn beside_a_card_with_offloads() {
    if !is_asked() || !inside("ports_figures::beside_a_card_with_offloads") {
        return;
    }
    let stand = Stand::with(&["--ports"]);
    let guest = guest(&stand, true);
    eprintln!("with offloads on both");
    beside(&guest);
}

fn beside(guest: &Guest) {
    let mut rows: [Vec<(f64, f64)>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let to = WAYS.map(|(.., vm)| megabits(vm, false));
        let from = WAYS.map(|(.., vm)| megabits(vm, true));
        let late = WAYS.map(|(.., vm)| latency(vm));
        for (row, [port, card]) in
            rows.iter_mut().zip([to, from, late.map(|l| l[0]), late.map(|l| l[1])])
        {
            row.push((port, card));
        }
    }
    let names = [
        "TCP to the VM, Mbit/s",
        "TCP from the VM, Mbit/s",
        "half a round trip, median, us",
        "half a round trip, p99, us",
    ];
    eprintln!("| what | port | virtio-net and tap | port / virtio-net |\n|---|---|---|---|");
    for (name, both) in names.iter().zip(&rows) {
        eprintln!("{}", row(name, both));
    }
    vfun_tests_vm::module::healthy(guest);
}

/// Where the second card of the guest is, and its number among devices.
const CARD: &str = "0000:00:05.0";
/// Seconds that each program is given to come to its speed, and that are measured.
const SETTLES: usize = 3;
const MEASURED: usize = 6;

/// testpmd of the host, which takes all that comes; it ends when it is dropped.
struct Sink(Child);

impl Sink {
    fn start(folder: &Path, device: &str, vhost: bool) -> (Sink, PathBuf) {
        let log = folder.join("sink");
        let out = File::create(&log).unwrap();
        let mut line = Command::new("dpdk-testpmd");
        line.args(["-l", "0,1", "--no-huge", "--no-pci", "--no-telemetry", "-m", "256"]);
        match vhost {
            true => line.args(["--file-prefix=vhost"]),
            false => line.arg("-d").arg(driver().expect("asked for")),
        };
        line.args(["--vdev", device, "--", "--total-num-mbufs=8192", "--mbcache=256"])
            .args(["--burst=32", "--stats-period=1", "--forward-mode=rxonly"])
            .env("RUNTIME_DIRECTORY", folder)
            .stdin(Stdio::piped())
            .stdout(out.try_clone().unwrap())
            .stderr(out);
        (Sink(line.spawn().unwrap()), log)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Frames a second that a sink took, once they come: the median second.
fn frames_a_second(log: &Path, guest: &Guest) -> f64 {
    let mut seconds = Vec::new();
    for _ in 0..60 {
        std::thread::sleep(std::time::Duration::from_secs(1));
        let text = std::fs::read_to_string(log).unwrap();
        let rates = text.lines().filter_map(|l| l.trim().strip_prefix("Rx-pps:"));
        let rates = rates.filter_map(|l| l.split_whitespace().next()?.parse().ok());
        seconds = rates.filter(|r| *r > 0.0).collect();
        if seconds.len() >= SETTLES + MEASURED {
            return median(seconds.split_off(SETTLES));
        }
    }
    panic!("{seconds:?}\n{}\n{}", std::fs::read_to_string(log).unwrap(), testpmd::said(guest))
}

/// A guest with a port for DPDK, and a card that a vhost-user back end of the host serves.
fn guest_of_dpdk(stand: &Stand, folder: &Path, card: &str) -> Guest {
    let doorbell = doorbell_client(stand, "vm0", "[ports.eth1]\nway = \"dpdk\"\n");
    let drivers = ["librte_bus_pci.so.23", "librte_net_virtio.so.23"];
    let mut config = testpmd::config("ports-testpmd-rate", vec![doorbell], &drivers);
    config.shared_memory = Some(folder.join("memory"));
    config.kernel_args.push_str(" hugepagesz=2M hugepages=80");
    config.spare_modules.push("uio_pci_generic".into());
    let socket = folder.join("vhost.sock");
    for words in [
        ["-chardev", &format!("socket,id=vh,path={},server=on", socket.display())],
        ["-netdev", "vhost-user,id=vu,chardev=vh"],
        [
            "-device",
            "virtio-net-pci,netdev=vu,romfile=,disable-legacy=on,addr=0x05,mac=52:54:00:08:00:02",
        ],
    ] {
        config.extra_args.extend(words.map(String::from));
    }
    // QEMU does not begin before a back end has connected once.
    let _sink = Sink::start(folder, card, true);
    let guest = boot(&config);
    testpmd::prepare(&guest);
    ok(
        &guest,
        &format!(
            "modprobe uio_pci_generic; echo {CARD} >/sys/bus/pci/devices/{CARD}/driver/unbind; echo uio_pci_generic >/sys/bus/pci/devices/{CARD}/driver_override && \
             echo {CARD} >/sys/bus/pci/drivers_probe && mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages"
        ),
    );
    guest
}

#[test]
fn testpmd_in_a_guest_beside_vhost() {
    let asked = is_asked() && driver().is_some();
    if !asked || !inside("ports_figures::testpmd_in_a_guest_beside_vhost") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let stand = Stand::with(&["--ports"]);
    let card = format!("net_vhost0,iface={},client=1", dir.path().join("vhost.sock").display());
    let guest = guest_of_dpdk(&stand, dir.path(), &card);
    let port =
        format!("net_vfun0,socket={},port=vm0.eth1", stand.root().join("ports.sock").display());
    for bytes in [64, 1500] {
        let sends = format!("--forward-mode=txonly --txpkts={bytes}");
        let mut both = Vec::new();
        for _ in 0..ROUNDS {
            let rates = [(&port, false), (&card, true)].map(|(device, vhost)| {
                let (_sink, log) = Sink::start(dir.path(), device, vhost);
                match vhost {
                    true => testpmd::start(&guest, &testpmd::card(CARD), &sends),
                    false => testpmd::start(&guest, &testpmd::own_port(""), &sends),
                }
                let rate = frames_a_second(&log, &guest) / 1e6;
                testpmd::end(&guest, "TERM");
                rate
            });
            both.push((rates[0], rates[1]));
        }
        eprintln!(
            "{}",
            row(
                &format!("testpmd from the VM, {bytes} B, million frames a second, beside vhost"),
                &both
            )
        );
    }
    vfun_tests_vm::module::healthy(&guest);
}
