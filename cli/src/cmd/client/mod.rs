//! `vfun client`.

mod add;
mod manifest;
pub mod wiring;

pub use add::ensure;

use crate::admin::Admin;
use crate::fail::{Exit, Failure, Result};
use crate::out::{self, Output, Table};
use crate::vmm;
use vfun_admin::{Ask, ClientRow, OfVm};

/// What to do with clients.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    Add(Box<add::Args>),
    /// Take a client away, with its grants and its windows. Turn its VMs off first.
    #[command(visible_alias = "rm")]
    Remove {
        /// The client's name.
        name: String,
        /// Take only this VM of the client away; its other VMs go on. Not possible for its last VM.
        #[arg(long, value_name = "VM")]
        vm: Option<String>,
    },
    /// List clients and their VMs.
    #[command(visible_alias = "ls")]
    List,
    /// Show a client, and what to give QEMU or libvirt.
    Show {
        /// The client; if it has several VMs, CLIENT/VM shows what to give that VM.
        #[arg(value_name = "CLIENT[/VM]")]
        name: String,
    },
}

pub fn run(admin: &Admin, output: Output, sub: &Sub) -> Result<()> {
    match sub {
        Sub::Add(args) => show(output, &add::run(admin, args)?, args.names_vm()),
        Sub::Remove { name, vm: None } => {
            output.done(admin.tell(&Ask::RemoveClient { name: name.clone() })?)
        }
        Sub::Remove { name, vm: Some(vm) } => {
            let order = Ask::RemoveVm { client: name.clone(), vm: vm.clone() };
            output.done(admin.tell(&order)?)
        }
        Sub::List => {
            let clients = admin.clients()?;
            output.show(&clients, || render(&clients))
        }
        Sub::Show { name } => {
            let of: OfVm = name.parse().map_err(Failure::usage)?;
            match of.vm {
                Some(_) => show(output, &meant(admin, name)?, true),
                None => show(output, &known(admin, &of.client)?, false),
            }
        }
    }
}

/// A client that is there.
pub fn known(admin: &Admin, name: &str) -> Result<ClientRow> {
    admin.client(name)?.ok_or_else(|| {
        Failure::new(Exit::Refused, format!("there is no client '{name}'"))
            .advise(format!("`vfun client list` shows them; `vfun client add {name}` declares it"))
    })
}

/// Refuses a client, or a VM of it, that is not declared.
pub fn declared(admin: &Admin, of: &OfVm) -> Result<()> {
    match &of.vm {
        Some(vm) => meant(admin, &format!("{}/{vm}", of.client)).map(drop),
        None => known(admin, &of.client).map(drop),
    }
}

/// The VM that a person means by `CLIENT` or `CLIENT/VM`: the row of its client, with the
/// wiring of this VM.
pub fn meant(admin: &Admin, name: &str) -> Result<ClientRow> {
    let of: OfVm = name.parse().map_err(Failure::usage)?;
    let row = known(admin, &of.client)?;
    row.meant(of.vm.as_deref()).map_err(|vms| {
        let (client, vms) = (&of.client, vms.join(", "));
        match of.vm {
            Some(vm) if vms.is_empty() => Failure::new(
                Exit::Refused,
                format!("client '{client}' is of kind {}: it has no VM '{vm}'", row.kind),
            ),
            Some(vm) => Failure::new(Exit::Refused, format!("client '{client}' has no VM '{vm}'"))
                .advise(format!(
                    "it has {vms}; `vfun client add {client} --vm {vm}` adds another one"
                )),
            None => Failure::new(Exit::Refused, format!("client '{client}' has several VMs"))
                .advise(format!("name one of them: {vms}")),
        }
    })
}

/// `one`: of the VM alone whose wiring the row shows.
fn show(output: Output, client: &ClientRow, one: bool) -> Result<()> {
    output.show(&wiring::object(client), || match one || client.vms.len() <= 1 {
        true => wiring::text(client),
        false => wiring::text_of_all(client),
    })
}

fn render(clients: &[ClientRow]) -> String {
    let mut table = Table::new(&[
        ">ID",
        "NAME",
        "KIND",
        ">WINDOW",
        ">MAX GRANTS",
        "TCP",
        "CREDENTIAL",
        "FUNCTIONS",
        "TRANSPORT",
        "CONNECTED",
        "FILE OR SOCKET",
    ]);
    for c in clients.iter().flat_map(of_each_vm) {
        table.row([
            c.id.to_string(),
            c.shown(),
            c.kind.clone(),
            out::bytes(c.window_bytes),
            c.max_grants.to_string(),
            if c.tcp_open { "open".into() } else { yes(c.tcp) },
            wiring::proof(&c),
            c.functions.join(","),
            c.transport.name().into(),
            connected(&c),
            vmm::window(&c).map_or_else(String::new, |w| w.path.display().to_string()),
        ]);
    }
    table.render()
}

fn yes(b: bool) -> String {
    if b { "yes" } else { "no" }.to_owned()
}

/// Whether its VM has connected, where that is seen.
fn connected(c: &ClientRow) -> String {
    if c.socket.is_some() { yes(c.connected) } else { String::new() }
}

/// The row for each VM of a client; the row itself of one that has none.
pub fn of_each_vm(c: &ClientRow) -> Vec<ClientRow> {
    match c.vms.is_empty() {
        true => vec![c.clone()],
        false => c.vms.iter().map(|vm| c.of_vm(vm)).collect(),
    }
}
