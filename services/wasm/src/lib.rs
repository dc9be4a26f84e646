//! Serves vFunctions whose driver is a WebAssembly module.
//!
//! A module has the driver interface of `vfun_driver.h`, as a compiler for
//! wasm32 makes it: the same source gives a shared library or a module. It
//! imports nothing, so all it can do is compute. [`Module`] is one that was
//! checked and compiled; [`Guest`] is a channel's instance of it, with a memory
//! of its own.
//!
//! What a module does wrong is its caller's error: a trap ends that call and
//! the instance, and the next call gets a new one. What never ends is the
//! service's watch's to end, as with any driver: nothing in a module's code
//! asks for the time.
//!
//! [`Checker`] is the function `submit`: it checks and compiles what a client
//! brings, and hands it to the manager.
//!
//! `docs/wasm.md` is for those who write modules.

mod code;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
mod error;
mod guest;
mod layout;
pub mod limits;
mod module;
mod submit;

pub use error::LoadError;
pub use guest::Guest;
pub use module::{Info, Module};
pub use submit::{Checker, taken};
