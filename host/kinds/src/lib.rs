//! The kinds of services. Each kind is one row ([`Kind`]) in one file: the program
//! that serves it, the keys that its manifests have, the files that its sandbox
//! shows, and its two lists of system calls. The manager asks the rows and knows no
//! kind by name, except those that it makes itself (`submit`, what clients submitted, `bond`
//! and `ports`).
//!
//! A new kind is a file with a row, a line in [`DECLARED`], a line in [`of`], and a
//! variant of [`Driver`], which is what its program is told.

#![forbid(unsafe_code)]

mod bond;
mod declared;
mod floor;
pub mod limits;
mod mirror;
mod native;
mod opencl;
mod ports;
mod verbs;
mod wasm;

#[cfg(test)]
mod tests;

pub use declared::{Keys, Part};
pub use native::PROGRAM as NATIVE_PROGRAM;
pub use wasm::PROGRAM as WASM_PROGRAM;

use std::path::{Path, PathBuf};
use vfun_jail::Device;
use vfun_jail::seccomp::lists::{WRITES, WRITES_OLD};
use vfun_jail::seccomp::{self, Rule};
use vfun_policy::source::ManifestError;
use vfun_supervise::{Driver, Filters};
use vfun_wire::kind::ChannelKind;
use vfun_wire::version::Features;

/// A kind of service.
pub struct Kind {
    /// Its word in manifests (`kind = "wasm"`).
    pub word: &'static str,
    /// Which program serves it.
    pub program: &'static Program,
    /// The kinds of channel that it serves.
    pub channels: &'static [ChannelKind],
    /// Keys of a manifest that only this kind has, at the top or in `[hardware]`.
    pub keys: &'static [&'static str],
    /// Makes the driver of what a manifest says.
    pub declare: fn(&Part<'_>) -> Result<Driver, ManifestError>,
    /// The driver's file on the host, for its sandbox and for people.
    pub file: fn(&Driver) -> Option<&Path>,
    /// Other paths of the host that each of its services may read.
    pub reads: fn() -> Vec<PathBuf>,
    /// Bytes of a file system in memory that its services may write to; 0 for none.
    pub scratch_bytes: u64,
    /// When its services may open the devices that a manifest names.
    pub devices: Opens,
    /// Whether a manifest may let its driver make machine code while it serves
    /// (`makes_code`).
    pub makes_code: bool,
    /// Whether a manifest may name folders in which its driver writes (`writes`).
    pub writes: bool,
    /// What an app's session must have, beyond its client's leave, to open its functions.
    pub needs: Features,
    /// Whether its services are told what a client's manifest says in `[rdma]`.
    pub takes_rdma: bool,
    /// Whether one app of a VM at a time has a function of it.
    pub one_per_vm: bool,
    /// System calls until the driver is loaded. The first rule that fits decides.
    pub loading: fn() -> Vec<Rule>,
    /// System calls from then on; empty if the first list stays.
    pub serving: fn() -> Vec<Rule>,
}

/// A program that serves functions.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// Its file's name.
    pub name: &'static str,
    /// What it serves, for people.
    pub serves: &'static str,
    /// The command that builds it, for people.
    pub made_by: &'static str,
}

/// When a service opens devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opens {
    /// Never: a manifest that names devices is refused.
    Never,
    /// While its driver is loaded, under the kind's own rules for files.
    Loading,
    /// Also while it serves.
    Serving,
}

/// The kinds that manifests declare.
pub static DECLARED: [&Kind; 6] =
    [&native::KIND, &wasm::KIND, &opencl::KIND, &verbs::KIND, &floor::KIND, &mirror::KIND];

/// The kind of a function's software where its manifest names none.
pub static DEFAULT: &Kind = &native::KIND;

/// The kind of a driver.
pub fn of(driver: &Driver) -> &'static Kind {
    match driver {
        Driver::Native { .. } => &native::KIND,
        Driver::Wasm { .. } => &wasm::KIND,
        Driver::Submitted { .. } => &wasm::SUBMITTED,
        Driver::Submit => &wasm::SUBMIT,
        Driver::OpenCl { .. } => &opencl::KIND,
        Driver::Verbs => &verbs::KIND,
        Driver::Floor => &floor::KIND,
        Driver::Mirror => &mirror::KIND,
        Driver::Bond => &bond::KIND,
        Driver::Ports => &ports::KIND,
    }
}

/// The kind that a manifest names, or a sentence that says which there are.
pub fn named(word: &str) -> Result<&'static Kind, String> {
    DECLARED.into_iter().find(|k| k.word == word).ok_or_else(|| {
        let words: Vec<String> = DECLARED.iter().map(|k| format!("\"{}\"", k.word)).collect();
        format!("kind \"{word}\" is not one of {}", words.join(", "))
    })
}

/// The driver's file on the host, if it is one.
pub fn file(driver: &Driver) -> Option<&Path> {
    (of(driver).file)(driver)
}

/// What the driver is, for people.
pub fn shown(driver: &Driver) -> String {
    match (file(driver), driver) {
        (Some(file), _) => file.display().to_string(),
        (None, Driver::Submitted { sha256, .. }) => format!("submitted, sha256 {}", &sha256[..16]),
        (None, _) => "built in".into(),
    }
}

/// Paths of the host that a service of this driver may read, beyond those of its
/// manifest.
pub fn reads(driver: &Driver) -> Vec<PathBuf> {
    let file = file(driver).map(Path::to_owned);
    file.into_iter().chain((of(driver).reads)()).collect()
}

/// The lists of system calls for a driver: one until it is loaded, a stricter one
/// from then on; an empty one is none. `makes_code`: the manifest says that the driver
/// makes machine code or loads libraries while it serves, so that the first list
/// stays. `writes`: the manifest names folders in which the driver writes. `devices`: the devices
/// that the driver may open, and what it may ask of them.
pub fn lists(
    driver: &Driver,
    makes_code: bool,
    writes: bool,
    devices: &[Device],
) -> [Vec<Rule>; 2] {
    let kind = of(driver);
    let of_devices = seccomp::devices(devices, kind.devices == Opens::Serving);
    let (of_folders, of_folders_old) =
        if writes && kind.writes { (WRITES, WRITES_OLD) } else { (&[][..], &[][..]) };
    let whole = |rules: Vec<Rule>| match rules.is_empty() {
        true => rules,
        // The first rule that fits decides: these go before the driver's refusals.
        false => [&of_devices[..], of_folders, of_folders_old, &rules].concat(),
    };
    let serving = match makes_code && kind.makes_code {
        true => vec![],
        false => (kind.serving)(),
    };
    [whole((kind.loading)()), whole(serving)]
}

/// The same as programs for the kernel, as the service installs them.
pub fn filters(driver: &Driver, makes_code: bool, writes: bool, devices: &[Device]) -> Filters {
    let words = |rules: Vec<Rule>| match rules.is_empty() {
        true => vec![],
        false => seccomp::Program::new(&rules).words(),
    };
    let [loading, serving] = lists(driver, makes_code, writes, devices).map(words);
    Filters { loading, serving }
}
