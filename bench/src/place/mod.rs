//! Where work runs.

mod bare_vm;
mod errand;
mod guest;
mod in_process;
mod session;

pub use bare_vm::InBareVm;
pub use errand::serve;
pub use guest::InGuest;
pub use in_process::InProcess;
pub use session::OverSession;

use crate::Result;
use crate::measure::{Job, Outcome};
use crate::report::Domain;
use std::time::Duration;

/// A place that measures.
pub trait Place {
    /// Where the caller runs and how it reaches the function.
    fn domain(&self) -> Domain;
    /// Its transport's name; "none" where there is none.
    fn transport(&self) -> &str;
    /// Measures. `work` is about how long the pure work takes, for time limits.
    fn run(&mut self, job: &Job, work: Duration) -> Result<Outcome>;

    /// Stays where it is between jobs, so that one may take milliseconds, until told to leave.
    fn stay(&mut self) -> Result<()> {
        Ok(())
    }

    /// Ends what [`stay`](Place::stay) began.
    fn leave(&mut self) {}

    /// Seconds of a [`Job::Work`].
    fn seconds(&mut self, job: &Job, work: Duration) -> Result<f64> {
        match self.run(job, work)? {
            Outcome::Seconds(s) => Ok(s),
            _ => Err(self.unfit("work")),
        }
    }

    /// Rows of a job for latency reports.
    fn rows(&mut self, job: &Job) -> Result<Vec<crate::report::LatencyRow>> {
        match self.run(job, Duration::ZERO)? {
            Outcome::Rows(rows) => Ok(rows),
            _ => Err(self.unfit("rows")),
        }
    }

    /// The error of a job that makes no sense here.
    fn unfit(&self, what: &'static str) -> crate::BenchError {
        crate::BenchError::Unfit { place: self.domain().to_string(), what }
    }
}
