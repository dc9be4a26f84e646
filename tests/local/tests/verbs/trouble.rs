//! Programs that go, die or err while others work, and a NIC that dies under work.

use super::*;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use vfun::BreakReason;
use vfun_remoting::{HEAD_BYTES, Records, Refusal};
use vfun_verbs::AsyncKind;

/// All of a program's buffer.
const ALL: usize = LENT * PAGE;

#[test]
fn a_program_that_goes_takes_its_things_and_its_peer_is_told() {
    let stand = stand();
    let (mut a, b) = pair(&stand);
    let gone = b.at;
    drop(b);
    stand.until("its channels are given back", |s| s.totals().2 == 2);
    a.write(9, gone, 0, 8);
    assert_eq!(a.wait().status, Status::RetryExceeded, "nobody answers");
    others_go_on(&stand);
}

/// Others come, and write to each other.
fn others_go_on(stand: &Stand) {
    let (mut c, mut d) = pair(stand);
    c.write(1, d.at, 0, 8);
    assert_eq!(c.wait().status, Status::Success);
    d.write(2, c.at, 0, 8);
    assert_eq!(d.wait().status, Status::Success);
}

/// Kills the NIC of the only client that has one.
fn kill_nic(stand: &Stand) {
    let [nic] = &nics(stand)[..] else { panic!("one NIC") };
    let pid = Pid::from_raw(nic.pid as i32).expect("a process");
    kill_process(pid, Signal::KILL).expect("killed");
}

/// Writes to a peer, many at once, until the channel ends: what the program is told.
fn write_until_the_end(app: &mut App, peer: Peer) -> vfun::Error {
    let mut posted = 0;
    loop {
        while app.has_room() {
            app.write(posted, peer, 0, ALL);
            posted += 1;
        }
        match app.try_wait() {
            Ok(done) => assert_eq!(done.status, Status::Success),
            Err(told) => return told,
        }
    }
}

/// Why the queue pair was not asked, by whatever service answers now.
fn refusal_of_query(stand: &Stand, app: &App) -> Option<Refusal> {
    let head = CallHead { sequence: 0, call: calls::VFUN_NIC_QP_QUERY };
    let (mut bytes, mut answer) = (vec![], vec![]);
    Writer::call(&mut bytes, head).name(app.qp);
    stand.until("a service answers", |_| {
        answer = app.calls.call(&bytes).unwrap_or_default();
        !answer.is_empty()
    });
    AnswerHead::split(&answer).expect("a head").0.refusal
}

#[test]
fn a_nic_that_dies_under_work_is_an_error_for_its_programs_and_comes_back() {
    let stand = stand();
    let (mut a, mut b) = pair(&stand);
    let (to_a, to_b) = (a.at, b.at);
    std::thread::scope(|scope| {
        let all = [
            scope.spawn(|| write_until_the_end(&mut a, to_b)),
            scope.spawn(|| write_until_the_end(&mut b, to_a)),
        ];
        kill_nic(&stand);
        for told in all.map(|thread| thread.join().expect("it was told")) {
            assert!(matches!(told, vfun::Error::Broken(BreakReason::ServiceLost)), "{told:?}");
            assert!(told.to_string().contains("its service died"), "{told}");
        }
    });
    // The channel of calls goes on with another service, which has never heard of the program.
    assert_eq!(refusal_of_query(&stand, &a), Some(Refusal::Fresh));
    drop((a, b));
    others_go_on(&stand);
}

