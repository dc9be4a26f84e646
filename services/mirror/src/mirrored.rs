//! A channel of queues with its pairs.

use crate::limits::{ENTRY_BYTES, PAIRS};
use crate::pair::PairEnds;
use crate::request::{Pair, PairRequest};
use vfun_queue::Shape;
use vfun_sdk::DriverError;
use vfun_sdk::service::{ProgramBell, QueuesChannel};
use vfun_wire::PAGE;

/// Code of a pair that there is no room for.
const NO_ROOM: i32 = 1;

/// A channel that is served.
pub(crate) struct Mirrored {
    pub channel: QueuesChannel,
    bell: ProgramBell,
    pairs: Vec<PairEnds>,
    /// Bytes that are given out, of the program's side and of the host's.
    used: (usize, usize),
}

impl Mirrored {
    pub fn new(channel: QueuesChannel) -> Self {
        let bell = channel.bell();
        Mirrored { channel, bell, pairs: vec![], used: (PAGE, PAGE) }
    }

    /// Makes one more pair of queues, behind those that there are.
    pub fn add(&mut self, request: &PairRequest) -> Result<Pair, DriverError> {
        let shape = Shape::new(ENTRY_BYTES as u32, request.depth)
            .map_err(|e| DriverError::bad_args(e.to_string()))?;
        let (entries, taken) = (shape.producer_bytes() as usize, shape.consumer_bytes() as usize);
        let (program, host) = self.used;
        let full = || DriverError::new(NO_ROOM, "the channel has no room for another pair");
        if self.pairs.len() >= PAIRS {
            return Err(full());
        }
        let there = self.channel.memory(host..host + taken, program..program + entries);
        let (host, program) = (host + taken, program + entries);
        let back = self.channel.memory(host..host + entries, program..program + taken);
        let (Ok(there), Ok(back)) = (there, back) else { return Err(full()) };
        let ends = PairEnds::new(there, back, request.depth)
            .map_err(|e| DriverError::bad_args(e.to_string()))?;
        let pair = Pair {
            there: self.used.0 as u64,
            there_taken: self.used.1 as u64,
            back: host as u64,
            back_taken: program as u64,
        };
        self.used = (program + taken, host + entries);
        self.pairs.push(ends);
        Ok(pair)
    }

    /// One turn of each pair: whether anything was there.
    pub fn turn(&mut self) -> bool {
        let mut any = false;
        for pair in &mut self.pairs {
            any |= pair.turn(&self.bell);
        }
        any
    }

    /// Says everywhere that the service sleeps, and fences.
    pub fn declare_sleep(&self) {
        self.pairs.iter().for_each(PairEnds::declare_sleep);
        self.channel.declare_sleep();
    }

    /// Takes that back.
    pub fn declare_awake(&self) {
        self.channel.declare_awake();
        self.pairs.iter().for_each(PairEnds::declare_awake);
    }
}
