//! Settings of the manifest.

use crate::limits::CALL_NS_MAX;
use std::time::Duration;
use vfun_sdk::{BAD_SETTING, Config, DriverError};

/// How long calls take in one place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Time that each call takes, whatever its size, ns.
    pub fixed_ns: f64,
    /// Besides, for each unit that it asks for.
    pub unit_ns: f64,
    /// Besides, for each byte of data.
    pub byte_ns: f64,
}

impl Times {
    /// `software_ns`, `software_unit_ns`, `software_byte_ns`; the same for `hardware`.
    pub(crate) fn of(config: &Config, place: &str) -> Result<Self, DriverError> {
        let one = |key: String| {
            let ns: f64 = config.setting(&key, 0.0)?;
            match (0.0..=CALL_NS_MAX).contains(&ns) {
                true => Ok(ns),
                false => Err(DriverError::new(
                    BAD_SETTING,
                    format!("{key} = {ns}, but 0 to {CALL_NS_MAX} ns are possible"),
                )),
            }
        };
        Ok(Times {
            fixed_ns: one(format!("{place}_ns"))?,
            unit_ns: one(format!("{place}_unit_ns"))?,
            byte_ns: one(format!("{place}_byte_ns"))?,
        })
    }

    /// Of a call, ns; no longer than an hour.
    pub fn ns(&self, units: u32, bytes: usize) -> f64 {
        let all = self.fixed_ns + self.unit_ns * f64::from(units) + self.byte_ns * bytes as f64;
        all.min(CALL_NS_MAX)
    }

    /// The time that a call of this size takes.
    pub fn time(&self, units: u32, bytes: usize) -> Duration {
        Duration::from_nanos(self.ns(units, bytes) as u64)
    }
}

/// What is to go wrong on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It is reset under a call, which fails; later calls do not.
    Reset,
    /// It goes away, and says so: every later call of this service fails, and so do its
    /// next channels. A leased grant's calls go on in software.
    Lost,
    /// It goes away under the driver's hands, which ends the service, as reading a
    /// register that is not there any more does.
    Crash,
}

impl Fault {
    /// `fault` (`none`, `reset`, `lost`, `crash`) and `fault_after`: how many calls of a
    /// service's VFs go well before.
    pub(crate) fn of(config: &Config) -> Result<(Self, u64), DriverError> {
        let fault = match config.settings.get("fault").map_or("none", String::as_str) {
            "none" => Fault::None,
            "reset" => Fault::Reset,
            "lost" => Fault::Lost,
            "crash" => Fault::Crash,
            other => {
                return Err(DriverError::new(
                    BAD_SETTING,
                    format!("fault = \"{other}\", but it is none, reset, lost or crash"),
                ));
            }
        };
        Ok((fault, config.setting("fault_after", 0)?))
    }
}
