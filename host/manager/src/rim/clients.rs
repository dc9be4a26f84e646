//! Clients and their VMs come and go, and are shown.

use super::answers::Noted;
use super::shared_memory::shared_memory;
use super::{Daemon, wiring};
use super::{ports, rdma};
use crate::admin::links::LinksOfClient;
use crate::admin::{ClientRow, Reply, VmRow};
use crate::core::Event;
use crate::core::catalog::{Client, ClientKind, OverTcp, VmOf};
use crate::manifest;
use std::path::Path;
use vfun_admin::{Transport, VmName};
use vfun_rim::methods::*;
use vfun_wire::names;

/// The name that a manifest is kept under, of a client.
fn file_name(client: &str) -> String {
    format!("{client}.toml")
}

fn no_client(name: &str) -> String {
    format!("there is no client '{name}': `vfun client list` shows them")
}

/// A table inside of another one, made if it is not there.
pub(super) fn sub_table<'a>(
    table: &'a mut toml::Table,
    key: &str,
) -> Result<&'a mut toml::Table, String> {
    let value = table.entry(key).or_insert_with(|| toml::Table::new().into());
    value.as_table_mut().ok_or_else(|| format!("`{key}` of the manifest is no table"))
}

/// Refuses a declaration that would wire what is there in another way: whoever has a
/// window would keep it as it was.
fn wired_as_before(old: &Client, new: &Client) -> Result<(), String> {
    let programs = old.kind == ClientKind::Host && old.window_bytes != new.window_bytes;
    if old.kind != new.kind || programs {
        return Err(format!(
            "client '{}' exists with another window, kind or transport: remove it first (its VM must be off)",
            old.name
        ));
    }
    let other = |vm: &VmOf<'_>| new.vm(&vm.vm.name).is_some_and(|n| n.vm != vm.vm);
    match old.vms_of().find(other).map(|vm| vm.name()) {
        None => Ok(()),
        Some(vm) if old.vms.len() == 1 && vm.is_main() => Err(format!(
            "client '{vm}' exists with another window, kind or transport: remove it first (its VM must be off)"
        )),
        Some(vm) => Err(format!(
            "VM {vm} exists with another window or transport: turn it off and remove it first, `vfun client remove {} --vm {}`",
            vm.client, vm.vm
        )),
    }
}

impl Daemon {
    pub(super) fn client_row(&self, c: &Client) -> ClientRow {
        let vms: Vec<VmRow> = c.vms_of().map(|vm| self.vm_row(vm)).collect();
        let row = ClientRow {
            id: c.id,
            name: c.name.clone(),
            kind: c.kind.name().into(),
            vm: None,
            window_bytes: c.window_bytes,
            transport: Transport::Host,
            window_file: None,
            socket: None,
            connected: false,
            vms,
            functions: c.functions.clone(),
            max_grants: c.max_grants,
            tcp: c.tcp != OverTcp::Nobody,
            tcp_open: c.tcp == OverTcp::Open,
            credential: c.credential_sha256.is_some(),
            tokens: self.rim.core.catalog().policy.client(&c.name).tokens,
            tokens_valid: self.tokens_valid(c.id),
            rdma: rdma::view(&c.rdma),
            links: LinksOfClient { off: !c.links.on, with: c.links.with.clone() },
            addresses: c.addresses.clone(),
            shared_memory: shared_memory(c),
            vmms: c.vmms.clone(),
            ports: ports::lines(c),
        };
        match row.vms.first() {
            Some(vm) => row.of_vm(vm),
            None => row,
        }
    }

    fn vm_row(&self, vm: VmOf<'_>) -> VmRow {
        let place = wiring::of(vm.vm.transport).describe(self, vm);
        VmRow {
            vm: vm.vm.name.clone(),
            window_bytes: vm.vm.window_bytes,
            transport: vm.vm.transport,
            window_file: place.window_file,
            socket: place.socket,
            connected: place.connected,
        }
    }

    /// The client that is to be declared, if an earlier one of its name left modules.
    pub(super) fn left_by_another(&self, text: &str, file: &Path) -> Option<Client> {
        let client = manifest::client(file, text, 0).ok()?;
        if self.rim.core.catalog().client(&client.name).is_some() || !self.has_modules(&client.name)
        {
            return None;
        }
        let id = self.id("client", &client.name).ok()?;
        (!self.is_leaving(id)).then_some(Client { id, ..client })
    }

    pub(super) fn add_client(&mut self, text: &str, file: &Path) -> Reply {
        match self.declare(text, file) {
            Ok(row) => Reply::ClientAdded(row),
            Err(sentence) => Reply::Error { sentence },
        }
    }

