//! What a driver is in Rust.

use crate::{Args, Config, DriverError, Out};

/// A driver: one value for each channel, made, used and dropped on the
/// channel's own thread. Export it with [`export_driver!`](crate::export_driver).
///
/// A panic in any of these does not take the service down: the caller gets the
/// error [`abi::PANIC`](crate::abi::PANIC) with the panic's words, the value is
/// dropped, and the next call starts with a fresh one from `init`.
pub trait Driver: Sized {
    /// Makes the state of a channel that opens. An error refuses the channel, with its sentence.
    fn init(config: &Config) -> Result<Self, DriverError>;

    /// Computes one call: reads the arguments, writes the results.
    fn call(&mut self, args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError>;

    /// `rst`: forget what is kept from earlier calls.
    fn rst(&mut self) -> Result<(), DriverError> {
        Ok(())
    }
}
