//! `vfun-links-proxy`: tells controllers what went past rules over direct links.

#![forbid(unsafe_code)]

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use vfun_linkproxy::manager::Manager;
use vfun_linkproxy::place::{Address, ControllerSide, SwitchSide, TlsFiles};
use vfun_linkproxy::relay::Proxy;

/// Stands between a bridge of an Open vSwitch and its controller, and adds to the counts of rules
/// what went past them over direct links.
///
/// Started by hand or by systemd, one for each bridge, as the manager's own user. The bridge connects to
/// it (`ovs-vsctl set-controller br0 tcp:127.0.0.1:6653`), and it connects to the controller. All other bytes pass
/// as they are. OpenFlow 1.0 and 1.3 are understood. If it ends, the connections end, and nothing else.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// The bridge whose rules these are, as ports of VMs name it (`vfun port add --switch`).
    #[arg(long)]
    bridge: String,
    /// Where the switch connects to. Without TLS keep it to this machine or to a network that you trust.
    #[arg(long, value_name = "tcp|tls:ADDR:PORT", default_value = "tcp:127.0.0.1:6653")]
    listen: Address,
    /// The controller.
    #[arg(long, value_name = "tcp|tls:HOST:PORT")]
    controller: Address,
    /// Hold each change of rules until all links of the bridge have come back to the switch, for a second
    /// at most.
    #[arg(long)]
    strict: bool,
    /// The manager's admin socket.
    #[arg(long, value_name = "FILE", default_value = "/var/lib/virtfun/admin/vfund.sock")]
    socket: PathBuf,
    /// The certificate that the switch is shown (PEM, with the chain up to its issuer).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM, not encrypted). Not every user may be able to read it.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let in only a switch that shows a certificate of one of these issuers (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Issuers of which the controller's certificate must be (PEM).
    #[arg(long, value_name = "FILE")]
    controller_ca: Option<PathBuf>,
    /// The name that the controller's certificate must have, if it is not that of its address.
    #[arg(long, value_name = "NAME", requires = "controller_ca")]
    controller_name: Option<String>,
    /// The certificate that the controller is shown (PEM).
    #[arg(long, value_name = "FILE", requires = "controller_key")]
    controller_cert: Option<PathBuf>,
    /// Its private key (PEM, not encrypted).
    #[arg(long, value_name = "FILE", requires = "controller_cert")]
    controller_key: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    vfun_log::begin();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("vfun-links-proxy: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<(), String> {
    let switch = TlsFiles { cert: args.tls_cert, key: args.tls_key, ca: args.tls_client_ca };
    let switch = SwitchSide::open(&args.listen, &switch)?;
    let files =
        TlsFiles { cert: args.controller_cert, key: args.controller_key, ca: args.controller_ca };
    let controller = ControllerSide::of(args.controller, args.controller_name.as_deref(), &files)?;
    // What comes from the network from here on finds no right of root's to use.
    vfun_privileges::give_up_all().map_err(|e| format!("it cannot give its privileges up: {e}"))?;
    let address = switch.listener.local_addr().map_err(|e| e.to_string())?;
    tracing::info!("the switch is let in at {address}, for bridge {}", args.bridge);
    if !address.ip().is_loopback() && !args.listen.tls {
        tracing::warn!("everybody who reaches {address} can speak to the controller as the switch");
    }
    let manager = Arc::new(Manager::new(args.socket, args.bridge, args.strict));
    let told = manager.clone();
    std::thread::spawn(move || told.keep_told());
    Proxy::new(manager, switch, controller).serve();
    Ok(())
}
