//! A driver in Rust to start from: answers the running total of the numbers it
//! was given. Copy this folder and change what is marked HERE; `docs/drivers.md`
//! leads through it.
//!
//! Arguments: a little-endian u64. Result: a little-endian u64.

use vfun_sdk::{Args, Config, Driver, DriverError, Out};

/// HERE: your own errors, positive numbers; say what they mean.
///
/// The total would exceed 64 bits.
pub const OVERFLOW: i32 = 1;

/// HERE: what a channel keeps between calls. (Nothing? Then a function and
/// `vfun_sdk::export_function!` are all you need.)
struct Total {
    start: u64,
    total: u64,
}

impl Driver for Total {
    fn init(config: &Config) -> Result<Self, DriverError> {
        let start = config.setting("start", 0)?;
        Ok(Total { start, total: start })
    }

    fn call(&mut self, args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
        // Read once; then check and use the copy.
        let n = args.u64_at(0)?;
        self.total = self
            .total
            .checked_add(n)
            .ok_or_else(|| DriverError::new(OVERFLOW, "the total exceeds 64 bits: use rst"))?;
        out.put_u64(self.total)
    }

    fn rst(&mut self) -> Result<(), DriverError> {
        self.total = self.start;
        Ok(())
    }
}

// HERE: the same name and version as in function.toml.
vfun_sdk::export_driver!(Total, name = "mytotal", version = (1, 0), max_args = 8, max_result = 8);

#[cfg(test)]
mod tests {
    use super::*;

    fn add(driver: &mut Total, n: u64) -> Result<u64, DriverError> {
        let mut room = [0; 8];
        driver.call(&Args::private(&n.to_le_bytes()), &mut Out::private(&mut room))?;
        Ok(u64::from_le_bytes(room))
    }

    #[test]
    fn it_adds_up_refuses_and_forgets() {
        let mut config = Config::default();
        config.settings.insert("start".into(), "100".into());
        let mut driver = Total::init(&config).unwrap();
        assert_eq!(add(&mut driver, 1), Ok(101));
        assert_eq!(add(&mut driver, 2), Ok(103));
        assert_eq!(add(&mut driver, u64::MAX).unwrap_err().code, OVERFLOW);
        driver.rst().unwrap();
        assert_eq!(add(&mut driver, 0), Ok(100));
    }
}
