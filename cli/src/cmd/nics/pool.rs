//! `vfun nics pool`.

use super::ask::Allocator;
use super::show;
use crate::fail::Result;
use crate::out::Output;
use std::path::PathBuf;
use vfun_nicd::ask::Ask;
use vfun_nics::declared::{Pool, SWITCH, Source};

/// What to do with pools.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    /// Declare a pool: the VFs of a card, ports of an Open vSwitch with DPDK, or NICs that QEMU
    /// emulates.
    #[command(group = clap::ArgGroup::new("source").required(true))]
    Add {
        /// Its name: letters, digits, '.', '_' and '-'.
        name: String,
        /// The card's interface on the host, such as eth2. Make its VFs first
        /// (/sys/class/net/eth2/device/sriov_numvfs).
        #[arg(long, value_name = "IF", group = "source")]
        pf: Option<String>,
        /// So many ports of an Open vSwitch with DPDK, which takes packets from the memory of the
        /// VMs (vhost-user): a fast path without a card. The VM's bridge is one of that switch.
        #[arg(long, value_name = "N", group = "source")]
        vhost_user: Option<u16>,
        /// The folder with the sockets of that Open vSwitch.
        #[arg(long, value_name = "DIR", requires = "vhost_user", default_value = SWITCH)]
        switch: PathBuf,
        /// So many NICs that QEMU emulates. No faster than the paravirtual NIC: to try
        /// things out.
        #[arg(long, value_name = "N", group = "source")]
        emulated: Option<u16>,
        /// QEMU's device model of emulated NICs, such as igb or e1000e.
        #[arg(long, value_name = "MODEL", requires = "emulated", default_value = "virtio-net-pci")]
        model: String,
    },
    /// Take a pool away. Take its VMs away first.
    #[command(visible_alias = "rm")]
    Remove {
        /// Its name.
        name: String,
    },
    /// List pools and their VFs.
    #[command(visible_alias = "ls")]
    List,
}

/// Does it.
pub fn run(allocator: &Allocator, output: Output, sub: &Sub) -> Result<()> {
    let order = match sub {
        Sub::Add { name, pf, vhost_user, switch, emulated, model } => {
            let source = match (pf, vhost_user) {
                (Some(pf), _) => Source::Sriov { pf: pf.clone() },
                (None, Some(vfs)) => Source::VhostUser { vfs: *vfs, switch: switch.clone() },
                (None, None) => {
                    Source::Emulated { vfs: emulated.unwrap_or(1), model: model.clone() }
                }
            };
            Ask::AddPool { name: name.clone(), pool: Pool::new(source) }
        }
        Sub::Remove { name } => Ask::RemovePool { name: name.clone() },
        Sub::List => return show::pools(allocator, output),
    };
    output.done(allocator.tell(&order)?)
}
