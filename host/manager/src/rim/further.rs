//! Further windows: what operators declared of them, and their files. How they are laid
//! out and named is in `vfun_rim::further`.
//!
//! One that is declared and not there, because its VM is not declared, its file could
//! not be made or its pages went away, is tried again now and then.

use super::Daemon;
use super::wiring::file::{NotMade, OldFile, make};
use super::wiring::owner::Whose;
use crate::admin::Reply;
use crate::admin::window::{WindowPeer, WindowRow, device_id, is_made};
use crate::core::WindowId;
use crate::core::buffers::Buffer;
use crate::core::catalog::VmId;
use crate::limits::WINDOW_AGAIN;
use crate::manifest::window::{FurtherWindow, HUGE, further_window};
use crate::tree::window_manifest;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vfun_admin::VmName;
use vfun_links::relay::PlugWay;
use vfun_rim::further::{FurtherNote, HostFurther, PeerNote, free_index};
use vfun_rim::methods::*;
use vfun_wire::limits::WINDOWS_MAX;

/// Where the system says what is mounted where.
const MOUNTS: &str = "/proc/self/mounts";

/// What is declared.
#[derive(Default)]
pub(super) struct Declared {
    windows: BTreeMap<String, FurtherWindow>,
    /// Why some are not there, as it was said.
    troubles: BTreeMap<String, String>,
    /// When those are tried again.
    again: Option<Instant>,
}

impl Daemon {
    /// Reads what was declared. What is wrong with it, for people.
    pub(super) fn read_further(&mut self) -> Vec<String> {
        let (mut wrong, mut windows) = (vec![], BTreeMap::new());
        for file in super::catalogs::manifests(&self.tree.windows()) {
            match read(&file) {
                Ok(w) => drop(windows.insert(w.name.clone(), w)),
                Err(e) => wrong.push(e),
            }
        }
        self.further = Declared { windows, ..Declared::default() };
        wrong
    }

    /// Declares a window.
    pub(super) fn add_further(&mut self, text: &str, file: &Path) -> Reply {
        match self.declare_further(text, file) {
            Ok(row) => Reply::WindowAdded(row),
            Err(sentence) => Reply::Error { sentence },
        }
    }

    fn declare_further(&mut self, text: &str, file: &Path) -> Result<WindowRow, String> {
        let window = further_window(file, text).map_err(|e| e.to_string())?;
        let name = window.name.clone();
        let made = match self.further.windows.get(&name) {
            Some(old) if *old != window => {
                return Err(format!(
                    "window '{name}' exists with other VMs, size or pages: remove it first (`vfun detach` takes it out of its VM)"
                ));
            }
            Some(_) => false,
            // The file first: a window without one is not declared.
            None => {
                self.make_further(&window)?;
                true
            }
        };
        if let Err(e) = self.write_manifest(window_manifest(&self.config.root, &name), text) {
            // One that was declared before goes on as it was.
            if made {
                self.forget_further(&name);
            }
            return Err(e);
        }
        self.further.windows.insert(name.clone(), window);
        let row = self.further_rows().into_iter().find(|r| r.name == name);
        row.ok_or_else(|| "it is gone again".into())
    }

