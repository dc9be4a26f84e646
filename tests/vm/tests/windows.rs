//! A data window of a real manager, in and out of a guest by `vfun attach` and `detach`,
//! while programs of the guest call functions through the first window.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use vfun_testguest::{Doorbell, Guest, GuestConfig};
use vfun_tests_local::huge::{self, HUGE, HugePages};
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::boot;
use vfun_tests_vm::cli::{asked, json};
use vfun_tests_vm::module::{
    dmesg, doorbell_client, healthy, load, module_config, ok, said_by, until,
};
use vfun_wire::header::FURTHER_HEAP_OFF;

/// Calls of the one channel that is in use all the time; and that it goes on.
fn calls(stand: &Stand) -> u64 {
    let grants = stand.grants();
    let echo = grants.iter().find(|g| g.function == "echo");
    let echo = echo.unwrap_or_else(|| panic!("the channel is gone:\n{}", stand.log()));
    assert_eq!((echo.restarts, echo.counters.errors), (0, 0), "{echo:?}");
    echo.counters.calls
}

fn calls_go_on(stand: &Stand, guest: &Guest) {
    let before = calls(stand);
    until("another call", || calls(stand) > before);
    ok(guest, "kill -0 $(cat /tmp/calls.pid)");
    assert_eq!(said_by(guest, "calls"), "begun", "{}", dmesg(guest));
}

/// A program in the guest with a buffer: says where that lies, and goes on at a word.
struct Bulk<'a> {
    guest: &'a Guest,
    name: &'static str,
    lines: usize,
}

impl<'a> Bulk<'a> {
    fn start(guest: &'a Guest, name: &'static str) -> (Self, String) {
        let script = format!(
            "rm -f /tmp/{name}.in; : > /tmp/{name}.out; mkfifo /tmp/{name}.in; \
             sleep 1000 > /tmp/{name}.in 2>&1 & echo $! > /tmp/{name}.holder; \
             ranges /dev/vfun0 bulk < /tmp/{name}.in > /tmp/{name}.out 2>&1 &"
        );
        ok(guest, &script);
        let mut bulk = Bulk { guest, name, lines: 0 };
        let place = bulk.next();
        (bulk, place)
    }

    fn next(&mut self) -> String {
        self.lines += 1;
        let (name, n) = (self.name, self.lines);
        let script = format!(
            "for i in $(seq 500); do [ $(wc -l < /tmp/{name}.out) -ge {n} ] && break; usleep 20000; done; \
             sed -n {n}p /tmp/{name}.out"
        );
        ok(self.guest, &script)
    }

    /// The first word of the buffer and whether it goes on, once this was written to its
    /// second page.
    fn word(&mut self, write: u64) -> String {
        ok(self.guest, &format!("echo {write:x} > /tmp/{}.in", self.name));
        self.next()
    }

    fn end(mut self) {
        ok(self.guest, &format!("kill $(cat /tmp/{}.holder)", self.name));
        self.next();
    }
}

fn app_config(name: &str, doorbell: Doorbell) -> GuestConfig {
    let mut c = module_config(name, vec![doorbell]);
    c.files.push((programs().join("vfun-vm-app"), "/usr/bin/vfun-vm-app".into()));
    c
}

fn place(offset: &str) -> u64 {
    offset.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("an offset")
}

/// A guest without the module never says that it has a window, which is taken out again.
fn taken_out_again(stand: &Stand, qmp: &str) {
    done(stand, &["window", "add", "early", "--vm", "vm1", "--size", "1MiB"]);
    let words = ["attach", "--qmp", qmp, "--window", "early", "--timeout", "1"];
    let (code, said) = vfun(stand, &words);
    let what = said["error"]["what"].as_str().unwrap_or_default();
    assert!(code == 5 && what.contains("was taken out of"), "{said}");
    assert_eq!(done(stand, &["detach", "--qmp", qmp, "--window", "early"])["already"], true);
    done(stand, &["window", "remove", "early"]);
}

