//! What was called, computed and answered: the account in which a call that is
//! lost, run twice or answered twice shows.

use std::collections::BTreeMap;

/// A request's place: window, control cell, sequence number.
pub type Place = (u32, usize, u32);

#[derive(Default)]
struct Call {
    ran: u32,
    ended: Option<String>,
    abandoned: bool,
}

/// See the module.
#[derive(Default)]
pub struct Ledger {
    calls: BTreeMap<u64, Call>,
    answers: BTreeMap<Place, String>,
    handles: BTreeMap<(bool, u64), Place>,
    /// Calls that ended with results, with an error of the service's, with the channel's end.
    pub totals: [u64; 3],
    /// Requests answered.
    pub answered: u64,
}

impl Ledger {
    pub fn posted(&mut self, number: u64) {
        let old = self.calls.insert(number, Call::default());
        assert!(old.is_none(), "the simulation numbered two calls {number}");
    }

    /// A service computes a call.
    pub fn ran(&mut self, number: u64) {
        let call = self.calls.get_mut(&number);
        let call = call.unwrap_or_else(|| panic!("call {number} was computed and never made"));
        call.ran += 1;
        assert!(call.ran == 1, "call {number} was computed twice");
        assert!(call.ended.is_none(), "call {number} was computed after it had ended");
    }

    /// An app saw how its call ended.
    pub fn ended(&mut self, number: u64, how: &str) {
        let call = self.calls.get_mut(&number).expect("a call that was made");
        if let Some(old) = &call.ended {
            panic!("call {number} ended twice: {old}, then {how}");
        }
        if how == "ok" {
            assert!(call.ran == 1, "call {number} has results and was not computed");
        }
        call.ended = Some(how.to_owned());
        let kind = match how {
            "ok" => 0,
            _ if how.starts_with("status") => 1,
            _ => 2,
        };
        self.totals[kind] += 1;
    }

    /// Nobody waits for it any more: its app died or gave the channel up.
    pub fn abandoned(&mut self, number: u64) {
        let call = self.calls.get_mut(&number).expect("a call that was made");
        call.abandoned = true;
        self.totals[2] += 1;
    }

    /// The manager writes an answer.
    pub fn answer(&mut self, place: Place, how: String) {
        if let Some(old) = self.answers.get(&place) {
            panic!("request {place:?} was answered twice: {old}, then {how}");
        }
        self.answers.insert(place, how);
        self.answered += 1;
    }

    /// A handle was given to whoever asked at `place`.
    pub fn given(&mut self, session: bool, handle: u64, place: Place) {
        if let Some(old) = self.handles.insert((session, handle), place) {
            let what = if session { "session" } else { "grant" };
            assert!(old == place, "{what} {handle:x} was given to {old:?} and to {place:?}");
        }
    }

    /// A manager that was left nothing numbers windows anew, and knows of no handle before it.
    pub fn forget(&mut self) {
        self.handles.clear();
        self.answers.clear();
    }

    /// Handles that were given to anybody, for whoever wants to try others'.
    pub fn handle(&self, pick: usize) -> Option<u64> {
        let n = self.handles.len();
        (n > 0).then(|| self.handles.keys().nth(pick % n).expect("within").1)
    }

    /// Calls that have not ended.
    pub fn open(&self) -> impl Iterator<Item = u64> {
        self.calls.iter().filter(|(_, c)| c.ended.is_none() && !c.abandoned).map(|(n, _)| *n)
    }
}
