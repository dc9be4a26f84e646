//! All parts of a manager that links have, with everybody else in this process: two VMs, their
//! QEMUs' ends, and the driver of a switch.

mod flows;

use super::notes::LinkNote;
use super::*;
use crate::core::catalog::Catalog;
use crate::core::{Action, ControlRequest, Event, ReplyTo};
use crate::window::{Bells, HostWindow};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use vfun_admin::Transport;
use vfun_admin::links::LinkRow;
use vfun_links::passed::Passed;
use vfun_packet::layout::header::{IN_PLACE, LINK_IN, LINK_OUT, OUT_BELL, OUT_PLACE, SENT};
use vfun_packet::{
    Closer, Fence, LinkPlace, LinkedReceiver, LinkedSender, Memory, Ring, Sender, WindowMemory,
};
use vfun_rim::methods::*;
use vfun_window::{Access, Mapping, WriteSpan, fdpass, memfd};
use vfun_wire::Handle;
use vfun_wire::handover::{ASK_MAGIC, PortAsk, PortWord, ask, knows, word};
use vfun_wire::kind::ChannelKind;
use vfun_wire::limits::CREDENTIAL_BYTES;
use vfun_wire::message::{Hello, HelloAck, Kind, Negotiate, NegotiateAck, WindowHere};
use vfun_wire::names;
use vfun_wire::packets::PacketsShape;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

mod by_itself;

const WINDOW_BYTES: u64 = 16 << 20;
const RING: u32 = 64 << 10;
const CLIENT: &str = "name = \"web\"\n\
    [vm.a.ports.eth1]\nway = \"dpdk\"\ntap = \"a1\"\nswitch = \"br0\"\nring = \"64 KiB\"\n\
    [vm.b.ports.eth1]\nway = \"dpdk\"\ntap = \"b1\"\nswitch = \"br0\"\nring = \"64 KiB\"\n";
const SHARED: &str = "name = \"pair\"\npeers = [\"web/a\", \"web/b\"]\nbytes = \"1 MiB\"\n";

/// A VM: this test has its pages.
struct VmPlayed {
    window: WindowId,
    qemu: UnixStream,
    tx: LinkedSender<WindowMemory>,
    rx: LinkedReceiver<WindowMemory>,
    is_stopped: bool,
}

/// The driver of a switch that has both ports.
struct DriverPlayed {
    sockets: [OwnedFd; 2],
    fence: Fence<WindowMemory, WindowMemory>,
    to_b: Sender<WindowMemory>,
    closer: Option<Closer<WindowMemory>>,
    forcing: Option<(u64, u64)>,
    queue: VecDeque<([u8; 60], u64)>,
    /// What the manager said of links: kind, number, epoch.
    heard: Vec<(u32, u64, u64)>,
}

struct Rig {
    m: Daemon,
    vms: [VmPlayed; 2],
    driver: DriverPlayed,
    seq: u32,
    sent: u64,
    /// Those of them that went past the switch.
    direct: u64,
    got: u64,
    _dir: tempfile::TempDir,
}

fn feed(m: &mut Daemon, event: Event) -> Vec<Action> {
    let (mut out, now) = (vec![], m.now());
    m.rim.core.handle(now, event, &mut out);
    out
}

fn asked(m: &mut Daemon, seq: u32, at: (WindowId, u64), kind: Kind, body: &[u8]) -> Vec<Action> {
    let (window, session) = at;
    let to = ReplyTo { window, cell: 0, seq };
    let (kind, body) = (kind.to_wire(), body.to_vec());
    feed(m, Event::Request(ControlRequest { to, kind, session, body }))
}

fn answered(out: &[Action]) -> Vec<u8> {
    let answer = out.iter().find_map(|a| match a {
        Action::Answer { result, .. } => Some(result.clone()),
        _ => None,
    });
    answer.expect("an answer").expect("no refusal")
}

