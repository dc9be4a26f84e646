//! Memory of the program that becomes a buffer's.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

/// Whole pages of this process that may move into the window.
#[derive(Clone, Copy, Debug)]
pub struct MemoryToMove {
    addr: usize,
    bytes: usize,
    written: bool,
}

impl MemoryToMove {
    /// Bytes at an address; both are multiples of 4096.
    ///
    /// # Safety
    /// They are memory of the program's own, of which no Rust reference exists that the compiler may
    /// think unchanging while a service writes.
    pub unsafe fn new(addr: *mut u8, bytes: usize) -> Self {
        MemoryToMove { addr: addr.expose_provenance(), bytes, written: false }
    }

    /// The host is to write it, so that memory that may only be read does not move.
    pub fn to_be_written(self) -> Self {
        MemoryToMove { written: true, ..self }
    }

    /// Whether it is.
    pub fn is_written(self) -> bool {
        self.written
    }

    /// Address and bytes.
    pub fn place(self) -> (usize, usize) {
        (self.addr, self.bytes)
    }
}

/// Where memory of this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlace {
    /// Handle of the buffer that it is in; 0: it is in none.
    pub buffer: u64,
    /// Of its first byte in the buffer.
    pub offset: u64,
    /// How many bytes of it, from the first on, this is said of.
    pub bytes: usize,
}

/// Where a buffer lies in a file that can be mapped page by page.
#[derive(Clone, Copy, Debug)]
pub struct BufferFile<'a> {
    pub file: BorrowedFd<'a>,
    /// Of the buffer's first byte in it.
    pub begin: u64,
    pub kind: FileKind,
}

/// What else can be done with a window's file than to map it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// It is memory of this machine, of plain pages: a write to it fills the window as a store does, and the kernel
    /// makes a page that is written whole without filling it with zeros first.
    Memory,
    /// Nothing: memory of a device, or a file of somebody else's.
    Mapped,
}

/// Why memory did not move into a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmovable {
    /// There is no module to do it.
    #[error(
        "memory can move into the window only by the guest's kernel module, which is not in use here or is too old"
    )]
    NoModule,
    /// Nothing is mapped there, or it cannot be read.
    #[error("there is no memory at this address that can be read")]
    NotThere,
    /// Other processes have it, too.
    #[error("the memory is shared (MAP_SHARED): other processes would not see it move")]
    Shared,
    /// It is a device's, or has pages of another size.
    #[error("the memory is a device's, or has huge pages of its own")]
    Special,
    /// What a host can write is not to be run.
    #[error("the memory can be executed: a host that can write it could run what it likes")]
    Executable,
    /// The program may only read it.
    #[error("the memory may only be read, and was to be registered for writing")]
    ReadOnly,
    /// More than the program may pin.
    #[error("the program may pin no more memory: raise RLIMIT_MEMLOCK (`ulimit -l`)")]
    Limit,
    /// The window is no file that a program can map page by page: only the module moves memory into it.
    #[error(
        "this window cannot be mapped over a program's memory; only the guest's kernel module moves memory into it"
    )]
    NoFile,
    /// The buffer has ended, or is too small.
    #[error("the buffer has ended, or has no such bytes")]
    BufferOver,
    /// What the system said else.
    #[error("the system does not move it: {}", std::io::Error::from_raw_os_error(*.0))]
    System(i32),
}
