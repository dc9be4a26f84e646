//! Tables of pages of a VM's memory, by which a host reaches memory of programs where it is (section 9 of
//! docs/protocol.md).
//!
//! A table is a buffer that the guest's kernel module writes, and no program. Its first page is the head; from
//! [`ENTRIES`] on follow words, one for each page.

use crate::PAGE;
use crate::wire_struct::wire_struct;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where the entries begin in a table, bytes.
pub const ENTRIES: usize = PAGE;
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 8;
/// [`PagesHead::magic`]: "VFPAGES1".
pub const MAGIC: u64 = u64::from_le_bytes(*b"VFPAGES1");
/// In an entry: there is a page. Its number is in the bits below [`ENTRY_WRITE`].
pub const ENTRY_THERE: u64 = 1 << 63;
/// In an entry: the program may write the page.
pub const ENTRY_WRITE: u64 = 1 << 62;
/// In place of the number of a page that there is not.
pub const NO_PAGE: u64 = u64::MAX;

wire_struct! {
    /// Head of a table. `low` and `high` name pages of the module's own that begin with `secret`: so the host can
    /// see that it finds the page of a number.
    PagesHead = 64 {
        /// [`MAGIC`], written last.
        magic: U64,
        /// Number of a page below 4 GiB, or [`NO_PAGE`].
        low: U64,
        /// Number of a page from 4 GiB on, or [`NO_PAGE`].
        high: U64,
        /// Random.
        secret: [u8; 16],
        reserved: [u8; 24],
    }
}
