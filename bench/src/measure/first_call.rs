//! How soon a guest's program can call: after the kernel module is loaded, and after a
//! window is plugged in.

use super::{Clock, Outcome};
use crate::error::Doing;
use crate::lab::READY;
use crate::{BenchError, Result};
use rustix::system::finit_module;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};
use vfun::{ConnectOptions, Endpoint, ModuleBell};
use vfun_window::cycles;

/// How long a device may take to appear.
const APPEARS: Duration = Duration::from_secs(60);
/// Between two looks for it.
const LOOK: Duration = Duration::from_millis(1);
/// Rings in a row.
const RINGS: u32 = 2_000;

/// Connects, opens a function and calls it once.
fn call(device: &Path) -> Result<()> {
    let endpoint = Endpoint::Module(Some(device.to_owned()));
    let session = ConnectOptions::new("vfun-bench").endpoint(endpoint).connect()?;
    let function = session.function("echo")?;
    function.call_into(&[], &mut [])?;
    Ok(())
}

/// Waits for a node; it is there before its device can be opened.
fn appears(device: &Path) -> Result<()> {
    let start = Instant::now();
    while !device.exists() {
        if start.elapsed() > APPEARS {
            return Err(BenchError::Inside(format!("{} did not appear", device.display())));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Loads the module by one system call of this program, and calls: nanoseconds to the
/// system call's return, and to the call's result. No start of a program is in them.
pub fn load_module(module: &Path, device: &Path) -> Result<Outcome> {
    let file = File::open(module).doing(|| format!("cannot open {}", module.display()))?;
    let start = Instant::now();
    finit_module(&file, c"", 0).doing(|| format!("cannot load {}", module.display()))?;
    let loaded = start.elapsed();
    appears(device)?;
    call(device)?;
    Ok(Outcome::FirstCall {
        loaded: loaded.as_nanos() as f64,
        called: start.elapsed().as_nanos() as f64,
    })
}

/// Says that it is ready, waits for a device that is about to be plugged in, and calls.
pub fn await_device(device: &Path) -> Result<Outcome> {
    std::fs::write(READY, b"").doing(|| format!("cannot make {READY}"))?;
    appears(device)?;
    call(device)?;
    Ok(Outcome::Held)
}

/// Nanoseconds of a ring by the module's system call, of many in a row.
pub fn rings(clock: &Clock, device: &Path) -> Result<Outcome> {
    let bell = ModuleBell::open(device)?;
    let from = cycles();
    for _ in 0..RINGS {
        bell.ring().doing(|| "cannot ring a doorbell".into())?;
    }
    Ok(Outcome::NsPerCall(clock.ns(cycles().wrapping_sub(from)) as f64 / f64::from(RINGS)))
}
