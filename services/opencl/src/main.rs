//! `vfun-service-opencl`: serves one client's channels of one vFunction that
//! is an OpenCL kernel. The manager starts it; there is nothing to type.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use vfun_opencl::Loaded;
use vfun_supervise::{Driver, Start};

fn main() -> ExitCode {
    vfun_opencl::prepare_process();
    vfun_sdk::service::run(load)
}

fn load(start: &Start) -> Result<Loaded, String> {
    let Driver::OpenCl { kernel, signature, map } = &start.driver else {
        return Err(format!("this service runs OpenCL kernels, not {:?}", start.driver));
    };
    let signature = signature.parse().map_err(|e| format!("its signature cannot be read: {e}"))?;
    Loaded::open(kernel, map, &signature).map_err(|e| {
        // Who calls is not who wrote it: the details are for the log alone.
        if let Some(details) = e.details() {
            eprintln!("{details}");
        }
        e.to_string()
    })
}
