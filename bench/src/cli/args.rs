//! The options.

use crate::lab::Wiring;
use crate::report::{Domain, Experiment, Function, NicsExperiment, RemotingExperiment};
use crate::runs::Where;
use clap::Subcommand;
use std::path::PathBuf;
use vfun::Endpoint;

/// Measures: the published experiment, latency, grain, footprint and ways to wait.
///
/// Without options it starts a manager and boots a guest of its own, with this program
/// inside, and removes both afterwards.
///
/// What is compared runs in turns, in slices of milliseconds. Slices that the kernel says were disturbed
/// are dropped. Each ratio has an interval that holds it in 95 of 100 runs; what the interval
/// does not settle is "cannot tell".
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The experiment, with its own options.
    #[command(subcommand)]
    pub command: Command,
}

/// What to measure.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// The published experiment: the same work cut into ever more calls, in each domain.
    Domains(DomainsArgs),
    /// One call, many calls and calls with data, each beside its floor.
    Latency(LatencyArgs),
    /// How small a call may be before calling costs more than 2.8 %.
    Grain(GrainArgs),
    /// Starting a function, memory, and what an idle system takes.
    Footprint(FootprintArgs),
    /// The ways to wait: a call in each, too many callers, and idling.
    Waiting(WaitingArgs),
    /// The sandbox: what each layer costs when a service starts, and at a call.
    Jail(JailArgs),
    /// WebAssembly: a call and its work beside the native kin, and how soon a submitted module serves.
    Wasm(WasmArgs),
    /// The kernel module: a call with and without it, and how soon it serves.
    Module(ModuleArgs),
    /// Entries a second through a queue and their way, beside a bare ring and a bare line.
    Queues(QueuesArgs),
    /// Frames through the rings of ports: by themselves beside memcpy, and below testpmd beside DPDK's memif and vhost. Not in a guest: `tests/ports.sh figures` is for that.
    Ports(PortsArgs),
    /// Frames over direct links, beside an Open vSwitch with DPDK between two ports: testpmd at both ends. Not in a guest: `tests/links.sh figures` and `chain` are for that.
    Links(LinksArgs),
    /// RDMA verbs by the software NIC of this host: writes, bandwidth, events, many queue pairs, each beside its floor.
    Verbs(VerbsArgs),
    /// Up to 100 clients and 1000 channels: one that is busy beside the idle ones, memory, take-over.
    Scale(ScaleArgs),
    /// An innocent client's calls while its neighbour attacks, in every way there is.
    Isolation(IsolationArgs),
    /// Leases, on a modelled device: what a VF gains, a live switch, and who gets one.
    Leases(LeasesArgs),
    /// Network VFs: who holds one and what that gains (simulated), what deciding costs (measured).
    Nics(NicsArgs),
    /// A remoted API (gdma, with a simulated engine) beside its library: calls, buffers, transfers, callbacks.
    Remoting(RemotingArgs),
    /// Domains, latency, grain and footprint, in a few minutes.
    All(AllArgs),
    /// Writes the manual's pages to a folder.
    #[command(hide = true)]
    Man {
        /// The folder, which is there.
        folder: PathBuf,
    },
    /// Draws the history of network VFs, in JSON on standard input: `vfun nics chart`.
    #[command(hide = true)]
    NicsChart {
        /// The pool.
        #[arg(long)]
        pool: String,
        /// The file, .svg or .png.
        #[arg(long)]
        output: PathBuf,
    },
    /// Measures with both libraries of a remoted API.
    #[command(hide = true)]
    RemotingInside {
        /// What, and where the manager is: JSON.
        job: String,
    },
    /// Measures verbs in a process of its own.
    #[command(hide = true)]
    VerbsInside {
        /// What: JSON.
        job: String,
    },
    /// Measures one thing for the host that booted this guest.
    #[command(hide = true)]
    Inside {
        /// What, and how to connect: JSON.
        job: String,
    },
}

