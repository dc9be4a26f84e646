//! A guest with one port, and what is on the other end of its device.
#![allow(dead_code, reason = "the bench has its part of it")]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun_packet::layout::header::{FRAME, STATE};
use vfun_packet::layout::{DOWN, UP};
use vfun_packet::{Memory, Receiver, Ring, Sender, WindowMemory};
use vfun_ports::Ports;
use vfun_sdk::service::{Engine, Port, QueuesChannel, QueuesHeld};
use vfun_sdk::{Config, DriverError};
use vfun_window::{Access, Bell, BellWaiter, Mapping, WriteSpan, memfd};
use vfun_wire::packets::{RING_OFF, SIDE_OFF};

/// Long enough for anything on a crowded machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The MTU of these tests, and the longest frame that it makes.
pub const MTU: u16 = 9000;
pub const LONGEST: usize = MTU as usize + 18;

/// A guest's driver, and its window.
pub struct Guest {
    pub handle: u64,
    pub ring: Ring,
    window: OwnedFd,
    pub program: WriteSpan,
    pub host: WriteSpan,
    pub sender: Sender<WindowMemory>,
    pub receiver: Receiver<WindowMemory>,
    /// The bell that rings the service, and the one that rings this guest.
    bells: Option<(Bell, Bell)>,
    waiter: Option<BellWaiter>,
}

fn map(window: &OwnedFd, off: u64, bytes: u64, access: Access) -> Arc<Mapping> {
    Mapping::new(window, off, bytes as usize, access).unwrap()
}

/// A guest's two ends over its window.
fn ends(
    program: &WriteSpan,
    host: &WriteSpan,
    ring: Ring,
) -> (Sender<WindowMemory>, Receiver<WindowMemory>) {
    let bytes = ring.side_bytes() as usize;
    let mine = program.part(SIDE_OFF, bytes).unwrap();
    let theirs = host.part(SIDE_OFF, bytes).unwrap().reader();
    let memory = WindowMemory::of_sides(mine, theirs);
    (Sender::new(memory.clone(), ring), Receiver::new(memory, ring))
}

impl Guest {
    pub fn new(handle: u64, ring_bytes: u64) -> Self {
        Self::with(handle, ring_bytes, true)
    }

    /// One that is ready, with bells or without.
    pub fn with(handle: u64, ring_bytes: u64, has_bells: bool) -> Self {
        let ring = Ring::new(ring_bytes).unwrap();
        let side = RING_OFF as u64 + ring_bytes;
        let window = memfd("window", 2 * side).unwrap();
        let program = map(&window, 0, side, Access::ReadWrite).write().unwrap();
        let host = map(&window, side, side, Access::ReadWrite).write().unwrap();
        let (sender, receiver) = ends(&program, &host, ring);
        let bells = has_bells.then(|| (Bell::new().unwrap(), Bell::new().unwrap()));
        let waiter = bells.as_ref().map(|(_, mine)| BellWaiter::new(mine).unwrap());
        let guest = Guest { handle, ring, window, program, host, sender, receiver, bells, waiter };
        guest.say(UP);
        guest
    }

    /// The channel as a service gets it.
    pub fn channel(&self) -> QueuesChannel {
        let side = RING_OFF as u64 + self.ring.bytes();
        let program = map(&self.window, 0, side, Access::Read);
        let host = map(&self.window, side, side, Access::ReadWrite);
        let bells = self.bells.clone().unzip();
        QueuesChannel::over(self.handle, (&program, &host), bells).unwrap()
    }

    /// The port with this device.
    pub fn port(&self, tap: OwnedFd) -> Port {
        let ring_bytes = self.ring.bytes() as u32;
        Port { name: format!("p{}", self.handle), mtu: MTU, ring_bytes, tap: Some(tap) }
    }

    /// Has the port relayed, and waits until that is said.
    pub fn serve(&self, ports: &Ports, tap: OwnedFd) -> Box<dyn QueuesHeld> {
        let held = self.try_serve(ports, tap).map_err(|e| e.to_string()).unwrap();
        self.until("it is up", || self.host_is(UP));
        held
    }

