//! Programs of Debian that know of nothing but libibverbs and librdmacm, on the host, by its NIC.

use std::time::Duration;
use vfun_tests_local::rdma::{
    EVENTS, MANAGED, MEMORY, PairOfPrograms, VERBS, can_be_tried, command, compiled, offer, run,
    run_well,
};

/// Runs each pair.
fn all(pairs: &[PairOfPrograms]) {
    if !can_be_tried() {
        return;
    }
    let stand = offer();
    pairs.iter().for_each(|pair| run_well(&stand, pair));
    stand.until("nothing is left of them", |s| s.grants().is_empty());
}

#[test]
fn programs_of_libibverbs_run_on_the_hosts_nic() {
    all(&VERBS);
}

#[test]
fn programs_of_librdmacm_run_on_the_hosts_nic() {
    all(&MANAGED);
}

#[test]
fn a_device_is_listed_and_described() {
    if !can_be_tried() {
        return;
    }
    let stand = offer();
    let out = command(&stand, "ibv_devinfo -v", false).output().expect("it runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    for line in ["hca_id:\tvfun0", "PORT_ACTIVE (4)", "max_sge:\t\t\t16", "ATOMIC_HCA (1)"] {
        assert!(text.contains(line), "no '{line}' in:\n{text}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_a_sentence() {
    if !can_be_tried() {
        return;
    }
    let stand = offer();
    let moves_not = PairOfPrograms {
        server: "ib_write_bw -n 10 -p PORT",
        client: "ib_write_bw -n 10 -p PORT HOST",
        serves_on: true,
        moves: false,
    };
    let ended = run(&stand, &moves_not);
    assert!(!ended.client.status.success());
    let said = "memory for remote access was not registered: memory can move into the window only by the guest's kernel module";
    assert!(ended.text().contains(said), "{}", ended.text());
    let out = command(&stand, "rstream -s 127.0.0.1", false).output().expect("it runs");
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(text.contains("rsocket is not offered: rsockets look into"), "{text}");
}

#[test]
fn what_is_destroyed_waits_until_its_events_were_acknowledged() {
    if !can_be_tried() {
        return;
    }
    let stand = offer();
    let dir = tempfile::tempdir().expect("a folder");
    let program = format!("timeout 60 {}", compiled(EVENTS, dir.path()).display());
    let out = command(&stand, &program, false).output().expect("it runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && text.matches(": ok").count() == 3, "{text}");
}

#[test]
fn without_a_nic_a_program_is_told_why() {
    if !can_be_tried() {
        return;
    }
    let stand = vfun_tests_local::Stand::start();
    let out = command(&stand, "ibv_rc_pingpong", false).output().expect("it runs");
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success());
    assert!(text.contains("no host offers 'verbs' to this program"), "{text}");
}

#[test]
fn a_nic_that_dies_is_an_error_of_the_program_and_the_device_comes_back() {
    if !can_be_tried() {
        return;
    }
    let stand = offer();
    let long = PairOfPrograms {
        server: "ib_send_bw -D 30 -p PORT",
        client: "ib_send_bw -D 30 -p PORT HOST",
        serves_on: false,
        moves: true,
    };
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| run(&stand, &long));
        stand.until("both programs have their queues", |s| s.totals().2 >= 6);
        std::thread::sleep(Duration::from_millis(500));
        kill_nics(&stand);
        let ended = ended.join().expect("it ended");
        let text = ended.text();
        assert!(!ended.client.status.success() && !ended.server.status.success(), "{text}");
        assert!(text.contains("status") || text.contains("Completion"), "{text}");
    });
    run_well(&stand, &VERBS[0]);
}

/// What the program of memory cases counts: writes of another thread that registering lost.
fn lost(text: &str) -> u64 {
    let number = text.lines().find_map(|line| line.strip_prefix("lost "));
    number.and_then(|n| n.trim().parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

/// The control of the test in a guest: where memory moves carelessly, the program sees it.
#[test]
fn the_program_of_memory_cases_finds_lost_writes() {
    if !can_be_tried() {
        return;
    }
    let stand = offer();
    let dir = tempfile::tempdir().expect("a folder");
    let program = compiled(MEMORY, dir.path()).display().to_string();
    let found = (0..5).any(|_| {
        let run = command(&stand, &format!("{program} --lost 300"), true).output();
        lost(&String::from_utf8_lossy(&run.expect("it runs").stdout)) > 0
    });
    assert!(found, "no write was lost in 1500 careless registrations");
}

fn kill_nics(stand: &vfun_tests_local::Stand) {
    use vfun_admin::{Ask, Reply};
    let Reply::Services { services } = stand.ask(&Ask::Services) else { panic!("services") };
    for nic in services.iter().filter(|service| service.function == "verbs") {
        let pid = rustix::process::Pid::from_raw(nic.pid as i32).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    }
}
