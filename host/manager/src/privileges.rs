//! What the manager may do as root: what it provably needs, named here with the
//! reason, and nothing else, from its first moment on.

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::fs;
use std::io;

/// What it keeps on every host.
const ALWAYS: &[(CapabilitySet, &str, &str)] = &[
    (CapabilitySet::SETUID, "setuid", "each client's services run as a user of their own"),
    (CapabilitySet::SETGID, "setgid", "and as a group of their own"),
    (CapabilitySet::KILL, "kill", "these are other users' processes, and it ends them"),
    (CapabilitySet::CHOWN, "chown", "VMs' sockets are given to the group kvm, as which QEMU runs"),
];

/// What it keeps where ordinary users may not make user namespaces.
const WITHOUT_USER_NAMESPACES: &[(CapabilitySet, &str, &str)] = &[
    (CapabilitySet::SYS_ADMIN, "sys_admin", "other namespaces and mounts need it then"),
    (CapabilitySet::SETPCAP, "setpcap", "services' bounding sets are emptied"),
    (CapabilitySet::SYS_PTRACE, "sys_ptrace", "it looks which namespaces they are in"),
];

/// What it keeps if its gateway or its metrics are to be found on a port below 1024.
const LOW_PORTS: &[(CapabilitySet, &str, &str)] = &[(
    CapabilitySet::NET_BIND_SERVICE,
    "net_bind_service",
    "a program of it listens on a port below 1024",
)];

/// What it keeps if it starts the process that lends network VFs, which has no more than
/// the manager itself.
const NICS: &[(CapabilitySet, &str, &str)] = &[
    (CapabilitySet::NET_ADMIN, "net_admin", "VFs get their VM's MAC address, VLAN and rate"),
    (CapabilitySet::DAC_OVERRIDE, "dac_override", "VMs' QMP sockets are those of QEMU's user"),
];

/// What it keeps if it makes the tap devices of VMs' ports.
const PORTS: &[(CapabilitySet, &str, &str)] = &[(
    CapabilitySet::NET_ADMIN,
    "net_admin",
    "tap devices of ports are made, and put into bridges",
)];

/// Helpers and devices that ask for more than every manager has.
#[derive(Clone, Copy, Debug, Default)]
pub struct WantedMore {
    /// Network VFs are lent.
    pub nics: bool,
    /// Tap devices of ports are made.
    pub ports: bool,
}

/// What it keeps if its clients' services get no user of their own.
const AS_ROOT: &[(CapabilitySet, &str, &str)] = &[(
    CapabilitySet::SETFCAP,
    "setfcap",
    "root outside is somebody in services' user namespaces, which the kernel allows with it alone",
)];

/// Whether a process without privileges gets a user namespace with all of them.
fn user_namespaces() -> bool {
    let number = |file: &str| -> Option<u64> {
        fs::read_to_string(format!("/proc/sys/{file}")).ok()?.trim().parse().ok()
    };
    number("user/max_user_namespaces").is_some_and(|n| n > 0)
        && number("kernel/unprivileged_userns_clone") != Some(0)
        && number("kernel/apparmor_restrict_unprivileged_userns").unwrap_or(0) == 0
}

fn low(address: Option<&str>) -> bool {
    address
        .and_then(|a| a.rsplit_once(':')?.1.parse::<u16>().ok())
        .is_some_and(|port| (1..1024).contains(&port))
}

/// What is kept, with the reasons.
fn needed(
    own_users: bool,
    addresses: [Option<&str>; 2],
    more: WantedMore,
) -> Vec<&'static (CapabilitySet, &'static str, &'static str)> {
    let mut all: Vec<_> = ALWAYS.iter().collect();
    if !user_namespaces() {
        all.extend(WITHOUT_USER_NAMESPACES);
    }
    if !own_users {
        all.extend(AS_ROOT);
    }
    if addresses.into_iter().any(low) {
        all.extend(LOW_PORTS);
    }
    if more.nics {
        all.extend(NICS);
    }
    if more.ports && !more.nics {
        all.extend(PORTS);
    }
    all
}

/// What this thread may do.
pub fn effective() -> io::Result<CapabilitySet> {
    Ok(rustix::thread::capabilities(None)?.effective)
}

