//! A software NIC for verbs: all programs of a client meet in its service.

use crate::{Kind, Opens, Part, Program};
use vfun_jail::seccomp::lists::{DATA, NO_FILE, service};
use vfun_policy::source::ManifestError;
use vfun_supervise::Driver;
use vfun_wire::kind::ChannelKind;
use vfun_wire::version::Features;

pub static PROGRAM: Program =
    Program { name: "vfun-service-verbs", serves: "RDMA verbs", made_by: "make build" };

pub static KIND: Kind = Kind {
    word: "verbs",
    program: &PROGRAM,
    // Control calls, and work.
    channels: &[ChannelKind::Calls, ChannelKind::Queues],
    keys: &[],
    declare,
    file: |_| None,
    reads: Vec::new,
    scratch_bytes: 0,
    devices: Opens::Never,
    makes_code: false,
    writes: false,
    needs: Features(0),
    takes_rdma: true,
    one_per_vm: false,
    // Memory, threads and bells, from the start.
    loading: || service(&[DATA, NO_FILE]),
    serving: Vec::new,
};

fn declare(part: &Part<'_>) -> Result<Driver, ManifestError> {
    if let Some(l) = part.library {
        return Err(part.src.error(l, "kind \"verbs\" is built in and has no library"));
    }
    if let Some((text, _)) = part.signature {
        let carries = "calls of kind \"verbs\" are those of an API and have no signature";
        return Err(part.src.error(text, carries));
    }
    Ok(Driver::Verbs)
}
