//! A kernel that is compiled, and channels of it.

use crate::LoadError;
use crate::cl::{self, BuildError, ClError, Context, Device, Launcher, Program, Space, Way};
use crate::limits::*;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use vfun_kernelmap::{Bound, DeviceChoice, Launch, Map, Mapping};
use vfun_sdk::loader::{ArgsAt, OutAt};
use vfun_sdk::service::{Engine, Serve};
use vfun_sdk::{CallOutcome, Config, DriverError, abi};
use vfun_signature::Signature;

/// Code of a call that the device refused or did not finish.
pub const DEVICE_FAILED: i32 = 1;

/// What all channels share.
struct Shared {
    context: Context,
    program: Program,
    device: Device,
    kernel: String,
    mapping: Mapping,
    way: Way,
}

/// A kernel, compiled and tried; clones share it.
#[derive(Clone)]
pub struct Loaded(Arc<Shared>);

/// A channel's state: a queue and a kernel with arguments of its own.
pub struct Channel {
    shared: Arc<Shared>,
    launcher: Launcher,
    launch: Launch,
}

fn shown(d: &Device) -> String {
    format!("'{}' ({}) of '{}'", d.name, d.kind, d.platform)
}

/// The device that a manifest asks for.
pub fn choose(choice: &DeviceChoice, all: Vec<Device>) -> Result<Device, LoadError> {
    if all.is_empty() {
        return Err(LoadError::NoDevice);
    }
    let part = |of: &str, wanted: &str| of.to_lowercase().contains(&wanted.to_lowercase());
    let fits = |d: &Device| {
        choice.kind.is_none_or(|kind| kind == d.kind)
            && part(&d.platform, &choice.platform)
            && part(&d.name, &choice.name)
    };
    let there: Vec<String> = all.iter().take(DEVICES_MAX).map(shown).collect();
    all.into_iter().filter(fits).nth(choice.index as usize).ok_or_else(|| {
        LoadError::NotThatDevice {
            details: format!("wanted: {choice:?}; there are: {}", there.join(", ")),
        }
    })
}

fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let missing =
        |e: std::io::Error| LoadError::Missing { details: format!("{}: {e}", path.display()) };
    let file = std::fs::File::open(path).map_err(missing)?;
    let bytes = file.metadata().map_err(missing)?.len();
    if bytes > PROGRAM_BYTES_MAX {
        return Err(LoadError::TooLarge { bytes });
    }
    let mut read = vec![];
    // It may have grown since.
    file.take(PROGRAM_BYTES_MAX).read_to_end(&mut read).map_err(missing)?;
    Ok(read)
}

