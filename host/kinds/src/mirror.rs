//! Queues whose entries the service sends back by itself: the floor under a queue, for
//! measuring and for tests.

use crate::native::PROGRAM;
use crate::{Kind, Opens, Part};
use vfun_jail::seccomp::lists::{DATA, NO_FILE, service};
use vfun_policy::source::ManifestError;
use vfun_supervise::Driver;
use vfun_wire::kind::ChannelKind;
use vfun_wire::version::Features;

pub static KIND: Kind = Kind {
    word: "mirror",
    program: &PROGRAM,
    // Calls say which queues there are.
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
    takes_rdma: false,
    one_per_vm: false,
    // No driver and no files, from the start.
    loading: || service(&[DATA, NO_FILE]),
    serving: Vec::new,
};

fn declare(part: &Part<'_>) -> Result<Driver, ManifestError> {
    match part.library {
        Some(l) => Err(part.src.error(l, "kind \"mirror\" is built in and has no library")),
        None => Ok(Driver::Mirror),
    }
}
