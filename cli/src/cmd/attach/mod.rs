//! `vfun attach` and `vfun detach`.

mod further;
mod libvirt;
mod qemu;

use crate::admin::Admin;
use crate::cmd::client;
use crate::fail::{Exit, Failure, Result};
use crate::out::{self, Facts, Output};
use crate::vmm;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vfun_admin::{ClientRow, OfVm, VmName};
use vfun_qmp::libvirt::Domain;
use vfun_qmp::plug::{self, Plugged};

const AFTER: &str = "\
The window of a client's VM is plugged into a VM that runs, as a PCI device, and taken out again. The VM is \
a domain of libvirt (asked through virsh), or a plain QEMU with a control socket \
(-qmp unix:FILE,server=on,wait=off). A PCIe machine (q35) needs a free port that takes devices while it \
runs; for a large window, one with room for it:
  libvirt:  <controller type='pci' model='pcie-root-port'/>
  QEMU:     -device pcie-root-port,id=vf0,chassis=1,pref64-reserve=128M

Examples:
  vfun attach vm1                              the domain vm1 gets the window of the client vm1
  vfun attach web --client vm1 --persistent    and keeps it after it was off
  vfun attach --qmp /run/vm1.qmp --client vm1 --bus vf0
  vfun attach web-2 --client web/b             the domain web-2 gets the window of VM b of the client web
  vfun detach vm1

A further window of the VM (`vfun window add`) comes and goes by its name, while the first one is in \
use. The VM needs the kernel module, which tells the manager that the window is there. Buffers that lie \
in it end when it is taken out; all else goes on. A link goes into each of its two VMs:
  vfun attach vm1 --window bulk
  vfun detach vm1 --window bulk";

/// How long a VM may take unless it is said, seconds; and the least that it may take to let
/// go of what `attach` takes out again.
const TIMEOUT_S: u64 = 30;

/// Which window, into or out of which VM.
#[derive(clap::Args, Debug)]
pub struct Target {
    /// A domain of libvirt.
    #[arg(required_unless_present = "qmp")]
    domain: Option<String>,
    /// The client that has the window; if it has several VMs, CLIENT/VM [default: the domain's name].
    #[arg(long, value_name = "CLIENT[/VM]", group = "whose")]
    client: Option<String>,
    /// A further window of the VM, by its name, instead of the client's own.
    #[arg(long, value_name = "NAME", group = "whose")]
    window: Option<String>,
    /// A plain QEMU's control socket, instead of a domain.
    #[arg(long, value_name = "SOCKET", conflicts_with = "domain", requires = "whose")]
    qmp: Option<PathBuf>,
    /// Where libvirt is, as virsh takes it [default: virsh's own].
    #[arg(long, value_name = "URI", conflicts_with = "qmp")]
    connect: Option<String>,
    /// Change the domain's stored description too.
    #[arg(long, conflicts_with = "qmp")]
    persistent: bool,
    /// How long the VM may take, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT_S, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// Plug a client's window into a VM that runs.
///
/// Ends when the device is there and the manager has seen the VM connect.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct AttachArgs {
    #[command(flatten)]
    target: Target,
    /// With --qmp: the port or bus to plug it into [default: a free one].
    #[arg(long, value_name = "ID", requires = "qmp")]
    bus: Option<String>,
    /// Do not wait until the manager has seen the VM connect.
    #[arg(long)]
    no_wait: bool,
}

/// Take a client's window out of a VM that runs.
///
/// Programs of the VM that use it get an error that says that the device is gone; their grants
/// are given back.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct DetachArgs {
    #[command(flatten)]
    target: Target,
}

/// What was done, for programs.
#[derive(Debug, Default, Serialize)]
struct Done {
    /// Its name, if it is a further window.
    window: Option<String>,
    client: String,
    vm: Option<String>,
    /// Its name in QEMU; in libvirt it is that of its file.
    device: String,
    transport: String,
    /// Whether it is in the VM now.
    attached: bool,
    /// Whether it was so before.
    already: bool,
    /// Where, as the host numbers it.
    pci: Option<String>,
    /// The port it is plugged into, where that is known.
    port: Option<String>,
    /// What plugging or unplugging took, ms.
    took_ms: Option<f64>,
    /// Whether the manager sees the VM; none where its window is a file.
    connected: Option<bool>,
    /// From plugging it in until the manager saw it, ms.
    connected_ms: Option<f64>,
}

/// What goes into a VM: the row shows the wiring of that VM.
struct OwnWindow {
    client: ClientRow,
}

/// A window that goes into a VM.
trait Goes {
    /// What its VMM needs to know of it.
    fn of_vmm(&self) -> Result<vmm::Window<'_>>;
    /// Refuses one that is in another VM, before QEMU is told.
    fn is_free(&self) -> Result<()>;
}

impl Done {
    /// Whose window it is, for people.
    fn of(&self) -> String {
        vfun_admin::vm::owner(&self.client, self.vm.as_deref())
    }
}

impl Target {
    fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    fn client(&self) -> &str {
        self.client.as_deref().or(self.domain.as_deref()).unwrap_or_default()
    }

    /// Where it goes, for people.
    fn place(&self) -> String {
        match (&self.qmp, &self.domain) {
            (Some(socket), _) => format!("the QEMU at {}", socket.display()),
            (None, Some(domain)) => format!("domain {domain}"),
            (None, None) => String::new(),
        }
    }

    fn domain(&self) -> Domain<'_> {
        Domain {
            name: self.domain.as_deref().unwrap_or_default(),
            connect: self.connect.as_deref(),
            persistent: self.persistent,
        }
    }
}

