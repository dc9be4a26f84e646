//! A ring of packets over loom's atomics.

use vfun_packet::layout::{RING_OFF, header};
use vfun_packet::{Memory, Receiver, Ring, Sender};

pub use self::loomed::{Bell, Weak};
use self::loomed::{Loomed, side};

#[allow(dead_code, reason = "another model needs all of it")]
#[path = "../../../window/tests/common/loomed.rs"]
pub mod loomed;

pub type Ends = (Sender<Loomed>, Receiver<Loomed>);

/// Both ends of a ring with room for what these tests send.
pub fn ends(weak: Weak) -> Ends {
    let ring = Ring::new(vfun_packet::limits::RING_MIN).unwrap();
    let is_published = |index| index == header::HEAD;
    // Three records of a line each, of which four words are used.
    let records = (0..3).flat_map(|r| (0..4).map(move |w| RING_OFF / 8 + 8 * r + w));
    let sender = side(records.chain([header::HEAD]), 0..RING_OFF / 8);
    let receiver = side([header::TAIL, header::WAKE], 0..RING_OFF / 8);
    let out = Loomed { mine: sender.clone(), theirs: receiver.clone(), weak, is_published };
    let inn = Loomed { mine: receiver, theirs: sender, weak, is_published };
    (Sender::new(out, ring), Receiver::new(inn, ring))
}
