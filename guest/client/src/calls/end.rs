//! How a channel ends on this side: before the host may give its memory to
//! others, private memory takes its place. Whoever holds a cell of it still
//! writes there, and posts there, where nobody serves; answers that came before
//! stay to be read, and calls that were not answered end with
//! [`Error::Released`]. So nobody has to be waited for, no call pays for it, and
//! what a program does with an old pointer harms nobody else. In a guest with the
//! kernel module the module does the same for programs that do not.

use super::window::WindowCalls;
use crate::buffer::Over;
use crate::error::{Error, Result};
use std::sync::atomic::Ordering;
use vfun_ring::WindowMemory;
use vfun_window::{OutOfBounds, WriteSpan};
use vfun_wire::LINE;
use vfun_wire::channel::{FLAG_DATA, Word0, Word1, in_header, line_off, spaces_off};
use vfun_wire::status::BreakReason;

/// A channel's two sides, for what is to be kept of them.
pub(super) struct ChannelSides<'a> {
    pub memory: &'a WindowMemory,
    pub depth: usize,
    pub cell_bytes: usize,
}

impl ChannelSides<'_> {
    fn space_off(&self, cell: usize) -> usize {
        spaces_off(self.depth as u16) + cell * self.cell_bytes
    }

    /// Lets go of both. Of the one, keeps the arguments in the cells that are
    /// `lent`; of the other, the answers in those that are `taken`.
    pub fn cut_off(&self, lent: &[usize], taken: &[usize]) -> Result<()> {
        // First the side that this process writes: what is posted from here on
        // goes nowhere.
        let mine = self.memory.mine();
        mine.cut_off(|private| {
            for &cell in lent {
                let _ = private.copy(mine, self.space_off(cell), self.cell_bytes);
            }
        })
        .map_err(Error::Map)?;
        let theirs = self.memory.theirs();
        theirs
            .cut_off(|private| {
                for &cell in taken {
                    // Inside: the memory is as large as its depth and cells say.
                    let _ = self.keep_answer(private, cell);
                }
                let released = u64::from(BreakReason::Released.to_wire());
                private.store(in_header::BROKEN, released, Ordering::Relaxed);
            })
            .map_err(Error::Map)
    }

    /// Copies an answer: its first word first, as who reads it does. One that is
    /// not whole yet does not bear its call's number then.
    fn keep_answer(
        &self,
        private: &WriteSpan,
        cell: usize,
    ) -> std::result::Result<(), OutOfBounds> {
        let theirs = self.memory.theirs();
        let at = line_off(cell) / 8;
        let first = theirs.load(at, Ordering::Acquire);
        private.store(at, first, Ordering::Relaxed);
        private.copy(theirs, line_off(cell) + 8, LINE - 8)?;
        if Word0::unpack(first).flags & FLAG_DATA == 0 {
            return Ok(());
        }
        let len = Word1::unpack(private.load(at + 1, Ordering::Relaxed)).len as usize;
        private.copy(theirs, self.space_off(cell), len.min(self.cell_bytes))
    }
}

impl WindowCalls {
    /// Lets go of the channel's memory and of its buffers', once. What it holds of answers and of lent
    /// cells stays readable.
    pub fn cut_off(&self) -> Result<()> {
        let mut cut = self.cut.lock().unwrap_or_else(|e| e.into_inner());
        if *cut {
            return Ok(());
        }
        self.ended.store(true, Ordering::Release);
        self.buffers.cut_off(Over::Released)?;
        // What nobody will look at is not kept.
        self.abandoned.reap(&self.caller);
        let taken: Vec<_> = self.caller.taken().collect();
        let lent: Vec<_> = self.spaces.iter().flat_map(|s| s.lent()).collect();
        self.sides().cut_off(&lent, &taken)?;
        *cut = true;
        Ok(())
    }
}
