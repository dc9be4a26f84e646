//! `vfun client`.

mod add;
mod manifest;
pub mod wiring;

pub use add::ensure;

use crate::admin::Admin;
use crate::fail::{Exit, Failure, Result};
use crate::out::{self, Output, Table};
use crate::vmm;
use vfun_admin::{Ask, ClientRow};

/// What to do with clients.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    Add(Box<add::Args>),
    /// Take a client away, with its grants and its window. Turn its VM off first.
    #[command(visible_alias = "rm")]
    Remove {
        /// Its name.
        name: String,
    },
    /// List clients.
    #[command(visible_alias = "ls")]
    List,
    /// Show a client, and what to give QEMU or libvirt.
    Show {
        /// Its name.
        name: String,
    },
}

/// Does it.
pub fn run(admin: &Admin, output: Output, sub: &Sub) -> Result<()> {
    match sub {
        Sub::Add(args) => show(output, &add::run(admin, args)?),
        Sub::Remove { name } => output.done(admin.tell(&Ask::RemoveClient { name: name.clone() })?),
        Sub::List => {
            let clients = admin.clients()?;
            output.show(&clients, || render(&clients))
        }
        Sub::Show { name } => match admin.client(name)? {
            Some(client) => show(output, &client),
            None => Err(Failure::new(Exit::Refused, format!("there is no client '{name}'"))
                .advise("`vfun client list` shows them")),
        },
    }
}

fn show(output: Output, client: &ClientRow) -> Result<()> {
    output.show(&wiring::object(client), || wiring::text(client))
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
    let yes = |b: bool| if b { "yes" } else { "no" }.to_owned();
    for c in clients {
        table.row([
            c.id.to_string(),
            c.name.clone(),
            c.kind.clone(),
            out::bytes(c.window_bytes),
            c.max_grants.to_string(),
            if c.tcp_open { "open".into() } else { yes(c.tcp) },
            wiring::proof(c),
            c.functions.join(","),
            c.transport.name().into(),
            if c.socket.is_some() { yes(c.connected) } else { String::new() },
            vmm::window(c).map_or_else(String::new, |w| w.path.display().to_string()),
        ]);
    }
    table.render()
}
