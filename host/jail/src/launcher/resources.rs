//! Limits of resources that the kernel keeps for each process.

use super::Failed;
use super::clone::Namespaces;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vfun_jail::constants::{CHANNELS, FILE_BYTES, OPEN_FILES};
use vfun_jail::{Layer, Plan};

/// Sets them: what holds now, and the most that it can be raised to.
pub fn limit(plan: &Plan, spaces: Namespaces) -> Result<(), Failed> {
    let mut all: Vec<(Resource, u64, u64)> = [
        // A dump would hold the client's data.
        (Resource::Core, 0),
        (Resource::Nofile, OPEN_FILES),
        (Resource::Fsize, FILE_BYTES),
        // Nothing here must stay in memory.
        (Resource::Memlock, 0),
        // Neither queues of messages nor of signals: there is nobody to send them.
        (Resource::Msgqueue, 0),
        // Never before others.
        (Resource::Rtprio, 0),
        (Resource::Nice, 0),
    ]
    .map(|(resource, most)| (resource, most, most))
    .into();
    // The manager raises what holds of these with each channel.
    if spaces.user {
        // Counted for each user of each user namespace: only this service is in its own.
        let threads = |channels| plan.limits.all_threads(channels).into();
        all.push((Resource::Nproc, threads(0), threads(CHANNELS)));
    }
    if !plan.memory_grouped {
        // No group counts what is used, so what is reserved is bounded.
        let bytes = |channels| plan.limits.address_space(channels);
        all.push((Resource::Data, bytes(0), bytes(CHANNELS)));
    }
    for (resource, now, most) in all {
        let most = getrlimit(resource).maximum.map_or(most, |hard| most.min(hard));
        let limit = Rlimit { current: Some(now.min(most)), maximum: Some(most) };
        setrlimit(resource, limit)
            .map_err(|e| Failed::at(Layer::Rlimits, &format!("{resource:?}"))(e.into()))?;
    }
    Ok(())
}
