//! Every limit of a module, with its reason.

use std::time::Duration;

/// Largest module, bytes. Compiling takes about a second for each MiB, so a
/// larger one would not be ready in time anyway.
pub const MODULE_BYTES_MAX: u64 = 8 << 20;

/// Longest that compiling, starting and asking a module what it is may take.
/// Below the ten seconds that the manager waits, so that its reason arrives.
pub const LOAD_MAX: Duration = Duration::from_secs(8);

/// Stack of the module's code. Half of the channel's thread's (1 MiB): the
/// rest is the service's own. An overflow is a trap, not a crash.
pub const STACK_BYTES: usize = 512 << 10;

/// Most entries of the module's function table: what indirect calls can reach.
/// 16 bytes each; large C++ programs have some thousands.
pub const TABLE_ENTRIES_MAX: usize = 20_000;

/// Most tables; compilers make one.
pub const TABLES_MAX: usize = 4;

/// A page of linear memory, by WebAssembly's definition.
pub const PAGE_BYTES: u64 = 64 << 10;

/// Most linear memory of an instance of a submitted module, bytes: what a
/// service may have in all by default. The manager checks it again.
pub const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// Deadline of a submitted function whose author names none, ms.
pub const DEADLINE_MS_DEFAULT: u32 = 1_000;

/// Memory of each instance where its author names none, bytes: a stack, some
/// data, and arguments of some MiB.
pub const MEMORY_DEFAULT: u64 = 16 << 20;

/// Between two refusals of a client that asks the manager too often.
pub const AFTER_TOO_FAST: Duration = Duration::from_millis(20);

/// Stack of the thread that compiles a submitted module: code that is nested as
/// deeply as the language allows takes some MiB.
pub const COMPILER_STACK_BYTES: usize = 16 << 20;
