//! Shared libraries with the driver's C ABI.

use crate::{Kind, Opens, Part, Program};
use vfun_jail::seccomp::lists::{CODE, DATA, DRIVER, DRIVER_OLD, SECOND, service};
use vfun_policy::source::ManifestError;
use vfun_supervise::Driver;
use vfun_wire::kind::ChannelKind;
use vfun_wire::version::Features;

/// The one program without which no manager starts.
pub static PROGRAM: Program =
    Program { name: "vfun-service", serves: "shared libraries", made_by: "make build" };

pub static KIND: Kind = Kind {
    word: "native",
    program: &PROGRAM,
    channels: &[ChannelKind::Calls],
    keys: &[],
    declare,
    file: |driver| match driver {
        Driver::Native { library } => Some(library),
        _ => None,
    },
    reads: Vec::new,
    scratch_bytes: 0,
    devices: Opens::Serving,
    makes_code: true,
    writes: true,
    needs: Features(0),
    takes_rdma: false,
    one_per_vm: false,
    loading: || service(&[CODE, SECOND, DRIVER, DRIVER_OLD]),
    serving: || service(&[DATA, DRIVER, DRIVER_OLD]),
};

fn declare(part: &Part<'_>) -> Result<Driver, ManifestError> {
    let needs = "a native function needs `library`, the driver's shared library";
    Ok(Driver::Native { library: part.library(needs)? })
}
