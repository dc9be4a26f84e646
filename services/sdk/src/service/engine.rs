//! What computes: a native library, or something else with the same shape.

use super::bond::Bonds;
use super::queues::{Port, QueuesChannel, QueuesHeld};
use crate::loader::{ArgsAt, Instance, Library, OutAt};
use crate::{CallOutcome, Config, DriverError, OpenCalls, abi};

/// What a service loads once: a driver's code.
pub trait Engine: Send + Sync + 'static {
    /// The state of one channel.
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
    /// The same for an engine that may answer calls later: through `calls`, which
    /// outlives the state. Others ignore it.
    fn open_later(
        &self,
        config: &Config,
        _calls: &OpenCalls,
    ) -> Result<Self::Instance, DriverError> {
        self.open(config)
    }
    /// Takes a channel of queues up, if the engine serves such channels: by a thread that it
    /// has, for as long as [`QueuesHeld::end`] has not come. `config` has neither depth nor
    /// cells. This is the service's main thread: return at once. No deadline applies to
    /// what is done with the queues.
    ///
    /// # Errors
    /// The app's activation is refused with it.
    fn open_queues(
        &self,
        config: &Config,
        _channel: QueuesChannel,
    ) -> Result<Box<dyn QueuesHeld>, DriverError> {
        let sentence = format!("the function {} serves calls, and no queues", config.function);
        Err(DriverError::new(abi::BAD_ARGS, sentence))
    }
    /// Takes a port up, if the engine serves channels of packets. What [`Engine::open_queues`]
    /// says holds here too: the sides lie as those of queues do, and `port` says what is behind
    /// the head pages, and has the device.
    ///
    /// # Errors
    /// The app's activation is refused with it.
    fn open_packets(
        &self,
        config: &Config,
        _channel: QueuesChannel,
        _port: Port,
    ) -> Result<Box<dyn QueuesHeld>, DriverError> {
        let sentence = format!("the function {} serves no packets", config.function);
        Err(DriverError::new(abi::BAD_ARGS, sentence))
    }
    /// The agents of VMs, if the engine is the function `bond`: the manager's orders go to
    /// them, and their reports to the manager.
    fn bonds(&self) -> Option<&Bonds> {
        None
    }
}

/// The state of one channel, which computes its calls.
pub trait Serve {
    /// One call (`abi::COMMAND_SET`) or one `rst` (`abi::COMMAND_RST`): how
    /// many bytes of results are in `out`. More than fit is for the engine to
    /// refuse, with [`DriverError::too_large`]. Or *later*, if a handle was taken
    /// of the [`OpenCalls`] meanwhile; `args` and `out` end with this all the same.
    fn run(
        &mut self,
        command: u32,
        args: ArgsAt<'_>,
        out: OutAt<'_>,
    ) -> Result<CallOutcome, DriverError>;
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
    fn open_later(&self, config: &Config, calls: &OpenCalls) -> Result<Instance, DriverError> {
        self.init_later(config, calls)
    }
}

impl Serve for Instance {
    #[inline]
    fn run(
        &mut self,
        command: u32,
        args: ArgsAt<'_>,
        out: OutAt<'_>,
    ) -> Result<CallOutcome, DriverError> {
        Instance::run(self, command, args, out)
    }
}
