//! All that is around one guest with a direct link, in this process: the switch with its
//! driver at both ports, the manager, and VM B, whose numbered datagrams guest A sends back.

use crate::fakehost::ports::answer;
use crate::fakehost::{FakeHost, RING_BYTES};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vfun_packet::layout::header::{
    HEAD, IN_PLACE, LINK_IN, LINK_OUT, OUT_BELL, OUT_PLACE, REFUSED, SENT, TAIL, TAKEN, TURN,
};
use vfun_packet::layout::line::WORDS;
use vfun_packet::{
    Closer, Director, Fence, LinkPlace, LinkedReceiver, LinkedSender, Memory as _, Ring, Sender,
    Stage, Todo, WindowMemory,
};
use vfun_window::{Access, Bell, BellWaiter, Mapping, WriteSpan, memfd};

/// Guest A's address, which it has from the table of ports, and VM B's.
pub const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 0x22];
const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 0x11];
const IP_A: [u8; 4] = [10, 9, 0, 2];
const IP_B: [u8; 4] = [10, 9, 0, 1];
/// Where the guest's `sendback` listens.
pub const ECHO: u16 = 7777;
/// Datagrams that are under way at most.
const UNDER_WAY: u64 = 32;
/// Frames of a port that the switch keeps at least, while more come.
const KEEPS: usize = 3;
/// The longest frame here.
const LONGEST: usize = 2048;
/// Bytes of a link's rings.
const LINK_RING: u64 = 1 << 18;
/// VM B, as QEMU of A knows it.
const PEER_B: u16 = 77;
/// The further window's number in A and in B.
pub const WINDOW: u16 = 5;

/// Fresh memory of so many bytes.
fn memory(bytes: u64) -> WriteSpan {
    let file = memfd("world", bytes).expect("memory");
    let map = Mapping::new(&file, 0, bytes as usize, Access::ReadWrite).expect("memory");
    map.write().expect("for writing")
}

/// The two views of two sides that lie behind each other.
fn sides(of: &WriteSpan, at: usize, bytes: usize) -> [WindowMemory; 2] {
    let part = |n| of.part(at + n * bytes, bytes).expect("inside");
    [0, 1].map(|n| WindowMemory::of_sides(part(n), part(1 - n).reader()))
}

fn ring_of_ports() -> Ring {
    Ring::new(RING_BYTES.into()).expect("possible")
}

/// The driver's end at a port.
struct PortEnd {
    memory: WindowMemory,
    fence: Fence<WindowMemory, WindowMemory>,
    tx: Sender<WindowMemory>,
    /// Of the link that ends here.
    closer: Option<Closer<WindowMemory>>,
    /// What the switch has of this port's frames.
    queue: VecDeque<(u64, Vec<u8>)>,
}

impl PortEnd {
    fn new(memory: WindowMemory) -> Self {
        PortEnd {
            fence: Fence::new(memory.clone(), ring_of_ports()),
            tx: Sender::new(memory.clone(), ring_of_ports()),
            memory,
            closer: None,
            queue: VecDeque::new(),
        }
    }

    /// Takes what came into the switch; whether anything did.
    fn takes(&mut self) -> bool {
        let (mut frame, mut some) = (vec![0; LONGEST], false);
        while let Some(bytes) = self.fence.next(&mut frame) {
            some = true;
            if bytes > 0 {
                self.queue.push_back((self.fence.stamp(), frame[..bytes].to_vec()));
            }
        }
        self.fence.take();
        some
    }
}

/// Lets frames out of the switch; whether the receiver is to be rung.
fn lets_out(from: &mut PortEnd, to: &mut PortEnd, is_busy: bool) -> bool {
    let keeps = if is_busy { KEEPS } else { 0 };
    while from.queue.len() > keeps {
        let (stamp, frame) = from.queue.pop_front().expect("it has some");
        // What has no room is lost, and the numbers tell.
        let _ = match &mut to.closer {
            Some(closer) => closer.put(&mut to.tx, &frame, stamp),
            None => to.tx.put(&frame),
        };
    }
    if let Some(closer) = &mut to.closer {
        // It is known that the switch has nothing more.
        let _ =
            if from.queue.is_empty() { closer.expire(&mut to.tx) } else { closer.run(&mut to.tx) };
    }
    to.tx.publish() && to.tx.must_ring()
}

