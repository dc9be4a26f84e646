//! RDMA in real guests: programs of Debian, of an ordinary user, in VMs that have no RDMA device. Memory that
//! they register moves into the window of the first VM. The host has all memory of the second one, and reaches it where it is.

use std::path::Path;
use vfun_admin::{GrantRow, Reply};
use vfun_testguest::{Doorbell, Guest};
use vfun_tests_local::rdma::{
    MANAGED, MEMORY, NO_REPORT, PairOfPrograms, VERBS, can_be_tried, compiled, offer,
};
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::module::{healthy, module_config};
use vfun_tests_vm::users::{as_user, load};
use vfun_tests_vm::{LONG, boot};

/// What is preloaded into programs, where a package puts it.
const LIBRARY: &str = "/usr/lib/virtfun/apis/verbs/libvfunverbs.so";
/// What runs in the guests, as Debian has it.
const PROGRAMS: [&str; 22] = [
    "ibv_devices",
    "ibv_devinfo",
    "ibv_rc_pingpong",
    "ibv_uc_pingpong",
    "ibv_ud_pingpong",
    "ibv_srq_pingpong",
    "ib_send_lat",
    "ib_send_bw",
    "ib_write_lat",
    "ib_write_bw",
    "ib_read_lat",
    "ib_read_bw",
    "ib_atomic_lat",
    "ib_atomic_bw",
    "rping",
    "ucmatose",
    "cmtime",
    "udaddy",
    "rdma_client",
    "rdma_server",
    "qperf",
    "fi_pingpong",
];
/// The guests' addresses, in their network and for RDMA.
const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
/// One client with both. The second VM's memory is this file. The first one names a file that is not there, so
/// that its memory moves.
fn client(memory: &Path) -> String {
    let memory = memory.display();
    format!(
        "name = \"lab\"\nwindow = \"128 MiB\"\n[vm.one]\naddress = \"10.77.0.1\"\nshared_memory = \"{memory}-none\"\n[vm.two]\naddress = \"10.77.0.2\"\nshared_memory = \"{memory}\"\n"
    )
}
/// Whether all pairs of programs run in the guests, which takes minutes.
const FULL: &str = "VFUN_RDMA_FULL";
/// Which of them run otherwise: one of each kind.
const SHORT: [&str; 11] = [
    "ibv_rc_pingpong -e",
    "ibv_ud_pingpong",
    "ibv_srq_pingpong -e",
    "ib_send_bw -n 200 -q 8",
    "ib_write_bw -n 200 -a",
    "ib_read_lat",
    "ib_atomic_lat",
    "ib_send_lat -n 200 -R",
    "rping",
    "ucmatose -p PORT -c 8",
    "fi_pingpong -p verbs -e msg",
];

/// Memory of the VM whose pages stay where they are, MiB: some lies above 4 GiB, and Linux gives that to programs first.
const LARGE_MIB: u32 = 5120;

