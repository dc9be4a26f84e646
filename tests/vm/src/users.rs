//! Guests with the kernel module and ordinary users.

use crate::module::{MODULE, module_config};
use vfun_testguest::GuestConfig;
use vfun_tests_local::programs;

/// A guest with the module, a port to plug a window into, `vfun-vm-app`, and
/// the users app and other (of the group vfun) and stranger (of none).
pub fn user_config(name: &str) -> GuestConfig {
    let mut config = GuestConfig { hotplug_ports: 1, ..module_config(name, vec![]) };
    config.files.push((programs().join("vfun-vm-app"), "/usr/bin/vfun-vm-app".into()));
    config
}

/// Loads the module, and gives its device to the group as a package's udev rule does.
pub fn load() -> String {
    format!("insmod {MODULE} && {GIVE}")
}

/// Waits for the module's device and gives it to the group.
pub const GIVE: &str =
    "until ls /dev/vfun* >/dev/null 2>&1; do usleep 10000; done; chgrp vfun /dev/vfun*";

/// A script as a user without rights; the shell is replaced by its only command.
pub fn as_user(user: &str, script: &str) -> String {
    format!("su {user} -c '{}'", script.replace('\'', "'\\''"))
}
