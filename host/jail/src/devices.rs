//! Devices that a driver opens: nodes below `/dev` that its manifest names, and
//! the requests (`ioctl`) that it makes of them.

use crate::constants::DEVICE_PATH_BYTES;
use rustix::fs::Access;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A device of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Path of its node below `/dev`.
    pub path: PathBuf,
    /// Requests that may be made.
    pub ioctls: Vec<Requests>,
}

/// Requests of `ioctl` that are allowed: those whose number, masked, is `value`.
///
/// A request's number has 32 bits: from the lowest, 8 of the request, 8 of its
/// type (its driver, by convention), 14 of the argument's size and 2 of the
/// argument's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Bits that count.
    pub mask: u32,
    /// What they are.
    pub value: u32,
}

impl FromStr for Requests {
    type Err = String;
    /// `0x80045200`, one request; `0x64/*`, all of a type; `0x64/0x09`, one
    /// of a type, whatever its argument's size.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is no request: write it as \"0x80045200\" (its whole number), \"0x64/0x09\" (a type and a request of it) or \"0x64/*\" (all requests of a type)"
            )
        };
        let hex = |t: &str, digits: usize| {
            let digits = t.strip_prefix("0x").filter(|d| (1..=digits).contains(&d.len()))?;
            digits.bytes().all(|b| b.is_ascii_hexdigit()).then_some(())?;
            u32::from_str_radix(digits, 16).ok()
        };
        let found = match text.split_once('/') {
            None => hex(text, 8).map(|value| Requests { mask: u32::MAX, value }),
            Some((kind, "*")) => hex(kind, 2).map(|k| Requests { mask: 0xff00, value: k << 8 }),
            Some((kind, number)) => hex(kind, 2)
                .zip(hex(number, 2))
                .map(|(k, n)| Requests { mask: 0xffff, value: k << 8 | n }),
        };
        found.ok_or_else(wrong)
    }
}

impl Device {
    /// Whether this is the same node, and all requests of the other one may be made.
    pub fn covers(&self, other: &Device) -> bool {
        self.path == other.path && other.ioctls.iter().all(|r| self.ioctls.contains(r))
    }

    /// What its node is; a sentence if it is not there, or is no character device.
    pub fn node(&self) -> Result<fs::Metadata, String> {
        let shown = self.path.display();
        let meta = fs::symlink_metadata(&self.path)
            .map_err(|e| format!("the device {shown} cannot be found: {e}"))?;
        match meta.file_type().is_char_device() {
            true => Ok(meta),
            false => Err(format!("{shown} is not the node of a character device")),
        }
    }

    /// The group that a user who owns nothing needs to open it, if one; a
    /// sentence if it cannot be opened so, or is no device.
    pub fn group(&self) -> Result<Option<u32>, String> {
        let (shown, meta) = (self.path.display(), self.node()?);
        of_mode(meta.mode(), meta.gid()).ok_or_else(|| {
            format!(
                "the device {shown} is open neither to everybody nor to a group of its own (mode {:04o}, group {}): give it a group by a rule of udev, such as GROUP=\"render\", MODE=\"0660\"",
                meta.mode() & 0o7777,
                meta.gid()
            )
        })
    }

    /// A sentence if this process's own user, as whom services run that get no other
    /// one, may not open it, or if it is no device.
    pub fn own(&self) -> Result<(), String> {
        self.opened_by(rustix::process::getuid().as_raw(), |node| {
            rustix::fs::access(node, Access::READ_OK)
        })
    }

    fn opened_by(
        &self,
        user: u32,
        access: impl FnOnce(&Path) -> rustix::io::Result<()>,
    ) -> Result<(), String> {
        let (shown, meta) = (self.path.display(), self.node()?);
        access(&self.path).map_err(|e| {
            format!(
                "the device {shown} cannot be opened by user {user}, as whom vfund and its services run: {e} (mode {:04o}, owner {}, group {}): let that user be in its group and start vfund anew, or start vfund as root",
                meta.mode() & 0o7777,
                meta.uid(),
                meta.gid()
            )
        })
    }
}

/// The group needed for a node of this mode and group: `None` if there is no way.
fn of_mode(mode: u32, gid: u32) -> Option<Option<u32>> {
    let (group, others) = (mode >> 3 & 6, mode & 6);
    match (group | others == others, gid) {
        // Its group may do no more than everybody.
        (true, _) => (others & 4 != 0).then_some(None),
        // Root's own group opens far more than one device.
        (false, 0) => (others & 4 != 0).then_some(None),
        (false, gid) => (group & 4 != 0).then_some(Some(gid)),
    }
}

