//! Ports that a switch with DPDK has: its driver connects to the socket `ports.sock`, names a
//! port, and is given the port's memory for as long as the VM has the port. The messages:
//! `vfun_wire::handover`.
//!
//! A driver that has memory writes there. So the memory is nobody else's before the driver
//! has let go of it or its process has ended, whatever becomes of the connection. The core
//! keeps that with the grant, so that it holds for the next manager, too.

mod memory;

use super::{Daemon, Kind};
use crate::core::ports::{Port, PortWay};
use crate::limits::{ACCEPTS_A_TURN, PORT_DRIVERS_MAX};
use crate::process::started;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use vfun_core::Event;
use vfun_rim::methods::*;
use vfun_window::fdpass;
use vfun_wire::Handle;
use vfun_wire::handover::{ASK_MAGIC, PortAsk, PortWord, ask, word};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

/// Messages that are taken from one driver in a turn of the manager: one that asks without end
/// keeps nobody waiting.
const WORDS_A_TURN: usize = 16;

/// The drivers of switches.
pub(super) struct Switches {
    listener: Option<UnixListener>,
    drivers: BTreeMap<u32, SwitchDriver>,
    /// Who was refused before it said anything: it may not have read the reason yet, and an end
    /// with unread words would lose that.
    turned_away: VecDeque<OwnedFd>,
    /// A grant or a manifest may have changed since the last look.
    changed: bool,
    /// Why there is no socket, if there should be one.
    trouble: Option<String>,
}

impl Switches {
    /// Nobody has connected.
    pub fn new() -> Self {
        Switches {
            listener: None,
            drivers: BTreeMap::new(),
            turned_away: VecDeque::new(),
            changed: true,
            trouble: None,
        }
    }

    /// Something became of a grant, or of what manifests say.
    pub fn changed(&mut self) {
        self.changed = true;
    }

    /// The driver that has this memory of a port, if it is connected.
    pub fn driver_of(&self, port: &str, grant: Handle) -> Option<ConnectedDriver> {
        let has = |d: &&SwitchDriver| {
            let memory = d.memory.is_some_and(|m| m.grant == grant && !m.dropped);
            d.socket.is_some() && memory && d.port.as_deref() == Some(port)
        };
        let driver = self.drivers.values().find(has)?;
        Some(ConnectedDriver { pid: driver.pid, knows: driver.knows })
    }

    /// The connection of a port's driver; `Some(None)`: it has memory, and is not connected.
    pub fn connection_of(&self, port: &str) -> Option<Option<u32>> {
        let its = |d: &SwitchDriver| d.port.as_deref() == Some(port);
        let (id, driver) = self.drivers.iter().find(|(_, d)| its(d))?;
        Some(driver.socket.is_some().then_some(*id))
    }

    /// Where a driver is told something.
    pub fn socket(&self, id: u32) -> Option<&OwnedFd> {
        self.drivers.get(&id)?.socket.as_ref()
    }

    /// Whether a driver has a port.
    pub fn has(&self, port: &Port) -> bool {
        self.drivers.values().any(|d| d.socket.is_some() && d.port.as_ref() == Some(&port.tap))
    }

    /// Why no driver can connect for a port.
    pub fn trouble_of(&self, port: &Port) -> Option<String> {
        if port.way != PortWay::Dpdk {
            return None;
        }
        let mut its = self.drivers.values().filter(|d| d.port.as_ref() == Some(&port.tap));
        let gave_back = its.any(|d| d.unwanted.is_some() && d.memory.is_none());
        let why = "the switch could not use the port's memory: its log says why. It is given memory again when the VM's interface is set down and up";
        self.trouble.clone().or_else(|| gave_back.then(|| why.into()))
    }

    /// Takes one connection and hangs up, where the manager has no descriptors left.
    pub fn turn_away(&self) {
        if let Some(listener) = &self.listener {
            let _ = listener.accept();
        }
    }
}