    /// Declares a client: what its manifest says of VMs that are there stays as it is, those
    /// that are new get what they need, and those that it does not name any more end.
    fn declare(&mut self, text: &str, file: &Path) -> Result<ClientRow, String> {
        let client = manifest::client(file, text, 0).map_err(|e| e.to_string())?;
        let old = self.rim.core.catalog().client(&client.name).cloned();
        if let Some(old) = &old {
            wired_as_before(old, &client)?;
        }
        let client = Client { id: self.id("client", &client.name)?, ..client };
        if self.is_leaving(client.id) {
            return Err(format!(
                "what an earlier client '{}' submitted is still being removed: try again",
                client.name
            ));
        }
        self.check_taps(&client)?;
        // Windows first: a VM without one is not declared.
        let made = self.prepare_all(&client)?;
        let path = self.tree.clients().join(file_name(&client.name));
        if let Err(e) = self.write_manifest(path, text) {
            made.into_iter().for_each(|vm| self.end_vm(vm));
            return Err(e);
        }
        let gone = |vm: &VmOf<'_>| client.vm(&vm.vm.name).is_none();
        let gone = old.iter().flat_map(Client::vms_of).filter(gone);
        gone.for_each(|vm| self.end_vm(vm));
        let row = self.client_row(&client);
        let mut catalog = self.rim.core.catalog().clone();
        catalog.clients.insert(client.id, client);
        self.offer_ports(&mut catalog)?;
        self.hand_over_tokens(&mut catalog);
        self.rim.events.push_back(Event::Catalog(catalog));
        Ok(row)
    }

