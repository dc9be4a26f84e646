//! What an API brings: a dispatcher that is generated, and hooks that are written by hand.

use crate::attached::Attached;
use crate::events::Events;
use crate::objects::{Kind, Native, Objects};
use std::sync::Arc;
use vfun_remoting::{Reader, Refusal, Writer};
use vfun_sdk::{Config, DriverError};

/// What a function returned, as the API sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// Success, or a function that cannot fail.
    Fine,
    /// A status that means failure, as it stands on the wire.
    Failure(u32),
}

/// What a call may use of its connection.
pub struct Context<'a> {
    pub objects: &'a mut Objects,
    pub events: &'a Arc<Events>,
    pub attached: &'a Attached,
}

/// The host's half of one API: made once for each connection.
pub trait Backend: Sized {
    /// Stands for the whole description: both halves must have the same.
    const DESCRIPTION: u64;

    /// Loads or begins to use the library. An error refuses the connection, with its sentence.
    fn open(config: &Config) -> Result<Self, DriverError>;

    /// Makes one call: decodes all its arguments, calls the library, writes the results. A
    /// refusal means that nothing was called and that nothing written counts.
    fn dispatch(
        &mut self,
        call: u16,
        cx: &mut Context<'_>,
        args: Reader<'_>,
        reply: &mut Writer<'_>,
    ) -> Result<Returned, Refusal>;

    /// Whether a call and its answer are wiped after use.
    fn is_secret(call: u16) -> bool;

    /// Frees an object whose connection ends. Children come before their parents. `false`: the
    /// library did not end it, and may go on to use the memory that the guest lent.
    fn destroy(&mut self, kind: Kind, native: Native) -> bool;
}
