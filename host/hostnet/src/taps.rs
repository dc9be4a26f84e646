//! Tap devices: interfaces of the host whose other end is a descriptor. A port of a VM has
//! one, which is in a switch.
//!
//! All of this asks the kernel and changes nothing but interfaces. Everything fails with the
//! system's error; without the right over the network (`CAP_NET_ADMIN`) only a device can be
//! opened that was made for this user.

#![allow(unsafe_code)]

use crate::netdev::Netdev;
use libc::{c_char, c_int, c_short, c_ulong, ifreq};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Bytes of an interface's name, the zero at its end included.
const NAME_BYTES: usize = libc::IFNAMSIZ;
/// Bytes of `struct virtio_net_hdr` without what newer devices add.
const NOTE_BYTES: c_int = 10;
/// `SIOCBRADDIF` of `linux/sockios.h`, which libc does not have.
const SIOCBRADDIF: c_ulong = 0x89a2;
/// `SIOCBRDELIF`, likewise.
const SIOCBRDELIF: c_ulong = 0x89a3;

/// Whether Linux takes this as the name of an interface.
pub fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_graphic() && b != b'/' && b != b':' && b != b'%';
    !name.is_empty()
        && name.len() < NAME_BYTES
        && name.bytes().all(plain)
        && name != "."
        && name != ".."
}

/// A request about the interface of this name.
fn request(name: &str) -> io::Result<ifreq> {
    if !is_name(name) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("'{name}' is no interface's name"),
        ));
    }
    // SAFETY: `ifreq` is a C struct of integers and arrays; zeros are a value of it.
    let mut r: ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in r.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    Ok(r)
}

/// Asks a device or socket something with a struct that it reads and writes.
fn ask(fd: &impl AsRawFd, what: c_ulong, r: &mut ifreq) -> io::Result<()> {
    // SAFETY: each request that is made here takes an `ifreq`, which outlives the call.
    match unsafe { libc::ioctl(fd.as_raw_fd(), what as _, r as *mut ifreq) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A socket for requests about interfaces of this network namespace.
fn socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers. A descriptor that comes is nobody else's.
    match unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: it was just opened.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// What is before each frame that a tap device gives and takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing: each frame is whole.
    Nothing,
    /// `struct virtio_net_hdr`, so that a frame may have a checksum that is to be completed, or be cut later.
    Note,
}

/// Opens the tap device of this name, and makes it if it is not there. Reading does not block. Until it is told
/// otherwise the device gives whole frames. It goes
/// with the descriptor, unless it is [kept](keep). It can be open once.
pub fn open(name: &str, before: Before) -> io::Result<OwnedFd> {
    let mut r = request(name)?;
    let path = CString::new("/dev/net/tun").expect("no zero in it");
    let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero and outlives the call.
    let fd = match unsafe { libc::open(path.as_ptr(), flags) } {
        -1 => return Err(io::Error::last_os_error()),
        // SAFETY: it was just opened.
        fd => unsafe { OwnedFd::from_raw_fd(fd) },
    };
    let notes = if before == Before::Note { libc::IFF_VNET_HDR } else { 0 };
    r.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | notes) as c_short;
    ask(&fd, libc::TUNSETIFF as c_ulong, &mut r)?;
    // The device may have heard otherwise from a program that had it before.
    // SAFETY: this request takes a number and no pointer.
    let told = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD as _, 0) };
    if told == -1 {
        return Err(io::Error::last_os_error());
    }
    if before == Before::Note {
        let bytes = NOTE_BYTES;
        // SAFETY: this request reads an integer, which outlives the call.
        let set =
            unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const bytes) };
        if set == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(fd)
}

