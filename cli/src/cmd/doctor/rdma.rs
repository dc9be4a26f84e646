//! What programs for RDMA need, in a guest and on the host. Who does not use RDMA sees nothing of it.

use super::check::Check;
use crate::cmd::{rdma, run};
use crate::out;
use rustix::process::{Resource, getrlimit};
use std::path::Path;
use vfun_admin::FunctionRow;

const NAME: &str = "RDMA";
/// Less pinned memory than this is little for programs for RDMA, bytes.
const LITTLE: u64 = 64 << 20;
/// The function's manifest, where a package puts it.
const MANIFEST: &str = "/usr/share/virtfun/functions-verbs/verbs.toml";
/// The kernel module, which moves memory into the window.
const MODULE: &str = "/sys/module/vfun";

/// In a guest, if the library is there.
pub fn guest() -> Vec<Check> {
    let Some(library) = run::preloaded(rdma::KIND) else { return vec![] };
    let found = format!("{}: `vfun run -- PROGRAM` loads it", library.display());
    let mut checks = vec![Check::ok(NAME, found)];
    if !Path::new(MODULE).is_dir() {
        checks.push(
            Check::note(
                NAME,
                "without the kernel module peers cannot read or write memory of this VM's programs",
            )
            .mend("load it: modprobe vfun (the package virtfun-guest-dkms)"),
        );
    }
    let most = getrlimit(Resource::Memlock).current;
    checks.extend(pinned(most, rustix::process::geteuid().is_root()));
    checks
}

/// Memory that a user may pin; none: as much as there is.
fn pinned(most: Option<u64>, root: bool) -> Option<Check> {
    let most = most.filter(|most| !root && *most < LITTLE)?;
    let found = format!("programs of this user may register {} (ulimit -l)", out::bytes(most));
    Some(Check::note(NAME, found).mend(
        "for more write `@vfun - memlock unlimited` to /etc/security/limits.d/virtfun.conf, and log in again; \
         of a systemd unit set LimitMEMLOCK=",
    ))
}

/// On the host, if the package is there or a function is a NIC.
pub fn host(functions: &[FunctionRow]) -> Option<Check> {
    let nics: Vec<&str> =
        functions.iter().filter(|f| f.kind == rdma::KIND).map(|f| f.name.as_str()).collect();
    match nics.as_slice() {
        [] if !Path::new(MANIFEST).exists() => None,
        [] => Some(
            Check::note(NAME, "no function is a NIC: programs for RDMA find no device")
                .mend(format!("if VMs are to use RDMA: vfun function add {MANIFEST}")),
        ),
        all => Some(Check::ok(
            NAME,
            format!("{} is offered; `vfun rdma list` shows who uses it", all.join(", ")),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::doctor::check::State;

    #[test]
    fn little_pinned_memory_is_worth_a_note() {
        let note = pinned(Some(8 << 20), false).unwrap();
        assert!(note.state == State::Note && note.found.contains("8 MiB"), "{}", note.found);
        for (most, root) in [(Some(8 << 20), true), (Some(LITTLE), false), (None, false)] {
            assert!(pinned(most, root).is_none());
        }
    }
}
