//! The floor: two cache lines to and fro between two processors, and nothing else.
//!
//! The function `floor` answers raw lines: the service copies the first word of a line
//! to its own line of the same number as soon as it changes. Its service sleeps when no
//! line comes for a while, and sending one rings nobody. On a busy machine this thread
//! may have been kept from running for that long: where an answer stays out, the service
//! is woken. The line that was under way then has taken as long as that, like any call
//! that was held up.

use super::open;
use crate::{BenchError, Result};
use std::time::{Duration, Instant};
use vfun::{ChannelKind, Function, FunctionRequest, Session};
use vfun_ring::sync::Ordering;
use vfun_ring::{Memory, WindowMemory};
use vfun_window::pause;
use vfun_wire::channel::line_off;

/// How long a line may stay unanswered. Whoever answers is woken where it sleeps and
/// may have to wait for its processor; only one that is gone stays silent for so long.
pub(super) const GONE: Duration = Duration::from_secs(10);
/// An answer that stays out for longer was held up: its service slept, or had no
/// processor. A little longer than the service looks for lines before it sleeps.
const HELD_UP: Duration = Duration::from_millis(3);
/// Looks between two readings of the clock.
const LOOKS: u32 = 1 << 14;

/// A channel of raw lines.
pub struct Floor {
    function: Function,
    sent: Vec<u64>,
    held_up: u32,
}

impl Floor {
    /// Opens `lines` lines, a power of two, and sends each once.
    pub fn open(session: &Session, lines: u16) -> Result<Self> {
        let request =
            FunctionRequest::new("floor").kind(ChannelKind::Floor).depth(lines).cell_bytes(0);
        let function = open(session, &request)?;
        let mut floor = Floor { function, sent: vec![0; lines.into()], held_up: 0 };
        (0..floor.sent.len()).for_each(|line| floor.send(line));
        for line in 0..floor.sent.len() {
            floor.wait(line)?;
        }
        Ok(floor)
    }

    /// The lines, and the word that was sent last on the first, for somebody else who
    /// sends from now on.
    pub(super) fn lend(&self) -> Option<(&WindowMemory, u64)> {
        Some((self.lines()?, *self.sent.first()?))
    }

    /// Whether lines are answered still; wakes who answers them.
    pub(super) fn nudge(&self) -> Result<()> {
        self.function.check_floor()?;
        self.function.wake_floor();
        Ok(())
    }

    #[inline]
    fn lines(&self) -> Option<&WindowMemory> {
        self.function.floor()
    }

    #[inline]
    fn send(&mut self, line: usize) {
        self.sent[line] += 1;
        if let Some(memory) = self.lines() {
            memory.store(line_off(line) / 8, self.sent[line], Ordering::Release);
        }
    }

    /// Looks for a line's answer, for a while.
    #[inline]
    fn look(&self, line: usize) -> bool {
        let Some(memory) = self.lines() else { return false };
        let (at, wanted) = (line_off(line) / 8, self.sent[line]);
        for _ in 0..LOOKS {
            if memory.load(at, Ordering::Acquire) == wanted {
                return true;
            }
            pause();
        }
        false
    }

    #[inline]
    fn wait(&mut self, line: usize) -> Result<()> {
        if self.look(line) { Ok(()) } else { self.wait_long(line) }
    }

    #[cold]
    fn wait_long(&mut self, line: usize) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < GONE {
            self.nudge()?;
            if self.look(line) {
                self.held_up += u32::from(start.elapsed() > HELD_UP);
                return Ok(());
            }
            // Two on one processor: the other one's turn.
            std::thread::yield_now();
        }
        Err(BenchError::NoFloor { seconds: GONE.as_secs() })
    }

    /// How often an answer stayed out for milliseconds.
    pub fn held_up(&self) -> u32 {
        self.held_up
    }

    /// One round trip of one line.
    #[inline]
    pub fn trip(&mut self) -> Result<()> {
        self.send(0);
        self.wait(0)
    }

    /// Waits for each line in turn and sends it off again: so many lines are under way
    /// all the time.
    #[inline]
    pub fn turn(&mut self) -> Result<()> {
        for line in 0..self.sent.len() {
            self.wait(line)?;
            self.send(line);
        }
        Ok(())
    }
}
