//! What is known of ports, windows and drivers when it is decided which links there should be.

use super::PortVerdict;
use super::made::MadeWindow;
use super::plug::keeps;
use super::want::{LinkFacts, LinkPlan, Pair, PortView, WindowView};
use crate::core::catalog::{Client, VmId};
use crate::core::ports::Port;
use crate::core::{Grant, WindowId};
use crate::limits::{LINK_BAR_REST, LINKS_MAX};
use crate::rim::Daemon;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use vfun_admin::VmName;
use vfun_packet::layout::header::KNOWS;
use vfun_packet::{LinkPlace, Memory, WindowMemory};
use vfun_rim::further::HostFurther;
use vfun_wire::Handle;
use vfun_wire::handover::knows;
use vfun_wire::place::ChannelPlace;

/// Where a VM has a port.
#[derive(Clone, Copy)]
pub(super) struct PortAt {
    pub grant: Handle,
    /// The control window that its channel lies in.
    pub window: WindowId,
    pub place: ChannelPlace,
}

impl Daemon {
    /// Where the VM has a port by this grant, as long as it serves.
    pub(super) fn port_at(&self, grant: Handle) -> Option<PortAt> {
        let g: &Grant = self.rim.core.grant(grant)?;
        if !self.rim.core.may_go_to_switch(grant) {
            return None;
        }
        let window = g.holder.window;
        self.rim.windows.get(&window)?;
        Some(PortAt { grant, window, place: g.channel()? })
    }

    /// The header pages of a port.
    pub(super) fn port_pages(&self, at: &PortAt) -> Option<WindowMemory> {
        self.rim.windows.get(&at.window)?.window.port_pages(&at.place)
    }

    /// Which links there should be.
    pub(super) fn link_plan(&self) -> LinkPlan {
        let (ports, windows) = (self.link_ports(), self.link_windows());
        let links = self.links.links.values().map(|link| (link.pair.clone(), link.window));
        let resting = self.links.resting.iter().map(|(pair, (_, why))| (pair.clone(), why.clone()));
        LinkPlan::of(&LinkFacts {
            ports: &ports,
            windows: &windows,
            links: &links.collect(),
            off: &self.links.off,
            is_off_unknown: self.links.is_off_unknown,
            resting: &resting.collect(),
            none_begins: self.no_link_begins(),
        })
    }

