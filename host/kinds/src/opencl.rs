//! OpenCL kernels, on the host's processors or on a device.
//!
//! A loader finds devices by files, and PoCL, which computes on the host's
//! processors, compiles a kernel with the system's linker: its services see more of
//! the host than others, until the kernel is built.

use crate::limits::OPENCL_SCRATCH_BYTES;
use crate::{Kind, Opens, Part, Program};
use libc::*;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Spanned;
use vfun_jail::seccomp::lists::{
    CODE, DATA, DRIVER, DRIVER_OLD, NO_FILE, SECOND, allow, rule, service,
};
use vfun_jail::seccomp::{Answer, Rule, When};
use vfun_kernelmap::{DeviceChoice, DeviceKind, Map, Mapping};
use vfun_policy::source::ManifestError;
use vfun_supervise::Driver;
use vfun_wire::kind::ChannelKind;
use vfun_wire::message::Location;
use vfun_wire::version::Features;

pub static PROGRAM: Program =
    Program { name: "vfun-service-opencl", serves: "OpenCL kernels", made_by: "make build" };

pub static KIND: Kind = Kind {
    word: "opencl",
    program: &PROGRAM,
    channels: &[ChannelKind::Calls],
    keys: &["opencl"],
    declare,
    file: |driver| match driver {
        Driver::OpenCl { kernel, .. } => Some(kernel),
        _ => None,
    },
    reads,
    scratch_bytes: OPENCL_SCRATCH_BYTES,
    devices: Opens::Loading,
    // A kernel's code is all made before it is served.
    makes_code: false,
    writes: false,
    needs: Features(0),
    takes_rdma: false,
    one_per_vm: false,
    // The builder's rules go before the refusals of DRIVER.
    loading: || service(&[BUILDER, BUILDER_OLD, CODE, SECOND, DRIVER, DRIVER_OLD]),
    // No file, no program and no more code. PoCL's threads, one for each processor,
    // are there by then.
    serving: || service(&[KERNEL, DATA, NO_FILE]),
};

#[derive(Deserialize)]
struct OpenclKeys {
    opencl: Option<Spanned<Map>>,
}

/// A kernel whose arguments its section takes from the signature. Hardware that says
/// no more than its location has the kernel and the section of the software.
fn declare(part: &Part<'_>) -> Result<Driver, ManifestError> {
    let src = part.src;
    let needs = "a function of kind \"opencl\" needs `library`, the kernel's source or binary";
    let other = part.software.filter(|_| part.library.is_none());
    let kernel = other.unwrap_or(part).library(needs)?;
    let mut section = part.keys::<OpenclKeys>()?.opencl;
    let mut inherited = false;
    if let (None, Some(software)) = (&section, part.software) {
        section = software.keys::<OpenclKeys>()?.opencl;
        inherited = true;
    }
    let Some(section) = section else {
        return Err(src.whole(
            "a function of kind \"opencl\" needs a section [opencl]: which kernel, and what its arguments are",
        ));
    };
    let Some((_, signature)) = part.signature else {
        return Err(src.whole(
            "a function of kind \"opencl\" needs a `signature`, whose arguments become the kernel's",
        ));
    };
    Mapping::new(section.get_ref(), signature).map_err(|e| src.error(&section, e.to_string()))?;
    let mut map = Box::new(section.get_ref().clone());
    if inherited {
        map.device = DeviceChoice::default();
    }
    map.device.kind =
        Some(device_of(part.location, map.device.kind).map_err(|why| src.error(&section, why))?);
    Ok(Driver::OpenCl { kernel, signature: signature.to_string(), map })
}

/// The type of device behind a location; a sentence if the manifest wants another.
fn device_of(location: Location, wanted: Option<DeviceKind>) -> Result<DeviceKind, String> {
    let there = match location {
        Location::Software => DeviceKind::Cpu,
        Location::Gpu => DeviceKind::Gpu,
        Location::Fpga => DeviceKind::Accelerator,
        other => return Err(format!("OpenCL has no device of the location \"{other}\"")),
    };
    match wanted.filter(|w| *w != there) {
        None => Ok(there),
        Some(w @ (DeviceKind::Gpu | DeviceKind::Accelerator)) if !location.is_hardware() => {
            Err(format!(
                "a device of type \"{w}\" is hardware: declare it in [hardware], with kind = \"opencl\", its location and how many instances it has"
            ))
        }
        Some(w) => {
            Err(format!("the location \"{location}\" has devices of type \"{there}\", not \"{w}\""))
        }
    }
}

/// What is shown to a service, where there is such a thing.
const SHOWN: [&str; 8] = [
    // Which libraries are drivers.
    "/etc/OpenCL/vendors",
    // PoCL's headers and its library of built-in functions.
    "/usr/share/pocl",
    // The linker, and the compiler's own library that it links.
    "/usr/bin/ld",
    "/usr/lib/gcc",
    // How many processors there are, and of which kind: what it compiles for.
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/proc/cpuinfo",
    "/proc/meminfo",
];

/// Paths that a service may read, and run the linker from.
fn reads() -> Vec<PathBuf> {
    let shown = SHOWN.into_iter().map(PathBuf::from).filter(|p| Path::exists(p));
    shown.chain(compilers()).collect()
}

/// LLVM's libraries, where Debian has one folder for each version.
fn compilers() -> Vec<PathBuf> {
    let all = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let of_llvm = all.filter(|e| e.file_name().to_string_lossy().starts_with("llvm-"));
    of_llvm.map(|e| e.path().join("lib")).filter(|p| p.is_dir()).collect()
}

/// `clone` as a C library starts a program: `CLONE_VM | CLONE_VFORK | SIGCHLD`.
const STARTED: u32 = 0x0000_4111;

/// What compiling an OpenCL kernel takes besides. PoCL's compiler writes
/// object files and has the system's linker make a library of each kernel,
/// which it then loads. All of that is over before the first channel is opened;
/// which program can be started at all is the other layers' to say.
const BUILDER: &[Rule] = &[
    // The linker is started, and waited for; it runs under this list too.
    rule(SYS_clone, &[When::is(0, STARTED)], Answer::Allow),
    allow(SYS_execve),
    allow(SYS_wait4),
    // Object files and libraries are written.
    allow(SYS_openat),
    // PoCL sorts them into folders, under their last names once they are whole.
    allow(SYS_mkdirat),
    allow(SYS_renameat),
    allow(SYS_renameat2),
    allow(SYS_fdatasync),
    // What is not needed any more is removed.
    allow(SYS_unlinkat),
    // The linker makes its output a program's file.
    allow(SYS_fchmodat),
    allow(SYS_umask),
];

/// The same by older names.
#[cfg(target_arch = "x86_64")]
const BUILDER_OLD: &[Rule] =
    &[allow(SYS_open), allow(SYS_mkdir), allow(SYS_rename), allow(SYS_unlink), allow(SYS_chmod)];
#[cfg(not(target_arch = "x86_64"))]
const BUILDER_OLD: &[Rule] = &[];

/// What serving a kernel takes besides: for each new size of a launch PoCL asks
/// whether the file of the kernel, which is long loaded, is still there. It
/// need not be opened again: the loader knows it by its name.
const KERNEL: &[Rule] = &[
    #[cfg(target_arch = "x86_64")]
    allow(SYS_access),
    allow(SYS_faccessat),
    allow(SYS_faccessat2),
];
