//! Every limit of the protocol, with its reason. Policy (per client, per
//! function) may only lower them. `docs/limits.md` is the page for people.

/// Smallest window: the control area and one small channel fit with room to spare.
pub const WINDOW_BYTES_MIN: u64 = 1 << 20;
/// Largest window: a PCI BAR beyond this does not fit the 64-bit hole of older firmware.
pub const WINDOW_BYTES_MAX: u64 = 1 << 36;
/// Window of a client that names none: holds a dozen default channels.
pub const WINDOW_BYTES_DEFAULT: u64 = 64 << 20;

/// Control cells: how many requests of one window can be under way at once.
/// Requests take milliseconds, so sixteen apps starting together do not queue for long.
pub const CONTROL_CELLS: usize = 16;
/// Bytes of a control request, its line included: the largest message is under 300.
pub const CONTROL_REQUEST_BYTES: usize = 1024;
/// Bytes of a control answer, its line included: one page, so that a list fits 40 functions.
pub const CONTROL_ANSWER_BYTES: usize = 4096;
/// Apps (sessions) of one window at once: their heartbeats fit one page.
pub const SESSIONS: usize = 60;

/// Fewest cells of a channel.
pub const DEPTH_MIN: u16 = 1;
/// Most cells of a channel: 64 in flight already reach the memory's limit
/// (64-byte lines answered by a peer gain nothing beyond), the rest is for open calls.
pub const DEPTH_MAX: u16 = 1024;
/// Cells of a channel whose app names no depth.
pub const DEPTH_DEFAULT: u16 = 64;
/// Largest data space of one cell on each side.
pub const CELL_BYTES_MAX: u32 = 1 << 30;
/// Data space of a channel whose app names none: in-line arguments and a page.
pub const CELL_BYTES_DEFAULT: u32 = 4096;
/// Fewest pages of a side of a channel of queues: its head page, and one to lay a header in.
pub const QUEUES_PAGES_MIN: u32 = 2;
/// Most pages of a side of a channel of queues: 64 MiB. It holds the queues of some 2500 queue
/// pairs; a program that needs more negotiates another channel. Both sides are zeroed when the
/// channel opens, and where the window is a file or of huge pages the manager writes each byte.
pub const QUEUES_PAGES_MAX: u32 = 1 << 14;
/// Smallest ring of a channel of packets: a page.
pub const PACKETS_RING_MIN: u32 = 1 << 12;
/// Largest ring of a channel of packets: some 44,000 frames of 1500 bytes, more than a switch
/// queues for one port.
pub const PACKETS_RING_MAX: u32 = 64 << 20;
/// Arguments or results that fit in a cell's own line.
pub const INLINE_BYTES: usize = 48;

/// Ranges of a channel: calls have two. Eight hold a queue pair with a completion queue
/// and a doorbell page, or the rings of a packet port; more queues share a range.
/// A kernel module keeps them in one small array.
pub const RANGES_MAX: usize = 8;
/// Buffers of a session at once: as many memory regions as an RDMA program of some size
/// registers. The kernel module's limit of a file (`VFUN_BUFFERS_MAX`), too.
pub const BUFFERS: usize = 256;
/// Largest alignment of a buffer, bytes: a huge page of x86-64.
pub const BUFFER_ALIGN_MAX: u64 = 2 << 20;
/// Bytes of a channel's shape, which its kind gives a meaning: two lengths and a count fit.
pub const SHAPE_BYTES: usize = 16;
/// Bytes of the meaning of a driver's error code: a sentence.
pub const MEANING_BYTES: usize = 256;

/// Bytes of a name (client, app, function), without a terminator when full.
pub const NAME_BYTES: usize = 64;
/// Bytes of an app's credential.
pub const CREDENTIAL_BYTES: usize = 64;
/// Bytes of a nack's sentence.
pub const SENTENCE_BYTES: usize = 512;

/// Further windows of a VM: each is a device behind a port of its own, and machines have
/// a few dozen. Their table fits the control window's first page.
pub const WINDOWS_MAX: usize = 32;

/// Ports of a VM: machines have a few network cards. Their table fits the control window's
/// first page.
pub const PORTS_MAX: usize = 16;
/// Bytes of a port's name, without a terminator: as long as Linux lets an interface's be.
pub const PORT_NAME_BYTES: usize = 15;

/// Doorbell vectors of a window, each way: one for control, the rest shared by
/// channels. An idle channel costs nothing, so that a few are enough: sharing
/// one only means that a ring wakes a sleeper of another channel now and then.
pub const VECTORS: u16 = 8;
/// Bytes of a function's signature as text: some thirty named arguments.
pub const SIGNATURE_BYTES: usize = 2048;

/// Longest deadline of a call, ms (an hour): what runs longer is a service of its own.
pub const DEADLINE_MS_MAX: u32 = 3_600_000;
/// Deadline where neither app nor function names one, ms.
pub const DEADLINE_MS_DEFAULT: u32 = 60_000;

/// A control cell whose owner does nothing for this long may be taken over, ms.
pub const CLAIM_STALE_MS: u64 = 3_000;
/// How long an app waits for an answer to a control request, ms. Starting a
/// service on a loaded machine takes a second at worst.
pub const CONTROL_TIMEOUT_MS: u64 = 10_000;
/// How often a session without a socket counts its heartbeat up, ms: some times before it is taken for
/// dead. Each time costs a VM that sleeps a wake-up.
pub const HEARTBEAT_MS: u64 = 2_000;
/// A heartbeat that stands still this long means that the app is gone, ms.
pub const HEARTBEAT_DEAD_MS: u64 = 30_000;

/// Largest frame of the TCP transport: 64 MiB of arguments or results and its
/// heads. Larger cells are for shared memory; a copy of more at once would
/// only hold up the other calls of the connection.
pub const FRAME_BYTES_MAX: u32 = (64 << 20) + 4096;
