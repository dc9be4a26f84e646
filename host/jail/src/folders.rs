//! Folders in which a driver writes: each client has its own, which the manager makes
//! and gives to the user of the client's services.

use crate::constants::{WRITES_BYTES, WRITES_FILES};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, mkdirat, openat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// What stands for the client's name in `writes` and `environment` of a manifest.
pub const CLIENT: &str = "{client}";
/// What stands there for the folder below which services may write.
pub const WRITES: &str = "{writes}";

/// Whether a path may stand in `writes`; a sentence that says why not.
pub fn check(path: &str) -> Result<(), String> {
    let plain =
        |p: &Path| p.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
    let rest = path.strip_prefix(WRITES).unwrap_or(path);
    let (before, last) = rest.rsplit_once('/').unwrap_or(("", rest));
    let wrong = match () {
        () if !rest.starts_with('/') || !plain(Path::new(rest)) => {
            "is no absolute path without '..'"
        }
        () if last != CLIENT => {
            "does not end with '/{client}': each client's services write in a folder of their own"
        }
        () if before.contains(['{', '}']) => {
            "has another '{' than {writes} at its begin and {client} at its end"
        }
        () if before.is_empty() => {
            "has no folder of its own for this function, as {writes}/NAME/{client} has"
        }
        () => return Ok(()),
    };
    Err(format!("{path} {wrong}"))
}

/// The text with the names for this client put in.
pub fn fill(text: &str, writes: &Path, client: &str) -> String {
    text.replace(WRITES, &writes.display().to_string()).replace(CLIENT, client)
}

/// Makes the folder `path` below `root`, if it is not there, and gives it to `user`. If there is no
/// `user`, the folder belongs to the user of this process. No link is followed below `root`. An
/// error is a sentence.
pub fn make(root: &Path, path: &Path, user: Option<u32>) -> Result<(), String> {
    let plain = |p: &&Path| p.components().all(|c| matches!(c, Component::Normal(_)));
    let below = path.strip_prefix(root).ok().filter(plain);
    let parts: Vec<_> = below.into_iter().flat_map(Path::components).collect();
    let Some((last, between)) = parts.split_last() else {
        let (path, root) = (path.display(), root.display());
        return Err(format!(
            "{path} is not below {root}, where services may write (vfund --writes)"
        ));
    };
    let mut at = root.to_owned();
    std::fs::create_dir_all(root).map_err(|e| format!("{}: {e}", at.display()))?;
    let opened = open(CWD, root, OFlags::empty());
    let mut folder = opened.map_err(|e| format!("{}: {e}", at.display()))?;
    for part in between {
        mine(&folder).map_err(|e| format!("{} {e}", at.display()))?;
        at.push(part);
        folder = step(&folder, part.as_ref(), Mode::from_raw_mode(0o711))
            .map_err(|e| format!("{} {e}", at.display()))?;
    }
    mine(&folder).map_err(|e| format!("{} {e}", at.display()))?;
    at.push(last);
    step(&folder, last.as_ref(), Mode::RWXU)
        .and_then(|folder| give(folder, user))
        .map_err(|e| format!("{} {e}", at.display()))
}

fn open(dir: impl AsFd, name: &Path, more: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | more;
    openat(dir, name, flags, Mode::empty())
}

/// The folder of this name, made with `mode` if it is not there.
fn step(dir: &OwnedFd, name: &Path, mode: Mode) -> Result<OwnedFd, String> {
    let found = match open(dir, name, OFlags::NOFOLLOW) {
        Err(Errno::NOENT) => {
            mkdirat(dir, name, mode).map_err(|e| format!("cannot be made: {e}"))?;
            open(dir, name, OFlags::NOFOLLOW)
        }
        other => other,
    };
    found.map_err(|e| match e {
        Errno::NOTDIR | Errno::LOOP => "is a symbolic link, or no folder".into(),
        e => format!("cannot be opened: {e}"),
    })
}

/// Nobody else may put another folder into this one.
fn mine(folder: &OwnedFd) -> Result<(), String> {
    let stat = fstat(folder).map_err(|e| format!("cannot be looked at: {e}"))?;
    let me = geteuid().as_raw();
    match (stat.st_uid == me || stat.st_uid == 0) && stat.st_mode & 0o022 == 0 {
        true => Ok(()),
        false => Err("may be written to by others than the manager: chown and chmod it".into()),
    }
}

/// Lets the user have it, unless it is already so.
fn give(folder: OwnedFd, user: Option<u32>) -> Result<(), String> {
    let me = geteuid().as_raw();
    let user = user.unwrap_or(me);
    let stat = fstat(&folder).map_err(|e| format!("cannot be looked at: {e}"))?;
    if stat.st_mode & 0o077 != 0 {
        return Err("is open to others than its client's services: chmod 700".into());
    }
    if stat.st_uid == user {
        return Ok(());
    }
    if stat.st_uid != me {
        let of = stat.st_uid;
        return Err(format!(
            "belongs to user {of}, and its client's services are user {user}: move it away, or chown -R {user}:{user}"
        ));
    }
    let (uid, gid) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(user)));
    rustix::fs::chownat(&folder, "", uid, gid, AtFlags::EMPTY_PATH)
        .map_err(|e| format!("cannot be given to user {user}: {e}"))
}

