//! `vfun rdma`: NICs in software, and the programs for RDMA that have them.

use crate::admin::Admin;
use crate::cmd::client;
use crate::fail::Result;
use crate::out::{self, Facts, Output, Table};
use serde::Serialize;
use std::net::{IpAddr, Ipv6Addr};
use vfun_admin::rdma::{RdmaRow, RdmaView};
use vfun_admin::{ClientRow, FunctionRow, GrantRow, OfVm};

/// The kind of functions that are NICs, as manifests have it.
pub const KIND: &str = "verbs";

/// What to see of NICs for RDMA.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    /// List programs that use RDMA, and what each has of its NIC.
    ///
    /// A program has a line for each device that it opened. DONE counts work requests that ended,
    /// FAILED those of them with an error, BYTES what they moved. WRONG KEYS counts accesses to peers that no
    /// key allowed: many of them are a fault of the program, or somebody guesses. Numbers are at most some seconds old.
    #[command(visible_alias = "ls")]
    List {
        /// Only of this client, or of one VM of it.
        #[arg(long, value_name = "CLIENT[/VM]")]
        client: Option<OfVm>,
    },
    /// Say which NIC programs of a client find, who reaches whom, and what is in the way.
    Explain {
        /// The client.
        client: String,
    },
}

pub fn run(admin: &Admin, output: Output, sub: &Sub) -> Result<()> {
    match sub {
        Sub::List { client } => list(admin, output, client.as_ref()),
        Sub::Explain { client } => explain(admin, output, client),
    }
}

/// A program and its NIC.
type UsedNic<'a> = (&'a GrantRow, &'a RdmaRow);

fn used(grants: &[GrantRow]) -> impl Iterator<Item = UsedNic<'_>> {
    grants.iter().filter_map(|grant| Some((grant, grant.rdma.as_ref()?)))
}

fn list(admin: &Admin, output: Output, of: Option<&OfVm>) -> Result<()> {
    if let Some(of) = of {
        client::declared(admin, of)?;
    }
    let mut grants = admin.grants()?;
    grants.retain(|g| g.rdma.is_some() && of.is_none_or(|of| of.has(&g.client, g.vm.as_deref())));
    output.show(&grants, || render(&grants))
}

fn render(grants: &[GrantRow]) -> String {
    if grants.is_empty() {
        return "no program uses RDMA\n".into();
    }
    let mut table = Table::new(&[
        "GRANT",
        "CLIENT",
        "APP",
        "GID",
        ">LID",
        ">QUEUE PAIRS",
        ">REGIONS",
        ">REGISTERED",
        "MEMORY",
        ">DONE",
        ">FAILED",
        ">BYTES",
        ">WRONG KEYS",
        ">AGE",
    ]);
    for (grant, nic) in used(grants) {
        table.row([
            grant.grant.clone(),
            grant.owner(),
            grant.app.clone(),
            nic.gid.to_string(),
            nic.lid.to_string(),
            nic.queue_pairs.to_string(),
            nic.regions.to_string(),
            out::bytes(nic.registered_bytes),
            if nic.pinned { "pinned in the VM" } else { "in the window" }.into(),
            out::count(grant.counters.calls),
            out::count(grant.counters.errors),
            out::bytes(grant.counters.bytes_out),
            out::count(nic.wrong_keys),
            out::age(grant.age_ms / 1000),
        ]);
    }
    table.render()
}

/// What there is to say of a client.
#[derive(Serialize)]
struct Explained {
    client: String,
    /// The functions that are NICs and that it may use.
    functions: Vec<String>,
    nic: RdmaView,
    vms: Vec<ExplainedVm>,
    /// What is in the way, and what to do.
    hindrances: Vec<String>,
}

/// A VM, or programs on the host.
#[derive(Serialize)]
struct ExplainedVm {
    vm: String,
    address: Option<IpAddr>,
    /// The GID that follows from it.
    gid: Option<Ipv6Addr>,
    programs: usize,
    queue_pairs: u64,
    regions: u64,
    registered_bytes: u64,
    /// The file that is the VM's memory, all of which the NIC may map; none: what programs register moves into
    /// the window.
    shared_memory: Option<String>,
}