    /// Takes a window away, with the buffers in it.
    pub(super) fn remove_further(&mut self, name: &str) -> Reply {
        if is_made(name) && self.laid_out(name).is_some() {
            let sentence = format!(
                "the manager made window {name} for direct links, and takes it away some time after these: `vfun links off` ends a link"
            );
            return Reply::Error { sentence };
        }
        if !self.further.windows.contains_key(name) {
            let sentence = format!("there is no window '{name}': `vfun window list` shows them");
            return Reply::Error { sentence };
        }
        // First: a window whose manifest is there comes back at the next start.
        let manifest = window_manifest(&self.config.root, name);
        match fs::remove_file(&manifest) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                let sentence = format!(
                    "window {name} stays: its manifest {} could not be removed: {e}",
                    manifest.display()
                );
                return Reply::Error { sentence };
            }
            _ => {}
        }
        self.further.windows.remove(name);
        self.further.troubles.remove(name);
        self.forget_further(name);
        Reply::Done { sentence: format!("window {name} is gone, with the buffers in it") }
    }

    /// All that are declared, and those that were made for direct links.
    pub(super) fn further_rows(&self) -> Vec<WindowRow> {
        let lies = |at| {
            let there = |b: &Buffer| (b.holder.window, b.memory) == at && !b.lost;
            self.rim.core.buffers().filter(|(_, b)| there(b)).count()
        };
        let row = |w: &FurtherWindow| {
            let noted = self.laid_out(&w.name).map_or(&[][..], |(_, d)| d.note().peers.as_slice());
            let peer = |(at, vm): (usize, &VmName)| self.peer_row(&vm.to_string(), noted.get(at));
            WindowRow {
                name: w.name.clone(),
                role: if w.vms.len() == 1 { "data" } else { "link" }.into(),
                bytes: w.bytes,
                page: w.page,
                file: self.further_file(w).unwrap_or_default(),
                peers: w.vms.iter().enumerate().map(peer).collect(),
                buffers: noted.iter().filter_map(PeerNote::place).map(&lies).sum(),
                trouble: self.further.troubles.get(&w.name).cloned(),
            }
        };
        let declared = self.further.windows.values().map(row);
        declared.chain(self.made_windows().map(|(_, d)| self.made_row(d))).collect()
    }

    /// Those that the manager made for direct links.
    pub(super) fn made_windows(&self) -> impl Iterator<Item = (WindowId, &HostFurther)> {
        let made = |(_, d): &(&WindowId, &HostFurther)| is_made(&d.note().name);
        self.rim.further.iter().filter(made).map(|(id, d)| (*id, d))
    }

    fn made_row(&self, d: &HostFurther) -> WindowRow {
        let FurtherNote { name, bytes, page, peers, .. } = d.note();
        let peer = |p: &PeerNote| self.peer_row(&self.vm_words(p.client, &p.vm), Some(p));
        WindowRow {
            name: name.clone(),
            role: "link".into(),
            bytes: *bytes,
            page: *page,
            file: PathBuf::new(),
            peers: peers.iter().map(peer).collect(),
            buffers: 0,
            trouble: None,
        }
    }

    /// One of its VMs, and what that has of it.
    fn peer_row(&self, vm: &str, note: Option<&PeerNote>) -> WindowPeer {
        let named = note.and_then(PeerNote::place);
        let named = named.and_then(|(of, index)| self.rim.core.further(of, index));
        WindowPeer {
            vm: vm.to_owned(),
            index: note.map(|n| n.index),
            named: named.is_some(),
            here: named.is_some_and(|f| f.here),
        }
    }

    /// What is wrong with windows, for people.
    pub(super) fn further_troubles(&self) -> Vec<String> {
        let said = |(name, why): (&String, &String)| format!("window {name} is not there: {why}");
        self.further.troubles.iter().map(said).collect()
    }

    pub(super) fn further_patience(&self) -> Option<Duration> {
        self.further.again.map(|t| t.saturating_duration_since(Instant::now()))
    }

    /// Sees to windows that are not there and to those that should not be, and names all
    /// where their VMs are.
    pub(super) fn look_after_further(&mut self) {
        self.drop_further();
        let windows = self.further.windows.values();
        let missing = windows.filter(|w| self.laid_out(&w.name).is_none());
        let missing: Vec<FurtherWindow> = missing.cloned().collect();
        if missing.is_empty() {
            self.further.again = None;
        } else if self.further.again.is_none_or(|t| t <= Instant::now()) {
            self.further.again = Some(Instant::now() + WINDOW_AGAIN);
            missing.iter().for_each(|w| self.try_further(w));
        }
        self.name_further();
    }

    fn try_further(&mut self, w: &FurtherWindow) {
        match self.make_further(w) {
            Ok(()) => drop(self.further.troubles.remove(&w.name)),
            Err(why) => {
                let said = self.further.troubles.insert(w.name.clone(), why.clone());
                if said.as_ref() != Some(&why) {
                    tracing::warn!("window {} is not there: {why}; it is tried again", w.name);
                }
            }
        }
    }

    /// Lets those go that nobody declares any more, whose VM was removed, or whose pages
    /// went away.
    fn drop_further(&mut self) {
        let of = |name: &str| self.further.windows.get(name);
        let gone = self.rim.further.values().filter_map(|d| {
            let name = &d.note().name;
            if is_made(name) {
                let vms = d.note().peers.iter().map(PeerNote::vm_id);
                let is_gone = vms.into_iter().any(|vm| self.rim.core.catalog().vm(&vm).is_none());
                return is_gone.then(|| (name.clone(), "a VM of it is declared no more"));
            }
            let vms = of(name).and_then(|w| self.vms_of(w).ok()).unwrap_or_default();
            let noted = d.note().peers.iter();
            let why = match (noted.map(PeerNote::vm_id).eq(vms), d.pages().is_lost()) {
                (false, _) => "it or a VM of it is declared no more",
                (true, true) => "its pages went away",
                (true, false) => return None,
            };
            Some((name.clone(), why))
        });
        let gone: Vec<(String, &str)> = gone.collect();
        for (name, why) in gone {
            tracing::warn!("window {name} is taken down: {why}");
            self.take_out_of_all(&name);
            self.forget_further(&name);
        }
    }

    /// Asks those VMs that are declared still to let go of a window that the manager made: they share it
    /// with one that is not.
    fn take_out_of_all(&mut self, name: &str) {
        let Some((_, d)) = self.laid_out(name).filter(|_| is_made(name)) else { return };
        let catalog = self.rim.core.catalog();
        let vms = d.note().peers.iter().filter_map(|peer| {
            let client = catalog.clients.get(&peer.client)?;
            catalog.vm(&peer.vm_id())?;
            Some(VmName::new(&client.name, &peer.vm))
        });
        let vms: Vec<VmName> = vms.collect();
        for vm in vms {
            match self.order_plug(&vm, name, PlugWay::Out) {
                Ok(()) => tracing::info!("VM {vm} is asked to let go of window {name}"),
                Err(why) => tracing::warn!(
                    "VM {vm} has window {name} still, and nobody takes it out: {why}; `vfun detach --window {name}` does"
                ),
            }
        }
    }

    /// The further window of this name, if it is there.
    pub(super) fn laid_out(&self, name: &str) -> Option<(WindowId, &HostFurther)> {
        let found = self.rim.further.iter().find(|(_, d)| d.note().name == name);
        found.map(|(id, d)| (*id, d))
    }

    /// The VMs that a window is for; an error if one of them is not declared.
    fn vms_of(&self, w: &FurtherWindow) -> Result<Vec<VmId>, String> {
        let id = |name| {
            let vm = self.rim.core.catalog().vm_named(name).map(|vm| vm.id());
            vm.ok_or_else(|| format!("there is no VM {name}: `vfun client list` shows them"))
        };
        w.vms.iter().map(id).collect()
    }

    /// The number that a window gets in one of its VMs.
    pub(super) fn numbered(&self, vm: VmId, name: &VmName) -> Result<(VmId, u16), String> {
        let index = free_index(self.rim.further.values(), &vm)
            .ok_or_else(|| format!("VM {name} has {WINDOWS_MAX} windows, as many as can be"))?;
        Ok((vm, index))
    }

    /// Makes the file of a window, and the window.
    fn make_further(&mut self, w: &FurtherWindow) -> Result<(), String> {
        let vms = self.vms_of(w)?.into_iter().zip(&w.vms);
        let vms = vms.map(|(vm, name)| self.numbered(vm, name)).collect::<Result<Vec<_>, _>>()?;
        let file = self.further_file(w)?;
        self.own_file(&Whose::Further(&w.name))?;
        let of = format_args!("window {}", w.name);
        let fd = make(None, &file, &of, w.bytes, OldFile::Goes).map_err(|not| not_made(not, w))?;
        let window = HostFurther::new(&w.name, fd, vms, (w.bytes, w.page))
            .map_err(|e| format!("the window {}: {e}", file.display()))?;
        self.further_up(window);
        let vms: Vec<String> = w.vms.iter().map(VmName::to_string).collect();
        tracing::info!(window = w.name, vms = vms.join(", "), "a further window is there");
        Ok(())
    }

    /// Lets a window and its file go.
    fn forget_further(&mut self, name: &str) {
        if let Some((id, _)) = self.laid_out(name) {
            self.further_down(id);
        }
        // Nobody finds one that was made for links by a name.
        if is_made(name) {
            return;
        }
        if let Ok(file) = self.huge_file(name) {
            let _ = fs::remove_file(file);
        }
        let file = self.config.window_dir.join(device_id(name));
        self.remove_window_file(&Whose::Further(name), &file);
    }

    /// Where the file of a window is.
    fn further_file(&self, w: &FurtherWindow) -> Result<PathBuf, String> {
        match w.page {
            HUGE => self.huge_file(&w.name),
            _ => Ok(self.config.window_dir.join(device_id(&w.name))),
        }
    }

    /// Where that of a window of huge pages is. All managers of the host have their files
    /// there, and the lock that says whose a window is lies in the window folder: the file
    /// is named for that folder, too.
    fn huge_file(&self, name: &str) -> Result<PathBuf, String> {
        let of = &self.config.window_dir;
        let of = fs::metadata(of).map_err(|e| format!("{}: {e}", of.display()))?;
        let id = device_id(name);
        Ok(huge_folder()?.join(format!("{id}.{:x}-{:x}", of.dev(), of.ino())))
    }
}

