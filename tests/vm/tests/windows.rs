//! A data window of a real manager, in and out of a guest by `vfun attach` and `detach`,
//! while programs of the guest call functions through the first window.

use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use vfun_testguest::{Doorbell, Guest, GuestConfig};
use vfun_tests_local::huge::{self, HUGE, HugePages};
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::boot;
use vfun_tests_vm::cli::{asked, json};
use vfun_tests_vm::module::{
    dmesg, doorbell_client, healthy, load, module_config, ok, said_by, sees, until,
};
use vfun_wire::header::FURTHER_HEAP_OFF;

/// Which of a window's VMs have it.
fn here(row: &Value) -> Vec<bool> {
    let peers = row["peers"].as_array().expect("a window has VMs");
    peers.iter().map(|p| p["here"] == true).collect()
}

/// Calls of the one channel that is in use all the time; and that it goes on.
fn calls(stand: &Stand) -> u64 {
    let grants = stand.grants();
    let echo = grants.iter().find(|g| g.function == "echo");
    let echo = echo.unwrap_or_else(|| panic!("the channel is gone:\n{}", stand.log()));
    assert_eq!((echo.restarts, echo.counters.errors), (0, 0), "{echo:?}");
    echo.counters.calls
}

fn calls_begin(stand: &Stand, guest: &Guest) {
    ok(
        guest,
        "vfun-vm-app loop echo 0102 3600 > /tmp/calls.out 2>/dev/null & echo $! > /tmp/calls.pid",
    );
    until("calls", || {
        let said = said_by(guest, "calls");
        assert!(said.is_empty() || said == "begun", "{said}\n{}", dmesg(guest));
        stand.grants().iter().any(|g| g.counters.calls > 0)
    });
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

/// A control socket for `vfun attach`: the test has the first one's one connection.
fn second_qmp(stand: &Stand, vm: &str) -> String {
    stand.root().join(format!("{vm}.qmp")).display().to_string()
}

/// With that socket, and ports for two windows.
fn pluggable(config: GuestConfig, qmp: &str) -> GuestConfig {
    let extra_args = vec!["-qmp".into(), format!("unix:{qmp},server=on,wait=off")];
    GuestConfig { hotplug_ports: 2, extra_args, ..config }
}

fn place(offset: &str) -> u64 {
    offset.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("an offset")
}

/// A guest without the module never says that it has a window, which is taken out again.
fn taken_out_again(stand: &Stand, qmp: &str) {
    json(stand, &["window", "add", "early", "--vm", "vm1", "--size", "1MiB"]);
    let words = ["attach", "--qmp", qmp, "--window", "early", "--timeout", "1"];
    let (code, said) = asked(stand, &words);
    let what = said["error"]["what"].as_str().unwrap_or_default();
    assert!(code == 5 && what.contains("was taken out of"), "{said}");
    assert_eq!(json(stand, &["detach", "--qmp", qmp, "--window", "early"])["already"], true);
    json(stand, &["window", "remove", "early"]);
}

#[test]
fn a_data_window_comes_and_goes_while_calls_go_on() {
    let mut stand = Stand::start();
    let qmp = second_qmp(&stand, "vm1");
    let doorbell = doorbell_client(&stand, "vm1", "");
    let guest = boot(&pluggable(app_config("windows", doorbell), &qmp));
    taken_out_again(&stand, &qmp);
    load(&guest);
    calls_begin(&stand, &guest);
    let (first, at) = Bulk::start(&guest, "first");
    assert!(at.starts_with("window 0 "), "{at}");
    first.end();

    let added = json(&stand, &["window", "add", "bulk", "--vm", "vm1", "--size", "4MiB"]);
    let vm = &added["peers"][0];
    assert_eq!((&vm["index"], &vm["here"]), (&1.into(), &false.into()), "{added}");
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
            assert_eq!((here(&row), &row["buffers"]), (vec![true], &1.into()), "{row}");
            assert_eq!(bulk.word(0xcafe), "word 5eed check 0");
            calls_go_on(&stand, &guest);
            let (second, at) = Bulk::start(&guest, "second");
            assert!(at.starts_with("window 1 "), "{at}");
            second.end();
        }

        // A program with the library, and a driver of the host.
        ok(
            &guest,
            ": > /tmp/app.out; (vfun-vm-app bulk; echo exit $?) > /tmp/app.out 2>/tmp/app.err &",
        );
        until("the driver to fill it", || said_by(&guest, "app").contains("filled 12288"));

        let gone = json(&stand, &words("detach"));
        assert_eq!((&gone["attached"], &gone["already"]), (&false.into(), &false.into()));
        // 32: EPIPE. The page is the program's own now.
        assert!(bulk.word(0xdead).ends_with(" check 32"), "{}", said_by(&guest, "bulk"));
        assert_ne!(host(at + 4096), 0xdead, "it reaches the window still");
        let row = json(&stand, &["window", "show", "bulk"]);
        assert_eq!((here(&row), &row["buffers"]), (vec![false], &0.into()), "{row}");
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

    let qmp = second_qmp(&stand, "vm1");
    let guest = boot(&pluggable(app_config("huge", doorbell), &qmp));
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

/// A VM that is one of the two of a link, in a guest.
struct Linked<'a> {
    stand: &'a Stand,
    guest: &'a Guest,
    qmp: &'a str,
    vm: &'static str,
    /// The link's number in it.
    number: u16,
}

