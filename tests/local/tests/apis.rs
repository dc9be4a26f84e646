//! Remoted APIs: programs in C that know of nothing but the API's header, linked with the library
//! that does the work and with the one that asks the host for it. Both must say the same.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use vfun_tests_local::gdma::{
    Program, assert_same, assert_survived, endpoint, kill_service, offer, said,
};
use vfun_tests_local::pkcs11::{Tokens, can_be_tried};

#[test]
fn a_program_hears_the_same_from_the_host_and_from_the_library() {
    let program = Program::of("tests/local/tests/apis/conform.c");
    let stand = offer();
    assert_same(&said(program.native()), &said(program.remoted(&endpoint(&stand))));
    stand.until("nothing is left of it", |stand| stand.grants().is_empty());
}

#[test]
fn a_program_outlives_its_service_and_its_fork() {
    let program = Program::of("tests/local/tests/apis/survive.c");
    let stand = offer();
    let mut command = program.remoted(&endpoint(&stand));
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut said = String::new();
    while !said.ends_with("ready\n") {
        assert_ne!(out.read_line(&mut said).expect("text"), 0, "it ended early: {said}");
    }
    kill_service(&stand);
    out.read_to_string(&mut said).expect("text");
    assert!(child.wait().expect("its child").success(), "{said}");
    assert_survived(&said);
}

#[test]
fn what_programs_seldom_do_is_the_same_from_the_host_and_from_the_library() {
    let program = Program::of("tests/local/tests/apis/unruly.c");
    let stand = offer();
    let native = said(program.native());
    assert!(native.contains("900 functions called, 0 wrong"), "{native}");
    assert!(native.contains("in a function: 1, and of another context: 1\n"), "{native}");
    assert!(native.contains("a call while another waits: 0 wrong, meanwhile\n"), "{native}");
    assert_eq!(native, said(program.remoted(&endpoint(&stand))));
    stand.until("nothing is left of it", |stand| stand.grants().is_empty());
}

#[test]
fn a_callback_learns_at_once_of_a_transfer_that_the_host_did_not_begin() {
    let program = Program::of("tests/local/tests/apis/unruly.c");
    let stand = offer();
    let mut command = program.remoted(&endpoint(&stand));
    command.arg("too-many");
    let said = said(command);
    assert!(said.contains("asked: 0, it ended with -3, at once\n"), "{said}");
    assert!(said.contains("released: 0, and again: -1\n"), "{said}");
    assert!(said.ends_with("too many transfers: 0 wrong\ngdma_exit(context) = 0\n"), "{said}");
}

#[test]
fn a_program_that_waits_for_callbacks_hears_that_its_service_died() {
    let program = Program::of("tests/local/tests/apis/unruly.c");
    let stand = offer();
    let mut command = program.remoted(&endpoint(&stand));
    command.arg("dies").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut said = String::new();
    let mut hear = |said: &mut String, what| {
        while !said.ends_with(what) {
            assert_ne!(out.read_line(said).expect("text"), 0, "it ended early: {said}");
        }
    };
    hear(&mut said, "ready\n");
    kill_service(&stand);
    hear(&mut said, "again\n");
    assert!(said.contains("300 functions called, 0 wrong, the last with -7\n"), "{said}");
    // The new one has a channel for calls and one for events.
    stand.until("the lost connection is closed", |stand| stand.grants().len() == 2);
    drop(child.stdin.take());
    assert!(child.wait().expect("its child").success(), "{said}");
}

#[test]
fn without_a_host_a_program_is_told_so_at_once() {
    let program = Program::of("services/gdma/examples/bounce.c");
    let out = program.remoted("host:/nowhere.sock").output().expect("it runs");
    let words = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success());
    assert!(words.contains("no host offers 'gdma' to this program"), "{words}");
    assert!(words.contains("no host offers it"), "the API's own words: {words}");
}

#[test]
fn a_pkcs11_module_says_the_same_by_the_host() {
    if !can_be_tried() {
        return;
    }
    let tokens = Tokens::offer("");
    let with = |mut command: std::process::Command, argument: Option<&str>| {
        command.args(argument);
        said(command)
    };
    for argument in [Some("init"), None] {
        let native = with(tokens.native(), argument);
        let remoted = with(tokens.remoted(), argument);
        assert!(argument.is_some() || native.lines().count() > 150, "{native}");
        for (line, (native, remoted)) in native.lines().zip(remoted.lines()).enumerate() {
            assert_eq!(native, remoted, "line {}", line + 1);
        }
        assert_eq!(native, remoted);
    }
    tokens.stand.until("nothing is left of it", |stand| stand.grants().is_empty());
    let log = tokens.log();
    assert!(log.contains("client host, app program: C_Login, slot "), "{log}");
    assert!(log.contains(", user: failed with 0xa0") && log.contains(", user: done"), "{log}");
    assert!(!log.contains("8372"), "{log}");
}

