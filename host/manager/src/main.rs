//! `vfund`, VirtFun's manager.

#![forbid(unsafe_code)]

use clap::{CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use vfun_admin::links::LinkSettings;
use vfun_core::limits::{LINK_IDLE, LINK_IDLE_MAX_MS, LINK_SILENCE_MAX_MS};
use vfun_leases::{Policy, Settings};
use vfun_manager::privileges::WantedMore;
use vfun_manager::rim::{Config, Daemon, Foreseen, StartError, TlsFiles};
use vfun_manager::settings;
use vfun_packet::limits::{SILENCE_MS, SWITCH_KEEPS_MS};

/// Serves vFunctions of this host to its VMs and programs.
///
/// Keeps everything under one root: `admin/` (database, manifests, admin
/// socket), `service/` and `vmcli/` (the two sides of each grant), `host.sock`
/// (where programs on the host get their windows). `vfun` is the command to
/// work with it.
#[derive(Parser)]
#[command(name = "vfund", version)]
struct Args {
    /// Take options from this file, too: TOML, with each long option as a key, such as
    /// `window_dir = "/dev/shm"`. An option of the command line, or VFUN_ROOT, wins.
    #[arg(long = "config", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Only say what would be wrong: with the options, the root, addresses, and with what
    /// the host gives. Ends with 0, with 1 if something would be missing, and with 2 if no
    /// manager would start.
    #[arg(long)]
    check: bool,
    /// Root of the tree.
    #[arg(long, env = "VFUN_ROOT", default_value = vfun_admin::ROOT)]
    root: PathBuf,
    /// A directory of functions to offer: DIR/*.toml and DIR/*/function.toml. May be given again.
    #[arg(long = "functions", value_name = "DIR")]
    functions: Vec<PathBuf>,
    /// Folder of the driver libraries that a manifest names without a path [default: beside vfund].
    #[arg(long, value_name = "DIR")]
    drivers: Option<PathBuf>,
    /// The program that serves functions [default: vfun-service beside vfund].
    #[arg(long, value_name = "FILE")]
    service_program: Option<PathBuf>,
    /// Folder below which services may write, where a function's manifest says so [default:
    /// writes/ below the root].
    #[arg(long, value_name = "DIR")]
    writes: Option<PathBuf>,
    /// Leave a layer of the sandbox out, to measure what it costs. Refused
    /// where policy requires it. May be given again.
    #[arg(long, value_name = "LAYER", hide = true)]
    without_layer: Vec<vfun_jail::Layer>,
    /// Folder of the VMs' windows: shared memory, files virtfun-CLIENT.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    window_dir: PathBuf,
    /// Also serve callers over TCP on this address, such as 127.0.0.1:7733.
    #[arg(long, value_name = "ADDR:PORT")]
    tcp: Option<String>,
    /// Accept callers over TCP by TLS only, and show them this certificate (PEM, with
    /// the chain up to its issuer). Read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tcp", requires = "tcp_tls_key")]
    tcp_tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM, not encrypted). Not every user may be able to read it.
    #[arg(long, value_name = "FILE", requires = "tcp_tls_cert")]
    tcp_tls_key: Option<PathBuf>,
    /// Accept only callers over TCP that show a certificate of one of these issuers (PEM).
    #[arg(long, value_name = "FILE", requires = "tcp_tls_cert")]
    tcp_tls_client_ca: Option<PathBuf>,
    /// Show the counters to Prometheus on this address; without one, on 127.0.0.1:9733.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        num_args = 0..=1,
        default_missing_value = "127.0.0.1:9733"
    )]
    metrics: Option<String>,
    /// Lend VFs of network cards to VMs: starts vfun-nics, which `vfun nics` asks.
    #[arg(long)]
    nics: bool,
    /// Make the tap devices of VMs' ports, and put them into bridges (`vfun port`). Needs root, or the
    /// capability net_admin; without it a port uses a device that is there.
    #[arg(long)]
    ports: bool,
    /// Watch which ports of VMs Open vSwitch with DPDK joins point to point, for direct links
    /// between VMs: starts vfun-links, which changes nothing in the switch. Without --ports, too: then
    /// the ports are those that people put into the switch.
    #[arg(long)]
    links: bool,
    /// How long a VM may be silent when frames of a direct link are to turn, ms. Then the switch's
    /// driver makes the turn, and the link ends. Below 100 ms turns that only wait for the switch
    /// may be taken for silence.
    #[arg(long, value_name = "MS", default_value_t = SILENCE_MS, value_parser = clap::value_parser!(u64).range(SWITCH_KEEPS_MS..=LINK_SILENCE_MAX_MS))]
    links_silence_ms: u64,
    /// How long two VMs keep a window that the manager made for their direct links, while all
    /// frames go through the switch, ms. Then it is unplugged from both.
    #[arg(long, value_name = "MS", default_value_t = LINK_IDLE.as_millis() as u64, value_parser = clap::value_parser!(u64).range(1..=LINK_IDLE_MAX_MS))]
    links_idle_ms: u64,
    /// Who gets the VFs of functions whose manifest says `leased`: none, first,
    /// random, fair, activity or gain.
    #[arg(long, value_name = "POLICY", default_value_t = Policy::Gain)]
    leases: Policy,
    /// Time between two decisions about leases, ms.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    lease_interval_ms: u64,
    /// Least time that a grant keeps a VF, ms.
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    lease_hold_ms: u64,
    /// Most leased VFs of one device that one client holds at once.
    #[arg(long, value_name = "N")]
    lease_client_vfs: Option<u16>,
    /// When VFs are leased, calls of a grant beyond this number a second do not count.
    #[arg(long, value_name = "CALLS")]
    lease_rate_cap: Option<f64>,
    /// Only see whether it could start; a manager asks this before it is started anew.
    #[arg(long, hide = true)]
    check_again: bool,
}

