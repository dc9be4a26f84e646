//! `vfun nics orders` and `vfun nics done`: for programs that plug by themselves.

use super::ask::Allocator;
use crate::fail::Result;
use crate::out::{Output, Table};
use vfun_nicd::ask::Ask;
use vfun_nicd::hands::Kind;
use vfun_nicd::orders::{Outcome, PlugOrder, Wanted};
use vfun_nics::VfId;

/// Say how an order ended (`vfun nics orders`).
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The order's number.
    order: u64,
    /// It could not be carried out, and nothing has changed; why.
    #[arg(long, value_name = "WHY", group = "how")]
    failed: Option<String>,
    /// The VM has this VF, and no others; may be given again for more.
    #[arg(long, value_name = "VF", group = "how")]
    has: Vec<String>,
    /// The VM has no VF.
    #[arg(long, group = "how")]
    has_none: bool,
    /// The VM does not run any more.
    #[arg(long, group = "how")]
    ended: bool,
}

/// Answers an order.
pub fn done(allocator: &Allocator, output: Output, args: &Args) -> Result<()> {
    let outcome = match &args.failed {
        Some(why) => Outcome::Failed { why: why.clone() },
        None if args.ended => Outcome::Ended,
        None if args.has_none || !args.has.is_empty() => {
            Outcome::Has { vfs: args.has.iter().cloned().map(VfId).collect() }
        }
        None => Outcome::Done,
    };
    output.done(allocator.tell(&Ask::Done { order: args.order, outcome })?)
}

/// Lists the orders that are open.
pub fn list(allocator: &Allocator, output: Output) -> Result<()> {
    let orders = allocator.orders()?;
    output.show(&orders, || render(&orders))
}

fn render(orders: &[PlugOrder]) -> String {
    if orders.is_empty() {
        return "nothing is to be done\n".into();
    }
    let mut table = Table::new(&[">ORDER", "VM", "DO", "VF", "DEVICE", "MAC"]);
    for order in orders {
        let (what, vf, device, mac) = match &order.wanted {
            Wanted::Plug { device } => {
                let kind = match &device.kind {
                    Kind::Pci => format!("PCI {}", device.vf),
                    Kind::Emulated { tap, model } => format!("{model} on tap {tap}"),
                    Kind::VhostUser { socket } => {
                        format!("vhost-user, server of {}", socket.display())
                    }
                };
                ("plug", device.vf.to_string(), kind, device.mac.clone())
            }
            Wanted::Unplug { vf } => ("unplug", vf.to_string(), "-".into(), "-".into()),
            Wanted::Tell => ("tell which VFs it has", "-".into(), "-".into(), "-".into()),
        };
        table.row([order.order.to_string(), order.vm.to_string(), what.into(), vf, device, mac]);
    }
    table.render()
}
