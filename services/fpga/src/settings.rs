//! Settings of a function's manifest that every FPGA driver reads.

use crate::limits::{ANSWER_DEFAULT, ANSWER_MS_MAX};
use std::time::Duration;
use vfun_sdk::{BAD_SETTING, Config, DriverError};

/// `fpga_answer_ms`: how long the device may take before a call fails.
pub fn answer_within(config: &Config) -> Result<Duration, DriverError> {
    let ms = config.setting("fpga_answer_ms", ANSWER_DEFAULT.as_millis() as u64)?;
    if !(1..=ANSWER_MS_MAX).contains(&ms) {
        return Err(DriverError::new(
            BAD_SETTING,
            format!("fpga_answer_ms = {ms}, but 1 to {ANSWER_MS_MAX} ms are possible"),
        ));
    }
    Ok(Duration::from_millis(ms))
}

/// `fpga_vf`: which VF; `any`, which is the default, for the one that the
/// manager leased (`vf`), or else for one that is free.
pub(crate) fn vf(config: &Config) -> Result<Option<u32>, DriverError> {
    match config.settings.get("fpga_vf").map(String::as_str) {
        None | Some("any") if config.settings.contains_key("vf") => {
            config.setting("vf", 0).map(Some)
        }
        None | Some("any") => Ok(None),
        Some(_) => config.setting("fpga_vf", 0).map(Some),
    }
}
