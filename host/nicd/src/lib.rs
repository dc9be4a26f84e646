//! `vfun-nics`: gives the virtual functions (VFs) of network cards to VMs that run.
//!
//! Who gets which VF is decided by the pure state machine of `vfun-nics`, the crate
//! `host/nics`. This is the world around it:
//!
//! - `allocator`: the main loop. It waits for nothing but what the threads have heard, and
//!   for small files.
//! - [`hands`]: a thread a VM plugs and unplugs, by QEMU's control socket or libvirt;
//!   [`orders`]: what programs of others are to plug.
//! - [`netdev`]: an interface of the host.
//! - [`providers`]: a thread a pool knows the VFs, makes them ready and resets them.
//! - `ports`: counts packets, and looks at what the VMs' ports enforce.
//! - `relay`: the manager, and through it the agents in the VMs.
//! - [`ask`], `admin`: people and programs ask.
//! - `files`, `declarations`: what outlives the process.
//! - `child`: `ip`, `tc`, `virsh`, which may hang.
//! - `switch`: an Open vSwitch, by its own programs.

#![forbid(unsafe_code)]

mod admin;
mod allocator;
pub mod ask;
mod declarations;
mod files;
pub mod hands;
mod heard;
pub mod limits;
mod lines;
pub mod orders;
mod places;
mod ports;
pub mod providers;
mod relay;
mod wake;

pub use vfun_hostnet::netdev;
use vfun_hostnet::{child, switch};

pub use allocator::{Settings, run};
pub use ports::iptables;
