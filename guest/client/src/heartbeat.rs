//! Shows the host that a session lives, where no socket does.

use crate::error::{Error, Result};
use crate::transport::ControlPages;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use vfun_wire::LINE;
use vfun_wire::header::SESSIONS_OFF;

/// A thread that counts a session line's first word up. Ends when dropped.
pub(crate) struct Heartbeat {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    pub fn start(pages: Arc<ControlPages>, line: usize, every: Duration) -> Result<Self> {
        let word = ControlPages::guest_word(SESSIONS_OFF + line * LINE);
        let (stop, stopped) = channel();
        let beat = move || {
            loop {
                // Of another generation the line may be another app's.
                if pages.window.check_generation().is_err() {
                    return;
                }
                pages.guest.fetch_add(word, 1, Ordering::Relaxed);
                // Twice as often as asked: a late wake-up is then no death.
                match stopped.recv_timeout(every / 2) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("vfun-heartbeat".into())
            .spawn(beat)
            .map_err(|e| Error::BadOption(format!("cannot start the heartbeat's thread: {e}")))?;
        Ok(Heartbeat { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
