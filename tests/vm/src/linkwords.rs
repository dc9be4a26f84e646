//! What stands in the memory of a direct link, read from outside while its two VMs use it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vfun_packet::LinkPlace;
use vfun_packet::layout::header::{SENT, TAKEN};

/// Between two looks: far below the time between two frames of a test.
const LOOK: Duration = Duration::from_micros(250);

/// The counts of one direction in a window that two VMs share.
pub struct LinkWords {
    file: File,
    /// Where they stand: of what the sender has sent, and of what the receiver has taken.
    at: [u64; 2],
}

impl LinkWords {
    /// Of frames that the first VM of the window sends to the second one, or the other way.
    pub fn of(window: &Path, from_second: bool) -> Self {
        let file = File::open(window).expect("the window's file is there");
        let bytes = file.metadata().expect("a file has a length").len();
        let ring = LinkPlace::largest_ring(bytes).expect("a link has room there");
        let (sender, receiver) = LinkPlace { window: 1, ring, is_second: from_second }.sides();
        LinkWords { file, at: [sender + 8 * SENT as u64, receiver + 8 * TAKEN as u64] }
    }

    fn word(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, at).expect("the window is as long as it was");
        u64::from_le_bytes(word)
    }

    pub fn sent(&self) -> u64 {
        self.word(self.at[0])
    }

    pub fn taken(&self) -> u64 {
        self.word(self.at[1])
    }
}

/// Moments at which the sender had sent more.
#[derive(Clone, Copy, Default)]
struct Changes {
    first: Option<Instant>,
    last: Option<Instant>,
}

/// Looks at a link's count all the time. It ends with this.
pub struct LinkWatch {
    changes: Arc<Mutex<Changes>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LinkWatch {
    pub fn start(words: LinkWords) -> Self {
        let (changes, over) = (Arc::<Mutex<Changes>>::default(), Arc::new(AtomicBool::new(false)));
        let (to, ends) = (changes.clone(), over.clone());
        let thread = std::thread::spawn(move || {
            let mut known = words.sent();
            while !ends.load(Ordering::Relaxed) {
                let sent = words.sent();
                // A link that begins anew counts from 0.
                if sent > known {
                    let (now, mut to) = (Instant::now(), locked(&to));
                    to.first.get_or_insert(now);
                    to.last = Some(now);
                }
                known = sent;
                std::thread::sleep(LOOK);
            }
        });
        LinkWatch { changes, over, thread: Some(thread) }
    }

    /// When the last frame went over the link, if one ever did.
    pub fn last(&self) -> Option<Instant> {
        locked(&self.changes).last
    }

    /// When the first one did since [`forgets`](Self::forgets).
    pub fn first(&self) -> Option<Instant> {
        locked(&self.changes).first
    }

    /// Knows nothing of what was before now.
    pub fn forgets(&self) {
        *locked(&self.changes) = Changes::default();
    }
}

fn locked(changes: &Mutex<Changes>) -> MutexGuard<'_, Changes> {
    changes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for LinkWatch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
