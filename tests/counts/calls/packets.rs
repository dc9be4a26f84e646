//! Frames through a ring of packets: what the sender of a burst does, and the receiver; and a look in vain.
//! Both on one thread, over real memory.

use crate::scenario;
use vfun_packet::{LinkedReceiver, LinkedSender, Receiver, Ring, Sender, layout};
use vfun_window::{Access, Mapping, WindowMemory, WriteSpan, memfd};

/// Frames of a burst.
const BURST: usize = 32;
/// The longest frame here.
const LONGEST: usize = 1500;

/// Puts a burst in and shows it.
#[inline(never)]
fn put(sender: &mut Sender<WindowMemory>, frame: &[u8]) {
    for _ in 0..BURST {
        sender.put(frame).expect("room");
    }
    sender.publish();
}

/// Takes a burst out and gives its room back.
#[inline(never)]
fn take(receiver: &mut Receiver<WindowMemory>, to: &mut [u8]) -> usize {
    let taken = (0..BURST).map_while(|_| receiver.next(to)).sum();
    receiver.take();
    taken
}

/// The same with ends that may be on a link.
#[inline(never)]
fn put_linked(sender: &mut LinkedSender<WindowMemory>, frame: &[u8]) {
    for _ in 0..BURST {
        sender.put(frame).expect("room");
    }
    sender.publish();
}

#[inline(never)]
fn take_linked(receiver: &mut LinkedReceiver<WindowMemory>, to: &mut [u8]) -> usize {
    let taken = (0..BURST).map_while(|_| receiver.next(to)).sum();
    receiver.take();
    taken
}

/// Finds nothing.
#[inline(never)]
fn look(receiver: &mut Receiver<WindowMemory>, to: &mut [u8]) -> bool {
    receiver.next(to).is_none()
}

/// The sender's side, and the receiver's without its ring.
fn sides(ring: Ring) -> (WriteSpan, WriteSpan) {
    let (side, head) = (ring.side_bytes() as usize, layout::RING_OFF);
    let fd = memfd("packets", (side + head) as u64).expect("memory");
    let map = Mapping::new(&fd, 0, side + head, Access::ReadWrite).expect("mapped");
    let memory = map.write().expect("writable");
    (memory.part(0, side).expect("inside"), memory.part(side, head).expect("inside"))
}

pub fn all() {
    let ring = Ring::new(2 << 20).expect("a ring");
    let (s, r) = sides(ring);
    let mut sender = Sender::new(WindowMemory::of_sides(s.clone(), r.reader()), ring);
    let mut receiver = Receiver::new(WindowMemory::of_sides(r, s.reader()), ring);
    let (frame, mut to) = ([7; LONGEST], [0; LONGEST]);
    for bytes in [64, LONGEST] {
        scenario(&format!("packets, {BURST} frames of {bytes} bytes"), || {
            put(&mut sender, &frame[..bytes]);
            assert_eq!(take(&mut receiver, &mut to), BURST * bytes);
        });
        assert_eq!(to[..bytes], frame[..bytes]);
    }
    scenario("packets, a look at an empty ring", || assert!(look(&mut receiver, &mut to)));
    let (s, r) = sides(ring);
    let mut sender = LinkedSender::new(WindowMemory::of_sides(s.clone(), r.reader()), ring);
    let mut receiver = LinkedReceiver::new(WindowMemory::of_sides(r, s.reader()), ring);
    for bytes in [64, LONGEST] {
        scenario(
            &format!("packets, {BURST} frames of {bytes} bytes that may go over a link"),
            || {
                put_linked(&mut sender, &frame[..bytes]);
                assert_eq!(take_linked(&mut receiver, &mut to), BURST * bytes);
            },
        );
    }
}
