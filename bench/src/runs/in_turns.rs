//! Places that do the same work in turns.

use super::Bench;
use crate::measure::{Job, Outcome};
use crate::method::{self, Turns};
use crate::report::Domain;
use crate::{BenchError, Result};
use std::time::Duration;

/// Places of a bench that take turns, or one that takes turns at several jobs; they go back to rest
/// when it is dropped.
pub(super) struct InTurns<'a> {
    bench: &'a mut Bench,
    what: &'static str,
    places: Vec<usize>,
    /// One that failed is noted once, and has no turns any more.
    failed: Vec<bool>,
}

impl<'a> InTurns<'a> {
    /// These places, one for each variant; what they do is named where one fails.
    pub(super) fn new(bench: &'a mut Bench, what: &'static str, places: Vec<usize>) -> Self {
        let failed = vec![false; places.len()];
        let mut these = InTurns { bench, what, places, failed };
        for variant in 0..these.places.len() {
            let place = these.places[variant];
            let first = these.places.iter().position(|&p| p == place).unwrap_or(variant);
            // One place stays once for all its variants.
            let stays = if first == variant { these.bench.place(place).stay() } else { Ok(()) };
            match stays {
                Err(e) => these.fail(variant, &e),
                Ok(()) => these.failed[variant] = these.failed[first],
            }
        }
        these
    }

    fn fail(&mut self, variant: usize, why: &BenchError) {
        self.failed[variant] = true;
        let domain = self.domain(variant);
        self.bench.miss(domain, self.what, why);
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn failed(&self, variant: usize) -> bool {
        self.failed[variant]
    }

    /// One that is of this domain.
    pub(super) fn find(&mut self, domain: Domain) -> Option<usize> {
        (0..self.len()).find(|&v| self.domain(v) == domain)
    }

    pub(super) fn domain(&mut self, variant: usize) -> Domain {
        self.bench.place(self.places[variant]).domain()
    }

    pub(super) fn transport(&mut self, variant: usize) -> String {
        self.bench.place(self.places[variant]).transport().to_owned()
    }

    /// One job of a variant; none if it fails, or has failed.
    pub(super) fn once(&mut self, variant: usize, job: &Job, work: Duration) -> Option<Outcome> {
        if self.failed[variant] {
            return None;
        }
        match self.bench.place(self.places[variant]).run(job, work) {
            Ok(outcome) => Some(outcome),
            Err(e) => {
                self.fail(variant, &e);
                None
            }
        }
    }

    /// So many turns. `job` says what a variant does in a turn and about how long the pure work takes;
    /// `figure` what the outcome of both comes to. Before the first turn each does its job once, so that
    /// services run, which are then watched.
    pub(super) fn run<T: Copy>(
        &mut self,
        count: usize,
        job: impl Fn(usize, usize) -> (Job, Duration),
        figure: impl Fn(usize, usize, Outcome) -> Option<T>,
    ) -> Result<Turns<T>> {
        for variant in 0..self.len() {
            let (job, work) = job(variant, 0);
            // What takes long needs no warming: it is its own.
            if work <= method::SLICE * 4 {
                self.once(variant, &job, work);
            }
        }
        self.turns(count, |these, variant, turn| {
            let (job, work) = job(variant, turn);
            Ok(these.once(variant, &job, work).and_then(|out| figure(variant, turn, out)))
        })
    }

    /// So many turns of whatever a variant does.
    pub(super) fn turns<T: Copy>(
        &mut self,
        count: usize,
        mut slice: impl FnMut(&mut Self, usize, usize) -> Result<Option<T>>,
    ) -> Result<Turns<T>> {
        let watch = self.bench.watch();
        method::turns(count, self.len(), &watch, |variant, turn| slice(self, variant, turn))
    }
}

impl Drop for InTurns<'_> {
    fn drop(&mut self) {
        for &place in &self.places {
            self.bench.place(place).leave();
        }
    }
}
