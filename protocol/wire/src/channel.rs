//! A channel of calls: its first range is `dataout`, which the app writes, its
//! second `datain`, which the service writes ([`crate::kind`]).
//!
//! Each side is one header page, then `depth` lines, then (from the next page
//! on) `depth` data spaces of `cell_bytes`. Cell *i* owns line *i* and space
//! *i* on both sides.

use crate::limits::*;
use crate::open_enum::wire_enum;
use crate::{LINE, PAGE, page_up};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

wire_enum! {
    /// What a cell asks for. `get`, the third published command, is the
    /// caller's own: it takes a finished cell's results and frees the cell,
    /// which no service has to be told.
    pub enum Command: u8 {
        /// Hands arguments over and starts.
        Set = 1 => "set",
        /// Clears what the function keeps for this channel.
        Rst = 3 => "rst",
    }
}

wire_enum! {
    /// The published states of a cell.
    pub enum CellState: u8 {
        /// Ready: nothing handed over, or not yet begun.
        Wait = 0 => "wait",
        Busy = 1 => "busy",
        /// Finished: the results are there.
        Done = 2 => "done",
    }
}

/// State of the service's line while the cell's next call, one more than the
/// line's sequence number, is held open and was begun (R-CEL-12).
pub const HELD_BEGUN: u8 = CellState::Busy.to_wire();
/// The same for a call that waits for an event and was not begun.
pub const HELD_EVENT: u8 = 3;

/// Flag of a request or answer: the bytes are in the cell's data space, not in its line.
pub const FLAG_DATA: u8 = 1;
/// All flags of this version; others are refused (R-CEL-5).
pub const FLAGS: u8 = FLAG_DATA;

/// The app's line of a cell. Its first word (sequence, command, flags) is stored last.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct OutLine {
    /// How often this cell was used, from 1, wrapping.
    pub seq: U32,
    /// A [`Command`]: set or reset.
    pub command: u8,
    /// [`FLAG_DATA`] if the bytes are in the data space, else 0.
    pub flags: u8,
    pub reserved0: U16,
    /// Bytes of arguments, in line or in the data space.
    pub len: U32,
    pub reserved1: U32,
    /// Arguments, if they are not in the data space.
    pub inline: [u8; INLINE_BYTES],
}

/// The service's line of a cell. Its first word (sequence, state, flags) is stored last.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct InLine {
    /// The sequence number of the request that this answers.
    pub seq: U32,
    /// [`CellState::Done`]; [`HELD_BEGUN`] or [`HELD_EVENT`] while the next call is held open.
    pub state: u8,
    /// [`FLAG_DATA`] if the bytes are in the data space, else 0.
    pub flags: u8,
    pub reserved: U16,
    /// Bytes of results, in line or in the data space.
    pub len: U32,
    /// How the call ended: a [`crate::Status`].
    pub status: U32,
    /// Results, if they are not in the data space.
    pub inline: [u8; INLINE_BYTES],
}

const _: () = {
    assert!(size_of::<OutLine>() == LINE && size_of::<InLine>() == LINE);
    assert!(core::mem::offset_of!(OutLine, inline) == 16);
    assert!(core::mem::offset_of!(InLine, inline) == 16);
    assert!(core::mem::offset_of!(InLine, status) == 12);
};

/// First word of either line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Word0 {
    pub seq: u32,
    /// A [`Command`] in the app's line, a [`CellState`] in the service's.
    pub op: u8,
    pub flags: u8,
    pub reserved: u16,
}

impl Word0 {
    #[inline]
    pub const fn pack(self) -> u64 {
        self.seq as u64
            | (self.op as u64) << 32
            | (self.flags as u64) << 40
            | (self.reserved as u64) << 48
    }
    /// All of the word above its sequence number, shifted down, with nothing reserved set.
    #[inline]
    pub const fn rest(op: u8, flags: u8) -> u64 {
        op as u64 | (flags as u64) << 8
    }
    #[inline]
    pub const fn unpack(w: u64) -> Self {
        Word0 {
            seq: w as u32,
            op: (w >> 32) as u8,
            flags: (w >> 40) as u8,
            reserved: (w >> 48) as u16,
        }
    }
}

/// Second word of either line: length, and status (zero in requests).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Word1 {
    /// Bytes of arguments or results.
    pub len: u32,
    /// How the call ended: a [`crate::Status`]. 0 in the app's line.
    pub status: u32,
}

impl Word1 {
    #[inline]
    pub const fn pack(self) -> u64 {
        self.len as u64 | (self.status as u64) << 32
    }
    #[inline]
    pub const fn unpack(w: u64) -> Self {
        Word1 { len: w as u32, status: (w >> 32) as u32 }
    }
}

/// Words of the `dataout` header page (word index from the page's start).
pub mod out_header {
    use crate::LINE_WORDS;
    /// How many of the app's threads sleep on the channel's vector.
    pub const SLEEPERS: usize = 0;
    /// The next free line, for the record.
    pub const END: usize = LINE_WORDS;
}

/// Beside the cell in [`in_header::NEXT`]: a service has let go of the channel,
/// and another one is about to take it up. Waking an app's thread that went to
/// sleep meanwhile would take longer than that.
pub const HANDED: u64 = 1 << 32;

