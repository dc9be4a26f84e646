//! A real tap device in a network namespace of its own: what the kernel says of frames, of a
//! device that is down, and of one that is removed. Without root there is nothing to see.
#![allow(unsafe_code)]

use crate::common::{Guest, MTU, until};
use rustix::net::{RecvFlags, SendFlags};
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use vfun_packet::layout::{DOWN, UP};
use vfun_ports::{Ports, facts};

const RING: u64 = 256 << 10;
const NAME: &str = "vfport0";
/// An EtherType for experiments on one machine (IEEE 802): the kernel sends none of them.
const TYPE: u16 = 0x88b5;

/// Why there is nothing to test here, or the device, attached and up, and a socket that is on
/// its other end. The namespace is that of this thread.
fn device() -> Result<(OwnedFd, OwnedFd), String> {
    // SAFETY: neither call touches memory.
    if unsafe { libc::geteuid() } != 0 {
        return Err("this is not root".into());
    }
    // SAFETY: this thread alone gets another network; nothing of it is shared memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err("no network namespace is given".into());
    }
    let tap = tap().map_err(|e| format!("no tap device: {e}"))?;
    ip(&["link", "set", NAME, "mtu", &MTU.to_string(), "up"])?;
    let socket = socket().map_err(|e| format!("no packet socket: {e}"))?;
    Ok((tap, socket))
}

fn ip(words: &[&str]) -> Result<(), String> {
    // A child is in the network of the thread that made it.
    match Command::new("ip").args(words).status() {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("ip {words:?}: {other:?}")),
    }
}

fn owned(fd: c_int) -> std::io::Result<OwnedFd> {
    match fd {
        -1 => Err(std::io::Error::last_os_error()),
        // SAFETY: the call that gave it made it for us.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

fn tap() -> std::io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: the path is a string with its end.
    let tap = owned(unsafe { libc::open(c"/dev/net/tun".as_ptr(), flags) })?;
    // SAFETY: zeros are a request without a name.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(NAME.bytes()) {
        *to = from as _;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as _;
    // SAFETY: the request is one, and lives as long as the call.
    match unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(tap),
    }
}

/// A socket for all frames of the device, of the experiments' type.
fn socket() -> std::io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    let of_type = c_int::from(TYPE.to_be());
    // SAFETY: the call touches no memory.
    let socket = owned(unsafe { libc::socket(libc::AF_PACKET, kind, of_type) })?;
    // SAFETY: zeros are an address.
    let mut at: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    at.sll_family = libc::AF_PACKET as u16;
    at.sll_protocol = TYPE.to_be();
    // SAFETY: the name is a string with its end.
    at.sll_ifindex = unsafe { libc::if_nametoindex(c"vfport0".as_ptr()) } as c_int;
    let bytes = size_of_val(&at) as u32;
    // SAFETY: the address is one of so many bytes, and lives as long as the call.
    match unsafe { libc::bind(socket.as_raw_fd(), (&raw const at).cast(), bytes) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(socket),
    }
}

/// A broadcast with a number and so many bytes.
fn frame(number: u64, bytes: usize) -> Vec<u8> {
    let mut all: Vec<u8> = (0..bytes).map(|i| (number as usize * 31 + i * 7) as u8).collect();
    all[..6].fill(0xff);
    all[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    all[12..14].copy_from_slice(&TYPE.to_be_bytes());
    all[14..22].copy_from_slice(&number.to_le_bytes());
    all
}

fn received(socket: &OwnedFd) -> Vec<u8> {
    let mut all = vec![0; 10_000];
    let (bytes, _) = rustix::net::recv(socket, &mut all[..], RecvFlags::empty()).unwrap();
    all.truncate(bytes);
    all
}

/// The guest's next frame of the experiments' type: the kernel sends others by itself.
fn given(guest: &mut Guest) -> Vec<u8> {
    loop {
        let frame = guest.receive();
        if frame[12..14] == TYPE.to_be_bytes() {
            return frame;
        }
    }
}

#[test]
fn a_real_device_takes_and_gives_frames_goes_down_and_is_removed() {
    // A thread of its own: the namespace ends with it.
    let told = std::thread::spawn(with_device).join().unwrap();
    if let Err(why) = told {
        eprintln!("skipped, with no real tap device: {why}");
    }
}

fn with_device() -> Result<(), String> {
    let (tap, socket) = device()?;
    // A test that waits for ever says nothing.
    let limit = Some(crate::common::PATIENCE);
    let which = rustix::net::sockopt::Timeout::Recv;
    rustix::net::sockopt::set_socket_timeout(&socket, which, limit).unwrap();
    let ports = Ports::new().unwrap();
    let mut guest = Guest::new(5, RING);
    let held = guest.serve(&ports, tap);
    let fact = |at: usize| held.counts().unwrap().facts[at];
    let longest = usize::from(MTU) + 14;
    for (n, bytes) in (60..longest).step_by(97).chain([longest]).enumerate() {
        let one = frame(n as u64, bytes);
        assert!(guest.send(&one));
        assert!(received(&socket) == one, "{bytes} bytes from the VM");
        rustix::net::send(&socket, &one, SendFlags::empty()).unwrap();
        assert!(given(&mut guest) == one, "{bytes} bytes to the VM");
    }
    assert_eq!(fact(facts::REFUSED), 0);
    // No Ethernet frame: EINVAL.
    assert!(guest.send(&[1; 13]));
    until("it is refused", || fact(facts::REFUSED) == 1);
    // Down: EIO. The port stays, and goes on when it is up.
    ip(&["link", "set", NAME, "down"]).unwrap();
    assert!(guest.send(&frame(1, 100)) && guest.send(&frame(2, 100)));
    until("they are refused", || fact(facts::REFUSED) == 3);
    assert!(guest.host_is(UP));
    ip(&["link", "set", NAME, "up"]).unwrap();
    // The socket was told that its device went down.
    assert!(rustix::net::recv(&socket, &mut [0; 10][..], RecvFlags::empty()).is_err());
    assert!(guest.send(&frame(3, 100)));
    assert_eq!(received(&socket), frame(3, 100));
    // Removed: EBADFD.
    ip(&["link", "del", NAME]).unwrap();
    until("it is down", || guest.host_is(DOWN));
    assert!(guest.send(&frame(4, 100)));
    until("it is refused", || fact(facts::REFUSED) == 4);
    held.end();
    println!("a real tap device was tested");
    Ok(())
}
