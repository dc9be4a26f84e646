//! What a driver that took its service over may say to the manager in its name.

use vfun_tests_sandbox::{Attacker, BYTES};

const SYS_WRITE: i64 = 1;

/// Each time the manager would look at its sandbox.
#[test]
fn a_service_that_says_twice_that_it_is_ready_is_ended() {
    let attacker = Attacker::jailed();
    let pid = attacker.service().pid;
    let ready = br#"{"from":"ready","max_args":1,"max_result":1}"#;
    // The answer may come before the end does.
    let _ = attacker.call(SYS_WRITE, &[0, BYTES, ready.len() as u64], ready);
    attacker.stand.until("it is ended", |s| s.log().contains("says again that it is ready"));
    // One that was called just before its end is called again.
    while !attacker.call(SYS_WRITE, &[1, BYTES, 1], b"x").done() {}
    assert_ne!(attacker.service().pid, pid, "another one serves");
}
