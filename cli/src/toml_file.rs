//! Files that people write for the manager: manifests of functions, clients and windows,
//! and the policy.

use crate::fail::{self, Exit, Failure, Result};
use std::path::Path;

/// What a file should be.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// In a word or two: "manifest of a function".
    what: &'static str,
    /// A key that each one has, if there is one.
    key: Option<&'static str>,
    /// A short one, on one line.
    example: &'static str,
    /// Where more is said.
    more: &'static str,
}

/// A function's manifest.
pub const FUNCTION: Expected = Expected {
    what: "manifest of a function",
    key: Some("name"),
    example: "name = \"gcd\"⏎ version = \"1.0\"⏎ library = \"libgcd.so\"",
    more: "docs/drivers.md explains the keys, and `vfun new NAME` writes a function with all that it needs",
};

/// A client's manifest.
pub const CLIENT: Expected = Expected {
    what: "manifest of a client",
    key: Some("name"),
    example: "name = \"vm1\"⏎ kind = \"vm\"⏎ window = \"64 MiB\"",
    more: "docs/operating.md explains the keys; `vfun client add NAME` needs no manifest",
};

/// A further window's manifest.
pub const WINDOW: Expected = Expected {
    what: "manifest of a window",
    key: Some("name"),
    example: "name = \"more\"⏎ peers = [\"vm1\"]⏎ bytes = \"64 MiB\"",
    more: "docs/operating.md explains the keys; `vfun window add NAME --vm VM` needs no manifest",
};

/// A policy.
pub const POLICY: Expected = Expected {
    what: "policy",
    key: None,
    example: "[client.vm1]⏎ functions = [\"sum\"]⏎ cpu = \"50%\"",
    more: "docs/policy.md explains the keys; `vfun policy show` shows the rules in force",
};

/// The text of a file that people name as one of these. What else is wrong with it, the
/// manager says, with the line.
pub fn read(file: &Path, expected: Expected) -> Result<String> {
    let bytes = std::fs::read(file).map_err(|e| fail::file(file, "read", &e))?;
    text(file, bytes, expected)
}

/// The same of what was read already.
pub fn text(file: &Path, bytes: Vec<u8>, expected: Expected) -> Result<String> {
    let wrong = |why: &str| {
        let Expected { what, example, more, .. } = expected;
        let lines = example.replace("⏎ ", "\n         ");
        Failure::new(Exit::Failed, format!("{} is no {what}: {why}", file.display()))
            .advise(format!("write it in TOML, such as\n         {lines}\n      {more}"))
    };
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not text in UTF-8"))?;
    match text.parse::<toml::Table>() {
        Ok(table) => match expected.key.filter(|k| !table.contains_key(*k)) {
            Some(key) => Err(wrong(&format!("it has no key `{key}`"))),
            None => Ok(text),
        },
        Err(e) => {
            let before = e.span().and_then(|s| text.get(..s.start)).unwrap_or("");
            let line = before.matches('\n').count() + 1;
            Err(wrong(&format!("line {line}: {}", e.message().trim_end_matches('.'))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_something_else_is_refused_with_an_example() {
        let said = |bytes: &[u8]| {
            let e = text(Path::new("README.md"), bytes.to_vec(), FUNCTION).unwrap_err();
            (e.what.clone(), e.text())
        };
        let (what, whole) = said(b"a = 1\n# VirtFun\n\nVirtFun lets a program\n");
        assert!(what.starts_with("README.md is no manifest of a function: line 4: "), "{what}");
        assert!(
            whole.contains("\n         version = \"1.0\"\n") && whole.contains("vfun new NAME")
        );
        assert_eq!(said(b"").0, "README.md is no manifest of a function: it has no key `name`");
        assert!(said(b"\xff").0.ends_with("not text in UTF-8"));
        let right = b"name = \"f\"\nversion = \"x\"\n".to_vec();
        assert!(text(Path::new("f.toml"), right, FUNCTION).is_ok(), "its rest is the manager's");
    }

    /// The examples are what they are examples of.
    #[test]
    fn the_examples_are_manifests() {
        let lines = |e: Expected| e.example.replace("⏎ ", "\n");
        vfun_core::manifest::client(Path::new("x"), &lines(CLIENT), 1).unwrap();
        vfun_core::manifest::window::further_window(Path::new("x"), &lines(WINDOW)).unwrap();
        vfun_policy::parse(Path::new("x"), &lines(POLICY)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("libgcd.so"), "").unwrap();
        vfun_core::manifest::function(Path::new("x"), &lines(FUNCTION), dir.path(), 1).unwrap();
    }
}
