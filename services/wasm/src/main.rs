//! `vfun-service-wasm`: serves one client's channels of one vFunction whose
//! driver is a WebAssembly module. The manager starts it; there is nothing to type.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use vfun_supervise::{Driver, Start};
use vfun_wasm::Module;

fn main() -> ExitCode {
    vfun_sdk::service::run(load)
}

fn load(start: &Start) -> Result<Module, String> {
    let Driver::Wasm { module, memory_bytes } = &start.driver else {
        return Err(format!("this service runs WebAssembly modules, not {:?}", start.driver));
    };
    let loaded = Module::open(module, *memory_bytes).map_err(|e| e.to_string())?;
    let version = ((start.version >> 16) as u16, start.version as u16);
    loaded.expect(&start.function, version).map_err(|e| e.to_string())?;
    Ok(loaded)
}
