//! What a VF gains for servers of Debian, as their packages have them, on a real path: the VF
//! is a port of a stock Open vSwitch with DPDK. It comes into a VM and goes again, in turns
//! with measurements.
//!
//! It measures, so it demands nothing of any time; but all requests must be answered. It
//! needs what tests/servers.sh fetches, so only `make test-all` runs it.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use vfun_tests_local::Stand;
use vfun_tests_vm::cli::json;
use vfun_tests_vm::flow::Way;
use vfun_tests_vm::module::ok;
use vfun_tests_vm::netns::{inside, ip};
use vfun_tests_vm::netprograms::servers::{
    self, Bare, Change, Figures, Latency, Route, SERVERS, Server, change,
};
use vfun_tests_vm::netprograms::{files, install};
use vfun_tests_vm::nics::{More, Net, Vm, until_free, until_holds};
use vfun_tests_vm::openvswitch::{OpenVSwitch, programs};

/// Slices by the paravirtual NIC, and as many by the VF, in turns, unless it is said.
const ROUNDS: usize = 5;
/// How long a server is asked in one of them.
const SLICE: Duration = Duration::from_secs(2);
/// The same for what is only there for comparison.
const COMPARED: Duration = Duration::from_secs(1);
/// How long a server is asked while the VF comes or goes.
const MOVES: Duration = Duration::from_secs(4);
/// Time between two packets of the test's own, which are only to be there.
const EVERY: Duration = Duration::from_secs(1);
/// Room for all servers, and for the package that they come in, MiB.
const MEMORY_MIB: u32 = 1536;
/// The VM's emulated NIC: its tap, its address and the host's in a network of their own.
const TAP: [&str; 2] = ["em0", "fe:54:00:09:01:00"];
const EMULATED: [&str; 2] = ["10.8.0.10", "10.8.0.1"];
const LOOPBACK: &str = "127.0.0.1";

/// The VM with the servers, which has an emulated NIC besides, and a VM that does nothing.
fn start(stand: &Stand, packed: PathBuf) -> Vec<Vm> {
    let nic = "e1000e,netdev=em,romfile=,addr=0x06,mac=52:54:00:09:01:00";
    // The switch adds no checksums, so QEMU has to.
    let tap = format!("tap,id=em,ifname={},script=no,downscript=no,vnet_hdr=off", TAP[0]);
    let busy = More {
        files: files(packed),
        memory_mib: Some(MEMORY_MIB),
        modules: vec!["e1000e"],
        arguments: ["-netdev", &tap, "-device", nic].map(String::from).to_vec(),
    };
    std::thread::scope(|s| {
        let vms = [(0, busy), (1, More::default())].map(|(n, more)| {
            s.spawn(move || Vm::start_with(stand, n, Net::Switch, Way::Answered, EVERY, more))
        });
        vms.into_iter().map(|vm| vm.join().expect("it says why it fails")).collect()
    })
}

/// The servers and all their ways.
fn serve(stand: &Stand, switch: &OpenVSwitch, vms: &[Vm], bare: &mut Bare) {
    let guest = &vms[0].guest;
    // Two of its NICs are in the same switch: each answers for its own address.
    ok(guest, "echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore");
    ok(guest, &format!("ip link set eth1 up && ip addr add {}/24 dev eth1", EMULATED[0]));
    install(guest);
    for server in &SERVERS {
        server.serve(guest);
        server.serve_bare(bare);
    }
    let folder = switch.folder().to_str().expect("UTF-8");
    json(stand, &["nics", "pool", "add", "cards", "--vhost-user", "1", "--switch", folder]);
    json(stand, &["nics", "set", "cards", "none", "--interval", "1s", "--tenure", "1s"]);
    (0..).zip(vms).for_each(|(n, vm)| vm.declare(stand, n));
}

/// One slice of each server by this path.
fn slices(all: &mut [Figures], path: Route, address: &str, long: Duration) {
    for (figures, server) in all.iter_mut().zip(&SERVERS) {
        let slice = server.measure(address, long).unwrap_or_else(|why| panic!("{why}"));
        eprintln!("{path:?}: {}: {slice:?}", server.name);
        figures.add(path, slice);
    }
}

/// Gives the VM the VF or takes it away while a server is asked.
fn moves(stand: &Stand, vm: &Vm, what: &str, server: &Server, figures: &mut Figures) {
    let (asked, in_time) = std::thread::scope(|s| {
        let asks = s.spawn(|| server.measure(&Vm::address(0), MOVES));
        vm.pins(stand, what);
        (if what == "pin" { until_holds } else { until_free })(stand, vm);
        let in_time = !asks.is_finished();
        (asks.join().expect("it says why it fails"), in_time)
    });
    eprintln!("{what} while {} is asked (in time: {in_time}): {asked:?}", server.name);
    figures.moved(asked.unwrap_or_else(|why| panic!("while the VF moved: {why}")), in_time);
}

