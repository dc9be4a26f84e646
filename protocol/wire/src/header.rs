//! The window's first pages: what the host says of it, and where apps show that they live.
//!
//! | from | bytes | written by | what |
//! |---|---|---|---|
//! | 0 | 4096 | host | [`WindowHeader`] |
//! | 4096 | 4096 | guest | [`GuestPage`]: posted counter, session heartbeats |
//! | 8192 | 16384 | guest | control requests ([`crate::control`]) |
//! | 24576 | 65536 | host | control answers |
//! | 90112 | rest | | channels and buffers, as the host lays them out |

use crate::limits::*;
use crate::version::Features;
use crate::{LINE, PAGE};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `VIRTFUN1`, read as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"VIRTFUN1");

/// The layout of these pages; a change of any offset raises it.
pub const LAYOUT: u16 = 1;

/// Page 0. The host fills it before anybody looks (the magic last) and then
/// changes only the lines from [`HOST_BEAT_OFF`] on.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct WindowHeader {
    /// [`MAGIC`], written last.
    pub magic: U64,
    /// [`LAYOUT`].
    pub layout: U16,
    /// Lowest protocol version the host speaks.
    pub version_min: U16,
    /// Highest protocol version the host speaks.
    pub version_max: U16,
    /// Zero.
    pub reserved0: U16,
    /// Size of the whole window, a power of two.
    pub window_bytes: U64,
    /// Goes up each time the manager lays the window out anew; handles and
    /// channels of an earlier one are gone.
    pub generation: U64,
    /// [`Features`] that the host offers here.
    pub features: U64,
    /// The client that this window belongs to.
    pub client_id: U32,
    /// Which of the client's windows this is; 0 is the one with the control cells.
    pub window_index: U16,
    /// Control cells.
    pub control_cells: U16,
    /// Session lines in the guest's page.
    pub sessions: U16,
    /// Doorbell vectors each way; 0 where there is no doorbell.
    pub vectors: U16,
    /// Offset of the guest's page.
    pub guest_page_off: U32,
    /// Offset of the control requests.
    pub requests_off: U32,
    /// Offset of the control answers.
    pub answers_off: U32,
    /// Offset of the first byte that the host lays out for channels.
    pub heap_off: U32,
    /// Zero.
    pub reserved1: U32,
    /// The client's name.
    pub client: [u8; NAME_BYTES],
}

/// Offset of a 64-bit counter that the host moves on at each look at the
/// control cells, while it has no doorbell to wait on.
pub const HOST_BEAT_OFF: usize = 256;
/// Offset of the host's state ([`HostState`], 32 bits in a 64-bit word).
pub const HOST_STATE_OFF: usize = HOST_BEAT_OFF + 8;
/// Offset of the word by which the manager declares that it sleeps on vector 0.
pub const HOST_SLEEPS_OFF: usize = HOST_BEAT_OFF + LINE;

/// Offset of the guest's page.
pub const GUEST_PAGE_OFF: usize = PAGE;
/// Offset of the control requests.
pub const REQUESTS_OFF: usize = 2 * PAGE;
/// Offset of the control answers.
pub const ANSWERS_OFF: usize = REQUESTS_OFF + CONTROL_CELLS * CONTROL_REQUEST_BYTES;
/// Offset of the first channel.
pub const HEAP_OFF: usize = ANSWERS_OFF + CONTROL_CELLS * CONTROL_ANSWER_BYTES;

/// In the guest's page: a counter moved on after each control request is
/// posted, so that the host looks at one line and not at every cell.
pub const POSTED_OFF: usize = GUEST_PAGE_OFF;
/// In the guest's page: how many apps sleep on vector 0, waiting for an answer.
pub const GUEST_SLEEPS_OFF: usize = GUEST_PAGE_OFF + LINE;
/// In the guest's page: session lines, one line each; its first word is the
/// session's heartbeat.
pub const SESSIONS_OFF: usize = GUEST_PAGE_OFF + 4 * LINE;

