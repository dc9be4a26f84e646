//! Files that are truncated under a mapping: at each moment, from several
//! threads, and what is not guarded ends the process as ever.

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use vfun_window::{Access, GUARDED_MAX, MapError, Mapping};

const PAGE: usize = 4096;

fn file(pages: usize) -> OwnedFd {
    let fd = memfd_create("guard", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, (pages * PAGE) as u64).unwrap();
    fd
}

#[test]
fn a_truncated_window_reads_as_zeros_and_counts_as_lost() {
    let (fd, other) = (file(4), file(1));
    let map = Mapping::guarded(&fd, 0, 4 * PAGE, Access::ReadWrite).unwrap();
    let beside = Mapping::guarded(&other, 0, PAGE, Access::ReadWrite).unwrap();
    let span = map.write().unwrap();
    for page in 0..4 {
        span.store(page * PAGE / 8, 7, Relaxed);
    }
    beside.write().unwrap().store(0, 9, Relaxed);
    ftruncate(&fd, PAGE as u64).unwrap();
    assert!(!map.is_lost(), "nobody has touched what is gone");
    assert_eq!(span.load(0, Relaxed), 7);
    assert!(!map.is_lost());
    // A word, a copy in, a copy out, and a change in place: all go on.
    assert_eq!(span.load(PAGE / 8, Relaxed), 0);
    assert!(map.is_lost() && span.is_lost());
    span.write(3 * PAGE, b"into nothing").unwrap();
    let mut got = [0; 12];
    span.read(3 * PAGE, &mut got).unwrap();
    assert_eq!(&got, b"into nothing");
    assert_eq!(span.fetch_add(2 * PAGE / 8, 5, Relaxed), 0);
    assert!(!beside.is_lost());
    assert_eq!(beside.read().load(0, Relaxed), 9);
    // Whoever maps it anew sees the file again.
    ftruncate(&fd, 4 * PAGE as u64).unwrap();
    let anew = Mapping::guarded(&fd, 0, 4 * PAGE, Access::Read).unwrap();
    assert_eq!(anew.read().load(3 * PAGE / 8, Relaxed), 0);
    assert!(!anew.is_lost());
}

#[test]
fn a_mapping_for_reading_is_guarded_too() {
    let fd = file(2);
    let map = Mapping::guarded(&fd, 0, 2 * PAGE, Access::Read).unwrap();
    ftruncate(&fd, 0).unwrap();
    assert_eq!(map.read().load(PAGE / 8, Relaxed), 0);
    assert!(map.is_lost());
}

/// Readers and writers on all pages while the file goes away and comes back,
/// and others map and unmap beside them.
#[test]
fn truncated_at_any_moment_from_any_thread() {
    let stop = Arc::new(AtomicBool::new(false));
    let touched = Arc::new(AtomicU64::new(0));
    let neighbours = (0..2).map(|_| {
        let stop = stop.clone();
        std::thread::spawn(move || {
            while !stop.load(Relaxed) {
                let fd = file(3);
                let map = Mapping::guarded(&fd, 0, 3 * PAGE, Access::ReadWrite).unwrap();
                map.write().unwrap().store(PAGE / 8, 1, Relaxed);
                assert!(!map.is_lost(), "nobody truncates this one");
            }
        })
    });
    let neighbours: Vec<_> = neighbours.collect();
    for round in 0..200 {
        let fd = file(16);
        let map = Mapping::guarded(&fd, 0, 16 * PAGE, Access::ReadWrite).unwrap();
        std::thread::scope(|s| {
            for t in 0..3 {
                let (span, touched) = (map.write().unwrap(), touched.clone());
                s.spawn(move || {
                    for i in 0..400 {
                        let word = (i * 5 + t) % 16 * PAGE / 8;
                        span.store(word, i as u64, Relaxed);
                        span.load(word, Relaxed);
                        touched.fetch_add(1, Relaxed);
                    }
                });
            }
            ftruncate(&fd, (round % 16 * PAGE) as u64).unwrap();
        });
        let last = map.write().unwrap();
        last.store(15 * PAGE / 8, 3, Relaxed);
        assert!(map.is_lost());
    }
    stop.store(true, Relaxed);
    neighbours.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(touched.load(Relaxed), 200 * 3 * 400);
}

#[test]
fn there_is_an_end_to_the_table_and_places_come_back() {
    // In a process of its own: others here need places, too.
    if !child("there_is_an_end_to_the_table_and_places_come_back", |status| {
        assert!(status.success())
    }) {
        return;
    }
    for _ in 0..2 {
        let fd = file(1);
        let held: Vec<_> = (0..GUARDED_MAX)
            .map(|_| Mapping::guarded(&fd, 0, PAGE, Access::Read).unwrap())
            .collect();
        let beyond = Mapping::guarded(&fd, 0, PAGE, Access::Read);
        assert!(matches!(beyond, Err(MapError::Os(_))));
        ftruncate(&fd, 0).unwrap();
        assert_eq!(held[GUARDED_MAX - 1].read().load(0, Relaxed), 0);
        assert!(held[GUARDED_MAX - 1].is_lost() && !held[0].is_lost());
    }
}

/// Runs the named test again as a process of its own. True in that process.
fn child(test: &str, check: impl FnOnce(std::process::ExitStatus)) -> bool {
    if std::env::var_os("GUARD_TEST_CHILD").is_some() {
        return true;
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--test-threads", "1"])
        .env("GUARD_TEST_CHILD", "1")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    check(status);
    false
}

const SIGBUS: Option<i32> = Some(7);

#[test]
fn what_is_not_guarded_ends_the_process() {
    if !child("what_is_not_guarded_ends_the_process", |s| assert_eq!(s.signal(), SIGBUS, "{s}")) {
        return;
    }
    let (fd, guarded) = (file(2), file(2));
    let _beside = Mapping::guarded(&guarded, 0, PAGE, Access::Read).unwrap();
    let map = Mapping::new(&fd, 0, 2 * PAGE, Access::ReadWrite).unwrap();
    ftruncate(&fd, 0).unwrap();
    map.read().load(0, Relaxed);
}

#[test]
fn a_signal_that_is_sent_ends_the_process() {
    if !child("a_signal_that_is_sent_ends_the_process", |s| assert_eq!(s.signal(), SIGBUS, "{s}")) {
        return;
    }
    let fd = file(1);
    let _guarded = Mapping::guarded(&fd, 0, PAGE, Access::Read).unwrap();
    let me = rustix::process::getpid();
    rustix::process::kill_process(me, rustix::process::Signal::BUS).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(5));
}
