//! Raw lines that the service answers by itself: the floor under a call.

use crate::native::PROGRAM;
use crate::{Kind, Opens, Part};
use vfun_jail::seccomp::lists::{DATA, service};
use vfun_policy::source::ManifestError;
use vfun_supervise::Driver;
use vfun_wire::kind::ChannelKind;
use vfun_wire::version::Features;

pub static KIND: Kind = Kind {
    word: "floor",
    program: &PROGRAM,
    channels: &[ChannelKind::Floor],
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
    loading: || service(&[DATA]),
    serving: Vec::new,
};

fn declare(part: &Part<'_>) -> Result<Driver, ManifestError> {
    if let Some(l) = part.library {
        return Err(part.src.error(l, "kind \"floor\" is built in and has no library"));
    }
    if let Some((text, _)) = part.signature {
        let carries = "raw lines (kind \"floor\") carry no arguments and have no signature";
        return Err(part.src.error(text, carries));
    }
    Ok(Driver::Floor)
}
