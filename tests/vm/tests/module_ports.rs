//! Ports: network interfaces of the guest's kernel module, with a host whose other ends
//! answer pings and check what comes.

use std::time::Duration;
use vfun_packet::layout::takes;
use vfun_packet::{NOTE_HEADER, Note};
use vfun_testguest::{Guest, GuestConfig};
use vfun_tests_vm::fakehost::{FakeHost, LARGE, Mood};
use vfun_tests_vm::module::{dmesg, healthy, hold, load, module_config, ok, said_by, until};
use vfun_tests_vm::{LONG, boot};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x22];
/// Reasons of a break.
const CRASH_LOOP: u64 = 2;
const RELEASED: u64 = 4;

/// A guest with the module and one port, `sw0`, with MTU 1400.
fn with_port(name: &str) -> (FakeHost, Guest) {
    with_port_of(module_config_of(name))
}

fn module_config_of(name: &str) -> (FakeHost, GuestConfig) {
    let host = FakeHost::start();
    host.names_port(0, 7, "sw0", MAC, 1400);
    let config = module_config(name, vec![host.doorbell()]);
    (host, config)
}

fn with_port_of((host, config): (FakeHost, GuestConfig)) -> (FakeHost, Guest) {
    let guest = boot(&config);
    load(&guest);
    appears(&guest, "sw0");
    (host, guest)
}

fn appears(guest: &Guest, name: &str) {
    until(name, || said(guest, &format!("test -e /sys/class/net/{name}; echo $?")) == "0");
}

fn goes(guest: &Guest, name: &str) {
    until("its end", || said(guest, &format!("test -e /sys/class/net/{name}; echo $?")) == "1");
}

fn said(guest: &Guest, script: &str) -> String {
    ok(guest, script)
}

/// Opens `sw0` with an address, and waits for its carrier.
fn open(guest: &Guest) {
    ok(guest, "ip link set sw0 up && ip addr add 10.9.0.2/24 dev sw0");
    carries(guest, "1");
}

fn carries(guest: &Guest, what: &str) {
    let script = "cat /sys/class/net/sw0/carrier 2>/dev/null || echo 0";
    until("the carrier", || said(guest, script) == what);
}

/// The other end answers; what is under way meanwhile may be lost.
fn pings(guest: &Guest) {
    let script = "for i in $(seq 20); do ping -c 1 -W 1 10.9.0.1 > /dev/null && exit 0; done; \
                  ip addr; portstats sw0; exit 1";
    ok(guest, script);
}

/// A count of the kernel's.
fn count(guest: &Guest, what: &str) -> u64 {
    ok(guest, &format!("cat /sys/class/net/sw0/statistics/{what}")).parse().expect("a number")
}

/// A count of ethtool's.
fn stat(guest: &Guest, what: &str) -> u64 {
    let all = ok(guest, "portstats sw0");
    let line = all.lines().find_map(|l| l.strip_prefix(&format!("{what} ")).map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {what} in {all}")).parse().expect("a number")
}

/// A frame for nobody's ears, of so many bytes.
fn frame(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0xa5; bytes];
    let head = [&MAC[..], &[2, 0, 0, 0, 0, 0x11], &[0x88, 0xb5]].concat();
    let n = head.len().min(bytes);
    frame[..n].copy_from_slice(&head[..n]);
    frame
}

/// Sends as fast as it can, in the background.
const FLOOD: &str = "flood 10.9.0.1 1300 > /dev/null 2>&1 & echo $! > /tmp/flood.pid; \
                     (while :; do ping -s 1200 -c 50 -W 1 10.9.0.1; done) > /dev/null 2>&1 & \
                     echo $! >> /tmp/flood.pid; usleep 300000";
const NO_FLOOD: &str = "kill $(cat /tmp/flood.pid); killall ping 2>/dev/null; true";

