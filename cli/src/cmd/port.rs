//! `vfun port`: ports of VMs, packets between a VM and a switch of this host.

use crate::admin::Admin;
use crate::cmd::client;
use crate::fail::{Exit, Failure, Result};
use crate::out::{self, Facts, Output, Table};
use serde::Serialize;
use vfun_admin::ports::{PortLines, PortRow};
use vfun_admin::{Ask, OfVm};

/// What to do with ports of VMs.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    Add(Args),
    /// Take a port away from a VM: its interface there goes, too.
    #[command(visible_alias = "rm")]
    Remove {
        /// The VM: CLIENT, or CLIENT/VM.
        vm: String,
        /// The port's name.
        port: String,
    },
    /// List ports: where each is, and whether its VM has it.
    #[command(visible_alias = "ls")]
    List {
        /// Only of this client, or of one VM of it.
        #[arg(long, value_name = "CLIENT[/VM]")]
        client: Option<OfVm>,
    },
    /// Count frames of ports. Numbers are at most some seconds old.
    ///
    /// FULL counts frames for the VM that found no room: the VM did not take earlier ones in time. AWAY counts
    /// those that came while its interface was down, or that were too long for it. REFUSED counts
    /// frames of the VM that the host's interface did not take. BAD counts how often what the VM wrote made no sense.
    /// All of them begin anew when the VM's interface is set up.
    Stats {
        /// Only of this client, or of one VM of it.
        #[arg(long, value_name = "CLIENT[/VM]")]
        client: Option<OfVm>,
    },
    /// Say where frames of a port go, and what is in the way.
    Explain {
        /// The VM: CLIENT, or CLIENT/VM.
        vm: String,
        /// The port's name.
        port: String,
    },
}

/// Give a VM a port, or change one. The VM's kernel module shows it as a network interface.
///
/// On this host the port is a tap device, which the manager makes, and puts into a bridge of Linux or of Open
/// vSwitch if one is named. With --way dpdk it is a port of an Open vSwitch with DPDK, without any device. The port stands in the client's manifest from then on. What is not named of a port
/// that is there stays as it is. A port that is changed ends and begins anew in its VM.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The VM: CLIENT, or CLIENT/VM.
    vm: String,
    /// The port's name, which the interface in the VM gets if no other one has it.
    port: String,
    /// The bridge, of Linux or of Open vSwitch, that the port is put into. None: into no bridge.
    #[arg(long, value_name = "BRIDGE")]
    switch: Option<String>,
    /// Put it into no bridge any more.
    #[arg(long, conflicts_with = "switch")]
    no_switch: bool,
    /// How the host gets the frames: `tap`, by a tap device, or `dpdk`, by the driver that an Open vSwitch with DPDK loads [default: tap].
    #[arg(long, value_name = "WAY", value_parser = ["tap", "dpdk"])]
    way: Option<String>,
    /// The tap device on this host, or the port's name in a switch with DPDK [default: made of the names of VM and port].
    #[arg(long, value_name = "NAME")]
    tap: Option<String>,
    /// The address of the interface in the VM [default: made of the names; the same each time].
    #[arg(long, value_name = "ADDRESS")]
    mac: Option<String>,
    /// Bytes of the longest packet behind an Ethernet header, 68 to 65521 [default: 1500].
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u16>,
    /// Size of each of the two rings in the VM's window, a power of two [default: 2MiB].
    #[arg(long, value_name = "SIZE")]
    ring: Option<String>,
    /// Let the host's kernel complete checksums and cut long packets of TCP, where the kernel is the switch: `on` or `off` [default: on].
    #[arg(long, value_name = "WHETHER", value_parser = ["on", "off"])]
    offloads: Option<String>,
    /// Its place among the VM's ports, 0 to 15 [default: the first free one].
    #[arg(long, value_name = "N")]
    number: Option<u16>,
}

