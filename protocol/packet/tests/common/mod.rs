//! Both ends of a ring in this process's memory, and what may be done to them.

pub use self::plain::{Plain, Side, poke};
use vfun_packet::{Memory, NOTE_HEADER, Note, Receiver, Ring, Sender};

#[allow(dead_code, reason = "one of the tests needs all")]
#[path = "../../../window/tests/common/plain.rs"]
pub mod plain;

/// The ring of these tests: the smallest, so that its end comes soon.
pub const RING: u64 = vfun_packet::limits::RING_MIN;
/// The sender's side, and the receiver's without its ring.
#[allow(dead_code, reason = "one of the tests needs it")]
pub const BYTES: usize = 2 * 4096 + RING as usize;

#[derive(Clone, Copy, Debug)]
pub enum Op {
    Put {
        bytes: u32,
        seed: u32,
    },
    /// The same with a note.
    PutNoted {
        bytes: u32,
        seed: u32,
    },
    Publish,
    MustRing,
    Get {
        room: u32,
    },
    /// The same of a party that takes notes.
    GetNoted {
        room: u32,
    },
    Take,
    Sleep,
    PokeSender {
        at: u32,
        value: u64,
    },
    PokeReceiver {
        at: u32,
        value: u64,
    },
    TakeUpSender,
    TakeUpReceiver,
}

impl Op {
    /// As the C program reads it.
    #[allow(dead_code, reason = "one of the tests needs it")]
    pub fn line(&self) -> String {
        let (op, a, b) = match *self {
            Op::Put { bytes, seed } => ('p', bytes, seed.into()),
            Op::PutNoted { bytes, seed } => ('P', bytes, seed.into()),
            Op::GetNoted { room } => ('G', room, 0),
            Op::Publish => ('u', 0, 0),
            Op::MustRing => ('r', 0, 0),
            Op::Get { room } => ('g', room, 0),
            Op::Take => ('t', 0, 0),
            Op::Sleep => ('s', 0, 0),
            Op::PokeSender { at, value } => ('S', at, value),
            Op::PokeReceiver { at, value } => ('R', at, value),
            Op::TakeUpSender => ('T', 0, 0),
            Op::TakeUpReceiver => ('U', 0, 0),
        };
        format!("{op} {a} {b}\n")
    }
}

/// A frame that no other seed has.
pub fn frame(bytes: u32, seed: u32) -> Vec<u8> {
    (0..bytes.min(1 << 20)).map(|i| seed.wrapping_add(i) as u8).collect()
}

/// The note of the frame with this seed.
pub fn note(seed: u32) -> Note {
    let mut header = [0; NOTE_HEADER];
    for (n, byte) in header.iter_mut().enumerate() {
        *byte = (seed >> (n % 4 * 8)) as u8 ^ n as u8;
    }
    Note::new(header)
}

pub fn sum(frame: &[u8]) -> u32 {
    frame.iter().fold(0u32, |sum, b| sum.wrapping_mul(31).wrapping_add(u32::from(*b)))
}

pub struct Pair {
    pub sender_side: Side,
    pub receiver_side: Side,
    pub tx: Sender<Plain>,
    pub rx: Receiver<Plain>,
}

impl Pair {
    pub fn new() -> Self {
        let ring = Ring::new(RING).unwrap();
        let sender_side = plain::zeroed(ring.side_bytes());
        let receiver_side = plain::zeroed(ring.side_bytes());
        let tx = sender(&sender_side, &receiver_side);
        let rx = receiver(&sender_side, &receiver_side);
        Pair { sender_side, receiver_side, tx, rx }
    }

    /// Does one thing; what came of it.
    pub fn step(&mut self, op: Op) -> String {
        let yes = |is: bool| u8::from(is).to_string();
        match op {
            Op::Put { bytes, seed } => match self.tx.put(&frame(bytes, seed)) {
                Ok(()) => "put".into(),
                Err(_) => "no".into(),
            },
            Op::PutNoted { bytes, seed } => {
                match self.tx.put_noted(&note(seed), &frame(bytes, seed)) {
                    Ok(()) => "put".into(),
                    Err(_) => "no".into(),
                }
            }
            Op::GetNoted { room } => {
                let (mut to, mut note) = (vec![0; room as usize], Note::default());
                match self.rx.next_noted(&mut to, &mut note) {
                    None => "none".into(),
                    Some(bytes) => {
                        let (of_note, of_frame) = (sum(note.header()), sum(&to[..bytes]));
                        format!("got {bytes} {of_frame} note {of_note}")
                    }
                }
            }
            Op::Publish => yes(self.tx.publish()),
            Op::MustRing => yes(self.tx.must_ring()),
            Op::Get { room } => {
                let mut to = vec![0; room as usize];
                match self.rx.next(&mut to) {
                    None => "none".into(),
                    Some(bytes) => format!("got {bytes} {}", sum(&to[..bytes])),
                }
            }
            Op::Take => {
                self.rx.take();
                "-".into()
            }
            Op::Sleep => {
                self.rx.declare_sleep();
                yes(self.rx.is_there())
            }
            Op::PokeSender { at, value } => {
                poke(&self.sender_side, (u64::from(at) % (4096 + RING) / 8) as usize, value);
                "-".into()
            }
            Op::PokeReceiver { at, value } => {
                poke(&self.receiver_side, at as usize % 4096 / 8, value);
                "-".into()
            }
            Op::TakeUpSender => {
                self.tx = sender(&self.sender_side, &self.receiver_side);
                yes(false)
            }
            Op::TakeUpReceiver => {
                self.rx = receiver(&self.sender_side, &self.receiver_side);
                yes(false)
            }
        }
    }

    /// All bytes: the sender's side, and the receiver's header page.
    #[allow(dead_code, reason = "one of the tests needs it")]
    pub fn memory(&self) -> Vec<u8> {
        let receiver = self.receiver_side.iter().take(4096 / 8);
        let words = self.sender_side.iter().chain(receiver);
        words.flat_map(|w| w.load(std::sync::atomic::Ordering::Relaxed).to_le_bytes()).collect()
    }
}

fn sender(sender: &Side, receiver: &Side) -> Sender<Plain> {
    let mem = Plain { mine: sender.clone(), theirs: receiver.clone() };
    Sender::new(mem, Ring::new(RING).unwrap())
}

fn receiver(sender: &Side, receiver: &Side) -> Receiver<Plain> {
    let mem = Plain { mine: receiver.clone(), theirs: sender.clone() };
    Receiver::new(mem, Ring::new(RING).unwrap())
}
