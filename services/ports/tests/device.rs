//! A real tap device in a network namespace of its own: what the kernel says of frames, of a
//! device that is down, and of one that is removed. The kernel makes frames with notes, and cuts them.
//! Without root there is nothing to see.
#![allow(unsafe_code)]

use crate::common::{Guest, LONGEST, MTU, until};
use rustix::net::{RecvFlags, SendFlags};
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::Ordering;
use vfun_packet::layout::{DOWN, UP, header::TAKES, takes};
use vfun_packet::{Memory, NOTE_HEADER, Note};
use vfun_ports::{Ports, facts};

const RING: u64 = 512 << 10;
const NAME: &str = "vfport0";
/// An EtherType for experiments on one machine (IEEE 802): the kernel sends none of them.
const TYPE: u16 = 0x88b5;
const IPV4: u16 = 0x0800;
/// `struct virtio_net_hdr` is before each frame of such a socket (linux/if_packet.h).
const PACKET_VNET_HDR: c_int = 15;

/// Why there is nothing to test here, or the device, attached and up, and a socket that is on
/// its other end, for frames of this type. Both have notes, or neither. The namespace is that of this thread.
fn device(notes: bool, of_type: u16) -> Result<(OwnedFd, OwnedFd), String> {
    // SAFETY: neither call touches memory.
    if unsafe { libc::geteuid() } != 0 {
        return Err("this is not root".into());
    }
    // SAFETY: this thread alone gets another network; nothing of it is shared memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err("no network namespace is given".into());
    }
    let tap = tap(notes).map_err(|e| format!("no tap device: {e}"))?;
    ip(&["link", "set", NAME, "mtu", &MTU.to_string(), "up"])?;
    let socket = socket(notes, of_type).map_err(|e| format!("no packet socket: {e}"))?;
    // A test that waits for ever says nothing.
    let (limit, which) = (Some(crate::common::PATIENCE), rustix::net::sockopt::Timeout::Recv);
    rustix::net::sockopt::set_socket_timeout(&socket, which, limit).map_err(|e| e.to_string())?;
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

fn tap(notes: bool) -> std::io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: the path is a string with its end.
    let tap = owned(unsafe { libc::open(c"/dev/net/tun".as_ptr(), flags) })?;
    // SAFETY: zeros are a request without a name.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(NAME.bytes()) {
        *to = from as _;
    }
    let notes = if notes { libc::IFF_VNET_HDR } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | notes) as _;
    // SAFETY: the request is one, and lives as long as the call.
    match unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(tap),
    }
}

/// A socket for all frames of the device of this type.
fn socket(notes: bool, of_type: u16) -> std::io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: the call touches no memory.
    let socket =
        owned(unsafe { libc::socket(libc::AF_PACKET, kind, c_int::from(of_type.to_be())) })?;
    if notes {
        let (one, bytes) = (1 as c_int, size_of::<c_int>() as u32);
        let (fd, of) = (socket.as_raw_fd(), libc::SOL_PACKET);
        // SAFETY: the option is an integer, which outlives the call.
        match unsafe { libc::setsockopt(fd, of, PACKET_VNET_HDR, (&raw const one).cast(), bytes) } {
            0 => {}
            _ => return Err(std::io::Error::last_os_error()),
        }
    }
    // SAFETY: zeros are an address.
    let mut at: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    at.sll_family = libc::AF_PACKET as u16;
    at.sll_protocol = of_type.to_be();
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
    let mut all = vec![0; 70_000];
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
    let (tap, socket) = device(false, TYPE)?;
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

/// Bytes of the headers of [`segments`], and of each segment behind them.
const HEADERS: usize = 14 + 20 + 20;
const SEGMENT: usize = 1000;

fn words_sum(bytes: &[u8]) -> u32 {
    let mut sum = 0u32;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low));
    }
    (sum & 0xffff) + (sum >> 16)
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The sum over addresses, protocol and length that TCP begins with.
fn pseudo(frame: &[u8]) -> u32 {
    words_sum(&frame[26..34]) + 6 + (frame.len() - 34) as u32
}