fn explain(admin: &Admin, output: Output, name: &str) -> Result<()> {
    let client = client::known(admin, name)?;
    let said = explained(&client, &admin.functions()?, &admin.grants()?);
    output.show(&said, || text(&said))
}

fn explained(client: &ClientRow, functions: &[FunctionRow], grants: &[GrantRow]) -> Explained {
    let nics: Vec<&FunctionRow> = functions.iter().filter(|f| f.kind == KIND).collect();
    let may = |f: &&&FunctionRow| client.functions.iter().any(|own| own == "*" || *own == f.name);
    let own: Vec<String> = nics.iter().filter(may).map(|f| f.name.clone()).collect();
    let names: Vec<String> = match client.vms.as_slice() {
        [] => vec![client.name.clone()],
        vms => vms.iter().map(|vm| vm.vm.clone()).collect(),
    };
    let vms: Vec<ExplainedVm> = names.iter().map(|vm| of_vm(client, vm, grants)).collect();
    let mut hindrances = vec![];
    if nics.is_empty() {
        hindrances.push("no function is a NIC: `vfun function add /usr/share/virtfun/functions-verbs/verbs.toml` offers one".to_owned());
    } else if own.is_empty() {
        let all: Vec<&str> = nics.iter().map(|f| f.name.as_str()).collect();
        hindrances.push(format!(
            "the client may not use {}: add it to `functions` of its manifest, and declare the client again",
            all.join(" or ")
        ));
    }
    let nowhere = vms.iter().filter(|vm| vm.address.is_none()).map(|vm| vm.vm.as_str());
    let nowhere: Vec<&str> = nowhere.collect();
    if vms.len() > 1 && !nowhere.is_empty() {
        hindrances.push(format!(
            "{} has no address: programs of other VMs cannot connect to it by name or IP address. Write `address` in [vm.NAME] of the client's manifest",
            nowhere.join(", ")
        ));
    }
    let functions = own;
    Explained { client: client.name.clone(), functions, nic: client.rdma.clone(), vms, hindrances }
}

fn of_vm(client: &ClientRow, vm: &str, grants: &[GrantRow]) -> ExplainedVm {
    let address = client.addresses.get(vm).copied();
    let its = |(g, _): &UsedNic<'_>| {
        g.client == client.name && g.vm.as_deref().unwrap_or(&client.name) == vm
    };
    let all: Vec<UsedNic<'_>> = used(grants).filter(its).collect();
    let sum = |of: fn(&RdmaRow) -> u64| {
        all.iter().fold(0u64, |sum, (_, nic)| sum.saturating_add(of(nic)))
    };
    ExplainedVm {
        vm: vm.to_owned(),
        address,
        gid: address.map(|address| match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        }),
        programs: all.len(),
        queue_pairs: sum(|nic| nic.queue_pairs.into()),
        regions: sum(|nic| nic.regions.into()),
        registered_bytes: sum(|nic| nic.registered_bytes),
        shared_memory: client.shared_memory.get(vm).cloned(),
    }
}

/// So many of what a VM may have, and what it has.
fn of_quota(has: String, most: Option<String>) -> String {
    most.map_or_else(|| has.clone(), |most| format!("{has} of {most}"))
}

