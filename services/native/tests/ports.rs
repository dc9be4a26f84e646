//! Channels of packets, served by the function `ports` in its real process. What its thread
//! does with frames is tested in services/ports.

use crate::common::{PATIENCE, Service, start_of};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun_packet::layout::header::STATE;
use vfun_packet::layout::{DOWN, UP};
use vfun_packet::{Memory, Receiver, Ring, Sender, WindowMemory};
use vfun_supervise::{Driver, FromService, Open, Place, PortCame, ToService};
use vfun_window::{Access, Bell, Mapping, WriteSpan, memfd};
use vfun_wire::header::HEAP_OFF;
use vfun_wire::kind::ChannelKind;
use vfun_wire::packets::{PacketsShape, RING_OFF, SIDE_OFF};
use vfun_wire::place::ChannelPlace;
use vfun_wire::queues::host_head;
use vfun_wire::range::{Access as Writers, Range};

const RING: u32 = 64 << 10;
/// The handle of the only channel.
const CHANNEL: u64 = 5;

/// A guest with one port, which is ready.
struct Guest {
    window: OwnedFd,
    window_bytes: u64,
    place: Place,
    bells: (Bell, Bell),
    host: WriteSpan,
    sender: Sender<WindowMemory>,
    receiver: Receiver<WindowMemory>,
}

impl Guest {
    fn new() -> Self {
        let side = RING_OFF as u64 + u64::from(RING);
        let (program, host) = (HEAP_OFF as u64, HEAP_OFF as u64 + side);
        let window_bytes = 1 << 20;
        let window = memfd("window", window_bytes).unwrap();
        let map = |off| {
            Mapping::new(&window, off, side as usize, Access::ReadWrite).unwrap().write().unwrap()
        };
        let ranges = [
            Range::new(0, Writers::AppWrites, program, side),
            Range::new(0, Writers::HostWrites, host, side),
        ];
        let shape = PacketsShape::new(RING, 3).shape();
        let place = ChannelPlace::new(ChannelKind::Packets, shape, (1, 1), &ranges).unwrap();
        let (program, host, ring) = (map(program), map(host), Ring::new(RING.into()).unwrap());
        let bytes = ring.side_bytes() as usize;
        let mine = program.part(SIDE_OFF, bytes).unwrap();
        let theirs = host.part(SIDE_OFF, bytes).unwrap().reader();
        let memory = WindowMemory::of_sides(mine, theirs);
        memory.store(STATE, UP, Ordering::Release);
        Guest {
            window,
            window_bytes,
            place: Place::of(&place),
            bells: (Bell::new().unwrap(), Bell::new().unwrap()),
            host,
            sender: Sender::new(memory.clone(), ring),
            receiver: Receiver::new(memory, ring),
        }
    }

    fn open(&self) -> Open {
        Open {
            channel: CHANNEL,
            app: "kernel".into(),
            vm: Some("one".into()),
            address: None,
            session: 0,
            origin: 0,
            window_bytes: self.window_bytes,
            place: self.place.clone(),
            deadline_ms: 1000,
            calls_per_s: 0,
            wait: 0,
            doorbell: true,
            bell: 7,
            vf: None,
            standby: false,
            port: Some(PortCame { name: "net0".into(), mtu: 1500, switch: false }),
        }
    }

    fn hand(&self, s: &Service, open: Open, tap: &OwnedFd) {
        s.hand_over_with(open, &self.window, Some(&self.bells), &[tap.as_fd()]);
    }

    fn serve(&self, s: &mut Service, tap: &OwnedFd) {
        self.hand(s, self.open(), tap);
        assert_eq!(s.hear(), FromService::Opened { channel: CHANNEL });
        until("it is up", || self.state() == UP);
    }

    fn state(&self) -> u64 {
        self.receiver.memory().load(STATE, Ordering::Acquire)
    }

    fn send(&mut self, frame: &[u8]) {
        self.sender.put(frame).unwrap();
        if self.sender.publish() && self.sender.must_ring() {
            self.bells.0.ring();
        }
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut frame = vec![0; 2000];
        let mut bytes = None;
        until("a frame comes", || {
            bytes = self.receiver.next(&mut frame);
            bytes.is_some()
        });
        self.receiver.take();
        frame.truncate(bytes.unwrap());
        frame
    }