/// Becomes the program as it is on disk now, with the same arguments: the
/// lock is given back, the keeper has everything else.
fn start_anew() -> ExitCode {
    use std::os::unix::process::CommandExt;
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_else(|| "vfund".into());
    let e = std::process::Command::new(&program).args(arguments).exec();
    eprintln!("vfund: {} could not be restarted: {e}", program.display());
    ExitCode::FAILURE
}

impl Args {
    fn leases(&self) -> Settings {
        Settings {
            policy: self.leases,
            interval_ms: self.lease_interval_ms,
            min_hold_ms: self.lease_hold_ms,
            client_vfs: self.lease_client_vfs,
            rate_cap: self.lease_rate_cap,
            ..Settings::default()
        }
    }

    /// What was asked for, with the programs beside this one.
    fn config(self) -> Config {
        let beside = std::env::current_exe()
            .ok()
            .and_then(|p| p.parent().map(PathBuf::from))
            .unwrap_or_default();
        let absolute = |p: PathBuf| std::path::absolute(&p).unwrap_or(p);
        let service_program = self.service_program.clone();
        let root = absolute(self.root.clone());
        Config {
            leases: self.leases(),
            writes: self.writes.map_or_else(|| root.join("writes"), absolute),
            root,
            functions: self.functions.into_iter().map(absolute).collect(),
            drivers: absolute(self.drivers.unwrap_or_else(|| beside.clone())),
            service_program: absolute(
                service_program.unwrap_or_else(|| beside.join("vfun-service")),
            ),
            service_programs: beside.clone(),
            jail_program: beside.join("vfun-jail"),
            without: self.without_layer.into_iter().collect(),
            window_dir: absolute(self.window_dir),
            tcp: self.tcp,
            tcp_tls: TlsFiles {
                cert: self.tcp_tls_cert.map(absolute),
                key: self.tcp_tls_key.map(absolute),
                client_ca: self.tcp_tls_client_ca.map(absolute),
            },
            gateway_program: beside.join("vfun-gateway"),
            keeper_program: beside.join("vfun-keeper"),
            metrics: self.metrics,
            metrics_program: beside.join("vfun-metrics"),
            nics: self.nics,
            ports: self.ports,
            links: self.links,
            link_settings: LinkSettings {
                silence_ms: self.links_silence_ms,
                idle_ms: self.links_idle_ms,
            },
            links_program: beside.join("vfun-links"),
            nics_program: beside.join("vfun-nics"),
        }
    }
}

