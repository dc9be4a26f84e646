//! What the guest's kernel module lets programs map: ranges of channels, buffers,
//! and ranges in a link window that comes and goes.

use std::time::Duration;
use vfun_testguest::Guest;
use vfun_tests_vm::fakehost::{BYTES, Bend, FakeHost};
use vfun_tests_vm::module::{dmesg, healthy, hold, load, module_config, ok, said_by, sees, until};
use vfun_tests_vm::{LONG, boot};
use vfun_wire::header::{Role, WindowHeader};
use vfun_wire::range::{Access, Range};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

/// What `hold` writes all over the ranges that it may write.
const MARK: u64 = 0x5a5a_5a5a_5a5a_5a5a;
const EPROTO: i32 = 71;
const ENXIO: i32 = 6;

fn in_link(window: u16) -> Range {
    Range::new(window, Access::AppWrites, 8192, 4 * 4096)
}

#[test]
fn a_window_of_another_layout_is_refused_in_one_sentence() {
    for (layout, update) in [
        (1, "update VirtFun on the host (vfund)"),
        (3, "update VirtFun in this guest (the package virtfun-guest-dkms)"),
    ] {
        let host = FakeHost::of_layout(layout);
        let guest = boot(&module_config("layout", vec![host.doorbell()]));
        ok(&guest, "insmod /lib/vfun.ko; test ! -e /dev/vfun0");
        // 3: an error.
        let said = ok(&guest, "dmesg -r | grep 'vfun 0000'");
        let right = format!(
            "the window in BAR 2 has layout {layout}, and this module reads layout 2 alone: {update}"
        );
        assert!(said.lines().count() == 1 && said.starts_with("<3>"), "{said}");
        assert!(said.ends_with(&right), "{said}");
        healthy(&guest);
    }
}

#[test]
fn ranges_that_cannot_be_are_refused_and_nothing_else_is_harmed() {
    let bends: &[(&str, Bend, i32)] = &[
        ("an unknown access", |r| r[0].access = 4, EPROTO),
        ("no access", |r| r[1].access = 0, EPROTO),
        ("reserved bytes", |r| r[0].reserved0 = 1, EPROTO),
        ("more reserved bytes", |r| r[0].reserved1 = U32::new(1), EPROTO),
        ("no bytes", |r| r[0].bytes = U64::ZERO, EPROTO),
        ("half a page", |r| r[0].bytes = U64::new(2048), EPROTO),
        ("not at a page", |r| r[0].offset += 8, EPROTO),
        ("below the heap", |r| r[0].offset = U64::new(4096), EPROTO),
        ("the header", |r| r[0].offset = U64::ZERO, EPROTO),
        ("past the end", |r| r[0].offset = U64::new(BYTES - 4096), EPROTO),
        ("past 64 bits", |r| r[0].bytes = U64::new(u64::MAX - 4095), EPROTO),
        ("in itself", |r| r[1].offset = r[0].offset, EPROTO),
        ("partly in itself", |r| r[1].offset = r[0].offset + 4096, EPROTO),
        ("no ranges", |r| r.clear(), EPROTO),
        ("too many", |r| r.extend([r[0]; 7]), EPROTO),
        ("no head page", |r| r[1].access = Access::Both.to_wire(), EPROTO),
        ("no such window", |r| r[0].window = U16::new(7), ENXIO),
        ("a head page in a link", |r| r[1].window = U16::new(7), EPROTO),
    ];
    let host = FakeHost::start();
    let guest = boot(&module_config("ranges", vec![host.doorbell()]));
    load(&guest);
    for (what, bend, error) in bends {
        host.bend(*bend);
        let said = ok(&guest, "ranges /dev/vfun0 activate");
        assert_eq!(said, format!("activate {error}\nrelease 0"), "{what}: {}", dmesg(&guest));
    }
    host.bend(|_| {});
    assert_eq!(ok(&guest, "ranges /dev/vfun0 activate"), "activate 0\nrelease 0");
    healthy(&guest);
}

#[test]
fn a_channel_that_overlaps_another_ends_both() {
    let host = FakeHost::start();
    let guest = boot(&module_config("overlap", vec![host.doorbell()]));
    load(&guest);
    hold(&guest, "a", "/dev/vfun0");
    let first = |r: &mut Vec<Range>| {
        // All but the first page of the heap, where somebody's head is or is not.
        let heap = 90112u64;
        r[0] = Range::new(0, Access::AppWrites, heap, 8 * 2 * 24576);
        r[1] = Range::new(0, Access::HostWrites, heap + 8 * 2 * 24576, 4096);
    };
    host.bend(first);
    assert_eq!(ok(&guest, "ranges /dev/vfun0 activate"), "activate 71\nrelease 0");
    until("the held one's end", || said_by(&guest, "a").contains("broken 4"));
    host.bend(|_| {});
    hold(&guest, "b", "/dev/vfun0");
    healthy(&guest);
}

