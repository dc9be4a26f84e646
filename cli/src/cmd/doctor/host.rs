//! On the host: what the manager and its services stand on.

use super::check::Check;
use super::{nics, rdma};
use crate::admin::Admin;
use crate::cmd::client::of_each_vm;
use crate::fail::Failure;
use crate::{out, programs};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use vfun_admin::{ClientRow, FunctionRow, Status};

/// `statfs`'s number of a file system in memory.
const TMPFS: i128 = 0x0102_1994;
/// Less free memory than this is worth a note, bytes.
const LITTLE_MEMORY: u64 = 512 << 20;

pub fn look(admin: &Admin) -> Vec<Check> {
    let mut checks = vec![kvm(), qemu(), memory(), kernel()];
    let clients: Vec<ClientRow> =
        admin.clients().unwrap_or_default().iter().flat_map(of_each_vm).collect();
    checks.push(window_folder(&clients));
    match admin.status() {
        // A user who only calls functions needs no answer from the manager.
        Err(e) if e.is_denied() => {
            checks.push(
                Check::note("manager", "only its own user and root may ask it; calls need not")
                    .mend("run doctor as one of them to see more"),
            );
        }
        Err(e) => {
            let e = Failure::from(e);
            checks.push(
                Check::missing("manager", e.what)
                    .mend(e.advice.unwrap_or_else(|| "start vfund".into())),
            );
        }
        Ok(status) => {
            checks.push(manager(&status));
            checks.push(service(&status));
            checks.push(gateway(&status));
            let all = admin.functions().unwrap_or_default();
            checks.extend(functions(&all));
            checks.extend(rdma::host(&all));
            checks.extend(clients.iter().filter_map(window));
            checks.extend(nics::look(&status));
        }
    }
    checks
}

fn kvm() -> Check {
    let mend = "VMs are emulated without it (slow, but everything works): enable virtualization in the firmware, load kvm_intel or kvm_amd";
    match OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        Ok(_) => Check::ok(
            "KVM",
            "/dev/kvm can be opened; whether a guest boots with it `vfun guest` finds out",
        ),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            Check::note("KVM", "/dev/kvm may not be opened by this user")
                .mend("add the user to the group kvm")
        }
        Err(e) => Check::note("KVM", format!("/dev/kvm: {e}")).mend(mend),
    }
}

fn qemu() -> Check {
    let program = format!("qemu-system-{}", std::env::consts::ARCH);
    match Command::new(&program).arg("--version").output() {
        Ok(out) if out.status.success() => {
            let text = String::from_utf8_lossy(&out.stdout).lines().next().unwrap_or_default().to_owned();
            Check::ok("QEMU", text)
        }
        _ => Check::note("QEMU", format!("{program} is not installed")).mend(
            "needed only where VMs run under it: apt-get install qemu-system-x86, or packaging/setup.sh",
        ),
    }
}

fn memory() -> Check {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    match (kib("MemAvailable:"), kib("MemTotal:")) {
        (Some(free), Some(all)) => {
            let found =
                format!("{} of {} available", out::bytes(free << 10), out::bytes(all << 10));
            match free << 10 < LITTLE_MEMORY {
                true => Check::note("memory", found)
                    .mend("windows are memory: end something, or give clients smaller windows"),
                false => Check::ok("memory", found),
            }
        }
        _ => Check::note("memory", "/proc/meminfo cannot be read"),
    }
}

fn kernel() -> Check {
    let needed = "needed only for `vfun guest` and the tests with VMs";
    let Some(program) = programs::find("vfun-guest") else {
        return Check::note("guest kernel", "vfun-guest is not installed").mend(needed);
    };
    let said = |text: &[u8]| String::from_utf8_lossy(text).trim().to_owned();
    match Command::new(program).arg("--kernel").output() {
        Ok(out) if out.status.success() => Check::ok("guest kernel", said(&out.stdout)),
        Ok(out) => Check::note("guest kernel", said(&out.stderr)).mend(needed),
        Err(e) => Check::note("guest kernel", e.to_string()).mend(needed),
    }
}

