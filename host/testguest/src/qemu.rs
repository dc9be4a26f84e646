//! QEMU's command line for a guest.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::{Doing, GuestError};
use crate::{Accel, GuestConfig, Kernel, Result, limits};

/// PCI slots on the root bus, so that a device's address is known beforehand.
pub(crate) const FIRST_HOTPLUG_SLOT: u32 = 0x08;
pub(crate) const FIRST_WINDOW_SLOT: u32 = 0x10;
pub(crate) const FIRST_DOORBELL_SLOT: u32 = 0x18;
pub(crate) const FIRST_PMEM_SLOT: u32 = 0x1c;

/// What the console and the channel are connected to.
pub(crate) enum Wiring {
    /// The console to stdout; QMP and commands to sockets in the folder.
    Harness,
    /// The console and QEMU's monitor to the terminal.
    Terminal,
}

/// Quiet, quick to start, and halted by a panic. Four spare an emulated CPU work
/// that a guest for tests has no use for. The last: on a busy host an emulated
/// timer comes too late for the kernel's test of it, which ends in a panic.
pub(crate) const KERNEL_ARGS: &str = "console=ttyS0 quiet panic=0 mitigations=off nokaslr \
     random.trust_cpu=on tsc=reliable no_timer_check";

fn find(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|d| d.join(program)).find(|p| p.is_file())
}

/// A path within one of QEMU's comma-separated options.
fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| GuestError::Io {
        doing: format!("cannot name {} to QEMU", path.display()),
        source: std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not UTF-8"),
    })?;
    Ok(text.replace(',', ",,"))
}

/// The whole command line, the program first.
pub(crate) fn command(
    config: &GuestConfig,
    kernel: &Kernel,
    accel: Accel,
    folder: &Path,
    wiring: &Wiring,
) -> Result<Vec<OsString>> {
    let qemu = find("qemu-system-x86_64").ok_or_else(|| GuestError::MissingProgram {
        program: "qemu-system-x86_64".into(),
        package: "qemu-system-x86".into(),
    })?;
    let mut line: Vec<OsString> = Vec::new();
    if let Some(cpus) = &config.pin {
        line.extend(["taskset", "-c", cpus].map(OsString::from));
    }
    // If even the keeper is killed, the kernel ends QEMU.
    if find("setpriv").is_some() && matches!(wiring, Wiring::Harness) {
        line.extend(["setpriv", "--pdeathsig", "KILL", "--"].map(OsString::from));
    }
    line.push(qemu.into());
    let mut add = |words: &[&str]| line.extend(words.iter().map(OsString::from));
    add(&["-name", &format!("vfun-{}", config.name)]);
    add(&["-M", "q35", "-nodefaults", "-no-user-config", "-display", "none"]);
    match accel {
        Accel::Kvm => add(&["-accel", "kvm", "-cpu", "host"]),
        Accel::Tcg | Accel::Auto => add(&["-accel", "tcg,thread=multi", "-cpu", "max"]),
    }
    add(&["-m", &memory(config), "-smp", &config.cpus.to_string()]);
    let image = kernel.image();
    add(&["-kernel", image.to_str().unwrap_or_default(), "-initrd"]);
    add(&[folder.join("initramfs").to_str().unwrap_or_default()]);
    add(&["-append", format!("{KERNEL_ARGS} {}", config.kernel_args).trim_end()]);
    match wiring {
        Wiring::Terminal => add(&["-serial", "mon:stdio"]),
        Wiring::Harness => {
            let socket = |name: &str| {
                quoted(&folder.join(name)).map(|p| format!("path={p},server=on,wait=off"))
            };
            add(&["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
            add(&[
                "-chardev",
                &format!("socket,id=qmp,{}", socket("qmp")?),
                "-mon",
                "chardev=qmp,mode=control",
            ]);
            add(&["-chardev", &format!("socket,id=commands,{}", socket("commands")?)]);
            add(&["-device", "virtio-serial-pci,addr=0x02"]);
            add(&["-device", "virtserialport,chardev=commands,name=vfun.commands"]);
        }
    }
    if config.net {
        add(&[
            "-netdev",
            "user,id=net0,ipv6=off",
            "-device",
            "virtio-net-pci,netdev=net0,romfile=,addr=0x03",
        ]);
    }
    if let Some(disk) = &config.disk {
        let image = std::fs::canonicalize(&disk.image)
            .doing(|| format!("cannot find {}", disk.image.display()))?;
        // What is written goes to a file that has no name, and is gone with QEMU.
        let drive =
            format!("if=none,id=disk,format=raw,snapshot=on,cache=unsafe,file={}", quoted(&image)?);
        add(&["-drive", &drive, "-device", "virtio-blk-pci,drive=disk,addr=0x04"]);
    }
    for i in 0..config.hotplug_ports {
        let slot = FIRST_HOTPLUG_SLOT + i;
        // Room for the largest window in each, and its own slot number.
        add(&[
            "-device",
            &format!(
                "pcie-root-port,id=hp{i},chassis={},slot={i},addr={slot:#x},pref64-reserve=2G",
                i + 1
            ),
        ]);
    }
    for (i, window) in config.windows.iter().enumerate() {
        let path = std::fs::canonicalize(&window.path)
            .doing(|| format!("cannot find {}", window.path.display()))?;
        let path = quoted(&path)?;
        add(&[
            "-object",
            &format!(
                "memory-backend-file,id=window{i},size={},mem-path={path},share=on",
                window.size
            ),
        ]);
        let slot = FIRST_WINDOW_SLOT + i as u32;
        add(&["-device", &format!("ivshmem-plain,id=ivshmem{i},memdev=window{i},addr={slot:#x}")]);
    }
    for (i, doorbell) in config.doorbells.iter().enumerate() {
        let path = std::fs::canonicalize(&doorbell.socket)
            .doing(|| format!("cannot find {}", doorbell.socket.display()))?;
        add(&["-chardev", &format!("socket,id=doorbell{i},path={}", quoted(&path)?)]);
        let slot = FIRST_DOORBELL_SLOT + i as u32;
        add(&[
            "-device",
            &format!(
                "ivshmem-doorbell,id=ivshmem-doorbell{i},chardev=doorbell{i},vectors={},addr={slot:#x}",
                doorbell.vectors
            ),
        ]);
    }
    for (i, memory) in config.pmems.iter().enumerate() {
        let path = std::fs::canonicalize(&memory.path)
            .doing(|| format!("cannot find {}", memory.path.display()))?;
        let (path, size) = (quoted(&path)?, memory.size);
        let object = format!("memory-backend-file,id=pmem{i},size={size},mem-path={path},share=on");
        add(&["-object", &object]);
        let slot = FIRST_PMEM_SLOT + i as u32;
        let device = format!("virtio-pmem-pci,id=pmem-device{i},memdev=pmem{i},addr={slot:#x}");
        add(&["-device", &device]);
    }
    line.extend(config.extra_args.iter().map(OsString::from));
    Ok(line)
}

/// The argument of `-m`: persistent memory has its place beyond the RAM.
fn memory(config: &GuestConfig) -> String {
    let ram = config.memory_mib;
    match config.pmems.is_empty() {
        true => ram.to_string(),
        false => {
            let slots = config.pmems.len();
            format!("{ram},slots={slots},maxmem={}M", ram + limits::PMEM_ROOM_MIB)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_paths_are_doubled() {
        assert_eq!(quoted(Path::new("/a,b/c")).unwrap(), "/a,,b/c");
    }
}
