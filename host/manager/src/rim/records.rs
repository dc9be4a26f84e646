//! Puts what became of grants on record, in the database and the tree.
//!
//! Both may fail: the disk is full, the database is locked or broken. The
//! manager goes on from memory then, says so, and tries again; nothing that it
//! decides needs them. And a client may not keep the disk busy: beyond a rate
//! its grants' states are put on record now and then, as they are then; what
//! came and went in between is only counted.

use super::Daemon;
use crate::core::{GrantRecord, GrantState};
use crate::fair::Rates;
use crate::limits::{RECORDS, RECORDS_AGAIN, RECORDS_LATER};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use vfun_wire::Handle;

/// A state that is not on record yet.
struct Late {
    record: GrantRecord,
    /// Whether an earlier state of this grant is.
    known: bool,
    /// States that it stands for.
    states: u64,
}

struct Trouble {
    since: Instant,
    why: String,
}

/// What is not on record yet, and why.
pub(super) struct Book {
    rates: Rates<u32>,
    late: BTreeMap<Handle, Late>,
    /// States that will never be on record: by client, with its name.
    left_out: BTreeMap<u32, (String, u64)>,
    trouble: Option<Trouble>,
    again: Option<Instant>,
}

impl Book {
    pub fn new() -> Self {
        Book {
            rates: Rates::new(RECORDS),
            late: BTreeMap::new(),
            left_out: BTreeMap::new(),
            trouble: None,
            again: None,
        }
    }

    fn put_off(&mut self, g: &GrantRecord) {
        let known = g.state != GrantState::Granted;
        let late = self.late.entry(g.grant).or_insert_with(|| Late {
            record: g.clone(),
            known,
            states: 0,
        });
        late.record = g.clone();
        late.states += 1;
        if late.states > 1 {
            self.left_out.entry(g.client_id).or_insert_with(|| (g.client.clone(), 0)).1 += 1;
        }
        if !late.known && g.state == GrantState::Released {
            // It came and went.
            self.left_out.entry(g.client_id).or_insert_with(|| (g.client.clone(), 0)).1 += 1;
            self.late.remove(&g.grant);
        }
    }

    fn is_empty(&self) -> bool {
        self.late.is_empty() && self.left_out.is_empty()
    }
}

impl Daemon {
    /// Puts what a grant became on record, now or later.
    pub(super) fn put_on_record(&mut self, g: &GrantRecord) {
        let now = self.now();
        let late = self.book.trouble.is_some() || self.book.late.contains_key(&g.grant);
        if !late && self.book.rates.take(now, g.client_id) {
            let done = self
                .tree
                .grant(g)
                .map_err(|e| format!("the tree: {e}"))
                .and_then(|()| self.records.grant(g).map_err(|e| format!("the database: {e}")));
            match done {
                Ok(()) => return,
                Err(e) => self.records_fail(e),
            }
        }
        self.book.put_off(g);
        if self.book.again.is_none() {
            self.book.again = Some(Instant::now() + RECORDS_LATER);
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
            self.put_late_on_record();
        }
    }

    /// The same, at once.
    pub(super) fn put_late_on_record(&mut self) {
        self.book.again = None;
        if self.book.is_empty() && self.book.trouble.is_none() {
            return;
        }
        let done = (|| {
            for l in self.book.late.values() {
                self.tree.grant(&l.record).map_err(|e| format!("the tree: {e}"))?;
            }
            self.records
                .batch(|r| {
                    for l in self.book.late.values() {
                        r.grant(&l.record)?;
                    }
                    self.book.left_out.values().try_for_each(|(c, n)| r.left_out(c, *n))
                })
                .map_err(|e| format!("the database: {e}"))?;
            self.save_numbers()
        })();
        match done {
            Ok(()) => {
                self.book.late.clear();
                self.book.left_out.clear();
                if let Some(t) = self.book.trouble.take() {
                    let s = t.since.elapsed().as_secs();
                    tracing::warn!("records are taken again, after {s} s");
                }
            }
            Err(e) => self.records_fail(e),
        }
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
        let mut book = Book::new();
        for i in 0..10_000 {
            for state in
                [GrantState::Granted, GrantState::Active, GrantState::Closing, GrantState::Released]
            {
                book.put_off(&record(i, state));
            }
        }
        assert!(book.late.is_empty());
        assert_eq!(book.left_out[&1].1, 40_000);
        // One whose beginning is on record has its end there, too.
        book.put_off(&record(1, GrantState::Closing));
        book.put_off(&record(1, GrantState::Released));
        assert_eq!(book.late.len(), 1);
        assert_eq!(book.late[&Handle::new(1, 1)].record.state, GrantState::Released);
    }
}