/// What a manager that has these and no others lacks to lend network VFs, for people.
pub fn lacks_for_nics(has: CapabilitySet) -> Option<String> {
    let missing = NICS.iter().filter(|(c, ..)| !has.contains(*c));
    let missing: Vec<String> =
        missing.map(|(_, name, reason)| format!("{name} ({reason})")).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "--nics: vfund lacks capabilities that network VFs need: {}. Under systemd: copy PREFIX/share/virtfun/vfund-nics.conf to /etc/systemd/system/vfund.service.d/nics.conf, then run systemctl daemon-reload and systemctl restart vfund. Elsewhere: start vfund with these capabilities, or as root",
            missing.join(", ")
        )
    })
}

/// Drops everything else, from all sets, for this process and what it starts.
/// Before there is a second thread: each has its own. `addresses` are those on
/// which its helpers will listen; `own_users` whether services are to get users of
/// their own; `more` what it is to do besides. The names of what is left.
pub fn drop_all_but_needed(
    own_users: bool,
    addresses: [Option<&str>; 2],
    more: WantedMore,
) -> io::Result<Vec<&'static str>> {
    // What it starts gains nothing by any program's file either.
    rustix::thread::set_no_new_privs(true)?;
    let had = rustix::thread::capabilities(None)?;
    if had.permitted.is_empty() {
        return Ok(vec![]);
    }
    let others = CapabilitySet::SETUID | CapabilitySet::SETGID;
    let needed = needed(own_users && had.permitted.contains(others), addresses, more);
    let keep = needed.iter().fold(CapabilitySet::empty(), |all, (c, ..)| all | *c) & had.permitted;
    for bit in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        if keep.contains(one) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            Err(Errno::INVAL) => break,
            // Without SETPCAP (an ordinary user with a few capabilities):
            // no_new_privs keeps it from gaining more.
            Err(Errno::PERM) => break,
            Err(e) => return Err(e.into()),
        }
    }
    let root = rustix::process::geteuid().is_root();
    let inheritable = if root { CapabilitySet::empty() } else { keep };
    let _ = rustix::thread::clear_ambient_capability_set();
    let sets = CapabilitySets { effective: keep, permitted: keep, inheritable };
    rustix::thread::set_capabilities(None, sets)?;
    if !root {
        // An ordinary user's launcher has them only if they are handed on.
        for (one, ..) in needed.iter().filter(|(c, ..)| keep.contains(*c)) {
            rustix::thread::configure_capability_in_ambient_set(*one, true)?;
        }
    }
    Ok(needed.iter().filter(|(c, ..)| keep.contains(*c)).map(|(_, name, _)| *name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_kept_for_a_reason_and_low_ports_only_when_asked_for() {
        let plain = WantedMore::default();
        let names = |a| needed(true, a, plain).iter().map(|(_, n, _)| *n).collect::<Vec<_>>();
        assert!(names([None, None]).contains(&"setuid"));
        assert!(!names([Some("0.0.0.0:7733"), Some("127.0.0.1:0")]).contains(&"net_bind_service"));
        assert!(names([Some("[::]:443"), None]).contains(&"net_bind_service"));
        assert!(!names([None, None]).contains(&"setfcap"));
        assert!(needed(false, [None, None], plain).iter().any(|(_, n, _)| *n == "setfcap"));
        assert!(!names([None, None]).contains(&"net_admin"));
        let more = [(true, false), (false, true), (true, true)];
        for more in more.map(|(nics, ports)| WantedMore { nics, ports }) {
            let all = needed(true, [None, None], more);
            assert_eq!(all.iter().filter(|(_, n, _)| *n == "net_admin").count(), 1, "{more:?}");
        }
        for (.., reason) in
            ALWAYS.iter().chain(WITHOUT_USER_NAMESPACES).chain(LOW_PORTS).chain(NICS).chain(PORTS)
        {
            assert!(reason.len() > 10);
        }
    }

    #[test]
    fn a_capability_that_network_vfs_lack_is_named_with_what_to_do() {
        let one = lacks_for_nics(CapabilitySet::NET_ADMIN | CapabilitySet::CHOWN).unwrap();
        assert!(one.contains("dac_override") && !one.contains("net_admin"), "{one}");
        assert!(one.contains("vfund-nics.conf"), "{one}");
        let both = lacks_for_nics(CapabilitySet::empty()).unwrap();
        assert!(both.contains("net_admin (") && both.contains("dac_override ("), "{both}");
        let all = NICS.iter().fold(CapabilitySet::empty(), |all, (c, ..)| all | *c);
        assert_eq!(lacks_for_nics(all), None);
    }
}
