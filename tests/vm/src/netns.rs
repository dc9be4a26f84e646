//! Tests with a network of their own.

use std::process::Command;

/// In the child: that it is in its own network.
const INSIDE: &str = "VFUN_TEST_OWN_NETWORK";

/// Runs this test once more in a process with a network namespace of its own, where it may
/// make bridges and taps. True in that process; false in the first one, whose work is done
/// then. Needs root: without it, says that nothing is tested, and is false.
pub fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if let Some(why) = missing() {
        eprintln!("\n*** {test} IS NOT TESTED: {why} ***\n");
        return false;
    }
    let me = std::env::current_exe().unwrap();
    // /sys shows the interfaces of the namespace in which it was mounted.
    let script = "mount -t sysfs sysfs /sys && ip link set lo up && exec \"$@\"";
    let status = Command::new("unshare")
        .args(["--net", "--mount", "--", "sh", "-c", script, "sh"])
        .arg(me)
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare is there");
    assert!(status.success(), "{test} failed in its own network: {status}");
    false
}

/// Why there can be no network of a test's own, if there cannot.
fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("bridges and taps need root");
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        return Some("there is no /dev/net/tun, so there are no taps");
    }
    let tries = Command::new("unshare").args(["--net", "--mount", "--", "true"]).output();
    match tries.is_ok_and(|out| out.status.success()) {
        true => None,
        false => Some("this machine lets root make no network namespace"),
    }
}

/// Runs `ip` with these words.
pub fn ip(words: &str) {
    let out = Command::new("ip").args(words.split_whitespace()).output().expect("ip is there");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "ip {words}: {said}");
}
