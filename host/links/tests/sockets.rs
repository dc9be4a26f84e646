//! The detector on sockets whose other ends are not a switch: whatever they say, it goes on, joins
//! nothing, and says what is wrong.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use vfun_links::{Change, OurPort, Places, Verdict, watch};

/// Until something is said that is sure to be said.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers each connection with these bytes, and keeps it open.
fn listens(path: &Path, bytes: &'static [u8]) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // Who is sent nonsense may be gone already.
            let _ = stream.write_all(bytes);
            std::thread::spawn(move || {
                let mut rest = vec![0; 4096];
                while stream.read(&mut rest).is_ok_and(|n| n > 0) {}
            });
        }
    });
}

fn watched(folder: &Path) -> (vfun_links::Watch, Receiver<Change>) {
    let port = |name: &str| OurPort {
        interface: name.to_owned(),
        kind: "dummy".to_owned(),
        devargs: None,
        mtu: 1500,
    };
    let places = Places {
        run: folder.to_owned(),
        database: folder.join("db.sock"),
        bridge: "br0".to_owned(),
    };
    watch(places, vec![port("a"), port("b")])
}

/// Waits for a reason with these words; nothing is joined meanwhile.
fn says(changes: &Receiver<Change>, words: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let change = changes.recv_timeout(left).unwrap_or_else(|e| panic!("{words}: {e}"));
        assert!(matches!(change.verdict, Verdict::Not(_)), "{change:?}");
        if change.verdict.to_string().contains(words) {
            return;
        }
    }
}

/// Greets, and tells its features, in OpenFlow 1.4.
const SWITCH: &[u8] = b"\x05\x00\x00\x08\x00\x00\x00\x01\
    \x05\x06\x00\x20\x00\x00\x00\x00\0\0\0\0\0\0\0\x01\0\0\0\0\xfe\0\0\0\0\0\x02\x4f\0\0\0\0";

#[test]
fn other_ends_that_are_not_a_switch_are_named() {
    const CASES: [(&[u8], &[u8], &str); 7] = [
        (b"SSH-2.0 hello, this is long enough\r\n", b"", "wrong version"),
        (b"\x04\x00\x00\x08\x00\x00\x00\x01\x04\x06\x00\x08\x00\x00\x00\x00", b"", "OpenFlow14"),
        (b"\x05\x01\x00\x0c\x00\x00\x00\x01\x00\x00\x00\x00", b"", "OpenFlow14"),
        (SWITCH, b"]", "not JSON-RPC"),
        (SWITCH, b"{\"id\":\"rows\",\"result\":7,\"error\":null}", "its schema"),
        (SWITCH, b"{\"id\":\"rows\",\"result\":null,\"error\":\"no\"}", "does not show its tables"),
        (SWITCH, b"{\"id\":\"rows\",\"result\":{},\"error\":null}", "not in the switch's database"),
    ];
    for (switch, database, words) in CASES {
        let folder = tempfile::tempdir().unwrap();
        listens(&folder.path().join("br0.mgmt"), switch);
        listens(&folder.path().join("db.sock"), database);
        let (_watch, changes) = watched(folder.path());
        says(&changes, words);
    }
}

#[test]
fn sockets_that_are_not_there_are_named_and_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let (_watch, changes) = watched(folder.path());
    says(&changes, "br0.mgmt");
    listens(&folder.path().join("br0.mgmt"), SWITCH);
    says(&changes, "db.sock");
    listens(&folder.path().join("db.sock"), b"{\"id\":\"rows\",\"result\":{},\"error\":null}");
    says(&changes, "not in the switch's database");
}

/// It ends though a peer that takes nothing and says nothing is there.
#[test]
fn it_ends_when_it_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    listens(&folder.path().join("br0.mgmt"), b"");
    let (watch, changes) = watched(folder.path());
    says(&changes, "it was not tried yet");
    drop(watch);
    assert!(changes.iter().count() < 1000, "and nobody is told any more");
}
