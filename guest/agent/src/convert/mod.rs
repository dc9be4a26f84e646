//! Makes a bond of an interface that is in use: its addresses, routes, MTU and MAC address
//! go to the bond, and it stays in the bond as the paravirtual NIC. If a step fails, what
//! was is put back.

mod moved;
mod plan;
mod steps;

pub use plan::Plan;
pub use steps::carry_out;

use crate::netlink::Socket;
use std::io::{BufRead, Write};

/// The command `vfun-agent convert`.
///
/// # Errors
/// A sentence: why it is not possible, that the user does not want it, or which step
/// failed and whether what was could be put back.
pub fn command(interface: &str, bond: &str, yes: bool) -> Result<(), String> {
    let mut socket = Socket::open().map_err(|e| e.to_string())?;
    let plan = Plan::make(&mut socket, interface, bond)?;
    println!("{plan}");
    if !yes && !asked()? {
        return Err("nothing was changed".into());
    }
    carry_out(&mut socket, &plan)?;
    println!(
        "{bond} is up, with {interface} in it. Now:\n\
         1. Write it into this machine's network configuration, for the next boot \
         (/usr/share/doc/virtfun-guest/examples).\n\
         2. Start the agent: systemctl enable --now vfun-agent"
    );
    Ok(())
}

fn asked() -> Result<bool, String> {
    print!("Go on? [y/N] ");
    std::io::stdout().flush().map_err(|e| e.to_string())?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(|e| e.to_string())?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
