//! What a fake host does for direct links: a test has the other end of a port, and writes
//! what a manager writes.

use super::ports::VECTOR;
use super::{FakeHost, Host, locked};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use vfun_packet::WindowMemory;
use vfun_window::{Bell, WriteSpan, fdpass};

impl Host {
    /// Tells QEMU of peers that joined, each with one bell, as a manager does.
    pub(super) fn introduce(&self, qemus: &[UnixStream]) {
        for (id, bell) in locked(&self.shared.joining).drain(..) {
            for qemu in qemus {
                // One that has hung up needs no peers.
                let _ = fdpass::send(qemu, &id.to_le_bytes(), &[bell.as_fd()]);
            }
        }
    }
}

impl FakeHost {
    /// Gives the other end of a port away, as it stands: this host serves it no more until the
    /// guest has another channel of it. `None`: the guest has none now.
    pub fn lends_port(&self, place: u16) -> Option<WindowMemory> {
        let mut wires = locked(&self.shared.wires);
        let wire = wires.all.iter_mut().find(|w| w.place == place)?;
        wire.lent = true;
        Some(wire.memory())
    }

    /// Rings the guest for a port, with news.
    pub fn news(&self, place: u16) {
        let mut wires = locked(&self.shared.wires);
        if let Some(wire) = wires.all.iter_mut().find(|w| w.place == place) {
            wire.ring(&self.shared.memory);
        }
    }

    /// Rings the vector of ports without news, as the peer of a link does.
    pub fn rings_ports(&self) {
        self.shared.memory.to_app[VECTOR].ring();
    }

    /// Rings the vector at which the guest looks what the host wants of ports.
    pub fn rings_control(&self) {
        self.shared.memory.to_app[0].ring();
    }

    /// QEMU hears of a further peer, which this bell rings.
    pub fn has_peer(&self, id: u16, bell: &Bell) {
        locked(&self.shared.joining).push((id.into(), bell.clone()));
    }

    /// A part of the window.
    pub fn part(&self, at: usize, bytes: usize) -> WriteSpan {
        self.shared.memory.all.part(at, bytes).expect("inside")
    }
}
