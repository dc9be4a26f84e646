//! Machine code that was made before: the one place where this program trusts
//! bytes that it did not just make.
#![allow(unsafe_code)]

use wasmtime::{Engine, Module};

/// A module from its machine code. wasmtime checks that the code is of its own
/// version, for these settings and for this processor; it cannot check that
/// the code is what the compiler wrote.
///
/// Whose code may come here: what this process compiled a moment ago; and what
/// another service **of the same client** compiled and the manager kept, whose
/// digest was compared with the manager's. So the worst that code which the
/// compiler did not write can do is what a module can do that exploits an error
/// in the compiler: run in a process of the client that brought it, under that
/// process's list of system calls. See docs/decisions/0013.
pub fn load(engine: &Engine, code: &[u8]) -> wasmtime::Result<Module> {
    // SAFETY: the bytes are those of `Engine::precompile_module`, made by this
    // process or by one of the same client and of the same program (the manager
    // forgets code of other programs), kept where only the manager writes, and
    // compared with their digest. A client that had such a process under its
    // power and made it hand over other bytes gains another such process.
    unsafe { Module::deserialize(engine, code) }
}