/// One driver: a connection, or what is left of one whose process has memory still.
struct SwitchDriver {
    socket: Option<OwnedFd>,
    /// Its process, and when that began.
    pid: u32,
    began: u64,
    /// Readable once the process has ended.
    process: OwnedFd,
    /// Which port it asked for, by its name on the host.
    port: Option<String>,
    /// Memory that it has.
    memory: Option<HeldMemory>,
    /// Memory that it gave back unasked: it is not offered that once more.
    unwanted: Option<Handle>,
    /// What it knows: bits of `vfun_wire::handover::knows`.
    knows: u32,
}

/// A driver that has a port's memory and is connected.
#[derive(Clone, Copy)]
pub(in crate::rim) struct ConnectedDriver {
    pub pid: u32,
    pub knows: u32,
}

#[cfg(test)]
impl Daemon {
    /// Hears all that drivers say, as events of the system would bring it.
    pub(in crate::rim) fn hear_all_switches(&mut self) {
        self.accept_switches();
        let all: Vec<u32> = self.switches.drivers.keys().copied().collect();
        all.into_iter().for_each(|id| self.hear_switch(id));
    }
}

#[derive(Clone, Copy)]
struct HeldMemory {
    grant: Handle,
    /// It was told to let go of it.
    dropped: bool,
}

/// What reading from a driver came to.
enum DriverHeard {
    Word(PortAsk),
    Nothing,
    Ended,
}

fn hear(socket: &OwnedFd) -> DriverHeard {
    let mut bytes = [0; size_of::<PortAsk>() + 1];
    let mut read =
        || rustix::net::recv(socket, &mut bytes[..], RecvFlags::DONTWAIT).map(|(n, _)| n);
    // One that went with unread words resets the connection. It may have said something before.
    let got = match read() {
        Err(Errno::CONNRESET) => read(),
        got => got,
    };
    match got {
        Ok(n) if n == size_of::<PortAsk>() => {
            DriverHeard::Word(PortAsk::read_from_bytes(&bytes[..n]).expect("as long as it is"))
        }
        Ok(_) => DriverHeard::Ended,
        Err(Errno::AGAIN | Errno::INTR) => DriverHeard::Nothing,
        Err(_) => DriverHeard::Ended,
    }
}

/// Makes the socket, which only root and this user reach.
fn listen(path: &std::path::Path) -> io::Result<UnixListener> {
    let _ = std::fs::remove_file(path); // an earlier manager's
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, 16)?;
    Ok(socket.into())
}

impl Daemon {
    /// Sees to it that drivers can connect where a manifest has a port for them, and that
    /// each has the memory that it is to have.
    pub(super) fn look_after_switches(&mut self) {
        if !std::mem::take(&mut self.switches.changed) {
            return;
        }
        self.listen_to_switches();
        if self.switches.drivers.is_empty() {
            return;
        }
        let wanted = self.grants_for_switches();
        let named = |(id, d): (&u32, &SwitchDriver)| Some((*id, d.port.clone()?));
        for (id, name) in self.switches.drivers.iter().filter_map(named).collect::<Vec<_>>() {
            self.look_after_driver(id, wanted.get(&name).copied());
        }
    }

    fn listen_to_switches(&mut self) {
        let is_wanted = self.rim.core.catalog().dpdk_ports().next().is_some();
        if !is_wanted || self.switches.listener.is_some() {
            return;
        }
        let path = self.tree.ports_socket();
        let made = listen(&path).and_then(|listener| {
            self.watch(&listener, Kind::SwitchListener, 0, EventFlags::IN)?;
            Ok(listener)
        });
        match made {
            Ok(listener) => {
                (self.switches.listener, self.switches.trouble) = (Some(listener), None)
            }
            Err(e) => {
                let why = format!("{}: switches cannot connect: {e}", path.display());
                if self.switches.trouble.as_ref() != Some(&why) {
                    tracing::error!("{why}");
                }
                self.switches.trouble = Some(why);
            }
        }
    }

    /// A switch's driver connects.
    pub(super) fn accept_switches(&mut self) {
        for _ in 0..ACCEPTS_A_TURN {
            let Some(listener) = &self.switches.listener else { return };
            let socket = match listener.accept() {
                Ok((stream, _)) => OwnedFd::from(stream),
                Err(e) => return self.refuse_for_want_of_descriptors(&e),
            };
            if let Err(why) = self.take_switch(&socket) {
                self.turn_switch_away(socket, &why);
            }
        }
    }

