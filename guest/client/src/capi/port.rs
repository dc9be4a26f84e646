//! Ports in C.

use super::edge::{Edge, Failure, edge, given, put, taken, text};
use super::session::vfun_session;
use super::status::vfun_status;
use crate::port::{LinkWay, Port, PortInfo, PortLink};
use std::ffi::{c_char, c_void};
use vfun_ring::WindowMemory;

/// Room for a port's name and its terminating zero.
pub const VFUN_PORT_ROOM: usize = 16;

const _: () = assert!(VFUN_PORT_ROOM == vfun_wire::limits::PORT_NAME_BYTES + 1);

/// A port of the VM that this program has. Any number of threads may use it at once.
pub struct vfun_port {
    port: Port,
}

/// A port of this VM.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_port_info {
    /// Its name, ended by a zero: that of its interface, if the kernel module makes it one.
    pub name: [c_char; VFUN_PORT_ROOM],
    /// Bytes of each of its two rings.
    pub ring_bytes: u32,
    /// Its place in the VM's table of ports.
    pub number: u16,
    /// Bytes of the longest packet behind an Ethernet header.
    pub mtu: u16,
    /// The address that it has on the host.
    pub mac: [u8; 6],
    /// 0.
    pub reserved: [u8; 2],
}

/// Where a port's two sides of packets lie in this process: a header page each, and a ring
/// behind it, for the functions of vfun_packet.h. They stay mapped until vfun_port_close. To begin,
/// store the bytes of the longest frame that this program takes in the word VFUN_PACKET_FRAME of
/// mine, then VFUN_PACKET_UP in VFUN_PACKET_STATE (with release), and call vfun_port_ring. The
/// program looks for frames by itself: nothing wakes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_port_sides {
    /// The side that this program writes.
    pub mine: *mut c_void,
    /// The side that the host writes, at any moment: read once, check, use.
    pub theirs: *const c_void,
}

/// A direct link's way to another VM.
pub const VFUN_LINK_WAY_OUT: u32 = 0;
/// A direct link's way from another VM.
pub const VFUN_LINK_WAY_IN: u32 = 1;

/// The memory of a direct link of a port, one way.
pub struct vfun_port_link {
    link: PortLink,
}

fn way_of(way: u32) -> Edge<LinkWay> {
    match way {
        VFUN_LINK_WAY_OUT => Ok(LinkWay::Out),
        VFUN_LINK_WAY_IN => Ok(LinkWay::In),
        _ => Err(Failure::Argument("way is neither VFUN_LINK_WAY_OUT nor VFUN_LINK_WAY_IN")),
    }
}

impl From<&PortInfo> for vfun_port_info {
    fn from(p: &PortInfo) -> Self {
        let mut name = [0; VFUN_PORT_ROOM];
        for (to, from) in name[..VFUN_PORT_ROOM - 1].iter_mut().zip(p.name.bytes()) {
            *to = from as c_char;
        }
        vfun_port_info {
            name,
            ring_bytes: p.ring_bytes,
            number: p.number,
            mtu: p.mtu,
            mac: p.mac,
            reserved: [0; 2],
        }
    }
}

/// The ports of this VM: the first room of them into ports, and how many there are in all
/// into *count. ports may be null if room is 0.
///
/// # Safety
/// session is open; ports points to room structs; count points to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_ports(
    session: *const vfun_session,
    ports: *mut vfun_port_info,
    room: usize,
    count: *mut usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let all = given(session, "session is null")?.session.ports();
            if room > 0 && ports.is_null() {
                return Err(Failure::Argument("ports is null but has room"));
            }
            for (i, port) in all.iter().take(room).enumerate() {
                put(ports.add(i), port.into(), "ports is null")?;
            }
            put(count, all.len(), "count is null")
        }
    })
}

/// Takes a port of this VM; name may be null if there is one only. Through the kernel module
/// alone, and with CAP_NET_ADMIN in the VM's own network namespace. *info says what the port is,
/// and *sides where its memory lies. *port is the caller's, to be ended by vfun_port_close.
/// VFUN_STATUS_UNSUPPORTED without the module or the right, VFUN_STATUS_BAD_OPTION if there is
/// no such port, VFUN_STATUS_REFUSED with what the host says: the port is in use (an
/// interface that is up has it: set it down first).
///
/// # Safety
/// session is open; name is null or a string; port, info and sides point to room for what is
/// put there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_port_open(
    session: *const vfun_session,
    name: *const c_char,
    port: *mut *mut vfun_port,
    info: *mut vfun_port_info,
    sides: *mut vfun_port_sides,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            put(port, std::ptr::null_mut(), "port is null")?;
            let session = given(session, "session is null")?;
            let opened = session.session.port(text(name, "name is not UTF-8")?)?;
            put(info, opened.info().into(), "info is null")?;
            put(sides, sides_of(opened.memory()), "sides is null")?;
            put(port, Box::into_raw(Box::new(vfun_port { port: opened })), "port is null")
        }
    })
}

