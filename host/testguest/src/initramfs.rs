//! Makes a guest's initramfs: busybox, modules, init, and the test's own files.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crate::cpio::Cpio;
use crate::error::{Doing, GuestError};
use crate::{GuestConfig, Kernel, Result, elf, limits};

/// Folders where the loader looks by itself.
const LOADER_DIRS: [&str; 6] = [
    "/lib",
    "/usr/lib",
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
];

/// Users: two of the group that may use VirtFun's kernel module, one who may not.
const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/sh
app:x:1000:1000:a user of the group vfun:/tmp:/bin/sh
other:x:1001:1001:another one:/tmp:/bin/sh
stranger:x:1002:1002:in no group:/tmp:/bin/sh
";
const GROUP: &str = "\
root:x:0:
vfun:x:990:app,other
app:x:1000:
other:x:1001:
stranger:x:1002:
";

/// Where VirtFun's kernel module lies in the guest.
const KERNEL_MODULE: &str = "/lib/vfun.ko";

/// What init is to do when it is up.
pub(crate) enum Role {
    /// Serve the command channel.
    Commands,
    /// Be a shell on the console, on a terminal of so many rows and columns.
    Shell(Option<(u16, u16)>),
}

/// Writes the initramfs of `config` to `path`.
pub(crate) fn write(config: &GuestConfig, kernel: &Kernel, role: &Role, path: &Path) -> Result<()> {
    let file = File::create(path).doing(|| format!("cannot create {}", path.display()))?;
    let mut image = Image {
        config,
        cpio: Cpio::new(BufWriter::new(file)),
        seen: BTreeSet::new(),
        bytes: 0,
        lib_dirs: Vec::new(),
    };
    image.fill(kernel, role)?;
    let (_, bytes) = image
        .cpio
        .finish()
        .doing(|| format!("cannot write {} (is the disk full?)", path.display()))?;
    // It lies in RAM twice while it is unpacked.
    let needed = ((2 * bytes) >> 20) + limits::KERNEL_MEMORY_MIB;
    if needed > u64::from(config.memory_mib) {
        return Err(GuestError::Config {
            guest: config.name.clone(),
            why: format!(
                "its files make {} MiB, which needs memory_mib of at least {needed}, not {}",
                bytes >> 20,
                config.memory_mib
            ),
        });
    }
    Ok(())
}

struct Image<'a> {
    config: &'a GuestConfig,
    cpio: Cpio<BufWriter<File>>,
    seen: BTreeSet<String>,
    bytes: u64,
    lib_dirs: Vec<String>,
}

