//! `vfun nics`.

mod add;
pub mod ask;
mod history;
mod migrate;
mod orders;
mod pool;
mod show;
mod tried;

use crate::connect::Host;
use crate::fail::{Failure, Result};
use crate::out::{Output, parse_duration};
pub(crate) use ask::Allocator;
use std::time::Duration;
pub use tried::{Competing, Nic};
use vfun_admin::{OfVm, VmName};
use vfun_leases::Policy;
use vfun_nicd::ask::Ask;
use vfun_nics::declared::Rule;

/// What to do with network VFs.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    Add(Box<add::Args>),
    /// Take a VM away: it gives its VF back and gets none any more.
    #[command(visible_alias = "rm")]
    Remove {
        /// The VM.
        #[arg(value_name = "CLIENT[/VM]", value_parser = vm_name)]
        vm: VmName,
    },
    /// List pools, VFs and VMs: who holds which VF.
    #[command(visible_alias = "ls")]
    List,
    /// Say why a VM holds a VF, or has none, and what would change that.
    Explain {
        /// The VM.
        #[arg(value_name = "CLIENT[/VM]", value_parser = vm_name)]
        vm: VmName,
    },
    /// Change how a pool's VFs are given out.
    Set {
        /// The pool.
        pool: String,
        /// Who gets a VF: activity, fair, gain, first, random or none.
        policy: Option<Policy>,
        /// Time between two decisions, such as 10s.
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        interval: Option<Duration>,
        /// Least time that a VM keeps a VF, such as 30s.
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        tenure: Option<Duration>,
    },
    /// Let a VM hold a VF as long as it can.
    Pin {
        /// The VM.
        #[arg(value_name = "CLIENT[/VM]", value_parser = vm_name)]
        vm: VmName,
    },
    /// Give a VM no VF.
    Ban {
        /// The VM.
        #[arg(value_name = "CLIENT[/VM]", value_parser = vm_name)]
        vm: VmName,
    },
    /// Let a VM compete again: neither pinned nor banned.
    Free {
        /// The VM.
        #[arg(value_name = "CLIENT[/VM]", value_parser = vm_name)]
        vm: VmName,
    },
    /// Let a VM hold a VF for at least this part of the time, however little it sends.
    Reserve {
        /// The VM.
        #[arg(value_name = "CLIENT[/VM]", value_parser = vm_name)]
        vm: VmName,
        /// Percent of the time; 0 for no reserve.
        #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
        percent: u8,
    },
    /// Let a VM hold a VF for at most this part of the time.
    Cap {
        /// The VM.
        #[arg(value_name = "CLIENT[/VM]", value_parser = vm_name)]
        vm: VmName,
        /// Percent of the time; 100 for no cap.
        #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
        percent: u8,
    },
    /// Pools of VFs: add, remove, list.
    #[command(subcommand)]
    Pool(pool::Sub),
    History(history::HistoryArgs),
    Chart(history::ChartArgs),
    Migrate(migrate::Args),
    /// List what programs that plug by themselves are to do.
    Orders,
    Done(orders::Args),
}

/// A VM, as people name it: `client`, or `client/vm` where it has another name.
fn vm_name(text: &str) -> std::result::Result<VmName, String> {
    let of: OfVm = text.parse()?;
    Ok(VmName::new(&of.client, of.vm.as_deref().unwrap_or(&of.client)))
}

/// Does it.
pub fn run(host: &Host, output: Output, sub: &Sub) -> Result<()> {
    let allocator = Allocator::at(host.root());
    let order = match sub {
        Sub::Add(args) => return add::run(&allocator, output, args),
        Sub::List => return show::list(&allocator, output),
        Sub::Explain { vm } => return show::explain(&allocator, output, vm),
        Sub::Pool(sub) => return pool::run(&allocator, output, sub),
        Sub::History(args) => return history::history(&allocator, output, args),
        Sub::Chart(args) => return history::chart(&allocator, output, args),
        Sub::Migrate(args) => return migrate::run(&allocator, output, args),
        Sub::Orders => return orders::list(&allocator, output),
        Sub::Done(args) => return orders::done(&allocator, output, args),
        Sub::Remove { vm } => Ask::RemoveVm { name: vm.clone() },
        Sub::Set { pool, policy, interval, tenure } => {
            if policy.is_none() && interval.is_none() && tenure.is_none() {
                return Err(Failure::usage("nothing to set")
                    .advise("name a policy, --interval or --tenure"));
            }
            let ms = |d: &Option<Duration>| d.map(|d| d.as_millis() as u64);
            Ask::SetPool {
                name: pool.clone(),
                policy: *policy,
                interval_ms: ms(interval),
                tenure_ms: ms(tenure),
            }
        }
        Sub::Pin { vm } => Ask::SetRule { name: vm.clone(), rule: Rule::Pinned },
        Sub::Ban { vm } => Ask::SetRule { name: vm.clone(), rule: Rule::Banned },
        Sub::Free { vm } => Ask::SetRule { name: vm.clone(), rule: Rule::None },
        Sub::Reserve { vm, percent } => Ask::Reserve { name: vm.clone(), percent: *percent },
        Sub::Cap { vm, percent } => Ask::Cap { name: vm.clone(), percent: *percent },
    };
    output.done(allocator.tell(&order)?)
}
