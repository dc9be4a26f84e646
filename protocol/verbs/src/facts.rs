//! What the NIC says of a program, in the head of its channel of queues: for people, and nothing
//! depends on it.

use vfun_wire::queues::host_head::FACTS_WORDS;

/// What a program has of the NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramFacts {
    /// Where peers reach it.
    pub gid: [u8; 16],
    /// Where peers reach it that know no GID.
    pub lid: u16,
    pub queue_pairs: u32,
    /// Memory regions with a key.
    pub regions: u32,
    /// Bytes of these regions; memory that is in two of them counts twice.
    pub registered_bytes: u64,
    /// Ids of the connection manager.
    pub connections: u32,
    /// Accesses to peers that no key allowed.
    pub wrong_keys: u64,
    /// Messages that nobody took: datagrams, and those of unreliable connections.
    pub dropped: u64,
}

impl ProgramFacts {
    /// As the words of the channel's head.
    pub fn words(&self) -> [u64; FACTS_WORDS] {
        let gid = u128::from_be_bytes(self.gid);
        [
            (gid >> 64) as u64,
            gid as u64,
            u64::from(self.lid),
            u64::from(self.connections) << 32 | u64::from(self.queue_pairs),
            u64::from(self.regions),
            self.registered_bytes,
            self.wrong_keys,
            self.dropped,
        ]
    }

    /// From these words, which may hold anything. `None`: the NIC has said nothing yet.
    pub fn of(words: &[u64; FACTS_WORDS]) -> Option<Self> {
        let [high, low, lid, counts, regions, registered_bytes, wrong_keys, dropped] = *words;
        (lid != 0).then_some(ProgramFacts {
            gid: (u128::from(high) << 64 | u128::from(low)).to_be_bytes(),
            lid: lid as u16,
            queue_pairs: counts as u32,
            connections: (counts >> 32) as u32,
            regions: regions as u32,
            registered_bytes,
            wrong_keys,
            dropped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_was_put_into_them() {
        let facts = ProgramFacts {
            gid: core::array::from_fn(|at| at as u8),
            lid: 0xfedc,
            queue_pairs: 0xffff_ffff,
            regions: 4,
            registered_bytes: 5 << 40,
            connections: 6,
            wrong_keys: 7,
            dropped: 8,
        };
        assert_eq!(ProgramFacts::of(&facts.words()), Some(facts));
        assert_eq!(ProgramFacts::of(&[0; FACTS_WORDS]), None);
    }
}