fn window(admin: &Admin, name: &str) -> Result<OwnWindow> {
    let client = client::meant(admin, name)?;
    if vmm::window(&client).is_none() {
        return Err(Failure::usage(format!(
            "client '{name}' is of kind {}: it has no window for a VM",
            client.kind
        )));
    }
    Ok(OwnWindow { client })
}

pub fn attach(admin: &Admin, output: Output, args: &AttachArgs) -> Result<()> {
    let target = &args.target;
    if let Some(name) = &target.window {
        return further::attach(admin, output, args, name);
    }
    let window = window(admin, target.client())?;
    let began = Instant::now();
    let plugged = match &target.qmp {
        Some(socket) => qemu::attach(socket, &window, args.bus.as_deref())?,
        None => libvirt::attach(&target.domain(), &window)?,
    };
    let mut done = Done {
        client: window.client.name.clone(),
        vm: window.client.vm.clone(),
        device: window.of_vmm()?.id,
        transport: window.client.transport.name().to_owned(),
        attached: true,
        already: plugged.already,
        pci: plugged.pci,
        port: plugged.port,
        took_ms: plugged.took.map(ms),
        ..Done::default()
    };
    // Only a VM that connects is seen.
    if !window.client.transport.in_file() && !args.no_wait {
        connected(admin, &window, target)?;
        done.connected = Some(true);
        done.connected_ms = (!done.already).then(|| ms(began.elapsed()));
    }
    show(output, target, &done)
}

pub fn detach(admin: &Admin, output: Output, args: &DetachArgs) -> Result<()> {
    let target = &args.target;
    if let Some(name) = &target.window {
        return further::detach(output, target, name);
    }
    let vm = to_unplug(admin, target.client())?;
    let id = vm.device_id();
    let unplugged = match &target.qmp {
        Some(socket) => plug::detach(socket, &id, target.timeout())?,
        None => target.domain().detach(&vmm::name(&vm), target.timeout())?,
    };
    let done = Done {
        client: vm.client,
        vm: Some(vm.vm),
        device: id,
        already: unplugged.already,
        pci: unplugged.pci,
        took_ms: unplugged.took.map(ms),
        ..Done::default()
    };
    show(output, target, &done)
}

/// The VM whose device is to go. A client that is gone, or a manager that is, must not
/// keep it in a VM: then it is the one that was named.
fn to_unplug(admin: &Admin, name: &str) -> Result<VmName> {
    let of: OfVm = name.parse().map_err(Failure::usage)?;
    let known = admin.client(&of.client).ok().flatten();
    let known = known.and_then(|row| row.meant(of.vm.as_deref()).ok()?.vm_name());
    Ok(known.unwrap_or_else(|| {
        let vm = of.vm.as_ref().unwrap_or(&of.client);
        VmName::new(&of.client, vm)
    }))
}

fn ms(d: Duration) -> f64 {
    (d.as_secs_f64() * 1e4).round() / 10.0
}

impl Goes for OwnWindow {
    fn of_vmm(&self) -> Result<vmm::Window<'_>> {
        let none = || Failure::usage(format!("client '{}' has no window", self.client.shown()));
        vmm::window(&self.client).ok_or_else(none)
    }

    fn is_free(&self) -> Result<()> {
        match self.client.connected {
            false => Ok(()),
            true => Err(Failure::new(
                Exit::Failed,
                format!("the window of client {} is in another VM already", self.client.shown()),
            )
            .advise(format!(
                "each VM has a name of its own: `vfun client add {} --vm NAME`",
                self.client.name
            ))),
        }
    }
}

/// Waits until the manager has seen the VM.
fn connected(admin: &Admin, window: &OwnWindow, target: &Target) -> Result<()> {
    let until = Instant::now() + target.timeout();
    let (name, vm) = (&window.client.name, window.client.vm.as_deref());
    loop {
        let row = admin.client(name)?.and_then(|row| row.meant(vm).ok());
        if row.is_some_and(|r| r.connected) {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(Failure::new(
                Exit::Unreachable,
                format!(
                    "the device is in {}, but the manager has not seen it connect within {} s",
                    target.place(),
                    target.timeout
                ),
            )
            .advise(
                "see the manager's log; is it the manager of this root that made the socket?",
            ));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn show(output: Output, target: &Target, done: &Done) -> Result<()> {
    if output.is_json() {
        return out::json(done);
    }
    let state = match (done.attached, done.already) {
        (true, false) => "attached",
        (true, true) => "attached already: nothing was done",
        (false, false) => "detached",
        (false, true) => "not attached: there was nothing to do",
    };
    let mut facts = Facts::new()
        .fact(
            "window",
            match &done.window {
                Some(name) => format!("{name} ({})", done.device),
                None => format!("of client {} ({})", done.of(), done.device),
            },
        )
        .fact("VM", target.place())
        .fact("state", state);
    if let Some(pci) = &done.pci {
        let port = done.port.as_ref().map(|p| format!(", in port {p}")).unwrap_or_default();
        facts = facts.fact("PCI address", format!("{pci}{port}"));
    }
    if let Some(took) = done.took_ms {
        facts = facts.fact("took", format!("{took} ms"));
    }
    // The guest's kernel module says of a further window that it has it.
    let unseen =
        done.window.is_none() && done.transport.parse().is_ok_and(vfun_admin::Transport::in_file);
    facts = match (done.attached, done.connected, done.connected_ms) {
        (true, Some(_), Some(took)) => {
            facts.fact("manager", format!("sees the VM, {took} ms after the start"))
        }
        (true, Some(_), None) => facts.fact("manager", "sees the VM"),
        (true, None, _) if unseen => facts
            .fact("manager", format!("cannot see the VM: {} has no connection", done.transport)),
        _ => facts,
    };
    out::text(&facts.render())
}
