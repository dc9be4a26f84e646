//! The window's first pages: what the host says of it, and where apps show that they live.
//!
//! | from | bytes | written by | what |
//! |---|---|---|---|
//! | 0 | 4096 | host | [`WindowHeader`] |
//! | 4096 | 4096 | guest | [`GuestPage`]: posted counter, session heartbeats |
//! | 8192 | 16384 | guest | control requests ([`crate::control`]) |
//! | 24576 | 65536 | host | control answers |
//! | 90112 | rest | | channels and buffers, as the host lays them out |
//!
//! A further window of a VM ([`Role::Data`], [`Role::Link`]) has only page 0 of these; its
//! heap begins behind it. Which number it has is said in the control window alone, by the
//! table of [`WindowEntry`] at [`WINDOWS_OFF`]: no other VM can write there.

use crate::limits::*;
use crate::open_enum::wire_enum;
use crate::range::Heap;
use crate::version::Features;
use crate::{LINE, PAGE};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `VIRTFUN1`, read as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"VIRTFUN1");

/// The layout of these pages; a change of any offset raises it. Magic and layout stay
/// where they are in every layout, so that each side can refuse the other's.
pub const LAYOUT: u16 = 2;

wire_enum! {
    /// What a window is for.
    pub enum Role: u16 {
        /// Control cells, sessions, and the channels of one VM or program.
        Control = 1 => "control",
        /// Memory that exactly two VMs share.
        Link = 2 => "link",
        /// More memory that one VM shares with its host: for buffers.
        Data = 3 => "data",
    }
}

impl Role {
    /// Whether it is one of a VM's further windows, which has no control.
    pub const fn is_further(self) -> bool {
        matches!(self, Role::Link | Role::Data)
    }
}

/// Page 0. The host fills it before anybody looks (the magic last) and then
/// changes only the lines from [`HOST_BEAT_OFF`] on.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct WindowHeader {
    /// [`MAGIC`], which the host writes when all the rest is there.
    pub magic: U64,
    /// [`LAYOUT`]; a window of another one is refused.
    pub layout: U16,
    /// Lowest protocol version the host speaks.
    pub version_min: U16,
    /// Highest protocol version the host speaks.
    pub version_max: U16,
    /// [`Role`]. Only a control window has control cells, sessions, a guest page and a
    /// client: the others have zeros there.
    pub role: U16,
    /// Size of the whole window, a power of two.
    pub window_bytes: U64,
    /// Goes up each time the manager lays the window out anew; handles and
    /// channels of an earlier one are gone.
    pub generation: U64,
    /// [`Features`] that the host offers here.
    pub features: U64,
    /// The client that this window belongs to.
    pub client_id: U32,
    pub reserved0: U16,
    /// How many control cells follow; each holds one request at a time.
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
    pub reserved1: U32,
    pub client: [u8; NAME_BYTES],
    /// Of a further window: random bits that nobody else's window has, by which the
    /// control window's table names it. Zero in a control window.
    pub key: [U64; 2],
    pub reserved2: [U64; 5],
}

/// A further window, as the table in page 0 of its VM's control window names it
/// ([`WINDOWS_OFF`], [`WINDOWS_MAX`] of them). The host alone writes it: a word that is
/// zero first, then the rest, then the word.
#[derive(
    FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug, PartialEq,
)]
#[repr(C)]
pub struct WindowEntry {
    /// Its number in this VM, as ranges have it; 0: no entry.
    pub index: U16,
    /// [`Role`], not of control.
    pub role: U16,
    pub reserved: U32,
    pub bytes: U64,
    /// What its own header has as key.
    pub key: [U64; 2],
}

impl WindowEntry {
    /// An entry of the table that no window has.
    pub const NONE: WindowEntry = WindowEntry {
        index: U16::ZERO,
        role: U16::ZERO,
        reserved: U32::ZERO,
        bytes: U64::ZERO,
        key: [U64::ZERO; 2],
    };

    /// Where ranges of this window may lie.
    pub fn heap(&self) -> Heap {
        Heap { window: self.index.get(), from: FURTHER_HEAP_OFF as u64, to: self.bytes.get() }
    }
}

