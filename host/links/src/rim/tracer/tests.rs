use super::*;
use crate::detect::Peer;
use crate::rim::tests::link;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A peer that always says something, and never answers.
#[test]
fn who_talks_without_an_answer_does_not_keep_a_trace_from_its_end() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(END_LOOK)).unwrap();
    std::thread::spawn(move || while theirs.write_all(br#"{"id":"other"}"#).is_ok() {});
    let (link, _events) = link(Peer::Trace);
    let ends = link.ends.clone();
    let (done, is_done) = channel();
    std::thread::spawn(move || {
        let packets = Packets { dl_type: 0x0806, fragment: None, tagged: false };
        let asked = Question { id: 1, in_port: 1, packets };
        let _ = done.send(trace(&link, &mut Rpc::new(ours), &asked).unwrap_err().to_string());
    });
    assert!(is_done.recv_timeout(Duration::from_millis(300)).is_err(), "there is no answer");
    ends.store(true, Ordering::Relaxed);
    let why = is_done.recv_timeout(PATIENCE).expect("it ends when all ends");
    assert!(why.contains("nobody asks"), "{why}");
}

#[test]
fn answers_that_are_too_long_or_errors_are_cut() {
    let text = |bytes: usize| json!({ "result": "x".repeat(bytes), "error": null });
    assert_eq!(said(&text(TRACE_BYTES_MAX)).unwrap().len(), TRACE_BYTES_MAX);
    assert!(said(&text(TRACE_BYTES_MAX + 1)).unwrap_err().contains("more than"));
    let error = said(&json!({ "result": null, "error": "x".repeat(9_999) })).unwrap_err();
    assert!(error.len() < 1_000);
}
