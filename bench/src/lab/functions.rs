//! Finds the manifests of the functions that ship.

use crate::{BenchError, Result};
use std::path::{Path, PathBuf};

/// The folder of functions: the one named, else `functions` (a checkout) or
/// `share/virtfun/functions` (an installation) in a folder above this program.
pub fn folder(named: Option<&Path>, program: &Path) -> Result<PathBuf> {
    let places: Vec<PathBuf> = match named {
        Some(folder) => vec![folder.to_owned()],
        None => {
            let above = || program.ancestors().skip(1).take(4);
            let checkout = above().map(|d| d.join("functions"));
            let installed = above().map(|d| d.join("share/virtfun/functions"));
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("functions");
            checkout.chain(installed).chain([source]).collect()
        }
    };
    match places
        .iter()
        .find(|p| p.join("echo/function.toml").is_file() || p.join("echo.toml").is_file())
    {
        Some(folder) => Ok(folder.clone()),
        None => {
            let looked =
                places.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
            Err(BenchError::NoFunctions { looked })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_folder_is_the_only_one() {
        let empty = tempfile::tempdir().unwrap();
        let e = folder(Some(empty.path()), Path::new("/x/y")).unwrap_err().to_string();
        assert!(
            e.contains(&empty.path().display().to_string()) && e.contains("--functions"),
            "{e}"
        );
        std::fs::create_dir(empty.path().join("echo")).unwrap();
        std::fs::write(empty.path().join("echo/function.toml"), "").unwrap();
        assert_eq!(folder(Some(empty.path()), Path::new("/x/y")).unwrap(), empty.path());
    }

    #[test]
    fn a_checkout_is_found_from_its_programs() {
        let root = tempfile::tempdir().unwrap();
        let echo = root.path().join("functions/echo");
        std::fs::create_dir_all(&echo).unwrap();
        std::fs::write(echo.join("function.toml"), "").unwrap();
        let program = root.path().join("target/release/vfun-bench");
        assert_eq!(folder(None, &program).unwrap(), root.path().join("functions"));
    }

    #[test]
    fn an_installation_is_found_from_its_programs() {
        let root = tempfile::tempdir().unwrap();
        let functions = root.path().join("share/virtfun/functions");
        std::fs::create_dir_all(&functions).unwrap();
        std::fs::write(functions.join("echo.toml"), "").unwrap();
        let program = root.path().join("lib/virtfun/vfun-bench");
        assert_eq!(folder(None, &program).unwrap(), functions);
    }
}