fn rounds() -> usize {
    match std::env::var("VFUN_SERVERS_ROUNDS") {
        Ok(text) => text.parse().expect("VFUN_SERVERS_ROUNDS is a number"),
        Err(_) => ROUNDS,
    }
}

fn measure(stand: &Stand, vm: &Vm) -> Vec<Figures> {
    let mut all: Vec<Figures> = SERVERS.iter().map(Figures::new).collect();
    let mut turn = (0..SERVERS.len()).cycle();
    let mut next = || turn.next().expect("for ever");
    for _ in 0..rounds() {
        slices(&mut all, Route::Bare, LOOPBACK, COMPARED);
        slices(&mut all, Route::Emulated, EMULATED[0], COMPARED);
        slices(&mut all, Route::Paravirtual, &Vm::address(0), SLICE);
        let n = next();
        moves(stand, vm, "pin", &SERVERS[n], &mut all[n]);
        slices(&mut all, Route::Vf, &Vm::address(0), SLICE);
        let n = next();
        moves(stand, vm, "ban", &SERVERS[n], &mut all[n]);
    }
    all
}

/// The idle VM has the VF; the other one becomes busy. Nobody says that it is to have the VF.
fn by_activity(stand: &Stand, vms: &[Vm]) -> Change {
    let begin = Instant::now();
    vms[1].pins(stand, "pin");
    until_holds(stand, &vms[1]);
    let told = begin.elapsed();
    vms[0].pins(stand, "free");
    json(stand, &["nics", "set", "cards", "activity", "--interval", "2s", "--tenure", "2s"]);
    let moves = || {
        vms[1].pins(stand, "free");
        until_holds(stand, &vms[0]);
    };
    change(&Vm::address(0), told, moves).unwrap_or_else(|why| panic!("{why}"))
}

/// All requests were answered. Where nobody sends again what is lost it is only shown: a busy
/// machine loses some by itself, and there is no control here beside each move, as
/// `nics_openvswitch` has, which judges that.
fn all_answered(all: &[Figures], change: &Change) {
    for (figures, server) in all.iter().zip(&SERVERS) {
        let (still, moved) = (figures.failed(), figures.failed_moving);
        if !server.datagrams {
            assert_eq!((still, moved), (0, 0), "{}: not answered", server.name);
        } else if still + moved > 0 {
            let name = server.name;
            eprintln!(
                "\n*** {name}: {still} lost while nothing moved, {moved} in moves: NOT JUDGED ***\n"
            );
        }
    }
    assert_eq!(change.failed, 0, "MariaDB, while it got the VF by its activity");
}

#[test]
fn a_percentile_is_what_so_many_answers_took_at_most() {
    let of = |l: Latency| (l.answered, l.failed, l.p50_us, l.p99_us);
    let each = Latency::of_each((1..=100).rev().map(f64::from), 3);
    assert_eq!(of(each), (100, 3, 50.0, 99.0));
    let often = Latency::of(vec![(9.0, 2), (1.0, 98)], 0);
    assert_eq!(of(often), (100, 0, 1.0, 9.0));
    assert_eq!(Latency::of_each(std::iter::empty(), 3).answered, 0);
}

#[test]
fn servers_gain_by_a_vf() {
    let test = "nics_servers::servers_gain_by_a_vf";
    let (Some(programs), Some(to)) = (programs(), std::env::var_os("VFUN_SERVERS_JSON")) else {
        eprintln!("\n*** {test} IS NOT TESTED here: tests/servers.sh runs it ***\n");
        return;
    };
    if !inside(test) {
        return;
    }
    // Before anything of ours runs.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    let mut bare = Bare::unpack();
    SERVERS.iter().for_each(|server| server.begin(&mut bare));
    bare.stop();
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("servers.tar");
    bare.pack(&packed);
    let stand = Stand::with(&["--nics"]);
    let switch = OpenVSwitch::start(programs, &stand.root().join("ovs"));
    switch.network(2);
    switch.tap(TAP[0], TAP[1]);
    ip(&format!("addr add {}/24 dev br0", EMULATED[1]));
    let vms = start(&stand, packed);
    serve(&stand, &switch, &vms, &mut bare);
    let all = measure(&stand, &vms[0]);
    let change = by_activity(&stand, &vms);
    let json = servers::json(&all, &change, load.trim());
    std::fs::write(to, format!("{json:#}\n")).unwrap();
    eprintln!("\n{}\n", servers::text(&all, &change, load.trim()));
    all_answered(&all, &change);
}
