//! What a source file takes from others without Cargo: files that it includes, and
//! crates that its code names.

use std::path::{Component, Path, PathBuf};

/// One thing that a file takes from elsewhere.
#[derive(Debug, PartialEq)]
pub enum Read {
    /// A file, from the repository's root.
    File(PathBuf),
    /// A crate, as code writes it: `vfun_sdk`.
    Crate(String),
    /// An include whose file the law cannot tell from the text.
    Unclear(String),
}

/// What the text of the file at `at` takes from elsewhere. `files` are all files,
/// from the repository's root: a C include is looked up beside the file, then by name.
pub fn reads(at: &Path, text: &str, files: &[PathBuf]) -> Vec<Read> {
    match at.extension().and_then(|e| e.to_str()) {
        Some("rs") => rust(at, text),
        Some("c" | "h" | "cpp") => c(at, text, files),
        _ => vec![],
    }
}

fn rust(at: &Path, text: &str) -> Vec<Read> {
    let mut found = vec![];
    let code = shipped(text);
    for (n, line) in code.lines().enumerate() {
        for word in ["include!(", "include_str!(", "include_bytes!(", "#[path = "] {
            let Some((_, rest)) = line.split_once(word) else { continue };
            found.push(match rest.strip_prefix('"').and_then(|r| r.split_once('"')) {
                Some((path, _)) => Read::File(beside(at, path)),
                None => Read::Unclear(format!("{}:{}: {}", at.display(), n + 1, line.trim())),
            });
        }
    }
    found.extend(crates(&code).map(Read::Crate));
    found
}

/// Rust's text without comments, and without the unit tests at its end: what a crate is
/// tested with is not what it is made of.
pub fn shipped(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().expect("one part at least");
    text.lines().map(|l| l.split("//").next().expect("one part").to_owned() + "\n").collect()
}

/// Each crate of VirtFun's that a path begins with: in a `use`, in code, and in the
/// code that a macro writes.
fn crates(code: &str) -> impl Iterator<Item = String> {
    code.match_indices("vfun").filter_map(|(from, _)| {
        let begins = !code[..from].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let end = code[from..].find(|c: char| !c.is_alphanumeric() && c != '_')? + from;
        (begins && code[end..].starts_with("::")).then(|| code[from..end].to_owned())
    })
}

fn c(at: &Path, text: &str, files: &[PathBuf]) -> Vec<Read> {
    let included = text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
        let rest = rest.trim().strip_prefix(['"', '<'])?;
        rest.split(['"', '>']).next()
    });
    included
        .flat_map(|path| {
            let near = beside(at, path);
            let near_is_there = files.contains(&near);
            // The system's headers, and those that are made by a build, are in no folder.
            let by_name = files.iter().filter(|t| !near_is_there && t.ends_with(path)).cloned();
            near_is_there.then_some(near).into_iter().chain(by_name).collect::<Vec<_>>()
        })
        .map(Read::File)
        .collect()
}

/// A path that is written in the file at `at`, from the repository's root.
fn beside(at: &Path, path: &str) -> PathBuf {
    let mut whole = at.parent().expect("a file is in a folder").to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => assert!(whole.pop(), "{path} leaves the repository"),
            part => whole.push(part),
        }
    }
    whole
}

#[test]
fn what_is_read_is_found() {
    let paths = ["protocol/wire/include/vfun_wire.h", "guest/kmod/window.h", "host/a/x.h"];
    let files: Vec<PathBuf> = paths.map(PathBuf::from).into();
    let of = |at: &str, text: &str| reads(Path::new(at), text, &files);
    let file = |path: &str| Read::File(path.into());
    assert_eq!(
        of("host/b/src/m.rs", "const T: &str = include_str!(\"../../c/t.sh\"); // include!(1)\n"),
        [file("host/c/t.sh")]
    );
    assert_eq!(of("host/b/src/m.rs", "#[path = \"n.rs\"]\nmod n;\n"), [file("host/b/src/n.rs")]);
    assert!(matches!(of("host/b/src/m.rs", "include!(concat!(A, B));")[..], [Read::Unclear(_)]));
    let names =
        "use vfun_wire::x; // vfun_a::x\nquote!(::vfun_sdk::Driver, $crate::vfun::f(my_vfun::g))";
    assert_eq!(
        of("guest/a/src/lib.rs", names),
        ["vfun_wire", "vfun_sdk", "vfun"].map(|n| Read::Crate(n.into()))
    );
    let tested = "fn f() {}\n#[cfg(test)]\nmod tests {\n    use vfun_sdk::x;\n}\n";
    assert_eq!(of("guest/a/src/lib.rs", tested), []);
    assert_eq!(
        of("guest/kmod/map.c", "#include \"window.h\"\n# include <vfun_wire.h>\n#include <a.h>\n"),
        [file("guest/kmod/window.h"), file("protocol/wire/include/vfun_wire.h")]
    );
}
