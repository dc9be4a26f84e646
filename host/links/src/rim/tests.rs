use super::*;
use crate::detect::{Hindrance, Missing};

const PATIENCE: Duration = Duration::from_secs(60);

/// A link whose events go to the receiver.
pub(super) fn link(peer: Peer) -> (Link, Receiver<Event>) {
    let (events, heard) = sync_channel(MESSAGES_WAITING);
    let places = Places { run: "/x".into(), database: "/x/db.sock".into(), bridge: "br0".into() };
    (Link { peer, places, events, ends: Arc::default() }, heard)
}

/// A socket whose queue of connections is full, with those that fill it.
fn full(path: &Path) -> (impl Drop + use<>, Vec<UnixStream>) {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&listener, 0).unwrap();
    let mut waiting = vec![];
    while let Ok(stream) = connect(path, Duration::ZERO, || false) {
        waiting.push(stream);
    }
    (listener, waiting)
}

#[test]
fn a_socket_that_takes_no_connection_is_given_up_and_keeps_nobody_from_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let (_listener, waiting) = full(&path);
    assert!(!waiting.is_empty());
    let (done, is_done) = channel();
    for (at_most, ended) in [(END_LOOK, false), (PATIENCE * 60, true)] {
        let (done, path) = (done.clone(), path.clone());
        thread::spawn(move || {
            let _ = done.send(connect(&path, at_most, || ended).unwrap_err().to_string());
        });
        let why = is_done.recv_timeout(PATIENCE).expect("it ends");
        let words = if ended { "nobody asks" } else { "takes no connection" };
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn what_is_no_socket_is_named_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let why = |path: &Path| connect(path, PATIENCE, || false).unwrap_err().to_string();
    assert!(why(&path).contains("/x: No such file"), "{}", why(&path));
    assert!(why(&path).contains("start Open vSwitch"), "{}", why(&path));
    std::fs::write(&path, "").unwrap();
    assert!(why(&path).contains("see whether Open vSwitch runs"), "{}", why(&path));
    let long = folder.path().join("x".repeat(200));
    assert!(why(&long).contains("xxx"), "{}", why(&long));
}

/// Nobody's memory grows because he does not take what he asked for.
#[test]
fn who_does_not_take_the_changes_is_told_by_the_end_of_the_channel() {
    let (changes, changed) = sync_channel(2);
    let (traces, _asked) = channel();
    let (switch, rows) = (Writer::default(), Writer::default());
    let mut judge = Judge { detector: Detector::default(), switch, rows, traces, changes };
    let verdict = || Verdict::Not(Hindrance::NotKnown(Missing::Judgement));
    let change = || Action::Changed { from: "a".to_owned(), verdict: verdict(), passed: None };
    assert!(judge.act(change()) && judge.act(change()));
    assert!(!judge.act(change()), "nobody takes them");
    let (events, heard) = sync_channel(MESSAGES_WAITING);
    let port = |n: usize| OurPort {
        interface: format!("p{n}"),
        kind: "dpdk".to_owned(),
        devargs: None,
        mtu: 1500,
    };
    events.send(Event::Ours(vec![port(1)])).unwrap();
    let (done, is_done) = channel();
    thread::spawn(move || {
        judge.run(&heard, &AtomicBool::new(false));
        let _ = done.send(());
    });
    is_done.recv_timeout(PATIENCE).expect("the judge ends");
    assert_eq!(changed.iter().count(), 2, "and then the channel does");
}
