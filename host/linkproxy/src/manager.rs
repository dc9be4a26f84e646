//! The manager, which knows what went past rules, and has links come back.

use crate::correct::{Sums, Tally};
use crate::limits::{ALIVE, ANSWER, HELD_FOR, HOLD_LOOK, HOLD_MAX, HOLD_MS, REMOVED_MAX, SILENT};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vfun_admin::links::{FlowRow, FlowsAsk, ProxyRow};
use vfun_admin::{Ask, AskError, Client};

/// The manager, for one bridge. Any thread may ask.
pub struct Manager {
    client: Client,
    bridge: String,
    strict: bool,
    pub tally: Arc<Tally>,
    /// Whether its last answer came; what is the same as before is not said again.
    answers: AtomicBool,
    /// Until when changes of rules pass without another question.
    held: Mutex<Option<Instant>>,
    /// Until when it is not asked for counts, since it has not answered.
    silent: Mutex<Option<Instant>>,
}

/// What became of waiting for links to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Back {
    All {
        waited: bool,
    },
    /// Some had not; or nobody knows.
    NotAll,
}

impl Manager {
    /// That with this admin socket.
    pub fn new(socket: PathBuf, bridge: String, strict: bool) -> Self {
        Manager {
            client: Client::of_socket(socket).with_patience(ANSWER),
            bridge,
            strict,
            tally: Arc::default(),
            answers: AtomicBool::new(true),
            held: Mutex::new(None),
            silent: Mutex::new(None),
        }
    }

    fn said<T>(&self, answer: Result<T, AskError>) -> Option<T> {
        match answer {
            Ok(answer) => {
                *self.silent.lock().unwrap_or_else(PoisonError::into_inner) = None;
                if !self.answers.swap(true, Ordering::Relaxed) {
                    tracing::info!("the manager answers again: counts are corrected");
                }
                Some(answer)
            }
            Err(e) => {
                *self.silent.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Instant::now() + SILENT);
                if self.answers.swap(false, Ordering::Relaxed) {
                    tracing::warn!("counts pass uncorrected, and changes of rules unheld: {e}");
                }
                None
            }
        }
    }

    /// Waits until all links have come back, so long.
    fn have_back(&self, at_most: Duration) -> Back {
        let until = Instant::now() + at_most;
        let mut waited = false;
        loop {
            match self.said(self.client.hold_links(self.bridge.clone(), HOLD_MS)) {
                Some(0) => return Back::All { waited },
                Some(_) if Instant::now() < until => waited = true,
                _ => return Back::NotAll,
            }
            std::thread::sleep(HOLD_LOOK);
        }
    }

    /// Rules are about to change: returns once no frame goes past the switch, or after
    /// [`HOLD_MAX`]. Does nothing unless it is strict.
    pub fn before_change(&self) {
        if !self.strict {
            return;
        }
        // Held while asking: a second connection waits for the same.
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let asked = Instant::now();
        match self.have_back(HOLD_MAX) {
            Back::All { waited } => {
                self.tally.held.fetch_add(waited.into(), Ordering::Relaxed);
                *held = Some(asked + HELD_FOR);
            }
            Back::NotAll => {
                // Else a controller that writes many rules would wait so long for each.
                *held = Some(Instant::now() + HELD_FOR);
                self.tally.let_go.fetch_add(1, Ordering::Relaxed);
                if self.answers.load(Ordering::Relaxed) {
                    tracing::warn!(
                        "a change of rules passes though links of {} have not come back for {} ms: `vfun links` says why",
                        self.bridge,
                        HOLD_MAX.as_millis()
                    );
                }
            }
        }
    }

    /// Tells the manager again and again that this proxy is in the path, while the switch is connected.
    pub fn keep_told(&self) {
        let mut was = false;
        loop {
            let is = self.tally.connections.load(Ordering::Relaxed) > 0;
            if is || was {
                self.tell();
            }
            was = is;
            std::thread::sleep(ALIVE);
        }
    }

    /// Tells it once.
    pub fn tell(&self) {
        let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let Tally { connections, corrected, uncorrected, held, let_go } = &*self.tally;
        let row = ProxyRow {
            bridge: self.bridge.clone(),
            connections: connections.load(Ordering::Relaxed),
            corrected: of(corrected),
            uncorrected: of(uncorrected),
            strict: self.strict,
            held: of(held),
            let_go: of(let_go),
        };
        let _ = self.said(self.client.tell(&Ask::LinkFlows(FlowsAsk::Proxy(row))));
    }
}

impl Sums for Arc<Manager> {
    fn rows(&self) -> Option<Vec<FlowRow>> {
        let silent = *self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        if silent.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let view = self.said(self.client.link_flows(Some(self.bridge.clone())))?;
        Some(view.flows)
    }

    fn last_rows(&self) -> Option<Vec<FlowRow>> {
        match self.have_back(REMOVED_MAX) {
            Back::All { .. } => self.rows(),
            Back::NotAll => None,
        }
    }

    fn now(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        u64::try_from(time.tv_sec).unwrap_or(0) * 1000
            + u64::try_from(time.tv_nsec / 1_000_000).unwrap_or(0)
    }
}
