//! What `vfun-nics`, the process that lends network VFs, says. It is asked by a thread of
//! its own: a scrape shows what was seen last, so one that hangs holds no scrape up.

use crate::limits::NICS_OLD;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use vfun_admin::{Status, line};
use vfun_nicd::ask::{Answer, Ask, socket};
use vfun_nics::view::View;

/// What was seen last.
#[derive(Clone, Debug, Default)]
pub enum NicsSeen {
    /// The manager lends no network VFs, or was not asked yet.
    #[default]
    Off,
    /// `vfun-nics` does not answer.
    Silent,
    /// All pools and VMs.
    All(Arc<View>),
}

/// The last look at `vfun-nics`.
#[derive(Debug)]
pub struct NicsSource {
    last: Mutex<Option<(Instant, NicsSeen)>>,
    /// Whether it answered; what is the same as before is not said again.
    answered: AtomicBool,
}

impl NicsSource {
    /// One that was not looked at yet.
    pub fn new() -> Self {
        NicsSource { last: Mutex::new(None), answered: AtomicBool::new(true) }
    }

    /// Looks, if the manager lends network VFs. It takes 30 s where `vfun-nics` hangs.
    pub fn look(&self, manager: &Status) {
        let seen = match manager.nics {
            true => self.asked(&manager.root),
            false => NicsSeen::Off,
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), seen));
    }

    fn asked(&self, root: &Path) -> NicsSeen {
        let why = match line::ask(&socket(root), &Ask::View) {
            Ok(Answer::View(view)) => {
                self.answered.store(true, Ordering::Relaxed);
                return NicsSeen::All(Arc::new(view));
            }
            Ok(Answer::Refused { sentence }) => sentence,
            Ok(_) => "it answered another question: use a vfun-metrics of its version".into(),
            Err(e) => e.to_string(),
        };
        if self.answered.swap(false, Ordering::Relaxed) {
            tracing::warn!("vfun-nics does not answer: {why}");
        }
        NicsSeen::Silent
    }

    /// What was seen last. What is too old counts as no answer.
    pub fn seen(&self) -> NicsSeen {
        match &*self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((_, NicsSeen::Off)) | None => NicsSeen::Off,
            Some((at, _)) if at.elapsed() > NICS_OLD => NicsSeen::Silent,
            Some((_, seen)) => seen.clone(),
        }
    }
}

impl Default for NicsSource {
    fn default() -> Self {
        Self::new()
    }
}
