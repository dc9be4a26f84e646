//! Every limit of the queues of verbs, with its reason. The NIC's own limits (how many
//! queues, how many regions) are in `services/verbs/src/limits.rs`.

/// Bytes of an entry: one line, which travels as one.
pub const ENTRY_BYTES: usize = 64;
/// Scatter elements of an entry: what perftest, UCX and libfabric ask for is at most this. Two
/// (a send) or three (a receive) lie in the line, the others beside it.
pub const SGES_MAX: usize = 16;
/// Bytes that an entry can carry itself: 32 in its line, the others beside it. Common cards
/// offer as many, and perftest asks for 220.
pub const INLINE_MAX: usize = 220;
/// Largest extension of an entry, bytes: 14 elements of a send need 224.
pub const EXTENSION_MAX: usize = 256;
/// Longest message, bytes: what verbs promise (`max_msg_sz` of common cards is 1 or 2 GiB).
pub const MESSAGE_MAX: u64 = 1 << 30;
/// Longest datagram, bytes: the largest MTU of InfiniBand.
pub const DATAGRAM_MAX: u64 = 4096;
/// Bytes that a datagram's receiver gets in front of it (the global route header).
pub const GRH_BYTES: usize = 40;
/// Queue pairs of one program: their doorbell bits are 64 words, which the NIC
/// looks through in some ten nanoseconds when one of them changed.
pub const QPS_OF_PROGRAM: usize = 4096;
/// Entries after the next one whose line a producer asks for when it produces one. The line comes from the other side's
/// processor meanwhile, and the fence of R-VRB-4 or R-VRB-8 does not wait for it. Measured: 4, 8 and 16 are equally good.
pub const LINES_AHEAD: u64 = 8;
