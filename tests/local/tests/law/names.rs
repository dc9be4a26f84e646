//! Types of one name in one crate: a reader of the one takes it for the other.

use super::reads::shipped;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names that a crate has twice and keeps, and why.
const STAYS: &[(&str, &str, &str)] = &[
    ("vfun-cli", "Args", "each command's arguments, in its own module"),
    ("vfun-cli", "Sub", "each command's subcommands, in its own module"),
    ("vfun-core", "Stage", "a buffer's is renamed when buffers are next changed"),
    ("vfun-fpga", "Model", "one or the other is compiled"),
    ("vfun-gdma", "Model", "one or the other is compiled"),
    ("vfun-barevm", "Machine", "one or the other is compiled"),
    ("vfun-bench", "Bars", "renamed when the charts are next changed"),
    ("vfun-bench", "Crowd", "renamed when the benches are next changed"),
    ("vfun-bench", "Held", "renamed when the benches are next changed"),
    ("vfun-bench", "Lab", "renamed when the benches are next changed"),
    ("vfun-bench", "Line", "renamed when the benches are next changed"),
    ("vfun-bench", "Outcome", "renamed when the benches are next changed"),
    ("vfun-bench", "Queue", "renamed when the benches are next changed"),
    ("vfun-bench", "Times", "renamed when the benches are next changed"),
];

/// Names of the types that a source declares, also inside of functions. Types of traits
/// and of their implementations are theirs, and are not counted.
fn types(text: &str) -> Vec<String> {
    let declared = |line: &str| {
        let code = line.trim_start();
        let code = match code.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
            Some(rest) => rest.strip_prefix(' ')?,
            None => code,
        };
        let (word, rest) = code.strip_prefix("unsafe ").unwrap_or(code).split_once(' ')?;
        let own = word == "type" && !line.starts_with(' ');
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let counts = own || ["struct", "enum", "union", "trait"].contains(&word);
        (counts && !name.is_empty()).then_some(name)
    };
    shipped(text).lines().filter_map(declared).collect()
}

/// The names that a crate's sources declare more than once, as sentences. Each source
/// comes with its path.
pub fn twice(package: &str, sources: &[(PathBuf, String)]) -> Vec<String> {
    let mut at: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
    for (path, text) in sources {
        for name in types(text) {
            at.entry(name).or_default().push(path);
        }
    }
    let stays = |name: &str| STAYS.iter().any(|(p, n, _)| (*p, *n) == (package, name));
    at.retain(|name, files| files.len() > 1 && !stays(name));
    let sentence = |(name, files): (String, Vec<&Path>)| {
        let files: Vec<_> = files.iter().map(|f| f.display().to_string()).collect();
        format!("{package} has two types `{name}`: {}", files.join(", "))
    };
    at.into_iter().map(sentence).collect()
}

#[test]
fn two_types_of_one_name_are_found() {
    let of = |texts: &[&str]| {
        let sources = texts.iter().map(|t| (PathBuf::from("a.rs"), (*t).to_owned()));
        twice("vfun-x", &sources.collect::<Vec<_>>()).len()
    };
    assert_eq!(of(&["pub struct Held;\n", "mod a;\nenum Held<'a> {\n}\n"]), 1);
    assert_eq!(of(&["pub(crate) trait Seen {}\nfn f() {\n    struct Seen;\n}\n"]), 1);
    assert_eq!(of(&["pub type Key = u8;\n", "pub(super) struct Key(u8);\n"]), 1);
    for lawful in [
        ["struct Held;\n", "struct HeldCall;\n"],
        ["struct Held;\n", "// struct Held;\n"],
        ["impl A for B {\n    type Found = u8;\n}\n", "impl A for C {\n    type Found = u8;\n}\n"],
        ["struct Held;\n", "#[cfg(test)]\nmod tests {\n    struct Held;\n}\n"],
        ["pub enum $name {\n", "pub enum $name {\n"],
    ] {
        assert_eq!(of(&lawful), 0, "{lawful:?}");
    }
}