/// The guest's page, for the record: the code reaches its words one by one.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct GuestPage {
    /// See [`POSTED_OFF`]; the rest of the line is zero.
    pub posted: [U64; 8],
    /// See [`GUEST_SLEEPS_OFF`].
    pub sleeps: [U64; 8],
    /// Zero.
    pub reserved: [U64; 16],
    /// See [`SESSIONS_OFF`].
    pub sessions: [[U64; 8]; SESSIONS],
}

/// Values of the host's state word.
pub mod host_state {
    /// Requests are served.
    pub const SERVING: u32 = 1;
    /// What is in flight is finished, nothing new is granted.
    pub const DRAINING: u32 = 2;
    /// The manager ended in an orderly way.
    pub const ENDED: u32 = 3;
    /// The manager was killed, or is being started anew; calls go on, and what is
    /// asked is answered by the one that takes its place. Written by its keeper.
    pub const AWAY: u32 = 4;
}

const _: () = {
    assert!(size_of::<WindowHeader>() == 136);
    assert!(size_of::<WindowHeader>() <= HOST_BEAT_OFF);
    assert!(size_of::<GuestPage>() == PAGE);
    assert!(SESSIONS_OFF + SESSIONS * LINE <= REQUESTS_OFF);
    assert!(HEAP_OFF == 90112 && HEAP_OFF.is_multiple_of(PAGE));
    assert!(ANSWERS_OFF.is_multiple_of(PAGE));
    assert!((HEAP_OFF as u64) < WINDOW_BYTES_MIN);
};

/// Why a piece of memory is not a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Not a power of two between the limits.
    Size(u64),
    /// Nothing there: the manager has not laid it out, or it is another device.
    Magic(u64),
    /// A layout that this version cannot read.
    Layout(u16),
    /// No protocol version in common.
    Version {
        /// The host's lowest.
        min: u16,
        /// The host's highest.
        max: u16,
    },
    /// The header says another size than the mapping has.
    SizeMismatch {
        /// What the header says.
        header: u64,
        /// What is mapped.
        mapped: u64,
    },
    /// An offset or count is not the one of this layout.
    Field(&'static str),
}

impl core::fmt::Display for HeaderError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            HeaderError::Size(n) => write!(
                f,
                "a window of {n} bytes is not possible: it must be a power of two from {WINDOW_BYTES_MIN} to {WINDOW_BYTES_MAX}"
            ),
            HeaderError::Magic(m) => write!(
                f,
                "no VirtFun window here (magic {m:#018x}): is the manager running on the host, and is this its device?"
            ),
            HeaderError::Layout(l) => {
                write!(f, "the window has layout {l}; this version reads layout {LAYOUT}")
            }
            HeaderError::Version { min, max } => write!(
                f,
                "the host speaks protocol {min} to {max}, this side {} to {}: update the older one",
                crate::version::VERSION_MIN,
                crate::version::VERSION
            ),
            HeaderError::SizeMismatch { header, mapped } => write!(
                f,
                "the window's header says {header} bytes but {mapped} are mapped: was the device given another size than the client?"
            ),
            HeaderError::Field(name) => {
                write!(f, "the window's header has an impossible {name}: it is damaged")
            }
        }
    }
}
impl std::error::Error for HeaderError {}

/// Checks a window's size (R-WIN-1).
pub fn check_size(bytes: u64) -> Result<(), HeaderError> {
    if bytes.is_power_of_two() && (WINDOW_BYTES_MIN..=WINDOW_BYTES_MAX).contains(&bytes) {
        Ok(())
    } else {
        Err(HeaderError::Size(bytes))
    }
}

impl WindowHeader {
    /// A header as this version lays windows out.
    pub fn new(
        window_bytes: u64,
        generation: u64,
        features: Features,
        client_id: u32,
        client: [u8; NAME_BYTES],
    ) -> Self {
        let vectors = if features.has(Features::DOORBELL) { VECTORS } else { 0 };
        WindowHeader {
            magic: U64::new(MAGIC),
            layout: U16::new(LAYOUT),
            version_min: U16::new(crate::version::VERSION_MIN),
            version_max: U16::new(crate::version::VERSION),
            reserved0: U16::new(0),
            window_bytes: U64::new(window_bytes),
            generation: U64::new(generation),
            features: U64::new(features.0),
            client_id: U32::new(client_id),
            window_index: U16::new(0),
            control_cells: U16::new(CONTROL_CELLS as u16),
            sessions: U16::new(SESSIONS as u16),
            vectors: U16::new(vectors),
            guest_page_off: U32::new(GUEST_PAGE_OFF as u32),
            requests_off: U32::new(REQUESTS_OFF as u32),
            answers_off: U32::new(ANSWERS_OFF as u32),
            heap_off: U32::new(HEAP_OFF as u32),
            reserved1: U32::new(0),
            client,
        }
    }

