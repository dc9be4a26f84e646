//! Puts what became of grants on record, in the database and the tree.
//!
//! Both may fail: the disk is full, the database is locked or broken. The
//! manager goes on from memory then, says so, and tries again; nothing that it
//! decides needs them. And a client may not keep the disk busy: beyond a rate
//! its grants' states are put on record now and then, as they are then; what
//! came and went in between is only counted. Nothing of a client overtakes what
//! was put off of it before.

use super::Daemon;
use crate::core::{GrantRecord, GrantState};
use crate::fair::Rates;
use crate::limits::{GENERATIONS_AHEAD, RECORDS, RECORDS_AGAIN, RECORDS_LATER};
use crate::process;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use vfun_wire::Handle;

/// A state that is not on record yet.
struct Late {
    record: GrantRecord,
    /// Whether an earlier state of this grant is in the database.
    known: bool,
    /// Whether one is in the tree.
    shown: bool,
    /// States that it stands for.
    states: u64,
    /// Which of those put off it was first.
    turn: u64,
}

struct Trouble {
    since: Instant,
    why: String,
}

/// What is not on record yet, and why.
pub(super) struct PendingRecords {
    rates: Rates<u32>,
    late: BTreeMap<Handle, Late>,
    /// How many of these each client has.
    waiting: BTreeMap<u32, usize>,
    turns: u64,
    /// States that will never be on record: by client, with its name.
    left_out: BTreeMap<u32, (String, u64)>,
    /// The next manager begins above this generation whatever happens.
    reserved: u32,
    trouble: Option<Trouble>,
    again: Option<Instant>,
}

impl PendingRecords {
    pub fn new() -> Self {
        PendingRecords {
            rates: Rates::new(RECORDS),
            late: BTreeMap::new(),
            waiting: BTreeMap::new(),
            turns: 0,
            left_out: BTreeMap::new(),
            reserved: 0,
            trouble: None,
            again: None,
        }
    }

    /// Times that a state waited because its client has so many.
    pub fn held_up(&self) -> u64 {
        self.rates.refused()
    }

    /// Puts a state off; `shown` if the tree has it already. True if it ended
    /// and must only be taken out of the tree.
    fn put_off(&mut self, g: &GrantRecord, shown: bool) -> bool {
        let known = g.state != GrantState::Granted;
        let late = self.late.entry(g.grant).or_insert_with(|| {
            self.turns += 1;
            *self.waiting.entry(g.client_id).or_default() += 1;
            Late { record: g.clone(), known, shown: known, states: 0, turn: self.turns }
        });
        late.record = g.clone();
        late.shown |= shown;
        late.states += 1;
        let (again, shown) = (late.states > 1, late.shown);
        let came_and_went = !late.known && g.state == GrantState::Released;
        let left_out = u64::from(again) + u64::from(came_and_went);
        if left_out > 0 {
            self.left_out.entry(g.client_id).or_insert_with(|| (g.client.clone(), 0)).1 += left_out;
        }
        if came_and_went {
            self.forget(g.grant);
        }
        came_and_went && shown
    }

    fn forget(&mut self, grant: Handle) {
        let Some(late) = self.late.remove(&grant) else { return };
        let client = late.record.client_id;
        if let Some(n) = self.waiting.get_mut(&client) {
            *n -= 1;
            if *n == 0 {
                self.waiting.remove(&client);
            }
        }
    }

    /// What may be put on record now, in the order in which it was put off;
    /// `all`: now or never.
    fn due(&mut self, now: u64, all: bool) -> Vec<Handle> {
        let mut late: Vec<_> =
            self.late.iter().map(|(h, l)| (l.turn, *h, l.record.client_id)).collect();
        late.sort_unstable();
        late.retain(|(_, _, client)| all || self.rates.take(now, *client));
        late.into_iter().map(|(_, grant, _)| grant).collect()
    }