/// A VM's kernel module has its port; the service that counts for it is played, too.
fn take_port(m: &mut Daemon, window: WindowId) -> Handle {
    let hello = Hello {
        version_min: U16::new(2),
        version_max: U16::new(9),
        pid: U32::new(1),
        features: U64::new(u64::MAX),
        app: names::encode("kernel").unwrap(),
        credential_len: U16::new(0),
        reserved: [0; 6],
        credential: [0; CREDENTIAL_BYTES],
    };
    let said = answered(&asked(m, 1, (window, 0), Kind::Hello, hello.as_bytes()));
    let session = HelloAck::read_from_bytes(&said).unwrap().session.get();
    let want = Negotiate {
        function: names::encode("ports").unwrap(),
        version: U32::new(0),
        preference: 0,
        wait: 0,
        kind: U16::new(ChannelKind::Packets.to_wire()),
        deadline_ms: U32::new(0),
        reserved0: U32::ZERO,
        signature: U64::new(0),
        shape: PacketsShape::new(RING, 0).shape(),
        reserved1: [U64::ZERO; 3],
    };
    let said = answered(&asked(m, 2, (window, session), Kind::Negotiate, want.as_bytes()));
    let grant = NegotiateAck::read_from_bytes(&said).unwrap().grant;
    let mut out = asked(m, 3, (window, session), Kind::Activate, grant.as_bytes());
    let started = out.iter().find_map(|a| match a {
        Action::StartService { service, .. } => Some(*service),
        _ => None,
    });
    if let Some(service) = started {
        out = feed(m, Event::ServiceReady { service });
    }
    let opened = out.iter().find_map(|a| match a {
        Action::OpenChannel { service, channel, .. } => Some((*service, *channel)),
        _ => None,
    });
    let (service, channel) = opened.expect("a channel is opened");
    feed(m, Event::ChannelOpened { service, channel });
    channel
}

fn window_up(m: &mut Daemon, vm: &str) -> (WindowId, UnixStream) {
    let fd = memfd("vm", WINDOW_BYTES).unwrap();
    let (to_host, to_app) = Bells::new_pair().unwrap();
    let bells = Bells::of_vm(to_host, to_app).unwrap();
    let generation = m.next_window_generation();
    let window = HostWindow::lay_out(fd, WINDOW_BYTES, generation, 1, "web", Some(bells)).unwrap();
    let (peer, qemu) = UnixStream::pair().unwrap();
    peer.set_nonblocking(true).unwrap();
    qemu.set_nonblocking(true).unwrap();
    let id = m.fresh_id();
    let of = crate::core::catalog::VmId { client: 1, vm: vm.into() };
    let attached = m.attached(window, of.into(), Transport::IvshmemDoorbell, Some(peer));
    m.window_up(id, attached);
    m.settle();
    (id, qemu)
}

/// The memory of a port, as the host has it, and as its VM has it.
fn port_memory(m: &Daemon, grant: Handle) -> [WindowMemory; 2] {
    let at = m.port_at(grant).expect("it is served");
    let window = &m.rim.windows[&at.window].window;
    let port = window.port_memory(&at.place).expect("a port");
    let bytes = 4096 + RING as usize;
    let part = |at: u64| window.pages().span().part(at as usize, bytes).expect("inside");
    let (host, vm) = (part(port.host), part(port.vm));
    [WindowMemory::of_sides(host.clone(), vm.reader()), WindowMemory::of_sides(vm, host.reader())]
}