/// The window that a program on this host has open.
fn window_of(pid: u32) -> Vec<u8> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").flatten();
    let named = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("virtfun-host"))
    };
    let window = files.map(|file| file.path()).find(named).expect("a window");
    std::fs::read(window).expect("it can be read")
}

#[test]
fn a_pin_does_not_stay_in_the_window() {
    if !can_be_tried() {
        return;
    }
    let tokens = Tokens::offer("");
    let mut init = tokens.remoted();
    init.arg("init");
    said(init);
    let mut command = tokens.remoted();
    command.arg("logs in").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut said = String::new();
    while !said.ends_with("ready\n") {
        assert_ne!(out.read_line(&mut said).expect("text"), 0, "it ended early: {said}");
    }
    let window = window_of(child.id());
    let has = |bytes: &[u8]| window.windows(bytes.len()).any(|part| part == bytes);
    assert!(has(b"SoftHSM"), "what is no secret may stay: this looks at the right place");
    assert!(!has(b"8372") && !has(b"4321\0\0\0\0"), "a PIN is still there");
    drop(child.stdin.take());
    assert!(child.wait().expect("its child").success(), "{said}");
}

#[test]
fn a_pkcs11_program_hears_that_its_service_died() {
    if !can_be_tried() {
        return;
    }
    let tokens = Tokens::offer("");
    let mut init = tokens.remoted();
    init.arg("init");
    said(init);
    let mut command = tokens.remoted();
    command.arg("dies").stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut said = String::new();
    while !said.ends_with("ready\n") {
        assert_ne!(out.read_line(&mut said).expect("text"), 0, "it ended early: {said}");
    }
    kill_service(&tokens.stand);
    out.read_to_string(&mut said).expect("text");
    assert!(child.wait().expect("its child").success(), "{said}");
    let after = said.split_once("ready\n").expect("just seen").1;
    let expected = [
        "the service is gone: 0x32",
        "f->C_GetSessionInfo(s, &info) = 0x32",
        "f->C_OpenSession(slot, CKF_SERIAL_SESSION, NULL, NULL, &s) = 0x32",
        "f->C_Initialize(NULL) = 0x191",
        "f->C_Finalize(NULL) = 0x0",
        "f->C_Initialize(NULL) = 0x0",
        "f->C_GetSessionInfo(s, &info) = 0xb3",
        "f->C_OpenSession(slot, CKF_SERIAL_SESSION, NULL, NULL, &s) = 0x0",
        "f->C_GetSessionInfo(s, &info) = 0x0",
        "f->C_Finalize(NULL) = 0x0",
    ];
    assert_eq!(after.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_thread_that_waits_for_a_slot_sleeps_until_the_host_tells_it() {
    if !can_be_tried() {
        return;
    }
    let tokens = Tokens::with_events();
    let mut command = tokens.remoted();
    command.arg("waits").stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut said = String::new();
    while !said.ends_with("ready\n") {
        assert_ne!(out.read_line(&mut said).expect("text"), 0, "it ended early: {said}");
    }
    // One channel of calls, and one of events in which the open call stays.
    let stand = &tokens.stand;
    stand.until("it waits", |stand| stand.grants().iter().any(|grant| grant.in_flight == 1));
    let calls = || stand.grants().iter().map(|grant| grant.counters.calls).sum::<u64>();
    stand.until("it has asked", |_| calls() >= 5);
    let before = calls();
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(calls(), before, "it asks again and again");
    std::fs::write(tokens.folder().join("plugged"), "").expect("the manager made the folder");
    out.read_to_string(&mut said).expect("text");
    assert!(child.wait().expect("its child").success(), "{said}");
    let after = said.split_once("ready\n").expect("just seen").1;
    let expected = [
        "f->C_WaitForSlotEvent(0, &event, NULL) = 0x0",
        "slot: 5 0",
        "f->C_WaitForSlotEvent(CKF_DONT_BLOCK, &event, NULL) = 0x8",
        "f->C_Finalize(NULL) = 0x0",
        "the thread that waited: 0x190",
    ];
    assert_eq!(after.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_client_sees_the_tokens_that_the_host_names() {
    if !can_be_tried() {
        return;
    }
    // Before it has this label, the slot is not there.
    let tokens = Tokens::offer("\"slots:host\" = \"slot:0, vfun\"\nslots = \"another\"\n");
    let mut init = tokens.remoted();
    init.arg("init");
    said(init);
    let seen = said(tokens.remoted());
    assert!(seen.contains("\nslots with a token: 1 0\n"), "{seen}");
    let tokens = Tokens::offer("slots = \"another\"\n");
    let mut init = tokens.remoted();
    init.arg("init");
    let seen = said(init);
    assert!(seen.contains("C_InitToken(first, so, 8, label) = 0x3\n"), "{seen}");
}