fn sides_of(memory: &WindowMemory) -> vfun_port_sides {
    vfun_port_sides {
        mine: memory.mine().as_mut_ptr().cast(),
        theirs: memory.theirs().as_ptr().cast(),
    }
}

/// # Safety
/// As of the functions that take a port.
unsafe fn port_of<'a>(port: *const vfun_port) -> Edge<&'a Port> {
    // SAFETY: the caller's promise.
    unsafe { given(port, "port is null") }.map(|p| &p.port)
}

/// Rings the host, if anything rings it: it looks at this program's ring then. Call it when
/// vfun_packet_must_ring says so.
///
/// # Safety
/// port was not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_port_ring(port: *const vfun_port) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe { port_of(port) }?.ring();
        Ok(())
    })
}

/// Whether the port is this program's still; if not, why: VFUN_STATUS_RELEASED (the host has
/// taken it back, or it was changed), VFUN_STATUS_BROKEN, VFUN_STATUS_STALE_GENERATION,
/// VFUN_STATUS_DEVICE_GONE or VFUN_STATUS_FORKED. Close it then, and open it again, in a new
/// session. VFUN_STATUS_UNANSWERED says that nobody is there on the host: the port is this
/// program's still, and frames go on at the latest when the host comes back.
///
/// # Safety
/// port was not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_port_check(port: *const vfun_port) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        Ok(unsafe { port_of(port) }?.check()?)
    })
}

/// The number of the direct link that is to be used now for frames this way (VFUN_LINK_WAY_OUT or VFUN_LINK_WAY_IN); 0: none. Ask some 50 times a
/// second while there is one: if it is not the number of the link that the program has, the program lets
/// go of that. vfun_link_ring.h has the ends of links. VFUN_STATUS_UNSUPPORTED if the kernel module is
/// an older one.
///
/// # Safety
/// port was not ended; number points to a uint64_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_port_link_wanted(
    port: *const vfun_port,
    way: u32,
    number: *mut u64,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let wanted = port_of(port)?.link_wanted(way_of(way)?)?;
            put(number, wanted, "number is null")
        }
    })
}

/// Takes the memory of the link that is to be used now: its number, the bytes of its rings, and where
/// its two sides lie. *link is the caller's, to be ended by vfun_port_link_close before
/// the next one is taken for this way; null, and *number 0, if there is none. When the link's window is
/// unplugged, or the port has ended, private memory takes the place of its sides.
/// VFUN_STATUS_NO_WINDOW: its window is not in this VM now.
///
/// # Safety
/// port was not ended; the others point to room for what is put there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_port_link_take(
    port: *const vfun_port,
    way: u32,
    link: *mut *mut vfun_port_link,
    number: *mut u64,
    ring_bytes: *mut u64,
    sides: *mut vfun_port_sides,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            put(link, std::ptr::null_mut(), "link is null")?;
            put(number, 0, "number is null")?;
            let Some(taken) = port_of(port)?.link(way_of(way)?)? else { return Ok(()) };
            put(ring_bytes, taken.ring_bytes(), "ring_bytes is null")?;
            put(sides, sides_of(taken.memory()), "sides is null")?;
            put(number, taken.number(), "number is null")?;
            put(link, Box::into_raw(Box::new(vfun_port_link { link: taken })), "link is null")
        }
    })
}

/// Rings the VM that receives from the link out: call it when vfun_linked_tx_must_ring says so.
///
/// # Safety
/// port was not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_port_link_ring(port: *const vfun_port) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe { port_of(port) }?.ring_link();
        Ok(())
    })
}

/// Lets go of a link's memory; the handle is gone, and its sides are not mapped any more. Its port may
/// have been closed before.
///
/// # Safety
/// link came from vfun_port_link_take and is not used again, and neither are its sides.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_port_link_close(link: *mut vfun_port_link) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { taken(link, "link is null")? }.link);
        Ok(())
    })
}

/// Gives a port back; the handle is gone, and its sides are not mapped any more, whatever the
/// status.
///
/// # Safety
/// port came from vfun_port_open and is not used again, and neither are its sides.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_port_close(port: *mut vfun_port) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        let port = unsafe { taken(port, "port is null")? };
        Ok(port.port.close()?)
    })
}