/// A port of the VM, as the table in page 0 of its control window names it ([`PORTS_OFF`],
/// [`PORTS_MAX`] of them). Its place there is its number. Written as a [`WindowEntry`] is.
#[derive(
    FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug, PartialEq,
)]
#[repr(C)]
pub struct PortEntry {
    /// 0: no port. Another number where the place has another port, or other terms.
    pub id: U64,
    /// The address of the VM's interface.
    pub mac: [u8; 6],
    /// Bytes of the longest packet behind an Ethernet header that the switch takes.
    pub mtu: U16,
    /// The name, zeros behind it.
    pub name: [u8; PORT_NAME_BYTES + 1],
    /// Bytes of each ring.
    pub ring_bytes: U32,
    pub reserved0: U32,
    pub reserved1: [U64; 3],
}

impl PortEntry {
    /// An entry of the table that no port has.
    pub const NONE: PortEntry = PortEntry {
        id: U64::ZERO,
        mac: [0; 6],
        mtu: U16::ZERO,
        name: [0; PORT_NAME_BYTES + 1],
        ring_bytes: U32::ZERO,
        reserved0: U32::ZERO,
        reserved1: [U64::ZERO; 3],
    };
}

/// Offset of a 64-bit counter that the host moves on at each look at the
/// control cells, while it has no doorbell to wait on.
pub const HOST_BEAT_OFF: usize = 256;
/// Offset of the host's state ([`host_state`], 32 bits in a 64-bit word).
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
/// Offset of a further window's heap.
pub const FURTHER_HEAP_OFF: usize = PAGE;

/// Offset of the table of further windows in a control window's page 0.
pub const WINDOWS_OFF: usize = 1024;

/// Offset of the table of ports in a control window's page 0.
pub const PORTS_OFF: usize = 2048;

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
    /// Which bells the guest sleeps on: see [`GUEST_SLEEPS_OFF`].
    pub sleeps: [U64; 8],
    pub reserved: [U64; 16],
    /// A line for each session, with its heartbeat: see [`SESSIONS_OFF`].
    pub sessions: [[U64; 8]; SESSIONS],
}

