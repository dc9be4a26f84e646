//! Every limit of this library, with its reason. Those of queues are in `protocol/verbs`, those of
//! the NIC in `services/verbs`.

/// Pages of each side of a context's queues, if the program does not say: 4 MiB hold some hundred queue
/// pairs of common depths. They are taken out of the window's room for memory.
pub const QUEUE_PAGES: u32 = 1024;
/// Fewest that are asked for where the host grants less: a few queue pairs.
pub const QUEUE_PAGES_MIN: u32 = 64;
/// Bytes of registered memory that this library moves at once. The program's old pages are free after each such step, and
/// the next step gets them while they are in the cache. Of 16 KiB to 1 MiB this was the fastest; smaller steps make
/// more system calls.
pub const MOVED_AT_ONCE: usize = 256 << 10;
/// Completions that a poll copies at a time: a page's quarter of stack.
pub const POLLED_AT_ONCE: usize = 16;
/// Asynchronous events that wait for the program. What is more is dropped: each object makes few.
pub const EVENTS_MAX: usize = 4096;
/// Empty polls between two looks whether the NIC lives. A look costs some ten loads.
pub const POLLS_A_CHECK: u32 = 1024;
