//! A doorbell over loom. The models of queues and of packets share this file.

use loom::sync::{Arc, Condvar, Mutex};

/// A doorbell as `vfun_window::Bell` is one: rings are kept until waited for.
#[derive(Clone)]
pub struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    pub fn new() -> Self {
        Bell(Arc::new((Mutex::new(false), Condvar::new())))
    }
    pub fn ring(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
    pub fn rung(&self) -> bool {
        *self.0.0.lock().unwrap()
    }
    /// Blocks for ever if nobody rings: loom then reports a deadlock.
    pub fn wait(&self) {
        let mut rung = self.0.0.lock().unwrap();
        while !*rung {
            rung = self.0.1.wait(rung).unwrap();
        }
        *rung = false;
    }
}
