//! The proxy between two sockets: a controller and a switch that this test plays.

use crate::played::{ManagerPlayed, PATIENCE, manager, now_ms, until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use vfun_admin::links::FlowRow;
use vfun_linkproxy::correct::Sums;
use vfun_linkproxy::limits::{HELD_FOR, SILENT};
use vfun_linkproxy::manager::Manager;
use vfun_linkproxy::place::{ControllerSide, SwitchSide, TlsFiles};
use vfun_linkproxy::relay::Proxy;

/// A proxy with both of its ends.
struct Rig {
    said: Arc<Mutex<ManagerPlayed>>,
    manager: Arc<Manager>,
    controllers: TcpListener,
    proxy: std::net::SocketAddr,
    _folder: tempfile::TempDir,
}

impl Rig {
    fn new(strict: bool) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("admin.sock");
        let said = manager(&socket);
        Rig::with(strict, folder, &socket, said)
    }

    fn with(
        strict: bool,
        folder: tempfile::TempDir,
        socket: &Path,
        said: Arc<Mutex<ManagerPlayed>>,
    ) -> Rig {
        let controllers = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = format!("tcp:{}", controllers.local_addr().unwrap()).parse().unwrap();
        let none = TlsFiles::default();
        let switch = SwitchSide::open(&"tcp:127.0.0.1:0".parse().unwrap(), &none).unwrap();
        let proxy = switch.listener.local_addr().unwrap();
        let controller = ControllerSide::of(to, None, &none).unwrap();
        let manager = Arc::new(Manager::new(socket.to_owned(), "br0".into(), strict));
        let serves = Proxy::new(manager.clone(), switch, controller);
        std::thread::spawn(move || serves.serve());
        Rig { said, manager, controllers, proxy, _folder: folder }
    }

    /// A switch and the controller that it gets.
    fn connect(&self) -> (TcpStream, TcpStream) {
        let switch = TcpStream::connect(self.proxy).unwrap();
        let (controller, _) = self.controllers.accept().unwrap();
        for end in [&switch, &controller] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        (switch, controller)
    }
}

fn message(version: u8, kind: u8, xid: u32, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + body.len()).unwrap();
    let mut all = vec![version, kind];
    all.extend(length.to_be_bytes());
    all.extend(xid.to_be_bytes());
    all.extend(body);
    all
}