/// Words of the `datain` header page (word index from the page's start). The first
/// line is the same for every kind of channel: it begins the first range that the
/// host alone writes.
pub mod in_header {
    use crate::LINE_WORDS;
    /// 0 while the channel serves, else a [`crate::status::BreakReason`].
    pub const BROKEN: usize = 0;
    /// 0 while the service has a manager; moves on at least once a second while it
    /// has none (R-CHN-7): whoever waits has nobody else to tell that it lives.
    pub const ALONE: usize = 1;
    /// Moves on before the host rings the app for this channel (R-CHN-8), so that a
    /// ring of a shared vector can be told from one for another channel.
    pub const NEWS: usize = 2;
    /// 1 while the service sleeps on the channel's vector.
    pub const SLEEPS: usize = LINE_WORDS;
    /// The cell being computed: sequence number, and cell index + 1 in the
    /// upper half; 0 between calls.
    pub const CURRENT: usize = 2 * LINE_WORDS;
    /// The cell at which a service that lets go of the channel would have
    /// looked next: where the one after it begins. A hint, set between calls.
    /// With [`super::HANDED`] until the one after it serves.
    pub const NEXT: usize = 2 * LINE_WORDS + 1;
    /// Calls that were answered, with errors too.
    pub const CALLS: usize = 3 * LINE_WORDS;
    /// Of these, answered with an error.
    pub const ERRORS: usize = 3 * LINE_WORDS + 1;
    /// Bytes of arguments taken.
    pub const BYTES_IN: usize = 3 * LINE_WORDS + 2;
    /// Bytes of results given.
    pub const BYTES_OUT: usize = 3 * LINE_WORDS + 3;
    /// Times the service went to sleep.
    pub const SLEPT: usize = 3 * LINE_WORDS + 4;
    /// Times the service rang the app awake.
    pub const RANG: usize = 3 * LINE_WORDS + 5;
    /// Nanoseconds the service spent computing, as far as measured.
    pub const BUSY_NS: usize = 4 * LINE_WORDS;
    /// Nanoseconds it spent spinning.
    pub const SPUN_NS: usize = 4 * LINE_WORDS + 1;
    /// Nanoseconds it spent asleep.
    pub const ASLEEP_NS: usize = 4 * LINE_WORDS + 2;
    /// [`super::TIMES`] counters of sampled service times; see [`super::time_bucket`].
    pub const TIMES: usize = 8 * LINE_WORDS;
}

/// Buckets of sampled service times in a channel's `datain` header page.
pub const TIMES: usize = 128;
const _: () = assert!((in_header::TIMES + TIMES) * 8 <= PAGE);

/// The bucket of a service time: four to an octave, so that a bucket's bounds
/// lie within 25 % of each other; the first takes all below 4 ns, the last all
/// beyond some seconds.
pub const fn time_bucket(ns: u64) -> usize {
    if ns < 4 {
        return 0;
    }
    let octave = 63 - ns.leading_zeros() as usize; // at least 2
    let quarter = (ns >> (octave - 2)) as usize & 3;
    let bucket = (octave - 2) * 4 + quarter + 1;
    if bucket < TIMES { bucket } else { TIMES - 1 }
}

/// The least time that falls into a bucket, ns.
pub const fn time_bucket_from(bucket: usize) -> u64 {
    if bucket == 0 {
        return 0;
    }
    let (octave, quarter) = ((bucket - 1) / 4 + 2, (bucket - 1) % 4);
    (4 + quarter as u64) << (octave - 2)
}

/// Offset of line `cell` from the start of a side.
#[inline]
pub const fn line_off(cell: usize) -> usize {
    PAGE + cell * LINE
}

/// Offset of the first data space from the start of a side.
pub const fn spaces_off(depth: u16) -> usize {
    PAGE + (depth as usize * LINE).next_multiple_of(PAGE)
}

/// Bytes of one side of a channel; `None` beyond the limits.
pub const fn side_bytes(depth: u16, cell_bytes: u32) -> Option<u64> {
    if depth < DEPTH_MIN || depth > DEPTH_MAX || !depth.is_power_of_two() {
        return None;
    }
    if cell_bytes > CELL_BYTES_MAX || !cell_bytes.is_multiple_of(LINE as u32) {
        return None;
    }
    page_up(spaces_off(depth) as u64 + depth as u64 * cell_bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shapes_beyond_limits_have_no_size() {
        assert_eq!(side_bytes(0, 0), None);
        assert_eq!(side_bytes(2048, 0), None);
        assert_eq!(side_bytes(3, 0), None);
        assert_eq!(side_bytes(1, 63), None);
        assert_eq!(side_bytes(1, 0), Some(2 * 4096));
        assert_eq!(side_bytes(64, 4096), Some(4096 + 4096 + 64 * 4096));
    }

    #[test]
    fn every_time_has_its_bucket() {
        for b in 0..TIMES {
            let from = time_bucket_from(b);
            assert_eq!(time_bucket(from), b);
            if b + 1 < TIMES {
                assert_eq!(time_bucket(time_bucket_from(b + 1) - 1), b);
            }
        }
        assert_eq!(time_bucket(u64::MAX), TIMES - 1);
    }

    proptest! {
        #[test]
        fn words_hold_all(w: u64) {
            prop_assert_eq!(Word0::unpack(w).pack(), w);
            prop_assert_eq!(Word1::unpack(w).pack(), w);
        }
    }
}
