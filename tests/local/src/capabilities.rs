//! What a process may do of what root may.

use std::time::{Duration, Instant};

/// Waits until no thread of a process has a capability, or can gain one by another program.
pub fn until_none(pid: u32) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        let has: Vec<String> = threads.flat_map(|t| of_thread(&t.unwrap().path())).collect();
        if has.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "it has {has:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Lines of its status that say that it may do something.
fn of_thread(task: &std::path::Path) -> Vec<String> {
    // One that has just ended has nothing.
    let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
    let may = |line: &&str| match line.split_once(":\t") {
        Some(("CapInh" | "CapPrm" | "CapEff" | "CapAmb", set)) => set.contains(|c| c != '0'),
        Some(("NoNewPrivs", set)) => set != "1",
        _ => false,
    };
    status.lines().filter(may).map(str::to_owned).collect()
}