    pub fn try_serve(
        &self,
        ports: &Ports,
        tap: OwnedFd,
    ) -> Result<Box<dyn QueuesHeld>, DriverError> {
        ports.open_packets(&Config::default(), self.channel(), self.port(tap))
    }

    /// Says how this side is, and how long its frames may be: as its MTU makes.
    pub fn say(&self, state: u64) {
        self.sender.memory().store(FRAME, LONGEST as u64, Ordering::Relaxed);
        self.sender.memory().store(STATE, state, Ordering::Release);
    }

    /// What the other side says that it is.
    pub fn host_is(&self, state: u64) -> bool {
        assert!([UP, DOWN].contains(&state));
        self.receiver.memory().load(STATE, Ordering::Acquire) == state
    }

    /// Shows what was put, and rings if that is due.
    pub fn publish(&mut self) {
        if self.sender.publish() && self.sender.must_ring() {
            self.ring();
        }
    }

    pub fn ring(&self) {
        if let Some((service, _)) = &self.bells {
            service.ring();
        }
    }

    /// Sends one frame; false: there was no room.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        let is_put = self.sender.put(frame).is_ok();
        self.publish();
        is_put
    }

    /// The next frame, asleep until there is one.
    pub fn receive(&mut self) -> Vec<u8> {
        let mut frame = vec![0; LONGEST + 100];
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(bytes) = self.receiver.next(&mut frame) {
                self.receiver.take();
                frame.truncate(bytes);
                return frame;
            }
            assert!(Instant::now() < until, "no frame came");
            self.receiver.declare_sleep();
            if !self.receiver.is_there() {
                match &self.waiter {
                    // Nothing but a ring ends this in time.
                    Some(waiter) => assert!(waiter.wait(Some(PATIENCE)).unwrap(), "nobody rang"),
                    None => std::thread::sleep(Duration::from_micros(100)),
                }
            }
        }
    }

    /// Whether there is another frame.
    pub fn has_frame(&mut self) -> bool {
        self.receiver.is_there()
    }

    /// Looks again and again until it is so.
    pub fn until(&self, what: &str, is_so: impl FnMut() -> bool) {
        until(what, is_so);
    }
}

/// Looks again and again until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The outer end of what stands in the place of a device.
pub struct Outside(OwnedFd);

/// A device, and its outer end.
pub fn device() -> (OwnedFd, Outside) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (tap, outside) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    // Room for more frames than a burst has.
    for end in [&tap, &outside] {
        rustix::net::sockopt::set_socket_send_buffer_size(end, 4 << 20).unwrap();
    }
    (tap, Outside(outside))
}

impl Outside {
    fn ready(&self, what: PollFlags) -> bool {
        let limit = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, what)], Some(&limit)).unwrap() == 1
    }

    /// Sends a frame, as soon as there is room.
    pub fn send(&self, frame: &[u8]) {
        while let Err(e) = rustix::io::write(&self.0, frame) {
            assert_eq!(e, rustix::io::Errno::AGAIN);
            assert!(self.ready(PollFlags::OUT), "nobody takes frames from the device");
        }
    }

    /// The next frame, as soon as there is one.
    pub fn receive(&self) -> Vec<u8> {
        let mut frame = vec![0; LONGEST + 100];
        assert!(self.ready(PollFlags::IN), "no frame came out of the device");
        let bytes = rustix::io::read(&self.0, &mut frame).unwrap();
        frame.truncate(bytes);
        frame
    }

    /// Whether there is another frame now.
    pub fn is_empty(&self) -> bool {
        let mut one = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut one, Some(&Timespec::default())).unwrap() == 0
    }
}

/// A frame of so many bytes with a number in it, that no other number has.
pub fn frame(number: u64, bytes: usize) -> Vec<u8> {
    let mut all: Vec<u8> = (0..bytes).map(|i| (number as usize * 31 + i * 7) as u8).collect();
    all[6..14].copy_from_slice(&number.to_le_bytes());
    all
}

/// The number of a frame.
pub fn number(frame: &[u8]) -> u64 {
    u64::from_le_bytes(frame[6..14].try_into().unwrap())
}
