//! Handles of the C interface: numbers that say which object of which context is
//! meant, in the clothes of pointers. They are looked up and never followed, so
//! that a handle that was given back, or any other number, is noticed.

use crate::context::Context;
use crate::limits::CONTEXTS;
use crate::options::Options;
use crate::status::GdmaError;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// What a handle is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Context = 0,
    Node = 1,
    Buffer = 2,
    Transfer = 3,
}

/// In the top byte of each handle. No address of a program begins so: following
/// a handle ends the program, and no address is a handle by accident.
const MARK: u64 = 0x47;
const MARK_SHIFT: u32 = 56;
const CONTEXT_SHIFT: u32 = 36;
const CONTEXT_MASK: u64 = (1 << 20) - 1;
const KIND_SHIFT: u32 = 32;

/// The handle of an object.
pub fn handle(context: u32, kind: Kind, id: u32) -> u64 {
    MARK << MARK_SHIFT
        | u64::from(context) << CONTEXT_SHIFT
        | (kind as u64) << KIND_SHIFT
        | u64::from(id)
}

/// The contexts that are open, by number, and the last number that was given.
static OPEN: RwLock<(BTreeMap<u32, Arc<Context>>, u32)> = RwLock::new((BTreeMap::new(), 0));

/// An object of an open context. Whether the object is there, the context knows.
pub struct Meant {
    pub context: Arc<Context>,
    pub number: u32,
    pub id: u32,
}

impl Meant {
    /// What `value` means, if it is a handle of this kind and its context is open.
    pub fn new(value: u64, kind: Kind) -> Result<Self, GdmaError> {
        let number = (value >> CONTEXT_SHIFT & CONTEXT_MASK) as u32;
        let id = value as u32;
        if value != handle(number, kind, id) {
            return Err(GdmaError::Argument);
        }
        let open = OPEN.read().unwrap_or_else(PoisonError::into_inner);
        let context = open.0.get(&number).ok_or(GdmaError::Argument)?.clone();
        Ok(Meant { context, number, id })
    }

    /// The handle of another object of the same context.
    pub fn handle(&self, kind: Kind, id: u32) -> u64 {
        handle(self.number, kind, id)
    }
}

/// Opens a context: its handle.
pub fn open(options: &Options) -> Result<u64, GdmaError> {
    let mut open = OPEN.write().unwrap_or_else(PoisonError::into_inner);
    if open.0.len() >= CONTEXTS {
        return Err(GdmaError::Limit);
    }
    let context = Arc::new(Context::new(options)?);
    loop {
        // Not the lowest that is free: an old handle is not somebody else's soon.
        open.1 = (open.1 + 1) & CONTEXT_MASK as u32;
        if open.1 != 0 && !open.0.contains_key(&open.1) {
            break;
        }
    }
    let number = open.1;
    open.0.insert(number, context);
    Ok(handle(number, Kind::Context, 0))
}

/// Closes a context; its handles are none from then on.
pub fn close(value: u64) -> Result<(), GdmaError> {
    end(value, Context::close)
}

/// The same, without waiting for transfers.
pub fn abort(value: u64) -> Result<(), GdmaError> {
    end(value, Context::abort)
}

fn end(value: u64, how: fn(&Context) -> Result<(), GdmaError>) -> Result<(), GdmaError> {
    let meant = Meant::new(value, Kind::Context)?;
    how(&meant.context)?;
    OPEN.write().unwrap_or_else(PoisonError::into_inner).0.remove(&meant.number);
    Ok(())
}