#[test]
fn a_port_is_an_interface_and_frames_go_both_ways() {
    let (host, guest) = with_port("port");
    assert_eq!(said(&guest, "cat /sys/class/net/sw0/address"), "02:00:00:00:00:22");
    assert_eq!(said(&guest, "cat /sys/class/net/sw0/mtu"), "1400");
    assert_eq!(host.ports_held(), 0, "a channel for an interface that is down");
    open(&guest);
    assert_eq!((host.ports_held(), host.ports_up()), (1, 1));
    let out = ok(&guest, "ping -c 20 -i 0.05 -s 1372 10.9.0.1");
    assert!(out.contains(" 0% packet loss"), "{out}");

    // A burst of each length, and those that cannot be.
    let (before, bytes) = (count(&guest, "rx_packets"), count(&guest, "rx_bytes"));
    let frames: Vec<Vec<u8>> = (14..=1418).step_by(108).map(frame).collect();
    let lengths: u64 = frames.iter().map(|f| f.len() as u64).sum();
    let burst: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    for _ in 0..100 {
        until("room", || host.sends(0, &burst[..1]) == 1);
        for f in &burst[1..] {
            until("room", || host.sends(0, &[f]) == 1);
        }
    }
    let all = 100 * frames.len() as u64;
    until("all frames", || count(&guest, "rx_packets") - before >= all);
    let got = count(&guest, "rx_bytes") - bytes;
    assert!(got >= 100 * lengths && got < 100 * lengths + 2000, "{got} of {}", 100 * lengths);
    let errors = count(&guest, "rx_length_errors");
    assert_eq!(host.sends(0, &[&frame(13), &frame(1419), &frame(1)]), 3);
    until("their count", || count(&guest, "rx_length_errors") == errors + 3);

    // Both sides count the same.
    let stats = ok(&guest, "portstats sw0");
    println!("{stats}");
    assert!(stats.starts_with("driver vfun\nbus 0000:") && stats.contains("\nlink 1\n"));
    let came = host.came();
    assert_eq!((came.wrong, came.channels), (0, 1), "{came:?}");
    assert!(came.pings >= 20, "{came:?}");
    // The guest's kernel may send something of its own between two looks.
    until("the same of what it sent", || stat(&guest, "sent") == stat(&guest, "host_taken"));
    assert_eq!(stat(&guest, "taken") + stat(&guest, "refused"), stat(&guest, "host_sent"));
    assert_eq!((stat(&guest, "refused"), stat(&guest, "bad")), (3, 0));
    assert!(stat(&guest, "rings") > 0 && stat(&guest, "rung") > 0);
    assert_eq!((stat(&guest, "full"), stat(&guest, "host_bad")), (0, 0));

    // The host takes 9018 bytes; the ring has room for longer ones.
    assert!(guest.run("ip link set sw0 mtu 9001", LONG).unwrap().status != 0);
    ok(&guest, "ip link set sw0 mtu 9000");
    let out = ok(&guest, "ping -c 5 -i 0.05 -s 8972 10.9.0.1");
    assert!(out.contains(" 0% packet loss"), "{out}");
    let before = count(&guest, "rx_packets");
    assert_eq!(host.sends(0, &[&frame(9018)]), 1);
    until("a long one", || count(&guest, "rx_packets") > before);

    host.carrier(false);
    carries(&guest, "0");
    host.carrier(true);
    carries(&guest, "1");
    ok(&guest, "ip link set sw0 down");
    until("its release", || host.ports_held() == 0);
    ok(&guest, "ip link set sw0 up");
    carries(&guest, "1");
    pings(&guest);
    assert_eq!(host.came().wrong, 0);
    healthy(&guest);
}

