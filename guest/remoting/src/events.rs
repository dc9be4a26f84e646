//! Hears what the host tells by itself, on a thread of its own: callbacks.

use crate::failure::Failure;
use crate::link::{Ear, Link};
use std::cell::Cell;
use vfun_remoting::{Reader, Records, numbers};

/// What an API does with what is heard. Both run on the thread of events, which makes the
/// program's callbacks.
#[derive(Clone, Copy)]
pub struct Handlers {
    /// An event came: its number and its body.
    pub event: fn(&'static Link, u16, Reader<'_>),
    /// The connection is lost, and nothing more will come. Callbacks that a program waits for are
    /// made now.
    pub lost: fn(&'static Link),
}

thread_local! {
    static HEARS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread makes callbacks: a function that waits for callbacks cannot be called by one.
pub fn in_callback() -> bool {
    HEARS.get()
}

/// Begins the thread; whether it could be begun. Callbacks of one connection run on it, one after
/// the other.
pub(crate) fn begin(link: &'static Link, handlers: Handlers) -> bool {
    let thread = std::thread::Builder::new().name("vfun-events".into());
    let Ok(ear) = link.ear() else {
        eprintln!("VirtFun: no channel for callbacks: the host grants no second one");
        return false;
    };
    let begun = thread.spawn(move || hear(link, handlers, ear));
    if let Err(why) = &begun {
        eprintln!("VirtFun: no thread for callbacks: {why}");
    }
    begun.is_ok()
}

fn hear(link: &'static Link, handlers: Handlers, mut ear: Ear) {
    HEARS.set(true);
    while link.is_alive() && next(link, handlers, &mut ear).is_ok() {}
    // Also where no other call would notice: who waits for a callback looks here.
    link.lose();
    (handlers.lost)(link);
    link.no_more_events();
    link.close_if_over();
}

/// Waits for events and handles them. An error is the end of the connection: every refusal is one,
/// because this is the only open call of its kind.
fn next(link: &'static Link, handlers: Handlers, ear: &mut Ear) -> Result<(), Failure> {
    let events = ear.ask(numbers::EVENTS, |_| ())?.rest().to_vec();
    for record in Records::new(&events).flatten() {
        (handlers.event)(link, record.call, Reader::new(record.body));
    }
    Ok(())
}