/// Why a path is none of a device's.
pub fn check_path(path: &Path) -> Result<(), String> {
    use std::path::Component;
    let bytes = path.as_os_str().len();
    if bytes > DEVICE_PATH_BYTES {
        return Err(format!(
            "the path of a device has at most {DEVICE_PATH_BYTES} bytes, not {bytes}"
        ));
    }
    let plain = path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
    match plain && path.starts_with("/dev") && path != Path::new("/dev") {
        true => Ok(()),
        false => Err(format!("{} is no path below /dev without '..'", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let of = |text: &str| text.parse::<Requests>();
        assert_eq!(of("0x80045200"), Ok(Requests { mask: u32::MAX, value: 0x8004_5200 }));
        assert_eq!(of("0x64/*"), Ok(Requests { mask: 0xff00, value: 0x6400 }));
        assert_eq!(of("0x64/0x9"), Ok(Requests { mask: 0xffff, value: 0x6409 }));
        for wrong in ["", "64", "0x", "*", "0x64/", "0x164/*", "0x123456789", "0x64/*/", "0x+1"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_device_covers_one_with_the_same_requests_or_fewer() {
        let of = |path: &str, requests: &[&str]| Device {
            path: path.into(),
            ioctls: requests.iter().map(|r| r.parse().unwrap()).collect(),
        };
        let device = of("/dev/x", &["0x64/*", "0x52/0x00"]);
        assert!(device.covers(&device) && device.covers(&of("/dev/x", &["0x64/*"])));
        assert!(device.covers(&of("/dev/x", &[])));
        assert!(!device.covers(&of("/dev/y", &[])) && !of("/dev/x", &[]).covers(&device));
    }

    #[test]
    fn a_node_is_opened_by_everybody_or_by_a_group_of_its_own() {
        assert_eq!(of_mode(0o20666, 0), Some(None));
        assert_eq!(of_mode(0o20666, 44), Some(None));
        assert_eq!(of_mode(0o20660, 44), Some(Some(44)));
        assert_eq!(of_mode(0o20664, 44), Some(Some(44)));
        assert_eq!(of_mode(0o20660, 0), None, "root's own group");
        assert_eq!(of_mode(0o20644, 0), Some(None), "to be read");
        assert_eq!(of_mode(0o20600, 44), None);
    }

    #[test]
    fn an_ordinary_user_is_told_that_it_may_not_open_a_device() {
        let device = Device { path: "/dev/urandom".into(), ioctls: vec![] };
        assert_eq!(device.opened_by(1000, |_| Ok(())), Ok(()));
        let why = device.opened_by(1000, |_| Err(rustix::io::Errno::ACCESS)).unwrap_err();
        let node = fs::metadata("/dev/urandom").unwrap();
        for words in [
            "/dev/urandom cannot be opened by user 1000".to_owned(),
            format!("mode {:04o}, owner {}", node.mode() & 0o7777, node.uid()),
            "as root".to_owned(),
        ] {
            assert!(why.contains(&words), "{why}");
        }
    }

    #[test]
    fn only_nodes_of_character_devices_do() {
        let of = |path: &str| Device { path: path.into(), ioctls: vec![] }.group();
        assert_eq!(of("/dev/urandom"), Ok(None));
        assert!(of("/dev/shm").unwrap_err().contains("not the node"));
        assert!(of("/dev/no-such-device").unwrap_err().contains("cannot be found"));
        let own = |path: &str| Device { path: path.into(), ioctls: vec![] }.own();
        assert_eq!(own("/dev/urandom"), Ok(()));
        assert!(own("/dev/shm").unwrap_err().contains("not the node"));
        assert!(own("/dev/no-such-device").unwrap_err().contains("cannot be found"));
        assert!(check_path(Path::new("/dev/dri/renderD128")).is_ok());
        for wrong in ["/dev", "/etc/passwd", "dev/null", "/dev/../etc/passwd"] {
            assert!(check_path(Path::new(wrong)).is_err(), "{wrong}");
        }
        let long = format!("/dev/{}", "x".repeat(DEVICE_PATH_BYTES - 5));
        assert!(check_path(Path::new(&long)).is_ok());
        assert!(check_path(Path::new(&(long + "x"))).is_err());
    }
}