/// Values of the host's state word.
pub mod host_state {
    /// The host serves control requests.
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
    assert!(size_of::<WindowHeader>() == 192);
    assert!(size_of::<WindowHeader>() <= HOST_BEAT_OFF);
    assert!(size_of::<WindowEntry>() == 32);
    assert!(WINDOWS_OFF + WINDOWS_MAX * size_of::<WindowEntry>() <= PORTS_OFF);
    assert!(size_of::<PortEntry>() == LINE);
    assert!(PORTS_OFF + PORTS_MAX * size_of::<PortEntry>() <= GUEST_PAGE_OFF);
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
        /// Lowest protocol version that the host speaks.
        min: u16,
        /// Highest protocol version that the host speaks.
        max: u16,
    },
    /// The header says another size than the mapping has.
    SizeMismatch {
        /// What the header says.
        header: u64,
        /// Bytes that are mapped.
        mapped: u64,
    },
    /// An offset or count is not the one of this layout.
    Field(&'static str),
    /// A window of another role than the one looked for.
    Role {
        /// What was looked for.
        wanted: Role,
        /// What the header says.
        found: u16,
    },
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
            HeaderError::Layout(l) if *l < LAYOUT => write!(
                f,
                "the window has layout {l}, of an older host; this side reads layout {LAYOUT}: update VirtFun on the host"
            ),
            HeaderError::Layout(l) => write!(
                f,
                "the window has layout {l}, of a newer host; this side reads layout {LAYOUT}: update VirtFun on this side"
            ),
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
            HeaderError::Role { wanted, found } => {
                let found = Role::from_wire(*found).map_or("unknown", Role::text);
                write!(f, "the window's role is {found}, not {wanted}: connect to another device")
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
    /// The header of a control window, as this version lays it out.
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
            role: U16::new(Role::Control.to_wire()),
            window_bytes: U64::new(window_bytes),
            generation: U64::new(generation),
            features: U64::new(features.0),
            client_id: U32::new(client_id),
            reserved0: U16::new(0),
            control_cells: U16::new(CONTROL_CELLS as u16),
            sessions: U16::new(SESSIONS as u16),
            vectors: U16::new(vectors),
            guest_page_off: U32::new(GUEST_PAGE_OFF as u32),
            requests_off: U32::new(REQUESTS_OFF as u32),
            answers_off: U32::new(ANSWERS_OFF as u32),
            heap_off: U32::new(HEAP_OFF as u32),
            reserved1: U32::new(0),
            client,
            key: [U64::ZERO; 2],
            reserved2: [U64::ZERO; 5],
        }
    }

    /// The header of a further window: nothing of control.
    pub fn further(role: Role, window_bytes: u64, generation: u64, key: [u64; 2]) -> Self {
        let none = Self::new(window_bytes, generation, Features(0), 0, [0; NAME_BYTES]);
        WindowHeader {
            role: U16::new(role.to_wire()),
            control_cells: U16::ZERO,
            sessions: U16::ZERO,
            guest_page_off: U32::ZERO,
            requests_off: U32::ZERO,
            answers_off: U32::ZERO,
            heap_off: U32::new(FURTHER_HEAP_OFF as u32),
            key: key.map(U64::new),
            ..none
        }
    }

    /// Checks a header that was read once into private memory, of a window that is to
    /// have the role `wanted` (R-WIN-2, R-WIN-11). The reserved fields are not looked at.
    pub fn check(&self, mapped: u64, wanted: Role) -> Result<(), HeaderError> {
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
        if self.role.get() != wanted.to_wire() {
            return Err(HeaderError::Role { wanted, found: self.role.get() });
        }
        check_size(self.window_bytes.get())?;
        if self.window_bytes.get() != mapped {
            return Err(HeaderError::SizeMismatch { header: self.window_bytes.get(), mapped });
        }
        self.check_fields(wanted)
    }

    /// The counts and offsets that follow from the role.
    fn check_fields(&self, role: Role) -> Result<(), HeaderError> {
        let control = role == Role::Control;
        let only = |value: usize| if control { value } else { 0 };
        let heap = if control { HEAP_OFF } else { FURTHER_HEAP_OFF };
        let fixed = [
            ("count of control cells", usize::from(self.control_cells.get()), only(CONTROL_CELLS)),
            ("count of sessions", usize::from(self.sessions.get()), only(SESSIONS)),
            ("offset of the guest page", self.guest_page_off.get() as usize, only(GUEST_PAGE_OFF)),
            ("offset of the requests", self.requests_off.get() as usize, only(REQUESTS_OFF)),
            ("offset of the answers", self.answers_off.get() as usize, only(ANSWERS_OFF)),
            ("offset of the heap", self.heap_off.get() as usize, heap),
        ];
        for (name, found, right) in fixed {
            if found != right {
                return Err(HeaderError::Field(name));
            }
        }
        if (self.key == [U64::ZERO; 2]) != control {
            return Err(HeaderError::Field("key"));
        }
        if self.vectors.get() > VECTORS {
            return Err(HeaderError::Field("count of vectors"));
        }
        let named = match control {
            true => crate::names::decode(&self.client).is_ok(),
            false => self.client == [0; NAME_BYTES] && self.client_id.get() == 0,
        };
        if !named {
            return Err(HeaderError::Field("client name"));
        }
        Ok(())
    }

    /// Where ranges of a control window may lie. The header was checked. Of a further
    /// one its entry says it ([`WindowEntry::heap`]).
    pub fn heap(&self) -> Heap {
        Heap { window: 0, from: self.heap_off.get().into(), to: self.window_bytes.get() }
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
        assert_eq!(good().check(1 << 20, Role::Control), Ok(()));
    }

    #[test]
    fn each_wrong_field_is_named() {
        let mut h = good();
        h.magic = U64::new(5);
        assert_eq!(h.check(1 << 20, Role::Control), Err(HeaderError::Magic(5)));
        let mut h = good();
        h.layout = U16::new(9);
        assert_eq!(h.check(1 << 20, Role::Control), Err(HeaderError::Layout(9)));
        let mut h = good();
        (h.version_min, h.version_max) = (U16::new(40), U16::new(41));
        assert_eq!(h.check(1 << 20, Role::Control), Err(HeaderError::Version { min: 40, max: 41 }));
        let mut h = good();
        h.window_bytes = U64::new(3 << 20);
        assert_eq!(h.check(1 << 20, Role::Control), Err(HeaderError::Size(3 << 20)));
        assert!(matches!(
            good().check(2 << 20, Role::Control),
            Err(HeaderError::SizeMismatch { .. })
        ));
        let mut h = good();
        h.answers_off = U32::new(4);
        assert_eq!(
            h.check(1 << 20, Role::Control),
            Err(HeaderError::Field("offset of the answers"))
        );
        let mut h = good();
        h.vectors = U16::new(VECTORS + 1);
        assert_eq!(h.check(1 << 20, Role::Control), Err(HeaderError::Field("count of vectors")));
        let mut h = good();
        h.client = [0; NAME_BYTES];
        assert_eq!(h.check(1 << 20, Role::Control), Err(HeaderError::Field("client name")));
        let mut h = good();
        h.key[1] = U64::new(1);
        assert_eq!(h.check(1 << 20, Role::Control), Err(HeaderError::Field("key")));
    }

    fn link() -> WindowHeader {
        WindowHeader::further(Role::Link, 1 << 20, 7, [3, 5])
    }

    #[test]
    fn a_further_window_has_no_control_fields() {
        assert_eq!(link().check(1 << 20, Role::Link), Ok(()));
        let data = WindowHeader::further(Role::Data, 1 << 20, 7, [0, 5]);
        assert_eq!(data.check(1 << 20, Role::Data), Ok(()));
        assert!(data.check(1 << 20, Role::Link).is_err());
        let (index, bytes) = (U16::new(3), U64::new(1 << 20));
        let entry = WindowEntry { index, bytes, ..WindowEntry::NONE };
        assert_eq!(entry.heap(), Heap { window: 3, from: 4096, to: 1 << 20 });
        let wrong = |change: fn(&mut WindowHeader)| {
            let mut h = link();
            change(&mut h);
            matches!(h.check(1 << 20, Role::Link), Err(HeaderError::Field(_)))
        };
        assert!(wrong(|h| h.control_cells = U16::new(CONTROL_CELLS as u16)));
        assert!(wrong(|h| h.sessions = U16::new(1)));
        assert!(wrong(|h| h.guest_page_off = U32::new(GUEST_PAGE_OFF as u32)));
        assert!(wrong(|h| h.requests_off = U32::new(REQUESTS_OFF as u32)));
        assert!(wrong(|h| h.answers_off = U32::new(ANSWERS_OFF as u32)));
        assert!(wrong(|h| h.heap_off = U32::new(HEAP_OFF as u32)));
        assert!(wrong(|h| h.client[0] = b'x'));
        assert!(wrong(|h| h.client_id = U32::new(3)));
        assert!(wrong(|h| h.key = [U64::ZERO; 2]));
    }

    #[test]
    fn a_window_of_another_role_is_refused() {
        let e = link().check(1 << 20, Role::Control).unwrap_err();
        assert_eq!(
            e.to_string(),
            "the window's role is link, not control: connect to another device"
        );
        assert!(good().check(1 << 20, Role::Link).is_err());
        let mut h = good();
        h.role = U16::ZERO;
        assert!(h.check(1 << 20, Role::Control).unwrap_err().to_string().contains("unknown"));
    }

    /// The header of a host of layout 1, byte by byte, and the sentence that a newer one gets.
    #[test]
    fn another_layout_is_refused_with_what_to_update() {
        let mut h = good();
        (h.layout, h.role) = (U16::new(1), U16::ZERO);
        (h.version_min, h.version_max) = (U16::new(1), U16::new(1));
        let e = h.check(1 << 20, Role::Control).unwrap_err().to_string();
        assert_eq!(
            e,
            "the window has layout 1, of an older host; this side reads layout 2: update VirtFun on the host"
        );
        h.layout = U16::new(3);
        let e = h.check(1 << 20, Role::Control).unwrap_err().to_string();
        assert!(e.ends_with("update VirtFun on this side"), "{e}");
        // Every layout has these two where the first one had them.
        assert_eq!(core::mem::offset_of!(WindowHeader, magic), 0);
        assert_eq!(core::mem::offset_of!(WindowHeader, layout), 8);
    }

    #[test]
    fn sizes() {
        assert_eq!(check_size(4096), Err(HeaderError::Size(4096)));
        assert_eq!(check_size((1 << 20) + 1), Err(HeaderError::Size((1 << 20) + 1)));
        assert!(check_size(1 << 37).is_err());
        assert!(check_size(64 << 20).is_ok());
    }
}