/// The other VM.
struct VmB {
    tx: LinkedSender<WindowMemory>,
    rx: LinkedReceiver<WindowMemory>,
    waiter: BellWaiter,
    asleep: bool,
    bells: u64,
    /// Datagrams that went out, those that came back, and how many may go out.
    next: u64,
    back: u64,
    until: u64,
    /// Those before this one are not asked after.
    floor: u64,
    /// Not what was due.
    wrong: Option<String>,
}

/// The length of the datagram of a number.
fn length(number: u64) -> usize {
    8 + (number * 37 % 1300) as usize
}

/// A datagram with a number, from B to A.
fn numbered(number: u64) -> Vec<u8> {
    let body = length(number);
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
    ip[2..4].copy_from_slice(&(28 + body as u16).to_be_bytes());
    ip.extend([IP_B, IP_A].concat());
    let sum: u32 = ip.chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    let udp = [9000u16, ECHO, 8 + body as u16, 0].map(u16::to_be_bytes).concat();
    let mut frame = [&MAC_A[..], &MAC_B, &[8, 0], &ip, &udp, &number.to_le_bytes()].concat();
    frame.resize(42 + body, number as u8);
    frame
}

/// The number of a datagram that came back; `None`: it is another frame.
fn number_of(frame: &[u8]) -> Option<u64> {
    let is_echo = frame.len() >= 50 && frame[12..14] == [8, 0] && frame[23] == 17;
    (is_echo && frame[34..36] == ECHO.to_be_bytes())
        .then(|| u64::from_le_bytes(frame[42..50].try_into().expect("eight")))
}

impl VmB {
    fn new(port: &WindowMemory, bell: &Bell) -> Self {
        VmB {
            tx: LinkedSender::new(port.clone(), ring_of_ports()),
            rx: LinkedReceiver::new(port.clone(), ring_of_ports()),
            waiter: BellWaiter::new(bell).expect("an epoll"),
            asleep: false,
            bells: 0,
            next: 0,
            back: 0,
            until: 0,
            floor: 0,
            wrong: None,
        }
    }

    fn came(&mut self, frame: &[u8]) {
        let Some(number) = number_of(frame) else {
            if let Some(answer) = answer(frame) {
                let _ = self.tx.put(&answer);
            }
            return;
        };
        if number < self.floor {
            return;
        }
        let body = &frame[50..42 + length(number).min(frame.len() - 42)];
        if number != self.back || body.iter().any(|b| *b != number as u8) {
            let (due, len) = (self.back, frame.len());
            self.wrong.get_or_insert(format!("{number} of {len} bytes came, {due} was due"));
        }
        self.back = number + 1;
    }

    /// Receives, if somebody rang, and sends; whether it did anything.
    fn step(&mut self) -> bool {
        if self.waiter.wait(Some(Duration::ZERO)).expect("an epoll") {
            self.bells += 1;
            self.asleep = false;
        }
        let (mut frame, mut some) = (vec![0; LONGEST], false);
        while !self.asleep {
            match self.rx.next(&mut frame) {
                Some(0) => {}
                Some(bytes) => {
                    some = true;
                    self.came(&frame[..bytes]);
                }
                None => {
                    self.rx.take();
                    self.rx.declare_sleep();
                    self.asleep = !self.rx.is_there();
                }
            }
        }
        while self.next < self.until && self.next - self.back < UNDER_WAY {
            if self.tx.put(&numbered(self.next)).is_err() {
                break;
            }
            some = true;
            self.next += 1;
        }
        some | self.tx.publish()
    }
}

/// Everything.
pub struct World<'a> {
    host: &'a FakeHost,
    window: &'a FakeHost,
    ends: [PortEnd; 2],
    vm: VmB,
    /// A to B, and B to A.
    ways: Vec<Director<WindowMemory>>,
    /// The driver takes nothing from A's port.
    is_stuck: bool,
}

impl<'a> World<'a> {
    /// With the other end of the guest's port 0, and no link.
    pub fn new(host: &'a FakeHost, window: &'a FakeHost) -> Self {
        let side = ring_of_ports().side_bytes() as usize;
        let [vm, driver] = sides(&memory(2 * side as u64), 0, side);
        let bell = Bell::new().expect("an eventfd");
        host.has_peer(PEER_B, &bell);
        let lent = host.lends_port(0).expect("the guest has the port");
        World {
            host,
            window,
            ends: [PortEnd::new(lent), PortEnd::new(driver)],
            vm: VmB::new(&vm, &bell),
            ways: vec![],
            is_stuck: false,
        }
    }