/// The two.
const LINKED: [&str; 2] = ["vm1", "vm2"];

fn linked<'a>(stand: &'a Stand, guests: &'a [Guest; 2], qmps: &'a [String; 2]) -> [Linked<'a>; 2] {
    [0, 1].map(|n| Linked {
        stand,
        guest: &guests[n],
        qmp: &qmps[n],
        vm: LINKED[n],
        number: n as u16 + 1,
    })
}

impl Linked<'_> {
    fn has_it(&self) -> bool {
        let row = json(self.stand, &["window", "show", "pair"]);
        let peers = row["peers"].as_array().unwrap();
        peers.iter().any(|p| p["vm"] == self.vm && p["here"] == true)
    }

    fn is_in(&self) {
        let there = || sees(self.guest, self.number, "role 2 bytes 1048576 generation 1");
        until("the guest to have the link", || self.has_it() && there());
    }

    fn plug(&self) {
        let plugged = json(self.stand, &["attach", "--qmp", self.qmp, "--window", "pair"]);
        assert_eq!((&plugged["client"], &plugged["connected"]), (&self.vm.into(), &true.into()));
        self.is_in();
    }

    /// The word at an offset of the link, which this VM then writes. The module lets go of
    /// the device meanwhile, and the host is told.
    fn word(&self, offset: u64, write: u8) -> String {
        let control = Guest::doorbell_bdf(0);
        let device = ok(
            self.guest,
            &format!(
                "cd /sys/bus/pci/drivers/vfun; for d in 0000*; do [ $d = {control} ] || echo $d; done"
            ),
        );
        ok(self.guest, &format!("echo {device} > /sys/bus/pci/drivers/vfun/unbind"));
        assert!(!self.has_it(), "the module has let go of it");
        let resource = format!("/sys/bus/pci/devices/{device}/resource2");
        let word = format!("vfun-vm-app word {resource} {offset} {write:02x}");
        let said = ok(self.guest, &word);
        ok(self.guest, &format!("echo {device} > /sys/bus/pci/drivers/vfun/bind"));
        self.is_in();
        said
    }
}

