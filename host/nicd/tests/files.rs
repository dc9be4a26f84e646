//! Its files, its lock, and what it is started with.

use crate::stand::{Stand, seqpacket, write};
use std::process::Stdio;

#[test]
fn a_damaged_file_is_named_and_nothing_is_started() {
    for name in ["notes.json", "declared.json"] {
        let stand = Stand::new(0);
        write(&stand.root().join("nics").join(name), "{\"version\": 1, \"vfs\"");
        let (_ours, theirs) = seqpacket();
        let said = stand.refuses(theirs.into());
        assert!(said.contains(name) && said.contains("damaged"), "{said}");
    }
}

#[test]
fn two_of_one_root_do_not_run() {
    let mut stand = Stand::new(0);
    stand.start();
    let (_ours, theirs) = seqpacket();
    let said = stand.refuses(theirs.into());
    assert!(said.contains("another vfun-nics"), "{said}");
    assert!(stand.try_view().is_some(), "the first one goes on");
}

#[test]
fn without_the_managers_socket_it_says_who_starts_it() {
    let stand = Stand::new(0);
    let said = stand.refuses(Stdio::null());
    assert!(said.contains("vfund --nics"), "{said}");
}

#[test]
fn it_ends_with_its_manager() {
    let mut stand = Stand::new(0);
    stand.start();
    stand.manager().hang_up();
    stand.until("it has ended", Stand::has_ended);
}
