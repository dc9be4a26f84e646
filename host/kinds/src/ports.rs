//! The function `ports`, which relays a VM's frames between its window and tap devices of
//! the host. Built in: the manager offers it to clients whose manifest has `[ports]`.

use crate::native::PROGRAM;
use crate::{Kind, Opens, Part};
use vfun_jail::seccomp::lists::{DATA, NO_FILE, service};
use vfun_policy::source::ManifestError;
use vfun_supervise::Driver;
use vfun_wire::kind::ChannelKind;
use vfun_wire::version::Features;

pub static KIND: Kind = Kind {
    word: "ports",
    program: &PROGRAM,
    channels: &[ChannelKind::Packets],
    keys: &[],
    declare: built_in,
    file: |_| None,
    reads: Vec::new,
    scratch_bytes: 0,
    // It opens no tap device: the manager hands each over, with the channel.
    devices: Opens::Never,
    makes_code: false,
    writes: false,
    // Whoever has a port speaks on the host's network with the VM's address.
    needs: Features::NET_ADMIN,
    takes_rdma: false,
    one_per_vm: false,
    // No driver and no files, from the start. A tap device is read, written and waited for
    // by calls that every service makes, and it is asked nothing (no `ioctl`).
    loading: || service(&[DATA, NO_FILE]),
    serving: Vec::new,
};

fn built_in(part: &Part<'_>) -> Result<Driver, ManifestError> {
    Err(part.src.whole(
        "the function `ports` has no manifest: it is built in, for clients whose manifest has \
         [ports]",
    ))
}