    fn no_link_begins(&self) -> Option<&'static str> {
        if self.rim.core.draining() {
            return Some("the manager is drained: no link begins");
        }
        (self.links.links.len() >= LINKS_MAX)
            .then_some("this host has as many links as it can have (docs/limits.md)")
    }

    /// All ports that a switch with DPDK may have, by their names on the host.
    pub(super) fn link_ports(&self) -> BTreeMap<String, PortView> {
        let grants = self.grants_for_switches();
        let mut ports = BTreeMap::new();
        for (client, vm, port) in self.rim.core.catalog().dpdk_ports() {
            let grant = grants.get(&port.tap).copied();
            let view = self.link_port(client, vm, port, grant);
            ports.entry(port.tap.clone()).or_insert(view);
        }
        ports
    }

    fn link_port(&self, client: &Client, vm: &str, port: &Port, grant: Option<Handle>) -> PortView {
        let vm_name = VmName::new(&client.name, vm).to_string();
        let unheard = || {
            let unjudged = || match &port.switch {
                None => "its manifest names no bridge: write `switch = \"BRIDGE\"` for it".into(),
                Some(bridge) => {
                    format!("what bridge {bridge} does with its frames is not known yet")
                }
            };
            let is_watched = self.verdicts.is_some();
            let why = self.links.unwatched.clone().or_else(|| is_watched.then(unjudged))?;
            Some(PortVerdict::Not { why })
        };
        PortView {
            vm: VmId { client: client.id, vm: vm.to_owned() },
            client: client.name.clone(),
            rule: client.links.clone(),
            verdict: self.verdict_for_links(port).or_else(unheard),
            hindrance: self.port_hindrance(&vm_name, port, grant),
            is_reached: client.vmms.contains_key(vm),
            vm_name,
        }
    }

    /// Why a port has no link now, whatever the switch does with its frames.
    fn port_hindrance(&self, vm: &str, port: &Port, grant: Option<Handle>) -> Option<String> {
        let (name, tap) = (&port.name, &port.tap);
        let at = grant.and_then(|grant| self.port_at(grant));
        let Some(at) = at else {
            return Some(format!(
                "VM {vm} does not use its port {name}: is the VM on, its kernel module loaded, and the interface up?"
            ));
        };
        if let Some(window) = self.links.made.stuck.get(&at.window) {
            return Some(keeps(vm, window));
        }
        let window = &self.rim.windows.get(&at.window)?.window;
        if window.bells().is_none_or(|b| !b.are_a_vms()) {
            return Some(format!(
                "VM {vm} has no doorbell: links need the transport `ivshmem-doorbell`"
            ));
        }
        let Some(driver) = self.switches.driver_of(tap, at.grant) else {
            // It connects again, or its end is heard.
            if self.switches.connection_of(tap) == Some(None) {
                return None;
            }
            return Some(format!("no switch has port {tap}: `vfun port explain {vm} {name}`"));
        };
        if driver.knows & knows::LINKS == 0 {
            return Some(format!(
                "the driver of the switch that has port {tap} knows no links: install the driver of this version, and start the switch again"
            ));
        }
        let known = self.port_pages(&at)?.load(KNOWS, Ordering::Relaxed);
        (known != 1).then(|| {
            format!("the kernel module in VM {vm} knows no links: install that of this version")
        })
    }

    /// All windows that two VMs share.
    fn link_windows(&self) -> Vec<WindowView> {
        let view = |(id, d): (&WindowId, &HostFurther)| {
            let [a, b] = <&[_; 2]>::try_from(d.note().peers.as_slice()).ok()?;
            let hindrance = self.window_hindrance(*id, d);
            Some(WindowView { id: *id, vms: [a.vm_id(), b.vm_id()], hindrance })
        };
        self.rim.further.iter().filter_map(view).collect()
    }

    fn window_hindrance(&self, id: WindowId, d: &HostFurther) -> Option<String> {
        let name = &d.note().name;
        if d.pages().is_lost() || LinkPlace::largest_ring(d.note().bytes).is_none() {
            return Some(format!("window {name} has no room for a link"));
        }
        let bar = self.links.bars.get(&id);
        if bar.is_some_and(|bar| bar.let_go.is_some()) {
            return Some(format!(
                "a VM did not answer when a link in window {name} was to end: the window rests for {} s after it was unplugged",
                LINK_BAR_REST.as_secs()
            ));
        }
        if bar.is_some() {
            return Some(format!(
                "a VM did not answer when a link in window {name} was to end, and may use the window still: unplug it from the VM and plug it in again, or start the VM again"
            ));
        }
        if self.links.made.all.get(&id).is_some_and(MadeWindow::leaves) {
            return Some(format!("window {name} goes out of its VMs: another one is made then"));
        }
        let away = (0..d.note().peers.len()).find(|at| !self.is_plugged(d, *at))?;
        Some(self.why_not_plugged((id, away), d))
    }

    /// Whether one of the VMs of a window has it, as its kernel module said.
    pub(super) fn is_plugged(&self, d: &HostFurther, peer: usize) -> bool {
        let place = d.note().peers.get(peer).and_then(|p| p.place());
        place.and_then(|(of, index)| self.rim.core.further(of, index)).is_some_and(|f| f.here)
    }

    /// A VM, as people know it.
    pub(in crate::rim) fn vm_words(&self, client: u32, vm: &str) -> String {
        let client = self.rim.core.catalog().clients.get(&client);
        client.map_or_else(|| vm.to_owned(), |c| VmName::new(&c.name, vm).to_string())
    }

    /// The places of a link in a window, for its sender and for its receiver.
    pub(super) fn link_places(&self, window: WindowId, pair: &Pair) -> Option<[LinkPlace; 2]> {
        let d = self.rim.further.get(&window)?;
        let ring = LinkPlace::largest_ring(d.note().bytes)?;
        let place = |port: &str| {
            let vm = self.vm_of_port(port)?;
            let at = d.note().peers.iter().position(|p| p.vm_id() == vm)?;
            Some(LinkPlace { window: d.note().peers[at].index, ring, is_second: at == 1 })
        };
        Some([place(&pair.from)?, place(&pair.to)?])
    }

    /// The VM of a port for a switch with DPDK.
    fn vm_of_port(&self, tap: &str) -> Option<VmId> {
        let mut all = self.rim.core.catalog().dpdk_ports();
        let (client, vm, _) = all.find(|(.., port)| port.tap == tap)?;
        Some(VmId { client: client.id, vm: vm.to_owned() })
    }
}
