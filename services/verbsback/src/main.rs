//! `vfun-service-verbs`: the software NIC of one client. The manager starts it; there is nothing
//! to type.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use vfun_supervise::{Driver, Start};
use vfun_verbsback::{Quota, VerbsService};

fn main() -> ExitCode {
    vfun_sdk::service::run(load)
}

fn load(start: &Start) -> Result<VerbsService, String> {
    match start.driver {
        Driver::Verbs => VerbsService::begin(&start.client, Quota::of(&start.settings)?),
        _ => Err(format!("this service is a NIC for verbs, not {:?}", start.driver)),
    }
}
