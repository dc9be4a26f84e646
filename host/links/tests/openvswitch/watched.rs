//! The detector on a switch, and the last verdicts of its two ports.

use crate::switch::{PATIENCE, Switch};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use vfun_links::{Change, OurPort, Places, Verdict, Watch, watch};

/// The detector on it.
pub struct Watched {
    _watch: Watch,
    changes: Receiver<Change>,
    /// The last verdicts of p1 and p2.
    pub now: [Option<Verdict>; 2],
}

impl Watched {
    pub fn of(switch: &Switch) -> Watched {
        let places = Places {
            run: switch.folder.path().to_owned(),
            database: switch.path("db.sock"),
            bridge: "br0".to_owned(),
        };
        let port = |n| OurPort {
            interface: format!("p{n}"),
            kind: "dummy".to_owned(),
            devargs: None,
            mtu: 1500,
        };
        let (watch, changes) = watch(places, [1, 2].map(port).to_vec());
        Watched { _watch: watch, changes, now: [None, None] }
    }

    pub fn joined(&self, n: usize) -> bool {
        matches!(&self.now[n - 1], Some(Verdict::Joined { .. }))
    }

    pub fn both(&self) -> bool {
        self.joined(1) && self.joined(2)
    }

    /// Takes one change, if one comes.
    pub fn take(&mut self, time: Duration) -> bool {
        match self.changes.recv_timeout(time) {
            Ok(change) => {
                let at = if change.from == "p1" { 0 } else { 1 };
                self.now[at] = Some(change.verdict);
                true
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(e) => panic!("{e}"),
        }
    }

    /// Takes all changes that have come.
    pub fn take_all(&mut self) {
        while self.take(Duration::ZERO) {}
    }

    /// Takes changes until none comes for a moment.
    pub fn take_rest(&mut self) {
        while self.take(Duration::from_millis(300)) {}
    }

    /// Waits until this is so.
    pub fn until(&mut self, what: &str, is: impl Fn(&Watched) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is(self) {
            assert!(Instant::now() < end, "{what}: {:?}", self.now);
            self.take(Duration::from_millis(200));
        }
    }

    pub fn joins(&mut self, what: &str) {
        self.until(&format!("{what}: both are joined"), Watched::both);
    }

    /// Waits for exactly this reason.
    pub fn has_reason(&mut self, n: usize, reason: &str) {
        let full = format!("through the switch: {reason}");
        self.until(&full, |w| w.now[n - 1].as_ref().is_some_and(|v| v.to_string() == full));
    }

    /// Waits for a reason that stays, of either, with these words.
    pub fn says(&mut self, n: usize, words: &str) {
        self.until(
            words,
            |w| matches!(&w.now[n - 1], Some(v @ Verdict::Not(_)) if v.to_string().contains(words)),
        );
    }
}
