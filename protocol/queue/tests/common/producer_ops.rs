//! Operations of a consumer, honest or hostile, and of the producer under
//! test, with what must hold after each.

use super::memory::*;
use vfun_queue::layout::{header, stamp};
use vfun_queue::{Broken, End, Producer, Reason, Shape};

/// One step. Places are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Produce {
        count: u16,
        seed: u64,
    },
    /// The consumer's count, so many beyond what it is known to be.
    Count {
        ahead: u64,
    },
    /// Any word of the consumer's side.
    Poke {
        index: u32,
        value: u64,
    },
    /// Any word of the producer's side, which a guest's root can reach on some
    /// transports.
    PokeOwn {
        index: u32,
        value: u64,
    },
    End {
        reason: u64,
    },
    Room {
        wanted: u16,
    },
    Ready {
        hard: bool,
    },
    Sleep,
    /// The next producer takes the queue up.
    TakeUp,
}

/// The producer under test and what it must do.
pub struct ProducerModel<const N: usize> {
    pub producer: Side,
    pub consumer: Side,
    end: Producer<Plain, N>,
    depth: u32,
    produced: u64,
    known: u64,
    broken: Option<Broken>,
}

impl<const N: usize> ProducerModel<N> {
    pub fn new(depth: u32) -> Self {
        let (producer, consumer) = sides(Shape::new(N as u32, depth).unwrap());
        let mem = Plain { mine: producer.clone(), theirs: consumer.clone() };
        let end = Producer::new(mem, depth).unwrap();
        ProducerModel { producer, consumer, end, depth, produced: 0, known: 0, broken: None }
    }

    /// What the room must be, and breaks the model's queue where it must break.
    fn room(&mut self, wanted: u64) -> Result<u64, Broken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let depth = u64::from(self.depth);
        let in_use = |known: u64, produced: u64| produced.wrapping_sub(known);
        if depth - in_use(self.known, self.produced) >= wanted {
            return Ok(depth - in_use(self.known, self.produced));
        }
        let found = peek(&self.consumer, header::POSITION);
        // Only what lies between what was known and what was produced makes sense.
        if in_use(self.known, found) > in_use(self.known, self.produced) {
            let broken = Broken::Count { known: self.known, produced: self.produced, found };
            self.broken = Some(broken);
            return Err(broken);
        }
        self.known = found;
        Ok(depth - in_use(found, self.produced))
    }

    pub fn step(&mut self, op: Op) {
        let ours = [Op::Sleep, Op::TakeUp].map(|o| std::mem::discriminant(&o));
        let theirs = match op {
            Op::Produce { .. } | Op::Room { .. } | Op::Ready { .. } => Some(all(&self.consumer)),
            _ => ours.contains(&std::mem::discriminant(&op)).then(|| all(&self.consumer)),
        };
        match op {
            Op::Produce { count, seed } => self.produce(count.into(), seed),
            Op::Count { ahead } => {
                poke(&self.consumer, header::POSITION, self.known.wrapping_add(ahead));
            }
            Op::Poke { index, value } => {
                poke(&self.consumer, index as usize % self.consumer.len(), value);
            }
            Op::PokeOwn { index, value } => {
                poke(&self.producer, index as usize % self.producer.len(), value);
            }
            Op::End { reason } => poke(&self.consumer, header::BROKEN, reason),
            Op::Room { wanted } => {
                let expected = self.room(wanted.into());
                assert_eq!(self.end.room(wanted.into()), expected);
            }
            Op::Ready { hard } => {
                let mut expected = self.room(1).map(|room| room > 0);
                let reason = Reason::from_wire(peek(&self.consumer, header::BROKEN));
                if let (Ok(false), true, Some(reason)) = (expected, hard, reason) {
                    self.broken = Some(Broken::Ended(reason));
                    expected = Err(Broken::Ended(reason));
                }
                assert_eq!(self.end.ready(hard), expected);
            }
            Op::Sleep => {
                self.end.declare_sleep();
                assert_eq!(peek(&self.producer, header::SLEEPS), 1);
                let asleep = peek(&self.consumer, header::SLEEPS) != 0;
                assert_eq!(self.end.must_ring(), asleep);
                self.end.declare_awake();
                assert_eq!(peek(&self.producer, header::SLEEPS), 0);
            }
            Op::TakeUp => self.take_up(),
        }
        assert!(theirs.is_none_or(|t| t == all(&self.consumer)), "the producer wrote there");
    }

    fn produce(&mut self, count: usize, seed: u64) {
        let entries: Vec<_> = (0..count as u64).map(|i| entry::<N>(seed ^ i)).collect();
        let served = self.broken.is_none();
        let expected = self.room(count as u64).map(|room| count.min(room as usize));
        let mut memory = all(&self.producer);
        assert_eq!(self.end.produce(&entries), expected);
        if let Ok(count) = expected {
            for (i, e) in entries[..count].iter().enumerate() {
                let position = self.produced.wrapping_add(i as u64);
                assert_eq!(
                    standing::<N>(&self.producer, position, self.depth),
                    (stamp(position), *e)
                );
                let from = at::<N>(position, self.depth);
                (from..from + N / 8).for_each(|w| memory[w] = peek(&self.producer, w));
            }
            self.produced = self.produced.wrapping_add(count as u64);
            if count > 0 {
                memory[header::POSITION] = self.produced;
            }
        } else if served {
            memory[header::BROKEN] = Reason::BadCount.to_wire();
        }
        let other = (0..memory.len()).find(|&w| memory[w] != peek(&self.producer, w));
        assert_eq!(other, None, "a word was written that should not be");
        assert_eq!(self.end.produced(), self.produced);
    }

    /// What was published stays; what bears the number of an entry to come does
    /// not bear it afterwards.
    fn take_up(&mut self) {
        let mem = Plain { mine: self.producer.clone(), theirs: self.consumer.clone() };
        self.end = Producer::new(mem, self.depth).unwrap();
        let noted = self.end.produced();
        for ahead in 0..u64::from(self.depth) {
            let position = noted.wrapping_add(ahead);
            let found = standing::<N>(&self.producer, position, self.depth).0;
            // After a whole lap of hostile numbers the head may bear its own.
            assert!(ahead == 0 || found != stamp(position), "{position} would be valid too soon");
        }
        assert_eq!(peek(&self.producer, header::POSITION), noted);
        assert_eq!(peek(&self.producer, header::SLEEPS), 0);
        self.produced = noted;
        self.known = noted.saturating_sub(self.depth.into());
        self.broken = None;
    }
}
