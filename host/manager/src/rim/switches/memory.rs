//! Which memory a switch's driver has, is to have, or had of an earlier manager.

use super::{HeldMemory, SwitchDriver};
use crate::core::ports::Port;
use crate::process::started;
use crate::rim::taps::DeclaredPort;
use crate::rim::{Daemon, Kind};
use rustix::event::epoll::EventFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use vfun_core::{AtSwitch, Event, Grant};
use vfun_rim::methods::*;
use vfun_window::fdpass;
use vfun_wire::Handle;
use vfun_wire::handover::{PortWord, word};
use vfun_wire::packets::Packets;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

impl Daemon {
    /// Bytes of the rings of a grant's memory.
    pub(super) fn ring_of(&self, grant: Handle) -> Option<u32> {
        let place = self.rim.core.grant(grant)?.channel()?;
        Some(Packets::of(&place)?.ring_bytes)
    }

    pub(super) fn switch_let_go(&mut self, id: u32, grant: Handle) {
        let Some(driver) = self.switches.drivers.get_mut(&id) else { return };
        // It had no other one: what it says of others' is not heard.
        if let Some(had) = driver.memory.take_if(|m| m.grant == grant) {
            driver.unwanted = (!had.dropped).then_some(grant);
            self.push(Event::SwitchLetGo { channel: grant });
            self.settle();
        }
    }

    /// Gives a driver the memory that it is to have, or asks for memory back.
    pub(super) fn look_after_driver(&mut self, id: u32, wanted: Option<Handle>) {
        let Some(driver) = self.switches.drivers.get(&id) else { return };
        let (Some(name), true) = (driver.port.clone(), driver.socket.is_some()) else { return };
        match (driver.memory, wanted) {
            (Some(has), Some(wanted)) if has.grant == wanted => {}
            (Some(has), _) if !has.dropped => {
                if let Some(driver) = self.switches.drivers.get_mut(&id) {
                    driver.memory = Some(HeldMemory { dropped: true, ..has });
                }
                self.tell_switch(id, &PortWord::new(word::DROP, has.grant.0));
            }
            (None, Some(wanted)) if driver.unwanted != Some(wanted) => {
                self.give_to_switch(id, wanted);
            }
            (None, None) if self.switch_port(&name).is_none() => {
                self.refuse_switch(id, &format!("the port {name} was removed"));
            }
            _ => {}
        }
    }

    /// Gives a driver a grant's memory. That it has it is noted first.
    fn give_to_switch(&mut self, id: u32, grant: Handle) {
        let Some(driver) = self.switches.drivers.get(&id) else { return };
        let Some(port) = driver.port.clone() else { return };
        let switch = AtSwitch { port, pid: driver.pid, began: driver.began };
        self.push(Event::SwitchTakes { channel: grant, switch: switch.clone() });
        self.settle();
        // What came before it may have ended the grant.
        let noted = self.rim.core.grant(grant).and_then(|g| g.at_switch.as_ref());
        if noted != Some(&switch) {
            return;
        }
        if let Some(driver) = self.switches.drivers.get_mut(&id) {
            driver.memory = Some(HeldMemory { grant, dropped: false });
        }
        self.links.changed();
        if self.send_to_switch(id, grant).is_err() {
            // It never came there.
            self.switch_let_go(id, grant);
            self.hang_up_switch(id);
        }
    }

    fn send_to_switch(&self, id: u32, grant: Handle) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let socket = self.switches.drivers.get(&id).and_then(|d| d.socket.as_ref());
        let g = self.rim.core.grant(grant).ok_or_else(gone)?;
        let window = &self.rim.windows.get(&g.holder.window).ok_or_else(gone)?.window;
        let place = g.channel().ok_or_else(gone)?;
        let at = window.port_memory(&place).ok_or_else(gone)?;
        let mut memory = PortWord::new(word::MEMORY, grant.0);
        (memory.mine, memory.theirs) = (U64::new(at.host), U64::new(at.vm));
        (memory.ring, memory.news) = (U64::new(at.ring.into()), U64::new(at.news));
        let file = window.fd();
        let mut fds = vec![file.as_fd()];
        if let Some(bells) = window.bells() {
            fds.push(bells.to_app[usize::from(place.vector_in())].as_fd());
        }
        fdpass::send(socket.ok_or_else(gone)?, memory.as_bytes(), &fds)
    }

    /// Switches that an earlier manager gave memory to are waited for: they connect again, or
    /// have ended meanwhile.
    pub(in crate::rim) fn find_switches(&mut self) {
        let at_switch = |(h, g): (Handle, &Grant)| Some((h, g.at_switch.clone()?));
        let left: Vec<_> = self.rim.core.grants().filter_map(at_switch).collect();
        for (grant, switch) in left {
            let id = self.fresh_id();
            let pid = Pid::from_raw(switch.pid as i32);
            // First the descriptor, then the look at whose it is.
            let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
            let is_same = started(switch.pid as i32) == Some(switch.began);
            let AtSwitch { port, pid, began } = switch;
            match process.filter(|_| is_same) {
                Some(process)
                    if self.watch(&process, Kind::SwitchEnd, id, EventFlags::IN).is_ok() =>
                {
                    let memory = Some(HeldMemory { grant, dropped: false });
                    let (socket, port, unwanted, knows) = (None, Some(port), None, 0);
                    let driver =
                        SwitchDriver { socket, pid, began, process, port, memory, unwanted, knows };
                    self.switches.drivers.insert(id, driver);
                }
                Some(_) => {
                    tracing::error!("switch {pid} cannot be watched: its ports keep their memory")
                }
                None => self.switch_is_gone(grant),
            }
        }
    }

    /// Nobody is left of the switch that had a grant's memory.
    pub(super) fn switch_is_gone(&mut self, grant: Handle) {
        if let Some(g) = self.rim.core.grant(grant)
            && let (Some(a), Some(place)) = (self.rim.windows.get(&g.holder.window), g.told())
        {
            a.window.switch_gone(&place);
        }
        self.push(Event::SwitchLetGo { channel: grant });
        self.settle();
    }

    /// A port for a switch with DPDK by its name on the host.
    pub(super) fn switch_port(&self, name: &str) -> Option<Port> {
        let mut all = self.rim.core.catalog().dpdk_ports();
        all.find(|(.., port)| port.tap == name).map(|(.., port)| port.clone())
    }

    /// The grants by which VMs have such ports now, once their services count for them, by
    /// the ports' names on the host.
    pub(in crate::rim) fn grants_for_switches(&self) -> BTreeMap<String, Handle> {
        let core = &self.rim.core;
        let all = core.grants().filter(|(h, g)| g.told().is_some() && core.may_go_to_switch(*h));
        all.filter_map(|(h, g)| {
            let port = core.catalog().port_of(g)?.clone();
            let (client, vm) = (g.holder.client_id, g.holder.vm.clone()?);
            let declared = DeclaredPort { client, vm, port };
            // Of two ports with one name on the host the first one has it.
            self.taps.has(&declared).then_some((declared.port.tap, h))
        })
        .collect()
    }

    /// Grants whose memory a switch was given for this port, and has not let go of.
    pub(super) fn at_switch_of(&self, name: &str) -> Vec<Handle> {
        let core = &self.rim.core;
        let of_port = |a: &AtSwitch| a.port == name;
        let all = core.grants().filter(|(_, g)| g.at_switch.as_ref().is_some_and(of_port));
        all.map(|(h, _)| h).collect()
    }
}
