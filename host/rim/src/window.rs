//! The host's side of a window: lays it out, copies requests out once, writes
//! answers, and settles channels whose service is dead.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use vfun_admin::counters::{Counters, Times};
use vfun_packet::layout::{DOWN, header::STATE};
use vfun_window::{MapError, WindowMemory, WriteSpan};
use vfun_wire::channel::{CellState, HELD_EVENT, Word0, Word1, in_header, line_off};
use vfun_wire::control::{
    ANSWER_ACK, ANSWER_BODY, ANSWER_NACK, Posted, REQUEST_BODY, WORD_ANSWERED, WORD_GENERATION,
    WORD_POSTED, WORD_SESSION, answer_off, request_off,
};
use vfun_wire::header::{
    HEAP_OFF, HOST_BEAT_OFF, HOST_SLEEPS_OFF, HOST_STATE_OFF, PORTS_OFF, POSTED_OFF, PortEntry,
    SESSIONS_OFF, WINDOWS_OFF, WindowEntry, WindowHeader, host_state,
};
use vfun_wire::kind::{Calls, ChannelKind};
use vfun_wire::limits::{CONTROL_CELLS, PORTS_MAX, SESSIONS, WINDOWS_MAX};
use vfun_wire::packets::{Packets, SIDE_OFF};
use vfun_wire::place::ChannelPlace;
use vfun_wire::queues::host_head;
use vfun_wire::status::BreakReason;
use vfun_wire::version::Features;
use vfun_wire::{LINE, Nack, NackCode, PAGE, Status};
use zerocopy::IntoBytes;

pub use crate::bells::Bells;
pub use crate::pages::{Memory, Pages};

/// Where a port's memory lies in its window's file, bytes from the file's start.
#[derive(Clone, Copy, Debug)]
pub struct PortMemory {
    /// The host's side of the packets.
    pub host: u64,
    /// The VM's side of the packets.
    pub vm: u64,
    /// Bytes of each ring.
    pub ring: u32,
    /// The word *news* of the channel.
    pub news: u64,
}

/// A request as it was copied out.
#[derive(Debug)]
pub struct RawRequest {
    pub cell: usize,
    pub seq: u32,
    /// Number of the message, unchecked.
    pub kind: u16,
    /// Handle of the session, unchecked.
    pub session: u64,
    /// Body; or why there is none.
    pub body: Result<Vec<u8>, Nack>,
}

/// A request that is there and not taken: its first word, as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    cell: usize,
    posted: Posted,
}

impl Waiting {
    /// Message number, as it stood there.
    pub fn kind(&self) -> u16 {
        self.posted.kind
    }
}

/// A control window as the manager holds it.
pub struct HostWindow {
    pages: Pages,
    generation: u64,
    /// What was written at its start, if that is known.
    header: Option<WindowHeader>,
    /// The further windows that it names, each at its number less one.
    table: [WindowEntry; WINDOWS_MAX],
    /// The ports that its VM is shown.
    ports: [PortEntry; PORTS_MAX],
    bells: Option<Bells>,
    /// Last sequence number taken from each control cell. Private.
    taken: [u32; CONTROL_CELLS],
    /// Which cell is looked at first.
    first: usize,
    posted: u64,
    beat: u64,
}

fn word(off: usize) -> usize {
    off / 8
}

impl HostWindow {
    /// Maps the memory and lays the window out anew: everything of an earlier
    /// generation is gone.
    pub fn lay_out(
        memory: impl Into<Memory>,
        bytes: u64,
        generation: u64,
        client_id: u32,
        client: &str,
        bells: Option<Bells>,
    ) -> Result<Self, MapError> {
        let pages = Pages::map(memory.into(), bytes)?;
        let span = pages.span();
        // Those who still look see at once that it is another generation.
        span.store(0, 0, Ordering::SeqCst);
        span.part(0, HEAP_OFF).expect("the smallest window is larger").zero();
        let mut window = HostWindow {
            pages,
            generation,
            header: None,
            table: [WindowEntry::NONE; WINDOWS_MAX],
            ports: [PortEntry::NONE; PORTS_MAX],
            bells,
            taken: [0; CONTROL_CELLS],
            first: 0,
            posted: 0,
            beat: 0,
        };
        window.expect_header(client_id, client);
        window.write_header(host_state::SERVING);
        if window.is_lost() {
            // Its file system ran full, or there is no memory.
            return Err(MapError::Os(std::io::Error::other("there is no memory for its pages")));
        }
        Ok(window)
    }

