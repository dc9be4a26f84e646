//! Serves PKCS#11 to programs in VMs: a driver over a module of the host. `generated.rs` is made of
//! the API's description; `hand.rs` has what a description cannot say.
//!
//! All programs of one client have one service and so one application of the module's. Each logs in
//! for itself (`logins`), but while one is logged in the module lets the others use its private
//! objects, too. Sessions and names of objects are each program's own. Programs that must not share
//! that are two clients.

mod audit;
mod generated;
mod hand;
mod logins;
#[doc(hidden)]
pub mod model;
mod module;
mod slots;
mod waits;

pub use generated::Native;
pub use slots::Slots;

use vfun_remoting_host::{Backend, Context, Kind, Reader, Refusal, Remoted, Returned, Writer};
use vfun_sdk::{Config, DriverError};
use waits::Listener;

/// One program's connection.
pub struct Pkcs11 {
    native: Native,
    state: hand::State,
}

impl Pkcs11 {
    /// Over these functions of a module that was begun, or of a model.
    pub fn over(native: Native, slots: Slots) -> Pkcs11 {
        Pkcs11::of(native, slots, &Config::default(), None)
    }

    fn of(native: Native, slots: Slots, of: &Config, module: Option<module::Begun>) -> Pkcs11 {
        let (client, app) = (of.client.clone(), of.app.clone());
        let listener = Listener::new(&slots);
        let state = hand::State { slots, client, app, listener, module };
        Pkcs11 { native, state }
    }
}

impl Backend for Pkcs11 {
    const DESCRIPTION: u64 = generated::FINGERPRINT;

    fn open(config: &Config) -> Result<Self, DriverError> {
        let path = config.setting("module", module::DEFAULT.to_owned())?;
        let (native, begun) = module::begin(&path)?;
        Ok(Pkcs11::of(native, Slots::of(config), config, Some(begun)))
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

/// A driver of one program's connection.
pub type Driver = Remoted<Pkcs11>;

vfun_sdk::export_driver!(
    Driver,
    name = "pkcs11",
    version = (1, 0),
    max_args = generated::CELL_BYTES,
    max_result = generated::CELL_BYTES
);
