//! Ports of VMs: their lines in manifests, and how they are. Their devices: [`taps`](super::taps).

use super::Daemon;
use super::switchports::devargs;
use super::taps::{DeclaredPort, advised};
use crate::admin::Reply;
use crate::admin::ports::{PortCounts, PortLines, PortRow, PortsOfClient};
use crate::core::Grant;
use crate::core::catalog::{Catalog, Client};
use crate::core::ports::{FUNCTION, Port, PortWay, built_in};
use std::io;
use std::os::fd::OwnedFd;
use vfun_admin::VmName;
use vfun_hostnet::netdev::Netdev;
use vfun_hostnet::taps::{self, Before};
use vfun_wire::Handle;

/// What a manifest says of a client's ports, with what follows from their names.
pub(super) fn lines(client: &Client) -> PortsOfClient {
    let one = |p: &Port| PortLines {
        number: Some(p.number),
        mac: Some(p.mac.to_string()),
        mtu: Some(p.mtu),
        ring: Some(p.ring_bytes.to_string()),
        way: Some(p.way.text().into()),
        tap: Some(p.tap.clone()),
        switch: p.switch.clone(),
        offloads: Some(p.offloads),
    };
    let of_vm = |all: &Vec<Port>| all.iter().map(|p| (p.name.clone(), one(p))).collect();
    client.ports.iter().map(|(vm, all)| (vm.clone(), of_vm(all))).collect()
}

/// Whether what a port's device gives and takes may be completed and cut later. That is the kernel's work, so the
/// kernel has to be the switch. An Open vSwitch with a userspace datapath passes on frames whose checksum is not
/// complete as if it were; its devices have no master. A device without a switch may be put there by somebody.
fn before_frames(port: &Port) -> Before {
    let is_bridge = |switch: &str| Netdev::of_host(switch).is_bridge();
    let kernel = port.switch.as_deref().is_some_and(is_bridge)
        || Netdev::of_host(&port.tap).master().is_some();
    if kernel && port.offloads { Before::Note } else { Before::Nothing }
}

/// A port whose frames go with offloads, and whose switch became one that knows none.
fn unfit(port: &Port) -> String {
    format!(
        "the VM sends frames that the kernel is to complete, and {} is now in no switch of the kernel: set the interface {} in the VM down and up, or run `vfun port add VM {} --offloads off`",
        port.tap, port.name, port.name
    )
}

impl Daemon {
    /// Does what the catalog says of ports, if it may be another one than at the last look.
    pub(super) fn follow_ports(&mut self) {
        self.taps.follow(self.rim.core.catalog());
    }

    /// Offers the function where a client has ports, and nowhere else.
    pub(super) fn offer_ports(&self, catalog: &mut Catalog) -> Result<(), String> {
        if catalog.clients.values().all(|c| c.ports.is_empty()) {
            catalog.functions.remove(FUNCTION);
        } else if !catalog.functions.contains_key(FUNCTION) {
            let f = built_in(self.id("function", FUNCTION)?);
            catalog.functions.insert(f.name.clone(), f);
        }
        Ok(())
    }

    /// The tap device of the port whose way into its VM is a channel. The VM is told no more than
    /// that there is none: the host's log says why.
    pub(super) fn tap_of(&self, channel: u64) -> io::Result<OwnedFd> {
        let gone = || io::Error::other("its port is not there any more");
        let core = &self.rim.core;
        let g = core.grant(Handle(channel)).ok_or_else(gone)?;
        let (port, vm) = core.catalog().port_of(g).zip(g.holder.vm.clone()).ok_or_else(gone)?;
        let declared = DeclaredPort { client: g.holder.client_id, vm, port: port.clone() };
        let opened = match self.taps.trouble_of(&declared) {
            Some(trouble) if !Netdev::of_host(&port.tap).is_tap() => Err(trouble),
            // Another port's.
            Some(trouble) if !self.taps.has(&declared) => Err(trouble),
            // It is never made here: nobody would put it into its switch.
            _ if !Netdev::of_host(&port.tap).is_tap() => Err("it is being made".into()),
            // What goes with its frames follows from its switch.
            None if !self.taps.is_placed(port) => Err("it is being put into its switch".into()),
            _ => taps::open(&port.tap, before_frames(port)).map_err(|e| advised(&port.tap, &e)),
        };
        opened.map_err(|why| {
            tracing::info!(client = %g.holder.client, "port {}: the tap device {}: {why}", port.name, port.tap);
            io::Error::other("the host has no device for this port now")
        })
    }

    /// All ports, by client, VM and number.
    pub(super) fn port_rows(&self) -> Vec<PortRow> {
        let clients = self.rim.core.catalog().clients.values();
        let mut rows: Vec<PortRow> = clients
            .flat_map(|c| c.ports.iter().map(move |(vm, all)| (c, vm, all)))
            .flat_map(|(c, vm, all)| all.iter().map(move |port| self.port_row(c, vm, port)))
            .collect();
        rows.sort_by(|a, b| (&a.client, &a.vm, a.number).cmp(&(&b.client, &b.vm, b.number)));
        rows
    }