    fn turn_switch_away(&mut self, socket: OwnedFd, why: &str) {
        if self.may_say("a switch") {
            tracing::info!("a switch's driver is refused: {why}");
        }
        let _ = fdpass::send(&socket, PortWord::refused(why).as_bytes(), &[]);
        let away = &mut self.switches.turned_away;
        away.push_back(socket);
        if away.len() > ACCEPTS_A_TURN {
            away.pop_front();
        }
    }

    fn take_switch(&mut self, socket: &OwnedFd) -> Result<(), String> {
        let said = |e: io::Error| e.to_string();
        let peer = sockopt::socket_peercred(socket).map_err(|e| said(e.into()))?;
        let uid = peer.uid.as_raw();
        if uid != 0 && uid != rustix::process::geteuid().as_raw() {
            return Err("only root, and the user of the manager, may have ports".into());
        }
        if self.switches.drivers.len() >= PORT_DRIVERS_MAX {
            return Err(format!(
                "{PORT_DRIVERS_MAX} switches' ports are connected, which is the most"
            ));
        }
        let unseen =
            "the manager does not see this process in /proc: run both in one PID namespace";
        let process = pidfd_open(peer.pid, PidfdFlags::empty())
            .map_err(|e| format!("{unseen} ({})", io::Error::from(e)))?;
        let (pid, socket) = (Pid::as_raw(Some(peer.pid)) as u32, socket.try_clone().map_err(said)?);
        // The next manager knows the process by this.
        let began = started(pid as i32).ok_or(unseen)?;
        rustix::io::ioctl_fionbio(&socket, true).map_err(|e| said(e.into()))?;
        let id = self.fresh_id();
        self.watch(&socket, Kind::Switch, id, EventFlags::IN | EventFlags::RDHUP).map_err(said)?;
        self.watch(&process, Kind::SwitchEnd, id, EventFlags::IN).map_err(said)?;
        let (port, memory, unwanted, knows) = (None, None, None, 0);
        let socket = Some(socket);
        let driver = SwitchDriver { socket, pid, began, process, port, memory, unwanted, knows };
        self.switches.drivers.insert(id, driver);
        Ok(())
    }

    /// A driver says something, or its connection ends.
    pub(super) fn hear_switch(&mut self, id: u32) {
        for _ in 0..WORDS_A_TURN {
            let Some(socket) = self.switches.drivers.get(&id).and_then(|d| d.socket.as_ref())
            else {
                return;
            };
            match hear(socket) {
                DriverHeard::Nothing => return,
                DriverHeard::Ended => return self.hang_up_switch(id),
                DriverHeard::Word(said) => {
                    if let Err(why) = self.switch_says(id, &said) {
                        self.refuse_switch(id, &why);
                        return;
                    }
                }
            }
        }
    }

    fn switch_says(&mut self, id: u32, said: &PortAsk) -> Result<(), String> {
        let handle = said.handle.get();
        if said.magic.get() != ASK_MAGIC {
            return Err("this is no message of a driver of this version".into());
        }
        match said.kind.get() {
            ask::WANT => self.switch_wants(id, said, Handle(handle))?,
            ask::LET_GO => self.switch_let_go(id, Handle(handle)),
            ask::ALLOWED | ask::FORCED | ask::UNLINKED => {
                self.switch_says_of_link(id, said);
                return Ok(());
            }
            ask::GOODBYE => {
                // Memory that was on its way never came there.
                if let Some(has) = self.switches.drivers.get(&id).and_then(|d| d.memory) {
                    self.switch_let_go(id, has.grant);
                }
                self.hang_up_switch(id);
                return Ok(());
            }
            other => return Err(format!("a message of kind {other} is not known")),
        }
        let name = self.switches.drivers.get(&id).and_then(|d| d.port.as_ref());
        let wanted = name.and_then(|name| self.grants_for_switches().get(name).copied());
        self.look_after_driver(id, wanted);
        Ok(())
    }