impl Image<'_> {
    fn fill(&mut self, kernel: &Kernel, role: &Role) -> Result<()> {
        for dir in [
            "dev", "proc", "sys", "tmp", "run", "root", "var", "bin", "sbin", "usr/bin",
            "usr/sbin", "etc/vfun",
        ] {
            self.cpio.dir(dir).doing(|| "cannot write the initramfs".into())?;
        }
        // The test's own files first: they win over ours.
        for (host, guest) in &self.config.files {
            let guest = self.guest_path(guest)?;
            self.add(host, &guest)?;
        }
        self.add(&busybox()?, "/bin/busybox")?;
        self.text("/init", 0o755, include_str!("init.sh"))?;
        self.text("/etc/passwd", 0o644, PASSWD)?;
        self.text("/etc/group", 0o644, GROUP)?;
        if let Some(module) = &self.config.kernel_module {
            self.add(module, KERNEL_MODULE)?;
        }
        self.text(
            "/etc/hosts",
            0o644,
            &format!("127.0.0.1 localhost {}\n10.0.2.2 host\n", self.config.name),
        )?;
        self.text("/etc/hostname", 0o644, &format!("{}\n", self.config.name))?;
        self.text("/etc/motd", 0o644, MOTD)?;
        let insmod = self.modules(kernel)?;
        let settings = self.settings(role, &insmod);
        self.text("/etc/vfun/config", 0o644, &settings)
    }

    fn modules(&mut self, kernel: &Kernel) -> Result<Vec<String>> {
        let mut load = vec!["virtio_pci", "virtio_console"];
        if self.config.net {
            load.push("virtio_net");
        }
        if self.config.disk.is_some() {
            load.extend(["virtio_blk", "ext4"]);
        }
        // A system on a disk has udev, which loads them.
        if !self.config.pmems.is_empty() && self.config.disk.is_none() {
            load.extend(["virtio_pmem", "nd_pmem", "dax_pmem", "device_dax"]);
        }
        load.extend(self.config.modules.iter().map(String::as_str));
        let all = kernel.modules()?;
        let insmod = all.order(&load)?;
        let spare: Vec<&str> = self.config.spare_modules.iter().map(String::as_str).collect();
        let at = format!("/lib/modules/{}", kernel.version());
        let files: BTreeSet<String> = insmod.iter().cloned().chain(all.order(&spare)?).collect();
        for file in &files {
            self.add(&kernel.modules_dir().join(file), &format!("{at}/{file}"))?;
        }
        for index in
            ["modules.dep", "modules.alias", "modules.symbols", "modules.builtin", "modules.order"]
        {
            let path = kernel.modules_dir().join(index);
            // Only modprobe in the guest needs them, so only if there is a use.
            if path.is_file() && !spare.is_empty() {
                self.add(&path, &format!("{at}/{index}"))?;
            }
        }
        Ok(insmod)
    }

    fn settings(&self, role: &Role, insmod: &[String]) -> String {
        let mut text = format!(
            "insmod='{}'\nnet={}\nmax_out={}\nmax_err={}\n",
            insmod.join(" "),
            u8::from(self.config.net),
            limits::MAX_STDOUT_BYTES,
            limits::MAX_STDERR_BYTES
        );
        if self.config.kernel_module.is_some() {
            text += &format!("kernel_module={KERNEL_MODULE}\n");
        }
        if self.config.disk.is_some() {
            text += "disk=/dev/vda\n";
        }
        if !self.lib_dirs.is_empty() {
            text += &format!(
                "export LD_LIBRARY_PATH='{}'\n",
                self.lib_dirs.join(":").replace('\'', "'\\''")
            );
        }
        if let Role::Shell(size) = role {
            text += "shell=1\n";
            if let Some((rows, columns)) = size {
                text += &format!("rows={rows}\ncolumns={columns}\n");
            }
        }
        text
    }

    fn refuse<T>(&self, why: String) -> Result<T> {
        Err(GuestError::Config { guest: self.config.name.clone(), why })
    }

    /// Absolute, with no `..`, and a file's name at its end.
    fn guest_path(&self, path: &str) -> Result<String> {
        let good = Path::new(path)
            .components()
            .all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
        if !path.starts_with('/')
            || path.trim_matches('/').is_empty()
            || !good
            || path.contains('\0')
        {
            return self.refuse(format!("'{path}' is no absolute path in the guest"));
        }
        let parts: Vec<_> = path.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
        Ok(format!("/{}", parts.join("/")))
    }

    fn text(&mut self, path: &str, mode: u32, text: &str) -> Result<()> {
        if self.seen.insert(path.into()) {
            self.cpio
                .bytes(path, mode, text.as_bytes())
                .doing(|| "cannot write the initramfs".into())?;
        }
        Ok(())
    }

    /// A file with its libraries, or a folder with all that is in it. Symbolic
    /// links are followed; what is there already stays.
    fn add(&mut self, host: &Path, guest: &str) -> Result<()> {
        let shown = host.display();
        let meta = fs::metadata(host)
            .doing(|| format!("cannot take {shown} into guest '{}'", self.config.name))?;
        if self.seen.len() >= limits::MAX_FILES {
            return self
                .refuse(format!("more than {} files: name smaller folders", limits::MAX_FILES));
        }
        if meta.is_dir() {
            self.seen.insert(guest.into());
            self.cpio.dir(guest).doing(|| "cannot write the initramfs".into())?;
            let list = fs::read_dir(host).doing(|| format!("cannot list {shown}"))?;
            let mut names: Vec<_> = list.filter_map(|e| e.ok().map(|e| e.file_name())).collect();
            names.sort();
            for name in names {
                let Some(text) = name.to_str() else { continue };
                self.add(&host.join(&name), &format!("{guest}/{text}"))?;
            }
            return Ok(());
        }
        if !meta.is_file() {
            return self.refuse(format!("{shown} is neither a file nor a folder"));
        }
        if !self.seen.insert(guest.into()) {
            return Ok(());
        }
        self.bytes += meta.len();
        if self.bytes > limits::MAX_FILE_BYTES {
            return self
                .refuse(format!("its files are more than {} MiB", limits::MAX_FILE_BYTES >> 20));
        }
        let file = File::open(host).doing(|| format!("cannot read {shown}"))?;
        let dynamic = elf::kind(&file) == elf::Kind::Dynamic;
        let mode = meta.permissions().mode() | 0o444;
        self.cpio
            .file(guest, mode, meta.len(), file)
            .doing(|| format!("cannot copy {shown} into the initramfs"))?;
        if dynamic {
            for library in elf::libraries(host)? {
                self.add_needed(host, library)?;
            }
        }
        Ok(())
    }

    /// What a program needs, unless the test brings a file of that name: then the
    /// program is to find that one, by a path that the test knows.
    fn add_needed(&mut self, program: &Path, library: elf::Needed) -> Result<()> {
        let name = Some(library.name.as_ref());
        if self.config.files.iter().any(|(_, guest)| Path::new(guest).file_name() == name) {
            return Ok(());
        }
        match library.place {
            Some(place) => self.add_library(&place),
            None => {
                Err(GuestError::MissingLibrary { program: program.into(), library: library.name })
            }
        }
    }

    fn add_library(&mut self, host: &Path) -> Result<()> {
        let Some(guest) = host.to_str().map(str::to_owned) else {
            return Ok(());
        };
        let guest = self.guest_path(&guest).or_else(|_| {
            // With `..` in it, as a run path may have; the loader gets the plain one.
            let plain =
                fs::canonicalize(host).doing(|| format!("cannot find {}", host.display()))?;
            self.guest_path(&plain.to_string_lossy())
        })?;
        let dir = guest.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned();
        if !LOADER_DIRS.contains(&dir.as_str()) && !self.lib_dirs.contains(&dir) {
            self.lib_dirs.push(dir);
        }
        // What a library needs is in the list of the program that needs it.
        if self.seen.contains(&guest) { Ok(()) } else { self.add(host, &guest) }
    }
}

