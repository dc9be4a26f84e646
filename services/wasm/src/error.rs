//! Why a module cannot be served.

use crate::limits::{LOAD_MAX, MODULE_BYTES_MAX};

/// Why a module cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Nothing there, or no right to read it.
    #[error("the module {path} cannot be read: {why}; is it built and installed?")]
    Missing {
        /// Where it should be.
        path: String,
        /// The system's words.
        why: String,
    },
    /// Beyond [`MODULE_BYTES_MAX`].
    #[error(
        "the module has {bytes} bytes, at most {MODULE_BYTES_MAX} are served: strip it (wasm-ld -s), or make it smaller"
    )]
    TooLarge { bytes: u64 },
    /// Something else.
    #[error("this is not a WebAssembly module: it does not begin with \\0asm and version 1")]
    NotWasm,
    /// Refused by the compiler.
    #[error("the module is not valid: {why}")]
    Invalid {
        /// The compiler's words.
        why: String,
    },
    /// It wants something of its host.
    #[error(
        "the module imports {module}.{name}, and a module here imports nothing: define it in the module, or build for wasm32-unknown-unknown"
    )]
    Import {
        /// The import's module.
        module: String,
        /// The import's name.
        name: String,
    },
    /// An export is not there.
    #[error("the module does not export {name}, {what} (see vfun_driver.h and docs/wasm.md)")]
    MissingExport {
        name: &'static str,
        /// What it is to be.
        what: &'static str,
    },
    /// An export is something else.
    #[error("the module's export {name} is not {what}")]
    WrongExport {
        name: &'static str,
        /// What it is to be.
        what: &'static str,
    },
    /// Its least memory is more than its manifest allows.
    #[error(
        "the module begins with {wants} bytes of memory and may have {allowed}: raise `memory` in its manifest, or make its stack and data smaller"
    )]
    Memory {
        /// Bytes it begins with.
        wants: u64,
        /// Bytes it may have.
        allowed: u64,
    },
    /// It trapped before it could say what it is.
    #[error("the module could not be started: {why}")]
    Start {
        /// The trap, in wasmtime's words.
        why: String,
    },
    /// Beyond [`LOAD_MAX`].
    #[error("the module was not compiled and started within {} s", LOAD_MAX.as_secs())]
    TooSlow,
    /// A driver for another version of the interface.
    #[error(
        "the module is built for driver interface {found}; this service speaks 1 to {}: build it against this version's vfun_driver.h",
        vfun_sdk::abi::ABI
    )]
    WrongAbi {
        /// The interface's version that it says.
        found: u32,
    },
    /// `vfun_driver_info` makes no sense.
    #[error("the module has a wrong vfun_driver_info: {what}")]
    BadInfo {
        /// What is wrong.
        what: &'static str,
    },
    /// Another function's module.
    #[error(
        "the manifest says function {wanted}, but the module is that of {found}: correct name or library"
    )]
    WrongName {
        /// What the manifest says.
        wanted: String,
        /// What the module says of itself.
        found: String,
    },
    /// Another version's module.
    #[error("the manifest says {name} {}.{}, but the module is version {}.{}: correct version or library", .wanted.0, .wanted.1, .found.0, .found.1)]
    WrongVersion {
        name: String,
        /// What the manifest says.
        wanted: (u16, u16),
        /// What the module says of itself.
        found: (u16, u16),
    },
    /// This machine cannot run any.
    #[error("WebAssembly cannot be run here: {why}")]
    Engine {
        /// What the machine lacks, in wasmtime's words.
        why: String,
    },
}
