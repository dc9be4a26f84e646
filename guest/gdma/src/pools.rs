//! The local node's pool of each context: a buffer of the window.

use crate::generated::{REMOTE, kinds};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use vfun_remoting_guest::{Failure, Lent, Link, Name, Object};

/// What a context's object keeps.
pub const POOL_START: usize = 0;

/// The variable that says how long a pool is, bytes; as on the host.
const POOL_BYTES: &str = "GDMA_POOL_BYTES";
/// Asked for unless the variable says otherwise. Where a window or its quota has no room for
/// it, half of it is asked for, and so on.
const POOL_BYTES_DEFAULT: usize = 64 << 20;
/// The smallest that is tried: one transfer of the published sizes.
const POOL_BYTES_LEAST: usize = 1 << 20;

/// What this side holds for a context.
struct Context {
    pool: Lent,
    /// Callbacks that the program waits for.
    awaited: u64,
}

/// All contexts, by their names.
static CONTEXTS: Mutex<Option<HashMap<Name, Context>>> = Mutex::new(None);
static DELIVERED: Condvar = Condvar::new();

fn contexts() -> MutexGuard<'static, Option<HashMap<Name, Context>>> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pool for a new context.
pub fn lend(link: &'static Link) -> Result<Lent, Failure> {
    let said = std::env::var(POOL_BYTES).ok().and_then(|text| text.parse().ok());
    if let Some(bytes) = said {
        return link.lend(bytes);
    }
    let mut bytes = POOL_BYTES_DEFAULT;
    loop {
        match link.lend(bytes) {
            Err(Failure::Limit) if bytes > POOL_BYTES_LEAST => bytes /= 2,
            lent => return lent,
        }
    }
}

/// Notes the pool of a context.
pub fn put(context: Object<'_>, pool: Lent) {
    context.keep(POOL_START, pool.start().expose_provenance() as u64);
    contexts().get_or_insert_default().insert(context.name(), Context { pool, awaited: 0 });
}

/// Takes back the pool of a context that has ended.
pub fn take(context: Name) {
    let ended = contexts().as_mut().and_then(|all| all.remove(&context));
    drop(ended.map(|context| context.pool));
}

/// The program waits for one callback more.
pub fn await_callback(context: Name) {
    if let Some(context) = contexts().as_mut().and_then(|all| all.get_mut(&context)) {
        context.awaited += 1;
    }
}

/// One was made, or will never be.
pub fn callback_done(context: Name) {
    if let Some(context) = contexts().as_mut().and_then(|all| all.get_mut(&context)) {
        context.awaited = context.awaited.saturating_sub(1);
        if context.awaited == 0 {
            DELIVERED.notify_all();
        }
    }
}

/// Waits until all callbacks of a context were made, or its connection is lost.
pub fn wait_for_callbacks(context: Name, link: &Link) {
    let mut all = contexts();
    let waits = |all: &Option<HashMap<Name, Context>>| {
        all.as_ref().and_then(|all| all.get(&context)).is_some_and(|c| c.awaited > 0)
    };
    while waits(&all) && link.is_alive() {
        let pause = std::time::Duration::from_millis(100);
        (all, _) = DELIVERED.wait_timeout(all, pause).unwrap_or_else(PoisonError::into_inner);
    }
}

/// The context that an object belongs to.
pub fn context_of(object: Object<'static>) -> Result<Object<'static>, Failure> {
    REMOTE.objects.ancestor(object, kinds::CONTEXT).ok_or(Failure::Object)
}