/// What one of the two writes, the other one and the host read.
fn one_memory(pair: [&Linked<'_>; 2], file: &Path) {
    let memory = File::options().read(true).write(true).open(file).unwrap();
    memory.write_all_at(&[0x11], 8192).unwrap();
    let word = |byte: u8| format!("{byte:02x}00000000000000");
    let [a, b] = pair;
    assert_eq!(a.word(8192, 0x22), word(0x11));
    assert!(b.has_it(), "the other one has it still");
    assert_eq!(b.word(8192, 0x33), word(0x22));
    let mut found = [0];
    memory.read_exact_at(&mut found, 8192).unwrap();
    assert_eq!(found, [0x33]);
}

/// A link of others in a VM's QEMU: its module has no key for it, and takes no notice.
fn a_link_of_others_is_not_used(of: &Linked<'_>) {
    let add = ["window", "add", "theirs", "--vm", "vm2", "--vm", "vm3", "--size", "1MiB"];
    json(of.stand, &add);
    let words = |what| [what, "--qmp", of.qmp, "--window", "theirs"];
    json(of.stand, &[words("attach").as_slice(), &["--no-wait"]].concat());
    let taken =
        "until [ $(ls -d /sys/bus/pci/drivers/vfun/0000* | wc -l) = 3 ]; do usleep 20000; done";
    ok(of.guest, taken);
    // Nobody has said that it is there when this gives up.
    let (code, said) = asked(of.stand, &[words("attach").as_slice(), &["--timeout", "1"]].concat());
    assert!(code == 5 && said.to_string().contains("stays in"), "{said}");
    for number in (1..4).filter(|n| *n != of.number) {
        assert!(sees(of.guest, number, "error 2"), "window {number}");
    }
    assert_eq!(here(&json(of.stand, &["window", "show", "theirs"])), [false, false]);
    json(of.stand, &words("detach"));
    json(of.stand, &["window", "remove", "theirs"]);
}

#[test]
fn a_link_is_one_memory_in_two_guests() {
    let mut stand = Stand::start();
    let doorbells = LINKED.map(|vm| doorbell_client(&stand, vm, ""));
    vfun_tests_vm::client(&stand, "vm3", "");
    let qmps = LINKED.map(|vm| second_qmp(&stand, vm));
    let [first, second] = doorbells;
    let configs = [(first, &qmps[0], "link-a"), (second, &qmps[1], "link-b")]
        .map(|(doorbell, qmp, name)| pluggable(app_config(name, doorbell), qmp));
    let guests = std::thread::scope(|s| {
        let boots = configs.each_ref().map(|c| s.spawn(|| boot(c)));
        boots.map(|b| b.join().unwrap())
    });
    guests.iter().for_each(load);
    calls_begin(&stand, &guests[0]);
    // So that the link has another number in the second one.
    json(&stand, &["window", "add", "bulk", "--vm", "vm2", "--size", "1MiB"]);
    let add = ["window", "add", "pair", "--vm", "vm1", "--vm", "vm2", "--size", "1MiB"];
    let file = PathBuf::from(json(&stand, &add)["file"].as_str().unwrap());
    {
        let [a, b] = &linked(&stand, &guests, &qmps);
        a.plug();
        b.plug();
        one_memory([a, b], &file);
        a_link_of_others_is_not_used(a);
        calls_go_on(&stand, a.guest);
        // Out of one of them; the other one goes on.
        json(&stand, &["detach", "--qmp", b.qmp, "--window", "pair"]);
        assert!(sees(b.guest, b.number, "error 2") && !b.has_it());
        a.is_in();
        calls_go_on(&stand, a.guest);
        b.plug();
        // A module that starts anew finds it as it was.
        ok(b.guest, "rmmod vfun");
        a.is_in();
        load(b.guest);
        b.is_in();
        assert!(a.word(8192, 0x44).starts_with("33") && b.word(8192, 0x55).starts_with("44"));
    }
    stand.kill_vfund();
    stand.start_vfund();
    let [a, b] = &linked(&stand, &guests, &qmps);
    [a, b].iter().for_each(|vm| vm.is_in());
    calls_go_on(&stand, a.guest);
    // Declared no more, it is in neither: the module looks when a program asks for something.
    json(&stand, &["window", "remove", "pair"]);
    for vm in [a, b] {
        assert_eq!(ok(vm.guest, "vfun call echo x"), "x");
        until("its end", || sees(vm.guest, vm.number, "error 2"));
        json(&stand, &["detach", "--qmp", vm.qmp, "--window", "pair"]);
    }
    calls_go_on(&stand, a.guest);
    guests.iter().for_each(healthy);
}