    /// The place that A is told.
    pub fn place() -> LinkPlace {
        LinkPlace { window: WINDOW, ring: LINK_RING, is_second: false }
    }

    /// A manager writes where A finds its links.
    fn says_where(&self, place: u64) {
        let bell = u64::from(PEER_B) << 16;
        for (word, value) in [(OUT_PLACE, place), (OUT_BELL, bell), (IN_PLACE, place)] {
            self.ends[0].memory.store(word, value, Ordering::Relaxed);
        }
    }

    /// The same, and then a number, and rings.
    pub fn tells(&self, number: u64, place: u64) {
        self.says_where(place);
        for word in [LINK_OUT, LINK_IN] {
            self.ends[0].memory.store(word, number, Ordering::Release);
        }
        self.host.rings_control();
    }

    /// Two links, there and back, with fresh memory, of these numbers.
    pub fn links(&mut self, numbers: [u64; 2]) {
        let ring = Ring::new(LINK_RING).expect("possible");
        let (from, side) = (4096, ring.side_bytes() as usize);
        self.window.part(from, 2 * side).zero();
        let [_, second] = sides(&self.window.part(from, 2 * side), 0, side);
        self.says_where(Self::place().word());
        self.ways.clear();
        for (way, number) in numbers.into_iter().enumerate() {
            let line = memory(4096);
            let [fence, closer] = sides(&line, 0, WORDS * 8);
            self.ends[way].fence.line(fence, number, 0);
            self.ends[1 - way].closer = Some(Closer::new(closer, number));
            let [from, to] = [way, 1 - way].map(|n| self.ends[n].memory.clone());
            self.ways.push(Director::new(from, to, number, 0, 0));
        }
        self.vm.rx.attach(numbers[0], second.clone(), ring);
        assert!(self.vm.tx.attach(numbers[1], second, ring).is_some(), "the ways before are over");
        self.host.rings_control();
    }

    /// No link from now on.
    pub fn unlinks(&mut self) {
        self.ways.clear();
        self.vm.rx.detach();
        self.vm.tx.detach();
        for end in &mut self.ends {
            end.closer = None;
            end.fence.unline();
            for word in [LINK_OUT, LINK_IN, TURN] {
                end.memory.store(word, 0, Ordering::Release);
            }
        }
        self.host.rings_control();
    }

    /// Touches A's port no more: its memory is somebody else's soon.
    pub fn lets_go(&mut self) {
        let side = ring_of_ports().side_bytes() as usize;
        let [_, nobody] = sides(&memory(2 * side as u64), 0, side);
        self.ends[0] = PortEnd::new(nobody);
    }

    /// The guest has another channel of its port, and no link.
    pub fn takes_up(&mut self) -> bool {
        let Some(lent) = self.host.lends_port(0) else { return false };
        self.ends[0] = PortEnd::new(lent);
        true
    }

    /// Whether the driver takes nothing from A's port, from now on.
    pub fn sticks(&mut self, is_stuck: bool) {
        self.is_stuck = is_stuck;
    }

    /// Everybody does something; whether anything was to be done.
    pub fn step(&mut self) -> bool {
        let [a, b] = &mut self.ends;
        let busy = [!self.is_stuck && a.takes(), b.takes()];
        if lets_out(a, b, busy[0]) {
            self.vm.asleep = false;
        }
        if lets_out(b, a, busy[1]) {
            self.host.news(0);
        }
        let some = self.vm.step();
        // The switch's driver looks all the time, and is never rung.
        if self.vm.tx.must_ring().link {
            self.host.rings_ports();
        }
        self.manages();
        some || busy.contains(&true)
    }

    /// What a manager does now and then. Its clock stands: an emulated guest is never late.
    fn manages(&mut self) {
        for (way, director) in self.ways.iter_mut().enumerate() {
            match director.look(0, true) {
                Todo::Nothing => {}
                Todo::Allow(epoch) => {
                    assert!(self.ends[way].fence.allow(epoch), "the driver has the line");
                    director.allowed(epoch, 0);
                    self.vm.tx.look();
                    self.host.rings_control();
                }
                Todo::Force(epoch) => {
                    let fence = &mut self.ends[way].fence;
                    fence.force(epoch);
                    if fence.is_over(epoch) {
                        director.forced();
                        self.host.rings_control();
                    }
                }
            }
        }
    }

    /// Both ways go to the link; false: one of them cannot yet.
    pub fn go(&mut self) -> bool {
        self.ways.iter().all(Director::is_ready) && self.ways.iter_mut().all(|way| way.go(0))
    }