#[test]
fn an_error_is_an_event_of_the_program_that_it_concerns() {
    let stand = stand();
    let (mut a, b) = pair(&stand);
    let hello = answered(&b.calls, numbers::HELLO, |w| w.u64(FINGERPRINT));
    // Behind the number of the description.
    let token = &hello[8..];
    answered(&b.calls, numbers::LISTEN, |w| w.bytes(token));
    let mut bytes = vec![];
    Writer::call(&mut bytes, CallHead { sequence: 0, call: numbers::EVENTS });
    let open = b.calls.submit_parts(&[&bytes[..]]).expect("posted");
    let wrong = Peer { key: b.at.key ^ 1, ..b.at };
    a.write(1, wrong, 0, 8);
    assert_eq!(a.wait().status, Status::RemoteAccess);
    let mut answer = vec![];
    open.append_to(&mut answer).expect("events");
    let record = Records::new(&answer[HEAD_BYTES..]).next().expect("one").expect("good");
    let mut r = Reader::new(record.body);
    let told = [(); 3].map(|()| r.u32().expect("a number"));
    // VFUN_NIC_EVENT, and that it is about a queue pair.
    assert_eq!((record.call, told), (64, [AsyncKind::QpAccess.to_wire(), 1, b.at.qpn]));
}

/// How a test tells the program that it starts and kills where its manager and its peer are.
const KILLED: &str = "VFUN_TESTS_VERBS_KILLED";

/// That program: connects to its peer, and writes to it until it is killed.
fn be_killed(words: &str) {
    let mut words = words.split(' ');
    let mut word = || words.next().expect("a word");
    let socket = word().into();
    let [qpn, lid, key] = [(); 3].map(|()| word().parse::<u32>().expect("a number"));
    let peer = Peer { qpn, lid: lid as u16, key };
    let options = vfun::ConnectOptions::new("killed").endpoint(vfun::Endpoint::Host(Some(socket)));
    let mut app = App::of(options.connect().expect("connected"));
    app.put(0, &[7; ALL]);
    println!("\nready {} {} {}", app.at.qpn, app.at.lid, app.at.key);
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the test goes on");
    app.connect(peer);
    write_until_the_end(&mut app, peer);
}

/// Starts it: the process, and what its peer must know.
fn start_killed(stand: &Stand, peer: Peer) -> (Child, Peer) {
    let socket = stand.root().join("host.sock");
    let words = format!("{} {} {} {}", socket.display(), peer.qpn, peer.lid, peer.key);
    let me = std::env::current_exe().expect("a test knows its own path");
    let name = "verbs::trouble::a_program_that_is_killed_in_mid_copy_harms_nobody";
    let mut child = Command::new(me)
        .args(["--exact", name, "--nocapture"])
        .env(KILLED, words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let said = lines.map_while(Result::ok).find_map(|l| Some(l.strip_prefix("ready ")?.to_owned()));
    let said = said.expect("it is ready");
    let numbers: Vec<u32> = said.split(' ').map(|n| n.parse().expect("a number")).collect();
    let [qpn, lid, key] = numbers[..] else { panic!("{said}") };
    (child, Peer { qpn, lid: lid as u16, key })
}

#[test]
fn a_program_that_is_killed_in_mid_copy_harms_nobody() {
    if let Ok(words) = std::env::var(KILLED) {
        return be_killed(&words);
    }
    let stand = stand();
    let mut b = App::new(&stand, "peer");
    let before = nics(&stand)[0].pid;
    let (mut child, dead) = start_killed(&stand, b.at);
    b.connect(dead);
    child.stdin.as_mut().expect("piped").write_all(b"go\n").expect("it reads");
    stand.until("its writes arrive", |_| b.bytes(ALL - 1, 1) == [7]);
    // Both ways: it is written to as well when it dies.
    (0..DEPTH.into()).for_each(|id| b.write(id, dead, 0, ALL));
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    let ends: Vec<_> = (0..DEPTH).map(|_| b.wait().status).collect();
    let fine = [Status::Success, Status::RetryExceeded, Status::Flushed];
    assert!(ends.iter().all(|end| fine.contains(end)), "{ends:?}");
    stand.until("its channels are given back", |s| s.totals().2 == 2);
    others_go_on(&stand);
    assert_eq!(nics(&stand)[0].pid, before, "the NIC lives");
}