    /// What the service says of the port.
    fn facts(&self) -> [u64; 8] {
        [0, 1, 2, 3, 4, 5, 6, 7].map(|n| self.host.load(host_head::FACTS + n, Ordering::Relaxed))
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// What stands in the place of a tap device, and its outer end, which waits.
fn device() -> (OwnedFd, OwnedFd) {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (tap, outside) = socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    rustix::fs::fcntl_setfl(&tap, rustix::fs::OFlags::NONBLOCK).unwrap();
    let which = rustix::net::sockopt::Timeout::Recv;
    rustix::net::sockopt::set_socket_timeout(&outside, which, Some(PATIENCE)).unwrap();
    (tap, outside)
}

fn received(outside: &OwnedFd) -> Vec<u8> {
    let mut frame = vec![0; 2000];
    let bytes = rustix::io::read(outside, &mut frame).unwrap();
    frame.truncate(bytes);
    frame
}

fn ports() -> Service {
    Service::start(start_of("ports", Driver::Ports))
}

/// Ticks of processor time that the process took.
fn ticks(s: &Service) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", s.child.id())).unwrap();
    let words: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    words[11].parse::<u64>().unwrap() + words[12].parse::<u64>().unwrap()
}

#[test]
fn a_port_goes_on_with_another_process_after_a_kill() {
    let (mut guest, mut n) = (Guest::new(), 0u64);
    let (tap, outside) = device();
    for life in 1..=4u64 {
        let mut s = ports();
        guest.serve(&mut s, &tap);
        for _ in 0..50 {
            let frame = vec![n as u8; 60 + n as usize % 1400];
            guest.send(&frame);
            assert_eq!(received(&outside), frame);
            rustix::io::write(&outside, &frame).unwrap();
            assert_eq!(guest.receive(), frame);
            n += 1;
        }
        // What went to the device counts: also a burst that was sent while nobody was there.
        until("it is shown", || {
            guest.facts()[..4] == {
                let bytes = (0..n).map(|n| 60 + n % 1400).sum::<u64>();
                [n, bytes, n + life - 1, bytes + 100 * (life - 1)]
            }
        });
        assert_eq!(guest.facts()[4..], [0; 4]);
        s.child.kill().unwrap();
        s.child.wait().unwrap();
        assert_eq!(guest.state(), UP, "nobody could say that it is down");
        guest.send(&[7; 100]);
        // The device has it as soon as somebody relays again.
        let mut s = ports();
        guest.serve(&mut s, &tap);
        assert_eq!(received(&outside), [7; 100]);
        let sum = |s: &Guest| s.facts()[2];
        until("it is shown", || sum(&guest) == n + life);
        s.close(CHANNEL);
        assert_eq!(guest.state(), DOWN);
        s.stop();
    }
}

#[test]
fn a_service_whose_ports_are_idle_sleeps() {
    let (mut guest, mut s) = (Guest::new(), ports());
    let (tap, outside) = device();
    guest.serve(&mut s, &tap);
    guest.send(&[1; 100]);
    assert_eq!(received(&outside), [1; 100]);
    // A head that makes no sense, for ever, is no work.
    guest.sender.memory().store(0, 7, Ordering::SeqCst);
    guest.bells.0.ring();
    std::thread::sleep(Duration::from_millis(100));
    let before = ticks(&s);
    std::thread::sleep(Duration::from_secs(1));
    let idle = ticks(&s) - before;
    assert!(idle <= 3, "{idle} ticks of 10 ms in a second");
    // A device that is gone is no work either.
    drop(outside);
    until("it is down", || guest.state() == DOWN);
    let before = ticks(&s);
    std::thread::sleep(Duration::from_secs(1));
    let gone = ticks(&s) - before;
    assert!(gone <= 3, "{gone} ticks of 10 ms in a second");
    s.close(CHANNEL);
    s.stop();
}

#[test]
fn what_is_no_port_is_refused_with_a_sentence() {
    let (guest, (tap, _outside)) = (Guest::new(), device());
    let refused = |s: &mut Service, words: &str| match s.hear() {
        FromService::OpenFailed { channel: CHANNEL, reason } => {
            assert!(reason.contains(words), "{reason}")
        }
        other => panic!("{other:?}"),
    };
    let mut s = Service::of("echo");
    guest.hand(&s, guest.open(), &tap);
    refused(&mut s, "the function echo serves no packets");
    s.stop();
    let mut s = ports();
    let mut open = guest.open();
    open.port = None;
    s.hand_over(open.clone(), &guest.window, Some(&guest.bells));
    refused(&mut s, "a channel of packets came without its port");
    guest.hand(&s, open, &tap);
    refused(&mut s, "5 descriptors came along, 4 were due");
    s.hand_over(guest.open(), &guest.window, Some(&guest.bells));
    refused(&mut s, "4 descriptors came along, 5 were due");
    let mut open = guest.open();
    open.port = Some(PortCame { name: "net0".into(), mtu: 65000, switch: false });
    guest.hand(&s, open, &tap);
    refused(&mut s, "port net0: a ring of 65536 bytes has no room for frames of 65018 bytes");
    let mut open = guest.open();
    open.standby = true;
    let (baton, _other) = device();
    let more = [baton.as_fd(), tap.as_fd()];
    s.hand_over_with(open, &guest.window, Some(&guest.bells), &more);
    refused(&mut s, "the function ports does not serve channels of packets");
    rustix::fs::fcntl_setfl(&tap, rustix::fs::OFlags::empty()).unwrap();
    guest.hand(&s, guest.open(), &tap);
    refused(&mut s, "the tap device of port net0 is not set to O_NONBLOCK");
    assert_eq!(guest.state(), DOWN);
    s.tell(ToService::Close { channel: CHANNEL });
    s.stop();
}