fn text(said: &Explained) -> String {
    let nic = &said.nic;
    let functions = match said.functions.as_slice() {
        [] => "none".to_owned(),
        all => all.join(", "),
    };
    let facts = Facts::new()
        .fact("client", &said.client)
        .fact("function", functions)
        .fact("NIC", format!("{}: a process of this client alone", nic.backend))
        .fact("network", nic.network.as_deref().unwrap_or("any address"))
        .fact("reach", "programs of this client, on this host");
    let mut table = Table::new(&[
        "VM",
        "ADDRESS",
        "GID",
        ">PROGRAMS",
        ">QUEUE PAIRS",
        ">REGIONS",
        ">REGISTERED",
        "MEMORY",
    ]);
    for vm in &said.vms {
        let number = |most: Option<u64>| most.map(|most| most.to_string());
        table.row([
            vm.vm.clone(),
            vm.address.map_or_else(String::new, |address| address.to_string()),
            vm.gid.map_or_else(|| "one for each program".into(), |gid| gid.to_string()),
            of_quota(vm.programs.to_string(), number(nic.programs)),
            of_quota(vm.queue_pairs.to_string(), number(nic.queue_pairs)),
            of_quota(vm.regions.to_string(), number(nic.regions)),
            of_quota(out::bytes(vm.registered_bytes), nic.memory.map(out::bytes)),
            match &vm.shared_memory {
                Some(file) => format!("stays where it is: the NIC maps {file}"),
                None => "moves into the window".into(),
            },
        ]);
    }
    let mut text = format!("{}\n{}", facts.render(), table.render());
    for hindrance in &said.hindrances {
        text += &format!("\n! {hindrance}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::client::wiring::tests::row;

    fn nic(gid: &str, queue_pairs: u32) -> RdmaRow {
        RdmaRow {
            gid: gid.parse().unwrap(),
            lid: 2,
            queue_pairs,
            regions: 1,
            pinned: false,
            registered_bytes: 1 << 20,
            connections: 0,
            wrong_keys: 7,
            dropped: 0,
        }
    }

    fn grant(vm: &str, gid: &str) -> GrantRow {
        let mut g = crate::cmd::ps::tests::grant(500);
        (g.vm, g.app, g.rdma) = (Some(vm.into()), "ib_write_bw".into(), Some(nic(gid, 3)));
        g
    }

    fn verbs() -> FunctionRow {
        let text = r#"{"id": 9, "name": "verbs", "version": "1.0", "summary": "", "locations": [],
            "driver": "built in", "kind": "verbs", "deadline_ms": 0, "max_args": 0, "max_result": 0}"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn each_program_has_a_line() {
        let mut all = [grant("one", "::ffff:10.0.0.1")];
        assert!(render(&all).contains("in the window"));
        all[0].rdma.as_mut().unwrap().pinned = true;
        let table = render(&all);
        assert!(table.contains("pinned in the VM"), "{table}");
        let line = table.lines().nth(1).unwrap();
        for cell in ["vm1/one", "ib_write_bw", "::ffff:10.0.0.1", "1 MiB", "500"] {
            assert!(line.contains(cell), "{cell}: {table}");
        }
        assert_eq!(render(&[]), "no program uses RDMA\n");
    }

    #[test]
    fn what_a_vm_has_stands_beside_what_it_may_have() {
        let mut client = row("ivshmem-doorbell", "/s", 64 << 20);
        let vm = |name: &str| vfun_admin::VmRow {
            vm: name.into(),
            window_bytes: 1 << 20,
            transport: client.transport,
            window_file: None,
            socket: None,
            connected: true,
        };
        client.vms = vec![vm("one"), vm("two")];
        client.rdma = RdmaView { queue_pairs: Some(100), ..RdmaView::default() };
        client.addresses.insert("one".into(), "10.0.0.1".parse().unwrap());
        client.shared_memory.insert("one".into(), "/dev/shm/one".into());
        let grants = [grant("one", "::ffff:10.0.0.1"), grant("one", "::ffff:10.0.0.1")];
        let said = text(&explained(&client, &[verbs()], &grants));
        assert!(said.contains("6 of 100") && said.contains("2 MiB"), "{said}");
        assert!(said.contains("! two has no address"), "{said}");
        assert!(said.contains("the NIC maps /dev/shm/one"), "{said}");
        assert!(said.contains("moves into the window"), "{said}");
        let said = text(&explained(&client, &[], &[]));
        assert!(said.contains("! no function is a NIC"), "{said}");
        client.functions = vec!["echo".into()];
        let said = text(&explained(&client, &[verbs()], &[]));
        assert!(said.contains("! the client may not use verbs"), "{said}");
    }
}