/// Reads a manifest that was kept. Its file has the name of its window: by that it is
/// written again and removed.
fn read(file: &Path) -> Result<FurtherWindow, String> {
    let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let window = further_window(file, &text).map_err(|e| e.to_string())?;
    match file.file_stem() == Some(window.name.as_ref()) {
        true => Ok(window),
        false => Err(format!(
            "{}: it declares the window '{name}', so its file must be called {name}.toml: rename it, or declare the window with `vfun window add --file`",
            file.display(),
            name = window.name
        )),
    }
}

/// 128 random bits. Where the system has none it does not come to this: tokens and
/// sessions of TLS need them, too.
pub(super) fn fresh_key() -> [u64; 2] {
    let mut random = [0; 16];
    let read = fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut random));
    if let Err(e) = read {
        tracing::error!("the system gave no random bytes: {e}");
    }
    let [a, b] = [0, 8]
        .map(|at| u64::from_le_bytes(random[at..at + 8].try_into().expect("eight of sixteen")));
    [a | 1, b]
}

/// Why the file of a window was not made, and what to do where huge pages are short.
fn not_made(not: NotMade, w: &FurtherWindow) -> String {
    match not.no_memory && w.page == HUGE {
        true => format!(
            "{}. It needs {} huge pages of 2 MiB: HugePages_Free in /proc/meminfo says how many there are, and `sysctl vm.nr_hugepages=NUMBER` reserves more",
            not.sentence,
            w.bytes / HUGE
        ),
        false => not.sentence,
    }
}

