//! Finds the kernel that guests boot.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::error::{Doing, GuestError};
use crate::modules::Modules;
use crate::{GuestConfig, Result};

/// A kernel image with its modules, as `packaging/guest-kernel.sh` lays it out.
#[derive(Clone, Debug)]
pub struct Kernel {
    dir: PathBuf,
    version: String,
}

impl Kernel {
    /// Looks in `VFUN_GUEST_KERNEL_DIR`; if that is not set, for
    /// `target/guest-kernel` in the current folder and those above it, then in
    /// the folders above this crate's source.
    pub fn find() -> Result<Kernel> {
        if let Some(dir) = env::var_os("VFUN_GUEST_KERNEL_DIR").filter(|d| !d.is_empty()) {
            let dir = PathBuf::from(dir);
            if !dir.join("version").is_file() {
                return Err(GuestError::NoKernel {
                    looked: format!("{} (VFUN_GUEST_KERNEL_DIR)", dir.display()),
                });
            }
            return Kernel::at(&dir);
        }
        let cwd = env::current_dir().unwrap_or_default();
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let mut places =
            cwd.ancestors().chain(source.ancestors()).map(|d| d.join("target/guest-kernel"));
        match places.find(|d| d.join("version").is_file()) {
            Some(dir) => Kernel::at(&dir),
            None => {
                let looked =
                    format!("target/guest-kernel in {} or any folder above it", cwd.display());
                Err(GuestError::NoKernel { looked })
            }
        }
    }

    /// The kernel that this guest boots: its disk's own, or the usual one.
    pub(crate) fn of(config: &GuestConfig) -> Result<Kernel> {
        config.disk.as_ref().map_or_else(Kernel::find, |disk| Kernel::at(&disk.kernel))
    }

    /// The kernel in `dir`, if it is complete.
    pub fn at(dir: &Path) -> Result<Kernel> {
        let bad = |why: &str| GuestError::BadKernel { dir: dir.into(), why: why.into() };
        let text =
            fs::read_to_string(dir.join("version")).map_err(|_| bad("it has no file 'version'"))?;
        let version = text.trim().to_owned();
        if version.is_empty() || version.contains('/') || version.len() > 128 {
            return Err(bad("its file 'version' holds no version"));
        }
        let dir = fs::canonicalize(dir).doing(|| format!("cannot find {}", dir.display()))?;
        let kernel = Kernel { dir, version };
        if !kernel.image().is_file() {
            return Err(bad("it has no vmlinuz"));
        }
        if !kernel.modules_dir().join("modules.dep").is_file() {
            return Err(bad("it has no modules.dep"));
        }
        Ok(kernel)
    }

    /// Folder with the kernel and its modules.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The release, as `uname -r` says it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What QEMU is to load: `vmlinux` if there is one, as it need not be
    /// decompressed by an emulated CPU, otherwise `vmlinuz`.
    pub fn image(&self) -> PathBuf {
        let plain = self.dir.join("vmlinux");
        if plain.is_file() { plain } else { self.dir.join("vmlinuz") }
    }

    /// `lib/modules/VERSION`.
    pub fn modules_dir(&self) -> PathBuf {
        self.dir.join("lib/modules").join(&self.version)
    }

    /// Where packaging/kmod.sh puts VirtFun's kernel module for this kernel:
    /// `VFUN_KMOD_DIR`, or `kmod` beside the folder. Whether it is there is
    /// another matter.
    pub fn kernel_module(&self) -> PathBuf {
        let asked = env::var_os("VFUN_KMOD_DIR").filter(|d| !d.is_empty()).map(PathBuf::from);
        let dir = asked.unwrap_or_else(|| self.dir.with_file_name("kmod"));
        dir.join(&self.version).join("vfun.ko")
    }

    pub(crate) fn modules(&self) -> Result<Modules> {
        let read = |name: &str| {
            let path = self.modules_dir().join(name);
            fs::read_to_string(&path).doing(|| format!("cannot read {}", path.display()))
        };
        Ok(Modules::parse(&read("modules.dep")?, &read("modules.builtin")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn an_incomplete_kernel_says_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let at = || Kernel::at(dir.path()).unwrap_err().to_string();
        assert!(at().contains("no file 'version'") && at().contains("guest-kernel.sh"));
        fs::write(dir.path().join("version"), "6.1.0\n").unwrap();
        assert!(at().contains("no vmlinuz"));
        fs::write(dir.path().join("vmlinuz"), "x").unwrap();
        assert!(at().contains("no modules.dep"));
        fs::create_dir_all(dir.path().join("lib/modules/6.1.0")).unwrap();
        fs::write(dir.path().join("lib/modules/6.1.0/modules.dep"), "").unwrap();
        let kernel = Kernel::at(dir.path()).unwrap();
        assert!(kernel.image().ends_with("vmlinuz") && kernel.version() == "6.1.0");
        fs::write(dir.path().join("vmlinux"), "x").unwrap();
        assert!(kernel.image().ends_with("vmlinux"));
    }

    /// packaging/kmod.sh.
    #[test]
    fn a_second_run_waits_for_the_first_and_takes_what_it_built() {
        let dir = tempfile::tempdir().unwrap();
        /// A kernel of which there are headers nowhere.
        const VERSION: &str = "0.0.0-none";
        let (kernel, out) = (dir.path().join("kernel"), dir.path().join("kmod"));
        let modules = kernel.join("lib/modules").join(VERSION);
        fs::create_dir_all(&modules).unwrap();
        fs::write(modules.join("modules.dep"), "").unwrap();
        fs::write(kernel.join("vmlinuz"), "x").unwrap();
        fs::write(kernel.join("version"), VERSION).unwrap();
        fs::create_dir_all(out.join(VERSION)).unwrap();
        // The first run.
        let lock = File::create(out.join("lock")).unwrap();
        lock.lock().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kmod.sh");
        let mut second = Command::new(script)
            .env("VFUN_GUEST_KERNEL_DIR", &kernel)
            .env("VFUN_KMOD_DIR", &out)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let inode = format!(":{} ", lock.metadata().unwrap().ino());
        let waits = || {
            let locks = fs::read_to_string("/proc/locks").unwrap();
            locks.lines().any(|l| l.contains("-> FLOCK") && l.contains(&inode))
        };
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while !waits() {
            if std::time::Instant::now() > end {
                second.kill().unwrap();
                panic!("it neither waited nor ended");
            }
            assert!(second.try_wait().unwrap().is_none(), "it did not wait");
            std::thread::sleep(Duration::from_millis(5));
        }
        let module = out.join(VERSION).join("vfun.ko");
        fs::write(&module, "built by the first").unwrap();
        drop(lock);
        let done = second.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        assert_eq!(String::from_utf8_lossy(&done.stdout).trim_end(), module.to_str().unwrap());
    }
}