fn driver_connects(m: &mut Daemon, port: &str) -> OwnedFd {
    let (flags, kind) = (SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, SocketType::SEQPACKET);
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
    let path = m.tree.ports_socket();
    rustix::net::connect(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    let mut want = PortAsk::new_zeroed();
    (want.magic, want.kind) = (U64::new(ASK_MAGIC), U32::new(ask::WANT));
    want.knows = U32::new(knows::LINKS);
    want.name[..port.len()].copy_from_slice(port.as_bytes());
    fdpass::send(&socket, want.as_bytes(), &[]).unwrap();
    m.hear_all_switches();
    m.look_after_switches();
    for kind in [word::WELCOME, word::MEMORY] {
        let (said, _) = hears(&socket).expect("the manager says something");
        assert_eq!(said.kind.get(), kind);
    }
    socket
}

fn hears(socket: &OwnedFd) -> Option<(PortWord, Vec<OwnedFd>)> {
    let mut bytes = [0; size_of::<PortWord>()];
    let (n, fds) = fdpass::receive(socket, &mut bytes).ok()?;
    Some((PortWord::read_from_bytes(&bytes[..n]).ok()?, fds))
}

/// Two halves of a driver's private memory.
fn line() -> [WindowMemory; 2] {
    let file = memfd("line", 8192).unwrap();
    let span = Mapping::new(&file, 0, 8192, Access::ReadWrite).unwrap().write().unwrap();
    let [a, b]: [WriteSpan; 2] = [0, 4096].map(|at| span.part(at, 4096).unwrap());
    [WindowMemory::of_sides(a.clone(), b.reader()), WindowMemory::of_sides(b, a.reader())]
}

/// One client, and the function that gives ports.
fn catalog(manifest: &str) -> Catalog {
    let mut catalog = Catalog::default();
    let client = crate::manifest::client(Path::new("c.toml"), manifest, 1).unwrap();
    catalog.clients.insert(1, client);
    let ports = crate::core::ports::built_in(9);
    catalog.functions.insert(ports.name.clone(), ports);
    catalog
}

impl Rig {
    fn new() -> Self {
        let mut rig = Self::with(CLIENT);
        let added = rig.m.add_further(SHARED, Path::new("w.toml"));
        assert!(matches!(added, crate::admin::Reply::WindowAdded(_)), "{added:?}");
        rig.m.settle();
        rig.plug(true);
        rig
    }

    /// Without a window that both have.
    fn with(manifest: &str) -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut m = Daemon::in_folder(dir.path());
        m.push(Event::Catalog(catalog(manifest)));
        m.settle();
        let windows = ["a", "b"].map(|vm| window_up(&mut m, vm));
        m.look_after_switches();
        let ring = Ring::new(RING.into()).unwrap();
        let mut hosts = vec![];
        let vms = windows.map(|(window, qemu)| {
            let grant = take_port(&mut m, window);
            let [host, vm] = port_memory(&m, grant);
            hosts.push(host);
            let (tx, rx) = (LinkedSender::new(vm.clone(), ring), LinkedReceiver::new(vm, ring));
            VmPlayed { window, qemu, tx, rx, is_stopped: false }
        });
        m.switches.changed();
        let sockets = ["a1", "b1"].map(|port| driver_connects(&mut m, port));
        let to_b = Sender::new(hosts.remove(1), ring);
        let driver = DriverPlayed {
            sockets,
            fence: Fence::new(hosts.remove(0), ring),
            to_b,
            closer: None,
            forcing: None,
            queue: VecDeque::new(),
            heard: vec![],
        };
        Rig { m, vms, driver, seq: 9, sent: 0, direct: 0, got: 0, _dir: dir }
    }

    /// Both VMs have the window that they share, or A has it no more.
    fn plug(&mut self, here: bool) {
        (0..if here { 2 } else { 1 }).for_each(|vm| self.says(vm, here));
    }

    /// A VM says that it has the window, or has it no more.
    fn says(&mut self, vm: usize, here: bool) {
        let key = self.m.rim.further.values().next().expect("it is there").note().key;
        let said =
            WindowHere { key: key.map(U64::new), here: U16::new(here.into()), reserved: [0; 6] };
        self.seq += 1;
        let at = (self.vms[vm].window, 0);
        answered(&asked(&mut self.m, self.seq, at, Kind::Window, said.as_bytes()));
        self.m.links.changed();
    }

    fn joined(&mut self, is: bool) {
        match is {
            true => self.joined_past(Passed::Rules(vec![])),
            false => {
                let verdict = PortVerdict::Not { why: "a rule has changed".into() };
                self.m.heard_verdict("a1", verdict);
            }
        }
    }

    /// All frames of A pass these rules, on their way to B.
    fn joined_past(&mut self, passed: Passed) {
        self.m.heard_verdict("a1", PortVerdict::Joined { to: "b1".into(), passed });
    }

    /// What A counts over its link.
    fn sent_direct(&self) -> u64 {
        let link = self.vms[0].tx.link();
        link.map_or(0, |link| link.memory().load_own(SENT, Ordering::Relaxed))
    }

    /// The window of both, as a VM finds it by a place.
    fn link_memory(&self, place: LinkPlace) -> WindowMemory {
        assert_eq!(place.window, 1, "its number in both VMs");
        let d = self.m.rim.further.values().next().expect("it is there");
        let part =
            |at: u64| d.pages().span().part(at as usize, place.side() as usize).expect("inside");
        let (own, other) = place.sides();
        WindowMemory::of_sides(part(own), part(other).reader())
    }

    /// Both VMs look at their pages.
    fn vms_look(&mut self) {
        let word = |mem: &WindowMemory, at| mem.load(at, Ordering::Acquire);
        let page = self.vms[0].tx.port().memory().clone();
        if !self.vms[0].is_stopped {
            let (out, place) = (word(&page, LINK_OUT), LinkPlace::of(word(&page, OUT_PLACE)));
            match (out, place, self.vms[0].tx.link().is_some()) {
                (0, _, true) => drop(self.vms[0].tx.detach()),
                (1.., Some(place), false) => {
                    let ring = Ring::new(place.ring).unwrap();
                    let memory = self.link_memory(place);
                    self.vms[0].tx.attach(out, memory, ring);
                }
                _ => {}
            }
        }
        if self.vms[1].is_stopped {
            return;
        }
        let page = self.vms[1].rx.port().memory().clone();
        let (from, place) = (word(&page, LINK_IN), LinkPlace::of(word(&page, IN_PLACE)));
        match (from, place, self.vms[1].rx.link().is_some()) {
            (0, _, true) => self.vms[1].rx.detach(),
            (1.., Some(place), false) => {
                let ring = Ring::new(place.ring).unwrap();
                let memory = self.link_memory(place);
                self.vms[1].rx.attach(from, memory, ring);
            }
            _ => {}
        }
    }

    fn driver_hears(&mut self) {
        while let Some((said, fds)) = hears(&self.driver.sockets[0]) {
            let (number, epoch) = (said.handle.get(), said.epoch.get());
            let kind = said.kind.get();
            if kind >= word::LINK {
                self.driver.heard.push((kind, number, epoch));
            }
            match kind {
                word::LINK => {
                    assert_eq!((fds.len(), &said.sentence[..3]), (1, &b"b1\0"[..]));
                    assert_eq!(
                        (said.mine.get(), said.theirs.get()),
                        (4096, 8192 + said.ring.get())
                    );
                    let [fence, closer] = line();
                    self.driver.fence.line(fence, number, epoch);
                    self.driver.closer = Some(Closer::new(closer, number));
                }
                word::ALLOW => {
                    self.driver.fence.allow(epoch);
                    self.driver_says(ask::ALLOWED, number, epoch);
                }
                word::FORCE => {
                    self.driver.fence.force(epoch);
                    self.driver.forcing = Some((number, epoch));
                }
                word::UNLINK => {
                    self.driver.fence.unline();
                    self.driver.closer = None;
                    self.driver_says(ask::UNLINKED, number, 0);
                }
                _ => {}
            }
        }
    }

    fn driver_says(&self, kind: u32, number: u64, epoch: u64) {
        let mut said = PortAsk::new_zeroed();
        (said.magic, said.kind) = (U64::new(ASK_MAGIC), U32::new(kind));
        (said.handle, said.epoch) = (U64::new(number), U64::new(epoch));
        fdpass::send(&self.driver.sockets[0], said.as_bytes(), &[]).unwrap();
    }

    fn driver_moves(&mut self) {
        let driver = &mut self.driver;
        let mut frame = [0; 64];
        while let Some(bytes) = driver.fence.next(&mut frame) {
            if bytes != 0 {
                driver.queue.push_back((frame[..60].try_into().unwrap(), driver.fence.stamp()));
            }
        }
        driver.fence.take();
        while let Some((frame, stamp)) = driver.queue.pop_front() {
            let put = match &mut driver.closer {
                Some(closer) => closer.put(&mut driver.to_b, &frame, stamp),
                None => driver.to_b.put(&frame),
            };
            put.expect("B's ring has room");
        }
        if let Some(closer) = &mut driver.closer {
            closer.run(&mut driver.to_b);
        }
        driver.to_b.publish();
        if let Some((number, epoch)) = driver.forcing.filter(|f| driver.fence.is_over(f.1)) {
            driver.forcing = None;
            self.driver_says(ask::FORCED, number, epoch);
        }
    }

    fn pump(&mut self) {
        if self.m.verdicts.is_some() {
            self.m.hear_links();
            self.m.look_after_verdicts();
        }
        if !self.vms[0].is_stopped {
            let mut frame = [0; 60];
            frame[..8].copy_from_slice(&self.sent.to_le_bytes());
            let before = self.sent_direct();
            self.sent += u64::from(self.vms[0].tx.put(&frame).is_ok());
            self.vms[0].tx.publish();
            self.direct += self.sent_direct() - before;
        }
        self.m.hear_all_switches();
        self.m.settle();
        self.m.look_after_switches();
        self.m.look_after_links();
        self.driver_hears();
        self.driver_moves();
        self.vms_look();
        if !self.vms[1].is_stopped {
            self.receive();
        }
        std::thread::sleep(Duration::from_millis(1));
    }

    fn receive(&mut self) {
        let mut frame = [0; 64];
        while let Some(bytes) = self.vms[1].rx.next(&mut frame) {
            if bytes != 0 {
                let number = u64::from_le_bytes(frame[..8].try_into().unwrap());
                assert_eq!(number, self.got, "lost, repeated or out of order");
                self.got += 1;
            }
        }
        self.vms[1].rx.take();
    }

    fn until(&mut self, what: impl Fn(&Rig) -> bool) {
        for _ in 0..20_000 {
            if what(self) {
                return;
            }
            self.pump();
        }
        panic!("it does not come: {:?} {:?}", self.row(), self.driver.heard);
    }

    fn until_state(&mut self, state: &str) {
        self.until(|rig| rig.row().state == state && rig.row().link.is_some());
    }

    /// Another manager comes, which has the notes of this one.
    fn next_manager(&mut self) {
        let noted = |(n, link): (&u64, &Link)| {
            (n.to_string(), serde_json::to_string::<LinkNote>(&link.note).unwrap())
        };
        let mut notes: Vec<_> = self.m.links.links.iter().map(noted).collect();
        notes.extend(self.m.links.flows.notes());
        self.m.links = Links::default();
        self.m.links.were_left(notes);
        self.m.find_links();
    }

    /// The row of A's port.
    fn row(&self) -> LinkRow {
        self.m.link_rows().into_iter().find(|row| row.from.tap == "a1").expect("a port")
    }

    fn told(&self, kind: u32) -> usize {
        self.driver.heard.iter().filter(|(k, ..)| *k == kind).count()
    }

    /// What A's QEMU was told since the last look: peers, and how many descriptors came along.
    fn peers(&self) -> Vec<(i64, Vec<OwnedFd>)> {
        let mut bytes = [0; 8];
        let mut all = vec![];
        while let Ok((8, fds)) = fdpass::receive(&self.vms[0].qemu, &mut bytes) {
            all.push((i64::from_le_bytes(bytes), fds));
        }
        all
    }
}

