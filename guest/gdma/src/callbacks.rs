//! Functions of the program's that are to be called at the ends of its transfers.
//!
//! They are kept by the names of their transfers and not with the objects: a program may release
//! a transfer that has ended before its function was called.
#![allow(unsafe_code)]

use crate::generated::gdma_context;
use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::with_exposed_provenance_mut;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use vfun_remoting_guest::{Link, Name};

/// The type of the callback, `gdma_done`.
pub type Done = unsafe extern "C" fn(*mut gdma_context, u32, i32, *mut c_void);

/// What the program said of one transfer.
#[derive(Clone, Copy)]
pub struct Callback {
    pub done: Done,
    /// The program's argument.
    pub user: usize,
    /// The pointer of its context.
    pub context: usize,
    /// The identifier of the transfer.
    pub id: u32,
    /// The number of its connection.
    pub link: u32,
}

struct Awaited {
    callback: Callback,
    /// When its transfer was started, in the order of these.
    order: u64,
    /// It is being made.
    called: bool,
}

#[derive(Default)]
struct All {
    awaited: BTreeMap<Name, Awaited>,
    orders: u64,
}

static ALL: Mutex<All> = Mutex::new(All { awaited: BTreeMap::new(), orders: 0 });
static DONE: Condvar = Condvar::new();

fn all() -> MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds all of them, for a fork.
pub fn hold() -> Box<dyn Any> {
    Box::new(all())
}

/// The function is to be called once when the transfer has ended.
pub fn await_end(transfer: Name, callback: Callback) {
    let mut all = all();
    all.orders += 1;
    let order = all.orders;
    all.awaited.insert(transfer, Awaited { callback, order, called: false });
}

/// It is not to be called: its transfer was not started. Whether that could still be said.
pub fn withdraw(transfer: Name) -> bool {
    let mut all = all();
    let waits = all.awaited.get(&transfer).is_some_and(|awaited| !awaited.called);
    if waits {
        all.awaited.remove(&transfer);
        DONE.notify_all();
    }
    waits
}

/// Calls the function of a transfer that has ended, if it has one.
pub fn ended(link: &Link, transfer: Name, status: i32) {
    let callback = match all().awaited.get_mut(&transfer) {
        Some(it) if !it.called && it.callback.link == link.number() => {
            it.called = true;
            it.callback
        }
        _ => return,
    };
    let (context, user) = (callback.context, callback.user);
    let (context, user) = (with_exposed_provenance_mut(context), with_exposed_provenance_mut(user));
    // SAFETY: as the header promises: once, on the library's thread, with the program's argument.
    unsafe { (callback.done)(context, callback.id, status, user) };
    all().awaited.remove(&transfer);
    DONE.notify_all();
}

/// Calls the functions of all transfers of a connection that is lost, as they were started.
pub fn lost(link: &Link, status: i32) {
    let mut left: Vec<_> = {
        let all = all();
        let of_link = all.awaited.iter().filter(|(_, it)| it.callback.link == link.number());
        of_link.map(|(name, it)| (it.order, *name)).collect()
    };
    left.sort_unstable();
    left.into_iter().for_each(|(_, name)| ended(link, name, status));
}

/// Waits until all functions of a context were called, or nobody is there to call them.
pub fn wait_for_all(context: usize, link: &Link) {
    let mut all = all();
    while link.may_hear() && all.awaited.values().any(|it| it.callback.context == context) {
        let pause = std::time::Duration::from_millis(100);
        (all, _) = DONE.wait_timeout(all, pause).unwrap_or_else(PoisonError::into_inner);
    }
}