    /// Checks a header that was read once into private memory (R-WIN-2).
    pub fn check(&self, mapped: u64) -> Result<(), HeaderError> {
        if self.magic.get() != MAGIC {
            return Err(HeaderError::Magic(self.magic.get()));
        }
        if self.layout.get() != LAYOUT {
            return Err(HeaderError::Layout(self.layout.get()));
        }
        let (min, max) = (self.version_min.get(), self.version_max.get());
        use crate::version::{VERSION, VERSION_MIN, agree};
        if agree((VERSION_MIN, VERSION), (min, max)).is_none() {
            return Err(HeaderError::Version { min, max });
        }
        check_size(self.window_bytes.get())?;
        if self.window_bytes.get() != mapped {
            return Err(HeaderError::SizeMismatch { header: self.window_bytes.get(), mapped });
        }
        let fixed = [
            ("count of control cells", usize::from(self.control_cells.get()), CONTROL_CELLS),
            ("count of sessions", usize::from(self.sessions.get()), SESSIONS),
            ("offset of the guest page", self.guest_page_off.get() as usize, GUEST_PAGE_OFF),
            ("offset of the requests", self.requests_off.get() as usize, REQUESTS_OFF),
            ("offset of the answers", self.answers_off.get() as usize, ANSWERS_OFF),
            ("offset of the heap", self.heap_off.get() as usize, HEAP_OFF),
        ];
        for (name, found, right) in fixed {
            if found != right {
                return Err(HeaderError::Field(name));
            }
        }
        if self.vectors.get() > VECTORS {
            return Err(HeaderError::Field("count of vectors"));
        }
        if crate::names::decode(&self.client).is_err() {
            return Err(HeaderError::Field("client name"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> WindowHeader {
        let name = crate::names::encode("vm1").unwrap();
        WindowHeader::new(1 << 20, 7, Features::OFFERED, 3, name)
    }

    #[test]
    fn a_good_header_passes() {
        assert_eq!(good().check(1 << 20), Ok(()));
    }

    #[test]
    fn each_wrong_field_is_named() {
        let mut h = good();
        h.magic = U64::new(5);
        assert_eq!(h.check(1 << 20), Err(HeaderError::Magic(5)));
        let mut h = good();
        h.layout = U16::new(9);
        assert_eq!(h.check(1 << 20), Err(HeaderError::Layout(9)));
        let mut h = good();
        (h.version_min, h.version_max) = (U16::new(40), U16::new(41));
        assert_eq!(h.check(1 << 20), Err(HeaderError::Version { min: 40, max: 41 }));
        let mut h = good();
        h.window_bytes = U64::new(3 << 20);
        assert_eq!(h.check(1 << 20), Err(HeaderError::Size(3 << 20)));
        assert!(matches!(good().check(2 << 20), Err(HeaderError::SizeMismatch { .. })));
        let mut h = good();
        h.answers_off = U32::new(4);
        assert_eq!(h.check(1 << 20), Err(HeaderError::Field("offset of the answers")));
        let mut h = good();
        h.vectors = U16::new(VECTORS + 1);
        assert_eq!(h.check(1 << 20), Err(HeaderError::Field("count of vectors")));
        let mut h = good();
        h.client = [0; NAME_BYTES];
        assert_eq!(h.check(1 << 20), Err(HeaderError::Field("client name")));
    }

    #[test]
    fn sizes() {
        assert_eq!(check_size(4096), Err(HeaderError::Size(4096)));
        assert_eq!(check_size((1 << 20) + 1), Err(HeaderError::Size((1 << 20) + 1)));
        assert!(check_size(1 << 37).is_err());
        assert!(check_size(64 << 20).is_ok());
    }
}