    /// Says whose window it is: what its header holds.
    pub fn expect_header(&mut self, client_id: u32, client: &str) {
        let features = if self.bells.is_some() {
            Features::OFFERED
        } else {
            Features(Features::OFFERED.0 & !Features::DOORBELL.0)
        };
        let name = vfun_wire::names::encode(client).expect("checked when declared");
        let header =
            WindowHeader::new(self.pages.bytes(), self.generation, features, client_id, name);
        self.header = Some(header);
    }

    /// Writes what the host says at the window's start, its state included.
    pub fn write_header(&self, state: u32) {
        let Some(header) = &self.header else { return };
        self.pages.span().write(8, &header.as_bytes()[8..]).expect("inside");
        (0..WINDOWS_MAX).for_each(|place| self.write_entry(place));
        self.write_ports();
        self.pages.span().store(word(HOST_STATE_OFF), u64::from(state), Ordering::Relaxed);
        // With a doorbell the app always rings for control: the manager
        // sleeps whenever it is not at work, and control may be slow.
        let sleeps = self.bells.is_some() as u64;
        self.pages.span().store(word(HOST_SLEEPS_OFF), sleeps, Ordering::Relaxed);
        self.pages.span().store(0, header.magic.get(), Ordering::Release);
    }

    /// Names a further window of its VM by a number from 1 to [`WINDOWS_MAX`], or none any
    /// more ([`WindowEntry::NONE`]).
    pub fn name_window(&mut self, index: u16, entry: WindowEntry) {
        let place = usize::from(index).wrapping_sub(1);
        if let Some(e) = self.table.get_mut(place) {
            *e = entry;
            self.write_entry(place);
        }
    }

    fn write_entry(&self, place: usize) {
        let at = WINDOWS_OFF + place * size_of::<WindowEntry>();
        self.write_named(at, self.table[place].as_bytes());
    }

    /// R-WIN-13: who reads an entry of a table finds it whole, or its first word changed. Whether
    /// it was another one.
    fn write_named(&self, at: usize, bytes: &[u8]) -> bool {
        let first = u64::from_le_bytes(bytes[..8].try_into().expect("eight"));
        let span = self.pages.span();
        let mut found = vec![0; bytes.len()];
        span.read(at, &mut found).expect("inside");
        if found == bytes {
            return false; // who reads it meanwhile is not to miss it
        }
        span.store(word(at), 0, Ordering::Release);
        span.write(at + 8, &bytes[8..]).expect("inside");
        span.store(word(at), first, Ordering::Release);
        true
    }

    /// Shows its VM these ports, and rings it if they are others than before.
    pub fn name_ports(&mut self, table: [PortEntry; PORTS_MAX]) {
        self.ports = table;
        if self.write_ports()
            && let Some(bells) = &self.bells
        {
            bells.ring_app(0);
        }
    }

    /// Whether any of them was another one.
    fn write_ports(&self) -> bool {
        let entries = (PORTS_OFF..).step_by(size_of::<PortEntry>()).zip(&self.ports);
        entries.fold(false, |any, (at, entry)| self.write_named(at, entry.as_bytes()) || any)
    }

    /// Whether the header is as it was written.
    pub fn header_is_itself(&self) -> bool {
        let Some(header) = &self.header else { return true };
        let mut found = [0; size_of::<WindowHeader>()];
        self.pages.span().read(0, &mut found).expect("inside");
        found == header.as_bytes()
    }

    /// Whether all that [`HostWindow::write_header`] writes is there.
    pub fn header_stands(&self, state: u32) -> bool {
        let at = |off| self.pages.span().load(word(off), Ordering::Relaxed);
        self.header_is_itself()
            && at(HOST_STATE_OFF) == u64::from(state)
            && at(HOST_SLEEPS_OFF) == self.bells.is_some() as u64
    }