#[test]
fn a_link_begins_turns_and_ends_as_verdicts_and_the_operator_say() {
    let mut rig = Rig::new();
    assert!(rig.row().why.contains("--links"), "{:?}", rig.row());
    rig.joined(true);
    rig.until_state("direct");
    let row = rig.row();
    assert_eq!(
        (row.to.unwrap().tap.as_str(), row.epoch, row.window.as_deref()),
        ("b1", 1, Some("pair"))
    );
    let mut peers = rig.peers();
    let (peer, fds) = peers.pop().expect("a further peer");
    assert!(peers.is_empty() && fds.len() == 1);
    let page = rig.vms[0].tx.port().memory().clone();
    assert_eq!(page.load(OUT_BELL, Ordering::Relaxed), (peer as u64) << 16);
    // What A rings is B's bell of its port.
    rustix::io::write(&fds[0], &1u64.to_ne_bytes()).unwrap();
    let to = rig.m.port_at(rig.m.grants_for_switches()["b1"]).unwrap();
    let bells = rig.m.rim.windows[&to.window].window.bells().unwrap();
    let mut count = [0; 8];
    rustix::io::read(bells.to_app[usize::from(to.place.vector_in())].as_fd(), &mut count).unwrap();
    rig.until(|rig| rig.row().frames > 0);
    // A verdict that is gone takes the frames back, and the link waits.
    rig.joined(false);
    rig.until_state("switch");
    assert!(rig.row().why.contains("a rule has changed") && rig.row().link == row.link);
    rig.joined(true);
    rig.until_state("direct");
    assert_eq!((rig.row().epoch, rig.told(word::LINK)), (2, 1));
    // The operator's word ends it, and another one begins after it.
    rig.m.links_off("a1", "b1", true);
    rig.until(|rig| rig.row().link.is_none());
    let words = [LINK_OUT, OUT_PLACE, OUT_BELL].map(|at| page.load(at, Ordering::Relaxed));
    assert_eq!((words, rig.told(word::UNLINK)), ([0; 3], 1));
    assert!(rig.row().off && rig.row().why.contains("vfun links on a1 b1"));
    rig.m.links_off("a1", "b1", false);
    rig.until_state("direct");
    assert!(rig.row().link > row.link, "a number never comes again");
    assert!(rig.peers().is_empty(), "its bell is there still");
    rig.m.no_verdicts("the process that watches the switch has ended");
    rig.until_state("switch");
    assert!(rig.row().why.contains("has ended") && rig.got + 100 > rig.sent && rig.got > 100);
    assert_eq!(rig.row().forced, 0);
}

