//! Threads of the program's that wait for an event of a slot. They sleep: the host tells of the event by
//! the connection's channel of events.

use crate::generated::{REMOTE, calls};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use vfun_remoting_guest::{Failure, Handlers, Link, Reader, keep_open};

/// What the host told, and no thread took yet.
struct Told {
    /// The connection's number, the status and the slot of each. The host tells as often as a thread
    /// began to wait.
    news: VecDeque<(u32, u64, u64)>,
    /// How often a thread that waits has to look at the connection again.
    looks: u64,
}

static TOLD: Mutex<Told> = Mutex::new(Told { news: VecDeque::new(), looks: 0 });
static NEWS: Condvar = Condvar::new();

fn told() -> MutexGuard<'static, Told> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds it, for a fork.
fn hold() -> Box<dyn Any> {
    Box::new(told())
}

const HANDLERS: Handlers = Handlers { event: heard, lost };

fn heard(link: &'static Link, event: u16, mut args: Reader<'_>) {
    let (Ok(status), Ok(slot)) = (args.u64(), args.u64()) else { return };
    if event == calls::C_WAITFORSLOTEVENT {
        told().news.push_back((link.number(), status, slot));
        NEWS.notify_all();
    }
}

fn lost(link: &'static Link) {
    told().news.retain(|(number, ..)| *number != link.number());
    wake();
}

/// Begins to hear of events.
pub fn listen(link: &'static Link) -> Result<(), Failure> {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| keep_open(hold));
    link.listen(HANDLERS)
}

/// All threads that wait look whether the connection is still there.
pub fn wake() {
    told().looks += 1;
    NEWS.notify_all();
}

/// Sleeps until the host tells of an event, or the program ends the API: status and slot.
pub fn wait(link: &'static Link) -> Result<(u64, u64), Failure> {
    loop {
        let seen = told().looks;
        // Without the lock: a fork takes them one after the other.
        if REMOTE.begun()?.number() != link.number() {
            return Err(Failure::Closed); // ended, and begun again
        }
        let mut told = told();
        while told.looks == seen {
            let mine = told.news.iter().position(|(number, ..)| *number == link.number());
            if let Some((_, status, slot)) = mine.and_then(|at| told.news.remove(at)) {
                return Ok((status, slot));
            }
            told = NEWS.wait(told).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
