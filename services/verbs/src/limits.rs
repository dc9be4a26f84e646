//! Every limit of the NIC, with its reason. They hold for one tenant, whose process this is.

/// Bytes that one queue pair copies before the next one has its turn: a copy of 64 KiB takes
/// some microseconds, which is what a small message of a neighbour then waits.
pub const SLICE: u64 = 64 << 10;
/// Slices of one turn where one program alone uses the NIC and no other queue pair of it has work: what comes meanwhile
/// waits so much longer, once.
pub const SLICES_ALONE: u32 = 4;
/// Entries that one queue pair has done before the next one has its turn: about the time of a
/// slice if they are small.
pub const ENTRIES_A_TURN: usize = 16;
/// Looks at a queue pair without work before it is no longer looked at until its bit
/// changes: about as long as a round trip, so that a program that waits for an answer finds
/// the NIC looking.
pub const IDLE_LOOKS: u32 = 256;

/// Looks at queue pairs of one program without finding work, before the next program has its
/// turn: some 10 µs.
pub const LOOKS_A_TURN: usize = 64;
/// Queue pairs of one program that rang and are noted in a turn, for the same reason: no further
/// word of 64 bits is looked at then, until the next turn.
pub const RUNG_A_TURN: usize = 64;
/// Timers that end in one run, for the same reason.
pub const TIMERS_A_RUN: usize = 64;
/// Nanoseconds that a queue pair waits for a receive at least, for each one of its program that is
/// looked at: a look takes some 50 ns, so that those which wait take a tenth of the NIC's time.
pub const PATIENCE_NS: u64 = 1000;
/// Queue pairs of a completion queue without room that fail in one turn, for the same reason.
pub const FAILS_A_TURN: usize = 64;

/// Programs at once: each costs one load in every look.
pub const PROGRAMS: usize = 256;
/// Windows that registered memory lies in: those of the tenant's VMs and host programs.
pub const WINDOWS: usize = 1024;
/// Protection domains.
pub const PDS: usize = 4096;
/// Protection domains of one program, so that four at least find some.
pub const PDS_OF_PROGRAM: usize = 1024;
/// Shared receive queues of one program, for the same reason.
pub const SRQS_OF_PROGRAM: usize = 1024;
/// Completion queues.
pub const CQS: usize = 65_536;
/// Shared receive queues.
pub const SRQS: usize = 4096;
/// Queue pairs: some 1 KiB of this process's memory each.
pub const QPS: usize = 65_536;
/// Address handles.
pub const AHS: usize = 65_536;
/// Memory regions. Their table has twice as many places of 80 bytes.
pub const REGIONS: usize = 131_072;
/// Runs of pages of one region: 1 GiB in which every fourth page lies apart.
pub const EXTENTS: usize = 65_536;
/// Runs of pages of all regions: 32 MiB. A program may name the same two pages again and again,
/// so that what is lent bounds nothing.
pub const ALL_EXTENTS: u64 = 1 << 20;
/// Asynchronous events of one program that nobody has taken yet. Each object makes few; what is
/// more is counted as lost, and no other program loses any.
pub const EVENTS: usize = 4096;
/// Events of completion queues that nobody has taken yet: all that a run can make, of which each
/// entry completes at both ends. They are taken after each run, so none is ever lost.
pub const COMPLETED: usize = PROGRAMS * ENTRIES_A_TURN * 2;
/// Draws of a random number before the next free one is taken.
pub const DRAWS: u32 = 64;

/// Ids of the connection manager: 4 MiB in all.
pub const CM_IDS: usize = 32_768;
/// Ids of all programs of one VM, so that it does not take those of other VMs.
pub const CM_IDS_OF_HOME: usize = 8192;
/// Ids of one program, so that it does not take those of others in its VM.
pub const CM_IDS_OF_PROGRAM: usize = 4096;
/// Requests at one listener that nobody has answered, as Linux has it.
pub const CM_BACKLOG: u32 = 1024;
/// Bytes that programs tell each other with an answer: what InfiniBand has room for.
pub const CM_DATA: usize = 196;
/// Events of connections that nobody has taken. They are taken after each call, which makes few.
pub const CM_EVENTS: usize = CM_IDS;
/// Requests at ports where nobody listens yet: each may hold 400 bytes.
pub const CM_EARLY: usize = 1024;
/// How long they wait, ns. A listener is late by some ms, and by some hundred on a busy machine.
pub const CM_EARLY_NS: u64 = 500_000_000;
