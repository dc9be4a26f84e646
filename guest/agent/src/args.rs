//! The command line.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

/// Moves a VM's bond between its paravirtual NIC and a VF.
///
/// The VM's bond joins its paravirtual NIC and, while the VM holds one, a virtual function
/// (VF) of a network card of its host. The host says which of the two packets should take;
/// the agent moves the bond, so that no packet is lost when a VF comes or goes. Without the
/// agent a VM keeps its paravirtual NIC and gets no VF.
#[derive(Debug, Parser)]
#[command(name = "vfun-agent", version)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Look after the bond until the process ends; then the bond stays as it is.
    ///
    /// Needs the right CAP_NET_ADMIN and access to /dev/vfunN. The bond comes from the
    /// machine's own network configuration, in the mode active-backup; the agent waits for it.
    Run {
        /// The bond's name.
        #[arg(long, value_name = "NAME", default_value = "bond0", value_parser = interface)]
        bond: String,
        /// Ask this address, such as the gateway's, five times a second how long packets take
        /// (ICMP echo): the pool's policy `gain` reckons with it.
        #[arg(long, value_name = "ADDRESS")]
        probe: Option<std::net::IpAddr>,
    },
    /// Show the bond, its NICs, and what the host wants.
    ///
    /// Exits with 3 if no agent runs.
    Status {
        /// As one JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Make a bond of an interface that is in use.
    ///
    /// Moves its addresses, routes, MTU and MAC address to a new bond, in which it stays as
    /// the paravirtual NIC. Says first what that interrupts, and asks. Until the next boot:
    /// the machine's network configuration has to be changed, too.
    Convert {
        /// The interface, such as eth0.
        #[arg(value_name = "IFACE", value_parser = interface)]
        interface: String,
        /// The new bond's name.
        #[arg(long, value_name = "NAME", default_value = "bond0", value_parser = interface)]
        bond: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Longest name of an interface, bytes.
const NAME_MAX: usize = 15;

fn interface(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_graphic() && c != '/' && c != ':';
    let fits = (1..=NAME_MAX).contains(&text.len()) && text.chars().all(good);
    if fits && text != "." && text != ".." {
        return Ok(text.into());
    }
    Err(format!("an interface's name has 1 to {NAME_MAX} characters, without / and :"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
        for bad in ["", ".", "..", "a/b", "a:1", "a b", "sixteen-is-toomuch"] {
            assert!(interface(bad).is_err(), "{bad}");
        }
        assert_eq!(interface("enp1s0"), Ok("enp1s0".into()));
    }
}
