//! What a guest is to be, and whether it can be.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Doing, GuestError};
use crate::{Accel, Result, limits};

/// A file of the host that the guest sees as the memory of an `ivshmem-plain`
/// device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The file; it must exist. Put it on a tmpfs for speed.
    pub path: PathBuf,
    /// Its size in bytes: exactly the file's, and a power of two.
    pub size: u64,
}

/// A server of `ivshmem-doorbell` devices that the guest connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doorbell {
    /// Its UNIX socket; it must be listening.
    pub socket: PathBuf,
    /// Interrupt vectors of the device: as many as the server has bells.
    pub vectors: u32,
}

impl Doorbell {
    /// With the vectors that a VirtFun window has.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Doorbell { socket: socket.into(), vectors: limits::DOORBELL_VECTORS }
    }
}

/// A disk to boot from: a system of its own, with its own kernel.
///
/// The initramfs then only mounts the disk and becomes it. Commands run in that
/// system, by its own shell; busybox's programs are at the end of the `PATH`.
/// What the guest writes is gone with it: the image stays as it is, and several
/// guests may have it at once. As in a guest without a disk, an executable
/// `/etc/vfun-start` is run, and its end waited for, before the guest is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The image: an ext4 file system, without partitions.
    pub image: PathBuf,
    /// The folder with its kernel, as [`Kernel::at`](crate::Kernel::at) takes it.
    pub kernel: PathBuf,
}

/// What a guest is made of. `GuestConfig::new("name")` is a complete one.
#[derive(Clone, Debug)]
pub struct GuestConfig {
    /// For messages and the folder's name: 1 to 32 of `a-z A-Z 0-9 -`.
    pub name: String,
    /// RAM in MiB.
    pub memory_mib: u32,
    /// The file that is all of its RAM, which the host can map, too; QEMU makes it.
    pub shared_memory: Option<PathBuf>,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Shared memory; window `i` is the PCI device [`Guest::window_bdf`](crate::Guest::window_bdf)`(i)`.
    pub windows: Vec<Window>,
    /// Shared memory with doorbells; number `i` is the PCI device
    /// [`Guest::doorbell_bdf`](crate::Guest::doorbell_bdf)`(i)`.
    pub doorbells: Vec<Doorbell>,
    /// Files of the host that the guest sees as persistent memory (virtio-pmem); their
    /// sizes are multiples of 2 MiB.
    pub pmems: Vec<Window>,
    /// Files or folders of the host and where they go in the guest (an absolute
    /// path). The libraries that programs link to go along by themselves, but for those
    /// of which there is a file of the same name here. An executable
    /// `/etc/vfun-start` is run, and its end waited for, before the guest is up.
    pub files: Vec<(PathBuf, String)>,
    /// A disk to boot from. Neither `files` nor `kernel_module` can be had with
    /// it: what the guest needs is on its disk.
    pub disk: Option<Disk>,
    /// Kernel modules to load at boot, by name, with those they depend on.
    pub modules: Vec<String>,
    /// Kernel modules to take along without loading them.
    pub spare_modules: Vec<String>,
    /// VirtFun's kernel module for this kernel (packaging/kmod.sh builds it), to
    /// be loaded at boot, its devices for the users of the group vfun: `app` and
    /// `other`. The user `stranger` is in no group.
    pub kernel_module: Option<PathBuf>,
    /// A virtio network card `eth0`, 10.0.2.15/24, behind which the host's
    /// loopback is 10.0.2.2.
    pub net: bool,
    /// How the CPU is run.
    pub accel: Accel,
    /// Time to user space; none means [`limits::BOOT_TIMEOUT_KVM`] or
    /// [`limits::BOOT_TIMEOUT_TCG`].
    pub boot_timeout: Option<Duration>,
    /// The host CPUs that all of QEMU runs on, as `taskset -c` takes them.
    pub pin: Option<String>,
    /// More kernel parameters, such as `intel_iommu=on`.
    pub kernel_args: String,
    /// More arguments for QEMU, as they are.
    pub extra_args: Vec<String>,
    /// Empty PCIe ports for devices that come later; port `i` is the bus
    /// [`Guest::hotplug_bus`](crate::Guest::hotplug_bus)`(i)`.
    pub hotplug_ports: u32,
    /// The keeper ends the guest when it is older than this.
    pub max_life: Duration,
}

impl Default for GuestConfig {
    fn default() -> Self {
        GuestConfig {
            name: "guest".into(),
            memory_mib: 256,
            shared_memory: None,
            cpus: 1,
            windows: Vec::new(),
            doorbells: Vec::new(),
            pmems: Vec::new(),
            files: Vec::new(),
            disk: None,
            modules: Vec::new(),
            spare_modules: Vec::new(),
            kernel_module: None,
            net: false,
            accel: Accel::Auto,
            boot_timeout: None,
            pin: None,
            kernel_args: String::new(),
            extra_args: Vec::new(),
            hotplug_ports: 0,
            max_life: limits::MAX_LIFE,
        }
    }
}

