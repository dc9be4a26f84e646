//! Many VMs and few network VFs, in simulated time.
//!
//! What is real: the core of `vfun-nics` ([`vfun_nics::Nics`]) with its contest, its rules
//! and the order of each move. What is modelled: hypervisors, agents and cards, which take
//! a set time and never fail ([`Host`]), and what a packet takes ([`PacketTimes`]).

mod host;
mod packets;
mod scene;

pub use host::{Guest, Host};
pub use packets::PacketTimes;
pub use scene::{HandOver, Kin, Scene, Stay, play};
