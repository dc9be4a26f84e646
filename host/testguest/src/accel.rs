//! Which accelerator a guest runs on: found out by a real boot, once a machine.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::{env, fmt};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Doing, GuestError};
use crate::{Guest, GuestConfig, Kernel, Result};

/// How a guest's CPU is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accel {
    /// KVM if a guest really boots with it here, otherwise emulation. The
    /// environment's `VFUN_TEST_ACCEL=kvm` or `tcg` decides without a look.
    #[default]
    Auto,
    /// Hardware virtualization.
    Kvm,
    /// QEMU's emulation: works everywhere.
    Tcg,
}

impl Accel {
    /// `auto`, `kvm` or `tcg`.
    pub fn name(self) -> &'static str {
        match self {
            Accel::Auto => "auto",
            Accel::Kvm => "kvm",
            Accel::Tcg => "tcg",
        }
    }

    fn named(name: &str) -> Option<Accel> {
        [Accel::Auto, Accel::Kvm, Accel::Tcg].into_iter().find(|a| a.name() == name)
    }
}

impl fmt::Display for Accel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Turns `Auto` into one of the others.
pub(crate) fn resolve(wanted: Accel, kernel: &Kernel) -> Result<Accel> {
    if wanted != Accel::Auto {
        return Ok(wanted);
    }
    if let Ok(name) = env::var("VFUN_TEST_ACCEL") {
        match Accel::named(&name) {
            Some(Accel::Auto) => {}
            Some(accel) => return Ok(accel),
            None if name.is_empty() => {}
            None => {
                return Err(GuestError::Config {
                    guest: "any".into(),
                    why: format!("VFUN_TEST_ACCEL is '{name}', but must be auto, kvm or tcg"),
                });
            }
        }
    }
    let usable = OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    if !usable {
        return Ok(Accel::Tcg);
    }
    probe_once(kernel)
}

/// What a probe found holds until this machine starts again.
fn probe_once(kernel: &Kernel) -> Result<Accel> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // Beside the kernel; where that cannot be written, for this user alone.
    let name = format!("accel-{}", rustix::process::getuid().as_raw());
    let (path, lock) = [kernel.dir().to_owned(), env::temp_dir().join(format!("vfun-{name}"))]
        .iter()
        .find_map(|dir| {
            let _ = fs::create_dir(dir);
            let path = dir.join(&name);
            open(&path).ok().map(|f| (path, f))
        })
        .ok_or_else(|| GuestError::Io {
            doing: format!("cannot keep what a probe of KVM finds, neither in {} nor in a folder for temporary files", kernel.dir().display()),
            source: std::io::ErrorKind::PermissionDenied.into(),
        })?;
    // Of several tests that start together one probes and the others wait.
    flock(&lock, FlockOperation::LockExclusive)
        .doing(|| format!("cannot lock {}", path.display()))?;
    if let Some(accel) = recall(&fs::read_to_string(&path).unwrap_or_default(), &boot) {
        return Ok(accel);
    }
    let accel = if Guest::probe_kvm(&GuestConfig::new("kvm-probe"), kernel) {
        Accel::Kvm
    } else {
        Accel::Tcg
    };
    fs::write(&path, format!("{accel} {boot}"))
        .doing(|| format!("cannot write {}", path.display()))?;
    Ok(accel)
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).open(path)
}

fn recall(text: &str, boot: &str) -> Option<Accel> {
    let (accel, of) = text.split_once(' ')?;
    (of.trim() == boot.trim()).then(|| Accel::named(accel)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_of_one_boot_only() {
        assert_eq!(recall("tcg abc\n", "abc\n"), Some(Accel::Tcg));
        assert_eq!(recall("kvm abc\n", "xyz\n"), None);
        assert_eq!(recall("", "abc"), None);
        assert_eq!(recall("bogus abc", "abc"), None);
    }
}
