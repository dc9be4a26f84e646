//! Ports of the VM: network interfaces whose frames a program moves by itself.

use crate::calls::Way;
use crate::error::{Error, Result};
use crate::function::Active;
use crate::queues::Queues;
use crate::request::FunctionRequest;
use crate::session::Session;
use crate::transport::{Links, TakenLink};
use std::sync::Arc;
use vfun_ring::WindowMemory;
use vfun_wire::header::PortEntry;
use vfun_wire::limits::PORTS_MAX;
use vfun_wire::packets::{PacketsShape, RING_OFF, SIDE_OFF};

/// The function that serves ports.
const FUNCTION: &str = "ports";

/// A port of this VM, as its host names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// What its interface is called, if the kernel module makes it one.
    pub name: String,
    /// Its place in the VM's table of ports.
    pub number: u16,
    /// The address that it has on the host.
    pub mac: [u8; 6],
    /// Bytes of the longest packet behind an Ethernet header that the switch takes.
    pub mtu: u16,
    /// Bytes of each of its two rings: a power of two.
    pub ring_bytes: u32,
}

impl PortInfo {
    fn of(number: usize, entry: &PortEntry) -> Self {
        let name = entry.name.split(|b| *b == 0).next().unwrap_or_default();
        PortInfo {
            // A host may write anything there, and people read it.
            name: name.escape_ascii().to_string(),
            number: number as u16,
            mac: entry.mac,
            mtu: entry.mtu.get(),
            ring_bytes: entry.ring_bytes.get(),
        }
    }
}

/// A port that this program has; threads may share it. Dropping it gives it back, and the
/// interface of the kernel module can be set up again.
///
/// Frames come once this program has stored the longest frame that it takes in the word FRAME of
/// its side, 1 in STATE after that, and has rung (R-PRT-6). It looks for frames by itself: nothing wakes it.
///
/// Its memory is two *sides of packets* (section 16 of docs/protocol.md, and vfun_packet.h):
/// this program writes the one, and the host the other. When the port has ended, on this side
/// or the host's, private memory takes the place of both, as for [`Queues`].
pub struct Port {
    info: PortInfo,
    queues: Queues,
    memory: WindowMemory,
}

impl Port {
    /// The port, as it was when it was opened.
    pub fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Its two sides of packets: `mine` is this program's, `theirs` the host's.
    pub fn memory(&self) -> &WindowMemory {
        &self.memory
    }

    /// Rings the host, which looks at this program's ring then.
    pub fn ring(&self) {
        self.queues.ring();
    }

    /// Whether the port is this program's still.
    ///
    /// # Errors
    /// As [`Queues::check`]: the host has taken it back, or is gone.
    pub fn check(&self) -> Result<()> {
        self.queues.check()
    }

    /// Lets go of the memory, then gives the port back.
    ///
    /// # Errors
    /// The memory cannot be let go of, or the host's word: the port is given back with its session.
    pub fn close(self) -> Result<()> {
        self.queues.release().map(|_| ())
    }
}

/// One way of a direct link (section 18 of docs/protocol.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum LinkWay {
    /// To another VM.
    Out = 0,
    /// From another VM.
    In = 1,
}

/// The memory of a direct link of a port. Dropping it gives it back: let the ends of the link let go
/// first. When the link's window is unplugged, or the port has ended, private memory takes
/// its place.
///
/// Two sides of packets, as a port's ([`Port::memory`]): `mine` is this program's, `theirs` the other
/// VM's, which may write anything there. Both ways between two ports have the same memory.
pub struct PortLink {
    number: u64,
    ring_bytes: u64,
    way: LinkWay,
    /// Emptied before the module is told.
    memory: Option<WindowMemory>,
    port: LinkedPort,
}

/// The port that a link is of.
#[derive(Clone)]
struct LinkedPort {
    active: Arc<Active>,
    channel: u64,
}

impl LinkedPort {
    fn of(queues: &Queues) -> Self {
        LinkedPort { active: queues.active().clone(), channel: queues.handle() }
    }

    fn links(&self) -> Result<&dyn Links> {
        let none = Error::Unsupported("direct links of a program's port need the kernel module");
        match self.active.calls.way()? {
            Way::Queues(sides) => sides.links().ok_or(none),
            _ => Err(none),
        }
    }
}

impl PortLink {
    fn new(port: LinkedPort, way: LinkWay, taken: TakenLink) -> Self {
        let mine = taken.mine.write().expect("it was mapped for writing");
        let memory = Some(WindowMemory::of_sides(mine, taken.theirs.read()));
        PortLink { number: taken.number, ring_bytes: taken.ring_bytes, way, memory, port }
    }

    /// The link's number, which is not 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Bytes of each of its two rings: a power of two.
    pub fn ring_bytes(&self) -> u64 {
        self.ring_bytes
    }

    /// Its two sides of packets.
    pub fn memory(&self) -> &WindowMemory {
        self.memory.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for PortLink {
    fn drop(&mut self) {
        self.memory = None;
        if let Ok(links) = self.port.links() {
            links.leave(self.port.channel, self.way);
        }
    }
}

impl std::fmt::Debug for PortLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PortLink({}, {:?}, rings of {} bytes)", self.number, self.way, self.ring_bytes)
    }
}

