//! The command line.

use crate::admin::Admin;
use crate::cmd;
use crate::connect::Host;
use crate::out::Output;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

const LONG: &str = "\
Call functions that run on the host, and manage the host that offers them.

On the host, `vfun` asks the manager (`vfund`) through its admin socket, which \
only the manager's own user may open. `vfun call`, `vfun list` and `vfun doctor` \
also work inside a virtual machine, through the window that it shares with its \
host, and over TCP.";

const AFTER: &str = "\
Examples:
  vfun client add vm1 --window 64MiB     declare a VM's client; prints what to give QEMU or libvirt
  vfun call factorial 20                 call a function over the best path there is
  vfun --endpoint tcp:10.0.2.2:7733 call sha256 -    the same over the network
  vfun attach vm1                        plug its window into a libvirt domain that runs
  vfun top                               live: who calls what, how often, how fast
  vfun guest -- vfun call echo hello     boot a test guest with a window and run a command in it
  vfun doctor                            what is there, what is missing, how to mend it

Exit codes:
  0  done
  1  failed; for doctor: something that is needed is missing
  2  the command line is wrong
  3  the manager refused
  4  the call itself failed
  5  manager, window or gateway cannot be reached

Variables: VFUN_ROOT, VFUN_ENDPOINT, VFUN_CLIENT, VFUN_CREDENTIAL, \
VFUN_TOKEN_FILE, VFUN_TOKEN; for tls:HOST:PORT VFUN_TLS_CA, \
VFUN_TLS_NAME, VFUN_TLS_CERT, VFUN_TLS_KEY.";

/// VirtFun: call functions that run on the host.
#[derive(Parser, Debug)]
#[command(name = "vfun", version, long_about = LONG, after_help = AFTER, max_term_width = 100)]
pub struct Cli {
    /// Root of the manager's tree on this machine [default: /var/lib/virtfun].
    #[arg(long, global = true, help_heading = "Options of every command", value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// How to reach the host: auto, host[:SOCKET], module[:/dev/vfunN], ivshmem[:PCIADDRESS], pmem[:/dev/daxN.M], dir:FOLDER, tcp:HOST:PORT or tls:HOST:PORT.
    #[arg(long, global = true, help_heading = "Options of every command", value_name = "ENDPOINT")]
    pub endpoint: Option<String>,
    /// Print JSON instead of text, errors too.
    #[arg(long, global = true, help_heading = "Options of every command")]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// With what the variables say, where the command line says nothing. clap could read
    /// them, but then its usage lines ask for `--root <DIR>`.
    #[must_use]
    pub fn with_variables(self) -> Self {
        let of = |name| std::env::var_os(name).filter(|v| !v.is_empty());
        let endpoint = || of("VFUN_ENDPOINT").map(|v| v.to_string_lossy().into_owned());
        Cli {
            root: self.root.or_else(|| of("VFUN_ROOT").map(PathBuf::from)),
            endpoint: self.endpoint.or_else(endpoint),
            ..self
        }
    }

    /// The host that is named.
    pub fn host(&self) -> Host {
        Host::new(self.root.clone(), self.endpoint.clone())
    }
    /// The manager of this machine, with the root that is named.
    pub fn admin(&self) -> Admin {
        Admin::at(self.host().root())
    }
    /// For whom results are printed.
    pub fn output(&self) -> Output {
        if self.json { Output::Json } else { Output::Text }
    }
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    Call(Box<cmd::call::Args>),
    #[command(visible_alias = "ls")]
    List(cmd::list::Args),
    New(cmd::new::Args),
    Bindgen(cmd::bindgen::Args),
    Submit(cmd::submit::Args),
    Doctor(cmd::doctor::Args),
    /// Show the manager at a glance.
    Status,
    Ps(cmd::ps::Args),
    Top(cmd::top::Args),
    Stats(cmd::stats::Args),
    History(cmd::history::Args),
    Revoke(cmd::revoke::Args),
    /// Declare functions: add, remove, list, show.
    #[command(subcommand, alias = "functions")]
    Function(cmd::function::Sub),
    /// Show services and the sandbox each is in.
    #[command(subcommand, alias = "services")]
    Service(cmd::service::Sub),
    /// Who holds the VFs of a device, and why: list, explain, set.
    #[command(subcommand, alias = "lease")]
    Leases(cmd::leases::Sub),
    /// Which VM holds which VF of a network card, and why: list, explain, add, set.
    #[command(subcommand, alias = "nic")]
    Nics(cmd::nics::Sub),
    /// Ports of VMs, packets between a VM and a switch: add, remove, list, stats, explain.
    #[command(subcommand, alias = "ports")]
    Port(cmd::port::Sub),
    #[command(alias = "link")]
    Links(cmd::links::Args),
    /// NICs for RDMA, and programs that use them: list, explain.
    #[command(subcommand)]
    Rdma(cmd::rdma::Sub),
    /// Programs for RDMA: check which of their functions work.
    #[command(subcommand)]
    Verbs(cmd::verbs::Sub),
    /// Declare clients: add, remove, list, show.
    #[command(subcommand, alias = "clients")]
    Client(cmd::client::Sub),
    /// Further windows of VMs: add, remove, list, show.
    #[command(subcommand, alias = "windows")]
    Window(cmd::window::Sub),
    /// What each client may use: show, check, set, reload.
    #[command(subcommand)]
    Policy(cmd::policy::Sub),
    /// Tokens of apps: add, rotate, list, revoke.
    #[command(subcommand, alias = "tokens")]
    Token(cmd::token::Sub),
    Audit(cmd::audit::Args),
    Attach(cmd::attach::AttachArgs),
    Detach(cmd::attach::DetachArgs),
    Drain(cmd::switch::DrainArgs),
    Stop(cmd::switch::StopArgs),
    Run(cmd::run::Args),
    Guest(cmd::guest::Args),
    Bench(cmd::bench::Args),
    Completions(cmd::completions::Args),
    #[command(hide = true)]
    Man(cmd::man::Args),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_may_follow_their_command() {
        let cli = Cli::parse_from(["vfun", "ps", "--watch", "--json", "--root", "/r"]);
        assert!(cli.json && cli.root == Some("/r".into()) && matches!(cli.command, Command::Ps(_)));
        let cli = Cli::parse_from(["vfun", "guest", "--", "ls", "--json"]);
        assert!(!cli.json, "what follows -- is the guest's");
        // What VFUN_ROOT says is as if it had been said here.
        let cli = Cli::try_parse_from(["vfun", "--root", "/r", "guest", "--kernel"]).unwrap();
        assert!(matches!(cli.command, Command::Guest(args) if args.kernel));
    }
}
