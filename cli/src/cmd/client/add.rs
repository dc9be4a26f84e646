//! `vfun client add`.

use super::manifest::{self, Wanted, WantedVm};
use crate::admin::Admin;
use crate::connect::read_secret;
use crate::fail::{Failure, Result};
use crate::out;
use crate::toml_file;
use std::collections::BTreeMap;
use std::path::PathBuf;
use vfun_admin::rdma::RdmaView;
use vfun_admin::{Ask, ClientRow, OfVm, Reply, Transport};

/// Declare a client, or give one a further VM, and print what to give QEMU or libvirt.
///
/// A client is a tenant: its VMs, or programs on the host. It has one VM with the client's
/// name, unless --vm or a manifest names others. Each VM has a window. The window is made at
/// once, and the VM gets it as a PCI device. Adding a client again changes its rights. It does
/// not change its kind, its VMs, or their transports and sizes. But a manifest that is added
/// again says which VMs there are.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Its name: letters, digits, '.', '_' and '-'.
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// Take everything from this manifest (TOML) instead of options.
    #[arg(short, long, value_name = "FILE", exclusive = true)]
    file: Option<PathBuf>,
    /// Add a VM with this name to the client. If the client exists, only --window and
    /// --transport may be given besides; else this VM is its first one.
    #[arg(long, value_name = "VM")]
    vm: Option<String>,
    /// Size of the window: a power of two from 1 MiB [default: 64 MiB].
    #[arg(long, value_name = "SIZE")]
    window: Option<String>,
    /// vm: a virtual machine, with a window of its own; host: programs on this machine or, with --tcp, elsewhere.
    #[arg(long, value_name = "KIND", value_parser = ["vm", "host"], default_value = "vm")]
    kind: String,
    /// Functions that the client may use [default: all].
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    functions: Option<Vec<String>>,
    /// Most grants that the client may hold at once [default: 128].
    #[arg(long, value_name = "N")]
    max_grants: Option<u32>,
    /// Accept callers over TCP that show the client's credential or a token; with =open every caller.
    #[arg(
        long,
        value_name = "open",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "proven",
        hide_possible_values = true,
        value_parser = ["proven", "open"]
    )]
    tcp: Option<String>,
    /// Secret that the client's apps must show. Only its SHA-256 is kept.
    #[arg(long, value_name = "SECRET")]
    credential: Option<String>,
    /// Read the secret from FILE, so that no list of processes shows it; a newline at its end is ignored.
    #[arg(long, value_name = "FILE", conflicts_with = "credential")]
    credential_file: Option<PathBuf>,
    /// Never give this client hardware.
    #[arg(long)]
    no_hardware: bool,
    /// A user of the host that may act for this client, besides root and the manager's user. May be given again.
    #[arg(long = "uid", value_name = "UID")]
    uids: Vec<u32>,
    /// How the window gets into the VM; docs/transports.md tells them apart [default: ivshmem-doorbell].
    #[arg(long, value_name = "KIND", value_parser = clap::builder::PossibleValuesParser::new(Transport::names_of_vms()))]
    transport: Option<String>,
    /// Let the client's apps ask for services that spin: each such channel keeps a processor of this host busy.
    #[arg(long)]
    spin: bool,
}

impl Args {
    fn wanted(&self, name: &str) -> Result<Wanted> {
        let secret = match (&self.credential_file, &self.credential) {
            (Some(path), _) => Some(read_secret(path)?),
            (None, secret) => secret.clone().map(String::into_bytes),
        };
        Ok(Wanted {
            name: name.to_owned(),
            kind: self.kind.clone(),
            window: self.window.clone(),
            functions: self.functions.clone(),
            max_grants: self.max_grants,
            tcp: self.tcp.as_deref().map(|how| match how {
                "open" => how.into(),
                _ => true.into(),
            }),
            secret,
            hardware: !self.no_hardware,
            uids: self.uids.clone(),
            transport: self.transport.clone(),
            spin: self.spin,
            vms: self.vm.iter().map(|vm| WantedVm::named(vm)).collect(),
            addresses: BTreeMap::new(),
            shared_memory: BTreeMap::new(),
            vmms: BTreeMap::new(),
            ports: BTreeMap::new(),
            rdma: RdmaView::default(),
            links: Default::default(),
        })
    }

    /// Whether one VM of the client was named.
    pub fn names_vm(&self) -> bool {
        self.vm.is_some()
    }

