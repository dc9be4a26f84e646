use super::*;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;
use vfun_links::relay::{SaidVerdict, VerdictNews, WatchNews};

/// Until something happens that is sure to happen: machines are busy.
const PATIENCE: Duration = Duration::from_secs(60);

fn verdict(port: &str, number: u64) -> (About, FromLinks) {
    let verdict = SaidVerdict::Why("no".into());
    let news = VerdictNews { from: port.into(), number, verdict, passed: None };
    (About::Port(port.into()), FromLinks::Verdict(news))
}

fn pair() -> (OwnedFd, OwnedFd) {
    use rustix::net::{AddressFamily, SocketFlags, socketpair};
    let flags = SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn connected() -> (OwnedFd, Teller, Receiver<Heard>) {
    let (a, b) = pair();
    let (hearing, heard) = sync_channel(1);
    (a, take(b, Hearing(hearing)).unwrap(), heard)
}

/// What is read next, as port and number.
fn next(socket: &OwnedFd) -> (String, u64) {
    let mut room = [0; PACKET_BYTES];
    let (n, _) = recv(socket, &mut room[..], RecvFlags::empty()).unwrap();
    match serde_json::from_slice(&room[..n]).unwrap() {
        FromLinks::Verdict(news) => (news.from, news.number),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_manager_that_does_not_read_is_waited_for_and_hears_the_newest() {
    let (socket, teller, _heard) = connected();
    // Far more than the socket takes.
    let last = 20_000;
    for number in 1..=last {
        let (about, word) = verdict("a", number);
        teller.tell(about, word);
    }
    let (about, word) = verdict("b", 1);
    teller.tell(about, word);
    assert!(teller.0.unsent.lock().unwrap().len() <= 2);
    let (mut heard, mut before) = ([0, 0], 0);
    while heard != [last, 1] {
        let (port, number) = next(&socket);
        if port == "a" {
            assert!(number > before, "in order");
            before = number;
        }
        heard[usize::from(port == "b")] = number;
    }
}

#[test]
fn each_port_has_its_turn() {
    let words = Words::default();
    let put = |port: &str| {
        let (about, word) = verdict(port, 1);
        words.unsent.lock().unwrap().insert(about, word);
    };
    ["a", "b", "c"].into_iter().for_each(put);
    let mut last = None;
    let mut order = vec![];
    for _ in 0..6 {
        let (about, _) = words.next(last.as_ref());
        let About::Port(port) = &about else { panic!("{about:?}") };
        put(port);
        order.push(port.clone());
        last = Some(about);
    }
    assert_eq!(order, ["a", "b", "c", "a", "b", "c"]);
}

#[test]
fn an_ordinary_standard_input_is_refused() {
    let file = std::fs::File::open("/dev/null").unwrap();
    let why = take(file.into(), Hearing(sync_channel(1).0)).err().unwrap();
    assert!(why.contains("vfund --links"), "{why}");
}

#[test]
fn packets_that_come_together_are_followed_by_one_mark() {
    let (socket, theirs) = pair();
    let news = |port: &str| ToLinks::Port(WatchNews { port: port.into(), declared: None });
    let say = |bytes: &[u8]| send(&socket, bytes, SendFlags::empty()).unwrap();
    for port in ["a", "b"] {
        say(&serde_json::to_vec(&news(port)).unwrap());
    }
    say(b"{\"port\": 7}");
    say(&vec![b' '; PACKET_BYTES + 1]);
    say(&serde_json::to_vec(&news("c")).unwrap());
    // All of them are there before anybody listens.
    let (hearing, heard) = sync_channel(1);
    let _teller = take(theirs, Hearing(hearing)).unwrap();
    let next = || match heard.recv_timeout(PATIENCE).unwrap() {
        Heard::Said(ToLinks::Port(news)) => news.port,
        Heard::SaidAll => "a mark".into(),
        other => panic!("{other:?}"),
    };
    // What is no word is left out.
    assert_eq!([next(), next(), next(), next()], ["a", "b", "c", "a mark"]);
    drop(socket);
    assert!(matches!(heard.recv_timeout(PATIENCE).unwrap(), Heard::ManagerGone));
}
