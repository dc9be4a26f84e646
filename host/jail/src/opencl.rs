//! What a service of OpenCL kernels needs besides: its loader finds devices by
//! files, and PoCL, which computes on the host's processors, compiles a kernel
//! with the system's linker.

use std::path::{Path, PathBuf};

/// Bytes of the file system in memory in which a kernel is compiled: PoCL keeps
/// three files a kernel there, together some hundred KiB, until the service has
/// loaded them. They count as its memory.
pub const SCRATCH_BYTES: u64 = 32 << 20;

/// What is shown to it, where there is such a thing.
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

/// Paths that a service of OpenCL kernels may read, and run the linker from.
pub fn reads() -> Vec<PathBuf> {
    let shown = SHOWN.into_iter().map(PathBuf::from).filter(|p| Path::exists(p));
    shown.chain(compilers()).collect()
}

/// LLVM's libraries, where Debian has one folder for each version.
fn compilers() -> Vec<PathBuf> {
    let all = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let of_llvm = all.filter(|e| e.file_name().to_string_lossy().starts_with("llvm-"));
    of_llvm.map(|e| e.path().join("lib")).filter(|p| p.is_dir()).collect()
}
