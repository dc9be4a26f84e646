//! The floor: two cache lines to and fro between two processors, and nothing else.
//!
//! The function `floor` answers raw lines: the service copies the first word of a line
//! to its own line of the same number as soon as it changes. Its service sleeps when no
//! line comes for a while, and raw lines ring no bell. So a floor is opened just before
//! it is used, and opened anew if its service has fallen asleep: on a busy machine this
//! thread may have been kept from running for that long. The line that was under way
//! then has taken as long as that, like any call that was held up.

use super::open;
use crate::{BenchError, Result};
use std::time::{Duration, Instant};
use vfun::{ChannelKind, Function, FunctionRequest, Session};
use vfun_ring::Memory;
use vfun_ring::sync::Ordering;
use vfun_window::pause;
use vfun_wire::channel::line_off;

/// How long an answer may take before the service is taken to be asleep: a little longer
/// than it spins. Where it has no bell to sleep on it looks again by itself, and only one
/// that is gone stays silent.
const ASLEEP: Duration = Duration::from_millis(3);
const GONE: Duration = Duration::from_millis(100);
/// How often to open it anew for one answer.
const TRIES: u32 = 50;
/// Looks between two readings of the clock.
const LOOKS: u32 = 1 << 14;

/// A channel of raw lines.
pub struct Floor<'a> {
    session: &'a Session,
    /// Always there but while it is opened anew.
    function: Option<Function>,
    sent: Vec<u64>,
    opened: u32,
}

impl<'a> Floor<'a> {
    /// Opens `lines` lines, a power of two, and sends each once.
    pub fn open(session: &'a Session, lines: u16) -> Result<Self> {
        let mut floor = Floor { session, function: None, sent: vec![0; lines.into()], opened: 0 };
        floor.open_anew()?;
        for line in 0..floor.sent.len() {
            floor.wait(line)?;
        }
        Ok(floor)
    }

    #[cold]
    fn open_anew(&mut self) -> Result<()> {
        // First: the old one's room goes back.
        self.function = None;
        let request = FunctionRequest::new("floor")
            .kind(ChannelKind::Floor)
            .depth(self.sent.len() as u16)
            .cell_bytes(0);
        self.function = Some(open(self.session, &request)?);
        self.opened += 1;
        self.sent.fill(0);
        (0..self.sent.len()).for_each(|line| self.send(line));
        Ok(())
    }

    #[inline]
    fn send(&mut self, line: usize) {
        self.sent[line] += 1;
        if let Some(memory) = self.function.as_ref().and_then(Function::floor) {
            memory.store(line_off(line) / 8, self.sent[line], Ordering::Release);
        }
    }

    /// Looks for a line's answer, for a while.
    #[inline]
    fn look(&self, line: usize) -> bool {
        let Some(memory) = self.function.as_ref().and_then(Function::floor) else { return false };
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
        let mut patience = if self.session.info().doorbell { ASLEEP } else { GONE };
        for _ in 0..TRIES {
            let start = Instant::now();
            while start.elapsed() < patience {
                if self.look(line) {
                    return Ok(());
                }
            }
            self.open_anew()?;
            // Neither asleep nor gone, but on a processor that others have.
            patience = (patience * 2).min(GONE);
        }
        Err(BenchError::NoFloor { ms: patience.as_millis() as u64, tries: TRIES })
    }

    /// How often it was opened: more than before if its service fell asleep since.
    pub fn opened(&self) -> u32 {
        self.opened
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
