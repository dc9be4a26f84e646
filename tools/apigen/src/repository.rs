//! Where the files of an API are: in the repository in which this program was built.

use std::path::{Path, PathBuf};

/// Its root.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap_or(root)
}

/// The folder of an API's description, from the root.
pub fn description(api: &str) -> PathBuf {
    Path::new("tools/apigen/apis").join(api)
}

/// The APIs that are described, for people.
pub fn described(root: &Path) -> String {
    let folders = std::fs::read_dir(root.join(description(""))).into_iter().flatten().flatten();
    let mut names: Vec<_> = folders.map(|f| f.file_name().display().to_string()).collect();
    names.sort();
    names.join(", ")
}

/// Writes a file, and makes its folder if there is none.
pub fn write(file: &Path, text: &str) -> Result<(), String> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(file, text))
        .map_err(|why| format!("{} cannot be written: {why}", file.display()))
}