    fn is_empty(&self) -> bool {
        self.late.is_empty() && self.left_out.is_empty()
    }
}

impl Daemon {
    /// Puts what a grant became on record, now or later.
    pub(super) fn put_on_record(&mut self, g: &GrantRecord) {
        let now = self.now();
        let late = self.book.trouble.is_some() || self.book.waiting.contains_key(&g.client_id);
        let mut shown = false;
        if !late && self.book.rates.take(now, g.client_id) {
            let done = self.tree.grant(g).map_err(|e| format!("the tree: {e}")).and_then(|()| {
                shown = true;
                self.records.grant(g).map_err(|e| format!("the database: {e}"))
            });
            match done {
                Ok(()) => return,
                Err(e) => self.records_fail(e),
            }
        }
        if self.book.put_off(g, shown) {
            let _ = self.tree.grant(g); // takes it out, as far as it is there
        }
        if self.book.again.is_none() {
            self.book.again = Some(Instant::now() + RECORDS_LATER);
        }
    }

    /// Sees to it that no manager after this one gives out a handle that this
    /// one gave out, also if nothing else of it is left: what came and went may
    /// never be on record.
    pub(super) fn reserve_generations(&mut self) {
        let highest = self.rim.core.highest_generation();
        if highest <= self.rim.generation.max(self.book.reserved) || self.book.trouble.is_some() {
            return;
        }
        let ahead = highest.saturating_add(GENERATIONS_AHEAD);
        match self.records.reserve(ahead) {
            Ok(()) => self.book.reserved = ahead,
            Err(e) => self.records_fail(format!("the database: {e}")),
        }
    }

    /// Database or tree refused something: it is tried again later.
    pub(super) fn records_fail(&mut self, why: String) {
        self.book.again = Some(Instant::now() + RECORDS_AGAIN);
        match &mut self.book.trouble {
            Some(t) => t.why = why,
            None => {
                tracing::error!(
                    "nothing is put on record, and the manager goes on from memory: {why}"
                );
                self.book.trouble = Some(Trouble { since: Instant::now(), why });
            }
        }
    }

    /// Puts on record what was put off, if its time has come.
    pub(super) fn late_records(&mut self) {
        if self.book.again.is_some_and(|t| t <= Instant::now()) {
            self.put_late_on_record(false);
        }
    }

    /// The same at once, no more than each client's rate allows; `all`: now or never.
    pub(super) fn put_late_on_record(&mut self, all: bool) {
        self.book.again = None;
        if self.book.is_empty() && self.book.trouble.is_none() {
            return;
        }
        let due = self.book.due(self.now(), all);
        match self.put_these_on_record(&due) {
            Ok(()) => {
                due.into_iter().for_each(|grant| self.book.forget(grant));
                self.book.left_out.clear();
                if let Some(t) = self.book.trouble.take() {
                    let s = t.since.elapsed().as_secs();
                    tracing::warn!("records are taken again, after {s} s");
                }
                self.reserve_generations();
                if !self.book.is_empty() {
                    self.book.again = Some(Instant::now() + RECORDS_LATER);
                }
            }
            Err(e) => self.records_fail(e),
        }
    }

    fn put_these_on_record(&mut self, due: &[Handle]) -> Result<(), String> {
        for grant in due {
            let Some(l) = self.book.late.get_mut(grant) else { continue };
            self.tree.grant(&l.record).map_err(|e| format!("the tree: {e}"))?;
            l.shown = true;
        }
        let mended = self.book.trouble.is_some();
        let services = self.rim.services.values().chain(&self.leaving);
        self.records
            .batch(|r| {
                for l in due.iter().filter_map(|grant| self.book.late.get(grant)) {
                    r.grant(&l.record)?;
                }
                if mended {
                    // What it refused meanwhile may have been about these.
                    r.forget_services()?;
                    for pid in services.map(|p| p.pid) {
                        if let Some(ticks) = process::started(pid) {
                            r.service(pid, Some(ticks))?;
                        }
                    }
                }
                self.book.left_out.values().try_for_each(|(c, n)| r.left_out(c, *n))
            })
            .map_err(|e| format!("the database: {e}"))?;
        if mended { self.save_numbers() } else { Ok(()) }
    }

