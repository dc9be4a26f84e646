//! packaging/kmod.sh, which builds the guests' kernel module.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A kernel of which there are headers nowhere.
const VERSION: &str = "0.0.0-none";

#[test]
fn a_second_run_waits_for_the_first_and_takes_what_it_built() {
    let dir = tempfile::tempdir().unwrap();
    let (kernel, out) = (dir.path().join("kernel"), dir.path().join("kmod"));
    let modules = kernel.join("lib/modules").join(VERSION);
    fs::create_dir_all(&modules).unwrap();
    fs::write(modules.join("modules.dep"), "").unwrap();
    fs::write(kernel.join("vmlinuz"), "x").unwrap();
    fs::write(kernel.join("version"), VERSION).unwrap();
    fs::create_dir_all(out.join(VERSION)).unwrap();
    // The first run.
    let lock = File::create(out.join("lock")).unwrap();
    lock.lock().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kmod.sh");
    let mut second = Command::new(script)
        .env("VFUN_GUEST_KERNEL_DIR", &kernel)
        .env("VFUN_KMOD_DIR", &out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let inode = format!(":{} ", lock.metadata().unwrap().ino());
    let waits = || {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|l| l.contains("-> FLOCK") && l.contains(&inode))
    };
    while !waits() {
        assert!(second.try_wait().unwrap().is_none(), "it did not wait");
        std::thread::sleep(Duration::from_millis(5));
    }
    let module = out.join(VERSION).join("vfun.ko");
    fs::write(&module, "built by the first").unwrap();
    drop(lock);
    let done = second.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim_end(), module.to_str().unwrap());
}
