//! The ports of the VMs' paravirtual NICs on the host: packets at their taps are counted, and
//! what they enforce is looked at. One thread does both.

mod filters;

use crate::heard::{Heard, Hearing};
use crate::limits::{COUNT, LOOK_AT_FILTERS};
use crate::netdev::Netdev;
use crate::places::Places;
use crate::switch::Switch;
use filters::Rules;
pub use filters::iptables;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use vfun_admin::VmName;
use vfun_nics::Event;
use vfun_nics::declared::{Source, Vm};

/// A VM's port.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    pub name: VmName,
    pub tap: String,
    pub bridge: String,
    pub vlan: Option<u16>,
    pub rate_mbit: Option<u32>,
    /// The Open vSwitch that its bridge is of, if its VFs are ports of one.
    pub switch: Option<Switch>,
}

impl Port {
    /// `source`: of its pool.
    pub fn new(name: &VmName, vm: &Vm, source: Option<&Source>) -> Self {
        let switch = match source {
            Some(Source::VhostUser { switch, .. }) => Some(Switch::new(switch.clone())),
            _ => None,
        };
        Port {
            name: name.clone(),
            tap: vm.tap.clone(),
            bridge: vm.bridge.clone(),
            vlan: vm.vlan,
            rate_mbit: vm.rate_mbit,
            switch,
        }
    }
}

/// The ports that are watched.
#[derive(Clone, Default)]
pub struct Ports(Arc<Mutex<Vec<Port>>>);

impl Ports {
    /// Watches these from now on.
    pub fn set(&self, ports: Vec<Port>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ports;
    }

    fn get(&self) -> Vec<Port> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts the thread.
    pub fn watch(&self, places: Places, hearing: Hearing) -> std::io::Result<()> {
        let ports = self.clone();
        std::thread::Builder::new()
            .name("ports".into())
            .spawn(move || ports.run(&places, &hearing))?;
        Ok(())
    }

    fn run(&self, places: &Places, hearing: &Hearing) {
        let mut looked: Option<(Instant, Vec<Port>)> = None;
        loop {
            let ports = self.get();
            let count =
                |p: &Port| Some((p.name.clone(), Netdev::new(&places.sys, &p.tap).packets()?));
            if !hearing.tell(Heard::TapPackets(ports.iter().filter_map(count).collect())) {
                return;
            }
            let over = |(at, of): &(Instant, _)| at.elapsed() >= LOOK_AT_FILTERS || *of != ports;
            if looked.as_ref().is_none_or(over) && !ports.is_empty() {
                let rules = Rules::read(&ports);
                for port in &ports {
                    let found = rules.of(port, places);
                    hearing.tell(Heard::Event(Event::Filters(port.name.clone(), found)));
                }
                looked = Some((Instant::now(), ports));
            }
            std::thread::sleep(COUNT);
        }
    }
}