#[test]
fn buffers_are_their_owners_and_end_with_them() {
    let host = FakeHost::start();
    let guest = boot(&module_config("buffers", vec![host.doorbell()]));
    load(&guest);
    let out = guest.run("ranges /dev/vfun0 buffers", Duration::from_secs(300)).unwrap();
    assert_eq!(out.status, 0, "{}\n{}", out.text(), dmesg(&guest));
    println!("{}", out.text());
    until("all buffers given back", || host.buffers() == 0);

    // The host ends a grant by itself; the second time it has not rung yet.
    for (what, end) in [
        ("ended", FakeHost::end_channels as fn(&FakeHost)),
        ("unrung", FakeHost::end_channels_unrung),
    ] {
        assert_eq!(held_open(&guest, what, 1), "ready");
        end(&host);
        let_go(&guest);
        let seen = "for i in $(seq 500); do grep -q ranges: /tmp/said && break; usleep 20000; done; cat /tmp/said";
        let said = ok(&guest, seen);
        assert!(said.ends_with(" checks"), "{what}: {said}\n{}", dmesg(&guest));
    }

    // What a host says of a buffer is checked, and one that cannot be used given back.
    for (what, bend, error) in [
        ("who writes it", (|r| r[0].access = 1) as Bend, EPROTO),
        ("shorter than asked for", |r| r[0].bytes = U64::ZERO, EPROTO),
        ("past the end", |r| r[0].offset = U64::new(BYTES), EPROTO),
        ("in a window that is not there", |r| r[0].window = U16::new(7), ENXIO),
    ] {
        host.bend(bend);
        assert_eq!(held_open(&guest, "get", 1), format!("get {error}"), "{what}");
        until("the buffer given back, while its session lives", || host.buffers() == 0);
        let_go(&guest);
    }
    host.bend(|_| {});

    // One that has another's handle is not given back: that would end the other.
    host.repeat_handles(true);
    let said = format!("get 0\nget {EPROTO}\nfirst there");
    assert_eq!(held_open(&guest, "twice", 3), said);
    assert_eq!(host.buffers(), 2);
    let_go(&guest);
    until("the session's end", || host.buffers() == 0);
    healthy(&guest);
}

/// Starts `ranges` and waits until it has said so many lines, which it answers. Its
/// input ends, and with that its session, when it is [let go](let_go).
fn held_open(guest: &Guest, what: &str, lines: u32) -> String {
    let script = format!(
        "rm -f /tmp/go /tmp/said; mkfifo /tmp/go; sleep 1000 > /tmp/go 2>&1 & echo $! > /tmp/holder; \
         ranges /dev/vfun0 {what} < /tmp/go > /tmp/said 2>&1 & \
         until [ $(cat /tmp/said | wc -l) = {lines} ]; do usleep 20000; done; cat /tmp/said"
    );
    ok(guest, &script)
}

fn let_go(guest: &Guest) {
    ok(guest, "kill $(cat /tmp/holder)");
}

