//! Where modules are kept: `admin/modules/CLIENT/`, readable by the manager
//! alone. A module's file is named by its digest, its compiled code's too;
//! `holding.json` says which functions they are. Files come first and the list
//! last, so that whatever it names is there, whenever the manager is killed.
//!
//! Bytes are written by a thread of its own: a disk that is slow holds up who
//! submits, and nobody else.

use super::{Holding, Refused};
use crate::policy::tokens::write_durably;
use rustix::fs::SealFlags;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use vfun_submit::Code;
use vfun_supervise::Offered;

/// Modules on their way to the disk. Each client has one at a time, as its
/// service hands them over one by one.
const WAITING_MAX: usize = 64;
/// Longest list of a client's functions, bytes: as many as there may be, with
/// the longest signatures.
const LIST_BYTES_MAX: u64 = 1 << 20;
const LIST: &str = "holding.json";

/// Bytes to be kept.
pub struct Job<T> {
    /// The client's folder.
    pub dir: PathBuf,
    /// The memory file that its service filled.
    pub file: OwnedFd,
    /// What should be in it.
    pub offered: Offered,
    /// For whoever hears what came of it.
    pub of: T,
}

/// The thread that writes.
pub struct Writer<T> {
    to: SyncSender<Job<T>>,
    done: Receiver<(Job<T>, Result<(), Refused>)>,
    /// Readable when something is done.
    bell: UnixStream,
}

impl<T: Send + 'static> Writer<T> {
    /// Starts it.
    pub fn start() -> io::Result<Self> {
        let (to, jobs) = sync_channel::<Job<T>>(WAITING_MAX);
        let (tell, done) = sync_channel(WAITING_MAX);
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ring.set_nonblocking(true)?;
        std::thread::Builder::new().name("modules".into()).spawn(move || {
            for job in jobs {
                let kept = keep(&job);
                if tell.send((job, kept)).is_err() {
                    return;
                }
                let _ = (&ring).write(&[1]); // full: it is readable already
            }
        })?;
        Ok(Writer { to, done, bell })
    }

    /// What is readable when something is done.
    pub fn bell(&self) -> &UnixStream {
        &self.bell
    }

    /// Hands bytes over.
    pub fn keep(&self, job: Job<T>) -> Result<(), Refused> {
        self.to.try_send(job).map_err(|e| {
            let why = match e {
                TrySendError::Full(_) => "very many modules are on their way to its disk",
                TrySendError::Disconnected(_) => "the thread that keeps modules is gone",
            };
            Refused::new(Code::HostTrouble, format!("the host cannot take it now: {why}"))
        })
    }

    /// What is done.
    pub fn done(&self) -> Vec<(Job<T>, Result<(), Refused>)> {
        use std::io::Read;
        let mut rings = [0; 64];
        while (&self.bell).read(&mut rings).is_ok_and(|n| n > 0) {}
        self.done.try_iter().collect()
    }
}

/// Reads what a service hands over, once, and keeps it if it is what was said.
fn keep<T>(job: &Job<T>) -> Result<(), Refused> {
    let o = &job.offered;
    let trouble = |what: &str| {
        let what = format!("the host could not keep the module: {what}");
        move |e: io::Error| Refused::new(Code::HostTrouble, format!("{what}: {e}"))
    };
    let (module, code) = read(job.file.as_fd(), o)?;
    make_dir(&job.dir).map_err(trouble("its folder"))?;
    let path = module_file(&job.dir, &o.sha256);
    // Also where there is one: the disk may have spoiled it.
    write_durably(&path, &module).map_err(trouble("its file"))?;
    if o.code_bytes > 0 {
        // What is lost of this is made again from the module.
        write_plainly(&code_file(&job.dir, &o.code_sha256), &code).map_err(trouble("its code"))?;
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
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

fn write_plainly(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_extension("part");
    let mut f = File::options().create(true).write(true).truncate(true).mode(0o600).open(&part)?;
    f.write_all(bytes)?;
    // Here and not later, when the manager's own thread writes the list and
    // would wait for these bytes as well.
    f.sync_all()?;
    fs::rename(&part, path)
}

fn make_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
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
    use std::io::Read;
    let file = dir.join(LIST);
    let at = |e: String| format!("{}: {e}", file.display());
    let mut text = String::new();
    match File::open(&file).and_then(|f| f.take(LIST_BYTES_MAX).read_to_string(&mut text)) {
        Ok(_) => serde_json::from_str(&text).map_err(|e| at(e.to_string())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Holding::default()),
        Err(e) => Err(at(e.to_string())),
    }
}

/// Writes down what a client has.
pub fn save(dir: &Path, holding: &Holding) -> io::Result<()> {
    make_dir(dir)?;
    let text = serde_json::to_vec(holding).map_err(io::Error::other)?;
    write_durably(&dir.join(LIST), &text)
}

/// Removes files that no function is of.
pub fn sweep(dir: &Path, holding: &Holding) {
    let mut of_use = BTreeSet::from([dir.join(LIST)]);
    for k in holding.modules.values() {
        of_use.insert(module_file(dir, &k.offered.sha256));
        of_use.extend(k.code.as_ref().map(|c| code_file(dir, &c.sha256)));
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if !of_use.contains(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes all that a client has.
pub fn forget(dir: &Path) -> io::Result<()> {
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
