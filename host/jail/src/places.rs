//! Where the system's libraries are, and how they are called in a service's
//! own root directory.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Directories with libraries by the system's conventions; the last ones only
/// where none of the first has the loader's.
const ARCH: &str = std::env::consts::ARCH;

/// What a service sees of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Files and directories, none inside another, under the names by which
    /// they are reached.
    pub shown: BTreeSet<PathBuf>,
    /// Symbolic links to be made, with their targets.
    pub links: BTreeSet<(PathBuf, PathBuf)>,
}

fn candidates() -> Vec<PathBuf> {
    let multiarch = format!("{ARCH}-linux-gnu");
    let mut found: Vec<PathBuf> = ["/lib", "/usr/lib"]
        .iter()
        .map(|d| Path::new(d).join(&multiarch))
        .chain(["/lib64", "/usr/lib64"].map(PathBuf::from))
        .filter(|d| d.is_dir())
        .collect();
    if !found.iter().any(|d| d.ends_with(&multiarch)) && !Path::new("/usr/lib64/libc.so.6").exists()
    {
        found.extend(["/lib", "/usr/lib"].map(PathBuf::from).into_iter().filter(|d| d.is_dir()));
    }
    // Without it the loader looks into the usual directories itself.
    found.extend(Some(PathBuf::from("/etc/ld.so.cache")).filter(|f| f.is_file()));
    found
}

impl Places {
    /// The system's libraries, and `more`.
    pub fn with(more: &[PathBuf]) -> Self {
        let mut places = Places::default();
        for path in candidates().iter().chain(more) {
            places.add(path);
        }
        places
    }

    /// Adds a path under its own name. Directories on the way that are symbolic
    /// links become links there too, so that both names lead to it.
    fn add(&mut self, path: &Path) {
        let mut at = PathBuf::from("/");
        let parts: Vec<_> = path
            .components()
            .filter_map(|c| if let Component::Normal(c) = c { Some(c) } else { None })
            .collect();
        for (i, part) in parts.iter().enumerate() {
            let next = at.join(part);
            let last = i + 1 == parts.len();
            match std::fs::read_link(&next) {
                // A link to a file (a library of a version) shows the file itself.
                Ok(target) if !last || next.is_dir() => {
                    let full = at.join(&target);
                    self.links.insert((next, target));
                    let rest: PathBuf = parts[i + 1..].iter().collect();
                    // Links may lead to links; the system's own limit is forty.
                    if self.links.len() < 64
                        && let Some(clean) = clean(&full.join(rest))
                    {
                        self.add(&clean);
                    }
                    return;
                }
                _ => at = next,
            }
        }
        if self.shown.iter().any(|s| at.starts_with(s)) {
            return;
        }
        self.shown.retain(|s| !s.starts_with(&at));
        self.shown.insert(at);
    }
}

/// A path without `.` and `..`; its links were resolved up to here.
fn clean(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::from("/");
    for c in path.components() {
        match c {
            Component::Normal(c) => out.push(c),
            Component::ParentDir => {
                out.pop();
            }
            _ => {}
        }
    }
    (out != Path::new("/")).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_on_the_way_become_links() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("usr/lib/x")).unwrap();
        std::os::unix::fs::symlink("usr/lib", root.join("lib")).unwrap();
        std::fs::write(root.join("usr/lib/x/real.so.1"), "").unwrap();
        std::os::unix::fs::symlink("real.so.1", root.join("usr/lib/x/real.so")).unwrap();
        let mut p = Places::default();
        p.add(&root.join("lib/x/real.so"));
        assert_eq!(p.links, BTreeSet::from([(root.join("lib"), "usr/lib".into())]));
        assert_eq!(p.shown, BTreeSet::from([root.join("usr/lib/x/real.so")]));
        p.add(&root.join("lib/x"));
        assert_eq!(p.shown, BTreeSet::from([root.join("usr/lib/x")]), "one holds the other");
        p.add(&root.join("usr/lib/x/real.so"));
        assert_eq!(p.shown.len(), 1);
    }

    #[test]
    fn the_system_has_libraries() {
        let p = Places::with(&[]);
        assert!(p.shown.iter().any(|d| d.join("libc.so.6").exists()), "{p:?}");
    }
}
