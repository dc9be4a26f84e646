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
    let mut line = Line::default();
    if let Some(cpus) = &config.pin {
        line.add(&["taskset", "-c", cpus]);
    }
    // If even the keeper is killed, the kernel ends QEMU.
    if find("setpriv").is_some() && matches!(wiring, Wiring::Harness) {
        line.add(&["setpriv", "--pdeathsig", "KILL", "--"]);
    }
    line.0.push(qemu.into());
    line.machine(config, kernel, accel, folder);
    line.console(folder, wiring)?;
    line.network_and_disk(config)?;
    line.hotplug_ports(config);
    line.windows(config)?;
    line.doorbells(config)?;
    line.pmems(config)?;
    line.0.extend(config.extra_args.iter().map(OsString::from));
    Ok(line.0)
}

/// A path that is there, within one of QEMU's options.
fn there(path: &Path) -> Result<String> {
    let found = std::fs::canonicalize(path).doing(|| format!("cannot find {}", path.display()))?;
    quoted(&found)
}

/// A command line, as it grows.
#[derive(Default)]
struct Line(Vec<OsString>);

impl Line {
    fn add(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn machine(&mut self, config: &GuestConfig, kernel: &Kernel, accel: Accel, folder: &Path) {
        self.add(&["-name", &format!("vfun-{}", config.name)]);
        let backed =
            config.shared_memory.as_ref().map(|_| ",memory-backend=ram").unwrap_or_default();
        self.add(&[
            "-M",
            &format!("q35{backed}"),
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
        ]);
        match accel {
            Accel::Kvm => self.add(&["-accel", "kvm", "-cpu", "host"]),
            Accel::Tcg | Accel::Auto => self.add(&["-accel", "tcg,thread=multi", "-cpu", "max"]),
        }
        self.add(&["-m", &memory(config), "-smp", &config.cpus.to_string()]);
        if let Some(file) = &config.shared_memory {
            let (path, bytes) = (file.display(), u64::from(config.memory_mib) << 20);
            let backend =
                format!("memory-backend-file,id=ram,share=on,mem-path={path},size={bytes}");
            self.add(&["-object", &backend]);
        }
        let image = kernel.image();
        self.add(&["-kernel", image.to_str().unwrap_or_default(), "-initrd"]);
        self.add(&[folder.join("initramfs").to_str().unwrap_or_default()]);
        self.add(&["-append", format!("{KERNEL_ARGS} {}", config.kernel_args).trim_end()]);
    }

    /// Where the console goes, and for the harness QEMU's control socket and the way
    /// that commands take into the guest.
    fn console(&mut self, folder: &Path, wiring: &Wiring) -> Result<()> {
        if matches!(wiring, Wiring::Terminal) {
            self.add(&["-serial", "mon:stdio"]);
            return Ok(());
        }
        let socket = |id: &str, name: &str| {
            quoted(&folder.join(name))
                .map(|p| format!("socket,id={id},path={p},server=on,wait=off"))
        };
        self.add(&["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
        self.add(&["-chardev", &socket("qmp", "qmp")?, "-mon", "chardev=qmp,mode=control"]);
        self.add(&["-chardev", &socket("commands", "commands")?]);
        self.add(&["-device", "virtio-serial-pci,addr=0x02"]);
        self.add(&["-device", "virtserialport,chardev=commands,name=vfun.commands"]);
        Ok(())
    }

    fn network_and_disk(&mut self, config: &GuestConfig) -> Result<()> {
        if config.net {
            self.add(&["-netdev", "user,id=net0,ipv6=off"]);
            self.add(&["-device", "virtio-net-pci,netdev=net0,romfile=,addr=0x03"]);
        }
        if let Some(disk) = &config.disk {
            let image = there(&disk.image)?;
            // What is written goes to a file that has no name, and is gone with QEMU.
            let drive = format!("if=none,id=disk,format=raw,snapshot=on,cache=unsafe,file={image}");
            self.add(&["-drive", &drive, "-device", "virtio-blk-pci,drive=disk,addr=0x04"]);
        }
        Ok(())
    }

    fn hotplug_ports(&mut self, config: &GuestConfig) {
        for i in 0..config.hotplug_ports {
            let (slot, chassis) = (FIRST_HOTPLUG_SLOT + i, i + 1);
            // Room for the largest window in each, and its own slot number.
            let port = format!(
                "pcie-root-port,id=hp{i},chassis={chassis},slot={i},addr={slot:#x},pref64-reserve=2G"
            );
            self.add(&["-device", &port]);
        }
    }

    fn windows(&mut self, config: &GuestConfig) -> Result<()> {
        for (i, window) in config.windows.iter().enumerate() {
            let slot = FIRST_WINDOW_SLOT + i as u32;
            self.file(&format!("window{i}"), &window.path, window.size)?;
            let device = format!("ivshmem-plain,id=ivshmem{i},memdev=window{i},addr={slot:#x}");
            self.add(&["-device", &device]);
        }
        Ok(())
    }

    fn doorbells(&mut self, config: &GuestConfig) -> Result<()> {
        for (i, doorbell) in config.doorbells.iter().enumerate() {
            let (socket, vectors) = (there(&doorbell.socket)?, doorbell.vectors);
            self.add(&["-chardev", &format!("socket,id=doorbell{i},path={socket}")]);
            let slot = FIRST_DOORBELL_SLOT + i as u32;
            let device = format!(
                "ivshmem-doorbell,id=ivshmem-doorbell{i},chardev=doorbell{i},vectors={vectors},addr={slot:#x}"
            );
            self.add(&["-device", &device]);
        }
        Ok(())
    }

    fn pmems(&mut self, config: &GuestConfig) -> Result<()> {
        for (i, memory) in config.pmems.iter().enumerate() {
            let slot = FIRST_PMEM_SLOT + i as u32;
            self.file(&format!("pmem{i}"), &memory.path, memory.size)?;
            let device = format!("virtio-pmem-pci,id=pmem-device{i},memdev=pmem{i},addr={slot:#x}");
            self.add(&["-device", &device]);
        }
        Ok(())
    }

    /// Memory that is a file of the host, shared with it.
    fn file(&mut self, id: &str, path: &Path, bytes: u64) -> Result<()> {
        let path = there(path)?;
        let object = format!("memory-backend-file,id={id},size={bytes},mem-path={path},share=on");
        self.add(&["-object", &object]);
        Ok(())
    }
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
