//! The service of a software NIC for verbs: `services/verbs` has the NIC's tables and its engine,
//! this has what is around them.
//!
//! One thread runs the engine for all programs of the client ([`Nic::start`]). Control calls
//! come by remoted calls, each on its channel's thread, and change the tables between two runs.
//! Work and completions go through each program's channel of queues ([`NicChannel`]).
//!
//! `generated.rs` is made of the description of `services/verbs/include/vfun_nic.h`; `hand.rs` has
//! what a description cannot say.

mod address;
mod arena;
mod attributes;
mod channel;
mod connections;
mod context;
mod errno;
mod events;
#[doc(hidden)]
pub mod generated;
mod guest;
mod hand;
mod lent;
pub mod limits;
mod memory;
mod nic;
mod pairs;
mod queues;
mod quota;
mod service;
mod station;
mod tables;
mod turns;
mod waiting;

pub use channel::NicChannel;
pub use nic::Nic;
pub use quota::Quota;
pub use service::VerbsService;

use std::sync::OnceLock;
use vfun_remoting_host::{Backend, Context, Kind, Reader, Refusal, Remoted, Returned, Writer};
use vfun_sdk::{Config, DriverError};

/// The NIC of this process, once it has one.
static NIC: OnceLock<Nic> = OnceLock::new();

/// One program's connection: its control calls.
pub struct Verbs {
    native: Nic,
    state: hand::State,
}

impl Verbs {
    /// A connection to this NIC.
    pub fn over(native: Nic) -> Verbs {
        Verbs { native, state: hand::State::default() }
    }
}

impl Backend for Verbs {
    const DESCRIPTION: u64 = generated::FINGERPRINT;

    fn open(_: &Config) -> Result<Self, DriverError> {
        let nic = NIC.get().ok_or_else(|| DriverError::new(1, "this process has no NIC"))?;
        Ok(Verbs::over(nic.clone()))
    }

    fn dispatch(
        &mut self,
        call: u16,
        cx: &mut Context<'_>,
        args: Reader<'_>,
        reply: &mut Writer<'_>,
    ) -> Result<Returned, Refusal> {
        generated::dispatch(&mut self.state, &self.native, call, cx, args, reply)
    }

    fn is_secret(call: u16) -> bool {
        generated::is_secret(call)
    }

    fn destroy(&mut self, kind: Kind, native: usize) -> bool {
        generated::destroy(&self.native, kind, native)
    }
}

/// A driver of one program's control calls.
pub type Driver = Remoted<Verbs>;
