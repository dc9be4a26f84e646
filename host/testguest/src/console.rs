//! What the guest prints to its console, and what QEMU prints to stderr.

use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::limits;

const PANIC: &str = "Kernel panic - not syncing";

#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    dropped: bool,
    panicked: bool,
    ended: bool,
}

/// The console's output, gathered by a thread of its own until QEMU ends.
#[derive(Clone, Default)]
pub(crate) struct Console(Arc<Mutex<Text>>);

impl Console {
    /// Gathers what comes from QEMU's stdout.
    pub fn gather(&self, mut from: impl Read + Send + 'static) -> JoinHandle<()> {
        let console = self.clone();
        thread::spawn(move || {
            let mut block = [0; 8192];
            while let Ok(n @ 1..) = from.read(&mut block) {
                console.add(&block[..n]);
            }
            console.lock().ended = true;
        })
    }

    fn lock(&self) -> MutexGuard<'_, Text> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, new: &[u8]) {
        let mut text = self.lock();
        let seen = text.bytes.len();
        text.bytes.extend_from_slice(new);
        let from = seen.saturating_sub(PANIC.len());
        text.panicked |= text.bytes[from..].windows(PANIC.len()).any(|w| w == PANIC.as_bytes());
        if text.bytes.len() > limits::MAX_CONSOLE_BYTES {
            // Half at once, so that the cost of moving the rest stays small.
            text.bytes.drain(..limits::MAX_CONSOLE_BYTES / 2);
            text.dropped = true;
        }
    }

    /// All that is kept, as text.
    pub fn text(&self) -> String {
        let text = self.lock();
        let mark = if text.dropped { "[earlier output dropped]\n" } else { "" };
        format!("{mark}{}", String::from_utf8_lossy(&text.bytes).replace('\r', ""))
    }

    /// The last lines, for the end of an error. After a panic: the lines from it on, because
    /// the stack that the kernel prints then can be longer than what is shown.
    pub fn tail(&self) -> String {
        let text = self.text();
        let mut lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        if lines.is_empty() {
            return "It printed nothing on its console".into();
        }
        let last = lines.len().saturating_sub(limits::TAIL_LINES);
        let panic = lines.iter().rposition(|l| l.contains(PANIC)).filter(|_| self.panicked());
        lines.drain(..panic.map_or(last, |panic| panic.min(last)));
        lines.truncate(limits::TAIL_LINES);
        format!("The last lines of its console:\n{}", lines.join("\n"))
    }

    pub fn is_silent(&self) -> bool {
        self.lock().bytes.is_empty()
    }

    pub fn panicked(&self) -> bool {
        self.lock().panicked
    }

    /// Forgets a panic, as the guest is being started again.
    pub fn forgive(&self) {
        self.lock().panicked = false;
    }

    /// QEMU has closed its end: it is gone.
    pub fn ended(&self) -> bool {
        self.lock().ended
    }
}

/// Keeps the first of what QEMU says on stderr, and reads the rest away.
pub(crate) fn gather_stderr(
    mut from: impl Read + Send + 'static,
) -> (Arc<Mutex<Vec<u8>>>, JoinHandle<()>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let into = kept.clone();
    let thread = thread::spawn(move || {
        let mut block = [0; 1024];
        while let Ok(n @ 1..) = from.read(&mut block) {
            let mut into = into.lock().unwrap_or_else(PoisonError::into_inner);
            let room = (limits::MAX_QEMU_STDERR_BYTES as usize).saturating_sub(into.len());
            into.extend_from_slice(&block[..n.min(room)]);
        }
    });
    (kept, thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_seen_across_blocks() {
        let console = Console::default();
        console.add(b"x\r\nKernel panic - not ");
        assert!(!console.panicked());
        console.add(b"syncing: why\r\n");
        assert!(console.panicked());
        assert!(console.tail().ends_with("x\nKernel panic - not syncing: why"));
        console.add("a line of the stack\n".repeat(limits::TAIL_LINES).as_bytes());
        assert!(console.tail().contains("Kernel panic - not syncing: why"));
        assert_eq!(console.tail().lines().count(), 1 + limits::TAIL_LINES);
        console.forgive();
        console.add(b"fine\n");
        assert!(console.tail().ends_with("a line of the stack\nfine"));
        assert!(!console.panicked());
    }

    #[test]
    fn it_is_bounded() {
        let console = Console::default();
        for _ in 0..10 {
            console.add(&vec![b'y'; 1 << 20]);
        }
        assert!(console.text().len() <= limits::MAX_CONSOLE_BYTES + 64);
        assert!(console.text().starts_with("[earlier"));
    }
}