    /// A driver names its port, and memory that it has of it from an earlier connection.
    fn switch_wants(&mut self, id: u32, said: &PortAsk, has: Handle) -> Result<(), String> {
        let name = said.name().unwrap_or_default().to_owned();
        let at_switch = self.at_switch_of(&name);
        // Who has memory of a port that was removed is to let go of it first.
        let had = at_switch.iter().find(|g| **g == has).and_then(|g| self.ring_of(*g));
        let Some(ring) = self.switch_port(&name).map(|p| p.ring_bytes).or(had) else {
            return Err(format!(
                "no port has the name '{name}' on this host and is for a switch with DPDK: `vfun port list` shows them"
            ));
        };
        let Some(driver) = self.switches.drivers.get(&id) else { return Ok(()) };
        if driver.port.is_some() {
            return Err("it has asked already".into());
        }
        let pid = driver.pid;
        self.make_room_for_switch(id, pid, &name)?;
        // Whatever else a switch had of this port, this one says that it has not.
        for grant in at_switch.iter().copied().filter(|g| *g != has) {
            self.push(Event::SwitchLetGo { channel: grant });
        }
        self.settle();
        let Some(driver) = self.switches.drivers.get_mut(&id) else { return Ok(()) };
        driver.port = Some(name);
        driver.knows = said.knows.get();
        let is_its = at_switch.contains(&has);
        driver.memory = is_its.then_some(HeldMemory { grant: has, dropped: false });
        let mut welcome = PortWord::new(word::WELCOME, 0);
        welcome.ring = U64::new(ring.into());
        self.tell_switch(id, &welcome);
        if has.0 != 0 && !is_its {
            // It is of another manager's time, or nobody's.
            self.tell_switch(id, &PortWord::new(word::DROP, has.0));
        }
        Ok(())
    }

    /// A port has one driver. One that connects anew takes its own place, once its old
    /// connection has ended.
    fn make_room_for_switch(&mut self, id: u32, pid: u32, name: &str) -> Result<(), String> {
        let is_other = |n: &u32, d: &SwitchDriver| *n != id && d.port.as_deref() == Some(name);
        let drivers = self.switches.drivers.iter();
        let others: Vec<u32> = drivers.filter(|(n, d)| is_other(n, d)).map(|(n, _)| *n).collect();
        // Their last words may not have been heard yet.
        others.iter().for_each(|other| self.hear_switch(*other));
        for (n, other) in &self.switches.drivers {
            if is_other(n, other) && (other.pid != pid || other.socket.is_some()) {
                return Err(format!(
                    "process {} has the port {name}: a port has one switch",
                    other.pid
                ));
            }
        }
        self.switches.drivers.retain(|n, d| !is_other(n, d));
        Ok(())
    }

    pub(super) fn tell_switch(&mut self, id: u32, said: &PortWord) {
        let socket = self.switches.drivers.get(&id).and_then(|d| d.socket.as_ref());
        if socket.is_some_and(|socket| fdpass::send(socket, said.as_bytes(), &[]).is_err()) {
            self.hang_up_switch(id);
        }
    }

    /// Says why, and hangs up.
    fn refuse_switch(&mut self, id: u32, why: &str) {
        if self.may_say("a switch") {
            tracing::info!("a switch's driver is refused: {why}");
        }
        self.tell_switch(id, &PortWord::refused(why));
        self.hang_up_switch(id);
    }

    /// A connection ends. Who has memory still is waited for: it connects again, or ends.
    pub(super) fn hang_up_switch(&mut self, id: u32) {
        self.links.changed();
        let Some(driver) = self.switches.drivers.get_mut(&id) else { return };
        if let Some(socket) = driver.socket.take() {
            let _ = epoll::delete(&self.epoll, socket);
        }
        if driver.memory.is_none() {
            self.switches.drivers.remove(&id);
        }
    }

    /// A driver's process has ended: nobody is left who would touch its memory.
    pub(super) fn switch_ended(&mut self, id: u32) {
        let Some(driver) = self.switches.drivers.remove(&id) else { return };
        self.links.changed();
        let _ = epoll::delete(&self.epoll, &driver.process);
        if let Some(memory) = driver.memory {
            self.switch_is_gone(memory.grant);
        }
    }
}
