//! What a call of the function asks, and what it is answered.

/// Asks for a pair of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairRequest {
    /// Handle of the channel of queues.
    pub channel: u64,
    /// The token that the program wrote into it.
    pub token: [u64; 2],
    /// Entries of each of the two queues, a power of two.
    pub depth: u32,
}

/// Where a pair of queues lies: bytes from the start of the side that each part is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The queue to the service: its producer's side, in the program's side.
    pub there: u64,
    /// Its consumer's side, in the host's side.
    pub there_taken: u64,
    /// The queue back: its producer's side, in the host's side.
    pub back: u64,
    /// Its consumer's side, in the program's side.
    pub back_taken: u64,
}

impl PairRequest {
    /// Bytes of it.
    pub const BYTES: usize = 32;

    /// As the arguments of a call.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let words = [self.channel, self.token[0], self.token[1], self.depth.into()];
        to_bytes(words)
    }

    /// From arguments; `None` if they are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let [channel, low, high, depth] = from_bytes(bytes)?;
        Some(PairRequest { channel, token: [low, high], depth: u32::try_from(depth).ok()? })
    }
}

impl Pair {
    /// Bytes of it.
    pub const BYTES: usize = 32;

    /// As the results of a call.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        to_bytes([self.there, self.there_taken, self.back, self.back_taken])
    }

    /// From results; `None` if they are none. Whether it lies inside of the channel is not
    /// looked at.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let [there, there_taken, back, back_taken] = from_bytes(bytes)?;
        Some(Pair { there, there_taken, back, back_taken })
    }
}

fn to_bytes(words: [u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    bytes
}

fn from_bytes(bytes: &[u8]) -> Option<[u64; 4]> {
    match bytes.as_chunks::<8>() {
        ([a, b, c, d], []) => Some([a, b, c, d].map(|word| u64::from_le_bytes(*word))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_survive_their_bytes_and_nothing_else_is_one() {
        let request = PairRequest { channel: 7, token: [1, u64::MAX], depth: 1 << 16 };
        assert_eq!(PairRequest::from_bytes(&request.to_bytes()), Some(request));
        let pair = Pair { there: 4096, there_taken: 8192, back: 12288, back_taken: 1 << 40 };
        assert_eq!(Pair::from_bytes(&pair.to_bytes()), Some(pair));
        assert_eq!(PairRequest::from_bytes(&[0; 31]), None);
        assert_eq!(PairRequest::from_bytes(&[0; 40]), None);
        let mut deep = request.to_bytes();
        deep[28] = 1;
        assert_eq!(PairRequest::from_bytes(&deep), None, "a depth beyond 32 bits");
    }
}
