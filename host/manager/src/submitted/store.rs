//! Where modules are kept: `admin/modules/CLIENT/`, readable by the manager
//! alone. A module's file is named by its digest, its compiled code's too;
//! `holding.json` says which functions they are. Files come first and the list
//! last, so that whatever it names is there, whenever the manager is killed;
//! what it names no longer goes after it.
//!
//! Whoever calls this waits for a disk, which may be slow: but for the start of
//! a manager that is the thread of [`super::writer`].

use super::{Holding, Kept, Refused};
use crate::files::{write_durably, write_whole};
use rustix::fs::{Mode, OFlags, SealFlags};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use vfun_submit::Code;
use vfun_supervise::Offered;

/// Longest list of a client's functions, bytes: as many as there may be, with
/// the longest signatures.
const LIST_BYTES_MAX: u64 = 1 << 20;
const LIST: &str = "holding.json";

/// Why the host could not keep something, without a path of its.
pub fn trouble(what: &str, e: &io::Error) -> Refused {
    let why = match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "its disk is full; what was there before is as it was".to_owned()
        }
        _ => e.to_string(),
    };
    Refused::new(Code::HostTrouble, format!("the host could not keep {what}: {why}"))
}

/// Writes a module and its compiled code.
pub fn keep(dir: &Path, o: &Offered, module: &[u8], code: &[u8]) -> Result<(), Refused> {
    make_dir(dir).map_err(|e| trouble("the module's folder", &e))?;
    // Also where there is one: the disk may have spoiled it.
    write_durably(&module_file(dir, &o.sha256), module).map_err(|e| trouble("the module", &e))?;
    if o.code_bytes > 0 {
        // What is lost of this is made again from the module.
        write_whole(&code_file(dir, &o.code_sha256), code)
            .map_err(|e| trouble("the module's code", &e))?;
    }
    Ok(())
}

/// Whether what is kept of a module is there as it was written, and its code
/// is of this build of the service's program. Reads all of it.
pub fn is_whole(dir: &Path, kept: &Kept, program: &str) -> bool {
    let of_module = (module_file(dir, &kept.offered.sha256), kept.offered.module_bytes);
    has_digest(&of_module.0, of_module.1, &kept.offered.sha256)
        && kept.code.as_ref().is_none_or(|c| {
            c.program == program && has_digest(&code_file(dir, &c.sha256), c.bytes, &c.sha256)
        })
}

