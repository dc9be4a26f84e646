//! What computes: a native library, or something else with the same shape.

use crate::loader::{ArgsAt, Instance, Library, OutAt};
use crate::{Config, DriverError};

/// What a service loads once: a driver's code.
pub trait Engine: Send + Sync + 'static {
    /// A channel's state.
    type Instance: Serve;
    /// Longest arguments, bytes; longer ones are refused before they get there.
    fn max_args(&self) -> u32;
    /// Longest results, bytes. Up to 48 the results go through private memory.
    fn max_result(&self) -> u32;
    /// What whoever looks at the service should know of how it computes.
    fn note(&self) -> Option<String> {
        None
    }
    /// A state for a new channel, made on that channel's thread.
    fn open(&self, config: &Config) -> Result<Self::Instance, DriverError>;
}

/// A channel's state.
pub trait Serve {
    /// One call (`abi::COMMAND_SET`) or one `rst` (`abi::COMMAND_RST`): how
    /// many bytes of results are in `out`. More than fit is for the engine to
    /// refuse, with [`DriverError::too_large`].
    fn run(&mut self, command: u32, args: ArgsAt<'_>, out: OutAt<'_>)
    -> Result<usize, DriverError>;
}

impl Engine for Library {
    type Instance = Instance;
    fn max_args(&self) -> u32 {
        self.info().max_args
    }
    fn max_result(&self) -> u32 {
        self.info().max_result
    }
    fn open(&self, config: &Config) -> Result<Instance, DriverError> {
        self.init(config)
    }
}

impl Serve for Instance {
    #[inline]
    fn run(
        &mut self,
        command: u32,
        args: ArgsAt<'_>,
        out: OutAt<'_>,
    ) -> Result<usize, DriverError> {
        Instance::run(self, command, args, out)
    }
}