fn cut(text: &str) -> &str {
    let mut end = LOG_BYTES.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl Loaded {
    /// Compiles the program at `path` for the device that `map` chooses, and
    /// tries its kernel once.
    pub fn open(path: &Path, map: &Map, signature: &Signature) -> Result<Self, LoadError> {
        Self::new(&read(path)?, map, signature, None)
    }

    /// The same of a program in memory; `way` other than the device's best is
    /// for tests.
    pub fn new(
        bytes: &[u8],
        map: &Map,
        signature: &Signature,
        way: Option<Way>,
    ) -> Result<Self, LoadError> {
        let mapping = Mapping::new(map, signature)?;
        if !cl::is_installed() {
            return Err(LoadError::NoOpenCl);
        }
        let _alone = cl::alone();
        let device = choose(&map.device, cl::devices())?;
        let context = Context::new(&device)?;
        let program =
            context.build(&device, bytes, map.binary, &map.options).map_err(|e| match e {
                BuildError::Refused(log) => LoadError::Build {
                    details: format!("the kernel for {}: {}", shown(&device), cut(&log)),
                },
                BuildError::Failed(e) => e.into(),
            })?;
        let way = match (way, map.copy) {
            (Some(way), _) => way,
            (None, true) => Way::Copied,
            (None, false) => Way::of(&device),
        };
        let kernel = map.kernel.clone();
        let loaded = Loaded(Arc::new(Shared { context, program, device, kernel, mapping, way }));
        loaded.check_arguments()?;
        loaded.try_once()?;
        Ok(loaded)
    }

    /// The device, and how arguments and results get there: a line for people.
    pub fn describe(&self) -> String {
        let how = match self.0.way {
            Way::InPlace => "arguments and results are used in place",
            Way::Shared => "arguments and results are shared with it",
            Way::Copied => "arguments and results are copied",
        };
        format!("OpenCL device {}: {how}", shown(&self.0.device))
    }

    /// How arguments and results get to the device.
    pub fn way(&self) -> Way {
        self.0.way
    }

    /// What the device made of the program, to be loaded as a binary.
    pub fn binary(&self) -> Result<Vec<u8>, LoadError> {
        Ok(self.0.program.binary()?)
    }

    /// A channel's state.
    pub fn channel(&self) -> Result<Channel, cl::ClError> {
        let _alone = cl::alone();
        self.make_channel()
    }

    fn make_channel(&self) -> Result<Channel, cl::ClError> {
        let s = &self.0;
        let dimensions = s.mapping.dimensions();
        let launcher =
            Launcher::new(&s.context, &s.device, &s.program, &s.kernel, s.way, dimensions)?;
        Ok(Channel { shared: s.clone(), launcher, launch: Launch::default() })
    }

    /// The manifest's arguments against the kernel's own.
    fn check_arguments(&self) -> Result<(), LoadError> {
        let s = &self.0;
        let kernel = s.program.kernel(&s.kernel).map_err(|e| LoadError::NoKernel {
            kernel: s.kernel.clone(),
            details: format!("{e}; it has: {}", s.program.kernel_names()),
        })?;
        let (has, told) = (kernel.args()? as usize, s.mapping.args());
        if has != told {
            return Err(LoadError::Arguments {
                details: format!(
                    "the kernel {} has {has} arguments, [opencl] args has {told}",
                    s.kernel
                ),
            });
        }
        let trial = s.mapping.trial()?;
        let mut launch = Launch::default();
        let read = |at: usize, to: &mut [u8]| to.copy_from_slice(&trial[at..at + to.len()]);
        s.mapping.bind(trial.len(), read, &mut launch)?;
        for (i, bound) in launch.args.iter().enumerate() {
            let told = match bound {
                Bound::Scalar { .. } => Space::Value,
                Bound::Input { .. } | Bound::Output { .. } => Space::Buffer,
                Bound::Local(_) => Space::Local,
            };
            match kernel.arg(i as u32) {
                Some((has, name)) if has != told => {
                    return Err(LoadError::Arguments {
                        details: format!(
                            "args[{i}] is a {told:?}, and the kernel's argument {i} ({name}) is a {has:?}"
                        ),
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The smallest call: the device's compiler finishes its work.
    fn try_once(&self) -> Result<(), LoadError> {
        let args = self.0.mapping.trial()?;
        let trial = |e: String| LoadError::Trial { details: e };
        let mut channel = self.make_channel().map_err(|e| trial(e.to_string()))?;
        channel.bind(ArgsAt::private(&args)).map_err(|e| trial(e.sentence))?;
        let mut room = vec![0; channel.launch.result_len];
        channel
            .run(abi::COMMAND_SET, ArgsAt::private(&args), OutAt::private(&mut room))
            .map(|_| ())
            .map_err(|e| trial(e.sentence))
    }
}

/// What is said of a call of OpenCL's that failed: whether the device is gone, so that
/// the channel is served elsewhere, or only this call failed.
fn driver_error(e: ClError) -> DriverError {
    match e.device_is_gone() {
        true => DriverError::device_lost(e.to_string()),
        false => DriverError::new(DEVICE_FAILED, e.to_string()),
    }
}

impl Engine for Loaded {
    type Instance = Channel;
    fn max_args(&self) -> u32 {
        u32::try_from(self.0.mapping.max_args()).unwrap_or(u32::MAX)
    }
    fn max_result(&self) -> u32 {
        u32::try_from(self.0.mapping.max_result()).unwrap_or(u32::MAX)
    }
    fn open(&self, _: &Config) -> Result<Channel, DriverError> {
        self.channel().map_err(driver_error)
    }
    fn note(&self) -> Option<String> {
        Some(self.describe())
    }
}

impl Channel {
    /// Arguments and results that were copied so far.
    pub fn copies(&self) -> u64 {
        self.launcher.copies()
    }

    #[inline]
    fn bind(&mut self, args: ArgsAt<'_>) -> Result<(), DriverError> {
        let read = |at: usize, to: &mut [u8]| {
            // The mapping asks for nothing beyond the arguments.
            let copied = args.copy_part(at, to);
            debug_assert!(copied);
        };
        self.shared
            .mapping
            .bind(args.len(), read, &mut self.launch)
            .map_err(|e| DriverError::bad_args(e.to_string()))
    }
}

impl Serve for Channel {
    #[inline]
    fn run(
        &mut self,
        command: u32,
        args: ArgsAt<'_>,
        mut out: OutAt<'_>,
    ) -> Result<CallOutcome, DriverError> {
        if command == abi::COMMAND_RST {
            // A kernel keeps nothing between calls.
            return Ok(CallOutcome::Done(0));
        }
        self.bind(args)?;
        let len = self.launch.result_len;
        if len > out.capacity() {
            return Err(DriverError::too_large(len, out.capacity()));
        }
        self.launcher
            .run(&self.shared.context, &self.launch, args, &mut out)
            .map_err(driver_error)?;
        Ok(CallOutcome::Done(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_gone_is_told_from_a_call_that_failed() {
        let of = |code| driver_error(ClError { what: "a launch", code }).code;
        assert_eq!(of(-2), abi::DEVICE_LOST);
        assert_eq!(of(-5), DEVICE_FAILED, "too few resources for this call");
    }
}
