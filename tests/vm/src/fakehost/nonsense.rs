//! The fake host as it lies.

use super::memory::Request;
use super::places::{CHANNELS, PORTS, channel_at, port_at};
use super::{Host, LARGE, Ordering, ring_of};
use vfun_packet::layout::header::{HEAD, STATE, TAIL};
use vfun_packet::layout::{KIND_FRAME, KIND_NOTED, UP};
use vfun_wire::PAGE;
use vfun_wire::channel::in_header;
use vfun_wire::control::{ANSWER_BODY, Posted};
use vfun_wire::header::{ANSWERS_OFF, HEAP_OFF, HOST_STATE_OFF, WindowHeader};
use vfun_wire::packets::{RING_OFF, SIDE_OFF};

impl Host {
    /// A number that nobody can foresee, but the same in each run.
    fn any(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// An answer with something wrong: any length, number, kind, generation,
    /// and a body that is right, cut, or anything.
    pub(super) fn nonsense(&mut self, r: &Request) {
        let mut body = self.answer(r).unwrap_or_default();
        for _ in 0..self.any() % 4 {
            if let Some(n) = (self.any() as usize).checked_rem(body.len()) {
                body[n] = self.any() as u8;
            }
        }
        if self.any().is_multiple_of(4) {
            body = (0..self.any() as usize % ANSWER_BODY).map(|_| self.any() as u8).collect();
        }
        let len = match self.any() % 4 {
            0 => self.any() as u16,
            1 => 0xffff,
            _ => body.len() as u16,
        };
        let seq = if self.any().is_multiple_of(8) { self.any() as u32 } else { r.seq };
        let kind = if self.any().is_multiple_of(4) { self.any() as u16 } else { 0 };
        let generation = if self.any().is_multiple_of(8) { self.any() } else { self.generation };
        self.shared.memory.answer_raw(r.cell, generation, &body, Posted { seq, kind, len });
    }

    /// A word of the host's side of some port: of its head page, of what it says of the
    /// rings (where this stands thick), or of its ring.
    fn word_of_port(&mut self) -> usize {
        let place = self.any() % PORTS;
        let (_, host) = port_at(place);
        let at = match self.any() % 4 {
            0 => self.any() as usize % PAGE,
            1 | 2 => SIDE_OFF + self.any() as usize % (32 * 8),
            _ => RING_OFF + self.any() as usize % ring_of(place) as usize / 64 * 64,
        };
        (host + at) / 8
    }

    /// Writes at random where a host of ports writes, and rings at random. The rest is sane.
    pub(super) fn scribble_ports(&mut self) {
        for _ in 0..50 {
            let word = self.word_of_port();
            // Mostly what could be a position, a state or a frame.
            let value = match self.any() % 4 {
                0 => self.any(),
                1 => self.any() % 4,
                2 => self.any() % (2 * u64::from(ring_of(self.any() % PORTS))) / 64 * 64,
                _ => self.record_head(word),
            };
            // A channel that is broken at once is soon given up for half a minute.
            if !word.is_multiple_of(PAGE / 8) || self.any().is_multiple_of(1000) {
                self.shared.memory.all.store(word, value, Ordering::Relaxed);
            }
        }
        self.plausible();
    }

    /// The head of a record of a frame, or of one with a note, which is written behind it: mostly one of
    /// those that a kernel would heed, with numbers that lead anywhere.
    fn record_head(&mut self, word: usize) -> u64 {
        let bytes = self.any() % 2000;
        // Where the rings are small there are none with notes, and each passes over what was sent with it.
        let (_, large) = port_at(LARGE.into());
        let odds = if word >= large / 8 { 2 } else { 16 };
        if !self.any().is_multiple_of(odds) {
            return KIND_FRAME << 32 | bytes;
        }
        let kind = [0, 1, 4, 0x81, 3][self.any() as usize % 5];
        let near = |number: u64, of: u64| number % of;
        let numbers = [near(self.any(), 200), near(self.any(), 2000), near(self.any(), 200)];
        let [header, segment, from] = numbers;
        let note = (self.any() % 4) | (kind << 8) | (header << 16) | (segment << 32) | (from << 48);
        self.shared.memory.all.store(word + 1, note, Ordering::Relaxed);
        let at = [6, 16, self.any() % (1 << 16)][self.any() as usize % 3];
        self.shared.memory.all.store(word + 2, at, Ordering::Relaxed);
        KIND_NOTED << 32 | bytes
    }

    /// Lets a guest go on that found nonsense: the host's end is there, and its positions are
    /// at or near those of the guest, with records of any kind between.
    fn plausible(&mut self) {
        for n in 0..PORTS {
            let (program, host) = port_at(n);
            let at = |side: usize, word: usize| side + SIDE_OFF + 8 * word;
            let memory = &self.shared.memory;
            let (sent, taken) = (memory.load(at(program, HEAD)), memory.load(at(program, TAIL)));
            let (more, less) = (self.any() % u64::from(ring_of(n)), self.any() % 4096);
            let memory = &self.shared.memory;
            memory.store(at(host, STATE), UP);
            memory.store(at(host, HEAD), taken.wrapping_add(more / 64 * 64));
            memory.store(at(host, TAIL), sent.wrapping_sub(less / 64 * 64));
            let news = host + 8 * in_header::NEWS;
            memory.store(news, memory.load(news).wrapping_add(1));
        }
        self.shared.memory.to_app[2].ring();
    }

    /// Writes at random where a host writes, and rings at random.
    pub(super) fn scribble(&mut self) {
        for _ in 0..20 {
            let word = match self.any() % 10 {
                0 => HOST_STATE_OFF / 8,
                1 => self.any() as usize % (size_of::<WindowHeader>() / 8),
                2..=4 => (ANSWERS_OFF + self.any() as usize % (HEAP_OFF - ANSWERS_OFF)) / 8,
                8 | 9 => self.word_of_port(),
                _ => {
                    // The first page of some channel's datain.
                    let (_, datain) = channel_at(self.any() % CHANNELS);
                    (datain + self.any() as usize % PAGE) / 8
                }
            };
            let value = if self.any().is_multiple_of(2) { self.any() % 8 } else { self.any() };
            self.shared.memory.all.store(word, value, Ordering::Relaxed);
            // Mostly a window that could be one, or nothing gets far.
            if self.any().is_multiple_of(4) {
                self.shared.memory.write_header(self.generation);
            }
        }
        for _ in 0..10 {
            let vector = self.any() as usize % self.shared.memory.to_app.len();
            self.shared.memory.to_app[vector].ring();
        }
        // Cells with a wrong number stay stuck otherwise.
        if self.any().is_multiple_of(200) {
            self.lay_out();
        }
    }
}
