//! Which libraries a program needs, found with `ldd`.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::error::{Doing, GuestError};

const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;

/// What kind of file this is, as far as its libraries matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not a 64-bit little-endian ELF file: a script, data.
    NotElf,
    /// A program that needs nothing.
    Static,
    /// A program or a library that may need libraries.
    Dynamic,
}

/// Looks at the file's program headers.
pub(crate) fn kind(file: &File) -> Kind {
    let mut head = [0u8; 64];
    if file.read_exact_at(&mut head, 0).is_err() || !head.starts_with(b"\x7fELF\x02\x01") {
        return Kind::NotElf;
    }
    let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let offset = u64::from_le_bytes(head[32..40].try_into().unwrap_or_default());
    let (size, count) = (u64::from(u16_at(54)), u64::from(u16_at(56)));
    for i in 0..count {
        let mut kind = [0u8; 4];
        let Some(at) = i.checked_mul(size).and_then(|x| x.checked_add(offset)) else {
            break;
        };
        if file.read_exact_at(&mut kind, at).is_err() {
            break;
        }
        if matches!(u32::from_le_bytes(kind), PT_DYNAMIC | PT_INTERP) {
            return Kind::Dynamic;
        }
    }
    Kind::Static
}

/// A library that a program needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Needed {
    /// As the program has it: mostly a file's name.
    pub name: String,
    /// Where it is on this host, if it is.
    pub place: Option<PathBuf>,
}

/// The libraries, loader included, that `program` needs.
pub(crate) fn libraries(program: &Path) -> Result<Vec<Needed>> {
    let path = program.display();
    let mut child = Command::new("ldd")
        .arg(program)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|_| GuestError::MissingProgram {
            program: "ldd".into(),
            package: "libc-bin".into(),
        })?;
    let mut text = String::new();
    if let Some(out) = child.stdout.take() {
        out.take(1 << 20)
            .read_to_string(&mut text)
            .doing(|| format!("cannot read what ldd says about {path}"))?;
    }
    child.wait().doing(|| format!("cannot run ldd on {path}"))?;
    Ok(parse(&text))
}

/// Takes `ldd`'s output apart.
fn parse(text: &str) -> Vec<Needed> {
    let mut needed = Vec::new();
    for line in text.lines().map(str::trim) {
        let (name, place) = line.split_once(" => ").unwrap_or((line, line));
        let without_address =
            |text: &str| text.rsplit_once(" (0x").map_or(text, |(path, _)| path).trim().to_owned();
        let (name, path) = (without_address(name), without_address(place));
        if place.starts_with("not found") {
            needed.push(Needed { name, place: None });
        } else if path.starts_with('/') && !path.ends_with(':') {
            needed.push(Needed { name, place: Some(path.into()) });
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_is_understood() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                    \tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f1)\n\
                    \tlibx.so => /opt/my lib/libx.so (0x00007f2)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f3)\n";
        let loader = "/lib64/ld-linux-x86-64.so.2";
        let want = [
            ("libgcc_s.so.1", "/lib/x86_64-linux-gnu/libgcc_s.so.1"),
            ("libx.so", "/opt/my lib/libx.so"),
            (loader, loader),
        ];
        let want =
            want.map(|(name, at)| Needed { name: name.into(), place: Some(PathBuf::from(at)) });
        assert_eq!(parse(text), want);
        assert!(parse("\tstatically linked\n").is_empty());
        assert!(parse("\tnot a dynamic executable\n").is_empty());
        let missing = Needed { name: "libz.so.9".into(), place: None };
        assert_eq!(parse("\tlibz.so.9 => not found\n"), [missing]);
    }

    #[test]
    fn kinds_are_told_apart() {
        let me = std::env::current_exe().unwrap();
        assert_eq!(kind(&File::open(&me).unwrap()), Kind::Dynamic);
        assert!(libraries(&me).unwrap().iter().any(|l| l.name.starts_with("libc.so")));
        assert_eq!(kind(&File::open("/proc/self/status").unwrap()), Kind::NotElf);
    }
}