/// Direct links: frames go past the host's switch, by memory that another VM shares. The host says
/// on its side of the port which link to use, in the words of R-LNK-2; a program that stores 1 in KNOWS
/// of its own side obeys them. It asks now and then, some 50 times a second while it has a link.
impl Port {
    /// The number of the link that is to be used now; 0: none. While the program has the memory
    /// of another one, it lets go of it.
    ///
    /// # Errors
    /// [`Error::Unsupported`]: the kernel module is an older one. As [`Port::check`].
    pub fn link_wanted(&self, way: LinkWay) -> Result<u64> {
        LinkedPort::of(&self.queues).links()?.wanted(self.queues.handle(), way)
    }

    /// Takes the memory of the link that is to be used now; `None`: there is none. What the program
    /// has of this way it gives back before.
    ///
    /// # Errors
    /// [`Error::NoWindow`]: its window is not in this VM. As [`Port::link_wanted`].
    pub fn link(&self, way: LinkWay) -> Result<Option<PortLink>> {
        let port = LinkedPort::of(&self.queues);
        let taken = port.links()?.take(port.channel, way)?;
        Ok(taken.map(|taken| PortLink::new(port, way, taken)))
    }

    /// Rings the VM that receives from the link out.
    pub fn ring_link(&self) {
        if let Ok(links) = LinkedPort::of(&self.queues).links() {
            links.ring(self.queues.handle());
        }
    }
}

impl Session {
    /// The ports of this VM, in order of their numbers. None where the session has no window.
    pub fn ports(&self) -> Vec<PortInfo> {
        let Some(window) = &self.inner().window else { return Vec::new() };
        let entries = (0..PORTS_MAX).filter_map(|n| Some((n, window.port_entry(n)?)));
        entries.map(|(n, entry)| PortInfo::of(n, &entry)).collect()
    }

    /// Takes a port by its name, or the only one that there is. Through the kernel module
    /// alone, and with CAP_NET_ADMIN in the VM's own network namespace: a program that has a
    /// port sees and sends all frames of that interface. An interface that is up has the port
    /// itself: set it down first.
    ///
    /// # Errors
    /// [`Error::BadOption`]: there is no such port, or several and no name.
    /// [`Error::Unsupported`]: no module, or no right. [`Error::Refused`]: the port is in use.
    pub fn port(&self, name: Option<&str>) -> Result<Port> {
        self.has_ports()?;
        let info = chosen(self.ports(), name)?;
        let shape = PacketsShape::new(info.ring_bytes, info.number);
        let grant = self.negotiate(&FunctionRequest::new(FUNCTION).packets(shape))?;
        // R-RNG-4: another port, or other rings, were not asked for.
        if grant.info().shape != shape.shape() {
            return Err(Error::HostNonsense("it gave another port than was asked for".into()));
        }
        let queues = grant.activate_sides()?;
        let side = SIDE_OFF..RING_OFF + info.ring_bytes as usize;
        let memory = queues.memory(side.clone(), side)?;
        Ok(Port { info, queues, memory })
    }
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Port({}, two rings of {} bytes)", self.info.name, self.info.ring_bytes)
    }
}

/// The port that is meant.
fn chosen(mut all: Vec<PortInfo>, name: Option<&str>) -> Result<PortInfo> {
    let names: Vec<_> = all.iter().map(|p| p.name.as_str()).collect();
    let there = match names[..] {
        [] => "this VM has no ports: vfun port add, on its host, gives it one".to_owned(),
        _ => format!("this VM has {}", names.join(", ")),
    };
    let wrong = match (name, names.len()) {
        (None, 2..) => format!("which port is meant must be said: {there}"),
        (None, _) => there,
        (Some(name), _) => format!("no port is called '{name}': {there}"),
    };
    match name {
        Some(name) => all.into_iter().find(|p| p.name == name),
        None => all.pop().filter(|_| all.is_empty()),
    }
    .ok_or(Error::BadOption(wrong))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::little_endian::{U16, U32, U64};

    fn port(name: &str) -> PortInfo {
        let mut entry = PortEntry { id: U64::new(7), mtu: U16::new(9000), ..PortEntry::NONE };
        entry.name[..name.len()].copy_from_slice(name.as_bytes());
        entry.ring_bytes = U32::new(1 << 21);
        PortInfo::of(3, &entry)
    }

    #[test]
    fn a_port_is_meant_by_its_name_or_because_it_is_the_only_one() {
        let (a, b) = (port("eth1"), port("eth2"));
        assert_eq!((a.number, a.mtu, a.ring_bytes), (3, 9000, 1 << 21));
        assert_eq!(chosen(vec![a.clone()], None).unwrap(), a);
        assert_eq!(chosen(vec![a.clone(), b.clone()], Some("eth2")).unwrap(), b);
        let why = |all: &[&PortInfo], name| {
            let all = all.iter().map(|p| (*p).clone()).collect();
            chosen(all, name).unwrap_err().to_string()
        };
        assert!(why(&[], None).contains("vfun port add"), "{}", why(&[], None));
        assert!(why(&[], Some("eth1")).contains("no port is called 'eth1'"));
        assert!(why(&[&a, &b], None).contains("this VM has eth1, eth2"));
        assert!(why(&[&a], Some("eth9")).contains("'eth9': this VM has eth1"));
    }
}
