//! In a guest: the kernel module, its devices, and whether this user may use them.

use super::check::Check;
use super::window;
use crate::out;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use vfun::ModuleDevice;
use vfun_window::{Access, Mapping};
use vfun_wire::PAGE;

const MODULE: &str = "/sys/module/vfun";

/// Looks. `devices` says whether the machine has a device for it at all.
pub fn look(devices: bool) -> Vec<Check> {
    if !Path::new(MODULE).is_dir() {
        let root = rustix::process::geteuid().is_root();
        let mend = "load it: modprobe vfun (guest/kmod, or the package virtfun-guest-dkms)";
        return match (devices, root) {
            (false, _) => vec![],
            (true, true) => vec![
                Check::note("module", "not loaded: only programs of root's reach the window, and they cannot be woken").mend(mend),
            ],
            (true, false) => {
                vec![Check::missing("module", "not loaded, and this user may not map the device itself").mend(mend)]
            }
        };
    }
    let version = fs::read_to_string(format!("{MODULE}/version")).unwrap_or_default();
    let mut checks = vec![Check::ok("module", format!("vfun {} is loaded", version.trim()))];
    let nodes = ModuleDevice::nodes();
    if nodes.is_empty() {
        checks.push(
            Check::missing("module device", "the module has made no /dev/vfunN")
                .mend("see what it says of the device: dmesg | grep vfun"),
        );
    }
    checks.extend(nodes.iter().flat_map(|node| device(node)));
    checks
}

fn device(node: &Path) -> Vec<Check> {
    let shown = node.display();
    let rights = rights(node);
    match ModuleDevice::ask(node) {
        Err(e) => {
            vec![Check::missing("module device", format!("{e} ({rights})")).mend(e.advice())]
        }
        Ok(d) => {
            let bells = match d.vectors {
                0 => "no doorbell".to_owned(),
                n => format!("{n} doorbells, {} interrupts so far", interrupts()),
            };
            let found =
                format!("{shown} ({rights}): {} of {}, {bells}", d.pci, out::bytes(d.window_bytes));
            let mut checks = vec![Check::ok("module device", found)];
            let header = fs::File::options().read(true).write(true).open(node).ok();
            let header = header.and_then(|f| Mapping::new(&f, 0, PAGE, Access::Read).ok());
            if let Some(header) = header {
                checks.extend(window::look(&header.read(), d.window_bytes));
            }
            checks
        }
    }
}

/// Mode and group, as `ls` shows them.
fn rights(node: &Path) -> String {
    match fs::metadata(node) {
        Ok(m) => format!("mode {:o}, group {}", m.mode() & 0o7777, group(m.gid())),
        Err(e) => e.to_string(),
    }
}

fn group(gid: u32) -> String {
    let known = uzers::get_group_by_gid(gid);
    known.map_or_else(|| gid.to_string(), |g| g.name().to_string_lossy().into_owned())
}

fn interrupts() -> u64 {
    counted(&fs::read_to_string("/proc/interrupts").unwrap_or_default())
}

/// The sum of all counts in the lines that name the module.
fn counted(interrupts: &str) -> u64 {
    let ours = interrupts.lines().filter(|l| l.contains("vfun"));
    let counts = |line: &str| -> u64 {
        line.split_whitespace().skip(1).map_while(|n| n.parse::<u64>().ok()).sum()
    };
    ours.map(counts).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_summed() {
        let text = "           CPU0       CPU1\n  1:          9          0   IO-APIC   1-edge      i8042\n\
                    \x20 27:         10          2   PCI-MSIX-0000:00:04.0   0-edge      vfun0-0\n\
                    \x20 28:          3          0   PCI-MSIX-0000:00:04.0   1-edge      vfun0-1\n";
        assert_eq!(counted(text), 15);
        assert_eq!(counted(""), 0);
    }

    #[test]
    fn groups_have_names() {
        assert_eq!(group(0), "root");
        assert_eq!(group(u32::MAX - 1), (u32::MAX - 1).to_string(), "one that has none");
    }
}
