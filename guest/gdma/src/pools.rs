//! The local node's pool of each context: a buffer of the window.

use crate::generated::{REMOTE, kinds};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfun_remoting_guest::{Failure, Lent, Link, Name, Object};

/// What a context's object keeps: where its pool lies, and whether it is being closed.
pub const POOL_START: usize = 0;
pub const CLOSES: usize = 1;

/// The variable that says how long a pool is, bytes; as on the host.
const POOL_BYTES: &str = "GDMA_POOL_BYTES";
/// Asked for unless the variable says otherwise. Where a window or its quota has no room for
/// it, half of it is asked for, and so on.
const POOL_BYTES_DEFAULT: usize = 64 << 20;
/// The smallest that is tried: one transfer of the published sizes.
const POOL_BYTES_LEAST: usize = 1 << 20;

/// What a pool's length is a multiple of, as on the host.
const ALIGNMENT: usize = 4096;

/// The pools of all contexts, by their names.
static POOLS: Mutex<BTreeMap<Name, Lent>> = Mutex::new(BTreeMap::new());

fn pools() -> MutexGuard<'static, BTreeMap<Name, Lent>> {
    POOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds all pools, for a fork.
pub fn hold() -> Box<dyn Any> {
    Box::new(pools())
}

/// What the variable says; an error is one of the library on the host as well.
fn wanted() -> Result<Option<usize>, Failure> {
    let Some(text) = std::env::var_os(POOL_BYTES) else { return Ok(None) };
    let bytes = text.to_str().and_then(|text| text.parse().ok());
    let good = bytes.filter(|bytes: &usize| *bytes != 0 && bytes.is_multiple_of(ALIGNMENT));
    good.map(Some).ok_or(Failure::Argument)
}

/// A pool for a new context.
pub fn lend(link: &'static Link) -> Result<Lent, Failure> {
    if let Some(bytes) = wanted()? {
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
    pools().insert(context.name(), pool);
}

/// Takes back the pool of a context that has ended.
pub fn take(context: Name) {
    let pool = pools().remove(&context);
    drop(pool); // without the lock: it may wait for the host
}

/// The context that an object belongs to.
pub fn context_of(object: Object<'static>) -> Result<Object<'static>, Failure> {
    REMOTE.objects.ancestor(object, kinds::CONTEXT).ok_or(Failure::Object)
}

/// The same, unless it is being closed: as the library, it takes nothing more then.
pub fn open_context_of(object: Object<'static>) -> Result<Object<'static>, Failure> {
    let context = context_of(object)?;
    if context.kept(CLOSES) == 0 { Ok(context) } else { Err(Failure::Lost) }
}
