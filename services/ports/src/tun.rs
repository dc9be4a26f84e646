//! What a tap device is asked by `ioctl` (linux/if_tun.h).
#![allow(unsafe_code)]

use rustix::io::Errno;
use std::ffi::{c_int, c_uint};
use std::os::fd::{AsRawFd, OwnedFd};

/// Whether a device has `struct virtio_net_hdr` before each frame. Other devices have not.
pub fn has_notes(device: &OwnedFd) -> bool {
    // SAFETY: `ifreq` is a C struct of integers and arrays; zeros are a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // SAFETY: the request writes an `ifreq`, which outlives the call.
    let said = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNGETIFF as _, &raw mut request) };
    // SAFETY: the kernel has written the flags, or they are zeros.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    said == 0 && c_int::from(flags) & libc::IFF_VNET_HDR != 0
}

/// Says which frames with notes the device may give: bits of `vfun_packet::layout::takes`, which are those of
/// `TUN_F_CSUM`, `TUN_F_TSO4` and `TUN_F_TSO6`.
///
/// # Errors
/// The kernel's.
pub fn set_offloads(device: &OwnedFd, takes: u64) -> Result<(), Errno> {
    let takes = takes as c_uint;
    // SAFETY: this request takes a number and no pointer.
    match unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD as _, takes) } {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(()),
    }
}
