//! Network VFs: the manager passes on what the agents in VMs and the process that lends
//! VFs (`vfun-nics`) say to each other. Both say what is, so that a state which was not
//! passed on gives way to a newer one.
//!
//! - [`agents`]: what is known of them.

mod agents;

use super::helpers::Helper;
use super::packets::{HelperSaid, ToHelper, Untold, hear};
use super::room::Room;
use super::{Daemon, Kind};
use crate::core::catalog::Client;
use crate::core::limits::{HELPER_HANGS_MS, ORDERS_A_TURN, VM_STATES_A_TURN};
use crate::core::{GrantRecord, ServiceId};
use agents::Agents;
use rustix::event::epoll;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::time::Duration;
use vfun_admin::VmName;
use vfun_bond::Report;
use vfun_nics::declared::Vm;
use vfun_nics::relay::{PACKET_BYTES, Packet};
use vfun_rim::methods::*;
use vfun_rim::tell::ServiceMessage;
use vfun_supervise::ToService;
use vfun_wire::Handle;

/// What the helper is called, for messages.
const WHAT: &str = "process that lends network VFs";

/// The manager's part in lending network VFs.
pub(super) struct NicsRelay {
    agents: Agents,
    /// Channels of the function `bond` of which something may have changed.
    changed: BTreeSet<Handle>,
    /// What manifests declare may have changed.
    catalog_changed: bool,
    /// The socket to the process, while it runs.
    socket: Option<OwnedFd>,
    room: Room,
}

impl NicsRelay {
    /// Nothing is known yet.
    pub fn new() -> Self {
        let (agents, changed) = (Agents::new(), BTreeSet::new());
        NicsRelay { agents, changed, catalog_changed: true, socket: None, room: Room::default() }
    }

    /// The manifests changed.
    pub fn catalog_changed(&mut self) {
        self.catalog_changed = true;
    }

    /// Something became of a grant. A service that opened its channel knows no order, also
    /// where it is the process in the place of one that ended, by the same number.
    pub fn changed(&mut self, g: &GrantRecord) {
        if g.function == vfun_bond::FUNCTION {
            self.changed.insert(g.grant);
            self.agents.opened_anew(g.grant);
        }
    }
}

impl Untold for Agents {
    type Word = Packet;
    fn next(&mut self, now: u64) -> Option<Packet> {
        Agents::next(self, now)
    }
    fn told(&mut self, now: u64, word: &Packet) {
        self.sent(now, word);
    }
}

/// How VMs compete, by their clients' manifests.
fn declared(catalog: &crate::core::Catalog) -> BTreeMap<VmName, Vm> {
    let of_client = |c: &Client| {
        let name = c.name.clone();
        c.nics.clone().into_iter().map(move |(vm, nics)| (VmName::new(&name, &vm), nics))
    };
    catalog.clients.values().flat_map(of_client).collect()
}

impl Daemon {
    /// The process that lends VFs, to be started.
    pub(super) fn nics_helper(&self) -> Helper {
        let root = self.config.root.clone();
        let arguments = vec!["--root".into(), root.into()];
        Helper::with_packets(WHAT, &self.config.nics_program, arguments, Kind::NicsSocket)
    }

    /// What another manager left is looked at.
    pub(super) fn find_agents(&mut self) {
        let channels: Vec<Handle> = self.rim.core.agents().map(|(channel, _)| channel).collect();
        if let Some(nics) = &mut self.nics {
            nics.changed.extend(channels);
        }
    }

    /// The process was started, with this socket, which is listened to.
    pub(super) fn nics_started(&mut self, socket: OwnedFd) {
        let catalog = self.rim.core.catalog();
        let vms: Vec<_> =
            catalog.clients.values().flat_map(Client::vms_of).map(|vm| vm.name()).collect();
        if let Some(nics) = &mut self.nics {
            nics.agents.tell_all(vms.into_iter());
            nics.socket = Some(socket);
            nics.room = Room::default();
        }
    }

    /// The process is gone. Agents keep the orders that they have.
    pub(super) fn nics_ended(&mut self) {
        if let Some(socket) = self.nics.as_mut().and_then(|nics| nics.socket.take()) {
            let _ = epoll::delete(&self.epoll, socket);
        }
    }

