//! What VMs are called: in commands and reports, in the names of files and sockets, and
//! in QEMU.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use vfun_wire::names;

/// A VM, by the name of its client and its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VmName {
    /// Its client's name.
    pub client: String,
    /// Its own. No other VM of this client has it.
    pub vm: String,
}

impl VmName {
    /// The VM of this name, of this client.
    pub fn new(client: &str, vm: &str) -> Self {
        VmName { client: client.into(), vm: vm.into() }
    }

    /// Whether it has the name of its client: the one VM of a client whose manifest
    /// names none is called so.
    pub fn is_main(&self) -> bool {
        self.client == self.vm
    }

    /// The part of the names of its files and sockets that is its own. `@` is in no
    /// name, so that no two VMs share one.
    pub fn file_name(&self) -> String {
        self.joined('@')
    }

    /// What its device, character device and memory are called in QEMU.
    pub fn device_id(&self) -> String {
        // QEMU takes letters, digits, '-', '.' and '_'. One QEMU has one VM's devices.
        format!("virtfun-{}", self.joined('.'))
    }

    fn joined(&self, by: char) -> String {
        match self.is_main() {
            true => self.client.clone(),
            false => format!("{}{by}{}", self.client, self.vm),
        }
    }
}

/// As people write it: `client`, or `client/vm` where the VM has another name.
impl fmt::Display for VmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.joined('/'))
    }
}

/// Whose something is: a client, or one VM of it. A client alone may have one VM, or
/// several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfVm {
    pub client: String,
    /// The VM's, if one was named.
    pub vm: Option<String>,
}

impl OfVm {
    /// Whether it is about what a client, and this VM of it, has. Programs on the host
    /// have no VM.
    pub fn has(&self, client: &str, vm: Option<&str>) -> bool {
        self.client == client && (self.vm.is_none() || self.vm.as_deref() == vm)
    }
}

impl FromStr for OfVm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (client, vm) = match text.split_once('/') {
            Some((client, vm)) => (client, Some(vm)),
            None => (text, None),
        };
        let check = |what: &str, name: &str| {
            names::check(name).map_err(|e| format!("the name of a {what}, '{name}': {e}"))
        };
        check("client", client)?;
        vm.map_or(Ok(()), |vm| check("VM", vm))?;
        Ok(OfVm { client: client.into(), vm: vm.map(str::to_owned) })
    }
}

/// What reports call the owner of a session or grant: its client, and its VM if that has
/// a name of its own.
pub fn owner(client: &str, vm: Option<&str>) -> String {
    match vm {
        Some(vm) => VmName::new(client, vm).to_string(),
        None => client.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vm_is_called_the_same_everywhere_and_like_no_other() {
        let main = VmName::new("web", "web");
        assert_eq!(
            [main.to_string(), main.file_name(), main.device_id()],
            ["web", "web", "virtfun-web"]
        );
        let b = VmName::new("web", "b.1");
        assert_eq!(
            [b.to_string(), b.file_name(), b.device_id()],
            ["web/b.1", "web@b.1", "virtfun-web.b.1"]
        );
        // A client of that name has other files.
        assert_ne!(VmName::new("web.b.1", "web.b.1").file_name(), b.file_name());
        assert!(names::check(&b.file_name()).is_err(), "no client can have this name");
    }

    #[test]
    fn people_name_a_client_or_a_vm_of_it() {
        let web: OfVm = "web".parse().unwrap();
        assert!(web.has("web", Some("b")) && web.has("web", None) && !web.has("b", Some("b")));
        let b: OfVm = "web/b".parse().unwrap();
        assert!(b.has("web", Some("b")) && !b.has("web", Some("web")) && !b.has("web", None));
        for wrong in ["", "web/", "/b", "a/b/c", "a b", "web@b"] {
            assert!(wrong.parse::<OfVm>().is_err(), "{wrong}");
        }
    }
}