/// Checksums are left to a host that takes such frames, and large packets of TCP; those of the host are heeded.
#[test]
fn frames_that_are_not_whole_go_both_ways() {
    let (host, guest) = with_port("notes");
    // The other one has a small ring, and takes none.
    host.names_port(LARGE.into(), 9, "big0", MAC, 1500);
    appears(&guest, "big0");
    ok(&guest, "ip link set big0 up && ip addr add 10.9.0.2/24 dev big0");
    until("the carrier", || said(&guest, "cat /sys/class/net/big0/carrier") == "1");
    assert_eq!(host.guest_takes(LARGE), Some(takes::ALL));
    ok(&guest, "ping -c 3 -W 2 10.9.0.1");
    ok(&guest, "flood 10.9.0.1 1300 200; sleep 1");
    let came = host.came();
    assert!(came.unsummed >= 200 && came.wrong == 0, "{came:?}");
    takes_whole_frames(&host, &guest);
    // A packet that is to be cut comes as one, however long: IP counts the bytes.
    let rx = |what: &str| -> u64 {
        ok(&guest, &format!("cat /sys/class/net/big0/statistics/{what}")).parse().unwrap()
    };
    let (packets, bytes) = (rx("rx_packets"), rx("rx_bytes"));
    let all = [cut(100), cut(3000), cut(60_000)];
    assert_eq!(host.sends_noted(LARGE, &all), 3);
    until("they came", || rx("rx_packets") >= packets + 3);
    assert!(rx("rx_bytes") - bytes >= 63_000);
    assert_eq!(rx("rx_errors"), 0);
    // What makes no sense is dropped and counted.
    let wrong: [(usize, u8); 5] = [(1, 3), (1, 0x81), (0, 5), (7, 0xff), (8, 0xff)];
    for (n, (at, value)) in wrong.into_iter().enumerate() {
        let (note, frame) = cut(3000);
        let mut header = *note.header();
        header[at] = value;
        assert_eq!(host.sends_noted(LARGE, &[(Note::new(header), frame)]), 1);
        until("its count", || rx("rx_errors") == n as u64 + 1);
    }
    // Any note at all: the kernel heeds it or drops it, and lives.
    host.mood(Mood::BadPorts);
    for _ in 0..5 {
        ok(&guest, "sleep 1; portstats big0 > /dev/null");
    }
    println!("{}", ok(&guest, "portstats big0; ifconfig big0; dmesg | tail -20"));
    host.mood(Mood::Sane);
    host.lay_out_anew();
    healthy(&guest);
}

/// Another service of the host may take other frames than the one before, and no link went down between.
fn takes_whole_frames(host: &FakeHost, guest: &Guest) {
    host.takes(LARGE, 0);
    // What it says is looked at when it rings.
    ok(guest, "ping -c 2 -W 2 10.9.0.1; sleep 1");
    let before = host.came();
    ok(guest, "flood 10.9.0.1 1300 200; sleep 1");
    let came = host.came();
    assert!(came.frames >= before.frames + 200, "{came:?}");
    assert_eq!((came.unsummed, came.wrong), (before.unsummed, 0), "{came:?}");
    host.takes(LARGE, takes::ALL);
    ok(guest, "ping -c 2 -W 2 10.9.0.1; sleep 1; flood 10.9.0.1 1300 200; sleep 1");
    let last = host.came();
    assert!(last.unsummed >= came.unsummed + 200 && last.wrong == 0, "{last:?}");
}