/// Counts what is in these folders; a sentence if that is more than the limits allow.
pub fn measure(folders: &[PathBuf]) -> Result<(), String> {
    for folder in folders {
        let at = |e: std::io::Error| format!("{} cannot be counted: {e}", folder.display());
        let (mut files, mut bytes) = (0u64, 0u64);
        let mut left = vec![folder.clone()];
        while let Some(dir) = left.pop() {
            let entries = match std::fs::read_dir(&dir) {
                // The driver may remove a folder after it was listed.
                Err(e) if e.kind() == ErrorKind::NotFound && dir != *folder => continue,
                entries => entries.map_err(at)?,
            };
            for entry in entries {
                let entry = entry.map_err(at)?;
                // A file may go away while the driver works.
                let Ok(meta) = entry.metadata() else { continue };
                (files, bytes) = (files + 1, bytes + meta.blocks() * 512);
                if files > WRITES_FILES || bytes > WRITES_BYTES {
                    let (folder, mib) = (folder.display(), WRITES_BYTES >> 20);
                    return Err(format!(
                        "{folder} holds more than {WRITES_FILES} files or {mib} MiB: remove some"
                    ));
                }
                if meta.is_dir() {
                    left.push(entry.path());
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_path_is_absolute_and_ends_with_the_clients_name() {
        for right in ["/var/lib/x/{client}", "{writes}/x/{client}", "{writes}/x/y/{client}"] {
            assert_eq!(check(right), Ok(()), "{right}");
        }
        for (wrong, why) in [
            ("x/{client}", "no absolute path"),
            ("/x/../{client}", "no absolute path"),
            ("{writes}/../x/{client}", "no absolute path"),
            ("{writes}x/{client}", "no absolute path"),
            ("/x/y", "does not end with '/{client}'"),
            ("/x/a{client}", "does not end"),
            ("/x/{client}/y", "does not end"),
            ("/{client}/{client}", "another '{'"),
            ("/{client}", "no folder of its own"),
            ("{writes}/{client}", "no folder of its own"),
            ("{client}", "no absolute path"),
            ("", "no absolute path"),
        ] {
            let said = check(wrong).unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
        assert_eq!(fill("{writes}/t/{client}:x", Path::new("/w"), "c1"), "/w/t/c1:x");
    }

    #[test]
    fn a_folder_is_made_below_the_root_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("writes");
        let made = root.join("tokens/a");
        make(&root, &made, None).unwrap();
        let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&made), 0o700);
        // What is there stays.
        fs::write(made.join("t"), "x").unwrap();
        make(&root, &made, None).unwrap();
        assert!(made.join("t").exists());
        for elsewhere in [dir.path().join("x/a"), root.clone(), root.join("../x/a")] {
            let said = make(&root, &elsewhere, None).unwrap_err();
            assert!(said.contains("is not below") && said.contains("--writes"), "{said}");
        }
        assert!(!dir.path().join("x").exists());
    }

    #[test]
    fn a_folder_that_another_could_replace_or_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("writes"), dir.path().join("outside"));
        fs::create_dir_all(root.join("t")).unwrap();
        fs::create_dir(&outside).unwrap();
        let why = |path: &str| make(&root, &root.join(path), None).unwrap_err();
        symlink(&outside, root.join("t/last")).unwrap();
        symlink(&outside, root.join("link")).unwrap();
        for path in ["t/last", "link/a"] {
            assert!(why(path).contains("is a symbolic link"), "{}", why(path));
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        fs::create_dir(root.join("t/open")).unwrap();
        fs::set_permissions(root.join("t/open"), fs::Permissions::from_mode(0o750)).unwrap();
        assert!(why("t/open").contains("open to others"), "{}", why("t/open"));
        for open in [root.join("t"), root.clone()] {
            fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
            assert!(why("t/b").contains("written to by others"), "{}", why("t/b"));
            fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[test]
    fn a_folder_is_given_to_its_user_once() {
        if !geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (root, made) = (dir.path().join("writes"), dir.path().join("writes/t/a"));
        make(&root, &made, Some(1_900_000_007)).unwrap();
        make(&root, &made, Some(1_900_000_007)).unwrap();
        let stat = fs::metadata(&made).unwrap();
        assert_eq!((stat.uid(), stat.gid()), (1_900_000_007, 1_900_000_007));
        let said = make(&root, &made, Some(1_900_000_008)).unwrap_err();
        assert!(said.contains("belongs to user 1900000007"), "{said}");
    }

    #[test]
    fn too_much_in_a_folder_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folders = [dir.path().to_owned()];
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/few"), "x").unwrap();
        assert_eq!(measure(&folders), Ok(()));
        fs::write(dir.path().join("sub/big"), vec![1; WRITES_BYTES as usize]).unwrap();
        assert!(measure(&folders).unwrap_err().contains("remove some"));
        fs::remove_file(dir.path().join("sub/big")).unwrap();
        (0..WRITES_FILES).for_each(|i| fs::write(dir.path().join(format!("sub/{i}")), "").unwrap());
        assert!(measure(&folders).unwrap_err().contains("remove some"));
    }
}
