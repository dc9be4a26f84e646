//! `vfun-service-wasm`: serves one client's channels of one vFunction whose
//! driver is a WebAssembly module, or of the function `submit`, by which a
//! client brings such modules. The manager starts it; there is nothing to type.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use vfun_sdk::service::StartingService;
use vfun_supervise::{Driver, Start};
use vfun_wasm::{Checker, Module, taken};

fn main() -> ExitCode {
    let begun = match StartingService::receive() {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    match begun.driver() {
        Driver::Submit => begun.serve(|_, given| Checker::new(given)),
        Driver::Submitted { .. } => begun.serve(|start, given| match &start.driver {
            Driver::Submitted { sha256, memory_bytes, code } => {
                taken(given, sha256, code.as_deref(), *memory_bytes)
            }
            other => Err(format!("this service runs submitted modules, not {other:?}")),
        }),
        _ => begun.serve(|start, _| load(start)),
    }
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
