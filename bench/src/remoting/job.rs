//! What a process of its own measures: it has its own environment, which says how the remoted
//! library waits, and both libraries.

use super::pkcs11::{self, Modules};
use super::side::Side;
use super::{moves, short};
use crate::Result;
use crate::lab::{HOST_CLIENT, Manager, pin};
use crate::measure::Clock;
use crate::method::Watch;
use crate::report::{Mode, RemotingExperiment, RemotingRow};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use vfun::{ConnectOptions, Endpoint, Session};

/// What to measure, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RemotingJob {
    /// `libgdma.so`, which does the work.
    pub native: PathBuf,
    /// `libvfun_gdma.so`, which asks the host for it.
    pub remoted: PathBuf,
    /// The modules of PKCS#11, where there are some.
    pub pkcs11: Option<Modules>,
    /// The manager's root.
    pub root: PathBuf,
    pub experiments: Vec<RemotingExperiment>,
    /// The part of the published gibibyte that bursts move.
    pub scale: f64,
    /// Turns of what is short; what is long has fewer.
    pub turns: usize,
    pub long_turns: usize,
    /// How calls wait, as the environment says it too.
    pub wait: Mode,
    /// The processors of the caller, and of services and the native library's thread; none: any.
    pub cpus: Option<(usize, usize)>,
}

/// What all experiments stand on.
pub struct Bed {
    pub job: RemotingJob,
    pub clock: Clock,
    pub native: Side,
    pub remoted: Side,
    manager: Manager,
}

impl Bed {
    /// The processor of services.
    pub fn service(&self) -> Option<usize> {
        self.job.cpus.map(|(_, service)| service)
    }

    /// What may disturb. Services that were begun since then count too.
    pub fn watch(&self) -> Result<Watch> {
        let cpus = self.job.cpus.map_or_else(Vec::new, |(a, b)| vec![a, b]);
        Ok(Watch::new(&cpus, self.manager.processes()?))
    }

    pub fn session(&self) -> Result<Session> {
        session(&self.job)
    }

    /// A row of this job.
    pub fn row(&self, experiment: RemotingExperiment, case: &str, base: &str) -> RemotingRow {
        RemotingRow::new(experiment, case, self.job.wait, base)
    }
}

fn session(job: &RemotingJob) -> Result<Session> {
    let wait = vfun::WaitMode::from(job.wait);
    let options = ConnectOptions::new("bench-remoting").client(HOST_CLIENT).wait(wait.into());
    Ok(options.endpoint(Endpoint::Host(Some(job.root.join("host.sock")))).connect()?)
}

/// Measures, and gives its rows.
///
/// # Errors
/// A library is missing, or the first that a call of the API or of the host gave.
pub fn work(job: RemotingJob) -> Result<Vec<RemotingRow>> {
    pin::to(job.cpus.map(|(caller, _)| caller));
    let clock = Clock::calibrate();
    if job.experiments == [RemotingExperiment::Waiting] {
        return short::waiting(&job, &clock, || session(&job));
    }
    let service = job.cpus.map(|(_, service)| service);
    let bed = Bed {
        native: Side::open(&job.native, service, &clock)?,
        // Its own thread is the program's, so it is where the caller is.
        remoted: Side::open(&job.remoted, None, &clock)?,
        manager: Manager::running(&job.root)?,
        clock,
        job,
    };
    let mut rows = Vec::new();
    for &experiment in &bed.job.experiments {
        crate::runs::progress(format_args!("remoting: {experiment}"));
        rows.extend(match experiment {
            RemotingExperiment::Calls => short::calls(&bed)?,
            RemotingExperiment::Answers => short::answers(&bed)?,
            RemotingExperiment::Records => short::records(&bed)?,
            RemotingExperiment::Pkcs11 => pkcs11::pkcs11(&bed)?,
            RemotingExperiment::Allocation => moves::allocation(&bed)?,
            RemotingExperiment::Transfers => moves::transfers(&bed)?,
            RemotingExperiment::Bursts => moves::bursts(&bed)?,
            RemotingExperiment::Completion => moves::completion(&bed)?,
            RemotingExperiment::Latency => moves::latency(&bed)?,
            RemotingExperiment::Throughput => moves::throughput(&bed)?,
            // Each way to wait needs a process of its own.
            RemotingExperiment::Waiting => Vec::new(),
        });
    }
    bed.native.close()?;
    bed.remoted.close()?;
    Ok(rows)
}