    /// An option that was given and is about the client, not about one VM of it.
    fn of_client(&self) -> Option<&'static str> {
        let all = [
            ("--functions", self.functions.is_some()),
            ("--max-grants", self.max_grants.is_some()),
            ("--tcp", self.tcp.is_some()),
            ("--credential", self.credential.is_some() || self.credential_file.is_some()),
            ("--no-hardware", self.no_hardware),
            ("--uid", !self.uids.is_empty()),
            ("--spin", self.spin),
        ];
        all.into_iter().find_map(|(option, given)| given.then_some(option))
    }
}

pub fn run(admin: &Admin, args: &Args) -> Result<ClientRow> {
    if let Some(names) = &args.functions {
        let known: Vec<_> = admin.functions()?.into_iter().map(|f| f.name).collect();
        for name in unknown(names, &known) {
            out::note(format!(
                "no function '{name}' is registered: the client may call it once it is (`vfun function list`)"
            ));
        }
    }
    let (text, file) = match (&args.file, &args.name) {
        (Some(file), _) => {
            let text = toml_file::read(file, toml_file::CLIENT)?;
            (text, std::path::absolute(file).unwrap_or_else(|_| file.clone()))
        }
        (None, Some(name)) => {
            let mut wanted = args.wanted(name)?;
            match (admin.client(name)?, &args.vm) {
                (Some(_), Some(vm)) => return more(admin, args, name, vm),
                // What is not said of them stays.
                (Some(row), None) => {
                    wanted.vms = WantedVm::all_of(&row);
                    (wanted.addresses, wanted.rdma) = (row.addresses, row.rdma);
                    wanted.links = row.links;
                    (wanted.shared_memory, wanted.ports) = (row.shared_memory, row.ports);
                    wanted.vmms = row.vmms;
                }
                (None, _) => {}
            }
            (manifest::text(&wanted)?, PathBuf::from("command line"))
        }
        (None, None) => return Err(Failure::usage("a client needs a name")),
    };
    Ok(admin.add_client(text, file)?)
}

/// Names that no registered function has.
fn unknown<'a>(names: &'a [String], known: &[String]) -> Vec<&'a String> {
    names.iter().filter(|n| *n != "*" && !known.contains(n)).collect()
}

/// One more VM of a client that is there.
fn more(admin: &Admin, args: &Args, client: &str, vm: &str) -> Result<ClientRow> {
    if let Some(option) = args.of_client() {
        return Err(Failure::usage(format!(
            "client '{client}' is there, and {option} is about all of it, not about its VM '{vm}'"
        ))
        .advise("leave --vm out to change the client, or the other option to add the VM"));
    }
    add_vm(admin, client, vm, args.window.as_deref(), args.transport.as_deref())
}

fn add_vm(
    admin: &Admin,
    client: &str,
    vm: &str,
    window: Option<&str>,
    transport: Option<&str>,
) -> Result<ClientRow> {
    let (client, vm) = (client.to_owned(), vm.to_owned());
    let (window, transport) = (window.map(str::to_owned), transport.map(str::to_owned));
    match admin.ask(&Ask::AddVm { client, vm, window, transport })? {
        Reply::ClientAdded(row) => Ok(row),
        other => Err(vfun_admin::AskError::Strange(Box::new(other)).into()),
    }
}

/// The VM that `CLIENT` or `CLIENT/VM` means, declared with the defaults, and its client
/// with it, if it is not there; and whether it was declared just now.
pub fn ensure(
    admin: &Admin,
    name: &str,
    window: Option<&str>,
    transport: Option<&str>,
) -> Result<(ClientRow, bool)> {
    let of: OfVm = name.parse().map_err(Failure::usage)?;
    match (admin.client(&of.client)?, &of.vm) {
        (Some(row), Some(vm)) if row.meant(Some(vm)).is_err() => {
            return Ok((add_vm(admin, &of.client, vm, window, transport)?, true));
        }
        (Some(_), _) => return Ok((super::meant(admin, name)?, false)),
        (None, _) => {}
    }
    let wanted = Wanted {
        window: window.map(str::to_owned),
        transport: transport.map(str::to_owned),
        vms: of.vm.iter().map(|vm| WantedVm::named(vm)).collect(),
        ..Wanted::vm(&of.client)
    };
    Ok((admin.add_client(manifest::text(&wanted)?, PathBuf::from("command line"))?, true))
}

#[cfg(test)]
mod tests {
    use super::unknown;

    #[test]
    fn names_of_no_function_are_told() {
        let all = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let known = all(&["echo", "sum"]);
        assert_eq!(unknown(&all(&["echo", "ehco", "*"]), &known), ["ehco"]);
        assert!(unknown(&all(&["sum", "echo"]), &known).is_empty());
    }
}
