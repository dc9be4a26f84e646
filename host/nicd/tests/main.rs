//! Tests of the whole program, with a QEMU, a manager, agents and a host that the test plays.

mod domains;
mod files;
mod hostile;
mod killed;
mod manifests;
mod moves;
mod sriov;
mod stand;
mod vhost_user;
