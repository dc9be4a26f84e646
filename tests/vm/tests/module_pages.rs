//! Tables of pages that the guest's kernel module writes: what the host finds in them, in the memory of the
//! VM, and that pages stay pinned until the host says that no service has them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use vfun_testguest::Guest;
use vfun_tests_vm::boot;
use vfun_tests_vm::fakehost::{FakeHost, Mood};
use vfun_tests_vm::module::{dmesg, healthy, load, module_config, ok, until};
use vfun_wire::PAGE;
use vfun_wire::pages::{ENTRIES, ENTRY_THERE, ENTRY_WRITE, MAGIC, NO_PAGE};

/// Prints how many pages a guest's kernel has pinned; each processor counts by itself.
const PINNED: &str = "echo 1 >/proc/sys/vm/stat_refresh; awk '/nr_foll_pin_acquired/ {a=$2} /nr_foll_pin_released/ {r=$2} END {print a-r}' /proc/vmstat";

/// A guest with the module, the host of its window, and its memory.
struct Bed {
    host: FakeHost,
    guest: Guest,
    memory: File,
    _dir: tempfile::TempDir,
}

impl Bed {
    fn new(name: &str, loads: &[&str]) -> Bed {
        let host = FakeHost::start();
        let dir = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let mut config = module_config(name, vec![host.doorbell()]);
        config.shared_memory = Some(dir.path().join("ram"));
        config.modules.extend(loads.iter().map(|&one| one.to_owned()));
        let guest = boot(&config);
        load(&guest);
        let memory = File::open(dir.path().join("ram")).expect("the VM's memory");
        Bed { host, guest, memory, _dir: dir }
    }

    /// Starts `pages` in the background, and waits until it has said this.
    fn start(&self, words: &str, said: &str) {
        let script = format!(
            "pages /dev/vfun0 {words} > /tmp/said 2>&1 & echo $! > /tmp/pid; {}",
            Self::wait(said)
        );
        self.is_well(&ok(&self.guest, &script), said);
    }

    fn wait(said: &str) -> String {
        format!(
            "for i in $(seq 500); do grep -q {said} /tmp/said && break; usleep 20000; done; cat /tmp/said"
        )
    }

    /// Waits until it has said this, too.
    fn says(&self, said: &str) {
        self.is_well(&ok(&self.guest, &Self::wait(said)), said);
    }

    fn is_well(&self, out: &str, said: &str) {
        let last = out.lines().last().unwrap_or_default();
        assert_eq!(last, format!("{said} 0"), "{out}\n{}", dmesg(&self.guest));
    }

    fn kill(&self) {
        ok(&self.guest, "kill -9 $(cat /tmp/pid)");
    }

    /// Takes the module away, when the files of programs that were killed are closed.
    fn unload(&self) {
        let script = "for i in $(seq 200); do rmmod vfun 2>/dev/null && break; usleep 20000; done; test ! -e /sys/module/vfun";
        ok(&self.guest, script);
    }

    fn pinned(&self) -> i64 {
        ok(&self.guest, PINNED).trim().parse().expect("a number")
    }

    fn until_pinned(&self, pages: i64) {
        until(&format!("{pages} pages pinned"), || self.pinned() == pages);
    }

    /// Waits until the module has asked for a table more often.
    fn until_asked(&self, times: u64) {
        let before = self.host.table_puts();
        until("it is asked again", || self.host.table_puts() >= before + times);
    }

    fn page(&self, page: u64) -> Vec<u8> {
        let mut bytes = vec![0; PAGE];
        self.memory.read_exact_at(&mut bytes, page * PAGE as u64).expect("in the VM's memory");
        bytes
    }
}

