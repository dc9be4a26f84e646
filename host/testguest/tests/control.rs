//! QMP, resets, reboots, panics, and several guests.

use std::thread;
use std::time::Duration;

use crate::common::{SHORT, boot};
use serde_json::Value;
use vfun_testguest::{GuestConfig, GuestError};

#[test]
fn control_reset_and_panic() {
    let guest = boot(&GuestConfig {
        extra_args: vec!["-device".into(), "virtio-rng-pci".into()],
        ..GuestConfig::new("control")
    });
    assert_eq!(guest.qmp("query-status", Value::Null).unwrap()["status"], "running");
    let error = guest.qmp("no-such-command", Value::Null).unwrap_err().to_string();
    assert!(error.contains("no-such-command") && error.contains("CommandNotFound"), "{error}");

    // A reset while a command runs: it is told, and the next one is well.
    guest.run_ok("touch /tmp/before", SHORT).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| guest.run("sleep 1000", Duration::from_secs(100)));
        thread::sleep(Duration::from_millis(300));
        guest.reset().unwrap();
        assert!(matches!(waiting.join().unwrap(), Err(GuestError::Restarted { .. })));
    });
    assert_eq!(guest.boots(), 2);
    assert_eq!(guest.run("test -e /tmp/before", SHORT).unwrap().status, 1);

    // A reboot from inside.
    assert!(matches!(guest.run("reboot; sleep 100", SHORT), Err(GuestError::Restarted { .. })));
    guest.wait_boots(3, SHORT).unwrap();
    guest.run_ok("true", SHORT).unwrap();

    // Only init has the channel, even for root.
    let out = guest.run("echo nonsense >/proc/1/fd/3", SHORT).unwrap();
    assert!(out.status != 0 && String::from_utf8_lossy(&out.stderr).contains("busy"));

    // A panic is not waited for, neither is a QEMU that has gone.
    let error = guest
        .run("echo 1 >/proc/sys/kernel/sysrq; echo c >/proc/sysrq-trigger", SHORT)
        .unwrap_err();
    assert!(matches!(error, GuestError::Panicked { .. }), "{error}");
    assert!(error.to_string().contains("Kernel panic"), "{error}");
    guest.reset().unwrap();
    guest.qmp("quit", Value::Null).unwrap();
    let error = guest.run("true", SHORT).unwrap_err();
    assert!(
        matches!(&error, GuestError::Ended { why, .. } if why.contains("host-qmp-quit")),
        "{error}"
    );
    assert!(!guest.is_running());
}

#[test]
fn two_at_once() {
    thread::scope(|scope| {
        for name in ["first", "second"] {
            scope.spawn(move || {
                let guest = boot(&GuestConfig::new(name));
                assert_eq!(guest.run_ok("hostname", SHORT).unwrap(), name);
            });
        }
    });
}
