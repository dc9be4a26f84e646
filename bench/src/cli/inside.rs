//! The part inside a guest: one job, one answer.

use super::output::say;
use crate::lab::Inside;
use crate::measure::{self, Job};
use crate::place::{OverSession, Place, serve};
use crate::remoting::{self, RemotingJob};
use crate::{BenchError, Result};
use std::process::ExitCode;
use std::time::Duration;

/// Does the job and prints its outcome as a line of JSON.
pub(super) fn run(job: &str) -> Result<ExitCode> {
    let inside: Inside = serde_json::from_str(job).map_err(|e| {
        BenchError::Options(format!("this is no job from `vfun bench` of the same version: {e}"))
    })?;
    let outcome = match &inside.job {
        Job::LoadModule { module, device } => {
            measure::load_module(module.as_ref(), device.as_ref())?
        }
        Job::AwaitDevice { device } => measure::await_device(device.as_ref())?,
        job => {
            let client = inside.client.as_deref();
            let mut place = OverSession::connect(&inside.endpoint.parse()?, client)?;
            match job {
                Job::Serve { address } => serve(address, |job| place.run(job, Duration::ZERO))?,
                job => place.run(job, Duration::ZERO)?,
            }
        }
    };
    let line = serde_json::to_string(&outcome).map_err(|e| BenchError::Inside(e.to_string()))?;
    say(&format!("{line}\n"));
    Ok(ExitCode::SUCCESS)
}

/// Measures with both libraries of a remoted API, and prints its rows.
pub(super) fn remoting(job: &str) -> Result<ExitCode> {
    let job: RemotingJob = serde_json::from_str(job).map_err(|e| {
        BenchError::Options(format!("this is no job from `vfun bench` of the same version: {e}"))
    })?;
    let rows = remoting::work(job)?;
    let line = serde_json::to_string(&rows).map_err(|e| BenchError::Inside(e.to_string()))?;
    say(&format!("{line}\n"));
    Ok(ExitCode::SUCCESS)
}

/// Measures verbs, and prints its rows.
pub(super) fn verbs(job: &str) -> Result<ExitCode> {
    let job: measure::VerbsJob = serde_json::from_str(job).map_err(|e| {
        BenchError::Options(format!("this is no job from `vfun bench` of the same version: {e}"))
    })?;
    let rows = measure::verbs_work(&job)?;
    let line = serde_json::to_string(&rows).map_err(|e| BenchError::Inside(e.to_string()))?;
    say(&format!("{line}\n"));
    Ok(ExitCode::SUCCESS)
}
