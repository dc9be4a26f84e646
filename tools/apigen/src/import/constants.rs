//! Macros that are numbers. clang itself evaluates them: each becomes an enumerator in a
//! second run, and those that clang refuses are no numbers.

use super::ImportError;
use super::syntax::SyntaxNode;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Before a macro's name, so that it clashes with nothing.
const ANSWER: &str = "vfun_constant_";

pub struct MacroNames {
    /// Macros of the API's own files that could be numbers. One that was undefined later is no
    /// number to clang.
    names: BTreeSet<String>,
    /// The header, and what it includes that is no system's header.
    pub own_files: BTreeSet<String>,
}

/// Reads what `clang -E -dD` prints.
pub fn macros(text: &str, header: &Path) -> MacroNames {
    let mut macros = MacroNames { names: BTreeSet::new(), own_files: BTreeSet::new() };
    let mut own = false;
    for line in text.lines() {
        if let Some((file, system)) = line_mark(line) {
            own = is_own(file, system, header);
            if own {
                macros.own_files.insert(file.to_owned());
            }
        } else if let Some(definition) = line.strip_prefix("#define ").filter(|_| own) {
            macros.names.extend(plain_macro(definition));
        }
    }
    macros
}

impl MacroNames {
    /// C that asks for the value of each.
    pub fn questions(&self) -> String {
        self.names.iter().map(|name| format!("enum {{ {ANSWER}{name} = ({name}) }};\n")).collect()
    }
}

/// The values, from the tree of [`MacroNames::questions`].
pub fn answers(text: &str) -> Result<BTreeMap<String, i64>, ImportError> {
    let mut values = BTreeMap::new();
    for node in SyntaxNode::read(text)?.inner() {
        let (node, _) = node?;
        let answer =
            if node.kind == "EnumDecl" { node.inner_of("EnumConstantDecl")? } else { None };
        let Some(answer) = answer else { continue };
        let name = answer.name_text();
        let value = answer.initializer()?.map(|e| e.evaluated()).transpose()?.flatten();
        if let Some((name, value)) = name.strip_prefix(ANSWER).zip(value) {
            values.insert(name.to_owned(), value);
        }
    }
    Ok(values)
}

/// `# 12 "file.h" 1 3`: the file, and whether it is a system's header (3).
fn line_mark(line: &str) -> Option<(&str, bool)> {
    let (_, rest) = line.strip_prefix("# ")?.split_once(" \"")?;
    let (file, flags) = rest.rsplit_once('"')?;
    Some((file, flags.split_whitespace().any(|flag| flag == "3")))
}

/// Headers under /usr/include are a system's for clang, also those of the API: then all in
/// the header's own folder count, if it has one of its own.
fn is_own(file: &str, system: bool, header: &Path) -> bool {
    let folder = Path::new(file).parent();
    let beside = folder == header.parent() && folder != Some(Path::new("/usr/include"));
    Path::new(file) == header || !file.starts_with('<') && (!system || beside)
}

/// The name of a macro with a body and without parameters.
fn plain_macro(definition: &str) -> Option<String> {
    let (name, body) = definition.split_once(' ')?;
    (!name.contains('(') && !body.trim().is_empty()).then(|| name.to_owned())
}