/// Whether this machine has it. QEMU's file of it has only those pages that the guest has written.
fn has_memory() -> bool {
    let all = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = all.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = free.and_then(|free| free.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let has = kib.is_some_and(|kib| kib >> 10 > u64::from(LARGE_MIB) * 3 / 2);
    if !has {
        println!("memory above 4 GiB is not tried: this machine has too little");
    }
    has
}

/// Both VMs' windows.
fn windows(stand: &Stand, memory: &Path) -> [Doorbell; 2] {
    match stand.add_client(&client(memory)) {
        Ok(Reply::ClientAdded(_)) => {}
        other => panic!("{other:?}"),
    }
    ["one", "two"].map(|vm| Doorbell::new(stand.root().join(format!("ivshmem/lab@{vm}.sock"))))
}

/// A guest with the programs, and an end of a wire to another one.
fn guest(window: Doorbell, wire: &Path, end: usize, memory: &Path) -> Guest {
    let shared = (end == 1).then(|| wire.join("ram"));
    let mut config = module_config(&format!("verbs{end}"), vec![window]);
    config.memory_mib = if shared.is_some() && has_memory() { LARGE_MIB } else { 512 };
    config.shared_memory = shared;
    config.modules.push("virtio_net".into());
    let path = |end: usize| wire.join(format!("end{end}")).display().to_string();
    let (own, other) = (path(end), path(1 - end));
    config.extra_args.extend([
        "-netdev".into(),
        format!(
            "dgram,id=wire,local.type=unix,local.path={own},remote.type=unix,remote.path={other}"
        ),
        "-device".into(),
        format!("virtio-net-pci,netdev=wire,mac=52:54:00:77:00:0{}", end + 1),
    ]);
    config.files.push((programs().join("libvfunverbs.so"), LIBRARY.into()));
    config.files.push((memory.into(), "/usr/bin/memory".into()));
    config
        .files
        .extend(PROGRAMS.map(|p| (format!("/usr/bin/{p}").into(), format!("/usr/bin/{p}"))));
    let guest = boot(&config);
    begin(&guest, end);
    guest
}

/// The module and the network of a guest that has come up.
fn begin(guest: &Guest, end: usize) {
    let address = ADDRESSES[end];
    let net = format!("ip link set lo up; ip addr add {address}/24 dev eth0; ip link set eth0 up");
    ok(guest, &format!("{}; {net}", load()));
}

fn ok(guest: &Guest, script: &str) -> String {
    guest.run_ok(script, LONG).unwrap_or_else(|e| panic!("{e}"))
}

/// A program of the user `app`, with the library. Like any device for RDMA it pins memory.
fn script(words: &str) -> String {
    format!("ulimit -l 65536; {}", as_user("app", &format!("LD_PRELOAD={LIBRARY} {words} 2>&1")))
}

/// The two guests.
struct Lab {
    stand: Stand,
    guests: [Guest; 2],
    _dir: tempfile::TempDir,
}

impl Lab {
    fn new() -> Lab {
        let stand = offer();
        // In memory, since one of the files is a VM's.
        let dir = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let memory = compiled(MEMORY, dir.path());
        let windows = windows(&stand, &dir.path().join("ram"));
        let boot = |(end, window)| {
            let (dir, memory) = (dir.path(), &memory);
            move || guest(window, dir, end, memory)
        };
        let mut both = windows.into_iter().enumerate().map(boot);
        let [first, second] = [(); 2].map(|()| both.next().expect("two"));
        let guests = std::thread::scope(|scope| {
            let other = scope.spawn(second);
            [first(), other.join().expect("it boots")]
        });
        drop(both);
        Lab { stand, guests, _dir: dir }
    }

    /// A server in one guest and its client in another one, or in the same.
    fn tried(
        &self,
        pair: &PairOfPrograms,
        port: usize,
        [server, client]: [usize; 2],
    ) -> Result<(), String> {
        let port = port.to_string();
        let words = |of: &str| of.replace("PORT", &port).replace("HOST", ADDRESSES[server]);
        let [at, from] = [&self.guests[server], &self.guests[client]];
        let serve = script(&words(pair.server));
        ok(
            at,
            &format!("rm -f /tmp/server.*; ({serve} >/tmp/server.out; echo $? >/tmp/server.rc) & "),
        );
        let call = script(&words(pair.client));
        // A client that came too early says so soon.
        let tries = format!("for i in 1 2 3 4 5; do sleep $i; ({call}) && exit 0; done; exit 1");
        let out = from.run(&tries, LONG).unwrap_or_else(|e| panic!("{e}"));
        let end = "for i in $(seq 100); do [ -f /tmp/server.rc ] && break; usleep 50000; done; cat /tmp/server.*";
        // One whose client gave up would wait for ever.
        let stays = pair.serves_on || out.status != 0;
        let stop =
            format!("kill -9 $(pidof {}); ", pair.server.split(' ').next().expect("a program"));
        let served = ok(at, &format!("{}{end}", if stays { &stop } else { "" }));
        let ended_well = pair.serves_on || served.trim_end().ends_with('0');
        match out.status == 0 && ended_well {
            true => Ok(()),
            false => Err(format!("{}\nserver: {served}", out.text())),
        }
    }

    /// The same; both must end well. One whose clock perftest found too uneven for a report says nothing.
    fn pair(&self, pair: &PairOfPrograms, port: usize, ends: [usize; 2]) {
        for attempt in 0..5 {
            match self.tried(pair, port + 100 * attempt, ends) {
                Ok(()) => return,
                Err(text) if attempt < 4 && text.contains(NO_REPORT) => {}
                Err(text) => panic!("{} ({ends:?}): {text}\n{}", pair.client, self.stand.log()),
            }
        }
    }
}

/// Prints how many pages a guest's kernel has pinned; each processor counts by itself.
const PINNED: &str = "$(echo 1 >/proc/sys/vm/stat_refresh; awk '/nr_foll_pin_acquired/ {a=$2} /nr_foll_pin_released/ {r=$2} END {print a-r}' /proc/vmstat)";

/// Waits until no page of a guest is pinned any more.
fn nothing_is_pinned(guest: &Guest) {
    let wait = format!(
        "for i in $(seq 200); do [ {PINNED} = 0 ] && break; usleep 50000; done; echo {PINNED}"
    );
    assert_eq!(ok(guest, &wait).trim(), "0", "pages of programs that have ended stay pinned");
}

/// What programs may do with tables of pages, and what becomes of a program that is killed.
fn tables_of_pages(guest: &Guest) {
    let out = guest.run(&as_user("app", "pages /dev/vfun0 2>&1"), LONG);
    let out = out.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(out.status, 0, "{}", out.text());
    nothing_is_pinned(guest);
    let hold = as_user("app", "pages /dev/vfun0 hold");
    let killed = format!(
        "({hold} > /tmp/held) & for i in $(seq 100); do grep -q held /tmp/held && break; usleep 50000; done; \
         cat /tmp/held; echo {PINNED}; \
         kill -9 $(pidof pages)"
    );
    let said = ok(guest, &killed);
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["held", "0", "100"]);
    nothing_is_pinned(guest);
}

