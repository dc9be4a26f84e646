//! Remoted APIs: programs in C that know of nothing but the API's header, linked with the library
//! that does the work and with the one that asks the host for it. Both must say the same.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use vfun_tests_local::gdma::{
    Program, assert_same, assert_survived, endpoint, kill_service, offer, said,
};

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
