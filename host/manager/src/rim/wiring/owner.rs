//! Which manager a plain window belongs to.
//!
//! Windows' files of all managers of a host may be in one folder, which is
//! `/dev/shm` unless said otherwise. Beside each file lies another one that says
//! whose it is: it holds the root of that manager, which keeps it locked, and the
//! keeper with it, so that the lock outlives a manager that is killed. Services
//! never get its descriptor.

use crate::limits::OWNER_LETS_GO;
use crate::rim::Daemon;
use crate::tree::one_name;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vfun_admin::VmName;

/// Longest path that is read from such a file.
const ROOT_BYTES: u64 = 4096;

/// The lock of one window. Let go of when it is dropped and no keeper has it.
pub(in crate::rim) struct Owned {
    file: File,
}

impl Owned {
    /// One that an earlier manager of this root held.
    pub fn kept(fd: OwnedFd) -> Self {
        Owned { file: fd.into() }
    }

    /// Takes a window for the manager of `root`, or says whose it is.
    fn take(path: &Path, whose: &Whose<'_>, root: &Path) -> Result<Self, String> {
        let root = &one_name(root);
        let at = |e: io::Error| format!("the lock {} of a window: {e}", path.display());
        let until = Instant::now() + OWNER_LETS_GO;
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd =
                rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(|e| at(e.into()))?;
            let mut file = File::from(fd);
            let found = file.metadata().map_err(at)?;
            if found.uid() != rustix::process::getuid().as_raw() || found.nlink() > 1 {
                return Err(format!(
                    "the lock {} belongs to another user: remove it",
                    path.display()
                ));
            }
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let owner = root_in(&mut file).map_err(at)?;
                    // Its own keeper is about to let go of it.
                    if (owner.as_os_str().is_empty() || owner == *root) && Instant::now() < until {
                        std::thread::sleep(Duration::from_millis(1));
                        continue;
                    }
                    return Err(whose.taken(&owner, "serves it now"));
                }
                Err(e) => return Err(at(e.into())),
            }
            let there = std::fs::symlink_metadata(path).map(|m| (m.dev(), m.ino()));
            if there.ok() != Some((found.dev(), found.ino())) {
                continue; // its owner removed it meanwhile
            }
            let owner = root_in(&mut file).map_err(at)?;
            if owner == *root {
                return Ok(Owned { file });
            }
            if whose.is_declared(&owner) {
                return Err(whose.taken(&owner, "is not running"));
            }
            return Self::replace(path, root).map_err(at);
        }
    }

    /// Puts another file in the place of one that the caller has locked: whoever reads
    /// it finds one root or the other, whole, also where this manager ends half way.
    fn replace(path: &Path, root: &Path) -> io::Result<Self> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        // That of a manager that ended half way: only who has the lock makes one.
        let _ = std::fs::remove_file(&new);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::open(&new, flags, Mode::RUSR | Mode::WUSR)?);
        // Before anybody can come upon it.
        let placed = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(io::Error::from)
            .and_then(|()| file.write_all(root.as_os_str().as_bytes()))
            .and_then(|()| std::fs::rename(&new, path));
        if placed.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        placed.map(|()| Owned { file })
    }
}

impl AsFd for Owned {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The root that it names, by its one name; empty where its owner is about to name it.
fn root_in(file: &mut File) -> io::Result<PathBuf> {
    let mut bytes = vec![];
    file.rewind()?;
    file.take(ROOT_BYTES).read_to_end(&mut bytes)?;
    Ok(one_name(Path::new(std::ffi::OsStr::from_bytes(&bytes))))
}

/// Whose a file is.
pub(in crate::rim) enum Whose<'a> {
    /// A VM's: its control window.
    Vm(&'a VmName),
    /// A further window's, by its name.
    Further(&'a str),
}

impl Whose<'_> {
    /// The part of the lock's name that is its own.
    fn file_name(&self) -> String {
        match self {
            Whose::Vm(vm) => vm.file_name(),
            // No VM is called so.
            Whose::Further(name) => format!("@{name}"),
        }
    }

    /// Whether a manager's root declares it: a VM may have the window mapped, whether or
    /// not that manager runs.
    fn is_declared(&self, root: &Path) -> bool {
        if root.as_os_str().is_empty() {
            return false;
        }
        let vm = match self {
            Whose::Vm(vm) => vm,
            Whose::Further(name) => {
                return crate::tree::window_manifest(root, name).try_exists().unwrap_or(true);
            }
        };
        let file = crate::tree::client_manifest(root, &vm.client);
        match std::fs::read_to_string(&file) {
            Err(e) => e.kind() != io::ErrorKind::NotFound,
            // One that cannot be read may mean it.
            Ok(text) => {
                crate::manifest::client(&file, &text, 0).map_or(true, |c| c.vm(&vm.vm).is_some())
            }
        }
    }

    fn taken(&self, owner: &Path, how: &str) -> String {
        let owner = owner.display();
        let (what, remove) = match self {
            Whose::Vm(vm) if vm.is_main() => {
                (format!("client '{vm}'"), format!("client remove {vm}"))
            }
            Whose::Vm(vm) => {
                (format!("VM '{vm}'"), format!("client remove {} --vm {}", vm.client, vm.vm))
            }
            Whose::Further(name) => {
                (format!("further window '{name}'"), format!("window remove {name}"))
            }
        };
        let (kind, _) = what.split_once(" '").unwrap_or_default();
        format!(
            "another manager has a window for a {what} in this folder: that of {owner}, which {how}. Give the {kind} another name, start vfund with another --window-dir, or remove the {kind} there: `vfun {remove} --root {owner}`"
        )
    }
}

impl Daemon {
    fn owner_file(&self, whose: &Whose<'_>) -> PathBuf {
        // No window's name begins with a dot.
        self.config.window_dir.join(format!(".virtfun-{}.owner", whose.file_name()))
    }

