//! The gateway's limits, each with its reason.

use std::time::Duration;

/// Connections served at once. Each has a window of its own, and the manager gives
/// out 64 to programs on the host: the rest stays for local ones.
pub const CONNECTIONS_MAX: usize = 48;
/// Connections that have not said who they are, at once; a newcomer ends the
/// oldest of the address that has most. Enough that one that means it, which
/// takes milliseconds, is not driven out by its neighbours' neglect; each has a
/// thread, and 64 KiB once it has begun to speak.
pub const GREETINGS_MAX: usize = 256;
/// Lines of the log a minute about connections that ended badly, of all together:
/// whoever reaches the port can cause one with each. Beyond, they are counted.
pub const LINES_A_MINUTE: u32 = 60;
/// How long a connection may take to say who it is, with its TLS handshake.
pub const GREETING: Duration = Duration::from_secs(5);
/// Largest frame of a greeting, bytes: both are under 300. After that it is
/// [`FETCH`], or what the largest active function takes.
pub const GREETING_FRAME_BYTES: usize = 4096;
/// Control requests of a connection that wait: a library has one or two.
pub const CONTROL_WAITING: usize = 16;
/// How long a frame may take to arrive, besides its share of [`FRAME_BYTES_PER_SECOND`].
pub const FRAME_TIME: Duration = Duration::from_secs(10);
/// Slowest pace at which a large frame may arrive.
pub const FRAME_BYTES_PER_SECOND: u64 = 256 << 10;
/// How long a peer may take none of its answers.
pub const WRITE_TIME: Duration = Duration::from_secs(10);
/// Between looks whether a connection is to end or its buffer may shrink.
pub const READ_TICK: Duration = Duration::from_secs(1);
/// How long an idle connection may be silent before the kernel asks the peer
/// for a sign of life; it asks [`KEEPALIVE_PROBES`] times, [`KEEPALIVE_BETWEEN`] apart.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// See [`KEEPALIVE_IDLE`].
pub const KEEPALIVE_BETWEEN: Duration = Duration::from_secs(10);
/// See [`KEEPALIVE_IDLE`].
pub const KEEPALIVE_PROBES: u32 = 3;

/// Bytes fetched at once, and kept by an idle connection.
pub const FETCH: usize = 64 << 10;
/// How long the reading thread waits for a call before it hands it over. Long
/// enough for the calls whose time a change of threads (20 to 90 µs) would
/// double, short enough to leave the next frame waiting unnoticed.
pub const INLINE: Duration = Duration::from_micros(80);
/// Of that, how long it keeps the processor. Then it lets others run between
/// looks: on a crowded machine one of them is the service.
pub const INLINE_SPIN: Duration = Duration::from_micros(30);
/// Looks at the calls under way between two looks at the socket.
pub const LOOKS: u32 = 64;
/// Answers collected before they are sent although others are about to finish, bytes.
pub const BATCH_BYTES: usize = 64 << 10;
/// First and longest wait for the oldest late call of a function before the
/// others of it are looked at. A service answers in order, so this matters
/// only where calls stay open; it doubles while nothing happens, so that an
/// idle open call costs next to nothing.
pub const LATE_WAIT: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(16));
