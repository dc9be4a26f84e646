//! What a port's channel has besides its two sides.

use std::os::fd::OwnedFd;
use vfun_supervise::Open;
use vfun_wire::packets::Packets;

/// A port of a VM. Behind the head page of each side of its channel follow a header page of
/// packets and a ring (section 16 of docs/protocol.md).
#[derive(Debug)]
pub struct Port {
    /// Its name, for people.
    pub name: String,
    /// Bytes of the longest packet behind an Ethernet header.
    pub mtu: u16,
    /// Bytes of each ring, a power of two.
    pub ring_bytes: u32,
    /// The tap device: each read and each write is one Ethernet frame, and neither waits.
    /// None: a switch with DPDK moves the frames, and alone writes the host's ring and its header page.
    pub tap: Option<OwnedFd>,
}

/// The port that came along with a channel of packets.
///
/// # Errors
/// A sentence: none came, or its device would wait.
pub fn port(at: &Packets, open: &Open, tap: Option<OwnedFd>) -> Result<Port, String> {
    let Some(came) = &open.port else {
        return Err("a channel of packets came without its port".into());
    };
    if came.switch == tap.is_some() {
        return Err(format!("the way of port {} and its tap device do not agree", came.name));
    }
    if let Some(tap) = &tap {
        check_device(&came.name, tap)?;
    }
    Ok(Port { name: came.name.clone(), mtu: came.mtu, ring_bytes: at.ring_bytes, tap })
}

fn check_device(name: &str, tap: &OwnedFd) -> Result<(), String> {
    let flags = rustix::fs::fcntl_getfl(tap)
        .map_err(|e| format!("the tap device of port {name} cannot be asked: {e}"))?;
    // One thread relays all ports: a device that waits would stop them all.
    if !flags.contains(rustix::fs::OFlags::NONBLOCK) {
        return Err(format!("the tap device of port {name} is not set to O_NONBLOCK"));
    }
    Ok(())
}