/// Says whether an open tap device stays when it is closed.
pub fn keep(tap: &OwnedFd, stays: bool) -> io::Result<()> {
    // SAFETY: this request takes a number and no pointer.
    let done =
        unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETPERSIST as _, c_int::from(stays)) };
    match done {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Sets an interface's MTU, in bytes behind an Ethernet header. One that it has is not touched.
pub fn set_mtu(name: &str, mtu: u16) -> io::Result<()> {
    let (socket, mut r) = (socket()?, request(name)?);
    if Netdev::of_host(name).read("mtu") == Some(mtu.to_string()) {
        return Ok(());
    }
    r.ifr_ifru.ifru_mtu = mtu.into();
    ask(&socket, libc::SIOCSIFMTU as c_ulong, &mut r)
}

/// Sets an interface up.
pub fn set_up(name: &str) -> io::Result<()> {
    let (socket, mut r) = (socket()?, request(name)?);
    ask(&socket, libc::SIOCGIFFLAGS as c_ulong, &mut r)?;
    // SAFETY: the kernel has just written the flags.
    let flags = unsafe { r.ifr_ifru.ifru_flags };
    r.ifr_ifru.ifru_flags = flags | libc::IFF_UP as c_short;
    ask(&socket, libc::SIOCSIFFLAGS as c_ulong, &mut r)
}

/// Writes the text that people see in `ip link`, of at most 255 bytes.
pub fn set_alias(name: &str, text: &str) -> io::Result<()> {
    std::fs::write(Path::new("/sys/class/net").join(name).join("ifalias"), text)
}

/// Keeps the host's own IPv6 off an interface. A host without IPv6 has none there.
pub fn without_ipv6(name: &str) -> io::Result<()> {
    let file = Path::new("/proc/sys/net/ipv6/conf").join(name).join("disable_ipv6");
    match std::fs::write(file, "1") {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Puts an interface into a bridge of Linux. It must be in none.
pub fn join(bridge: &str, name: &str) -> io::Result<()> {
    change_bridge(bridge, name, SIOCBRADDIF)
}

/// Takes an interface out of a bridge of Linux.
pub fn leave(bridge: &str, name: &str) -> io::Result<()> {
    change_bridge(bridge, name, SIOCBRDELIF)
}

fn change_bridge(bridge: &str, name: &str, what: c_ulong) -> io::Result<()> {
    let index = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the name ends with a zero and outlives the call.
    let index = unsafe { libc::if_nametoindex(index.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    let (socket, mut r) = (socket()?, request(bridge)?);
    r.ifr_ifru.ifru_ifindex = index as c_int;
    ask(&socket, what, &mut r)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_interface_can_have_are_refused() {
        assert!(is_name("vm1.eth1") && is_name("a") && is_name("fifteen-letters"));
        for bad in ["", "sixteen-letters-", "a/b", "a b", "a:1", "tap%d", ".", "..", "t\u{fc}r"] {
            assert!(!is_name(bad), "{bad}");
            assert_eq!(open(bad, Before::Nothing).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    /// A device of its own; `None` where this user may make none.
    fn made(name: &str) -> Option<OwnedFd> {
        match open(name, Before::Nothing) {
            Ok(tap) => Some(tap),
            Err(e) => {
                eprintln!("not tried: no tap device can be made here ({e})");
                None
            }
        }
    }

    #[test]
    fn a_device_is_open_once_and_stays_if_it_is_kept() {
        let name = format!("vft{}", std::process::id());
        let Some(tap) = made(&name) else { return };
        assert_eq!(open(&name, Before::Note).unwrap_err().raw_os_error(), Some(libc::EBUSY));
        set_mtu(&name, 1400).unwrap();
        set_up(&name).unwrap();
        let mtu = std::fs::read_to_string(format!("/sys/class/net/{name}/mtu")).unwrap();
        assert_eq!(mtu.trim(), "1400");
        keep(&tap, true).unwrap();
        set_alias(&name, "who made it").unwrap();
        let device = Netdev::of_host(&name);
        assert_eq!(device.alias(), "who made it");
        assert!(Netdev::all().contains(&name));
        drop(tap);
        assert!(device.is_there() && device.is_tap() && device.is_up());
        assert!(!Netdev::of_host("lo").is_tap());
        assert!(!device.is_bridge() && device.master().is_none());
        without_ipv6(&name).unwrap();
        let again = open(&name, Before::Note).unwrap();
        assert!(device.has_notes());
        let mut bytes: c_int = 0;
        // SAFETY: this request writes an integer, which outlives the call.
        unsafe { libc::ioctl(again.as_raw_fd(), libc::TUNGETVNETHDRSZ as _, &raw mut bytes) };
        assert_eq!(bytes, NOTE_BYTES);
        // A program that had it before may have other heads.
        bytes = 12;
        // SAFETY: this request reads an integer, which outlives the call.
        unsafe { libc::ioctl(again.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const bytes) };
        drop(again);
        let again = open(&name, Before::Note).unwrap();
        // SAFETY: this request writes an integer, which outlives the call.
        unsafe { libc::ioctl(again.as_raw_fd(), libc::TUNGETVNETHDRSZ as _, &raw mut bytes) };
        assert_eq!(bytes, NOTE_BYTES);
        drop(again);
        let again = open(&name, Before::Nothing).unwrap();
        assert!(!device.has_notes());
        keep(&again, false).unwrap();
        drop(again);
        assert!(!device.is_there());
    }
}
