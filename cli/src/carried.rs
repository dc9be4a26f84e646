//! Manifests that libraries and modules carry in them: what `#[vfunction]` and
//! `vfun_function.h` put into the section `.vfun.manifest`.

use crate::fail::{self, Exit, Failure, Result};
use crate::toml_file;
use object::{Object, ObjectSection};
use std::path::Path;

/// The section's name, in ELF and (as a custom section) in WebAssembly.
const SECTION: &str = ".vfun.manifest";
/// Longest manifest that is looked at: as a file's may be.
const MANIFEST_BYTES_MAX: usize = 64 << 10;

/// What a function's file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A shared library.
    Native,
    /// A WebAssembly module.
    Wasm,
    /// Anything else: a manifest, if it is text.
    Text,
}

impl Kind {
    /// By a file's first bytes.
    pub fn of(bytes: &[u8]) -> Kind {
        match bytes {
            [0x7f, b'E', b'L', b'F', ..] => Kind::Native,
            [0, b'a', b's', b'm', ..] => Kind::Wasm,
            _ => Kind::Text,
        }
    }
}

/// A number in LEB128, as WebAssembly has lengths, and what follows it.
fn leb(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut n = 0u64;
    for (i, b) in bytes.iter().enumerate().take(5) {
        n |= u64::from(b & 0x7f) << (7 * i);
        if b & 0x80 == 0 {
            return Some((usize::try_from(n).ok()?, &bytes[i + 1..]));
        }
    }
    None
}

/// The module's custom section of that name.
fn custom_section<'a>(module: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut rest = module.get(8..)?;
    while let Some((id, after)) = rest.split_first() {
        let (len, after) = leb(after)?;
        let (section, next) = after.split_at_checked(len)?;
        if *id == 0 {
            let (len, named) = leb(section)?;
            let (its, content) = named.split_at_checked(len)?;
            if its == name.as_bytes() {
                return Some(content);
            }
        }
        rest = next;
    }
    None
}

/// The manifest in a library's or module's bytes, without `kind` and `library`.
pub fn manifest(file: &Path, bytes: &[u8]) -> Result<String> {
    let none = || {
        Failure::new(Exit::Failed, format!("{} carries no manifest", file.display())).advise(
            "libraries made with #[vfunction] or vfun_function.h do; for others write a manifest and name that",
        )
    };
    let found = match Kind::of(bytes) {
        Kind::Text => None,
        Kind::Wasm => custom_section(bytes, SECTION),
        Kind::Native => {
            let elf = object::File::parse(bytes).map_err(|e| {
                Failure::new(Exit::Failed, format!("{} is no shared library: {e}", file.display()))
            })?;
            let section = elf.section_by_name(SECTION);
            return text(file, section.and_then(|s| s.data().ok()).ok_or_else(none)?);
        }
    };
    text(file, found.ok_or_else(none)?)
}

fn text(file: &Path, bytes: &[u8]) -> Result<String> {
    let wrong =
        |why: &str| Failure::new(Exit::Failed, format!("the manifest in {} {why}", file.display()));
    if bytes.len() > MANIFEST_BYTES_MAX {
        return Err(wrong("is longer than 64 KiB"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("is not UTF-8"))?;
    Ok(text.to_owned())
}

/// The manifest of a file: itself, or the one that it carries, completed.
pub fn complete(file: &Path) -> Result<String> {
    let bytes = std::fs::read(file).map_err(|e| fail::file(file, "read", &e))?;
    let kind = match Kind::of(&bytes) {
        Kind::Native => "native",
        Kind::Wasm => "wasm",
        Kind::Text => return toml_file::text(file, bytes, toml_file::FUNCTION),
    };
    let path = std::path::absolute(file).map_err(|e| fail::file(file, "found", &e))?;
    let path = path.to_str().ok_or_else(|| {
        Failure::new(Exit::Failed, format!("{} is a path that is not UTF-8", file.display()))
    })?;
    completed(file, &manifest(file, &bytes)?, kind, path)
}

/// What a file may say of itself. What it may read, where it runs and what it
/// is are for whoever adds it to say.
const OWN_KEYS: [&str; 6] = ["name", "version", "summary", "signature", "memory", "deadline_ms"];

fn completed(file: &Path, carried: &str, kind: &str, library: &str) -> Result<String> {
    let wrong = |why: String| {
        Failure::new(Exit::Failed, format!("the manifest in {}: {why}", file.display()))
    };
    let mut table: toml::Table =
        carried.parse().map_err(|e: toml::de::Error| wrong(e.message().to_owned()))?;
    if let Some(key) = table.keys().find(|k| !OWN_KEYS.contains(&k.as_str())) {
        return Err(wrong(format!("it says '{key}'")).advise(
            "only a manifest of its own may say that: write one, and name the library in it",
        ));
    }
    table.insert("kind".into(), kind.into());
    table.insert("library".into(), library.into());
    Ok(table.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module of custom sections.
    fn module(sections: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = b"\0asm\x01\0\0\0".to_vec();
        for (name, content) in sections {
            bytes.extend([0, (1 + name.len() + content.len()) as u8, name.len() as u8]);
            bytes.extend(name.as_bytes());
            bytes.extend(*content);
        }
        bytes
    }

    #[test]
    fn a_modules_section_is_found_among_others() {
        let bytes = module(&[("name", b"x"), (SECTION, b"name = \"gcd\"\n"), ("producers", b"")]);
        assert_eq!(manifest(Path::new("f"), &bytes).unwrap(), "name = \"gcd\"\n");
        let none = manifest(Path::new("f.wasm"), &module(&[("name", b"")])).unwrap_err();
        assert!(format!("{none:?}").contains("f.wasm carries no manifest"), "{none:?}");
    }

    #[test]
    fn a_file_says_what_it_is_called_and_not_what_it_may_do() {
        let file = Path::new("f.wasm");
        let whole =
            completed(file, "name = \"gcd\"\nversion = \"1.0\"\n", "wasm", "/f.wasm").unwrap();
        let t: toml::Table = whole.parse().unwrap();
        assert_eq!((t["kind"].as_str(), t["library"].as_str()), (Some("wasm"), Some("/f.wasm")));
        for more in
            ["kind = \"native\"", "library = \"/x.so\"", "reads = []", "[settings]", "[hardware]"]
        {
            let e = completed(file, &format!("name = \"gcd\"\n{more}\n"), "wasm", "/f.wasm");
            assert!(format!("{:?}", e.unwrap_err()).contains("it says '"), "{more}");
        }
    }

    #[test]
    fn broken_files_are_named_and_nothing_is_read_beyond_them() {
        let whole = module(&[(SECTION, b"name = 1\n")]);
        for len in 0..whole.len() {
            assert!(manifest(Path::new("f"), &whole[..len]).is_err(), "{len} bytes");
        }
        assert!(manifest(Path::new("f"), b"\x7fELF and nothing of the kind").is_err());
        assert!(manifest(Path::new("f"), &module(&[(SECTION, b"\xff")])).is_err());
        assert_eq!(leb(&[0xff; 9]), None);
        assert_eq!(leb(&[0x80, 0x01]), Some((128, &[][..])));
    }
}