#[test]
fn the_host_finds_programs_pages_by_a_table() {
    let bed = Bed::new("table", &["brd"]);
    let out = ok(&bed.guest, "pages /dev/vfun0 || true");
    assert!(out.contains("checks") && !out.contains("failed"), "{out}\n{}", dmesg(&bed.guest));
    bed.until_pinned(0);
    until("all tables given back", || bed.host.buffers() == 0);
    bed.start("disk /dev/ram0", "done");
    bed.kill();

    for (words, bits) in [("hold", ENTRY_THERE | ENTRY_WRITE), ("read", ENTRY_THERE)] {
        bed.start(words, "held");
        assert_eq!(bed.pinned(), 100);
        assert_eq!(bed.host.table_word(0), MAGIC);
        let secret: Vec<u8> = (3..5).flat_map(|n| bed.host.table_word(n).to_le_bytes()).collect();
        assert_ne!(secret, [0; 16]);
        // The VM has less than 4 GiB.
        assert_eq!(bed.host.table_word(2), NO_PAGE);
        assert_eq!(bed.page(bed.host.table_word(1))[..16], secret);
        let mut pages: Vec<u64> = (0..100).map(|n| bed.host.table_word(ENTRIES / 8 + n)).collect();
        for entry in &mut pages {
            assert_eq!(*entry & (ENTRY_THERE | ENTRY_WRITE), bits, "{words}");
            *entry &= ENTRY_WRITE - 1;
            assert_eq!(bed.page(*entry), [1; PAGE], "the program's bytes");
        }
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), 100);
        assert_eq!(bed.host.table_word(ENTRIES / 8 + 100), 0);
        bed.kill();
        bed.until_pinned(0);
        until("the table given back", || bed.host.buffers() == 0);
    }
    healthy(&bed.guest);
}

#[test]
fn pages_stay_pinned_as_long_as_a_service_has_them() {
    let bed = Bed::new("pinned", &[]);
    // Its program is dead: the module asks, and is told to ask again.
    bed.start("hold", "held");
    bed.host.keep_tables(true);
    bed.kill();
    bed.until_asked(3);
    assert_eq!(bed.pinned(), 100);
    // A host that is silent has not said that it let go.
    bed.host.mood(Mood::Silent);
    ok(&bed.guest, "sleep 3");
    assert_eq!(bed.pinned(), 100);
    bed.host.mood(Mood::Sane);
    bed.until_asked(1);
    assert_eq!(bed.pinned(), 100);
    bed.host.keep_tables(false);
    bed.until_pinned(0);
    assert_eq!(bed.host.buffers(), 0);

    // It gives its table back itself, and goes on: two tables have its pages.
    bed.host.keep_tables(true);
    bed.start("put", "done");
    bed.until_asked(2);
    assert_eq!(bed.pinned(), 200);
    bed.host.keep_tables(false);
    bed.until_pinned(100);
    bed.kill();
    bed.until_pinned(0);
    healthy(&bed.guest);
}

#[test]
fn tables_of_a_window_that_is_made_anew_end() {
    let bed = Bed::new("tables-anew", &[]);
    bed.start("anew", "held");
    bed.host.lay_out_anew();
    bed.says("done");
    // Those of the table of before are given back, though the program lives.
    bed.until_pinned(100);
    bed.kill();
    bed.until_pinned(0);
    healthy(&bed.guest);
}

#[test]
fn a_device_that_goes_gives_back_what_open_files_have() {
    let bed = Bed::new("tables-unbound", &[]);
    let unbind = "cd /sys/bus/pci/drivers/vfun && echo $(basename $(readlink /sys/class/misc/vfun0/device)) > unbind";
    bed.start("hold", "held");
    ok(&bed.guest, unbind);
    // The program goes on, and has its file open.
    ok(&bed.guest, "ls -l /proc/$(cat /tmp/pid)/fd | grep -q vfun0");
    bed.until_pinned(0);
    bed.kill();
    bed.unload();
    load(&bed.guest);

    // A service that does not let go: they stay pinned, and it is said.
    bed.start("hold", "held");
    bed.host.keep_tables(true);
    ok(&bed.guest, unbind);
    bed.kill();
    bed.unload();
    assert_eq!(bed.pinned(), 100);
    let said = ok(&bed.guest, "dmesg | grep 'stay pinned'");
    assert!(said.contains("let go of 100 pages"), "{said}");
    healthy(&bed.guest);
}
