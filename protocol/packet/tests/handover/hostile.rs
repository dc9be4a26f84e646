//! A VM whose root writes what it likes into all that it can reach.

use crate::common::plain::{Side, peek, poke};
use crate::handover::memory::RING;
use crate::handover::random::Random;
use vfun_packet::layout::{CONTROL_BYTES, RING_OFF, header};

/// Words that mean something.
const WORDS: [usize; 23] = [
    header::HEAD,
    header::SENT,
    header::FULL,
    header::TAIL,
    header::TAKEN,
    header::BAD,
    header::STATE,
    header::WAKE,
    header::KNOWS,
    header::OUT,
    header::ACK,
    header::MAKING,
    header::HAS_OUT,
    header::IN,
    header::OPEN,
    header::HAS_IN,
    header::LINK_OUT,
    header::TURN,
    header::LINK_IN,
    header::FENCED_LINK,
    header::FENCED,
    RING_OFF / 8,
    RING_OFF / 8 + 8,
];

fn value(random: &mut Random) -> u64 {
    match random.below(6) {
        0 => random.next(),
        1 => random.below(64) * 64,
        2 => 0u64.wrapping_sub(random.below(9000)),
        3 => random.below(6) << 32 | random.below(2100),
        _ => random.below(12),
    }
}

/// A word anywhere, or a record of a link behind the last one.
pub fn write(random: &mut Random, sides: [&Side; 3]) {
    let side = sides[random.below(3) as usize];
    if random.once_in(2) {
        let head = peek(side, header::HEAD) & !63;
        let at = (RING_OFF as u64 + head % RING) as usize / 8;
        let epoch = if random.once_in(4) { value(random) } else { random.below(12) };
        let link = if random.once_in(4) { value(random) } else { crate::handover::world::LINK };
        poke(side, at, (2 + random.below(4)) << 32 | CONTROL_BYTES);
        poke(side, at + 1, epoch);
        poke(side, at + 2, link);
        poke(side, header::HEAD, head.wrapping_add(64));
        return;
    }
    let word = match random.below(3) {
        0 => (RING_OFF as u64 + random.below(RING)) as usize / 8,
        _ => WORDS[random.below(WORDS.len() as u64) as usize],
    };
    poke(side, word, value(random));
}