#[test]
fn a_data_window_comes_and_goes_while_calls_go_on() {
    let mut stand = Stand::start();
    let qmp = stand.root().join("second.qmp").display().to_string();
    let doorbell = doorbell_client(&stand, "vm1", "");
    let guest = boot(&GuestConfig {
        hotplug_ports: 2,
        extra_args: vec!["-qmp".into(), format!("unix:{qmp},server=on,wait=off")],
        ..app_config("windows", doorbell)
    });
    taken_out_again(&stand, &qmp);
    load(&guest);
    ok(
        &guest,
        "vfun-vm-app loop echo 0102 3600 > /tmp/calls.out 2>/dev/null & echo $! > /tmp/calls.pid",
    );
    until("calls", || {
        let said = said_by(&guest, "calls");
        assert!(said.is_empty() || said == "begun", "{said}\n{}", dmesg(&guest));
        stand.grants().iter().any(|g| g.counters.calls > 0)
    });
    let (first, at) = Bulk::start(&guest, "first");
    assert!(at.starts_with("window 0 "), "{at}");
    first.end();

    let added = json(&stand, &["window", "add", "bulk", "--vm", "vm1", "--size", "4MiB"]);
    assert_eq!((&added["index"], &added["here"]), (&1.into(), &false.into()), "{added}");
    let file = PathBuf::from(added["file"].as_str().unwrap());
    let memory = File::options().read(true).write(true).open(&file).unwrap();
    let host = |offset: u64| {
        let mut word = [0; 8];
        memory.read_exact_at(&mut word, offset).unwrap();
        u64::from_le_bytes(word)
    };

    for round in 0..2 {
        let words = |what| [what, "--qmp", qmp.as_str(), "--window", "bulk"];
        let plugged = json(&stand, &words("attach"));
        assert_eq!((&plugged["attached"], &plugged["connected"]), (&true.into(), &true.into()));
        println!(
            "plugged in {} ms, there after {} ms",
            plugged["took_ms"], plugged["connected_ms"]
        );
        assert_eq!(json(&stand, &words("attach"))["already"], true);
        calls_go_on(&stand, &guest);

        let (mut bulk, at) = Bulk::start(&guest, "bulk");
        assert!(at.starts_with("window 1 "), "{at}\n{}\n{}", dmesg(&guest), stand.log());
        let at = place(&at);
        // What was there before is not seen.
        assert_eq!(bulk.word(0xbee), "word 0 check 0");
        memory.write_all_at(&0x5eed_u64.to_le_bytes(), at).unwrap();
        assert_eq!(bulk.word(0xbeef), "word 5eed check 0");
        assert_eq!(host(at + 4096), 0xbeef, "what the guest writes is in the window's file");
        assert_eq!(json(&stand, &["window", "show", "bulk"])["buffers"], 1, "{}", stand.log());
        if round == 1 {
            // Another manager goes on with it.
            stand.kill_vfund();
            assert_eq!(bulk.word(0xcafe), "word 5eed check 0");
            stand.start_vfund();
            let row = json(&stand, &["window", "show", "bulk"]);
            assert_eq!((&row["here"], &row["buffers"]), (&true.into(), &1.into()), "{row}");
            assert_eq!(bulk.word(0xcafe), "word 5eed check 0");
            calls_go_on(&stand, &guest);
            let (second, at) = Bulk::start(&guest, "second");
            assert!(at.starts_with("window 1 "), "{at}");
            second.end();
        }

        // A program with the library, and a driver of the host.
        ok(&guest, "(vfun-vm-app bulk; echo exit $?) > /tmp/app.out 2>/tmp/app.err &");
        until("the driver to fill it", || said_by(&guest, "app").contains("filled 12288"));

        let gone = json(&stand, &words("detach"));
        assert_eq!((&gone["attached"], &gone["already"]), (&false.into(), &false.into()));
        // 32: EPIPE. The page is the program's own now.
        assert!(bulk.word(0xdead).ends_with(" check 32"), "{}", said_by(&guest, "bulk"));
        assert_ne!(host(at + 4096), 0xdead, "it reaches the window still");
        let row = json(&stand, &["window", "show", "bulk"]);
        assert_eq!((&row["here"], &row["buffers"]), (&false.into(), &0.into()), "{row}");
        bulk.end();
        until("the program to see it", || said_by(&guest, "app").contains("the driver: true"));
        let said = said_by(&guest, "app");
        assert!(said.contains("was taken out of this machine"), "{said}");
        until("its end", || said_by(&guest, "app").ends_with("exit 0"));
        assert_eq!(json(&stand, &words("detach"))["already"], true);
        calls_go_on(&stand, &guest);
        let (first, at) = Bulk::start(&guest, "first");
        assert!(at.starts_with("window 0 "), "{at}");
        first.end();
    }

    // Declared no more while it is there: what lies in it ends.
    json(&stand, &["attach", "--qmp", &qmp, "--window", "bulk"]);
    let (mut bulk, at) = Bulk::start(&guest, "bulk");
    assert!(at.starts_with("window 1 "), "{at}");
    json(&stand, &["window", "remove", "bulk"]);
    assert!(!file.exists());
    until("its end", || bulk.word(1).ends_with(" check 32"));
    bulk.end();
    let (code, said) = asked(&stand, &["attach", "--qmp", &qmp, "--window", "bulk"]);
    assert_eq!(code, 3, "{said}");
    calls_go_on(&stand, &guest);
    healthy(&guest);
}

