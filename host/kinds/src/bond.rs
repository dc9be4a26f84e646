//! The function `bond`, by which the agent in a VM and the host speak of the VM's network
//! bond. Built in: the manager offers it where it lends network VFs.

use crate::native::PROGRAM;
use crate::{Kind, Opens, Part};
use vfun_jail::seccomp::lists::{DATA, NO_FILE, service};
use vfun_policy::source::ManifestError;
use vfun_supervise::Driver;
use vfun_wire::kind::ChannelKind;
use vfun_wire::version::Features;

pub static KIND: Kind = Kind {
    word: "bond",
    program: &PROGRAM,
    channels: &[ChannelKind::Calls],
    keys: &[],
    declare: built_in,
    file: |_| None,
    reads: Vec::new,
    scratch_bytes: 0,
    devices: Opens::Never,
    makes_code: false,
    writes: false,
    // Whoever orders a VM's network is root of that VM's network.
    needs: Features::NET_ADMIN,
    takes_rdma: false,
    // Two agents would move one bond to and fro.
    one_per_vm: true,
    // No driver and no files, from the start. It allocates, as floor does not.
    loading: || service(&[DATA, NO_FILE]),
    serving: Vec::new,
};

fn built_in(part: &Part<'_>) -> Result<Driver, ManifestError> {
    Err(part.src.whole("the function `bond` has no manifest: `vfund --nics` offers it"))
}
