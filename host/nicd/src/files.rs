//! The files of this program, in `ROOT/nics`: notes, declarations, and a lock so that there
//! is one such program. A file is there as it was or as it is to be, whatever happens.

use crate::declarations::Declarations;
use crate::limits::FILE_BYTES;
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use vfun_nics::notes::Notes;

/// The version of the notes that this program writes and reads.
pub const NOTES_VERSION: u32 = 1;

/// The folder, locked.
pub struct Files {
    folder: PathBuf,
    /// Held as long as this process lives.
    _lock: File,
}

impl Files {
    /// Makes the folder, if there is none, and locks it.
    pub fn open(root: &Path) -> Result<Self, String> {
        let folder = root.join("nics");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|e| format!("the folder {} cannot be made: {e}", folder.display()))?;
        let path = folder.join("lock");
        let failed = |e: io::Error| format!("the lock {} cannot be taken: {e}", path.display());
        let lock = options().create(true).write(true).open(&path).map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Files { folder, _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(format!(
                "another vfun-nics runs with this root ({} is locked): end it first; two would give one VF to two VMs",
                path.display()
            )),
            Err(e) => Err(failed(e.into())),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn notes_file(&self) -> PathBuf {
        self.folder.join("notes.json")
    }

    fn declared_file(&self) -> PathBuf {
        self.folder.join("declared.json")
    }

    /// The notes; those of nobody where there are none.
    pub fn notes(&self) -> Result<Notes, String> {
        let path = self.notes_file();
        let notes: Option<Notes> = read(&path).map_err(|why| {
            format!(
                "{}: {why}. It says which VM may own which VF, and owners are not guessed. Mend it; or end all VMs that may have a VF, remove the file, and start again",
                path.display()
            )
        })?;
        match notes {
            None => Ok(Notes { version: NOTES_VERSION, ..Notes::default() }),
            Some(notes) if notes.version == NOTES_VERSION => Ok(notes),
            Some(notes) => Err(format!(
                "{} is of version {}, and this program reads version {NOTES_VERSION}: start the program that wrote it",
                path.display(),
                notes.version
            )),
        }
    }

    /// Writes the notes; they are on disk when this returns.
    pub fn write_notes(&self, notes: &Notes) -> Result<(), String> {
        write(&self.notes_file(), notes)
    }

    /// What is declared; nothing where there is no file.
    pub fn declared(&self) -> Result<Declarations, String> {
        let path = self.declared_file();
        let checked = |all: Option<Declarations>| {
            let all = all.unwrap_or_default();
            all.check().map(|()| all)
        };
        read(&path).and_then(checked).map_err(|why| {
            format!(
                "{}: {why}. It says which pools and VMs are declared. Mend it; or remove it and declare them again with `vfun nics pool add` and `vfun nics add`",
                path.display()
            )
        })
    }

    pub fn write_declared(&self, declared: &Declarations) -> Result<(), String> {
        write(&self.declared_file(), declared)
    }
}

fn options() -> fs::OpenOptions {
    let mut options = File::options();
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    options.mode(0o600).custom_flags(flags.bits() as i32);
    options
}

/// A file's value; none if there is no file.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
    let file = match options().read(true).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(format!("it cannot be read: {e}")),
    };
    let mut bytes = vec![];
    file.take(FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("it cannot be read: {e}"))?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(format!("it has more than {FILE_BYTES} bytes"));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|e| format!("it is damaged: {e}"))
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let part = path.with_extension("part");
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|e| e.to_string())?;
    bytes.push(b'\n');
    let written = (|| {
        let mut file = options().create(true).write(true).truncate(true).open(&part)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    })();
    written.map_err(|e: io::Error| format!("{} cannot be written: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_admin::VmName;
    use vfun_nics::VfId;
    use vfun_nics::notes::VfNote;

    fn open() -> (tempfile::TempDir, Files) {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path()).unwrap();
        (dir, files)
    }

    #[test]
    fn notes_come_back() {
        let (_dir, files) = open();
        let mut notes = files.notes().unwrap();
        assert_eq!(notes.version, NOTES_VERSION);
        let owner = Some(VmName::new("a", "b"));
        notes.vfs.insert(VfId("0000:01:10.0".into()), VfNote { owner, dirty: true });
        files.write_notes(&notes).unwrap();
        assert_eq!(files.notes().unwrap(), notes);
    }

    #[test]
    fn a_damaged_file_is_named_and_nothing_is_guessed() {
        let (dir, files) = open();
        for damage in ["", "{", "[]", "{\"version\":9,\"vfs\":{}}", "{\"version\":1}"] {
            fs::write(dir.path().join("nics/notes.json"), damage).unwrap();
            let why = files.notes().unwrap_err();
            assert!(why.contains("notes.json"), "{damage}: {why}");
            fs::write(dir.path().join("nics/declared.json"), format!("{damage}x")).unwrap();
            let why = files.declared().unwrap_err();
            assert!(why.contains("declared.json") && why.contains("vfun nics add"), "{why}");
        }
    }

    #[test]
    fn there_is_one_program_a_root() {
        let (dir, files) = open();
        let why = Files::open(dir.path()).err().unwrap();
        assert!(why.contains("another vfun-nics"), "{why}");
        drop(files);
        assert!(Files::open(dir.path()).is_ok());
    }
}