/// A VM is reset while its program and one of another VM send to each other.
fn reset_under_traffic(lab: &Lab) {
    let [one, two] = &lab.guests;
    let starts =
        |words: &str| format!("({} >/tmp/reset.out; echo $? >/tmp/reset.rc) & ", script(words));
    ok(two, &starts("ib_send_bw -b -D 60 -p 7900"));
    ok(
        one,
        &format!("sleep 2; {}", starts(&format!("ib_send_bw -b -D 60 -p 7900 {}", ADDRESSES[1]))),
    );
    lab.stand.until("they send", |s| {
        let busy = |g: &&GrantRow| g.rdma.is_some() && g.counters.calls > 1000;
        s.grants().iter().filter(busy).count() == 2
    });
    one.reset().unwrap_or_else(|e| panic!("{e}"));
    // The host hears of it when the module is there again, or when no sign of life came for a while.
    begin(one, 0);
    let wait = "for i in $(seq 200); do [ -f /tmp/reset.rc ] && break; usleep 50000; done; cat /tmp/reset.rc";
    let ended = ok(two, wait);
    assert!(ended.trim_end() != "0" && !ended.is_empty(), "the peer of who was reset: {ended}");
    lab.pair(&VERBS[0], 7950, [1, 0]);
}

#[test]
fn programs_for_rdma_run_in_guests_that_have_no_device() {
    if !can_be_tried() {
        return;
    }
    let lab = Lab::new();
    let [one, two] = &lab.guests;
    let listed = ok(one, &script("ibv_devinfo -v"));
    assert!(listed.contains("PORT_ACTIVE") && listed.contains("ffff:0a4d:0001"), "{listed}");
    // Each way in which programs have memory, with a writer beside registrations.
    for (guest, words) in [(one, "memory 100"), (two, "memory --pinned 100")] {
        // It tries huge pages where there are some.
        let huge = "echo 2 > /proc/sys/vm/nr_hugepages; cat /proc/sys/vm/nr_hugepages";
        assert_eq!(ok(guest, huge).trim(), "2");
        let out = guest.run(&script(words), LONG).unwrap_or_else(|e| panic!("{e}"));
        let said = format!("{words}: {}\n{}", out.text(), lab.stand.log());
        assert_eq!(out.status, 0, "{said}");
        assert_eq!(out.text().lines().filter(|line| line.ends_with(": ok")).count(), 19, "{said}");
    }
    // 37 MiB one after the other, where 8 may be pinned: what is no longer registered makes room.
    for guest in [one, two] {
        let few =
            as_user("app", &format!("ulimit -l 8192; LD_PRELOAD={LIBRARY} memory --lost 100 2>&1"));
        assert_eq!(ok(guest, &few).trim().lines().last(), Some("lost 0"));
    }
    tables_of_pages(two);
    let full = std::env::var_os(FULL).is_some();
    if full {
        for guest in [one, two] {
            // Ten times a thousand: each within what a command may take.
            for _ in 0..10 {
                let many = ok(guest, &script("memory --lost-few 1000"));
                assert_eq!(many.trim().lines().last(), Some("lost 0"));
            }
        }
    }
    let is_short = |pair: &PairOfPrograms| SHORT.iter().any(|w| pair.server.starts_with(w));
    let wanted = |pair: &&PairOfPrograms| full || is_short(pair);
    for (at, pair) in VERBS.iter().chain(&MANAGED).filter(wanted).enumerate() {
        // One guest has its memory where it is, the other one moves it: each program is at either end in each of
        // them, and both ends are in one. The short run has one of these for each pair, by turns.
        let by_turns = [at % 2, at / 2 % 2];
        let all = [[0, 1], [1, 0], [at % 2, at % 2]];
        let ends = match (full, is_short(pair)) {
            (true, true) => &all[..],
            (true, false) => &all[..2],
            (false, _) => &[by_turns][..],
        };
        for (turn, ends) in ends.iter().enumerate() {
            // A port of its own: one that was just used is not free at once.
            lab.pair(pair, 7471 + 3 * at + turn, *ends);
        }
    }
    reset_under_traffic(&lab);
    lab.stand.until("nothing is left of them", |s| s.grants().is_empty());
    nothing_is_pinned(two);
    healthy(one);
    healthy(two);
}