    /// Takes a window up where an earlier manager was killed: nothing in it is
    /// changed. Requests that it had not answered are seen again.
    pub fn take_up(
        memory: impl Into<Memory>,
        bytes: u64,
        generation: u64,
        bells: Option<Bells>,
    ) -> Result<Self, MapError> {
        let pages = Pages::map(memory.into(), bytes)?;
        let span = pages.span();
        let answered = |cell| {
            let at = word(answer_off(cell)) + WORD_ANSWERED;
            Posted::unpack(span.load(at, Ordering::Acquire)).seq
        };
        let taken = std::array::from_fn(answered);
        // So that the first look looks at all cells.
        let posted = !span.load(word(POSTED_OFF), Ordering::Acquire);
        let beat = span.load(word(HOST_BEAT_OFF), Ordering::Relaxed);
        Ok(HostWindow {
            pages,
            generation,
            header: None,
            table: [WindowEntry::NONE; WINDOWS_MAX],
            ports: [PortEntry::NONE; PORTS_MAX],
            bells,
            taken,
            first: 0,
            posted,
            beat,
        })
    }

    /// Its memory, and nothing of control.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }
    /// Whether its pages went away: nobody else sees what is written here.
    pub fn is_lost(&self) -> bool {
        self.pages.is_lost()
    }
    /// Which laying-out this is.
    pub fn generation(&self) -> u64 {
        self.generation
    }
    pub fn fd(&self) -> impl AsFd + '_ {
        self.pages.fd()
    }
    /// Where in its file the window begins.
    pub fn origin(&self) -> u64 {
        self.pages.origin()
    }
    /// Bytes that its file has at least.
    pub fn file_bytes(&self) -> u64 {
        self.pages.file_bytes()
    }
    pub fn bytes(&self) -> u64 {
        self.pages.bytes()
    }
    /// Lets go of the window; its ringer's thread, if it has one.
    pub fn into_ringer(self) -> Option<std::thread::JoinHandle<()>> {
        self.bells.and_then(Bells::into_ringer)
    }
    /// Its bells, if it has any.
    pub fn bells(&self) -> Option<&Bells> {
        self.bells.as_ref()
    }

    /// Shows apps that the manager is at work.
    pub fn beat(&mut self) {
        // After a take-over it began with what the window held.
        self.beat = self.beat.wrapping_add(1);
        self.pages.span().store(word(HOST_BEAT_OFF), self.beat, Ordering::Relaxed);
    }

    /// Says what the manager is doing.
    pub fn set_state(&self, state: u32) {
        self.pages.span().store(word(HOST_STATE_OFF), u64::from(state), Ordering::Release);
    }

    /// Whether anything was posted since the last look: one line to read.
    pub fn anything_posted(&mut self) -> bool {
        let now = self.pages.span().load(word(POSTED_OFF), Ordering::Acquire);
        now != std::mem::replace(&mut self.posted, now)
    }

    /// The next request, which is not taken yet. Cells are looked at in turn, so
    /// that one which is filled again at once keeps no other one waiting.
    pub fn next_request(&mut self) -> Option<Waiting> {
        (0..CONTROL_CELLS).map(|i| (self.first + i) % CONTROL_CELLS).find_map(|cell| {
            let raw =
                self.pages.span().load(word(request_off(cell)) + WORD_POSTED, Ordering::Acquire);
            let posted = Posted::unpack(raw);
            (posted.seq != self.taken[cell]).then_some(Waiting { cell, posted })
        })
    }

    /// Copies a request out, once (R-CTL-3). What `next_request` read of it counts.
    pub fn take_request(&mut self, Waiting { cell, posted }: Waiting) -> RawRequest {
        let at = request_off(cell);
        let last = std::mem::replace(&mut self.taken[cell], posted.seq);
        self.first = (cell + 1) % CONTROL_CELLS;
        let session = self.pages.span().load(word(at) + WORD_SESSION, Ordering::Relaxed);
        let body = if posted.seq != last.wrapping_add(1) {
            Err(Nack::new(
                NackCode::Malformed,
                format!(
                    "control cell {cell} holds sequence number {} where {} was due",
                    posted.seq,
                    last.wrapping_add(1)
                ),
            ))
        } else if usize::from(posted.len) > REQUEST_BODY {
            Err(Nack::new(
                NackCode::Malformed,
                format!("the request says {} bytes; a cell has {REQUEST_BODY}", posted.len),
            ))
        } else {
            let mut body = vec![0; usize::from(posted.len)];
            self.pages.span().read(at + LINE, &mut body).expect("inside the cell");
            Ok(body)
        };
        RawRequest { cell, seq: posted.seq, kind: posted.kind, session, body }
    }

    /// Every new request there is, without regard to anybody else.
    pub fn requests(&mut self) -> Vec<RawRequest> {
        let mut found = vec![];
        while found.len() < CONTROL_CELLS
            && let Some(waiting) = self.next_request()
        {
            found.push(self.take_request(waiting));
        }
        found
    }

    /// Writes an answer and rings. What is answered is not read again: after a
    /// take-over an answer may be due that was asked for of an earlier manager.
    pub fn answer(&mut self, cell: usize, seq: u32, result: &Result<Vec<u8>, Nack>) {
        if self.taken[cell].wrapping_add(1) == seq {
            self.taken[cell] = seq;
        }
        let at = answer_off(cell);
        let nack;
        let (kind, body): (u16, &[u8]) = match result {
            Ok(body) => (ANSWER_ACK, &body[..body.len().min(ANSWER_BODY)]),
            Err(n) => {
                nack = n.encode();
                (ANSWER_NACK, nack.as_bytes())
            }
        };
        self.pages.span().write(at + LINE, body).expect("cut to the cell");
        self.pages.span().store(word(at) + WORD_GENERATION, self.generation, Ordering::Relaxed);
        let word0 = Posted { seq, kind, len: body.len() as u16 }.pack();
        self.pages.span().store(word(at) + WORD_ANSWERED, word0, Ordering::Release);
        if let Some(bells) = &self.bells {
            bells.ring_app(0);
        }
    }

    /// The heartbeat word of every session line.
    pub fn heartbeats(&self) -> Vec<(u16, u64)> {
        (0..SESSIONS)
            .map(|i| {
                (i as u16, self.pages.span().load(word(SESSIONS_OFF + i * LINE), Ordering::Relaxed))
            })
            .collect()
    }

    /// The lines of a channel of calls or raw lines that the host writes; `None` of
    /// another kind.
    fn datain(&self, place: &ChannelPlace) -> Option<(WriteSpan, Calls)> {
        Some((self.pages.range(place.head()), Calls::of(place)?))
    }

    /// Sets a channel's ranges to zero before anybody uses it, as far as its kind asks.
    pub fn zero(&self, place: &ChannelPlace) {
        // A VM with a kernel module is many users, who must not see what another
        // one left in a data space. Its pages are given back to the system, which
        // is quick, and come again as zeros when they are touched. A program on
        // the host and a guest without the module have the whole window anyway.
        let all = self.bells.as_ref().is_some_and(Bells::are_a_vms);
        for (range, want) in place.ranges().iter().zip(place.wants().iter()) {
            let (off, bytes) = (range.offset.get(), range.bytes.get());
            // What is large is given back in any case: to write a GiB takes long.
            let whole = all || want.zeroed == bytes;
            if whole && self.pages.punch(range) {
                continue;
            }
            let zeroed = if all { bytes } else { want.zeroed };
            self.pages
                .span()
                .part(off as usize, zeroed as usize)
                .expect("laid out by the core")
                .zero();
        }
    }

    /// Answers the call that a dead service was computing, if any (R-CEL-7).
    /// The service is gone, so these pages have no other writer.
    pub fn fail_current(&self, place: &ChannelPlace, status: Status) {
        let Some((datain, calls)) = self.datain(place) else { return };
        let current = datain.load(in_header::CURRENT, Ordering::Acquire);
        datain.store(in_header::CURRENT, 0, Ordering::Relaxed);
        datain.store(in_header::SLEEPS, 0, Ordering::Relaxed);
        let (cell, seq) = ((current >> 32) as usize, current as u32);
        if cell == 0 || cell > usize::from(calls.depth) {
            return;
        }
        let at = word(line_off(cell - 1));
        if Word0::unpack(datain.load(at, Ordering::Relaxed)).seq == seq {
            return; // answered just before the end
        }
        datain.store(at + 1, Word1 { len: 0, status: status.to_wire() }.pack(), Ordering::Relaxed);
        let done = Word0 { seq, op: CellState::Done.to_wire(), flags: 0, reserved: 0 };
        datain.store(at, done.pack(), Ordering::Release);
        datain.fetch_add(in_header::CALLS, 1, Ordering::Relaxed);
        datain.fetch_add(in_header::ERRORS, 1, Ordering::Relaxed);
        datain.fetch_add(in_header::NEWS, 1, Ordering::Release);
        self.ring_channel(place);
    }

    /// Says that a channel no longer serves. Calls that were posted and not
    /// answered see it when they look.
    pub fn break_channel(&self, place: &ChannelPlace, reason: BreakReason) {
        // The first reason is the one that tells something, but the end of a grant and
        // of a manager are the manager's to tell: a service may have written another.
        let ends = [BreakReason::Released, BreakReason::Shutdown].map(|r| u64::from(r.to_wire()));
        let (head, new) = (self.pages.range(place.head()), u64::from(reason.to_wire()));
        let stands = head.load(in_header::BROKEN, Ordering::Acquire);
        if stands == 0 || ends.contains(&new) && !ends.contains(&stands) {
            head.store(in_header::BROKEN, new, Ordering::Release);
        }
        self.ring_channel(place);
    }

    fn ring_channel(&self, place: &ChannelPlace) {
        if let Some(bells) = &self.bells {
            bells.ring_app(place.vector_in());
        }
    }

    /// Calls of a channel that were answered, by its service's word.
    pub fn answered(&self, place: &ChannelPlace) -> u64 {
        self.datain(place).map_or(0, |(datain, _)| datain.load(in_header::CALLS, Ordering::Relaxed))
    }

    /// The sign of life of a channel of queues, by its service's word; `None` for other kinds.
    pub fn life(&self, place: &ChannelPlace) -> Option<u64> {
        let head = self.pages.range(place.head());
        let sides = place.kind().has_sides();
        sides.then(|| head.load(host_head::LIFE, Ordering::Relaxed))
    }

    /// What the function says of a channel of queues; `None` for other kinds.
    pub fn facts(&self, place: &ChannelPlace) -> Option<[u64; host_head::FACTS_WORDS]> {
        let head = self.pages.range(place.head());
        let sides = place.kind().has_sides();
        let word = |at| head.load(host_head::FACTS + at, Ordering::Relaxed);
        sides.then(|| core::array::from_fn(word))
    }

    /// Where a switch finds the memory of a port's channel: the bytes of the window's file
    /// at which the host's side and the VM's begin, header pages first. `None` for other kinds.
    pub fn port_memory(&self, place: &ChannelPlace) -> Option<PortMemory> {
        let packets = Packets::of(place)?;
        let at = |offset: u64| self.origin() + offset + SIDE_OFF as u64;
        Some(PortMemory {
            host: at(packets.sides.host),
            vm: at(packets.sides.program),
            ring: packets.ring_bytes,
            news: self.origin() + packets.sides.host + 8 * in_header::NEWS as u64,
        })
    }

    /// The header pages of a port's two sides: the host writes the one, and the VM the other.
    /// `None` for other kinds.
    pub fn port_pages(&self, place: &ChannelPlace) -> Option<WindowMemory> {
        let sides = Packets::of(place)?.sides;
        let page = |side: u64| self.pages.span().part(side as usize + SIDE_OFF, PAGE).ok();
        Some(WindowMemory::of_sides(page(sides.host)?, page(sides.program)?.reader()))
    }

    /// The switch that had a port's memory is gone, and cannot say so: the VM is told that
    /// the link is down. Nobody else writes the host's side then.
    pub fn switch_gone(&self, place: &ChannelPlace) {
        if place.kind() == ChannelKind::Packets {
            let host = self.pages.range(place.head());
            host.store(word(SIDE_OFF) + STATE, DOWN, Ordering::Release);
            host.fetch_add(in_header::NEWS, 1, Ordering::Release);
            self.ring_channel(place);
        }
    }

    /// Whether a call of a channel was begun and not answered, by its service's word.
    pub fn computes(&self, place: &ChannelPlace) -> bool {
        let Some((datain, calls)) = self.datain(place) else { return false };
        let current = datain.load(in_header::CURRENT, Ordering::Acquire);
        let (cell, seq) = ((current >> 32) as usize, current as u32);
        (1..=usize::from(calls.depth)).contains(&cell)
            && Word0::unpack(datain.load(word(line_off(cell - 1)), Ordering::Acquire)).seq != seq
    }

    /// Calls of a channel that were posted and not answered, as far as its lines
    /// tell: the app's are its own word.
    pub fn in_flight(&self, place: &ChannelPlace) -> u64 {
        self.unanswered(place, |_| true)
    }

    /// Whether any of them is due: its service does not hold it until something
    /// happens (R-CEL-12).
    pub fn any_due(&self, place: &ChannelPlace) -> bool {
        self.unanswered(place, |line| line.op != HELD_EVENT) > 0
    }

    /// Those whose service's line counts.
    fn unanswered(&self, place: &ChannelPlace, counts: impl Fn(&Word0) -> bool) -> u64 {
        let Some(calls) = Calls::of(place) else { return 0 };
        let side = |off: u64| self.pages.span().part(off as usize, calls.side_bytes as usize).ok();
        let (Some(out), Some(back)) = (side(calls.dataout), side(calls.datain)) else {
            return 0;
        };
        let line =
            |s: &WriteSpan, cell| Word0::unpack(s.load(word(line_off(cell)), Ordering::Acquire));
        let cells = (0..usize::from(calls.depth)).map(|c| (line(&out, c), line(&back, c)));
        cells.filter(|(out, back)| out.seq != back.seq && counts(back)).count() as u64
    }

    /// A channel's counters, as its service keeps them.
    pub fn counters(&self, place: &ChannelPlace) -> Counters {
        let head = self.pages.range(place.head());
        let at = |i| head.load(i, Ordering::Relaxed);
        match place.kind() {
            ChannelKind::Calls | ChannelKind::Floor => {}
            // What was done in queues counts as calls.
            ChannelKind::Queues | ChannelKind::Packets => {
                return Counters {
                    calls: at(host_head::DONE),
                    errors: at(host_head::FAILED),
                    bytes_out: at(host_head::BYTES),
                    rang: at(host_head::RANG),
                    ..Counters::default()
                };
            }
        }
        Counters {
            calls: at(in_header::CALLS),
            errors: at(in_header::ERRORS),
            bytes_in: at(in_header::BYTES_IN),
            bytes_out: at(in_header::BYTES_OUT),
            slept: at(in_header::SLEPT),
            rang: at(in_header::RANG),
            busy_ns: at(in_header::BUSY_NS),
            spun_ns: at(in_header::SPUN_NS),
            asleep_ns: at(in_header::ASLEEP_NS),
            times: Times::of(|bucket| at(in_header::TIMES + bucket)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_wire::queues::QueuesShape;
    use vfun_wire::range::{Access as Writers, Range};

    #[test]
    fn a_buffer_in_a_file_is_set_to_zero_and_keeps_its_reserved_blocks() {
        use rustix::fs::{FallocateFlags, fallocate, fstat};
        const BYTES: u64 = 1 << 20;
        let range = Range::new(0, Writers::Both, HEAP_OFF as u64, 8 << 12);
        // Nobody sealed it: as one in a directory of such a file system.
        let file = rustix::fs::memfd_create("f", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        fallocate(&file, FallocateFlags::empty(), 0, BYTES).unwrap();
        for (memory, punched) in [(file, 0), (vfun_window::memfd("w", BYTES).unwrap(), 8 * 8)] {
            let seen = memory.try_clone().unwrap();
            let window = HostWindow::lay_out(memory, BYTES, 1, 1, "a", None).unwrap();
            let buffer = window.pages.range(&range);
            buffer.write(0, &vec![7; 8 << 12]).unwrap();
            let before = fstat(&seen).unwrap().st_blocks;
            window.pages.zero(&range);
            // In blocks of 512 bytes.
            assert_eq!(before - fstat(&seen).unwrap().st_blocks, punched);
            let mut found = vec![1; 8 << 12];
            buffer.read(0, &mut found).unwrap();
            assert!(found.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn both_sides_of_queues_begin_with_zeros_and_only_their_rings_count() {
        const BYTES: u64 = 1 << 20;
        let page = PAGE as u64;
        let (program, host) = (HEAP_OFF as u64, HEAP_OFF as u64 + 9 * page);
        let ranges = [
            Range::new(0, Writers::AppWrites, program, 3 * page),
            Range::new(0, Writers::HostWrites, host, 4 * page),
        ];
        let shape = QueuesShape::new(3, 4).shape();
        let place = ChannelPlace::new(ChannelKind::Queues, shape, (1, 1), &ranges).unwrap();
        // One whose pages are given back to the system, and one that is written.
        let file = rustix::fs::memfd_create("f", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, BYTES).unwrap();
        for memory in [vfun_window::memfd("w", BYTES).unwrap(), file] {
            let window = HostWindow::lay_out(memory, BYTES, 1, 1, "a", None).unwrap();
            let all = [7; 16 * PAGE];
            window.pages.span().write(program as usize, &all).unwrap();
            window.zero(&place);
            let mut found = [1; 16 * PAGE];
            window.pages.span().read(program as usize, &mut found).unwrap();
            for (page, bytes) in found.chunks(PAGE).enumerate() {
                let zeroed = page < 3 || (9..13).contains(&page);
                let due = if zeroed { 0 } else { 7 };
                assert!(bytes.iter().all(|byte| *byte == due), "page {page}");
            }
            let head = window.pages.range(place.head());
            head.store(host_head::RANG, 5, Ordering::Relaxed);
            head.store(in_header::CALLS, 3, Ordering::Relaxed);
            head.store(host_head::LIFE, 9, Ordering::Relaxed);
            assert_eq!(window.life(&place), Some(9));
            for (at, word) in
                [host_head::DONE, host_head::FAILED, host_head::BYTES].iter().enumerate()
            {
                head.store(*word, 11 + at as u64, Ordering::Relaxed);
            }
            head.store(host_head::FACTS + 7, 99, Ordering::Relaxed);
            let due =
                Counters { rang: 5, calls: 11, errors: 12, bytes_out: 13, ..Counters::default() };
            assert_eq!(window.counters(&place), due);
            assert_eq!(window.facts(&place), Some([0, 0, 0, 0, 0, 0, 0, 99]));
            let looked = (window.answered(&place), window.in_flight(&place));
            assert_eq!((looked, window.computes(&place)), ((0, 0), false));
            window.break_channel(&place, BreakReason::ServiceLost);
            assert_eq!(head.load(in_header::BROKEN, Ordering::Relaxed), 7);
        }
    }

    #[test]
    fn what_ends_a_grant_is_told_whatever_its_service_wrote() {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = rustix::fs::memfd_create("window", flags).unwrap();
        rustix::fs::ftruncate(&file, 1 << 20).unwrap();
        let window = HostWindow::lay_out(file, 1 << 20, 1, 1, "a", None).unwrap();
        let side_bytes = 2 << 12;
        let dataout = HEAP_OFF as u64;
        let datain = dataout + side_bytes;
        let calls = Calls { dataout, datain, side_bytes, depth: 1, cell_bytes: 0 };
        let place = calls.place(ChannelKind::Calls, (1, 1)).unwrap();
        let set = |reason: u64| {
            window.pages.range(place.head()).store(in_header::BROKEN, reason, Ordering::Relaxed)
        };
        let told = || window.pages.range(place.head()).load(in_header::BROKEN, Ordering::Relaxed);
        let of = |reason: BreakReason| u64::from(reason.to_wire());
        use BreakReason::{BadSequence, CrashLoop, NoService, Released, Shutdown};
        for (stands, reason, then) in [
            (0, CrashLoop, of(CrashLoop)),
            (of(BadSequence), CrashLoop, of(BadSequence)),
            (of(BadSequence), Released, of(Released)),
            // No reason of this list: its service can write there what it likes.
            (77, Shutdown, of(Shutdown)),
            (of(Released), Shutdown, of(Released)),
            (of(Shutdown), Released, of(Shutdown)),
            (of(Released), NoService, of(Released)),
        ] {
            set(stands);
            window.break_channel(&place, reason);
            assert_eq!(told(), then, "{stands}, then {reason:?}");
        }
    }
}
