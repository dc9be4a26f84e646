//! Looks in windows whether calls are answered, and whether services of queues show that
//! they live: a service that does not run ends no call by its deadline. What is made of it is the core's
//! ([`watch`](crate::core::watch)).

use super::Daemon;
use crate::core::Event;
use crate::core::watch::Progress;
use crate::limits::PROGRESS_LOOK;
use std::time::Duration;
use vfun_rim::methods::*;

impl Daemon {
    /// How long until the next look, if there is anything to look at.
    pub(super) fn progress_patience(&self) -> Option<Duration> {
        self.rim.core.watched().next()?;
        let usual = PROGRESS_LOOK.saturating_sub(self.last_progress.elapsed());
        let due = self.rim.core.progress_due().map(|t| t.saturating_sub(self.now()));
        Some(due.map_or(usual, |ms| usual.min(Duration::from_millis(ms))))
    }

    pub(super) fn look_at_progress(&mut self) {
        let now = self.now();
        let due = self.rim.core.progress_due().is_some_and(|t| t <= now);
        if !due && self.last_progress.elapsed() < PROGRESS_LOOK {
            return;
        }
        self.last_progress = std::time::Instant::now();
        let mut values = vec![];
        let mut answered = std::collections::BTreeMap::new();
        for (channel, g) in self.rim.core.watched() {
            let there = self.rim.windows.get(&g.holder.window).zip(g.channel());
            let Some((a, place)) = there else { continue };
            let life = a.window.life(&place);
            let calls = life.unwrap_or_else(|| a.window.answered(&place));
            // Where calls were answered since, those that wait are not looked at.
            let still = self.answered.get(&channel) == Some(&calls);
            let begun = still && a.window.computes(&place);
            let waits = begun || still && (life.is_some() || a.window.any_due(&place));
            values.push((channel, Progress { calls, waits, begun }));
            answered.insert(channel, calls);
        }
        self.answered = answered;
        self.rim.events.push_back(Event::Progress { values });
        self.settle();
    }
}
