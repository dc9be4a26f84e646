//! `vfun-service`: serves one client's channels of one vFunction whose driver
//! is a shared library, or of the built-in kinds `bond`, `mirror` and `ports`. The manager starts
//! it; there is nothing to type.

use std::process::ExitCode;
use vfun_mirror::Mirror;
use vfun_ports::Ports;
use vfun_sdk::loader::Library;
use vfun_sdk::service::{Bonds, StartingService};
use vfun_supervise::{Driver, Start};

/// Serves until it is told to end.
pub fn main() -> ExitCode {
    let begun = match StartingService::receive() {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    match begun.driver() {
        Driver::Bond => begun.serve(|_, given| Ok(Bonds::new(given.manager))),
        Driver::Mirror => begun.serve(|_, _| Mirror::new()),
        Driver::Ports => begun.serve(|_, _| Ports::new()),
        _ => begun.serve(|start, _| load(start)),
    }
}

fn load(start: &Start) -> Result<Library, String> {
    let Driver::Native { library } = &start.driver else {
        return Err(format!("this service runs native drivers, not {:?}", start.driver));
    };
    let loaded = Library::open(library).map_err(|e| e.to_string())?;
    let version = ((start.version >> 16) as u16, start.version as u16);
    loaded.expect(&start.function, version).map_err(|e| e.to_string())?;
    Ok(loaded)
}
