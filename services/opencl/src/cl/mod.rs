//! OpenCL's C interface: the one place of this crate with unsafe code.
//!
//! Objects are released when they are dropped. The standard lets any thread
//! use any of them at any time, except that a kernel's arguments are set by
//! one thread at a time, which [`Kernel`] being used by `&mut` alone assures.
#![allow(unsafe_code)]

mod launcher;
mod process;

pub use launcher::{Launcher, Way};
pub use process::{forget_files, prepare_process};

use cl3::device::{self, CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU};
use cl3::program::{CL_PROGRAM_BUILD_LOG, CL_PROGRAM_KERNEL_NAMES};
use cl3::{command_queue, context, kernel, memory, platform, program};
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfun_kernelmap::DeviceKind;

/// A call of OpenCL's that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {} ({code})", cl3::error_codes::error_text(*code))]
pub struct ClError {
    /// The OpenCL function that failed.
    pub what: &'static str,
    /// OpenCL's error code, negative.
    pub code: i32,
}

impl ClError {
    /// Whether no call of this device will succeed any more.
    pub fn device_is_gone(&self) -> bool {
        self.code == cl3::error_codes::CL_DEVICE_NOT_AVAILABLE
    }
}

fn failed(what: &'static str) -> impl Fn(i32) -> ClError {
    move |code| ClError { what, code }
}

/// A device that computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    id: usize,
    /// Name that the device's driver gives.
    pub name: String,
    /// Name of the platform that the device belongs to.
    pub platform: String,
    pub kind: DeviceKind,
    /// It works on the host's memory.
    pub unified: bool,
}