    /// Its socket has something to say, or room again.
    pub(super) fn hear_nics(&mut self) {
        let Some(nics) = &mut self.nics else { return };
        nics.room.try_again();
        for _ in 0..ORDERS_A_TURN {
            let Some(socket) = &nics.socket else { return };
            let why = match hear(socket, PACKET_BYTES, "order") {
                HelperSaid::Word(said) => nics.agents.order(said).err(),
                HelperSaid::Nothing => return,
                HelperSaid::Broken(why) => Some(why),
            };
            if let Some(why) = why {
                return self.nics_broken(&why);
            }
        }
    }

    /// It speaks nonsense, or hears nothing for too long: it is ended, and started again.
    fn nics_broken(&mut self, why: &str) {
        tracing::error!("the {WHAT} is ended: {why}");
        self.nics_ended();
        self.kill_helper(&self.config.nics_program.clone());
    }

    /// A service says what an agent reported.
    pub(super) fn bond_told(&mut self, service: ServiceId, channel: Handle, report: Report) {
        self.see_agents();
        let now = self.now();
        let Some(nics) = &mut self.nics else { return };
        if let Err(why) = nics.agents.report(now, (service, channel), report)
            && self.may_say(&format!("service {service}"))
        {
            tracing::warn!("a report that service {service} passed on is ignored: {why}");
        }
    }

    fn see_agents(&mut self) {
        let Some(nics) = &mut self.nics else { return };
        if std::mem::take(&mut nics.catalog_changed) {
            nics.agents.declare(declared(self.rim.core.catalog()));
        }
        for channel in std::mem::take(&mut nics.changed) {
            nics.agents.see(channel, self.rim.core.agent(channel));
        }
    }

    /// Passes on what changed, both ways.
    pub(super) fn look_after_nics(&mut self) {
        self.see_agents();
        let Some(nics) = &mut self.nics else { return };
        for (service, channel, order) in nics.agents.orders() {
            let word = ToService::Order { channel: channel.0, order };
            self.tell(service, ServiceMessage::Plain(word));
        }
        if let Err(e) = self.pass_states_on() {
            return self.nics_broken(&format!("its socket failed: {e}"));
        }
        let now = self.now();
        if self.nics.as_ref().is_some_and(|nics| nics.socket.is_some() && nics.room.hangs(now)) {
            let s = HELPER_HANGS_MS / 1000;
            self.nics_broken(&format!("for {s} s it took nothing of what it was told"));
        }
    }

    fn pass_states_on(&mut self) -> Result<(), Errno> {
        let now = self.now();
        let Some(nics) = &mut self.nics else { return Ok(()) };
        let Some(socket) = nics.socket.as_ref().filter(|_| !nics.room.is_full()) else {
            return Ok(());
        };
        let to =
            ToHelper { socket, room: &mut nics.room, epoll: &self.epoll, kind: Kind::NicsSocket };
        to.pass_on(&mut nics.agents, VM_STATES_A_TURN, now)
    }

    /// How long until a VM's state may be passed on, or a process that does not hear hangs.
    pub(super) fn nics_patience(&mut self) -> Option<Duration> {
        let now = self.now();
        let nics = self.nics.as_mut().filter(|nics| nics.socket.is_some())?;
        if !nics.changed.is_empty() || nics.catalog_changed {
            return Some(Duration::ZERO);
        }
        let hangs = nics.room.patience(now);
        let states = (!nics.room.is_full()).then(|| nics.agents.patience(now)).flatten();
        [hangs, states].into_iter().flatten().min().map(Duration::from_millis)
    }

    /// What people are told who ask how the manager is.
    pub(super) fn nics_trouble(&self) -> Option<String> {
        let nics = self.nics.as_ref()?;
        if let Some(ms) = nics.socket.as_ref().and_then(|_| nics.room.stuck(self.now())) {
            return Some(format!(
                "the process that lends network VFs (vfun-nics) has heard nothing for {} s: VMs keep the VFs that they have; after {} s it is ended and started again",
                ms / 1000,
                HELPER_HANGS_MS / 1000
            ));
        }
        let stopped = !self.helper_runs(&self.config.nics_program);
        stopped.then(|| {
            "the process that lends network VFs (vfun-nics) does not run: VMs keep the VFs that they have, and it is started again; the manager's log says why it ended".to_owned()
        })
    }
}
