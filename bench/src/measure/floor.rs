//! The floor: two cache lines to and fro between two processors, and nothing else.
//!
//! The function `floor` answers raw lines: the service copies the first word of a line
//! to its own line of the same number as soon as it changes. Its service may sleep when
//! no line comes for a while, and raw lines ring no bell. So a floor is opened just
//! before it is used, and opened anew should its service have fallen asleep before that.

use super::open;
use crate::{BenchError, Result};
use std::hint::black_box;
use std::time::{Duration, Instant};
use vfun::{ChannelKind, Function, FunctionRequest, Session, WindowMemory};
use vfun_ring::Memory;
use vfun_ring::sync::Ordering;
use vfun_window::pause;
use vfun_wire::channel::line_off;

/// How long the first answer may take before the service is taken to be asleep.
const FIRST: Duration = Duration::from_millis(100);
/// How long any other answer may take. (Something is wrong then.)
const LATER: Duration = Duration::from_secs(5);
/// How often to open it anew.
const TRIES: u32 = 20;
/// Looks between two readings of the clock.
const LOOKS: u32 = 1 << 16;

/// A channel of raw lines.
pub struct Floor {
    function: Function,
    next: Vec<u64>,
}

impl Floor {
    /// Opens `lines` lines, a power of two, and waits for the first answer.
    pub fn open(session: &Session, lines: u16) -> Result<Self> {
        let request =
            FunctionRequest::new("floor").kind(ChannelKind::Floor).depth(lines).cell_bytes(0);
        for _ in 0..TRIES {
            let function = open(session, &request)?;
            let mut floor = Floor { function, next: vec![0; lines.into()] };
            if floor.memory().is_none() {
                break;
            }
            for line in 0..lines.into() {
                floor.post(line);
            }
            if (0..lines.into()).all(|line| floor.wait(line, FIRST).is_ok()) {
                return Ok(floor);
            }
        }
        Err(BenchError::NoFloor { ms: FIRST.as_millis() as u64, tries: TRIES })
    }

    fn memory(&self) -> Option<&WindowMemory> {
        self.function.floor()
    }

    #[inline]
    fn post(&mut self, line: usize) {
        self.next[line] += 1;
        if let Some(memory) = self.function.floor() {
            memory.store(line_off(line) / 8, self.next[line], Ordering::Release);
        }
    }

    #[inline]
    fn wait(&self, line: usize, limit: Duration) -> Result<()> {
        let (Some(memory), wanted) = (self.memory(), self.next[line]) else { return Ok(()) };
        let at = line_off(line) / 8;
        let mut looks = 0;
        while memory.load(at, Ordering::Acquire) != wanted {
            pause();
            looks += 1;
            if looks == LOOKS {
                return Self::wait_long(memory, at, wanted, limit);
            }
        }
        Ok(())
    }

    #[cold]
    fn wait_long(memory: &WindowMemory, at: usize, wanted: u64, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < limit {
            for _ in 0..LOOKS {
                if black_box(memory.load(at, Ordering::Acquire)) == wanted {
                    return Ok(());
                }
                pause();
            }
        }
        Err(BenchError::NoFloor { ms: limit.as_millis() as u64, tries: 1 })
    }

    /// One round trip of one line.
    #[inline]
    pub fn trip(&mut self) -> Result<()> {
        self.post(0);
        self.wait(0, LATER)
    }

    /// Waits for each line in turn and sends it off again: so many lines are under way
    /// all the time.
    #[inline]
    pub fn turn(&mut self) -> Result<()> {
        for line in 0..self.next.len() {
            self.wait(line, LATER)?;
            self.post(line);
        }
        Ok(())
    }
}
