//! What the Rust sources and the header declare, found by reading them: so
//! that nothing is forgotten in the table. Plain text search, made for the
//! way these files are written (rustfmt, one declaration a line).

use std::collections::BTreeSet;
use std::path::Path;

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

/// Names of `src/*.rs`: `struct X`, `enum X`, `const module::X` and
/// `const module::inner::X` (a module's or impl's inner constants).
pub fn declared() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(src).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        if module != "open_enum" {
            scan(&module, code, &mut found);
        }
    }
    found
}

fn scan(module: &str, code: &str, found: &mut BTreeSet<String>) {
    let (mut inner, mut wire, mut repr_c) = (String::new(), "", false);
    for line in code.lines() {
        let (text, top) = (line.trim(), !line.starts_with(' '));
        if top {
            let head = text.strip_prefix("pub mod ").or(text.strip_prefix("impl "));
            match head {
                Some(rest) if text.ends_with('{') => inner = format!("{}::", word(rest)),
                _ if text == "}" => (inner, wire) = (String::new(), ""),
                _ if text.starts_with("wire_struct! {") => wire = "struct",
                _ if text.starts_with("wire_enum! {") => wire = "enum",
                _ => {}
            }
        } else if wire == "struct" && text.ends_with('{') && text.contains(" = ") {
            found.insert(format!("struct {}", word(text)));
        }
        if text.starts_with("#[repr(C)]") {
            repr_c = true;
        } else if let Some(rest) = text.strip_prefix("pub struct ") {
            if repr_c && !rest.starts_with('$') {
                found.insert(format!("struct {}", word(rest)));
            }
            repr_c = false;
        } else if let Some(rest) = text.strip_prefix("pub enum ") {
            // Also inside `messages!`; plain Rust enums (errors) are not on the wire.
            if text.contains(" : ") || text.contains(": u") {
                found.insert(format!("enum {}", word(rest)));
            }
        } else if let Some(rest) = text.strip_prefix("pub const ")
            && !rest.starts_with("fn ")
        {
            found.insert(format!("const {module}::{inner}{}", word(rest)));
        }
    }
}

fn header() -> String {
    std::fs::read_to_string(super::compile::include().join("vfun_wire.h")).unwrap()
}

/// `struct x` and every constant's name in the header.
pub fn header_names() -> Vec<String> {
    let mut names = Vec::new();
    for line in header().lines() {
        let text = line.trim();
        if let Some(rest) = text.strip_prefix("#define ") {
            let name = word(rest);
            if !rest[name.len()..].starts_with('(') && name != "VFUN_WIRE_H" {
                names.push(name);
            }
        } else if text.starts_with("struct ") && text.ends_with('{') {
            names.push(format!("struct {}", word(&text[7..])));
        } else if text.starts_with("VFUN_")
            && text.contains(" = ")
            && !text.contains("_NONE_ ")
            && !text.contains("##")
        {
            names.push(word(text));
        }
    }
    assert!(names.len() > 150);
    names
}

/// The inline functions of the header.
pub fn header_functions() -> Vec<String> {
    let text = header();
    let start = |l: &str| l.split('(').next().unwrap().rsplit(' ').next().unwrap().to_string();
    text.lines().filter(|l| l.starts_with("static inline")).map(start).collect()
}
