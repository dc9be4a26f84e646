//! The files of a new API: what a description begins with, and two crates with nothing by hand.

use crate::facts::{CFunction, CType, Facts};
use crate::generate::Made;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// What a new API is, before anything is said of its functions.
#[derive(Clone, Debug)]
pub struct NewApi {
    /// Small letters, digits and `_`, a letter first.
    pub name: String,
    /// The header's name.
    pub header: String,
    /// Beginnings of names that kinds of objects do without.
    pub prefixes: Vec<String>,
    /// The library on the host as the linker has it: `thermo` for `libthermo.so`.
    pub link: String,
    /// What programs look for: the name for the linker at run time, such as `libthermo.so.1`.
    pub soname: String,
}

/// Longest call and answer of a new API, bytes.
const CELL: u32 = 4096;
/// The first number of an API's own function (vfun_remoting::numbers::FIRST).
const FIRST: usize = 16;

/// Where a file goes, and its text before words are replaced.
const CRATES: [(&str, &str); 9] = [
    ("guest/@NAME@/Cargo.toml", include_str!("../skeleton/guest-Cargo.toml.in")),
    ("guest/@NAME@/build.rs", include_str!("../skeleton/guest-build.rs.in")),
    ("guest/@NAME@/src/lib.rs", include_str!("../skeleton/guest-lib.rs.in")),
    ("guest/@NAME@/src/hand.rs", include_str!("../skeleton/guest-hand.rs.in")),
    ("services/@NAME@back/Cargo.toml", include_str!("../skeleton/host-Cargo.toml.in")),
    ("services/@NAME@back/build.rs", include_str!("../skeleton/host-build.rs.in")),
    ("services/@NAME@back/src/lib.rs", include_str!("../skeleton/host-lib.rs.in")),
    ("services/@NAME@back/src/hand.rs", include_str!("../skeleton/host-hand.rs.in")),
    (
        "services/@NAME@back/functions/@NAME@/function.toml",
        include_str!("../skeleton/function.toml.in"),
    ),
];

/// All files of a new API but facts.toml, by their paths from the repository's root.
pub fn skeleton(new: &NewApi, facts: &Facts) -> Vec<Made> {
    let folder = Path::new("tools/apigen/apis").join(&new.name);
    let mut all = vec![
        Made { path: folder.join("api.toml"), text: description(new, facts) },
        Made { path: folder.join("numbers.toml"), text: numbers(facts) },
    ];
    let fill = |text: &str| fill(new, text);
    all.extend(
        CRATES.iter().map(|(path, text)| Made { path: fill(path).into(), text: fill(text) }),
    );
    all
}

fn fill(new: &NewApi, text: &str) -> String {
    let mut of_type = new.name.clone();
    of_type[..1].make_ascii_uppercase();
    text.replace("@NAME@", &new.name)
        .replace("@TYPE@", &of_type.replace('_', ""))
        .replace("@UPPER@", &new.name.to_uppercase())
        .replace("@HEADER@", &new.header)
        .replace("@LIBRARY@", &format!("lib{}.so", new.link))
        .replace("@LINK@", &new.link)
        .replace("@SONAME@", &new.soname)
        .replace("@CELL@", &CELL.to_string())
}

/// numbers.toml: the header's order.
fn numbers(facts: &Facts) -> String {
    let mut text = String::from(
        "# Pinned: a number is never changed and never used again. New functions come at the end.\nretired = []\n\n[number]\n",
    );
    for (n, function) in facts.functions.iter().enumerate() {
        let _ = writeln!(text, "{} = {}", function.name, FIRST + n);
    }
    text
}

/// api.toml, with a `?` wherever a person is to say something.
fn description(new: &NewApi, facts: &Facts) -> String {
    let mut text = fill(new, include_str!("../skeleton/api.toml.in"));
    text = text.replace("@STATUS@", &status(facts)).replace("@OK@", &ok(facts));
    for (n, name) in objects(facts).into_iter().enumerate() {
        let short = new.prefixes.iter().find_map(|prefix| name.strip_prefix(prefix.as_str()));
        let kind = short.filter(|short| !short.is_empty()).unwrap_or(name);
        let number = n + 1;
        let _ =
            writeln!(text, "{kind} = {{ number = {number}, pointer = \"{name}\", end = \"?\" }}");
    }
    for function in &facts.functions {
        text.push_str(&entry(function));
    }
    text
}

/// The type that most functions return.
fn status(facts: &Facts) -> String {
    let mut often: BTreeMap<String, usize> = BTreeMap::new();
    for function in facts.functions.iter().filter(|f| f.returns != CType::Void) {
        *often.entry(function.returns.to_string()).or_default() += 1;
    }
    often.into_iter().max_by_key(|(_, times)| *times).map_or("i32".into(), |(ty, _)| ty)
}

/// The constant that means success, if one has such a name.
fn ok(facts: &Facts) -> String {
    let named = |name: &&String| ["_OK", "_SUCCESS"].iter().any(|end| name.ends_with(end));
    facts.constants.keys().find(named).cloned().unwrap_or("?".into())
}

/// The structs without members that functions point to, in the header's order.
fn objects(facts: &Facts) -> Vec<&str> {
    let mut all = vec![];
    for parameter in facts.functions.iter().flat_map(|f| &f.parameters) {
        if let Some(name) = parameter.ty.opaque().filter(|name| !all.contains(name)) {
            all.push(name);
        }
    }
    all
}

/// A function, with a `?` for each parameter whose type does not say what it is for.
fn entry(function: &CFunction) -> String {
    let CFunction { name, returns, parameters } = function;
    let all: Vec<_> = parameters.iter().map(|p| format!("{}: {}", p.name, p.ty)).collect();
    let mut text = format!("\n# {name}({}) -> {returns}\n[function.{name}]\n", all.join(", "));
    let object =
        |ty: &CType| matches!(ty, CType::Pointer { to, .. } if matches!(**to, CType::Opaque(_)));
    if matches!(&parameters[..], [one] if object(&one.ty)) {
        text.push_str("frees = \"?\"\n");
    }
    let open = |ty: &CType| {
        matches!(ty, CType::Pointer { .. } | CType::Function { .. } | CType::Struct(_))
            && !object(ty)
    };
    let unsaid = parameters.iter().filter(|p| open(&p.ty));
    let unsaid: Vec<_> = unsaid.map(|p| format!("{} = \"?\"", p.name)).collect();
    if !unsaid.is_empty() {
        let _ = writeln!(text, "parameters = {{ {} }}", unsaid.join(", "));
    }
    text
}