fn text(bytes: Result<Vec<u8>, i32>) -> String {
    let bytes = bytes.unwrap_or_default();
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

/// Whether there is a loader of OpenCL.
pub fn is_installed() -> bool {
    cl3::is_opencl_runtime_available()
}

/// Held while anything is made: PoCL 3.1 crashes where two threads find
/// devices or compile at the same time.
pub fn alone() -> MutexGuard<'static, ()> {
    static MAKING: Mutex<()> = Mutex::new(());
    MAKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Devices of all platforms, in the loader's order. The caller is [`alone`].
pub fn devices() -> Vec<Device> {
    let mut all = vec![];
    for p in platform::get_platform_ids().unwrap_or_default() {
        let of = text(platform::get_platform_data(p, platform::CL_PLATFORM_NAME));
        for d in device::get_device_ids(p, CL_DEVICE_TYPE_ALL).unwrap_or_default() {
            let kind = device::get_device_data(d, device::CL_DEVICE_TYPE).unwrap_or_default();
            let kind = kind.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
            let unified = device::get_device_data(d, device::CL_DEVICE_HOST_UNIFIED_MEMORY);
            all.push(Device {
                id: d as usize,
                name: text(device::get_device_data(d, device::CL_DEVICE_NAME)),
                platform: of.clone(),
                kind: match kind {
                    k if k & CL_DEVICE_TYPE_CPU != 0 => DeviceKind::Cpu,
                    k if k & device::CL_DEVICE_TYPE_GPU != 0 => DeviceKind::Gpu,
                    _ => DeviceKind::Accelerator,
                },
                unified: unified.is_ok_and(|b| b.iter().any(|b| *b != 0)),
            });
        }
    }
    all
}

macro_rules! object {
    ($(#[$doc:meta])* $name:ident, $release:path) => {
        $(#[$doc])*
        pub struct $name(*mut c_void);
        // SAFETY: the standard lets every thread use every object.
        unsafe impl Send for $name {}
        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: it was made by OpenCL and is released once.
                let _ = unsafe { $release(self.0) };
            }
        }
    };
}

object!(
    /// A context of one device.
    Context,
    context::release_context
);
object!(
    /// Commands for a device, done in order.
    Queue,
    command_queue::release_command_queue
);
object!(
    /// A program that was built.
    Program,
    program::release_program
);
object!(
    /// A kernel with its arguments.
    Kernel,
    kernel::release_kernel
);
object!(
    /// Memory that a device works on.
    Buffer,
    memory::release_mem_object
);
// SAFETY: as above; nothing of these two is set after they were made.
unsafe impl Sync for Context {}
// SAFETY: as above.
unsafe impl Sync for Program {}

/// How a program fails to be built.
pub enum BuildError {
    /// The compiler's words.
    Refused(String),
    /// Something else.
    Failed(ClError),
}

impl Context {
    /// A context of `device`.
    pub fn new(device: &Device) -> Result<Self, ClError> {
        context::create_context(&[device.id as *mut c_void], std::ptr::null(), None, null_mut())
            .map(Context)
            .map_err(failed("a context for the device"))
    }

    pub fn queue(&self, device: &Device) -> Result<Queue, ClError> {
        // SAFETY: both are of OpenCL, and this context is of that device.
        unsafe { command_queue::create_command_queue(self.0, device.id as *mut c_void, 0) }
            .map(Queue)
            .map_err(failed("a queue for the device"))
    }

    /// Compiles source, or takes a device's own binary.
    pub fn build(
        &self,
        device: &Device,
        bytes: &[u8],
        binary: bool,
        options: &str,
    ) -> Result<Program, BuildError> {
        let id = device.id as *mut c_void;
        let made = if binary {
            // SAFETY: the context is of that device; the bytes are copied.
            unsafe { program::create_program_with_binary(self.0, &[id], &[bytes]) }
        } else {
            let source = String::from_utf8_lossy(bytes);
            program::create_program_with_source(self.0, &[&source])
        };
        let made = made.map(Program).map_err(|code| {
            BuildError::Failed(ClError { what: "the program is not taken", code })
        })?;
        // With what is needed to compare the kernel's arguments with the manifest's.
        let more = if binary { "" } else { " -cl-kernel-arg-info" };
        let options = CString::new(format!("{options}{more}")).unwrap_or_default();
        match program::build_program(made.0, &[id], &options, None, null_mut()) {
            Ok(()) => Ok(made),
            Err(code) => {
                let log = text(program::get_program_build_data(made.0, id, CL_PROGRAM_BUILD_LOG));
                let why = ClError { what: "the compiler", code };
                Err(BuildError::Refused(format!("{why}\n{log}")))
            }
        }
    }

    /// Device memory of its own.
    fn own(&self, bytes: usize) -> Result<Buffer, ClError> {
        // SAFETY: no memory of the host is named.
        unsafe { memory::create_buffer(self.0, memory::CL_MEM_READ_WRITE, bytes, null_mut()) }
            .map(Buffer)
            .map_err(failed("memory of the device"))
    }

    /// The host's memory at `at`, as the device's.
    ///
    /// # Safety
    /// `at` is good for `bytes` bytes, for writing too if `writes`, whenever
    /// this buffer is an argument of a kernel that runs.
    unsafe fn over(&self, at: *mut u8, bytes: usize, writes: bool) -> Result<Buffer, ClError> {
        let rights = if writes { memory::CL_MEM_WRITE_ONLY } else { memory::CL_MEM_READ_ONLY };
        let flags = rights | memory::CL_MEM_USE_HOST_PTR;
        // SAFETY: the caller's promise.
        unsafe { memory::create_buffer(self.0, flags, bytes, at.cast()) }
            .map(Buffer)
            .map_err(failed("a buffer over the window"))
    }
}

impl Program {
    /// One of its kernels.
    pub fn kernel(&self, name: &str) -> Result<Kernel, ClError> {
        let c = CString::new(name).unwrap_or_default();
        kernel::create_kernel(self.0, &c).map(Kernel).map_err(failed("the kernel"))
    }

    /// Names of its kernels, between semicolons.
    pub fn kernel_names(&self) -> String {
        text(program::get_program_data(self.0, CL_PROGRAM_KERNEL_NAMES))
    }

    /// What the device made of it, to be loaded again as a binary.
    pub fn binary(&self) -> Result<Vec<u8>, ClError> {
        let found = program::get_program_info(self.0, program::CL_PROGRAM_BINARIES)
            .map_err(failed("the program's binary"))?;
        match found {
            cl3::info_type::InfoType::VecVecUchar(mut all) if !all.is_empty() => Ok(all.remove(0)),
            _ => Err(ClError { what: "the program's binary", code: 0 }),
        }
    }
}

/// Where a kernel wants an argument to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Buffer,
    /// Memory of a work-group.
    Local,
    Value,
}

impl Kernel {
    /// How many arguments it has.
    pub fn args(&self) -> Result<u32, ClError> {
        let n = kernel::get_kernel_data(self.0, kernel::CL_KERNEL_NUM_ARGS)
            .map_err(failed("the kernel's arguments"))?;
        Ok(n.first_chunk().map_or(0, |b| u32::from_ne_bytes(*b)))
    }

    /// What argument `index` is, and its name, if the compiler has kept that.
    pub fn arg(&self, index: u32) -> Option<(Space, String)> {
        let q = kernel::CL_KERNEL_ARG_ADDRESS_QUALIFIER;
        let space = kernel::get_kernel_arg_data(self.0, index, q).ok()?;
        let space = match u32::from_ne_bytes(*space.first_chunk()?) {
            kernel::CL_KERNEL_ARG_ADDRESS_LOCAL => Space::Local,
            kernel::CL_KERNEL_ARG_ADDRESS_PRIVATE => Space::Value,
            _ => Space::Buffer,
        };
        let name = kernel::get_kernel_arg_data(self.0, index, kernel::CL_KERNEL_ARG_NAME);
        Some((space, text(name)))
    }
}