    /// Gives each VM of a client what it needs and has not; says which these were. If one
    /// cannot be given it, none is. One whose window is down gets it when its time has
    /// come: services may still let go of the one before, and its trouble is no other VM's.
    fn prepare_all<'a>(&mut self, client: &'a Client) -> Result<Vec<VmOf<'a>>, String> {
        let mut made = vec![];
        for vm in client.vms_of() {
            let wiring = wiring::of(vm.vm.transport);
            if wiring.prepared(self, vm) || self.is_down(vm) {
                continue;
            }
            if let Err(e) = wiring.prepare(self, vm) {
                made.into_iter().for_each(|vm| self.end_vm(vm));
                return Err(e);
            }
            made.push(vm);
        }
        Ok(made)
    }

    /// Ends a VM's windows, with what is granted in them, and takes its wiring back.
    fn end_vm(&mut self, vm: VmOf<'_>) {
        for id in self.windows_of(vm) {
            self.end_window(id);
        }
        self.forget_down(vm);
        wiring::of(vm.vm.transport).remove(self, vm);
    }

    fn end_window(&mut self, id: crate::core::WindowId) {
        if let Some(w) = self.rim.windows.get(&id) {
            w.window.set_state(vfun_wire::header::host_state::ENDED);
        }
        self.window_gone(id);
    }

    /// Gives a client one more VM, in the manifest that is kept of it.
    pub(super) fn add_vm(
        &mut self,
        client: &str,
        vm: &str,
        window: Option<String>,
        transport: Option<String>,
    ) -> Reply {
        let added = names::check(vm).map_err(|e| format!("the name of a VM, '{vm}': {e}"));
        let added = added.and_then(|()| {
            self.change_vms(client, |vms| {
                let keys = [("window", window), ("transport", transport)];
                let keys = keys.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v?.into())));
                let own = vms.entry(vm).or_insert_with(|| toml::Table::new().into());
                if let Some(own) = own.as_table_mut() {
                    own.extend(keys);
                }
                Ok(())
            })
        });
        match added.and_then(|row| row.meant(Some(vm)).map_err(|_| "it is not there".into())) {
            Ok(row) => Reply::ClientAdded(row),
            Err(sentence) => Reply::Error { sentence },
        }
    }

    /// Takes a VM away, in the manifest that is kept of its client.
    pub(super) fn remove_vm(&mut self, client: &str, vm: &str) -> Reply {
        let name = VmName::new(client, vm);
        let removed = self.change_vms(client, |vms| {
            let all: Vec<String> =
                vms.keys().map(|vm| VmName::new(client, vm).to_string()).collect();
            match (vms.remove(vm), vms.is_empty()) {
                (None, _) => Err(format!(
                    "client '{client}' has no VM '{vm}': it has {}",
                    all.join(", ")
                )),
                (Some(_), true) => Err(format!(
                    "'{vm}' is the only VM of client '{client}': `vfun client remove {client}` removes both"
                )),
                (Some(_), false) => Ok(()),
            }
        });
        match removed {
            Ok(_) => {
                let sentence = format!("VM {name} is gone, with its grants and its window");
                Reply::Done { sentence }
            }
            Err(sentence) => Reply::Error { sentence },
        }
    }

    /// Changes the VMs of a client, and declares it anew.
    fn change_vms(
        &mut self,
        client: &str,
        change: impl FnOnce(&mut toml::Table) -> Result<(), String>,
    ) -> Result<ClientRow, String> {
        let known = self.rim.core.catalog().client(client).ok_or_else(|| no_client(client))?;
        if known.kind == ClientKind::Host {
            return Err(format!(
                "client '{client}' is of kind \"host\": its programs run on this host, it has no VMs"
            ));
        }
        self.change_manifest(client, |table| {
            let own = ["nics", "address", "shared_memory", "qmp", "libvirt", "ports"];
            let own = own.map(|key| Some((key.to_owned(), table.remove(key)?)));
            let vms = sub_table(table, "vm")?;
            if vms.is_empty() {
                // The VM of a manifest that names none.
                let own: toml::Table = own.into_iter().flatten().collect();
                vms.insert(client.to_owned(), own.into());
            }
            change(vms)
        })
    }

    /// Changes the ports of a VM, and declares its client anew.
    pub(super) fn change_ports(
        &mut self,
        client: &str,
        vm: &str,
        change: impl FnOnce(&mut toml::Table) -> Result<(), String>,
    ) -> Result<(), String> {
        let known = self.rim.core.catalog().client(client).ok_or_else(|| no_client(client))?;
        if known.vm(vm).is_none() {
            return Err(format!("client '{client}' has no VM '{vm}'"));
        }
        let changed = self.change_manifest(client, |table| {
            let named =
                table.get("vm").and_then(|vms| vms.as_table()).is_some_and(|t| !t.is_empty());
            let of = match named {
                true => sub_table(sub_table(table, "vm")?, vm)?,
                false => table,
            };
            let ports = sub_table(of, "ports")?;
            change(ports)?;
            if ports.is_empty() {
                of.remove("ports");
            }
            Ok(())
        });
        changed.map(drop)
    }

    /// Changes the manifest that is kept of a client, and declares it anew.
    fn change_manifest(
        &mut self,
        client: &str,
        change: impl FnOnce(&mut toml::Table) -> Result<(), String>,
    ) -> Result<ClientRow, String> {
        let file = self.tree.clients().join(file_name(client));
        let of_file = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
        let text = std::fs::read_to_string(&file).map_err(|e| of_file(&e))?;
        let mut table: toml::Table = text.parse().map_err(|e| of_file(&e))?;
        change(&mut table)?;
        self.declare(&table.to_string(), &file)
    }

    /// Answered when nothing is left of what it submitted.
    pub(super) fn remove_client(
        &mut self,
        noted: Noted,
        name: &str,
    ) -> Result<(), (Noted, String)> {
        if name == "host" {
            let why = "the client 'host' always exists: programs on this host that name no other act for it. What it may use is bounded by [client.host] of the policy (`vfun policy set`)";
            return Err((noted, why.into()));
        }
        let Some(client) = self.rim.core.catalog().client(name).cloned() else {
            return Err((noted, no_client(name)));
        };
        let windows = self.rim.windows.iter();
        let windows = windows.filter(|(_, w)| w.client == client.id).map(|(id, _)| *id);
        for id in windows.collect::<Vec<_>>() {
            self.end_window(id);
        }
        let mut catalog = self.rim.core.catalog().clone();
        catalog.clients.remove(&client.id);
        catalog.submitted.remove(&client.id);
        // Another client of the same name is not this one.
        let tokens = self.tokens.forget(name);
        self.hand_over_tokens(&mut catalog);
        if let Err(e) = self.offer_ports(&mut catalog) {
            tracing::warn!("the function ports: {e}");
        }
        let _ = std::fs::remove_file(self.tree.clients().join(file_name(name)));
        client.vms_of().for_each(|vm| self.end_vm(vm));
        self.rim.events.push_back(Event::Catalog(catalog));
        let gone = match client.vms.len() {
            0 | 1 => format!("client {name} is gone, with its grants and its window"),
            n => format!("client {name} is gone, with its grants and its {n} VMs' windows"),
        };
        let sentence = match tokens {
            Ok(0) => gone,
            Ok(n) => format!("{gone}, and {n} tokens"),
            Err(e) => format!("{gone}; its tokens are still there: {e}"),
        };
        self.settle();
        self.forget_submitted(client.id, name, noted, sentence);
        Ok(())
    }
}
