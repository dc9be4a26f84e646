//! How long it takes from asking for a function to being able to call it.

use super::{Activation, Calls};
use crate::Result;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use vfun::{Function, FunctionRequest};

/// Asked for in turns, so that each one's service has ended when its turn comes again.
const FUNCTIONS: [&str; 5] = ["factorial", "fibonacci", "sum", "sha256", "null"];
/// How long a service stays without a grant, and some.
const LINGER: Duration = Duration::from_millis(1_300);

fn timed(calls: &Calls, name: &str) -> Result<(Function, f64)> {
    let start = Instant::now();
    let function = calls.session().negotiate(&FunctionRequest::new(name))?.activate()?;
    Ok((function, start.elapsed().as_nanos() as f64))
}

/// Times activations: `count` that start a service, and as many while it runs. Which is
/// which is told by the service's process, not by what was meant.
pub fn activations(calls: &mut Calls, count: u32) -> Result<Vec<Activation>> {
    let offered: Vec<_> = calls.session().list()?.into_iter().map(|f| f.name).collect();
    let names: Vec<_> = FUNCTIONS.into_iter().filter(|n| offered.iter().any(|o| o == n)).collect();
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    let pause = LINGER / names.len().max(1) as u32;
    for name in names.iter().cycle().take(count as usize) {
        let (first, ns) = timed(calls, name)?;
        let pid = first.stats()?.pid;
        all.push(Activation { ns, started: seen.insert(pid) });
        // The service runs now.
        let (second, ns) = timed(calls, name)?;
        all.push(Activation { ns, started: seen.insert(second.stats()?.pid) });
        second.release()?;
        first.release()?;
        std::thread::sleep(pause);
    }
    Ok(all)
}
