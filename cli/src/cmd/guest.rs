//! `vfun guest`: the program vfun-guest. Its options are here, so that help,
//! completions and manual have them where it is not installed.

use std::net::IpAddr;
use std::path::PathBuf;

const AFTER: &str = "\
The guest is a small Linux under QEMU, with KVM if that works here, else emulated. It has busybox, \
vfun and libvfun.so, and its window as an ivshmem device with doorbells. The kernel module is \
loaded, if it was built (packaging/kmod.sh does), so that the user `app` may use the window; without it, \
only root may. It needs a manager that runs (vfund --root DIR) and a kernel (packaging/guest-kernel.sh \
fetches one). The client is declared if it is not there.

Examples:
  vfun guest                                         a shell; leave with poweroff or Ctrl-A X
  vfun guest -- vfun call factorial 20
  vfun guest --user app -- vfun call factorial 20    without any right but that of the group vfun
  vfun guest --client vm2 --window 256MiB -- vfun doctor
  vfun guest --client vm2/b -- vfun list             a second VM of that client, beside the first
  vfun guest --file ./my-app -- my-app               take a program along
  vfun guest --client vm3 --bridge br0 --address 10.9.0.3/24 --pool cards
                                                     a VM that competes for a network VF

The exit code is the command's.";

/// Boot a test guest with a window of this host's manager.
///
/// With a command: runs it, prints what it printed, and ends the guest.
/// Without: a shell on this terminal.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// The client, and of one with several VMs which of them: CLIENT/VM.
    #[arg(long, value_name = "CLIENT[/VM]", default_value = "guest")]
    pub client: String,
    /// Size of the window, if the client is not declared yet [default: 64 MiB].
    #[arg(long, value_name = "SIZE")]
    pub window: Option<String>,
    /// How the window gets into the VM, if the client is not declared yet: with doorbells, or as a file [default: ivshmem-doorbell].
    #[arg(long, value_name = "KIND", value_parser = ["ivshmem-doorbell", "ivshmem-plain", "pmem"])]
    pub transport: Option<String>,
    /// Whom the command runs as: root, or a user without rights (app).
    #[arg(long, value_name = "USER", default_value = "root", value_parser = ["root", "app"])]
    pub user: String,
    /// The kernel module to load [default: the one that packaging/kmod.sh built, if it did].
    #[arg(long, value_name = "FILE", conflicts_with = "no_module")]
    pub module: Option<PathBuf>,
    /// Load no kernel module: only root may use the window then.
    #[arg(long)]
    pub no_module: bool,
    /// Memory of the guest, MiB [default: 256, and room for what it takes along].
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u32>,
    /// How many virtual processors it has.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub cpus: u32,
    /// A network card; the host's loopback is 10.0.2.2 behind it.
    #[arg(long)]
    pub net: bool,
    /// A network card in this bridge of the host, needs root: in the guest it is in the bond
    /// bond0, which vfun-agent owns.
    #[arg(long, value_name = "BRIDGE", conflicts_with = "net")]
    pub bridge: Option<String>,
    /// The address of bond0, with the length of its network: 10.9.0.2/24.
    #[arg(long, value_name = "ADDRESS/LENGTH", requires = "bridge", value_parser = address)]
    pub address: Option<String>,
    /// Let its agent measure how long packets to this address and back take by each path.
    #[arg(long, value_name = "ADDRESS", requires = "bridge")]
    pub probe: Option<IpAddr>,
    /// Let the guest compete for the VFs of this pool, as long as it runs (`vfun nics`).
    #[arg(long, value_name = "POOL", requires = "bridge")]
    pub pool: Option<String>,
    /// A control socket of QEMU for others, in a folder that is there: with it, and with two free
    /// places for devices, a further window is plugged into the guest while it runs (`vfun attach
    /// --qmp SOCKET`, or the manager by itself if the VM's manifest says `qmp = "SOCKET"`).
    #[arg(long, value_name = "SOCKET", conflicts_with = "bridge")]
    pub qmp: Option<PathBuf>,
    /// A file or folder to take along, to /usr/bin or as FILE:PATH. May be given again.
    #[arg(long = "file", value_name = "FILE[:PATH]")]
    pub files: Vec<String>,
    /// How long a command may run, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    /// Say which kernel the guest would have, and boot nothing.
    #[arg(long, conflicts_with = "command")]
    pub kernel: bool,
    /// A command: one word is a script for sh, several are a program and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `ADDRESS/LENGTH`, as `ip addr add` takes it. It becomes a word of a script in the guest.
fn address(text: &str) -> Result<String, String> {
    let (address, length) =
        text.split_once('/').ok_or("the length of its network is missing, such as /24")?;
    let address: IpAddr = address.parse().map_err(|e| format!("'{address}': {e}"))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    match length.parse::<u8>() {
        Ok(length) if length <= most => Ok(format!("{address}/{length}")),
        _ => Err(format!("the length '{length}' is not 0 to {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_have_a_length() {
        assert_eq!(address("10.9.0.2/24").unwrap(), "10.9.0.2/24");
        assert_eq!(address("fd00::2/64").unwrap(), "fd00::2/64");
        for (bad, says) in [
            ("10.9.0.2", "length of its network"),
            ("10.9.0/24", "10.9.0"),
            ("10.9.0.2/33", "0 to 32"),
            ("10.9.0.2/24;reboot", "24;reboot"),
        ] {
            assert!(address(bad).unwrap_err().contains(says), "{bad}");
        }
    }
}
