//! Names of C's that mean something else in the code that is made: they get a `_` at the end there. A
//! description has them as the header has them.

use crate::model::{Does, FunctionModel, Length, Role};

/// Words of Rust that are none of C.
const WORDS: &[&str] = &[
    "Self", "abstract", "as", "async", "await", "become", "box", "crate", "dyn", "false", "final",
    "fn", "gen", "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override",
    "priv", "pub", "ref", "self", "super", "trait", "true", "try", "type", "typeof", "unsafe",
    "unsized", "use", "virtual", "where", "yield",
];

/// What generated functions call things of their own.
const OWN: &[&str] = &[
    "answer", "args", "cx", "found", "fresh", "kept", "link", "native", "outs", "packed", "parent",
    "r", "reply", "returned", "state", "turn", "w", "within",
];

/// What they add to a parameter's name, for what belongs to it.
const ADDED: &[&str] = &[
    "_answer",
    "_asked",
    "_bytes",
    "_instead",
    "_list",
    "_name",
    "_names",
    "_new",
    "_object",
    "_packed",
    "_place",
    "_places",
    "_room",
    "_shown",
    "_value",
    "_was_last",
    "_zeros",
];

/// A struct's member in Rust. `r` is what a member is read from.
pub fn of_member(name: &str) -> String {
    if WORDS.contains(&name) || name == "r" { format!("{name}_") } else { name.into() }
}

/// Gives a function's parameters the names that they have in Rust.
pub fn rename(function: &mut FunctionModel) {
    let all: Vec<String> = function.parameters.iter().map(|p| p.name.clone()).collect();
    let rename = |name: &mut String| {
        let taken = WORDS.contains(&name.as_str()) || OWN.contains(&name.as_str());
        let added = |other: &String| name.strip_prefix(other.as_str());
        if taken || all.iter().filter_map(added).any(|added| ADDED.contains(&added)) {
            name.push('_');
        }
    };
    for parameter in &mut function.parameters {
        rename(&mut parameter.name);
        others(&mut parameter.role).into_iter().for_each(rename);
    }
    if let Does::Call { frees: Some(frees), .. } = &mut function.does {
        rename(frees);
    }
}

/// The parameters that go with one.
fn others(role: &mut Role) -> Vec<&mut String> {
    match role {
        Role::InBytes { length: Length::Said(other) }
        | Role::InNumbers { count: other, .. }
        | Role::InList { count: other, .. }
        | Role::OutBytes { length: other }
        | Role::OutNumbers { count: other, .. }
        | Role::OutExact { length: other, .. }
        | Role::FillList { count: other, .. } => vec![other],
        Role::FoundList { most, count, .. } => vec![most, count],
        _ => vec![],
    }
}
