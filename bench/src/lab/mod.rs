//! What a measurement runs on: a manager of its own (or a running one), and a guest.
//! Both go with this process, however it ends.

mod beside;
mod functions;
mod guest;
mod manager;
mod openvswitch;
mod peer;
pub mod pin;
mod process;
mod testpmd;
mod wiring;

pub use beside::slowed_by_spinning;
pub use functions::folder as functions_folder;
pub use guest::{
    BARE_DEVICE, DEVICE, GATEWAY, GO, GUEST_PROGRAM, GuestSpec, Inside, LabGuest, MODULE, READY,
};
pub use manager::{Manager, Start};
pub use openvswitch::{OpenVSwitch, openvswitch};
pub use peer::BarePeer;
pub use pin::{Pinned, Plan};
pub use process::{children_time, cpu_time, proportional_bytes, resident_bytes};
pub use testpmd::{Testpmd, TestpmdSpec, dpdk_driver, taken_per_s, testpmd};
pub use wiring::Wiring;

/// The client of the guest's window.
pub const GUEST_CLIENT: &str = "bench-guest";
/// The client of callers over TCP.
pub const NET_CLIENT: &str = "bench-net";
/// The client of callers on the host.
pub const HOST_CLIENT: &str = "bench-host";
/// Bytes of each one's window: arguments and results of 64 MiB, and room besides.
pub const WINDOW_BYTES: u64 = 512 << 20;