    /// Makes sure that a VM's window in a file is this manager's.
    pub(in crate::rim) fn own_window(&mut self, vm: &VmName) -> Result<(), String> {
        self.own_file(&Whose::Vm(vm))
    }

    /// Makes sure that a file is this manager's.
    pub(in crate::rim) fn own_file(&mut self, whose: &Whose<'_>) -> Result<(), String> {
        let name = whose.file_name();
        if self.owned.contains_key(&name) {
            return Ok(());
        }
        let owned = Owned::take(&self.owner_file(whose), whose, &self.config.root)?;
        self.owned.insert(name.clone(), owned);
        self.hold_owned(&name);
        Ok(())
    }

    /// Removes a window's file, if it is this manager's. Whether it is.
    pub(in crate::rim) fn remove_window_file(&mut self, whose: &Whose<'_>, file: &Path) -> bool {
        let name = whose.file_name();
        let own = self.owned.contains_key(&name);
        if own {
            let _ = std::fs::remove_file(file);
            let _ = std::fs::remove_file(self.owner_file(whose));
            self.let_owned_go(&name);
            self.owned.remove(&name);
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(dir: &Path, root: &str) -> Result<Owned, String> {
        Owned::take(
            &dir.join(".virtfun-vm1.owner"),
            &Whose::Vm(&VmName::new("vm1", "vm1")),
            &dir.join(root),
        )
    }

    #[test]
    fn a_window_is_one_managers_at_a_time_and_the_other_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let first = take(dir, "a").unwrap();
        let why = take(dir, "b").err().unwrap();
        assert!(why.contains(&dir.join("a").display().to_string()), "{why}");
        assert!(why.contains("--window-dir"), "{why}");
        // A keeper that has a copy keeps it locked.
        let copy = Owned::kept(first.file.try_clone().unwrap().into());
        drop(first);
        assert!(take(dir, "b").is_err());
        drop(copy);
        take(dir, "b").unwrap();
    }

    #[test]
    fn a_root_is_the_same_one_by_whatever_name() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let manifest = crate::tree::client_manifest(&dir.join("a"), "vm1");
        std::fs::create_dir_all(manifest.parent().unwrap()).unwrap();
        std::fs::write(&manifest, "").unwrap();
        std::os::unix::fs::symlink("a", dir.join("link")).unwrap();
        for names in [["link", "a"], ["a", "link"], ["a/", "a/admin/.."], ["link/.", "a"]] {
            for name in names {
                if let Err(why) = take(dir, name) {
                    panic!("{name} of {names:?}: {why}");
                }
            }
            std::fs::remove_file(dir.join(".virtfun-vm1.owner")).unwrap();
        }
        // What was written before roots had one name.
        std::fs::write(dir.join(".virtfun-vm1.owner"), dir.join("link").as_os_str().as_bytes())
            .unwrap();
        take(dir, "a").unwrap();
    }

    #[test]
    fn who_reads_whose_it_is_finds_a_whole_name_at_any_time() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let path = dir.join(".virtfun-vm1.owner");
        drop(take(dir, "a-with-a-longer-name").unwrap());
        let mut reader = File::open(&path).unwrap();
        // Where the new name cannot be written, the old one stays.
        std::fs::create_dir_all(dir.join(".virtfun-vm1.owner.new/in-the-way")).unwrap();
        assert!(take(dir, "b").is_err());
        assert_eq!(
            std::fs::read(&path).unwrap(),
            dir.join("a-with-a-longer-name").as_os_str().as_bytes()
        );
        std::fs::remove_dir_all(dir.join(".virtfun-vm1.owner.new")).unwrap();
        // What a manager left that ended half way is in nobody's way.
        std::fs::write(dir.join(".virtfun-vm1.owner.new"), "half").unwrap();
        let b = take(dir, "b").unwrap();
        assert_eq!(root_in(&mut reader).unwrap(), dir.join("a-with-a-longer-name"));
        assert_eq!(std::fs::read(&path).unwrap(), dir.join("b").as_os_str().as_bytes());
        assert!(!dir.join(".virtfun-vm1.owner.new").exists());
        // The lock went with it.
        assert!(take(dir, "c").err().unwrap().contains("serves it now"));
        drop(b);
        take(dir, "c").unwrap();
    }

    #[test]
    fn a_window_stays_its_clients_while_its_manager_does_not_run() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let manifest = crate::tree::client_manifest(&dir.join("a"), "vm1");
        std::fs::create_dir_all(manifest.parent().unwrap()).unwrap();
        std::fs::write(&manifest, "").unwrap();
        drop(take(dir, "a").unwrap());
        let why = take(dir, "b").err().unwrap();
        assert!(why.contains("is not running"), "{why}");
        drop(take(dir, "a").unwrap());
        std::fs::remove_file(&manifest).unwrap();
        take(dir, "b").unwrap();
    }
}
