//! A root directory of its own: an empty file system in memory, in which the
//! program, its libraries and what its manifest names are shown, all of it for
//! reading only, but the folders in which it writes; and, for drivers that compile, a second
//! one to write to.

use super::Failed;
use super::clone::set_attributes;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use vfun_jail::constants::{ROOT_BYTES, ROOT_INODES, SCRATCH, SCRATCH_INODES};
use vfun_jail::places::Places;
use vfun_jail::{Layer, Plan};

/// Any directory will do to build the root on; these are there.
const STAGES: [&str; 6] = ["/tmp", "/run", "/mnt", "/var", "/etc", "/usr"];

/// What will be shown, opened under the names that the host has for it.
pub struct Sources {
    shown: Vec<(PathBuf, bool, OwnedFd)>,
    links: Vec<(PathBuf, PathBuf)>,
}

fn at(what: &Path) -> impl FnOnce(io::Error) -> Failed + use<> {
    Failed::at(Layer::Mount, &what.display().to_string())
}

/// Opens all of it, read-only, without devices but these and without programs
/// that gain rights. Done as the launcher's user, who may go where the service may not.
pub fn open(places: &Places, plan: &Plan) -> Result<Sources, Failed> {
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|e| at(Path::new("/"))(e.into()))?;
    let mut shown = vec![];
    for path in &plan.devices {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = rustix::mount::open_tree(CWD, path, flags).map_err(|e| at(path)(e.into()))?;
        // Read-only is the file system, where nothing can be made: a device is
        // written to all the same.
        let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        set_attributes(&tree, attributes.bits().into(), false).map_err(at(path))?;
        shown.push((path.clone(), false, tree));
    }
    for path in &places.shown {
        let directory = std::fs::metadata(path).map_err(at(path))?.is_dir();
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | if directory { OpenTreeFlags::AT_RECURSIVE } else { OpenTreeFlags::empty() };
        let tree = rustix::mount::open_tree(CWD, path, flags).map_err(|e| at(path)(e.into()))?;
        let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV;
        set_attributes(&tree, attributes.bits().into(), directory).map_err(at(path))?;
        shown.push((path.clone(), directory, tree));
    }
    // Last: one that lies in a folder that is shown is put over it.
    for path in &plan.writes {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
        let tree = rustix::mount::open_tree(CWD, path, flags).map_err(|e| at(path)(e.into()))?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        set_attributes(&tree, attributes.bits().into(), false).map_err(at(path))?;
        shown.push((path.clone(), true, tree));
    }
    Ok(Sources { shown, links: places.links.iter().cloned().collect() })
}

/// A file system in memory, without devices and set-user-id programs.
fn memory(size: &str, inodes: &str, mode: &str, more: MountAttrFlags) -> io::Result<OwnedFd> {
    use rustix::mount::{fsconfig_create, fsconfig_set_string, fsmount, fsopen};
    let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in [("size", size), ("nr_inodes", inodes), ("mode", mode)] {
        fsconfig_set_string(&fs, key, value)?;
    }
    fsconfig_create(&fs)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | more;
    Ok(fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

fn root() -> io::Result<OwnedFd> {
    memory(ROOT_BYTES, ROOT_INODES, "755", MountAttrFlags::MOUNT_ATTR_NOEXEC)
}

/// Where the service may write, and run what it wrote: whoever it is in the
/// end, as nobody else is in here.
fn scratch(bytes: u64) -> io::Result<OwnedFd> {
    memory(&bytes.to_string(), SCRATCH_INODES, "777", MountAttrFlags::empty())
}

fn inside(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Makes the root, and this process live in it and nowhere else.
pub fn enter(sources: Sources, scratch_bytes: u64) -> Result<(), Failed> {
    let all = |e: io::Error| Failed::at(Layer::Mount, "a root directory")(e);
    let stage = STAGES.iter().find(|s| Path::new(s).is_dir()).unwrap_or(&"/");
    let root = root().map_err(all)?;
    let onto = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&root, "", CWD, *stage, onto).map_err(|e| all(e.into()))?;
    rustix::process::chdir(*stage).map_err(|e| all(e.into()))?;
    for (link, target) in &sources.links {
        let path = inside(link);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(at(link))?;
        }
        std::os::unix::fs::symlink(target, path).map_err(at(link))?;
    }
    for (path, directory, tree) in &sources.shown {
        let name = inside(path);
        if *directory {
            std::fs::create_dir_all(name).map_err(at(path))?;
        } else {
            if let Some(parent) = name.parent() {
                std::fs::create_dir_all(parent).map_err(at(path))?;
            }
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::open(name, flags, Mode::from_raw_mode(0o444))
                .map_err(|e| at(path)(e.into()))?;
        }
        rustix::mount::move_mount(tree, "", CWD, name, onto).map_err(|e| at(path)(e.into()))?;
    }
    if scratch_bytes > 0 {
        let at_scratch = at(Path::new(SCRATCH));
        let made = scratch(scratch_bytes).and_then(|fs| {
            std::fs::create_dir_all(inside(Path::new(SCRATCH)))?;
            Ok(rustix::mount::move_mount(&fs, "", CWD, inside(Path::new(SCRATCH)), onto)?)
        });
        made.map_err(at_scratch)?;
    }
    // The old root is put over the new one, and taken away from there.
    rustix::process::pivot_root(".", ".").map_err(|e| all(e.into()))?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).map_err(|e| all(e.into()))?;
    rustix::process::chdir("/").map_err(|e| all(e.into()))?;
    set_attributes(&root, MountAttrFlags::MOUNT_ATTR_RDONLY.bits().into(), false).map_err(all)
}
