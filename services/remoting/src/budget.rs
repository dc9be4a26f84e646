//! What all programs of a client have together. This process serves one client and one API, so that
//! what it counts is theirs: a program alone does not use up what the others need.

use crate::objects::Kind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use vfun_remoting::Refusal;
use vfun_remoting::limits::{CLIENT_LENT_BYTES_MAX, CLIENT_OBJECTS_MAX};

/// Kinds of objects have numbers below this: the generator says so.
const KINDS: usize = 64;

/// One count, and whether the service's log has said that it is used up.
struct Count {
    now: AtomicUsize,
    said: AtomicBool,
}

impl Count {
    const fn none() -> Count {
        Count { now: AtomicUsize::new(0), said: AtomicBool::new(false) }
    }

    fn add(&self, more: usize) -> usize {
        self.now.fetch_add(more, Ordering::Relaxed) + more
    }

    fn give_back(&self, some: usize) {
        self.now.fetch_sub(some, Ordering::Relaxed);
    }

    /// A refusal, which the service's log has once.
    fn refuse(&self, what: &str, most: usize) -> Refusal {
        if !self.said.swap(true, Ordering::Relaxed) {
            eprintln!(
                "the programs of this client have {most} {what} together, and get no more: end some of them, or make them give some back"
            );
        }
        Refusal::Budget
    }
}

static OBJECTS: Count = Count::none();
static BY_KIND: [Count; KINDS] = [const { Count::none() }; KINDS];
static LENT_BYTES: Count = Count::none();

fn count_of(kind: Kind) -> &'static Count {
    &BY_KIND[usize::from(kind) % KINDS]
}

/// The objects of one connection, as they count for its client.
#[derive(Debug)]
pub(crate) struct Share([usize; KINDS]);

impl Default for Share {
    fn default() -> Self {
        Share([0; KINDS])
    }
}

impl Share {
    /// Refused if the client has as many objects as it may have. Programs that ask at the same
    /// time may get one more each.
    pub fn check() -> Result<(), Refusal> {
        match OBJECTS.now.load(Ordering::Relaxed) < CLIENT_OBJECTS_MAX {
            true => Ok(()),
            false => Err(OBJECTS.refuse("objects", CLIENT_OBJECTS_MAX)),
        }
    }

    /// Refused if the client has so many of a kind.
    pub fn check_kind(kind: Kind, most: usize) -> Result<(), Refusal> {
        let count = count_of(kind);
        match count.now.load(Ordering::Relaxed) < most {
            true => Ok(()),
            false => Err(count.refuse("objects of one kind (such as sessions)", most)),
        }
    }

    pub fn add(&mut self, kind: Kind) {
        OBJECTS.add(1);
        count_of(kind).add(1);
        self.0[usize::from(kind) % KINDS] += 1;
    }

    pub fn remove(&mut self, kind: Kind) {
        OBJECTS.give_back(1);
        count_of(kind).give_back(1);
        self.0[usize::from(kind) % KINDS] -= 1;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        for (count, mine) in BY_KIND.iter().zip(self.0) {
            count.give_back(mine);
            OBJECTS.give_back(mine);
        }
    }
}

/// Bytes that a program lends, as they count for its client, as long as this lives.
#[derive(Debug)]
pub(crate) struct LentShare(usize);

impl LentShare {
    pub fn take(bytes: usize) -> Result<LentShare, Refusal> {
        let mine = LentShare(bytes);
        match LENT_BYTES.add(bytes) <= CLIENT_LENT_BYTES_MAX {
            true => Ok(mine),
            false => Err(LENT_BYTES.refuse("lent bytes", CLIENT_LENT_BYTES_MAX)),
        }
    }
}

impl Drop for LentShare {
    fn drop(&mut self) {
        LENT_BYTES.give_back(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_counts_until_it_is_given_back() {
        let half = CLIENT_LENT_BYTES_MAX / 2 + 1;
        let first = LentShare::take(half).expect("there is room");
        assert_eq!(LentShare::take(half).err(), Some(Refusal::Budget));
        drop(first);
        assert!(LentShare::take(half).is_ok());
    }
}