/// Options of `wasm`.
#[derive(Clone, Debug, clap::Args)]
pub struct WasmArgs {
    /// Modules submitted with the service there, and as many without.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(5..=1000))]
    pub modules: u32,
    /// The folder of functions [default: those of this checkout, or the installed ones].
    #[arg(long, value_name = "DIR")]
    pub functions: Option<PathBuf>,
    /// The folder of drivers and modules [default: beside this program].
    #[arg(long, value_name = "DIR")]
    pub drivers: Option<PathBuf>,
    /// Write the report as JSON; - means stdout, instead of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Options of `jail`.
#[derive(Clone, Debug, clap::Args)]
pub struct JailArgs {
    /// Starts of services with each set of layers.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(5..=1000))]
    pub starts: u32,
    /// Only the whole sandbox and none, not each layer by itself.
    #[arg(long)]
    pub short: bool,
    /// The folder of functions [default: those of this checkout, or the installed ones].
    #[arg(long, value_name = "DIR")]
    pub functions: Option<PathBuf>,
    /// The folder of drivers [default: beside this program].
    #[arg(long, value_name = "DIR")]
    pub drivers: Option<PathBuf>,
    /// Write the report as JSON; - means stdout, instead of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn domain(text: &str) -> Result<Domain, String> {
    let names = || Domain::ALL.iter().map(|d| d.as_str()).collect::<Vec<_>>().join(", ");
    let found = Domain::ALL.iter().copied().find(|d| d.as_str() == text);
    found.ok_or_else(|| format!("there is no domain '{text}': they are {}", names()))
}

fn function(text: &str) -> Result<Function, String> {
    let found = Function::ALL.iter().copied().find(|f| f.as_str() == text);
    found.ok_or_else(|| {
        format!(
            "the experiment has no function '{text}': factorial and fibonacci are its functions"
        )
    })
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale > 0.0 && scale <= 1.0 => Ok(scale),
        _ => Err("a scale is above 0 and at most 1, the published size".to_owned()),
    }
}

fn experiment(text: &str) -> Result<Experiment, String> {
    let names = || Experiment::ALL.iter().map(|e| e.as_str()).collect::<Vec<_>>().join(", ");
    let found = Experiment::ALL.iter().copied().find(|e| e.as_str() == text);
    found.ok_or_else(|| format!("there is no experiment '{text}': they are {}", names()))
}

fn nics_experiment(text: &str) -> Result<NicsExperiment, String> {
    let names = || NicsExperiment::ALL.iter().map(|e| e.as_str()).collect::<Vec<_>>().join(", ");
    let found = NicsExperiment::ALL.iter().copied().find(|e| e.as_str() == text);
    found.ok_or_else(|| format!("there is no experiment '{text}': they are {}", names()))
}

fn remoting_experiment(text: &str) -> Result<RemotingExperiment, String> {
    let all = RemotingExperiment::ALL;
    let names = || all.iter().map(|e| e.as_str()).collect::<Vec<_>>().join(", ");
    let found = all.iter().copied().find(|e| e.as_str() == text);
    found.ok_or_else(|| format!("there is no experiment '{text}': they are {}", names()))
}

fn endpoint(text: &str) -> Result<Endpoint, String> {
    text.parse().map_err(|e: vfun::Error| e.to_string())
}

/// On what to measure.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct WhereArgs {
    /// The domains, separated by commas: in-process, host-host, guest-host, guest-net; for `latency` also kvm-bare, user-mode code in a bare KVM virtual machine without a guest kernel [default: all that apply].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = domain)]
    pub domain: Vec<Domain>,
    /// The root of a manager that runs already, instead of starting one.
    #[arg(long, value_name = "DIR", conflicts_with = "endpoint")]
    pub root: Option<PathBuf>,
    /// Measure over this endpoint only, such as ivshmem inside a guest of one's own.
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    pub endpoint: Option<Endpoint>,
    /// The client to act for, where that is not settled by the endpoint.
    #[arg(long, value_name = "NAME")]
    pub client: Option<String>,
    /// The folder of functions [default: those of this checkout, or the installed ones].
    #[arg(long, value_name = "DIR")]
    pub functions: Option<PathBuf>,
    /// The folder of drivers [default: beside this program].
    #[arg(long, value_name = "DIR")]
    pub drivers: Option<PathBuf>,
    /// How the guest reaches its window: by the kernel module (module), or mapped by root with doorbells (raw) or without (plain) [default: module if it is built].
    #[arg(long, value_name = "WAY")]
    pub guest: Option<Wiring>,
    /// Let the system choose processors, instead of one for the caller and one for services.
    #[arg(long)]
    pub no_pin: bool,
}