    /// Both come back.
    pub fn back(&mut self) {
        self.ways.iter_mut().for_each(|way| way.back(0));
        self.vm.tx.look();
        self.host.rings_control();
    }

    /// Both are not to be used again.
    pub fn end(&mut self) {
        for way in &mut self.ways {
            way.end(0);
        }
        self.vm.tx.look();
        self.host.rings_control();
    }

    /// How far both ways are.
    pub fn stages(&self) -> Vec<Stage> {
        self.ways.iter().map(Director::stage).collect()
    }

    /// How things stand, for who wonders why they do not go on.
    pub fn how(&self) -> String {
        let vm = &self.vm;
        format!(
            "{:?}, wrong {:?}, B sent {} of {}, {} came back, asleep {}, in the switch {:?}",
            self.stages(),
            self.wrong(),
            vm.next,
            vm.until,
            vm.back,
            vm.asleep,
            self.ends.each_ref().map(|end| end.queue.len()),
        )
    }

    pub fn is_direct(&self) -> bool {
        self.stages().iter().all(|s| matches!(s, Stage::Direct { .. }))
    }

    pub fn is_back(&self) -> bool {
        self.stages().iter().all(|s| matches!(s, Stage::Switch { .. }))
    }

    pub fn is_over(&self) -> bool {
        self.stages().iter().all(|s| *s == Stage::Over)
    }

    /// So many more datagrams go to the guest, and back.
    pub fn sends(&mut self, more: u64) {
        self.vm.until = self.vm.next + more;
    }

    /// No more go; those that are under way come back.
    pub fn rests(&mut self) {
        self.vm.until = self.vm.next;
    }

    /// Gives up those that are under way, and what was wrong with them.
    pub fn forgets(&mut self) {
        self.rests();
        (self.vm.back, self.vm.floor, self.vm.wrong) = (self.vm.next, self.vm.next, None);
    }

    /// How many came back.
    pub fn echoes(&self) -> u64 {
        self.vm.back
    }

    pub fn all_came(&self) -> bool {
        self.vm.back == self.vm.until
    }

    /// What came that was not due; and if ends found nonsense.
    pub fn wrong(&self) -> Option<String> {
        let bad = self.vm.rx.port().counts().bad
            + self.vm.rx.link().map_or(0, |l| l.counts().bad)
            + self.ends.iter().map(|e| e.fence.port().counts().bad).sum::<u64>();
        let found = (bad > 0).then(|| format!("{bad} times what came made no sense"));
        self.vm.wrong.clone().or(found)
    }

    /// How often the guest rang VM B.
    pub fn bells(&self) -> u64 {
        self.vm.bells
    }

    /// A word of the guest's page.
    pub fn said(&self, word: usize) -> u64 {
        self.ends[0].memory.load(word, Ordering::Acquire)
    }

    /// Claims of the guest: frames that it sent over the link, and that it took.
    pub fn claims(&self) -> (u64, u64) {
        let page = self.window.part(4096, 4096);
        let word = |n: usize| page.reader().load(n, Ordering::Acquire);
        (word(SENT), word(TAKEN) + word(REFUSED))
    }

    /// VM B writes anything into the memory of both links.
    pub fn scribbles(&self, random: &mut u64) {
        let side = 4096 + LINK_RING as usize;
        for _ in 0..200 {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            let at = match *random % 3 {
                0 => *random as usize / 3 % (2 * side),
                // Where positions stand, and where records may begin.
                1 => side * (*random as usize / 3 % 2) + *random as usize / 64 % 256,
                _ => *random as usize / 3 % (2 * side) / 64 * 64,
            };
            let value = match *random >> 60 & 3 {
                0 => *random,
                1 => *random % (2 * LINK_RING) / 64 * 64,
                2 => (1 << 32) | (*random % 1600),
                _ => *random % 4,
            };
            self.window.part(4096 + at / 8 * 8, 8).store(0, value, Ordering::Relaxed);
        }
        // A guest that found nonsense goes on: positions are at or near its own.
        let [a, b] = [0, side].map(|at| self.window.part(4096 + at, 4096));
        let word = |n| a.reader().load(n, Ordering::Acquire);
        let more = *random % LINK_RING / 64 * 64;
        b.store(HEAD, word(TAIL).wrapping_add(more), Ordering::Release);
        b.store(TAIL, word(HEAD).wrapping_sub(*random % 4096 / 64 * 64), Ordering::Release);
        self.host.rings_ports();
    }
}