#[test]
fn further_windows_come_and_go_while_the_first_one_is_in_use() {
    let (host, link) = (FakeHost::start(), FakeHost::further(Role::Link, [7, 1]));
    let next = FakeHost::further(Role::Link, [8, 1]);
    let mut config = module_config("link", vec![host.doorbell()]);
    config.hotplug_ports = 2;
    let guest = boot(&config);
    load(&guest);
    assert!(sees(&guest, 0, &format!("role 1 bytes {BYTES} generation 1")));
    assert!(sees(&guest, 3, "error 2"));
    hold(&guest, "plain", "/dev/vfun0");

    // It is nobody's until the control window names it.
    guest.plug_doorbell(0, "link", &link.doorbell()).unwrap();
    host.names(4, 5, &next);
    ok(
        &guest,
        "until [ $(ls -d /sys/bus/pci/drivers/vfun/0000* | wc -l) = 2 ]; do usleep 20000; done",
    );
    assert!(sees(&guest, 3, "error 2") && sees(&guest, 5, "error 2"));
    assert!(host.here().is_empty(), "{:?}", host.here());
    host.names(0, 3, &link);
    until("the link", || sees(&guest, 3, &format!("role 2 bytes {BYTES} generation 1")));
    until("the host to be told", || host.here() == [7]);
    assert!(
        ok(&guest, "dmesg")
            .contains(&format!("VirtFun link window 3 of vfun0: {} MiB", BYTES >> 20))
    );
    guest.plug_doorbell(1, "next", &next.doorbell()).unwrap();
    until("the next", || sees(&guest, 5, "role 2"));
    until("the host to be told", || host.here() == [7, 8]);
    guest.unplug_doorbell("next", LONG).unwrap();
    until("the host to be told of its end", || host.here() == [7]);
    assert!(sees(&guest, 5, "error 2"));

    host.bend(|r| r.push(in_link(3)));
    hold(&guest, "linked", "/dev/vfun0");
    host.bend(|r| r.push(in_link(4)));
    assert_eq!(ok(&guest, "ranges /dev/vfun0 activate"), "activate 6\nrelease 0");
    // Page 0 of a link is the host's header.
    host.bend(|r| r.push(Range::new(3, Access::AppWrites, 0, 4096)));
    assert_eq!(ok(&guest, "ranges /dev/vfun0 activate"), "activate 71\nrelease 0");

    guest.unplug_doorbell("link", LONG).unwrap();
    let said = ok(
        &guest,
        "for i in $(seq 500); do grep -q held /tmp/linked.out && break; usleep 20000; done; cat /tmp/linked.out",
    );
    // 6: DEVICE_GONE; 32: EPIPE, for this channel alone; the session and its header stay.
    for line in ["broken 6", "magic 1", "ring 32", "request 0", "map 0", "info 0", "held"] {
        assert!(said.lines().any(|l| l == line), "no '{line}' in:\n{said}\n{}", dmesg(&guest));
    }
    assert!(sees(&guest, 3, "error 2"));
    assert!(host.here().is_empty(), "{:?}", host.here());

    // The next comes to lie at the same address. Who wrote into the first still does.
    host.names(4, 0, &next);
    host.names(0, 3, &next);
    host.bend(|r| r.push(in_link(3)));
    guest.plug_doorbell(0, "next", &next.doorbell()).unwrap();
    until("the next link", || sees(&guest, 3, "role 2"));
    let one = link.count(MARK);
    hold(&guest, "fresh", "/dev/vfun0");
    ok(&guest, "usleep 300000");
    assert_eq!((link.count(MARK), next.count(MARK)), (one, 0), "an old mapping reached a link");
    for name in ["plain", "fresh"] {
        assert!(!said_by(&guest, name).contains("broken"), "{}", said_by(&guest, name));
    }

    // Laid out anew: what was in it is over, the rest goes on.
    next.lay_out_anew();
    until("its end", || said_by(&guest, "fresh").contains("broken 5"));
    hold(&guest, "again", "/dev/vfun0");
    assert!(!said_by(&guest, "plain").contains("broken"));
    // Named no more, it is the same.
    host.names(0, 0, &next);
    until("its end", || said_by(&guest, "again").contains("broken 5"));
    host.names(0, 3, &next);
    until("the link", || sees(&guest, 3, "role 2"));
    hold(&guest, "named", "/dev/vfun0");

    // The control window's end ends what is in the link, too.
    let bdf = Guest::doorbell_bdf(0);
    ok(&guest, &format!("echo {bdf} > /sys/bus/pci/drivers/vfun/unbind"));
    until("the end of all", || {
        ["plain", "named"].iter().all(|n| said_by(&guest, n).contains("broken 6"))
    });
    ok(&guest, "kill $(cat /tmp/*.pid); sleep 0.3; rmmod vfun; insmod /lib/vfun.ko");
    // A link that is there first is known to the node that comes after it.
    ok(&guest, &format!("test -c /dev/vfun0 || echo {bdf} > /sys/bus/pci/drivers/vfun/bind"));
    until("the link", || sees(&guest, 3, "role 2"));
    until("the host to be told", || host.here() == [8]);
    hold(&guest, "last", "/dev/vfun0");
    healthy(&guest);
}

/// The peer of a link writes the link's header. Whatever it says there, the link does
/// not become the data window for whose number the host gives ranges.
#[test]
fn a_link_cannot_pass_for_the_data_window() {
    let (host, link) = (FakeHost::start(), FakeHost::further(Role::Link, [7, 1]));
    let data = FakeHost::further(Role::Data, [0x5ec2e7, 2]);
    let mut config = module_config("passes", vec![host.doorbell()]);
    config.hotplug_ports = 2;
    let guest = boot(&config);
    load(&guest);
    host.names(0, 1, &data);
    host.names(1, 2, &link);
    guest.plug_doorbell(0, "link", &link.doorbell()).unwrap();
    until("the link", || sees(&guest, 2, "role 2"));
    hold(&guest, "plain", "/dev/vfun0");
    // All that the peer can know: the layout, and its own key.
    let role = std::mem::offset_of!(WindowHeader, role) / 8 * 8;
    let first = u64::from_le_bytes(
        WindowHeader::further(Role::Data, BYTES, 1, [7, 1]).as_bytes()[role..role + 8]
            .try_into()
            .unwrap(),
    );
    link.store(role, first);
    until("the link's end", || sees(&guest, 2, "error 2"));
    // A guessed key is no better.
    link.store(std::mem::offset_of!(WindowHeader, key), 0x5ec2e7);
    ok(&guest, "usleep 1500000");
    assert!(sees(&guest, 1, "error 2"), "a link passes for the data window");
    host.bend(|r| r.push(in_link(1)));
    assert_eq!(ok(&guest, "ranges /dev/vfun0 activate"), "activate 6\nrelease 0");
    // The one that has the key does.
    guest.plug_doorbell(1, "data", &data.doorbell()).unwrap();
    until("the data window", || sees(&guest, 1, "role 3"));
    until("the host to be told", || host.here().contains(&0x5ec2e7));
    assert_eq!(ok(&guest, "ranges /dev/vfun0 activate"), "activate 0\nrelease 0");
    assert!(!said_by(&guest, "plain").contains("broken"));
    healthy(&guest);
}