/// A packet of TCP over IPv4 that is to be cut into so many segments, and its note.
fn segments(count: usize) -> (Note, Vec<u8>) {
    let mut frame: Vec<u8> =
        (0..HEADERS + count * SEGMENT).map(|i| (i * 7 + i / 250) as u8).collect();
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    let bytes = (frame.len() - 14) as u16;
    frame[14..34]
        .copy_from_slice(&[0x45, 0, 0, 0, 0, 9, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 1, 0, 2]);
    frame[16..18].copy_from_slice(&bytes.to_be_bytes());
    let of_header = !folded(words_sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&of_header.to_be_bytes());
    frame[34..54]
        .copy_from_slice(&[0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    let begun = folded(pseudo(&frame));
    frame[50..52].copy_from_slice(&begun.to_be_bytes());
    let kind = u8::from(count > 1);
    let mut header = [0; NOTE_HEADER];
    header[..2].copy_from_slice(&[1, kind]);
    let segment = if count > 1 { SEGMENT } else { 0 };
    for (at, value) in [(2, HEADERS), (4, segment), (6, 34), (8, 16)] {
        header[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
    }
    (Note::new(header), frame)
}

/// What a socket with notes gets: the note, and the frame.
fn received_noted(socket: &OwnedFd) -> (Note, Vec<u8>) {
    let mut all = received(socket);
    let frame = all.split_off(NOTE_HEADER);
    (Note::new(all.try_into().unwrap()), frame)
}

fn send_noted(socket: &OwnedFd, (note, frame): &(Note, Vec<u8>)) {
    let all = [&note.header()[..], frame].concat();
    rustix::net::send(socket, &all, SendFlags::empty()).unwrap();
}

/// Frames of IPv4 from these addresses that are in the guest's ring after a while: each with its note.
fn given_noted(guest: &mut Guest) -> Vec<(Note, Vec<u8>)> {
    let (mut all, mut to) = (vec![], vec![0; 70_000]);
    for _ in 0..50 {
        let mut note = Note::default();
        while let Some(bytes) = guest.receiver.next_noted(&mut to, &mut note) {
            if bytes > HEADERS && to[12..14] == IPV4.to_be_bytes() && to[26..28] == [10, 1] {
                all.push((note, to[..bytes].to_vec()));
            }
        }
        guest.receiver.take();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    all
}

#[test]
fn the_kernel_completes_and_cuts_what_the_other_side_does_not_take() {
    let told = std::thread::spawn(with_notes).join().unwrap();
    if let Err(why) = told {
        eprintln!("skipped, with no real tap device: {why}");
    }
}

fn with_notes() -> Result<(), String> {
    let (tap, socket) = device(true, IPV4)?;
    let ports = Ports::new().unwrap();
    let mut guest = Guest::new(5, RING);
    guest.sender.memory().store(TAKES, takes::ALL, Ordering::SeqCst);
    let held = guest.serve(&ports, tap);
    let fact = |at: usize| held.counts().unwrap().facts[at];
    assert_eq!(guest.receiver.memory().load(TAKES, Ordering::SeqCst), takes::ALL);
    from_vm(&mut guest, &socket, &fact);
    to_vm(&mut guest, &socket, &fact);
    held.end();
    guest.until("it is down", || guest.host_is(DOWN));
    assert_eq!(guest.receiver.memory().load(TAKES, Ordering::SeqCst), 0);
    println!("frames with notes were tested");
    Ok(())
}

fn from_vm(guest: &mut Guest, socket: &OwnedFd, fact: &dyn Fn(usize) -> u64) {
    // More bytes than the MTU, and in one piece: nobody had to cut them.
    for count in [1, 2, 30, 60] {
        let (note, frame) = segments(count);
        guest.sender.put_noted(&note, &frame).unwrap();
        guest.publish();
        let (said, got) = received_noted(socket);
        assert!(got == frame, "{count} segments from the VM");
        assert_eq!((said.is_cut(), said.asks() & takes::SUM), (count > 1, takes::SUM));
    }
    // Without a note, and whole.
    let mut whole = segments(1).1;
    let sum = !folded(words_sum(&whole[34..]) + pseudo(&whole) - words_sum(&whole[50..52]));
    whole[50..52].copy_from_slice(&sum.to_be_bytes());
    assert!(guest.send(&whole));
    assert!(received_noted(socket).1 == whole);
    // What makes no sense is refused, by the service or by the kernel, and what follows is not.
    let (note, frame) = segments(2);
    let wrong = |at: usize, value: u8| {
        let mut header = *note.header();
        header[at] = value;
        Note::new(header)
    };
    let refused = fact(facts::REFUSED);
    for (n, note) in
        [wrong(0, 9), wrong(1, 3), wrong(1, 0x81), wrong(7, 0xff), wrong(5, 0xff), wrong(1, 0)]
            .iter()
            .enumerate()
    {
        // The last one is not to be cut, and too long.
        let long = segments(LONGEST / SEGMENT + 1).1;
        let frame = if note.is_cut() { &frame } else { &long };
        guest.sender.put_noted(note, frame).unwrap();
        guest.publish();
        until("it is refused", || fact(facts::REFUSED) == refused + 1 + n as u64);
    }
    let last = segments(1);
    guest.sender.put_noted(&last.0, &last.1).unwrap();
    guest.publish();
    assert!(received_noted(socket).1 == last.1);
}

fn to_vm(guest: &mut Guest, socket: &OwnedFd, fact: &dyn Fn(usize) -> u64) {
    for count in [1, 2, 60] {
        let one = segments(count);
        // The device is told what the guest takes when it first has a frame.
        let got = until_some(guest, || send_noted(socket, &one), |got| got.1 == one.1);
        assert_eq!((got.0.is_cut(), got.0.asks() & takes::SUM), (count > 1, takes::SUM));
    }
    // A guest that takes none gets three whole frames for one.
    guest.sender.memory().store(TAKES, 0, Ordering::SeqCst);
    let one = segments(3);
    let got = until_some(guest, || send_noted(socket, &one), |(note, _)| note.is_empty());
    assert_eq!(got.1.len(), HEADERS + SEGMENT);
    let sum = words_sum(&got.1[34..]) + pseudo(&got.1);
    assert_eq!(folded(sum), 0xffff, "its checksum is right");
    assert!(fact(facts::FRAMES_IN) > 0);
}

/// Does it again and again until the guest gets such a frame.
fn until_some(
    guest: &mut Guest,
    mut again: impl FnMut(),
    is_it: impl Fn(&(Note, Vec<u8>)) -> bool,
) -> (Note, Vec<u8>) {
    let mut found = None;
    let until = std::time::Instant::now() + crate::common::PATIENCE;
    while found.is_none() {
        assert!(std::time::Instant::now() < until, "no such frame came");
        again();
        found = given_noted(guest).into_iter().find(&is_it);
    }
    found.unwrap()
}
