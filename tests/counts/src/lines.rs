//! A channel's memory that counts the lines that move.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use vfun_ring::Memory;
use vfun_ring::sync::Ordering;
use vfun_wire::{LINE, LINE_WORDS};

/// Who looks at the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The app, which writes `dataout`.
    Caller,
    /// The service, which writes `datain`.
    Server,
}

/// Both sides' pages, and who has copies of their lines.
pub struct Lines {
    /// `dataout` and `datain`.
    words: [RefCell<Vec<u64>>; 2],
    /// Of each line the sides that have a copy, a bit each.
    copies: [RefCell<Vec<u8>>; 2],
    moved: Cell<u64>,
}

impl Lines {
    /// Two sides of `bytes` each, all zero, with no copy anywhere.
    pub fn new(bytes: usize) -> Rc<Lines> {
        let words = || RefCell::new(vec![0; bytes / 8]);
        let copies = || RefCell::new(vec![0; bytes.div_ceil(LINE)]);
        Rc::new(Lines {
            words: [words(), words()],
            copies: [copies(), copies()],
            moved: Cell::new(0),
        })
    }

    /// Lines that moved so far.
    pub fn moved(&self) -> u64 {
        self.moved.get()
    }

    fn touch(&self, who: Side, area: Side, line: usize, writes: bool) {
        let (mine, copies) = (1 << who as u8, &mut self.copies[area as usize].borrow_mut()[line]);
        if *copies & mine == 0 {
            self.moved.set(self.moved.get() + 1);
        }
        *copies = if writes { mine } else { *copies | mine };
    }
}

/// The memory as one side has it.
#[derive(Clone)]
pub struct View {
    lines: Rc<Lines>,
    me: Side,
}

impl View {
    /// What `me` sees of `lines`.
    pub fn new(lines: &Rc<Lines>, me: Side) -> View {
        View { lines: lines.clone(), me }
    }

    fn peer(&self) -> Side {
        match self.me {
            Side::Caller => Side::Server,
            Side::Server => Side::Caller,
        }
    }

    fn change(&self, index: usize, change: impl FnOnce(u64) -> u64) -> u64 {
        self.lines.touch(self.me, self.me, index / LINE_WORDS, true);
        let word = &mut self.lines.words[self.me as usize].borrow_mut()[index];
        std::mem::replace(word, change(*word))
    }

    /// Copies `len` bytes at `off` out of the peer's pages; counts their lines alone.
    pub fn read_bytes(&self, off: usize, len: usize) {
        for line in off / LINE..(off + len).div_ceil(LINE) {
            self.lines.touch(self.me, self.peer(), line, false);
        }
    }

    /// Copies `len` bytes into this side's pages at `off`; counts their lines alone.
    pub fn write_bytes(&self, off: usize, len: usize) {
        for line in off / LINE..(off + len).div_ceil(LINE) {
            self.lines.touch(self.me, self.me, line, true);
        }
    }
}

impl Memory for View {
    fn load(&self, index: usize, _: Ordering) -> u64 {
        self.lines.touch(self.me, self.peer(), index / LINE_WORDS, false);
        self.lines.words[self.peer() as usize].borrow()[index]
    }
    fn store(&self, index: usize, value: u64, _: Ordering) {
        self.change(index, |_| value);
    }
    fn load_own(&self, index: usize, _: Ordering) -> u64 {
        self.lines.touch(self.me, self.me, index / LINE_WORDS, false);
        self.lines.words[self.me as usize].borrow()[index]
    }
    fn add_own(&self, index: usize, value: u64, _: Ordering) -> u64 {
        self.change(index, |old| old.wrapping_add(value))
    }
    fn sub_own(&self, index: usize, value: u64, _: Ordering) -> u64 {
        self.change(index, |old| old.wrapping_sub(value))
    }
    fn prefetch(&self, index: usize) {
        self.lines.touch(self.me, self.peer(), index / LINE_WORDS, false);
    }
}