    /// Writes down what must outlive the database.
    pub(super) fn save_numbers(&self) -> Result<(), String> {
        let path = crate::numbers::beside(&self.tree.database());
        let numbers = self.records.numbers().map_err(|e| format!("the database: {e}"))?;
        crate::numbers::save(&path, &numbers).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// The same, where it may fail: it is tried again with the next records.
    pub(super) fn note_numbers(&mut self) {
        if let Err(e) = self.save_numbers() {
            self.records_fail(e);
        }
    }

    pub(super) fn records_patience(&self) -> Option<Duration> {
        Some(self.book.again?.saturating_duration_since(Instant::now()))
    }

    /// What is wrong with records, for people.
    pub(super) fn records_trouble(&self) -> Option<String> {
        let t = self.book.trouble.as_ref()?;
        Some(format!(
            "nothing has been put on record for {} s, the manager goes on from memory: {}",
            t.since.elapsed().as_secs(),
            t.why
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_wire::message::Location;

    fn record(index: u32, state: GrantState) -> GrantRecord {
        GrantRecord {
            grant: Handle::new(index, 1),
            client_id: 1,
            client: "vm1".into(),
            vm: None,
            app_id: 2,
            app: "app".into(),
            function_id: 5,
            function: "sum".into(),
            location: Location::Software,
            state,
            why: None,
        }
    }

    #[test]
    fn what_came_and_went_is_counted_only_and_nothing_piles_up() {
        use GrantState::*;
        let mut book = PendingRecords::new();
        for i in 0..10_000 {
            for state in [Granted, Active, Closing, Released] {
                assert!(!book.put_off(&record(i, state), false), "the tree never had it");
            }
        }
        assert!(book.late.is_empty() && book.waiting.is_empty());
        assert_eq!(book.left_out[&1].1, 40_000);
        // One whose beginning is on record has its end there, too.
        book.put_off(&record(1, Closing), false);
        book.put_off(&record(1, Released), false);
        assert_eq!(book.late.len(), 1);
        assert_eq!(book.late[&Handle::new(1, 1)].record.state, Released);
        // One that only the tree has is taken out of it, and that was all.
        assert!(!book.put_off(&record(2, Granted), true));
        assert!(book.put_off(&record(2, Released), false));
        assert_eq!(book.late.len(), 1);
    }

    #[test]
    fn what_was_put_off_comes_in_its_order_and_no_faster_than_the_rate() {
        use GrantState::*;
        let mut book = PendingRecords::new();
        // Later handles first.
        let all = 2 * RECORDS.burst;
        assert!((0..all).rev().all(|i| !book.put_off(&record(i, Active), false)));
        let other = GrantRecord { client_id: 2, ..record(all, Active) };
        book.put_off(&other, false);
        let (mut now, mut seen, mut turns) = (0, vec![], 0);
        while !book.late.is_empty() {
            let due = book.due(now, false);
            if turns == 0 {
                assert_eq!(due.len() as u32, RECORDS.burst + 1, "and all of another client's");
                assert_eq!(due.last(), Some(&other.grant));
            } else {
                assert!(due.len() as u32 <= RECORDS.per_s / 5);
            }
            seen.extend(due.iter().map(|h| h.index()));
            due.into_iter().for_each(|h| book.forget(h));
            (now, turns) = (now + 200, turns + 1);
        }
        seen.retain(|i| *i != all);
        assert!(seen.iter().rev().copied().eq(0..all), "the order in which they were put off");
        assert!(turns > 20 && book.waiting.is_empty());
        book.put_off(&record(1, Released), false);
        assert_eq!(book.due(now, true).len(), 1);
    }
}