pub fn run(admin: &Admin, output: Output, sub: &Sub) -> Result<()> {
    match sub {
        Sub::Add(args) => add(admin, output, args),
        Sub::Remove { vm, port } => {
            let (client, vm) = vm_of(admin, vm)?;
            output.done(admin.tell(&Ask::RemovePort { client, vm, name: port.clone() })?)
        }
        Sub::List { client } => {
            let ports = ports(admin, client.as_ref())?;
            output.show(&ports, || render(&ports))
        }
        Sub::Stats { client } => {
            let ports = ports(admin, client.as_ref())?;
            output.show(&ports, || render_counts(&ports))
        }
        Sub::Explain { vm, port } => {
            let (client, vm) = vm_of(admin, vm)?;
            let said = explained(found(admin, &client, &vm, port)?);
            output.show(&said, || text(&said))
        }
    }
}

/// The client and the VM that a person means.
fn vm_of(admin: &Admin, name: &str) -> Result<(String, String)> {
    let row = client::meant(admin, name)?;
    match row.vm {
        Some(vm) => Ok((row.name, vm)),
        None => Err(Failure::new(
            Exit::Refused,
            format!("client '{}' is of kind {}: only VMs have ports", row.name, row.kind),
        )),
    }
}

fn add(admin: &Admin, output: Output, args: &Args) -> Result<()> {
    let (client, vm) = vm_of(admin, &args.vm)?;
    let port = PortLines {
        number: args.number,
        mac: args.mac.clone(),
        mtu: args.mtu,
        ring: args.ring.clone(),
        way: args.way.clone(),
        tap: args.tap.clone(),
        switch: args.switch.clone().or(args.no_switch.then(String::new)),
        offloads: args.offloads.as_ref().map(|said| said == "on"),
    };
    output.done(admin.tell(&Ask::AddPort { client, vm, name: args.port.clone(), port })?)
}

fn ports(admin: &Admin, of: Option<&OfVm>) -> Result<Vec<PortRow>> {
    if let Some(of) = of {
        client::declared(admin, of)?;
    }
    let mut ports = admin.ports()?;
    ports.retain(|p| of.is_none_or(|of| of.has(&p.client, Some(&p.vm))));
    Ok(ports)
}

fn found(admin: &Admin, client: &str, vm: &str, port: &str) -> Result<PortRow> {
    let mut ports = admin.ports()?;
    ports.retain(|p| (p.client.as_str(), p.vm.as_str()) == (client, vm));
    let names: Vec<String> = ports.iter().map(|p| p.port.clone()).collect();
    ports.into_iter().find(|p| p.port == port).ok_or_else(|| {
        let advice = match names.as_slice() {
            [] => format!("it has none: `vfun port add {} {port}` adds it", shown(client, vm)),
            all => format!("it has {}", all.join(", ")),
        };
        Failure::new(Exit::Refused, format!("VM {} has no port '{port}'", shown(client, vm)))
            .advise(advice)
    })
}

/// A VM, as a person writes it.
fn shown(client: &str, vm: &str) -> String {
    vfun_admin::vm::owner(client, Some(vm))
}

/// How a port is, in a word or two.
fn state(p: &PortRow) -> String {
    match (&p.trouble, p.state.as_deref(), p.window) {
        (Some(_), ..) => "trouble".into(),
        (None, Some("active"), _) => "in use".into(),
        (None, Some(other), _) => other.into(),
        (None, None, true) => "not in use".into(),
        (None, None, false) => "no VM".into(),
    }
}

