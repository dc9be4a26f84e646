//! VirtFun's agent in a VM. The VM's *bond* joins its paravirtual NIC and, while the VM
//! holds one, a virtual function (VF) of a network card. The host says which of the two
//! packets should take ([`vfun_bond::Order`]); the agent moves the bond and reports.
//!
//! - [`links`] is what there is: the bond and the interfaces that matter to it. It is read
//!   from the kernel by [`netlink`] and [`sysfs`].
//! - [`decide`] compares it with what is wanted and names the next step. It is a pure function.
//! - [`agent`] does the steps, and repeats those that fail, with a pause.
//! - [`host`] talks with the host, in a thread of its own; [`mailbox`] is between the two.
//! - [`probe`] measures how long packets take, if the machine's owner wants it.
//! - [`convert`] makes a bond of an interface that is in use.
//!
//! The agent may end at any time and leaves the bond as it is. The next one looks what
//! there is and goes on.

#![forbid(unsafe_code)]

pub mod agent;
pub mod args;
pub mod convert;
pub mod counters;
pub mod decide;
pub mod host;
pub mod limits;
pub mod links;
pub mod log;
pub mod mailbox;
pub mod netlink;
pub mod pace;
pub mod paravirtual;
pub mod probe;
pub mod status;
pub mod sysfs;
