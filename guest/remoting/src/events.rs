//! Hears what the host tells by itself, on a thread of its own: callbacks.

use crate::failure::Failure;
use crate::link::Link;
use std::time::Duration;
use vfun_remoting::{AnswerHead, Reader, Records, numbers};

/// What an API does with an event: its number and its body. Runs on the thread of events, which
/// makes the program's callbacks.
pub type Handler = fn(&'static Link, u16, Reader<'_>);

/// How long the thread waits at a time for a cell: other threads' calls hold them all.
const CELL_PAUSE: Duration = Duration::from_micros(50);

/// Begins the thread. Callbacks of one connection run on it, one after the other.
pub(crate) fn begin(link: &'static Link, handler: Handler) {
    let thread = std::thread::Builder::new().name("vfun-events".into());
    // Without a thread there are no callbacks; a program that also asks goes on.
    if let Err(why) = thread.spawn(move || hear(link, handler)) {
        eprintln!("VirtFun: no thread for callbacks: {why}");
    }
}

fn hear(link: &'static Link, handler: Handler) {
    let mut answer = vec![];
    while link.is_alive() {
        let call = match link.open_call(numbers::EVENTS, |_| ()) {
            Ok(call) => call,
            Err(Failure::Limit) => {
                std::thread::sleep(CELL_PAUSE);
                continue;
            }
            Err(_) => return,
        };
        answer.clear();
        // An error is the end of the connection; every other call hears of it as well.
        if call.append_to(&mut answer).is_err() {
            return;
        }
        let Ok((head, body)) = AnswerHead::split(&answer) else { return };
        if head.refusal.is_some() {
            return;
        }
        for record in Records::new(body).flatten() {
            handler(link, record.call, Reader::new(record.body));
        }
    }
}
