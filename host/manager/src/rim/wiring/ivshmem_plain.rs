//! Windows that QEMU maps as the memory of an ivshmem-plain device: a file, and
//! no bells.

use super::file::InFile;
use vfun_admin::Transport;

/// The transport `ivshmem-plain`.
pub(in crate::rim) struct Plain;

impl InFile for Plain {
    const TRANSPORT: Transport = Transport::IvshmemPlain;
}
