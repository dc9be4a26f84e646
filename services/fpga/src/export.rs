//! One line makes a driver library.

use crate::{DeviceDriver, Function, OpenBsp, device_driver_init, settings};
use std::io::Write as _;
use vfun_sdk::{Args, Config, DriverError, Out};

/// Makes a `cdylib` crate the driver of one function on one kind of board.
///
/// ```
/// vfun_fpga::export_fpga_driver!(vfun_fpga::bar::Bar, Factorial);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_fpga_driver {
    ($bsp:ty, $function:ident) => {
        const _: () = {
            const FUNCTION: $crate::Function = $crate::Function::$function;
            struct Driver($crate::Exported<$bsp>);
            impl $crate::vfun_sdk::Driver for Driver {
                fn init(
                    config: &$crate::vfun_sdk::Config,
                ) -> Result<Self, $crate::vfun_sdk::DriverError> {
                    $crate::Exported::open(config, FUNCTION).map(Driver)
                }
                fn call(
                    &mut self,
                    args: &$crate::vfun_sdk::Args<'_>,
                    out: &mut $crate::vfun_sdk::Out<'_>,
                ) -> Result<(), $crate::vfun_sdk::DriverError> {
                    self.0.call(args, out)
                }
                fn rst(&mut self) -> Result<(), $crate::vfun_sdk::DriverError> {
                    self.0.rst()
                }
            }
            use $crate::vfun_sdk;
            vfun_sdk::export_driver!(
                Driver,
                name = FUNCTION.name(),
                version = (1, 0),
                max_args = FUNCTION.max_args(),
                max_result = FUNCTION.max_result(),
            );
        };
    };
}

/// What the macro's drivers are made of.
pub struct Exported<B: OpenBsp>(DeviceDriver<B>);

impl<B: OpenBsp> Exported<B> {
    /// Takes a VF for a channel that opens.
    pub fn open(config: &Config, function: Function) -> Result<Self, DriverError> {
        let limit = settings::answer_within(config)?;
        let driver = device_driver_init(B::open(config)?, function, limit)?;
        // Into the service's log. Whether somebody reads it is not our affair.
        let _ = writeln!(
            std::io::stderr(),
            "{}: channel {:x} of {} runs on {}",
            function.name(),
            config.channel,
            config.app,
            driver.describe()
        );
        Ok(Exported(driver))
    }

    /// Computes one call on the channel's VF.
    pub fn call(&mut self, args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
        self.0.driver_function(args, out)
    }

    /// Resets the VF, which forgets all.
    pub fn rst(&mut self) -> Result<(), DriverError> {
        Ok(self.0.rst()?)
    }
}
