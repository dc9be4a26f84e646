//! A pair of queues, the service's ends: what comes in the one goes back in the other.

use crate::limits::{ENTRY_BYTES, TURN};
use vfun_queue::{Broken, Consumer, End, Entry, Producer, ShapeError, WindowMemory};
use vfun_sdk::service::ProgramBell;

/// The service's two ends.
pub(crate) struct PairEnds {
    there: Consumer<WindowMemory, ENTRY_BYTES>,
    back: Producer<WindowMemory, ENTRY_BYTES>,
    /// One of the two is broken: nothing is done any more.
    over: bool,
}

impl PairEnds {
    /// Over memory of the two queues.
    pub fn new(there: WindowMemory, back: WindowMemory, depth: u32) -> Result<Self, ShapeError> {
        let (there, back) = (Consumer::new(there, depth)?, Producer::new(back, depth)?);
        Ok(PairEnds { there, back, over: false })
    }

    /// Sends some entries back: whether there were any.
    pub fn turn(&mut self, bell: &ProgramBell) -> bool {
        if self.over {
            return false;
        }
        match self.send_back() {
            Ok(0) => false,
            Ok(_) => {
                // One ring wakes all threads of the program.
                match self.there.must_ring() || self.back.must_ring() {
                    true => bell.ring(),
                    false => _ = bell.ring_sleeper(),
                }
                true
            }
            Err(_) => {
                self.over = true;
                self.there.close();
                self.back.close();
                bell.ring();
                false
            }
        }
    }

    fn send_back(&mut self) -> Result<usize, Broken> {
        let room = self.back.room(TURN as u64)?.min(TURN as u64) as usize;
        let mut entries = [Entry::default(); TURN];
        let taken = self.there.consume(&mut entries[..room])?;
        self.back.produce(&entries[..taken])
    }

    /// Says at both ends that the service sleeps, and fences.
    pub fn declare_sleep(&self) {
        self.there.declare_sleep();
        self.back.declare_sleep();
    }

    /// Takes that back.
    pub fn declare_awake(&self) {
        self.there.declare_awake();
        self.back.declare_awake();
    }
}
