//! The device that carries a window into a VM: QEMU's ivshmem
//! (docs/specs/ivshmem-spec.rst in its sources).
//!
//! The host is a peer of the device's server like the VM itself, always the
//! same one, so that a guest needs to be told nothing to ring it.

/// Vendor of the ivshmem device: Red Hat.
pub const PCI_VENDOR: u16 = 0x1af4;
/// Number of the ivshmem device among its vendor's.
pub const PCI_DEVICE: u16 = 0x1110;

/// BAR 0, 256 bytes of registers: this peer's own id.
pub const REG_IVPOSITION: usize = 8;
/// BAR 0: writing `peer << 16 | vector` rings that peer.
pub const REG_DOORBELL: usize = 12;

/// The host's peer id.
pub const HOST_PEER: u16 = 0;
/// First id that a VM gets. Ids only go up (and start here again at the end of
/// 16 bits): QEMU crashes when one that it has seen leave comes again.
pub const FIRST_VM_PEER: u16 = 1;

/// What to write to [`REG_DOORBELL`] to ring the host.
pub const fn ring_host(vector: u16) -> u32 {
    (HOST_PEER as u32) << 16 | vector as u32
}