impl WhereArgs {
    pub(super) fn to_where(&self) -> Where {
        Where {
            root: self.root.clone(),
            endpoint: self.endpoint.clone(),
            client: self.client.clone(),
            functions: self.functions.clone(),
            drivers: self.drivers.clone(),
            pin: !self.no_pin,
            program: None,
            programs: None,
            wiring: self.guest,
        }
    }
}

/// Where the report goes, besides the terminal.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct OutputArgs {
    /// Write the report as JSON; - means stdout, instead of the tables.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the rows as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Draw a chart: a name in .png or .svg. May be given again.
    #[arg(long, value_name = "FILE")]
    pub chart: Vec<PathBuf>,
}

/// Options of `domains`.
#[derive(Clone, Debug, clap::Args)]
pub struct DomainsArgs {
    /// The part of the published work that each call does; 1 is all of it, and takes an hour.
    #[arg(long, value_name = "S", default_value = "0.02", value_parser = scale)]
    pub scale: f64,
    /// How often each instance is run, in slices that take turns with the other domains'. A ratio needs 6 undisturbed slices.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// The functions, separated by commas: factorial, fibonacci [default: both].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = function)]
    pub function: Vec<Function>,
    #[command(flatten)]
    pub at: WhereArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Options of `latency`.
#[derive(Clone, Debug, clap::Args)]
pub struct LatencyArgs {
    /// How often each figure is taken, and 6 times as many slices of what is compared; medians are reported.
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    #[command(flatten)]
    pub at: WhereArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Options of `grain`.
#[derive(Clone, Debug, clap::Args)]
pub struct GrainArgs {
    /// How often each amount of work is measured, each time in 9 pairs of slices.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// What computes: factorial or fibonacci.
    #[arg(long, value_name = "NAME", default_value = "factorial", value_parser = function)]
    pub function: Function,
    #[command(flatten)]
    pub at: WhereArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Options of `footprint`.
#[derive(Clone, Debug, clap::Args)]
pub struct FootprintArgs {
    /// Activations of each sort.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// How long an idle system is looked at, seconds.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub idle: u32,
    #[command(flatten)]
    pub at: WhereArgs,
    /// Write the report as JSON; - means stdout, instead of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the rows as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

/// Options of `waiting`.
#[derive(Clone, Debug, clap::Args)]
pub struct WaitingArgs {
    /// How often each figure is taken, and 6 times as many slices of null calls; medians are reported.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// How long callers that are too many call at a time, ms.
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(50..=60_000))]
    pub load: u32,
    /// How long idle channels are looked at, seconds.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub idle: u32,
    #[command(flatten)]
    pub at: WhereArgs,
    /// Write the report as JSON; - means stdout, instead of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the rows as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

/// Options of `module`.
#[derive(Clone, Debug, clap::Args)]
pub struct ModuleArgs {
    /// How often each figure is taken; medians are reported.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// The folder of functions [default: those of this checkout, or the installed ones].
    #[arg(long, value_name = "DIR")]
    pub functions: Option<PathBuf>,
    /// The folder of drivers [default: beside this program].
    #[arg(long, value_name = "DIR")]
    pub drivers: Option<PathBuf>,
    /// Let the system choose processors, instead of one for the guest and one for services.
    #[arg(long)]
    pub no_pin: bool,
    /// Write the report as JSON; - means stdout, instead of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the rows as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

/// Options of `verbs`.
#[derive(Clone, Debug, clap::Args)]
pub struct VerbsArgs {
    /// How often each figure is taken, each time in 4 pairs of slices; medians are reported.
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Let the system choose processors, instead of one for the program and one for the NIC.
    #[arg(long)]
    pub no_pin: bool,
    /// The folder of functions [default: those of this checkout, or the installed ones].
    #[arg(long, value_name = "DIR")]
    pub functions: Option<PathBuf>,
    /// The folder of drivers [default: beside this program].
    #[arg(long, value_name = "DIR")]
    pub drivers: Option<PathBuf>,
    /// Write the report as JSON; - means stdout, instead of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the rows as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

/// Options of `queues`.
#[derive(Clone, Debug, clap::Args)]
pub struct QueuesArgs {
    /// How often each figure is taken, each time in 6 pairs of slices; medians are reported.
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Let the system choose processors, instead of one for each end.
    #[arg(long)]
    pub no_pin: bool,
    /// Write the report as JSON; - means stdout, instead of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the rows as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

/// Options of `ports`.
#[derive(Clone, Debug, clap::Args)]
pub struct PortsArgs {
    /// How often each figure of the ring alone is taken, each time in 6 pairs of slices; medians are reported.
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// How often testpmd runs by each way, at 64 and at 1500 bytes: 45 seconds a round. A ratio needs 6; 0 leaves testpmd out.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub rounds: u32,
    /// The DPDK driver of ports [default: librte_net_vfun.so of this checkout, which packaging/dpdk.sh builds, or of the installation].
    #[arg(long, value_name = "FILE")]
    pub dpdk_driver: Option<PathBuf>,
    /// Let the system choose processors, instead of one for each end.
    #[arg(long)]
    pub no_pin: bool,
    /// Write the report as JSON; - means stdout, instead of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the rows as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

/// Options of `links`.
#[derive(Clone, Debug, clap::Args)]
pub struct LinksArgs {
    /// How often each way has its turn, at 64 and at 1500 bytes, one way and both ways: 40 seconds a round. A ratio needs 6.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// The DPDK driver of ports [default: librte_net_vfun.so of this checkout, which packaging/dpdk.sh builds, or of the installation].
    #[arg(long, value_name = "FILE")]
    pub dpdk_driver: Option<PathBuf>,
    /// Let the system choose processors, instead of one for each thread.
    #[arg(long)]
    pub no_pin: bool,
    /// Write the report as JSON; - means stdout, instead of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the rows as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

/// Options of `scale`.
#[derive(Clone, Debug, clap::Args)]
pub struct ScaleArgs {
    /// How often calls are measured at each size, and a manager is taken over; medians are reported.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// How long all that is idle is looked at, seconds.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub idle: u32,
    /// A few seconds: at most 4 clients and 32 channels.
    #[arg(long)]
    pub short: bool,
    /// The folder of functions [default: those of this checkout, or the installed ones].
    #[arg(long, value_name = "DIR")]
    pub functions: Option<PathBuf>,
    /// The folder of drivers [default: beside this program].
    #[arg(long, value_name = "DIR")]
    pub drivers: Option<PathBuf>,
    /// Let the system choose processors, instead of one for callers and one for manager and services.
    #[arg(long)]
    pub no_pin: bool,
    /// Write the report as JSON; - means stdout, instead of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the rows as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

/// Options of `isolation`.
#[derive(Clone, Debug, clap::Args)]
pub struct IsolationArgs {
    /// How often each attack is measured; medians are reported, with an interval from 6 on.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// How long each turn lasts, ms.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(50..=60_000))]
    pub load: u32,
    /// Only these attacks, separated by commas; `vfun-hostile --attack list` names them [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub attack: Vec<String>,
    /// The folder of functions [default: those of this checkout, or the installed ones].
    #[arg(long, value_name = "DIR")]
    pub functions: Option<PathBuf>,
    /// The folder of drivers [default: beside this program].
    #[arg(long, value_name = "DIR")]
    pub drivers: Option<PathBuf>,
    /// Write the report as JSON; - means stdout, instead of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the rows as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

/// Options of `leases`.
#[derive(Clone, Debug, clap::Args)]
pub struct LeasesArgs {
    /// The experiments, separated by commas: gain, switch, groups, starvation, worth [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = experiment)]
    pub experiment: Vec<Experiment>,
    /// The part of all durations and of the 10,000 switches; 1 takes some minutes.
    #[arg(long, value_name = "S", default_value = "1", value_parser = scale)]
    pub scale: f64,
    /// How often gains and groups are run.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Half a minute: little of everything, once.
    #[arg(long, conflicts_with_all = ["scale", "repeats"])]
    pub short: bool,
    /// Only what can be had in simulated time, with no manager and no service.
    #[arg(long)]
    pub simulated: bool,
    /// The callers' paces, and the lots of the policy `random`.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The folder of functions [default: those of this checkout, or the installed ones].
    #[arg(long, value_name = "DIR")]
    pub functions: Option<PathBuf>,
    /// The folder of drivers [default: beside this program].
    #[arg(long, value_name = "DIR")]
    pub drivers: Option<PathBuf>,
    /// Let the system choose processors, instead of one for callers and one for services.
    #[arg(long)]
    pub no_pin: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Options of `nics`.
#[derive(Clone, Debug, clap::Args)]
pub struct NicsArgs {
    /// The experiments, separated by commas: groups, rates, starvation, liar (simulated), decision, daemon, moves (measured; moves needs root and boots two guests) [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = nics_experiment)]
    pub experiment: Vec<NicsExperiment>,
    /// Some seconds: fewer decisions, 20 minutes of simulated time instead of two hours.
    #[arg(long)]
    pub short: bool,
    /// What a packet takes on the paravirtual NIC of a VM with 100,000 packets a second, µs, in simulations [default: 8000, of a published request].
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(1..))]
    pub paravirtual: Option<u32>,
    /// What a packet takes on a VF, µs, in simulations; less than on the paravirtual NIC [default: 2000, of a published request].
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(1..))]
    pub vf: Option<u32>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Options of `remoting`.
#[derive(Clone, Debug, clap::Args)]
pub struct RemotingArgs {
    /// The experiments, separated by commas: calls, answers, records, allocation, transfers, bursts, completion, waiting, latency, throughput [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = remoting_experiment)]
    pub experiment: Vec<RemotingExperiment>,
    /// The part of the published gibibyte that bursts move; 1 takes some 15 minutes.
    #[arg(long, value_name = "S", default_value = "0.03", value_parser = scale)]
    pub scale: f64,
    /// How often transfers and bursts are run, and 6 times as many slices of what is short. A ratio needs 6 undisturbed slices.
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Some seconds: little of everything, once.
    #[arg(long, conflicts_with_all = ["scale", "repeats"])]
    pub short: bool,
    /// The folder of functions [default: those of this checkout, or the installed ones].
    #[arg(long, value_name = "DIR")]
    pub functions: Option<PathBuf>,
    /// The folder of drivers and of both libraries [default: beside this program].
    #[arg(long, value_name = "DIR")]
    pub drivers: Option<PathBuf>,
    /// Let the system choose processors, instead of one for the caller and one for services.
    #[arg(long)]
    pub no_pin: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Options of `all`.
#[derive(Clone, Debug, clap::Args)]
pub struct AllArgs {
    /// The part of the published work that each call does; 1 is all of it.
    #[arg(long, value_name = "S", default_value = "0.02", value_parser = scale)]
    pub scale: f64,
    /// How often the published experiment's instances are run, and the grain's. A ratio needs 6 undisturbed slices.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    #[command(flatten)]
    pub at: WhereArgs,
    /// Write domains, latency, grain and footprint as JSON and CSV, and charts, into this folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Whole {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn options_are_consistent_and_read() {
        use clap::CommandFactory;
        Whole::command().debug_assert();
        let line = [
            "x",
            "domains",
            "--scale",
            "0.5",
            "--domain",
            "host-host,guest-net",
            "--function",
            "fibonacci",
        ];
        let Command::Domains(d) = Whole::parse_from(line).args.command else { panic!() };
        assert_eq!((d.scale, d.at.domain), (0.5, vec![Domain::HostHost, Domain::GuestNet]));
        assert_eq!(d.function, [Function::Fibonacci]);
        for (line, words) in [
            (["x", "domains", "--scale", "2"], "at most 1"),
            (["x", "latency", "--domain", "moon"], "in-process, host-host"),
            (["x", "grain", "--function", "echo"], "factorial and fibonacci"),
            (["x", "latency", "--endpoint", "wire"], "tcp:HOST:PORT"),
            (["x", "nics", "--experiment", "gain"], "groups, rates"),
            (["x", "remoting", "--experiment", "gain"], "calls, answers"),
        ] {
            let e = Whole::try_parse_from(line).err().unwrap().to_string();
            assert!(e.contains(words), "{e}");
        }
    }
}