/// A window that needs more huge pages than there are is refused, with what to do, and
/// nothing is left of it.
fn too_much(stand: &Stand) {
    let bytes = ((huge::free() + 1) * HUGE).next_power_of_two();
    let size = format!("{}MiB", bytes >> 20);
    let words = ["window", "add", "toomuch", "--vm", "vm1", "--size", &size, "--pages", "2MiB"];
    let (code, said) = asked(stand, &words);
    assert_ne!(code, 0, "{said}");
    assert!(said.to_string().contains("sysctl vm.nr_hugepages="), "{said}");
    let left = json(stand, &["window", "list"]);
    assert!(!left.to_string().contains("toomuch"), "{left}");
}

/// Where the bytes of one kind lie after the header of a window's file: in one piece.
fn piece(file: &Path, byte: u8) -> (u64, u64) {
    let mut all = std::fs::read(file).unwrap();
    all[..FURTHER_HEAP_OFF].fill(0);
    let at = all.iter().position(|b| *b == byte).expect("it is in the file");
    let len = all[at..].iter().take_while(|b| **b == byte).count();
    assert_eq!(all.iter().filter(|b| **b == byte).count(), len, "{byte:x} is in pieces");
    (at as u64, len as u64)
}

#[test]
fn contiguous_buffers_lie_in_huge_pages() {
    const PART: u64 = HUGE / 4 * 3;
    let mut stand = Stand::start();
    let doorbell = doorbell_client(&stand, "vm1", "");
    let pages = HugePages::take(4);
    too_much(&stand);
    if let Err(why) = &pages {
        println!("not tried, this machine has no huge pages: {why}");
        return;
    }
    let before = huge::free();
    let add = ["window", "add", "big", "--vm", "vm1", "--size", "8MiB", "--pages", "2MiB"];
    let file = PathBuf::from(json(&stand, &add)["file"].as_str().unwrap());
    assert_eq!(std::fs::metadata(&file).unwrap().blksize(), HUGE, "{}", file.display());

    let qmp = stand.root().join("second.qmp").display().to_string();
    let guest = boot(&GuestConfig {
        hotplug_ports: 1,
        extra_args: vec!["-qmp".into(), format!("unix:{qmp},server=on,wait=off")],
        ..app_config("huge", doorbell)
    });
    load(&guest);
    let plugged = json(&stand, &["attach", "--qmp", &qmp, "--window", "big"]);
    assert_eq!((&plugged["attached"], &plugged["connected"]), (&true.into(), &true.into()));

    let fill = |stand: &Stand, how: &str, bytes: u64, hex: &str| {
        let said = ok(&guest, &format!("vfun-vm-app fill {how} {bytes} {hex} 2>&1"));
        let each = format!("zero {bytes} filled {bytes}");
        let filled = said.lines().filter(|l| *l == each).count();
        assert_eq!(filled, hex.len() / 2, "{said}\n{}\n{}", dmesg(&guest), stand.log());
    };
    let in_one_page = |byte, bytes| {
        let (at, len) = piece(&file, byte);
        assert_eq!((len, at / HUGE), (bytes, (at + len - 1) / HUGE), "{byte:x} at {at}");
    };
    // A whole huge page; the same one again, and what was in it is not seen.
    fill(&stand, "contiguous", HUGE, "11");
    in_one_page(0x11, HUGE);
    fill(&stand, "contiguous", HUGE, "22");
    in_one_page(0x22, HUGE);
    // Two at once, each in a part of one.
    fill(&stand, "contiguous", PART, "3344");
    in_one_page(0x33, PART);
    in_one_page(0x44, PART);
    fill(&stand, "anyhow", 2 * HUGE, "55");
    assert_eq!(piece(&file, 0x55).1, 2 * HUGE);
    let refused = format!("vfun-vm-app fill contiguous {} 66 2>&1; [ $? = 7 ]", HUGE + 4096);
    let said = ok(&guest, &refused);
    assert!(
        said.contains(
            "contiguous bytes are more than a page of the window's memory, which has 2097152"
        ),
        "{said}"
    );

    // Another manager goes on with it.
    stand.kill_vfund();
    stand.start_vfund();
    fill(&stand, "contiguous", HUGE, "77");
    in_one_page(0x77, HUGE);
    json(&stand, &["detach", "--qmp", &qmp, "--window", "big"]);
    json(&stand, &["window", "remove", "big"]);
    assert!(!file.exists());
    until("the huge pages to be free again", || huge::free() >= before);
    healthy(&guest);
}