/// The host's busybox, which must need no libraries.
fn busybox() -> Result<PathBuf> {
    let places = ["/bin/busybox", "/usr/bin/busybox", "/sbin/busybox"];
    let fits = |p: &&str| File::open(p).is_ok_and(|f| elf::kind(&f) == elf::Kind::Static);
    places.iter().find(|p| fits(p)).map(PathBuf::from).ok_or_else(|| GuestError::MissingProgram {
        program: "a static busybox".into(),
        package: "busybox-static".into(),
    })
}

const MOTD: &str = "\nA VirtFun test guest. Leave with 'poweroff', or with Ctrl-A and then X.\n\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn image(config: &GuestConfig) -> (tempfile::TempDir, Image<'_>) {
        let dir = tempfile::tempdir().unwrap();
        let out = File::create(dir.path().join("i")).unwrap();
        let cpio = Cpio::new(BufWriter::new(out));
        (dir, Image { config, cpio, seen: BTreeSet::new(), bytes: 0, lib_dirs: Vec::new() })
    }

    #[test]
    fn guest_paths_are_plain() {
        let config = GuestConfig::default();
        let (_dir, image) = image(&config);
        assert_eq!(image.guest_path("/a//b/./c").unwrap(), "/a/b/c");
        for bad in ["a", "", "/", "/a/../b", "//"] {
            assert!(image.guest_path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn programs_bring_their_libraries() {
        let config = GuestConfig::default();
        let (_dir, mut image) = image(&config);
        image.add(&std::env::current_exe().unwrap(), "/bin/me").unwrap();
        assert!(image.seen.contains("/bin/me"));
        assert!(image.seen.iter().any(|p| p.contains("libc.so")), "{:?}", image.seen);
        assert!(image.seen.iter().any(|p| p.contains("/ld-linux")), "{:?}", image.seen);
    }

    #[test]
    fn a_library_that_the_test_brings_is_not_the_hosts() {
        let taken = |files| {
            let config = GuestConfig { files, ..GuestConfig::default() };
            let (_dir, mut image) = image(&config);
            image.add(&std::env::current_exe().unwrap(), "/bin/me").unwrap();
            image.seen.iter().find(|p| p.contains("/libc.so")).cloned()
        };
        let library = taken(vec![]).expect("it needs that one");
        let own = format!("/own/{}", library.rsplit('/').next().unwrap());
        assert_eq!(taken(vec![("/dev/null".into(), own)]), None);
    }
}