fn has_digest(path: &Path, bytes: u64, sha256: &str) -> bool {
    let digest = || -> io::Result<String> {
        let (mut file, mut hash) = (open(path)?, Sha256::new());
        if file.metadata()?.len() != bytes {
            return Ok(String::new());
        }
        let mut room = vec![0; 1 << 16];
        loop {
            match file.read(&mut room) {
                Ok(0) => return Ok(text(&hash.finalize())),
                Ok(n) => hash.update(&room[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    };
    digest().is_ok_and(|d| d == sha256)
}

/// Opens a file that was kept: an ordinary one and no link, as nothing else was
/// ever written here, and no open waits for anybody.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no ordinary file")),
    }
}

fn text(digest: &[u8]) -> String {
    digest.iter().map(|b| format!("{b:02x}")).collect()
}

fn hex(bytes: &[u8]) -> String {
    text(&Sha256::digest(bytes))
}

/// Module and code out of a service's memory file, copied once and compared
/// with what it said: it may change the file meanwhile, or be another file.
pub fn read(file: impl AsFd, o: &Offered) -> Result<(Vec<u8>, Vec<u8>), Refused> {
    let other = || {
        Refused::new(Code::Malformed, "what its service handed over is not what it said: try again")
    };
    // Of files that have seals, memory files, no read ever waits for anybody.
    let sealed = rustix::fs::fcntl_get_seals(&file).map_err(|_| other())?;
    if !sealed.contains(SealFlags::SHRINK | SealFlags::GROW) {
        return Err(other());
    }
    let part = |from: u64, len: u64, sha256: &str| {
        let mut bytes = vec![0; len as usize];
        let mut at = 0;
        while at < bytes.len() {
            match rustix::io::pread(&file, &mut bytes[at..], from + at as u64) {
                Ok(n) if n > 0 => at += n,
                Err(rustix::io::Errno::INTR) => {}
                _ => return Err(other()),
            }
        }
        if hex(&bytes) == sha256 { Ok(bytes) } else { Err(other()) }
    };
    let module = part(0, o.module_bytes, &o.sha256)?;
    // Of no bytes nothing is compared: their digest is not of interest.
    let code = match o.code_bytes {
        0 => vec![],
        n => part(o.module_bytes, n, &o.code_sha256)?,
    };
    Ok((module, code))
}

/// Makes a folder that is still there after a loss of power, as what is put
/// into it will be.
fn make_dir(dir: &Path) -> io::Result<()> {
    let make = || fs::DirBuilder::new().mode(0o700).create(dir);
    let made = match (make(), dir.parent()) {
        (Err(e), Some(parent)) if e.kind() == io::ErrorKind::NotFound => {
            make_dir(parent)?;
            make()
        }
        (made, _) => made,
    };
    match (made, dir.parent()) {
        (Ok(()), Some(parent)) => File::open(parent)?.sync_all(),
        (Err(e), _) if e.kind() == io::ErrorKind::AlreadyExists => match is_folder(dir)? {
            true => Ok(()),
            false => Err(io::Error::other("what has its name is no folder")),
        },
        (made, _) => made,
    }
}

/// Whether this is a folder, and no link to one: files are removed in it.
fn is_folder(dir: &Path) -> io::Result<bool> {
    Ok(fs::symlink_metadata(dir)?.is_dir())
}

/// Where a module is.
pub fn module_file(dir: &Path, sha256: &str) -> PathBuf {
    dir.join(format!("{sha256}.wasm"))
}

/// Where compiled code is.
pub fn code_file(dir: &Path, sha256: &str) -> PathBuf {
    dir.join(format!("{sha256}.code"))
}

/// What a client has; nothing if there is no list.
pub fn load(dir: &Path) -> Result<Holding, String> {
    let file = dir.join(LIST);
    let at = |e: String| format!("{}: {e}", file.display());
    match is_folder(dir) {
        Ok(true) => {}
        Ok(false) => return Err(format!("{} is no folder", dir.display())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Holding::default()),
        Err(e) => return Err(format!("{}: {e}", dir.display())),
    }
    let mut text = String::new();
    match open(&file).and_then(|f| f.take(LIST_BYTES_MAX).read_to_string(&mut text)) {
        Ok(_) => serde_json::from_str(&text).map_err(|e| at(e.to_string())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Holding::default()),
        Err(e) => Err(at(e.to_string())),
    }
}

/// Writes down what a client has.
pub fn save(dir: &Path, holding: &Holding) -> io::Result<()> {
    make_dir(dir)?;
    let text = serde_json::to_vec(holding).map_err(io::Error::other)?;
    if text.len() as u64 >= LIST_BYTES_MAX {
        return Err(io::Error::other("it would be too long to be read again"));
    }
    write_durably(&dir.join(LIST), &text)
}

/// Removes modules and code that no function of these is of, and what was not
/// written to its end. What has another kind of name is nobody's business here.
pub fn sweep(dir: &Path, all: &[&Holding]) {
    let mut of_use = BTreeSet::new();
    for k in all.iter().flat_map(|h| h.modules.values()) {
        of_use.insert(module_file(dir, &k.offered.sha256));
        of_use.extend(k.code.as_ref().map(|c| code_file(dir, &c.sha256)));
    }
    if !is_folder(dir).unwrap_or(false) {
        return;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let ours = path.extension().is_some_and(|e| e == "wasm" || e == "code" || e == "part");
        if ours && !of_use.contains(&path) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes all that a client has: first the list, so that it never names what
/// is not there.
pub fn forget(dir: &Path) -> io::Result<()> {
    if is_folder(dir).unwrap_or(false) {
        let _ = fs::remove_file(dir.join(LIST));
    }
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Which build a program is: that which makes code, and that which takes it,
/// must be the same one.
pub fn build_of(program: &Path) -> String {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(program).map_or(String::new(), |m| {
        format!("{}-{}-{}.{}", m.ino(), m.size(), m.mtime(), m.mtime_nsec())
    })
}