fn render(ports: &[PortRow]) -> String {
    if ports.is_empty() {
        return "no VM has ports: `vfun port add VM NAME --switch BRIDGE` gives it one\n".into();
    }
    let mut table = Table::new(&[
        "VM", "PORT", ">NUMBER", "ADDRESS", ">MTU", "WAY", "ON HOST", "SWITCH", "STATE",
    ]);
    for p in ports {
        table.row([
            shown(&p.client, &p.vm),
            p.port.clone(),
            p.number.to_string(),
            p.mac.clone(),
            p.mtu.to_string(),
            p.way.clone(),
            p.tap.clone(),
            p.switch.clone().unwrap_or_default(),
            state(p),
        ]);
    }
    let mut text = table.render();
    for p in ports {
        if let Some(trouble) = &p.trouble {
            text += &format!("\n! {} {}: {trouble}\n", shown(&p.client, &p.vm), p.port);
        }
    }
    text
}

fn render_counts(ports: &[PortRow]) -> String {
    let counted = |p: &&PortRow| p.counts.is_some();
    if !ports.iter().any(|p| counted(&p)) {
        return "no VM uses a port\n".into();
    }
    let mut table = Table::new(&[
        "VM", "PORT", ">FROM VM", ">BYTES", ">TO VM", ">BYTES", ">FULL", ">AWAY", ">REFUSED",
        ">BAD",
    ]);
    for p in ports {
        let Some(c) = &p.counts else { continue };
        table.row([
            shown(&p.client, &p.vm),
            p.port.clone(),
            out::count(c.from_vm),
            out::bytes(c.from_vm_bytes),
            out::count(c.to_vm),
            out::bytes(c.to_vm_bytes),
            out::count(c.full),
            out::count(c.away),
            out::count(c.refused),
            out::count(c.bad),
        ]);
    }
    table.render()
}

/// What there is to say of a port.
#[derive(Serialize)]
struct ExplainedPort {
    #[serde(flatten)]
    port: PortRow,
    /// What is in the way, and what to do.
    hindrances: Vec<String>,
}

fn explained(port: PortRow) -> ExplainedPort {
    let mut hindrances: Vec<String> = port.trouble.iter().cloned().collect();
    let vm = shown(&port.client, &port.vm);
    hindrances.extend(at_switch(&port));
    if port.switch.is_none() && port.devargs.is_none() {
        hindrances.push(format!(
            "no bridge is named: frames come out of the interface {} of this host, which hears them itself, and go to no other machine. `vfun port add {vm} {} --switch BRIDGE` names one",
            port.tap, port.port
        ));
    }
    match (port.window, port.state.as_deref()) {
        (false, _) => hindrances.push(format!("VM {vm} is not connected: `vfun client show {vm}`")),
        (true, None) => hindrances.push(format!(
            "VM {vm} does not use the port: its kernel module is not loaded or is older than ports, or its interface is down (in the VM: `ip link set {} up`; `dmesg` says more)",
            port.port
        )),
        (true, Some("active")) => {}
        (true, Some(other)) => {
            hindrances.push(format!("the VM's way to the port is {other}: `vfun history` says why"));
        }
    }
    ExplainedPort { port, hindrances }
}

/// What keeps a switch with DPDK from a port.
fn at_switch(port: &PortRow) -> Option<String> {
    let devargs = port.devargs.as_ref()?;
    if port.connected == Some(true) {
        return None;
    }
    Some(match &port.switch {
        Some(switch) => format!(
            "no switch has connected for {}: is ovs-vswitchd running, and does the bridge {switch} have it (`ovs-vsctl list Interface {}`)?",
            port.tap, port.tap
        ),
        None => format!(
            "no bridge is named, and no program has connected: a program with DPDK takes the port as the device {devargs}"
        ),
    })
}

/// The parts of the way of a port's frames.
fn way(p: &PortRow) -> Vec<String> {
    let mut way = vec![
        format!("interface {} in VM {}", p.port, shown(&p.client, &p.vm)),
        "the VM's window".into(),
    ];
    match &p.devargs {
        None => {
            way.push(format!("a service of client {}", p.client));
            way.push(format!("tap device {}", p.tap));
        }
        Some(_) => way.push(format!("port {} of a switch with DPDK", p.tap)),
    }
    way.push(p.switch.as_ref().map_or("no bridge".into(), |s| format!("bridge {s}")));
    way
}

