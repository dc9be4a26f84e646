//! What OpenCL's libraries are told through the environment.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where a service may write while it loads: in its sandbox a file system in
/// memory that nobody else sees, which the launcher puts there; else where all do.
const SCRATCH: [&str; 2] = ["/.vfun-scratch", "/tmp"];
const CACHE: &str = "POCL_CACHE_DIR";

/// Prepares this process for OpenCL: call it first in `main`, before there is
/// another thread.
///
/// PoCL compiles a kernel when it is first launched, anew for each size of
/// work-group unless it is told not to: one compilation at the start is what
/// can be done before the sandbox closes. It keeps what it compiled in files,
/// in a folder that is this process's alone.
pub fn prepare_process() {
    // A name that nobody can guess, for where the folder is everybody's.
    let name = format!("vfun-opencl-{:016x}", RandomState::new().build_hasher().finish());
    let scratch = SCRATCH.into_iter().find(|s| Path::new(s).is_dir()).unwrap_or("/");
    let folder: PathBuf = [scratch, &name].iter().collect();
    if let Err(e) = std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        eprintln!("{} cannot be made, where PoCL puts what it compiles: {e}", folder.display());
    }
    for (name, value) in [
        (CACHE, folder.as_path()),
        ("POCL_WORK_GROUP_SPECIALIZATION", "0".as_ref()),
        // Where PoCL's compiler finds the linker; a service has no environment.
        ("PATH", "/usr/bin:/bin".as_ref()),
    ] {
        // SAFETY: there is no other thread yet, so none reads it meanwhile.
        unsafe { std::env::set_var(name, value) };
    }
}

/// Removes what PoCL compiled, when nothing is launched any more: it looks for
/// the file of a kernel that is long loaded. A service, which may not remove
/// files by then, leaves them in its own memory.
pub fn forget_files() {
    if let Some(folder) = std::env::var_os(CACHE)
        && Path::new(&folder).to_string_lossy().contains("/vfun-opencl-")
    {
        let _ = std::fs::remove_dir_all(folder);
    }
}
