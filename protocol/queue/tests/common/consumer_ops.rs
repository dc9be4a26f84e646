//! Operations of a producer, honest or hostile, and of the consumer under
//! test, with what must hold after each.

use super::memory::*;
use vfun_queue::layout::{header, stamp};
use vfun_queue::{Broken, Consumer, End, Entry, Reason, Shape};

/// One step. Places are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// The entry `ahead` of the consumer's position, its stamp `off` from right.
    Put {
        ahead: u32,
        off: u32,
        fill: u64,
    },
    /// Any word of the producer's side.
    Poke {
        index: u32,
        value: u64,
    },
    /// Any word of the consumer's side, which a guest's root can reach on some
    /// transports.
    PokeOwn {
        index: u32,
        value: u64,
    },
    /// The producer ends the queue.
    End {
        reason: u64,
    },
    Consume {
        most: u16,
    },
    Ready {
        hard: bool,
    },
    Sleep,
    /// The next consumer takes the queue up.
    TakeUp,
}

/// The consumer under test and what it must do.
pub struct ConsumerModel<const N: usize> {
    pub producer: Side,
    pub consumer: Side,
    end: Consumer<Plain, N>,
    depth: u32,
    consumed: u64,
    broken: Option<Broken>,
}

/// What an honest reader makes of the entry whose turn it is.
#[derive(PartialEq, Debug)]
enum Judged {
    There,
    NotYet,
    Nonsense(u32),
}

impl<const N: usize> ConsumerModel<N> {
    pub fn new(depth: u32) -> Self {
        let (producer, consumer) = sides(Shape::new(N as u32, depth).unwrap());
        let mem = Plain { mine: consumer.clone(), theirs: producer.clone() };
        let end = Consumer::new(mem, depth).unwrap();
        ConsumerModel { producer, consumer, end, depth, consumed: 0, broken: None }
    }

    fn judge(&self, position: u64) -> Judged {
        let found = standing::<N>(&self.producer, position, self.depth).0;
        let lap_before = match position.checked_sub(self.depth.into()) {
            Some(before) => stamp(before),
            None => 0,
        };
        match found {
            n if n == stamp(position) => Judged::There,
            n if n == lap_before => Judged::NotYet,
            n => Judged::Nonsense(n),
        }
    }

    /// What a look must give, and breaks the model's queue where it must break.
    fn judge_head(&mut self) -> Result<bool, Broken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        match self.judge(self.consumed) {
            Judged::There => Ok(true),
            Judged::NotYet => Ok(false),
            Judged::Nonsense(found) => {
                let broken = Broken::Stamp { position: self.consumed, found };
                self.broken = Some(broken);
                Err(broken)
            }
        }
    }

    pub fn step(&mut self, op: Op) {
        let theirs = matches!(op, Op::Consume { .. } | Op::Ready { .. } | Op::Sleep | Op::TakeUp)
            .then(|| all(&self.producer));
        match op {
            Op::Put { ahead, off, fill } => {
                let position = self.consumed.wrapping_add((ahead % (2 * self.depth)).into());
                let from = at::<N>(position, self.depth);
                for w in 1..N / 8 {
                    poke(&self.producer, from + w, fill.rotate_left(w as u32));
                }
                let number = stamp(position).wrapping_add(off);
                poke(&self.producer, from, fill << 32 | u64::from(number));
            }
            Op::Poke { index, value } => {
                poke(&self.producer, index as usize % self.producer.len(), value);
            }
            Op::PokeOwn { index, value } => {
                poke(&self.consumer, index as usize % self.consumer.len(), value);
            }
            Op::End { reason } => poke(&self.producer, header::BROKEN, reason),
            Op::Consume { most } => self.consume(most.into()),
            Op::Ready { hard } => self.ready(hard),
            Op::Sleep => {
                self.end.declare_sleep();
                assert_eq!(peek(&self.consumer, header::SLEEPS), 1);
                let asleep = peek(&self.producer, header::SLEEPS) != 0;
                assert_eq!(self.end.must_ring(), asleep);
                self.end.declare_awake();
                assert_eq!(peek(&self.consumer, header::SLEEPS), 0);
            }
            Op::TakeUp => self.take_up(),
        }
        assert!(theirs.is_none_or(|t| t == all(&self.producer)), "the consumer wrote there");
    }

    fn consume(&mut self, most: usize) {
        let (position, served) = (self.consumed, self.broken.is_none());
        let mut got = vec![entry::<N>(!0); most];
        let expected = match (self.broken, most) {
            (Some(broken), _) => Err(broken),
            (None, 0) => Ok(0),
            _ => self.judge_head().map(|there| {
                let there = if there { most } else { 0 };
                let ok = |i: &usize| self.judge(position.wrapping_add(*i as u64)) == Judged::There;
                (0..there).take_while(ok).count()
            }),
        };
        // One alone is copied first and counted then, every second time.
        let found = match &mut got[..] {
            [one] if position % 2 == 1 => self.end.copy_next().map(|got| {
                got.map_or(0, |got| {
                    *one = got;
                    1
                })
            }),
            all => self.end.consume(all),
        };
        assert_eq!(found, expected);
        if self.end.consumed() == position && expected == Ok(1) {
            self.end.count();
        }
        match expected {
            Ok(count) => {
                for (i, found) in got[..count].iter().enumerate() {
                    let at = position.wrapping_add(i as u64);
                    assert_eq!(*found, standing::<N>(&self.producer, at, self.depth).1);
                }
                assert!(got[count..].iter().all(|e| *e == entry::<N>(!0)), "more than was said");
                self.consumed = position.wrapping_add(count as u64);
                if count > 0 {
                    assert_eq!(peek(&self.consumer, header::POSITION), self.consumed);
                }
            }
            Err(_) if served => {
                let told = peek(&self.consumer, header::BROKEN);
                assert_eq!(told, Reason::BadStamp.to_wire(), "the producer is told");
            }
            Err(_) => {}
        }
        assert_eq!(self.end.consumed(), self.consumed);
    }

    fn ready(&mut self, hard: bool) {
        let mut expected = self.judge_head();
        let reason = Reason::from_wire(peek(&self.producer, header::BROKEN));
        if let (Ok(false), true, Some(reason)) = (expected, hard, reason) {
            self.broken = Some(Broken::Ended(reason));
            expected = Err(Broken::Ended(reason));
        }
        assert_eq!(self.end.ready(hard), expected);
    }

    fn take_up(&mut self) {
        let mem = Plain { mine: self.consumer.clone(), theirs: self.producer.clone() };
        self.end = Consumer::new(mem, self.depth).unwrap();
        self.consumed = peek(&self.consumer, header::POSITION);
        self.broken = None;
        assert_eq!(self.end.consumed(), self.consumed);
        assert_eq!(peek(&self.consumer, header::SLEEPS), 0);
    }
}

/// What a consumer hands out is private: nothing is borrowed from the window.
const _: fn(&mut Consumer<Plain, 16>, &mut [Entry<16>]) -> Result<usize, Broken> =
    Consumer::consume;
