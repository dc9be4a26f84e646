//! `vfun-apigen new`.

use crate::import_command::{HeaderArguments, kept};
use crate::repository;
use clap::Args;
use std::error::Error;
use std::path::Path;
use vfun_apigen::{Made, NewApi, skeleton};

/// Begin an API from its C header: a description with a `?` wherever you are to say something, and two
/// small crates, which need no line by hand as long as the description says everything.
///
/// No file is overwritten. The command prints what to type next.
#[derive(Args)]
#[command(after_help = "Example, from the folder of VirtFun's source tree:
  vfun-apigen new thermo tools/apigen/example/thermo.h --prefix thermo_ --soname libthermo.so.1")]
pub struct NewArguments {
    /// The API's name: small letters, digits and '_', a letter first
    name: String,
    #[command(flatten)]
    header: HeaderArguments,
    /// The library on the host, as the linker has it: `thermo` for libthermo.so [default: NAME]
    #[arg(long, value_name = "LIBRARY")]
    library: Option<String>,
    /// What programs look for at run time: `readelf -d` on the library says it as SONAME [default: libLIBRARY.so]
    #[arg(long, value_name = "FILE")]
    soname: Option<String>,
}

pub fn run(arguments: &NewArguments) -> Result<(), Box<dyn Error>> {
    let (root, name) = (repository::root(), &arguments.name);
    check(name)?;
    if let Some(table) = &arguments.header.table {
        return Err(format!(
            "an API whose functions are in a table ({table}) has a back end that loads its library by hand: import the header, and copy the crates guest/pkcs11 and services/pkcs11back"
        )
        .into());
    }
    let facts = arguments.header.facts()?;
    let link = arguments.library.clone().unwrap_or(name.clone());
    let soname = arguments.soname.clone().unwrap_or(format!("lib{link}.so"));
    let header = arguments.header.name();
    let prefixes = arguments.header.prefix.clone();
    let new = NewApi { name: name.clone(), header, prefixes, link, soname };
    let mut files = skeleton(&new, &facts);
    let path = repository::description(name).join("facts.toml");
    files.insert(0, Made { path, text: kept(&new.header, &facts) });
    for file in &files {
        if root.join(&file.path).exists() {
            return Err(format!(
                "{} is there already, and nothing is overwritten: take another name, or remove what is there",
                file.path.display()
            )
            .into());
        }
    }
    let manifest = root.join("Cargo.toml");
    let members = std::fs::read_to_string(&manifest)
        .map_err(|why| format!("{} cannot be read: {why}", manifest.display()))?;
    let members = with_member(&members, &format!("guest/{name}")).ok_or(format!(
        "{} has no line \"guest/…\" in `members`: is this VirtFun's source tree?",
        manifest.display()
    ))?;
    for file in files {
        repository::write(&root.join(&file.path), &file.text)?;
        println!("{}", file.path.display());
    }
    repository::write(&manifest, &members)?;
    println!("Cargo.toml: guest/{name} is a member of the workspace");
    print!("{}", next(name, &arguments.header.options(), &arguments.header.header));
    Ok(())
}

/// The name is one of a crate, of a folder and of a vFunction.
fn check(name: &str) -> Result<(), String> {
    let good = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !good {
        return Err(format!(
            "'{name}' cannot be an API's name: small letters, digits and '_', a letter first"
        ));
    }
    vfun_wire::names::check(name).map_err(|why| format!("'{name}': {why}"))
}

/// The workspace's manifest with one member more, behind the last of the guest's.
fn with_member(manifest: &str, member: &str) -> Option<String> {
    let line = format!("    \"{member}\",\n");
    if manifest.contains(&line) {
        return Some(manifest.to_owned());
    }
    let last = manifest.rfind("    \"guest/")?;
    let end = last + manifest[last..].find('\n')? + 1;
    Some(format!("{}{line}{}", &manifest[..end], &manifest[end..]))
}

fn next(name: &str, options: &str, header: &Path) -> String {
    format!(
        "Next:
  1. In tools/apigen/apis/{name}/api.toml, say something for each \"?\" (docs/remoting.md has the words)
  2. cargo run -p vfun-apigen -- generate {name}       it names what is missing, until nothing is
  3. cargo build --release -p vfun-{name}-guest -p vfun-{name}back
When the header changes:
  cargo run -p vfun-apigen -- import {}{options} -o tools/apigen/apis/{name}/facts.toml
To keep the API in this repository, name it in docs/architecture.md (both crates), docs/SUMMARY.md (api-{name}.md)
and tests/local/tests/law.rs (where unsafe code may be): `make test` asks for these lines.
",
        header.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_comes_behind_the_last_of_the_guests() {
        let manifest = "members = [\n    \"guest/a\",\n    \"guest/c\",\n    \"tools/*\",\n]\n";
        let made = with_member(manifest, "guest/b").expect("a place");
        assert_eq!(
            made,
            "members = [\n    \"guest/a\",\n    \"guest/c\",\n    \"guest/b\",\n    \"tools/*\",\n]\n"
        );
        assert_eq!(with_member(&made, "guest/b").as_deref(), Some(&made[..]), "it is there");
        assert_eq!(with_member("[package]\n", "guest/b"), None);
    }

    #[test]
    fn names_are_those_of_crates() {
        for good in ["thermo", "pkcs11", "a_b"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["", "Thermo", "1a", "a-b", "../a", &"a".repeat(65)] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