fn text(said: &ExplainedPort) -> String {
    let p = &said.port;
    let mut facts = Facts::new()
        .fact("port", format!("{} of VM {}, number {}", p.port, shown(&p.client, &p.vm), p.number))
        .fact("address", &p.mac)
        .fact("MTU", p.mtu.to_string())
        .fact("rings", format!("2 of {}", out::bytes(p.ring_bytes)))
        .fact("offloads", if p.offloads { "yes, if the VM takes them" } else { "no" })
        .fact("state", state(p))
        .fact("frames go", way(p).join(" - "));
    if let Some(c) = &p.counts {
        let (from, to) = (out::count(c.from_vm), out::count(c.to_vm));
        facts = facts.fact("frames", format!("{from} from the VM, {to} to it"));
    }
    let mut text = facts.render();
    for hindrance in &said.hindrances {
        text += &format!("\n! {hindrance}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_admin::ports::PortCounts;

    fn row() -> PortRow {
        PortRow {
            client: "web".into(),
            vm: "a".into(),
            port: "eth1".into(),
            number: 0,
            mac: "02:00:00:00:00:01".into(),
            mtu: 1500,
            ring_bytes: 2 << 20,
            way: "tap".into(),
            tap: "web.eth1".into(),
            devargs: None,
            connected: None,
            switch: Some("br0".into()),
            offloads: true,
            trouble: None,
            window: true,
            grant: Some("7".into()),
            state: Some("active".into()),
            counts: Some(PortCounts { from_vm: 12, full: 3, ..PortCounts::default() }),
        }
    }

    #[test]
    fn a_port_in_use_has_no_hindrance() {
        let said = explained(row());
        assert!(said.hindrances.is_empty());
        let text = text(&said);
        assert!(text.contains("tap device web.eth1 - bridge br0"), "{text}");
        assert!(text.contains("12 from the VM"), "{text}");
        assert!(render(&[row()]).contains("in use"));
    }

    #[test]
    fn what_is_in_the_way_is_said_with_what_to_do() {
        let why = |change: fn(&mut PortRow)| {
            let mut p = row();
            change(&mut p);
            (state(&p), explained(p).hindrances.join(" "))
        };
        let (state, says) = why(|p| (p.grant, p.state, p.counts) = (None, None, None));
        assert!(state == "not in use" && says.contains("ip link set eth1 up"), "{says}");
        let (state, says) = why(|p| (p.window, p.state) = (false, None));
        assert!(state == "no VM" && says.contains("not connected"), "{says}");
        let (state, says) = why(|p| p.trouble = Some("no ovs-vsctl is installed".into()));
        assert!(state == "trouble" && says.contains("ovs-vsctl"), "{says}");
        assert!(why(|p| p.switch = None).1.contains("--switch BRIDGE"));
        let dpdk = |p: &mut PortRow| {
            (p.way, p.devargs, p.connected) =
                ("dpdk".into(), Some("net_vfun_x".into()), Some(false));
        };
        let mut p = row();
        dpdk(&mut p);
        assert!(explained(p.clone()).hindrances.join(" ").contains("ovs-vswitchd"));
        p.switch = None;
        assert!(explained(p.clone()).hindrances.join(" ").contains("net_vfun_x"));
        p.connected = Some(true);
        let said = explained(p);
        assert!(said.hindrances.is_empty() && text(&said).contains("of a switch with DPDK"));
    }

    #[test]
    fn only_ports_in_use_have_counts() {
        let idle = PortRow { counts: None, ..row() };
        assert_eq!(render_counts(std::slice::from_ref(&idle)), "no VM uses a port\n");
        assert_eq!(render_counts(&[idle, row()]).lines().count(), 2);
        assert!(render(&[]).contains("vfun port add"));
    }
}