fn window_folder(clients: &[ClientRow]) -> Check {
    let of_client =
        clients.iter().find_map(|c| c.window_file.as_deref()?.parent().map(PathBuf::from));
    let folder = of_client.unwrap_or_else(|| "/dev/shm".into());
    let shown = folder.display();
    match rustix::fs::statfs(&folder) {
        Err(e) => Check::missing("windows", format!("{shown}: {}", std::io::Error::from(e)))
            .mend(format!("mount a tmpfs there: mount -t tmpfs tmpfs {shown}")),
        Ok(s) => {
            let free = s.f_bavail * s.f_bsize as u64;
            let found = format!("{shown}, {} free", out::bytes(free));
            if i128::from(s.f_type) != TMPFS {
                return Check::note("windows", format!("{found}, is not in memory (no tmpfs)"))
                    .mend(
                        "windows on a disk are slow and wear it out: vfund --window-dir /dev/shm",
                    );
            }
            match free < vfun_wire::limits::WINDOW_BYTES_DEFAULT {
                true => Check::note("windows", found).mend(format!(
                    "no room for another window: mount -o remount,size=SIZE {shown}"
                )),
                false => Check::ok("windows", found),
            }
        }
    }
}

fn manager(s: &Status) -> Check {
    let found = format!(
        "vfund {}, process {}, root {}, up {}",
        s.version,
        s.pid,
        s.root.display(),
        out::age(s.uptime_s)
    );
    if let Some(first) = s.troubles.first() {
        let more = match s.troubles.len() - 1 {
            0 => String::new(),
            n => format!(" (and {n} more: `vfun status`)"),
        };
        return Check::note("manager", format!("{found}; {first}{more}"))
            .mend("docs/failure.md says what each trouble means and what to do");
    }
    match (s.draining, s.version == env!("CARGO_PKG_VERSION")) {
        (true, _) => Check::note("manager", format!("{found}; draining"))
            .mend("it grants nothing new: start it again to serve"),
        (_, false) => Check::note("manager", found)
            .mend(format!("this vfun is {}: use the manager's version", env!("CARGO_PKG_VERSION"))),
        _ => Check::ok("manager", found),
    }
}

fn service(s: &Status) -> Check {
    let shown = s.service_program.display().to_string();
    match fs::metadata(&s.service_program) {
        Ok(m) if m.is_file() && m.permissions().mode() & 0o111 != 0 => Check::ok("service", shown),
        Ok(_) => Check::missing("service", format!("{shown} is no program"))
            .mend("start vfund with --service-program"),
        Err(e) => Check::missing("service", format!("{shown}: {e}"))
            .mend("build it, or start vfund with --service-program"),
    }
}

fn gateway(s: &Status) -> Check {
    match &s.tcp {
        Some(at) => Check::ok("TCP", format!("gateway on {at}")),
        None => Check::ok("TCP", "off; `vfund --tcp ADDR:PORT` serves callers over the network"),
    }
}

/// Functions that take raw lines, which nothing but `vfun bench` calls.
pub fn floors(functions: &[FunctionRow]) -> Vec<String> {
    let others = ["submit", "bond", "mirror", "verbs"];
    let floor = |f: &&FunctionRow| f.driver == "built in" && !others.contains(&f.name.as_str());
    functions.iter().filter(floor).map(|f| f.name.clone()).collect()
}

fn functions(functions: &[FunctionRow]) -> Vec<Check> {
    if functions.is_empty() {
        return vec![
            Check::missing("functions", "none is offered")
                .mend("vfun function add FILE, or vfund --functions DIR"),
        ];
    }
    let gone =
        functions.iter().filter(|f| f.driver.starts_with('/') && !Path::new(&f.driver).is_file());
    gone.map(|f| {
        Check::missing("functions", format!("the driver of {} is not there: {}", f.name, f.driver))
            .mend("build it again, or vfun function remove")
    })
    .collect()
}

/// A VM's window whose file is not as it should be.
fn window(c: &ClientRow) -> Option<Check> {
    let file = c.window_file.as_ref()?;
    let name = format!("window {}", c.shown());
    match fs::metadata(file) {
        Err(e) => Some(
            Check::missing(&name, format!("{}: {e}", file.display()))
                .mend("somebody removed it: turn the VM off and start vfund again"),
        ),
        Ok(m) if m.len() != c.transport.row().origin + c.window_bytes => {
            let found = format!(
                "{} has {}, not {}",
                file.display(),
                out::bytes(m.len()),
                out::bytes(c.transport.row().origin + c.window_bytes)
            );
            Some(
                Check::missing(&name, found)
                    .mend("turn the VM off, remove the file and start vfund again"),
            )
        }
        Ok(_) => None,
    }
}