    fn port_row(&self, client: &Client, vm: &str, port: &Port) -> PortRow {
        let core = &self.rim.core;
        let declared = DeclaredPort { client: client.id, vm: vm.to_owned(), port: port.clone() };
        let its = |g: &Grant| {
            g.holder.client_id == client.id
                && g.holder.vm.as_deref() == Some(vm)
                && core.catalog().port_of(g) == Some(port)
        };
        let grant = core.grants().filter(|(_, g)| its(g)).max_by_key(|(_, g)| g.since_ms);
        let mut windows = self.rim.windows.values();
        let at_switch = port.way == PortWay::Dpdk;
        let [agreed, would_be] =
            [Netdev::of_host(&port.tap).has_notes(), before_frames(port) == Before::Note];
        let has_it = grant.is_some();
        // A switch that has the port needs nothing more of this manager.
        let trouble = self.taps.trouble_of(&declared).filter(|_| !self.switches.has(port));
        PortRow {
            client: client.name.clone(),
            vm: vm.to_owned(),
            port: port.name.clone(),
            number: port.number,
            mac: port.mac.to_string(),
            mtu: port.mtu,
            ring_bytes: port.ring_bytes.into(),
            way: port.way.text().into(),
            tap: port.tap.clone(),
            devargs: at_switch.then(|| devargs(&self.tree.ports_socket(), &port.tap)),
            connected: at_switch.then(|| self.switches.has(port)),
            switch: port.switch.clone(),
            offloads: !at_switch && if has_it { agreed } else { would_be },
            trouble: trouble.or_else(|| self.switches.trouble_of(port)).or_else(|| {
                (has_it && !at_switch && agreed && !would_be && port.offloads).then(|| unfit(port))
            }),
            window: windows.any(|a| a.client == client.id && a.vm.as_deref() == Some(vm)),
            grant: grant.map(|(handle, _)| handle.to_string()),
            state: grant.map(|(_, g)| g.state().text().into()),
            counts: grant.and_then(|(_, g)| self.port_counts(g)),
        }
    }

    fn port_counts(&self, g: &Grant) -> Option<PortCounts> {
        let window = self.rim.windows.get(&g.holder.window)?;
        let facts = window.window.facts(&g.told()?)?;
        let [to_vm, to_vm_bytes, from_vm, from_vm_bytes, full, refused, bad, away] = facts;
        Some(PortCounts { from_vm, from_vm_bytes, to_vm, to_vm_bytes, full, refused, bad, away })
    }

    /// Gives a VM one more port, in the manifest that is kept of its client, or changes it.
    pub(super) fn add_port(
        &mut self,
        client: &str,
        vm: &str,
        name: &str,
        said: &PortLines,
    ) -> Reply {
        let used: Vec<u16> = self.ports_of(client, vm).iter().map(|p| p.number).collect();
        let mut said = said.clone();
        // So that other ports that come or go leave it in its place.
        let free = || (0..vfun_wire::limits::PORTS_MAX as u16).find(|n| !used.contains(n));
        let had = self.ports_of(client, vm).iter().find(|p| p.name == name).map(|p| p.number);
        said.number = said.number.or(had).or_else(free);
        let changed = self.change_ports(client, vm, |ports| {
            let lines = toml::Table::try_from(&said).map_err(|e| e.to_string())?;
            let port = super::clients::sub_table(ports, name)?;
            port.extend(lines);
            // That is how no switch is said.
            port.retain(|key, value| key != "switch" || value.as_str() != Some(""));
            Ok(())
        });
        match changed {
            Ok(()) => Reply::Done {
                sentence: format!("port {name} of VM {} is there", VmName::new(client, vm)),
            },
            // The line is one of a manifest that was not kept.
            Err(sentence) => match sentence.split_once(": ports: ") {
                Some((_, why)) => Reply::Error { sentence: format!("port {name}: {why}") },
                None => Reply::Error { sentence },
            },
        }
    }

    /// Takes a port away, in the manifest that is kept of its client.
    pub(super) fn remove_port(&mut self, client: &str, vm: &str, name: &str) -> Reply {
        let all: Vec<String> = self.ports_of(client, vm).iter().map(|p| p.name.clone()).collect();
        let shown = VmName::new(client, vm);
        let changed = self.change_ports(client, vm, |ports| match ports.remove(name) {
            Some(_) => Ok(()),
            None if all.is_empty() => Err(format!("VM {shown} has no ports")),
            None => Err(format!("VM {shown} has no port '{name}': it has {}", all.join(", "))),
        });
        match changed {
            Ok(()) => Reply::Done { sentence: format!("port {name} of VM {shown} is gone") },
            Err(sentence) => Reply::Error { sentence },
        }
    }

    /// No port of another client has a tap device of this one.
    pub(super) fn check_taps(&self, client: &Client) -> Result<(), String> {
        let clients = self.rim.core.catalog().clients.values().filter(|c| c.id != client.id);
        let others = clients.flat_map(|c| c.ports.values().flatten().map(move |p| (c, p)));
        for port in client.ports.values().flatten() {
            if let Some((of, other)) = others.clone().find(|(_, other)| other.tap == port.tap) {
                return Err(format!(
                    "port {}: the tap device {} is that of port {} of client {}: give this port another `tap`",
                    port.name, port.tap, other.name, of.name
                ));
            }
        }
        Ok(())
    }

    fn ports_of(&self, client: &str, vm: &str) -> &[Port] {
        let client = self.rim.core.catalog().client(client);
        client.and_then(|c| c.ports.get(vm)).map_or(&[], Vec::as_slice)
    }
}
