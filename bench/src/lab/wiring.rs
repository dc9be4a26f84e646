//! How a guest reaches its window.

use crate::{BenchError, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use vfun_testguest::Kernel;

/// How a guest reaches its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// A window with doorbells, by the kernel module.
    Module,
    /// A window with doorbells, mapped by root's programs.
    Raw,
    /// A window without doorbells, mapped by root's programs.
    Plain,
}

impl Wiring {
    /// The module where it is built, else a plain window.
    pub fn best() -> Self {
        if Self::module().is_ok() { Self::Module } else { Self::Plain }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Module => "module",
            Self::Raw => "raw",
            Self::Plain => "plain",
        }
    }

    /// The endpoint inside the guest.
    pub fn endpoint(self) -> String {
        match self {
            Self::Module => format!("module:{}", super::DEVICE),
            Self::Raw | Self::Plain => "ivshmem".to_owned(),
        }
    }

    pub const fn transport(self) -> &'static str {
        match self {
            Self::Module => "module",
            Self::Raw | Self::Plain => "ivshmem",
        }
    }

    /// The kernel module for the kernel that guests boot: where packaging/kmod.sh builds
    /// it, in a folder above this one, above the kernel's or above this source.
    ///
    /// # Errors
    /// There is no kernel, or no module for it; the script that brings it is named.
    pub fn module() -> Result<PathBuf> {
        let kernel = Kernel::find()?;
        let named = std::env::var_os("VFUN_KMOD_DIR").filter(|d| !d.is_empty()).map(PathBuf::from);
        let here = std::env::current_dir().unwrap_or_default();
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        let above = here.ancestors().chain(source.ancestors()).chain(kernel.dir().ancestors());
        let built = above.map(|folder| folder.join("target/kmod"));
        let files =
            named.into_iter().chain(built).map(|d| d.join(kernel.version()).join("vfun.ko"));
        files.into_iter().find(|file| file.is_file()).ok_or_else(|| {
            BenchError::Options(format!(
                "the kernel module is not built for the guests' kernel {}: run packaging/kmod.sh, or name another way with --guest",
                kernel.version()
            ))
        })
    }
}

impl fmt::Display for Wiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Wiring {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let all = [Self::Module, Self::Raw, Self::Plain];
        all.into_iter().find(|w| w.as_str() == text).ok_or_else(|| {
            format!("a guest reaches its window by module, raw or plain, not by '{text}'")
        })
    }
}
