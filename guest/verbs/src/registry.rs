//! All open devices of this process, and who is told what the host tells by itself.

use crate::context::Context;
use crate::errno::Errno;
use crate::rdmacm;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfun_remoting_guest::{Answer, Handlers, Link};

/// `VFUN_NIC_EVENT`, `VFUN_NIC_CM_EVENT`.
const EVENT: u16 = 64;
const CM_EVENT: u16 = 65;

static ALL: Mutex<Vec<&'static Context>> = Mutex::new(vec![]);

fn all() -> MutexGuard<'static, Vec<&'static Context>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn add(context: &'static Context) {
    all().push(context);
}

pub fn remove(context: &Context) {
    all().retain(|other| !std::ptr::eq(*other, context));
}

/// Begins to hear what this connection's service tells.
pub fn listen(link: &'static Link) -> Result<(), Errno> {
    Ok(link.listen(Handlers { event, lost })?)
}

fn event(link: &'static Link, number: u16, mut body: Answer<'_>) {
    match number {
        EVENT => {}
        CM_EVENT => return rdmacm::channel::heard(link, &mut body),
        _ => return,
    }
    let (Ok(kind), Ok(about), Ok(of)) = (body.u32(), body.u32(), body.u32()) else { return };
    for context in all().iter().filter(|context| context.link.number() == link.number()) {
        context.events.tell(kind, about, of);
    }
}

/// The service of a connection is gone.
fn lost(link: &'static Link) {
    // Under the lock: a context that is closed meanwhile lives until this is done.
    all().iter().filter(|c| c.link.number() == link.number()).for_each(|c| lost_context(c));
    rdmacm::channel::lost(link.number());
}

/// The queues of a context are served no more: each of its objects is told, once.
pub fn lost_context(context: &'static Context) {
    if context.lose() {
        context.events.tell_all_lost();
    }
}

/// Runs with each open device.
pub fn each(run: impl Fn(&Context)) {
    all().iter().for_each(|context| run(context));
}
