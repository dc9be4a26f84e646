//! Serves the API `gdma` to programs in VMs: a driver over libgdma (services/gdma).
//! `generated.rs` is made of the API's description; `hand.rs` has what a description cannot say.

mod generated;
mod hand;
#[doc(hidden)]
pub mod model;

pub use generated::Native;

/// The library whose C symbols [`Native::linked`] names.
use gdma as _;

use vfun_remoting_host::{Backend, Context, Kind, Reader, Refusal, Remoted, Returned, Writer};
use vfun_sdk::{Config, DriverError};

/// One program's connection.
pub struct Gdma {
    native: Native,
    state: hand::State,
}

impl Gdma {
    /// Over these functions: the library's, or a model of them.
    pub fn over(native: Native) -> Gdma {
        Gdma { native, state: hand::State::default() }
    }
}

impl Backend for Gdma {
    const DESCRIPTION: u64 = generated::FINGERPRINT;

    fn open(_: &Config) -> Result<Self, DriverError> {
        Ok(Gdma::over(Native::linked()))
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
        let freed = generated::destroy(&self.native, kind, native);
        if freed && kind == generated::kinds::CONTEXT {
            self.state.ended(native);
        }
        freed
    }
}

/// A driver of one program's connection.
pub type Driver = Remoted<Gdma>;

vfun_sdk::export_driver!(
    Driver,
    name = "gdma",
    version = (1, 0),
    max_args = generated::CELL_BYTES,
    max_result = generated::CELL_BYTES
);
