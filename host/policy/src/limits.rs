//! What a policy may say, with the reasons.

/// Longest policy, bytes: a thousand clients with room. It comes in one line
/// over the admin socket, where each newline takes two.
pub const POLICY_BYTES_MAX: usize = 192 << 10;
/// Smallest share of a processor, percent: less starves a service's own watch
/// over its deadlines.
pub const CPU_PERCENT_MIN: u32 = 1;
/// Largest share: a thousand processors are on no host.
pub const CPU_PERCENT_MAX: u32 = 100_000;
/// Least memory of a service, bytes: it has 2 to 15 MB before its first call.
pub const MEMORY_MIN: u64 = 16 << 20;
/// Fewest threads of a service: the main one, one for a channel, and what a
/// driver's library may start.
pub const THREADS_MIN: u32 = 4;
/// Fewest control requests a second: an app's start makes some five.
pub const REQUESTS_PER_S_MIN: u32 = 5;
/// Fewest at once: as many as a window has control cells.
pub const REQUESTS_BURST_MIN: u32 = 16;
/// Fewest idle rings a second: two threads race now and then, and honestly.
pub const RINGS_PER_S_MIN: u32 = 100;
/// Tokens of one client at once, expired ones included: each is compared with
/// what an app presents. Sixty-four are an app each with two while they change.
pub const TOKENS_PER_CLIENT: usize = 64;
/// Longest pattern of app names, bytes: that of a name.
pub const APP_PATTERN_BYTES: usize = vfun_wire::limits::NAME_BYTES;
/// Least bytes for a client's modules: one small one with its code has less.
pub const MODULES_BYTES_MIN: u64 = 1 << 20;
/// Most submissions a minute: each is written to the disk, and the times of a
/// minute's are remembered.
pub const SUBMITS_PER_MIN_MAX: u32 = 6_000;