/// A guest whose program maps the device itself moves memory by itself too; only root can do so.
#[test]
fn memory_moves_in_a_guest_without_the_module() {
    if !can_be_tried() {
        return;
    }
    let stand = offer();
    let dir = tempfile::tempdir().expect("a folder");
    let program = compiled(MEMORY, dir.path());
    let window = match stand.add_client("name = \"lab\"\nwindow = \"64 MiB\"\n") {
        Ok(Reply::ClientAdded(row)) => Doorbell::new(row.socket.expect("a VM has a socket")),
        other => panic!("{other:?}"),
    };
    let mut config = module_config("verbs-bare", vec![window]);
    config.files.push((programs().join("libvfunverbs.so"), LIBRARY.into()));
    config.files.push((program, "/usr/bin/memory".into()));
    let guest = boot(&config);
    let run = |remap: &str| {
        let words = format!("VFUN_VERBS_REMAP={remap} LD_PRELOAD={LIBRARY} memory --sizes 2>&1");
        guest.run(&words, LONG).unwrap_or_else(|e| panic!("{e}\n{}", stand.log()))
    };
    let out = run("user");
    let said = format!("{}\n{}", out.text(), stand.log());
    assert_eq!(
        (out.status, out.text().lines().last()),
        (0, Some("regions of a page and of many: ok")),
        "{said}"
    );
    // By the module that is not there: nothing moves, and the program is told why.
    let out = run("module");
    assert!(out.status != 0 && out.text().contains("kernel module"), "{}", out.text());
    stand.until("nothing is left of it", |s| s.grants().is_empty());
    healthy(&guest);
}