#[test]
fn the_next_manager_goes_on_with_a_link() {
    let mut rig = Rig::new();
    rig.joined(true);
    rig.until_state("direct");
    let number = rig.row().link;
    rig.next_manager();
    rig.until_state("switch");
    assert_eq!((rig.row().link, rig.told(word::LINK), rig.row().epoch), (number, 2, 1));
    rig.joined(true);
    rig.until_state("direct");
    assert_eq!((rig.row().epoch, rig.peers().len()), (2, 1));
}

#[test]
fn a_manager_that_knows_nothing_of_a_link_takes_it_back() {
    let mut rig = Rig::new();
    rig.joined(true);
    rig.until_state("direct");
    let a = rig.vms[0].tx.port().memory().clone();
    let b = rig.vms[1].rx.port().memory().clone();
    rig.m.links = Links::default();
    rig.m.links.were_left(vec![("5".into(), "no note".into())]);
    rig.m.find_links();
    let words = [(&a, LINK_OUT), (&a, OUT_PLACE), (&b, LINK_IN), (&b, IN_PLACE)];
    // What lies in the link is dropped: nobody is left who would turn its frames in order.
    assert_eq!(words.map(|(page, at)| page.load(at, Ordering::Relaxed)), [0; 4]);
}

#[test]
fn a_vm_that_goes_takes_its_links_with_it() {
    let mut rig = Rig::new();
    rig.joined(true);
    rig.until_state("direct");
    let [(peer, _)] = <[_; 1]>::try_from(rig.peers()).unwrap();
    let page = rig.vms[0].tx.port().memory().clone();
    let b = rig.vms[1].rx.port().memory().clone();
    let b_host = b.theirs().clone();
    let before = b_host.load(LINK_IN, Ordering::Relaxed);
    rig.vms[1].is_stopped = true;
    rig.m.window_gone(rig.vms[1].window);
    rig.until(|rig| rig.m.links.links.is_empty());
    assert_eq!(page.load(LINK_OUT, Ordering::Relaxed), 0);
    assert_eq!(b_host.load(LINK_IN, Ordering::Relaxed), before, "its pages are another's now");
    rig.pump();
    let left: Vec<_> = rig.peers().into_iter().map(|(peer, fds)| (peer, fds.len())).collect();
    assert_eq!((left, rig.told(word::UNLINK)), (vec![(peer, 0)], 1));
    assert!(rig.row().why.contains("does not use its port"), "{}", rig.row().why);
}