impl GuestConfig {
    /// A guest of 256 MiB and one CPU with nothing but busybox.
    pub fn new(name: &str) -> Self {
        GuestConfig { name: name.into(), ..Self::default() }
    }

    fn refuse<T>(&self, why: String) -> Result<T> {
        Err(GuestError::Config { guest: self.name.clone(), why })
    }

    /// Refuses what cannot work before anything is started.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_name()?;
        self.check_machine()?;
        self.check_words()?;
        self.check_counts()?;
        if let Some(disk) = &self.disk {
            self.check_disk(disk)?;
        }
        self.pmems.iter().try_for_each(|w| self.check_pmem(w))?;
        self.windows.iter().try_for_each(|w| self.check_window(w))?;
        self.doorbells.iter().try_for_each(|d| self.check_doorbell(d))
    }

    fn check_name(&self) -> Result<()> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let most = limits::MAX_NAME_BYTES;
        if !(1..=most).contains(&self.name.len()) || !self.name.chars().all(fits) {
            return self.refuse(format!(
                "a name is 1 to {most} letters, digits or '-', because it is part of a path"
            ));
        }
        Ok(())
    }

    fn check_machine(&self) -> Result<()> {
        let (least, most) = (limits::MIN_MEMORY_MIB, limits::MAX_MEMORY_MIB);
        if !(least..=most).contains(&self.memory_mib) {
            let is = self.memory_mib;
            return self.refuse(format!("memory_mib is {is}, but must be {least} to {most}"));
        }
        let most = limits::MAX_CPUS;
        if !(1..=most).contains(&self.cpus) {
            return self.refuse(format!("cpus is {}, but must be 1 to {most}", self.cpus));
        }
        let (ports, most) = (self.hotplug_ports, limits::MAX_HOTPLUG_PORTS);
        if ports > most {
            return self.refuse(format!("hotplug_ports is {ports}, but must be at most {most}"));
        }
        if self.max_life < Duration::from_secs(1) {
            return self.refuse("max_life is under a second".into());
        }
        Ok(())
    }

    /// What becomes words of a command line, and names of files.
    fn check_words(&self) -> Result<()> {
        let cpu_list =
            |s: &str| !s.is_empty() && s.chars().all(|c| c.is_ascii_digit() || ",-:".contains(c));
        if self.pin.as_deref().is_some_and(|p| !cpu_list(p)) {
            return self.refuse("pin must be a list of CPUs such as '0' or '0,2-3'".into());
        }
        if self.kernel_args.contains(['\n', '\0'])
            || self.extra_args.iter().any(|a| a.contains('\0'))
        {
            return self
                .refuse("kernel_args and extra_args may hold no line feed and no NUL".into());
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let mut modules = self.modules.iter().chain(&self.spare_modules);
        if let Some(name) = modules.find(|n| n.is_empty() || !n.chars().all(fits)) {
            return self
                .refuse(format!("'{name}' is no module's name: give it without path and '.ko'"));
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<()> {
        for (count, what, most) in [
            (self.windows.len(), "windows", limits::MAX_WINDOWS),
            (self.doorbells.len(), "doorbell devices", limits::MAX_DOORBELLS),
            (self.pmems.len(), "persistent memories", limits::MAX_PMEMS),
        ] {
            if count > most {
                return self.refuse(format!("{count} {what} are more than {most}"));
            }
        }
        Ok(())
    }

    fn check_disk(&self, disk: &Disk) -> Result<()> {
        if !disk.image.is_file() {
            return self
                .refuse(format!("the disk {} is not there, or not a file", disk.image.display()));
        }
        let more = !self.files.is_empty() || !self.spare_modules.is_empty();
        if more || self.kernel_module.is_some() {
            return self.refuse(
                "files, spare_modules and kernel_module are not for a guest with a disk: \
                 put what it needs on the disk"
                    .into(),
            );
        }
        Ok(())
    }

    fn check_doorbell(&self, doorbell: &Doorbell) -> Result<()> {
        let path = doorbell.socket.display();
        let meta = fs::metadata(&doorbell.socket).doing(|| {
            format!(
                "cannot use the ivshmem socket {path} for guest '{}' (start its server first)",
                self.name
            )
        })?;
        if !meta.file_type().is_socket() {
            return self.refuse(format!("{path} is not a socket"));
        }
        if !(1..=limits::MAX_VECTORS).contains(&doorbell.vectors) {
            return self.refuse(format!(
                "the doorbell device of {path} has {} vectors, but must have 1 to {}",
                doorbell.vectors,
                limits::MAX_VECTORS
            ));
        }
        Ok(())
    }

    fn check_pmem(&self, memory: &Window) -> Result<()> {
        if memory.size == 0 || !memory.size.is_multiple_of(limits::PMEM_UNIT_BYTES) {
            return self.refuse(format!(
                "the persistent memory {} has {} bytes; it is a multiple of {}",
                memory.path.display(),
                memory.size,
                limits::PMEM_UNIT_BYTES
            ));
        }
        self.check_file(memory)
    }

    fn check_window(&self, window: &Window) -> Result<()> {
        let path = window.path.display();
        let range = limits::MIN_WINDOW_BYTES..=limits::MAX_WINDOW_BYTES;
        if !range.contains(&window.size) || !window.size.is_power_of_two() {
            return self.refuse(format!(
                "the window {path} has {} bytes; a PCI BAR is a power of two, here from {} to {} bytes",
                window.size, limits::MIN_WINDOW_BYTES, limits::MAX_WINDOW_BYTES
            ));
        }
        self.check_file(window)
    }

    fn check_file(&self, window: &Window) -> Result<()> {
        let path = window.path.display();
        let meta = fs::metadata(&window.path).doing(|| {
            format!("cannot use the window file {path} for guest '{}' (create it first, with its full size)", self.name)
        })?;
        if !meta.is_file() {
            return self.refuse(format!("the window {path} is not a regular file"));
        }
        if meta.len() != window.size {
            return self.refuse(format!(
                "the window file {path} has {} bytes, but the configuration says {}: make them the same",
                meta.len(), window.size
            ));
        }
        Ok(())
    }

    /// Refuses a guest that this machine has no memory for now.
    pub(crate) fn check_host_memory(&self) -> Result<()> {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let Some(free) = mem_available_mib(&text) else {
            return Ok(());
        };
        let needed = u64::from(self.memory_mib) + limits::HOST_RESERVE_MIB;
        if free < needed {
            return self.refuse(format!(
                "this machine has {free} MiB of memory left and the guest needs {needed}: \
                 lower memory_mib, or end other guests first"
            ));
        }
        Ok(())
    }
}

fn mem_available_mib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(config: &GuestConfig) -> String {
        config.check().expect_err("must be refused").to_string()
    }

    #[test]
    fn the_default_is_good() {
        GuestConfig::new("ok").check().unwrap();
    }

    #[test]
    fn limits_are_named() {
        assert!(why(&GuestConfig::new("no/slash")).contains("letters, digits"));
        assert!(
            why(&GuestConfig { memory_mib: 1, ..Default::default() }).contains("memory_mib is 1")
        );
        assert!(why(&GuestConfig { cpus: 0, ..Default::default() }).contains("cpus is 0"));
        assert!(
            why(&GuestConfig { hotplug_ports: 99, ..Default::default() }).contains("at most 8")
        );
        assert!(
            why(&GuestConfig { pin: Some("0;x".into()), ..Default::default() })
                .contains("list of CPUs")
        );
        assert!(
            why(&GuestConfig { modules: vec!["a/b".into()], ..Default::default() })
                .contains("module's name")
        );
    }

    #[test]
    fn windows_are_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w");
        let with = |path: PathBuf, size| GuestConfig {
            windows: vec![Window { path, size }],
            ..Default::default()
        };
        assert!(why(&with(path.clone(), 4096)).contains("create it first"));
        fs::write(&path, vec![0; 8192]).unwrap();
        assert!(why(&with(path.clone(), 4096)).contains("make them the same"));
        assert!(why(&with(path.clone(), 6000)).contains("power of two"));
        assert!(why(&with(dir.path().into(), 4096)).contains("regular file"));
        with(path, 8192).check().unwrap();
    }

    #[test]
    fn a_disk_brings_all_that_its_guest_has() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("disk");
        let disk = Disk { image: image.clone(), kernel: dir.path().into() };
        let mut config = GuestConfig { disk: Some(disk), ..Default::default() };
        assert!(why(&config).contains("is not there"));
        fs::write(&image, "x").unwrap();
        config.check().unwrap();
        config.files.push((image, "/x".into()));
        assert!(why(&config).contains("on the disk"));
    }

    #[test]
    fn doorbells_are_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let with = |path: &std::path::Path, vectors| GuestConfig {
            doorbells: vec![Doorbell { socket: path.into(), vectors }],
            ..Default::default()
        };
        assert!(why(&with(&path, 8)).contains("start its server first"));
        assert!(why(&with(dir.path(), 8)).contains("not a socket"));
        let _server = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(why(&with(&path, 0)).contains("0 vectors"));
        with(&path, 8).check().unwrap();
    }

    #[test]
    fn meminfo_is_read() {
        assert_eq!(mem_available_mib("MemTotal: 1 kB\nMemAvailable:    2048 kB\n"), Some(2));
        assert_eq!(mem_available_mib("junk"), None);
    }
}
