//! Limits of resources that the kernel keeps for each process.

use super::Failed;
use super::clone::Namespaces;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vfun_jail::constants::{CHANNELS, FILE_BYTES, OPEN_FILES, STACK_BYTES};
use vfun_jail::{Layer, Plan};

/// Sets them, hard and soft.
pub fn limit(plan: &Plan, spaces: Namespaces) -> Result<(), Failed> {
    let threads = u64::from(plan.limits.all_threads(CHANNELS));
    let mut limits = vec![
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
    ];
    if spaces.user {
        // Counted for each user of each user namespace: only this service is in
        // its own. The manager raises what holds now with each channel.
        limits.push((Resource::Nproc, threads));
    }
    if !plan.memory_grouped {
        // No group counts what is used, so what is reserved is bounded: stacks
        // are reserved whole.
        let stacks = threads.saturating_mul(STACK_BYTES);
        limits.push((Resource::Data, plan.limits.memory_bytes.saturating_add(stacks)));
    }
    for (resource, most) in limits {
        let most = getrlimit(resource).maximum.map_or(most, |hard| most.min(hard));
        let now = match resource {
            Resource::Nproc => most.min(plan.limits.all_threads(0).into()),
            _ => most,
        };
        let limit = Rlimit { current: Some(now), maximum: Some(most) };
        setrlimit(resource, limit)
            .map_err(|e| Failed::at(Layer::Rlimits, &format!("{resource:?}"))(e.into()))?;
    }
    Ok(())
}