#[test]
fn the_window_of_a_vm_that_was_silent_is_used_again_when_it_was_unplugged() {
    let mut rig = Rig::new();
    rig.joined(true);
    rig.until_state("direct");
    rig.vms[0].is_stopped = true;
    rig.joined(false);
    rig.until(|rig| rig.m.links.links.is_empty());
    assert_eq!((rig.told(word::FORCE), rig.row().forced), (1, 0));
    rig.joined(true);
    (0..20).for_each(|_| rig.pump());
    assert!(rig.row().link.is_none() && rig.row().why.contains("unplug"), "{:?}", rig.row());
    assert_eq!(rig.row().forced, 1);
    rig.plug(false);
    (0..5).for_each(|_| rig.pump());
    // That is the VM's word.
    rig.plug(true);
    (0..5).for_each(|_| rig.pump());
    assert!(rig.row().why.contains("rests for 10 s"), "{:?}", rig.row());
    rig.plug(false);
    rig.m.links.bars.values_mut().for_each(|bar| bar.let_go = bar.let_go.map(|_| 0));
    rig.until(|rig| rig.row().why.contains("is not in VM web/a"));
    rig.plug(true);
    (0..20).for_each(|_| rig.pump());
    assert!(rig.row().why.contains("has not let go"), "{:?}", rig.row());
    rig.vms[0].is_stopped = false;
    // What it put into the link while nobody read it is gone.
    rig.vms_look();
    rig.got = rig.sent;
    rig.until_state("direct");
}