/// The question for all rules of 1.3, and the answer: one, ten seconds old.
fn flows(xid: u32, frames: u64) -> (Vec<u8>, Vec<u8>) {
    let mut ask = vec![0, 1, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0];
    ask.extend([0xff; 8]);
    ask.extend([0; 20]);
    ask.extend([0, 1, 0, 4, 0, 0, 0, 0]);
    let mut said = vec![0, 1, 0, 0, 0, 0, 0, 0];
    said.extend([0, 64, 0, 0]);
    said.extend(10u32.to_be_bytes());
    said.extend([0; 4]);
    said.extend([0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    said.extend(5u64.to_be_bytes());
    said.extend(frames.to_be_bytes());
    said.extend((60 * frames).to_be_bytes());
    said.extend([0, 1, 0, 12, 0x80, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0]);
    (message(4, 18, xid, &ask), message(4, 19, xid, &said))
}

fn read(from: &mut TcpStream, bytes: usize) -> Vec<u8> {
    let mut room = vec![0; bytes];
    from.read_exact(&mut room).unwrap();
    room
}

fn is_closed(end: &mut TcpStream) -> bool {
    matches!(end.read(&mut [0; 1]), Ok(0) | Err(_))
}

#[test]
fn bytes_pass_both_ways_and_counts_are_corrected_with_the_sums_of_now() {
    let rig = Rig::new(false);
    let (mut switch, mut controller) = rig.connect();
    let hello = message(4, 0, 1, b"any bytes");
    switch.write_all(&hello).unwrap();
    assert_eq!(read(&mut controller, hello.len()), hello);
    let long = message(4, 13, 2, &[7; 60_000]);
    controller.write_all(&long).unwrap();
    assert_eq!(read(&mut switch, long.len()), long);
    for (xid, sum) in [(3, 100), (4, 250)] {
        rig.said.lock().unwrap().rows = vec![FlowRow {
            bridge: "br0".into(),
            table: 0,
            priority: 9,
            cookie: 5,
            in_port: Some(1),
            made: (now_ms() - 10_000, now_ms() - 10_000),
            frames: sum,
            bytes: 60 * sum,
            ports: vec![],
        }];
        let (ask, said) = flows(xid, 40);
        controller.write_all(&ask).unwrap();
        assert_eq!(read(&mut switch, ask.len()), ask);
        switch.write_all(&said).unwrap();
        assert_eq!(read(&mut controller, said.len()), flows(xid, 40 + sum).1);
    }
    until("the manager knows", || {
        rig.said.lock().unwrap().proxies.iter().any(|row| row.connections == 1)
    });
    drop(controller);
    assert!(is_closed(&mut switch));
    until("and that it ended", || {
        rig.said.lock().unwrap().proxies.last().is_some_and(|row| row.connections == 0)
    });
    assert_eq!(rig.said.lock().unwrap().proxies.last().unwrap().corrected, 2);
}

#[test]
fn a_change_of_rules_waits_for_links_and_all_behind_it_too() {
    let rig = Rig::new(true);
    let (mut switch, mut controller) = rig.connect();
    rig.said.lock().unwrap().direct = 5;
    let change = message(4, 14, 1, &[0; 48]);
    let barrier = message(4, 20, 2, &[]);
    controller.write_all(&[&change[..], &barrier].concat()).unwrap();
    assert_eq!(read(&mut switch, change.len()), change);
    // When the change has come the links had come back.
    assert_eq!(rig.said.lock().unwrap().direct, 0);
    assert_eq!(read(&mut switch, barrier.len()), barrier);
    let holds = rig.said.lock().unwrap().holds;
    assert_eq!(holds, 6);
    let tally = &rig.manager.tally;
    assert_eq!((tally.held.load(Ordering::Relaxed), tally.let_go.load(Ordering::Relaxed)), (1, 0));
}

#[test]
fn a_change_of_rules_passes_when_links_do_not_come_back() {
    let rig = Rig::new(true);
    let (mut switch, mut controller) = rig.connect();
    rig.said.lock().unwrap().direct = usize::MAX;
    let change = message(1, 14, 1, &[0; 64]);
    controller.write_all(&change).unwrap();
    assert_eq!(read(&mut switch, change.len()), change);
    assert_eq!(rig.manager.tally.let_go.load(Ordering::Relaxed), 1);
    // Without --strict nobody asks.
    let rig = Rig::new(false);
    let (mut switch, mut controller) = rig.connect();
    controller.write_all(&change).unwrap();
    assert_eq!(read(&mut switch, change.len()), change);
    assert_eq!(rig.said.lock().unwrap().holds, 0);
}

#[test]
fn without_a_manager_all_passes() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nobody.sock");
    let rig = Rig::with(true, folder, &nowhere, Arc::default());
    let (mut switch, mut controller) = rig.connect();
    let (ask, said) = flows(3, 40);
    let change = message(4, 14, 1, &[0; 48]);
    controller.write_all(&[&ask[..], &change].concat()).unwrap();
    assert_eq!(read(&mut switch, ask.len() + change.len()), [ask, change].concat());
    switch.write_all(&said).unwrap();
    assert_eq!(read(&mut controller, said.len()), said);
    until("it is counted", || rig.manager.tally.uncorrected.load(Ordering::Relaxed) == 1);
    assert_eq!(rig.manager.tally.let_go.load(Ordering::Relaxed), 1);
}

#[test]
fn what_is_no_openflow_ends_the_connection_and_no_other() {
    let rig = Rig::new(false);
    let (mut switch, mut controller) = rig.connect();
    let (mut other_switch, mut other_controller) = rig.connect();
    switch.write_all(&[4, 2, 0, 7, 0, 0, 0, 1]).unwrap();
    assert!(is_closed(&mut controller) && is_closed(&mut switch));
    let (mut switch, mut controller) = rig.connect();
    controller.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // Its length is that of letters: more is waited for, and nothing passes.
    controller.write_all(&[0; 30]).unwrap();
    drop(controller);
    assert!(is_closed(&mut switch));
    let echo = message(4, 2, 9, b"there");
    other_switch.write_all(&echo).unwrap();
    assert_eq!(read(&mut other_controller, echo.len()), echo);
}

#[test]
fn another_bridge_is_not_let_in() {
    let rig = Rig::new(false);
    let features = |number: u64| {
        let mut body = number.to_be_bytes().to_vec();
        body.extend([0; 16]);
        message(4, 6, 1, &body)
    };
    let (mut first, mut controller) = rig.connect();
    first.write_all(&features(7)).unwrap();
    assert_eq!(read(&mut controller, 32), features(7));
    let (mut second, mut controller) = rig.connect();
    second.write_all(&features(8)).unwrap();
    assert!(is_closed(&mut controller) && is_closed(&mut second));
    let (mut third, mut controller) = rig.connect();
    third.write_all(&features(7)).unwrap();
    assert_eq!(read(&mut controller, 32), features(7));
}

#[test]
fn changes_behind_one_that_was_not_held_do_not_wait_each() {
    let rig = Rig::new(true);
    rig.said.lock().unwrap().direct = usize::MAX;
    let mut tries = 0..20;
    let quick = tries.any(|_| {
        rig.manager.before_change();
        let (asked, began) = (rig.said.lock().unwrap().holds, Instant::now());
        assert!(asked > 0, "the first one waits");
        (0..100).for_each(|_| rig.manager.before_change());
        // On a busy machine the pause is over meanwhile.
        began.elapsed() < HELD_FOR / 2 && rig.said.lock().unwrap().holds == asked
    });
    assert!(quick, "each asks");
}

#[test]
fn a_manager_that_does_not_answer_is_not_asked_for_each_answer() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let asks = Arc::new(Manager::new(socket.clone(), "br0".into(), false));
    assert!(asks.rows().is_none(), "nobody is there");
    let began = Instant::now();
    let _said = manager(&socket);
    let soon = asks.rows();
    assert!(soon.is_none() || began.elapsed() >= SILENT / 2, "it was asked at once");
    until("it is asked again", || asks.rows().is_some());
}
