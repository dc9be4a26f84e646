//! The function `ports`, which relays a VM's frames between its window and tap devices of
//! the host. Built in: the manager offers it to clients whose manifest has `[ports]`.

use crate::native::PROGRAM;
use crate::{Kind, Opens, Part};
use libc::SYS_ioctl;
use vfun_jail::seccomp::lists::{DATA, NO_FILE, rule, service};
use vfun_jail::seccomp::{Answer, Rule, When};
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
    // by calls that every service makes. Beside that it is asked what was agreed on when it was opened, and told which
    // offloads its guest takes.
    loading: || service(&[TAP, DATA, NO_FILE]),
    serving: Vec::new,
};

/// What a tap device is asked (linux/if_tun.h). Other descriptors know neither request.
const TAP: &[Rule] = &[
    rule(SYS_ioctl, &[When::is(1, libc::TUNGETIFF as u32)], Answer::Allow),
    rule(SYS_ioctl, &[When::is(1, libc::TUNSETOFFLOAD as u32)], Answer::Allow),
];

fn built_in(part: &Part<'_>) -> Result<Driver, ManifestError> {
    Err(part.src.whole(
        "the function `ports` has no manifest: it is built in, for clients whose manifest has \
         [ports]",
    ))
}