/// Where files of huge pages are made.
fn huge_folder() -> Result<PathBuf, String> {
    let mounts = fs::read(MOUNTS).map_err(|e| format!("{MOUNTS}: {e}"))?;
    let of_2_mib = |folder: &PathBuf| {
        rustix::fs::statfs(folder).is_ok_and(|s| u64::try_from(s.f_bsize) == Ok(HUGE))
    };
    hugetlbfs(&mounts).find(of_2_mib).ok_or_else(|| {
        "this host has no file system of huge pages of 2 MiB: `mount -t hugetlbfs -o pagesize=2M none /dev/hugepages`, and reserve some with `sysctl vm.nr_hugepages=NUMBER`".into()
    })
}

/// The folders of this list of mounts in which a hugetlbfs is.
fn hugetlbfs(mounts: &[u8]) -> impl Iterator<Item = PathBuf> {
    mounts.split(|b| *b == b'\n').filter_map(|line| {
        let mut words = line.split(|b| *b == b' ');
        let (folder, kind) = (words.nth(1)?, words.next()?);
        (kind == b"hugetlbfs").then(|| OsString::from_vec(unescaped(folder)).into())
    })
}

/// A word of such a list, in which a space, a tab, a new line and a backslash are written
/// as three octal digits.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (vec![], word);
    while let [first, after @ ..] = rest {
        let digit = |d: u8| (b'0'..=b'7').contains(&d).then(|| u32::from(d - b'0'));
        let code = match rest {
            [b'\\', a, b, c, ..] => (|| Some(digit(*a)? * 64 + digit(*b)? * 8 + digit(*c)?))(),
            _ => None,
        };
        let code = code.and_then(|code| u8::try_from(code).ok());
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &rest[4..] } else { after };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_huge_pages_is_found_whatever_its_name_is() {
        let mounts = b"proc /proc proc rw 0 0\n\
            none /dev/hugepages hugetlbfs rw,pagesize=2M 0 0\n\
            none /srv/of\\040two\\134words\\011\\12 hugetlbfs rw 0 0\n";
        let found: Vec<PathBuf> = hugetlbfs(mounts).collect();
        let named = ["/dev/hugepages", "/srv/of two\\words\t\\12"];
        assert_eq!(found, named.map(PathBuf::from));
    }

    #[test]
    fn huge_pages_are_asked_for_only_where_memory_is_short() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let text = "name = \"w\"\npeers = [\"vm1\"]\nbytes = \"4 MiB\"\npages = \"2 MiB\"";
        let w = further_window(Path::new("w.toml"), text).unwrap();
        let said = |file: &str, bytes| {
            let not = make(None, &dir.path().join(file), &"w", bytes, OldFile::Goes).err().unwrap();
            not_made(not, &w)
        };
        let (missing, short) = (said("nowhere/w", w.bytes), said("w", 1 << 50));
        assert!(missing.contains("cannot be opened") && !missing.contains("sysctl"), "{missing}");
        let needs = "It needs 2 huge pages of 2 MiB";
        assert!(short.contains(needs) && short.contains("sysctl vm.nr_hugepages="), "{short}");
    }
}