/// The command line, and what the file says that it names.
fn arguments() -> Result<Args, String> {
    let mut line: Vec<OsString> = std::env::args_os().collect();
    // What it needs besides may be in the file: whether all is there is seen later.
    let given = Args::command().ignore_errors(true).try_get_matches_from(&line);
    let given = given.unwrap_or_else(|e| e.exit());
    if let Some(file) = given.get_one::<PathBuf>("file") {
        let more = read(file, &given)?;
        let first = line.len().min(1);
        line.splice(first..first, more);
    }
    let all = Args::command().get_matches_from(line);
    Ok(Args::from_arg_matches(&all).unwrap_or_else(|e| e.exit()))
}

fn read(file: &Path, given: &clap::ArgMatches) -> Result<Vec<OsString>, String> {
    let text =
        std::fs::read_to_string(file).map_err(|e| format!("--config {}: {e}", file.display()))?;
    settings::words(&Args::command(), given, file, &text).map_err(|e| e.to_string())
}

/// Says what a manager like this would lack.
fn foresee(config: &Config) -> ExitCode {
    let found = config.foresee();
    for f in &found {
        println!("{f}");
    }
    let status = Foreseen::exit_status(&found);
    println!(
        "{}",
        match status {
            0 => "vfund would start.",
            1 => "vfund would start, without what is marked LACKS.",
            _ => "vfund would not start: see what is marked WRONG.",
        }
    );
    ExitCode::from(status)
}

/// Gives up what root may do and this manager does not need.
fn drop_privileges(config: &Config) -> Result<(), String> {
    let own_users = !config.without.contains(&vfun_jail::Layer::OwnUser);
    let addresses = [config.tcp.as_deref(), config.metrics.as_deref()];
    vfun_jail::group::prepare();
    let more = WantedMore { nics: config.nics, ports: config.ports };
    let kept = vfun_manager::privileges::drop_all_but_needed(own_users, addresses, more)
        .map_err(|e| format!("it cannot give its privileges up: {e}"))?;
    if !kept.is_empty() {
        tracing::info!("keeps of root's capabilities: {}", kept.join(", "));
    }
    Ok(())
}

/// Serves until it is told to end.
pub fn main() -> ExitCode {
    vfun_log::begin();
    let args = match arguments() {
        Ok(args) => args,
        Err(e) => {
            eprintln!("vfund: {e}");
            return ExitCode::from(2);
        }
    };
    if let Err(e) = args.leases().check() {
        eprintln!("vfund: leases: {e}");
        return ExitCode::from(2);
    }
    let (check, check_again) = (args.check, args.check_again);
    let config = args.config();
    if let Err(e) = drop_privileges(&config) {
        eprintln!("vfund: {e}");
        return ExitCode::FAILURE;
    }
    let refuse = |e: StartError| {
        eprintln!("vfund: {e}");
        ExitCode::from(e.exit_status())
    };
    if check {
        return foresee(&config);
    }
    if check_again {
        return config.check_again().map_or_else(refuse, |()| ExitCode::SUCCESS);
    }
    let mut manager = match Daemon::start(config) {
        Ok(manager) => manager,
        Err(e) => return refuse(e),
    };
    let ended = manager.run();
    // What it has is given back before another program takes its place.
    drop(manager);
    match ended {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => start_anew(),
        Err(e) => {
            eprintln!("vfund: {e}");
            ExitCode::FAILURE
        }
    }
}
