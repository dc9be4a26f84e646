//! A window's memory from outside, for tests that spoil it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use vfun_wire::control::{Posted, WORD_ANSWERED, WORD_POSTED, answer_off, request_off};
use vfun_wire::header::POSTED_OFF;

/// A file and where in it a window begins.
pub struct Memory {
    file: File,
    origin: u64,
}

impl Memory {
    /// Opens the file at `path`.
    pub fn open(path: &Path, origin: u64) -> Self {
        let file = File::options().read(true).write(true).open(path);
        let file = file.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Memory { file, origin }
    }

    /// The memory of this name that a process got over a socket.
    pub fn of_process(pid: u32, name: &str) -> Self {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a process of ours");
        let is_it = |p: &std::path::PathBuf| {
            std::fs::read_link(p).is_ok_and(|to| to.to_string_lossy().contains(name))
        };
        let path = fds.flatten().map(|e| e.path()).find(is_it).expect("it has the window");
        Memory::open(&path, 0)
    }

    /// Bytes of the window.
    pub fn read(&self, at: usize, bytes: &mut [u8]) {
        self.file.read_exact_at(bytes, self.origin + at as u64).expect("inside the window");
    }

    /// Overwrites bytes of the window.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, self.origin + at as u64).expect("inside the window");
    }

    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        self.read(at, &mut word);
        u64::from_le_bytes(word)
    }

    /// Makes the file shorter, and as long as it was.
    pub fn truncate(&self, bytes: u64) -> u64 {
        let before = self.file.metadata().expect("it is open").len();
        self.file.set_len(bytes).expect("it is ours");
        before
    }

    /// Posts a request into a control cell that no app uses: a number of a message
    /// that there is not, in an order that is wrong, longer than a cell.
    pub fn post_nonsense(&self, cell: usize) {
        let last = Posted::unpack(self.word(request_off(cell) + WORD_POSTED * 8));
        let posted = Posted { seq: last.seq.wrapping_add(7), kind: 0xffff, len: u16::MAX };
        self.write(request_off(cell) + WORD_POSTED * 8, &posted.pack().to_le_bytes());
        let count = self.word(POSTED_OFF).wrapping_add(1);
        self.write(POSTED_OFF, &count.to_le_bytes());
    }

    /// Whether what was posted last into a cell was answered.
    pub fn is_answered(&self, cell: usize) -> bool {
        let seq = |at: usize| Posted::unpack(self.word(at)).seq;
        seq(request_off(cell) + WORD_POSTED * 8) == seq(answer_off(cell) + WORD_ANSWERED * 8)
    }
}
