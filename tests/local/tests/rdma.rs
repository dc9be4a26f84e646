//! Programs of Debian that know of nothing but libibverbs and librdmacm, on the host, by its NIC.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;
use vfun_tests_local::rdma::{
    ANSWERS, CONFORMANCE, EVENTS, MANAGED, MEMORY, PairOfPrograms, VERBS, can_be_tried, command,
    compiled, free_port, offer, run, run_well,
};
use vfun_tests_local::{Stand, repo};

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
    assert!(out.status.success() && text.matches(": ok").count() == 4, "{text}");
}

/// The file is what was compared with Soft-RoCE (tests/rdma-conform.sh).
#[test]
fn each_request_is_answered_as_it_always_was() {
    if !can_be_tried() {
        return;
    }
    let stand = offer();
    let dir = tempfile::tempdir().expect("a folder");
    let program = format!("timeout 120 {}", compiled(CONFORMANCE, dir.path()).display());
    let out = command(&stand, &program, true).output().expect("it runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let file = repo().join(ANSWERS);
    if std::env::var_os("VFUN_GOLDEN").is_some() {
        std::fs::write(&file, &text).expect("it can be written");
    }
    let due = std::fs::read_to_string(file).expect("answers");
    for (answer, due) in text.lines().zip(due.lines()) {
        assert_eq!(answer, due);
    }
    assert_eq!(text, due, "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn without_a_nic_a_program_is_told_why() {
    if !can_be_tried() {
        return;
    }
    let stand = Stand::start();
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

/// Who has queue pairs, receives and ids of connections of a NIC that dies hears of each, and can open the next one.
#[test]
fn a_nic_that_dies_is_told_by_events_and_flushes() {
    if !can_be_tried() {
        return;
    }
    let stand = offer();
    let dir = tempfile::tempdir().expect("a folder");
    let program = format!("timeout 60 {} --device-dies", compiled(EVENTS, dir.path()).display());
    let mut child =
        command(&stand, &program, false).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");
    kill_nics(&stand);
    let said: Vec<String> = lines.map(|line| line.expect("text")).collect();
    let status = child.wait().expect("it ends");
    assert!(status.success() && said.len() == 4, "{status}: {said:#?}");
    assert!(said.iter().all(|line| line.ends_with(": ok")), "{said:#?}");
}

/// Also by a program that may write no long files: memory does not move through a file then.
#[test]
fn long_memory_moves_whole() {
    if !can_be_tried() {
        return;
    }
    let stand = offer();
    let dir = tempfile::tempdir().expect("a folder");
    let program = compiled(MEMORY, dir.path()).display().to_string();
    for words in [format!("{program} --sizes"), format!("prlimit --fsize=4096 {program} --sizes")] {
        let out = command(&stand, &words, true).output().expect("it runs");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{words}: {}\n{text}", out.status);
        assert_eq!(text, "regions of a page and of many: ok\n");
    }
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
        let run = command(&stand, &format!("{program} --lost 100"), true).output();
        lost(&String::from_utf8_lossy(&run.expect("it runs").stdout)) > 0
    });
    assert!(found, "no write was lost in 500 careless registrations");
}

fn kill_nics(stand: &Stand) {
    use vfun_admin::{Ask, Reply};
    let Reply::Services { services } = stand.ask(&Ask::Services) else { panic!("services") };
    for nic in services.iter().filter(|service| service.function == "verbs") {
        let pid = rustix::process::Pid::from_raw(nic.pid as i32).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    }
}

#[test]
fn what_a_program_has_is_shown_and_a_manifest_bounds_it() {
    if !can_be_tried() {
        return;
    }
    let stand = offer();
    let manifest = "name = \"lab\"\nkind = \"host\"\nwindow = \"64 MiB\"\naddress = \"10.9.0.1\"\n[rdma]\nnetwork = \"10.9.0.0/24\"\nprograms = 1\nmemory = \"1 MiB\"\n";
    match stand.add_client(manifest) {
        Ok(vfun_admin::Reply::ClientAdded(_)) => {}
        other => panic!("{other:?}"),
    }
    let of_lab = |words: &str| {
        let mut command = command(&stand, words, true);
        command.env("VFUN_CLIENT", "lab");
        command
    };
    // It waits for its peer.
    let words = format!("ibv_rc_pingpong -p {}", free_port());
    let mut server = of_lab(&words).stdout(Stdio::null()).spawn().expect("it runs");
    let has_pair = |s: &Stand| {
        s.grants().iter().filter_map(|g| g.rdma.as_ref()).any(|nic| nic.queue_pairs == 1)
    };
    stand.until("its queue pair is shown", has_pair);
    let all = stand.grants();
    let nic = all.iter().find_map(|g| g.rdma.as_ref()).expect("it was there");
    assert_eq!((nic.regions, nic.gid.to_string().as_str()), (1, "::ffff:10.9.0.1"));
    assert!((4096..1 << 20).contains(&nic.registered_bytes), "{nic:?}");

    let second = of_lab("ibv_devinfo").output().expect("it runs");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("by [rdma] of the client's manifest"), "{said}");
    server.kill().and_then(|()| server.wait()).expect("it ends");
    stand.until("nothing is left of it", |s| s.grants().is_empty());

    let large = format!("ibv_rc_pingpong -s 2097152 -p {}", free_port());
    let large = of_lab(&large).output().expect("it runs");
    let said = String::from_utf8_lossy(&large.stderr).into_owned();
    assert!(
        !large.status.success() && said.contains("by [rdma] of the client's manifest"),
        "{said}"
    );
}

#[test]
fn a_program_that_is_killed_while_it_sends_is_an_error_of_its_peer() {
    if !can_be_tried() {
        return;
    }
    let stand = offer();
    let words = format!("ib_send_bw -b -D 30 -p {}", free_port());
    let start = |words: &str| {
        let mut program = command(&stand, words, true);
        program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs")
    };
    let mut server = start(&words);
    stand.until("the server has its device", |s| !s.grants().is_empty());
    std::thread::sleep(Duration::from_millis(500));
    let mut client = start(&format!("{words} 127.0.0.1"));
    stand.until("they send", |s| {
        let grants = s.grants();
        grants.iter().filter(|g| g.rdma.is_some() && g.counters.calls > 1000).count() == 2
    });
    client.kill().and_then(|()| client.wait()).expect("it ends");
    stand.until("its peer ends", |_| server.try_wait().expect("it is ours").is_some());
    assert!(!server.wait().expect("it ended").success(), "the peer heard nothing of it");
    stand.until("nothing is left of them", |s| s.grants().is_empty());
    run_well(&stand, &VERBS[0]);
}
