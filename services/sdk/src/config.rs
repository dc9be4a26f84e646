//! What a driver is told when a channel opens.

use crate::DriverError;
use std::collections::BTreeMap;

/// A channel, as its driver's `init` sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The client that the service works for.
    pub client: String,
    /// The client's app that opened the channel.
    pub app: String,
    pub function: String,
    /// The function's version, major and minor.
    pub version: (u16, u16),
    /// The channel's handle, for logs.
    pub channel: u64,
    /// Cells of the channel.
    pub depth: u16,
    /// Data space of a cell on each side, bytes; 0 where all goes in line.
    pub cell_bytes: u32,
    /// The manifest's `[settings]`, all as text.
    pub settings: BTreeMap<String, String>,
}

/// Code of the error for a setting that cannot be read.
pub const BAD_SETTING: i32 = 2;

impl Config {
    /// A setting, read as a `T`; `default` where the manifest has none.
    pub fn setting<T: std::str::FromStr>(&self, key: &str, default: T) -> Result<T, DriverError> {
        match self.settings.get(key) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| {
                DriverError::new(
                    BAD_SETTING,
                    format!(
                        "the manifest's setting {key} = \"{text}\" cannot be read as a {}",
                        std::any::type_name::<T>()
                    ),
                )
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_defaults_and_errors_that_name_them() {
        let mut c = Config::default();
        assert_eq!(c.setting("threads", 3u8).unwrap(), 3);
        c.settings.insert("threads".into(), "5".into());
        assert_eq!(c.setting("threads", 3u8).unwrap(), 5);
        c.settings.insert("threads".into(), "many".into());
        let e = c.setting("threads", 3u8).unwrap_err();
        assert!(e.sentence.contains("threads = \"many\""), "{e}");
    }
}