/// A packet of TCP over IPv4 that is to be cut into segments of 1000 bytes, and its note.
fn cut(payload: usize) -> (Note, Vec<u8>) {
    let mut frame = frame(54 + payload);
    frame[12..14].copy_from_slice(&[8, 0]);
    let bytes = (40 + payload) as u16;
    let ip = [0x45, 0, 0, 0, 0, 9, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
    frame[14..34].copy_from_slice(&ip);
    frame[16..18].copy_from_slice(&bytes.to_be_bytes());
    frame[34..54]
        .copy_from_slice(&[0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    let mut header = [0; NOTE_HEADER];
    header[..2].copy_from_slice(&[1, u8::from(payload > 1000)]);
    for (at, value) in [(2, 54), (4, 1000), (6, 34), (8, 16)] {
        header[at..at + 2].copy_from_slice(&u16::to_le_bytes(value));
    }
    (Note::new(header), frame)
}

#[test]
fn many_frames_at_once_wait_and_none_is_lost() {
    let (host, guest) = with_port("flood");
    open(&guest);
    pings(&guest);
    // A host that takes nothing for a while: the queue stops, and goes on by itself.
    host.mood(Mood::Silent);
    let before = host.came().frames;
    // So many that those which wait fit into the socket's room.
    ok(&guest, "flood 10.9.0.1 1300 100 & sleep 1");
    assert!(stat(&guest, "queue_stops") > 0);
    host.mood(Mood::Sane);
    until("all that waited", || host.came().frames >= before + 100);
    println!("{}\n{:?}", ok(&guest, "portstats sw0; ifconfig sw0"), host.came());
    assert_eq!((stat(&guest, "full"), host.came().wrong), (0, 0));
    assert_eq!(count(&guest, "tx_dropped"), 0);
    healthy(&guest);
}

#[test]
fn interfaces_come_and_go_with_the_table() {
    let (host, guest) = with_port("table");
    // Names that cannot be, or are taken; an address that cannot be; a length that cannot.
    host.names_port(1, 8, "no/name", [3, 0, 0, 0, 0, 1], 0);
    appears(&guest, "vfun0");
    host.names_port(2, 9, "sw0", [2, 0, 0, 0, 0, 1], 65535);
    appears(&guest, "vfun1");
    let said_of = |name: &str| {
        let script = format!("cd /sys/class/net/{name} && cat address mtu dev_port");
        ok(&guest, &script).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let first = said_of("vfun0");
    assert!(first[0] != "03:00:00:00:00:01" && first[1..] == ["1500", "1"], "{first:?}");
    // Half a ring, less what is in front of a frame.
    assert_eq!(said_of("vfun1"), ["02:00:00:00:00:01", "32742", "2"]);
    let log = dmesg(&guest);
    assert!(log.contains("\"no/name\", which is no interface's name"), "{log}");
    assert!(log.contains("\"sw0\", which is taken"), "{log}");

    open(&guest);
    ok(&guest, FLOOD);
    let before = host.came().frames;
    until("frames", || host.came().frames > before + 200);
    // Another port at the same place is another interface.
    host.names_port(0, 10, "sw5", MAC, 1400);
    appears(&guest, "sw5");
    goes(&guest, "sw0");
    until("its release", || host.ports_held() == 0);
    ok(&guest, NO_FLOOD);
    for place in 0..3 {
        host.names_port(place, 0, "", MAC, 0);
    }
    for name in ["sw5", "vfun0", "vfun1"] {
        goes(&guest, name);
    }
    // The session went, too.
    std::thread::sleep(Duration::from_millis(1500));
    let beats = host.heartbeats();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(host.heartbeats(), beats, "a session without ports");
    healthy(&guest);
}

#[test]
fn a_channel_that_ends_comes_back() {
    let (host, guest) = with_port("broken");
    open(&guest);
    hold(&guest, "a", "/dev/vfun0");
    for (n, reason) in [CRASH_LOOP, RELEASED, CRASH_LOOP].into_iter().enumerate() {
        pings(&guest);
        let channels = host.came().channels;
        host.breaks_ports(reason);
        until("another channel", || host.came().channels > channels && host.ports_up() == 1);
        println!("{n}: {:?}", host.came());
    }
    pings(&guest);
    // The window made again: the interface stays, with its address.
    for _ in 0..2 {
        host.lay_out_anew();
        until("another channel", || host.ports_up() == 1);
        pings(&guest);
    }
    assert!(said_by(&guest, "a").contains("broken 5"));
    // A host that does not answer for a while.
    host.mood(Mood::Silent);
    host.breaks_ports(CRASH_LOOP);
    carries(&guest, "0");
    ok(&guest, "sleep 3");
    host.mood(Mood::Sane);
    let end = std::time::Instant::now() + Duration::from_secs(40);
    while host.ports_up() == 0 && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    pings(&guest);
    // An ack that cannot be is given back.
    host.bend(|r| r[1].bytes += 4096);
    host.breaks_ports(CRASH_LOOP);
    carries(&guest, "0");
    until("its release", || host.ports_held() == 0);
    host.bend(|_| {});
    ok(&guest, "ip link set sw0 down; ip link set sw0 up");
    carries(&guest, "1");
    assert_eq!(host.came().wrong, 0);
    healthy(&guest);
}

#[test]
fn it_goes_under_traffic() {
    let (host, mut config) = module_config_of("under");
    config.doorbells.clear();
    config.hotplug_ports = 1;
    let guest = boot(&config);
    ok(&guest, "insmod /lib/vfun.ko");
    let frames: Vec<Vec<u8>> = (0..30).map(|_| frame(1000)).collect();
    let burst: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let both_ways = || {
        let before = host.came().frames;
        until("frames", || {
            host.sends(0, &burst);
            host.came().frames > before + 100
        });
    };
    for round in 0..3 {
        guest.plug_doorbell(0, "vf", &host.doorbell()).unwrap();
        appears(&guest, "sw0");
        open(&guest);
        ok(&guest, FLOOD);
        both_ways();
        let resets = host.requests().1;
        match round {
            0 => guest.unplug_doorbell("vf", LONG).unwrap(),
            1 => {
                ok(&guest, "rmmod vfun && insmod /lib/vfun.ko");
                appears(&guest, "sw0");
                open(&guest);
                both_ways();
                guest.unplug_doorbell("vf", LONG).unwrap();
            }
            _ => {
                // Closed and opened under traffic, then taken off the driver.
                ok(
                    &guest,
                    "for i in $(seq 20); do ip link set sw0 down; ip link set sw0 up; usleep 100000; done",
                );
                ok(&guest, &format!("echo {} > /sys/bus/pci/drivers/vfun/unbind", place(&guest)));
                goes(&guest, "sw0");
            }
        }
        until("a farewell", || host.requests().1 > resets);
        assert_eq!(host.ports_held(), 0);
        goes(&guest, "sw0");
        ok(&guest, NO_FLOOD);
        healthy(&guest);
    }
    ok(&guest, "rmmod vfun");
    assert_eq!(host.came().wrong, 0, "{:?}", host.came());
    healthy(&guest);
}

/// The device's place on the bus.
fn place(guest: &Guest) -> String {
    ok(guest, "cd /sys/bus/pci/drivers/vfun && ls -d 0000*")
}

#[test]
fn a_host_that_writes_anything_crashes_nothing() {
    let (host, guest) = with_port("anything");
    open(&guest);
    ok(&guest, FLOOD);
    host.mood(Mood::BadPorts);
    for _ in 0..10 {
        ok(&guest, "sleep 1; portstats sw0 > /dev/null");
    }
    println!("{}", ok(&guest, "portstats sw0; ifconfig sw0"));
    assert!(stat(&guest, "bad") > 100 && stat(&guest, "taken") > 1000, "too little came");
    assert!(stat(&guest, "sent") > 1000, "too little was sent");
    host.mood(Mood::Nonsense);
    for _ in 0..5 {
        ok(&guest, "sleep 1; ip link set sw0 down; ip link set sw0 up");
    }
    host.mood(Mood::Sane);
    host.lay_out_anew();
    ok(&guest, NO_FLOOD);
    healthy(&guest);
    ok(&guest, "ip link set sw0 down; ip link set sw0 up");
    carries(&guest, "1");
    pings(&guest);
    ok(&guest, "rmmod vfun");
    healthy(&guest);
}

#[test]
fn it_sleeps_and_wakes() {
    let (host, guest) = with_port("sleeps");
    open(&guest);
    for n in 1..=3 {
        // All of a hibernation but the last step: see module.rs.
        assert!(guest.run("echo disk > /sys/power/state", LONG).unwrap().status != 0);
        let images = ok(&guest, "dmesg | grep -c 'hibernation: Creating image'");
        assert_eq!(images, n.to_string());
        carries(&guest, "1");
        pings(&guest);
        assert_eq!(stat(&guest, "channels"), n + 1);
    }
    assert_eq!((host.came().channels, host.came().wrong), (1, 0));
    healthy(&guest);
}
