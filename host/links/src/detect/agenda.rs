//! Which port is looked at next: in the order in which they are due, or the last ones would
//! never be.

use super::Stage;
use crate::limits::JUDGED_AT_ONCE;
use std::collections::BTreeSet;

/// Ports with a time at which something is to be done about them, by that time.
#[derive(Default)]
pub(super) struct Agenda {
    /// A judgement begins then.
    waiting: BTreeSet<(u64, String)>,
    /// A judgement ends then, whatever was answered.
    asking: BTreeSet<(u64, String)>,
}

impl Agenda {
    /// A port goes from one stage to another one.
    pub(super) fn moved(&mut self, name: &str, old: &Stage, new: &Stage) {
        if let Some((set, at)) = self.place(old) {
            let was_there = set.remove(&(at, name.to_owned()));
            assert!(was_there, "each port has its place");
        }
        if let Some((set, at)) = self.place(new) {
            set.insert((at, name.to_owned()));
        }
    }

    fn place(&mut self, stage: &Stage) -> Option<(&mut BTreeSet<(u64, String)>, u64)> {
        match stage {
            Stage::Still => None,
            Stage::Waits { until: at, .. } | Stage::Judged { look: at, .. } => {
                Some((&mut self.waiting, *at))
            }
            Stage::Asks(round) => Some((&mut self.asking, round.ends())),
        }
    }

    /// Ports that are being judged, the oldest judgement first.
    pub(super) fn asking(&self) -> impl Iterator<Item = &str> {
        self.asking.iter().map(|(_, name)| name.as_str())
    }

    fn full(&self) -> bool {
        self.asking.len() >= JUDGED_AT_ONCE
    }

    /// The port whose judgement takes too long.
    pub(super) fn late(&self, now: u64) -> Option<String> {
        self.asking.first().filter(|(at, _)| *at <= now).map(|(_, name)| name.clone())
    }

    /// The port to judge next, if one is due and there is room for it.
    pub(super) fn next(&self, now: u64) -> Option<String> {
        let first = self.waiting.first().filter(|(at, _)| *at <= now && !self.full());
        first.map(|(_, name)| name.clone())
    }

    /// When something is due. If there is no room, an answer makes some.
    pub(super) fn wake(&self) -> Option<u64> {
        let waiting = self.waiting.first().filter(|_| !self.full());
        waiting.into_iter().chain(self.asking.first()).map(|(at, _)| *at).min()
    }
}
