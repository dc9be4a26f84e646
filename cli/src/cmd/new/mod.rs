//! `vfun new`.

use crate::cmd::bindgen;
use crate::fail::{self, Exit, Failure, Result};
use crate::out::{self, Output};
use serde_json::json;
use std::path::{Path, PathBuf};

const AFTER: &str = "\
Examples:
  vfun new total --lang rust && cd total && cargo test
  vfun new total --lang c && cd total && make test
The host's own functions are drivers as well: docs/drivers.md shows one that keeps a state.";

/// The folder of VirtFun's source tree that shows that one is there.
const MARK: &str = "services/sdk/Cargo.toml";

/// Write a small project with a function of your own.
///
/// The project builds as it is, has a test, and its library carries its manifest. The command prints
/// what to type next.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// The function's name: letters, digits and '_', in small letters.
    name: String,
    /// Its language.
    #[arg(long, value_name = "LANGUAGE", value_parser = ["c", "rust"])]
    lang: String,
    /// Folder to write to; it must not exist yet [default: NAME].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// VirtFun's source tree, or its git address [default: the tree in which this vfun was built].
    #[arg(long, value_name = "DIR|URL")]
    source: Option<String>,
}

/// Writes it.
pub fn run(output: Output, args: &Args) -> Result<()> {
    check(&args.name)?;
    let source = Source::find(args.source.as_deref())?;
    let dir = args.dir.clone().unwrap_or_else(|| args.name.clone().into());
    let files = match args.lang.as_str() {
        "rust" => rust(source.ok_or_else(no_source)?),
        _ => c(source.as_ref()),
    };
    std::fs::create_dir(&dir).map_err(|e| {
        let failure = fail::file(&dir, "made", &e);
        match e.kind() {
            std::io::ErrorKind::AlreadyExists => failure.advise("name another folder with --dir"),
            _ => failure,
        }
    })?;
    let mut written = vec![];
    for (path, text) in files {
        let path = dir.join(path.replace("@NAME@", &args.name));
        let text = text.replace("@NAME@", &args.name);
        let parent = path.parent().unwrap_or(&dir);
        std::fs::create_dir_all(parent).map_err(|e| fail::file(parent, "made", &e))?;
        std::fs::write(&path, text).map_err(|e| fail::file(&path, "written", &e))?;
        written.push(path);
    }
    let next = next(&args.name, &args.lang, &dir);
    if output.is_json() {
        return out::json(&json!({ "written": written, "next": next }));
    }
    let list: String = written.iter().map(|p| format!("{}\n", p.display())).collect();
    out::text(&format!("{list}Next:\n  {}\n", next.join("\n  ")))
}

/// What to type, with what is said of it.
fn next(name: &str, lang: &str, dir: &Path) -> Vec<String> {
    let (test, build, library) = match lang {
        "rust" => (
            "cargo test",
            "cargo build --release --features driver",
            format!("target/release/lib{name}.so"),
        ),
        _ => ("make test", "make", format!("lib{name}.so")),
    };
    vec![
        format!("cd {}", dir.display()),
        test.into(),
        build.into(),
        format!("vfun function add {library}"),
        format!("vfun call {name} 2 40"),
    ]
}

/// The name is an identifier of C and of Rust.
fn check(name: &str) -> Result<()> {
    let good = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let wrong = |why: String| Err(Failure::usage(why));
    if !good {
        return wrong(format!(
            "'{name}' cannot be a function's name in C or Rust: small letters, digits and '_', a letter first"
        ));
    }
    if bindgen::is_word(name) || ["core", "main", "std", "submit", "test", "tests"].contains(&name)
    {
        return wrong(format!("'{name}' means something else already: choose another name"));
    }
    vfun_wire::names::check(name).or_else(|e| wrong(format!("name '{name}': {e}")))
}

/// Where VirtFun's crates and headers are.
enum Source {
    Tree(PathBuf),
    Git(String),
}

impl Source {
    /// As named, or the tree in which this program was built.
    fn find(named: Option<&str>) -> Result<Option<Source>> {
        match named {
            Some(url) if url.contains("://") || url.starts_with("git@") => {
                Ok(Some(Source::Git(url.to_owned())))
            }
            Some(dir) => {
                let tree =
                    std::path::absolute(dir).map_err(|e| fail::file(dir.as_ref(), "found", &e))?;
                match tree.join(MARK).is_file() {
                    true => Ok(Some(Source::Tree(tree))),
                    false => Err(Failure::usage(format!(
                        "{dir} is not VirtFun's source tree: it has no {MARK}"
                    ))),
                }
            }
            None => {
                let me = std::env::current_exe().ok();
                let tree = me.iter().flat_map(|p| p.ancestors()).find(|d| d.join(MARK).is_file());
                Ok(tree.map(|t| Source::Tree(t.to_owned())))
            }
        }
    }

    fn of_crate(&self, folder: &str) -> String {
        let text = |key: &str, value: String| format!("{key} = {}", toml::Value::from(value));
        match self {
            Source::Tree(tree) => text("path", tree.join(folder).display().to_string()),
            Source::Git(url) => text("git", url.clone()),
        }
    }
}

fn no_source() -> Failure {
    Failure::new(Exit::Failed, "a function in Rust is built with VirtFun's crates, and their source is not beside this program")
        .advise("name VirtFun's source tree, or its git address, with --source; or take --lang c, which needs headers only")
}

type Files = Vec<(&'static str, String)>;

fn rust(source: Source) -> Files {
    let cargo = include_str!("rust/Cargo.toml.in")
        .replace("@FUNCTION@", &source.of_crate("functions/function"))
        .replace("@SDK@", &source.of_crate("services/sdk"))
        .replace("@CLIENT@", &source.of_crate("guest/client"));
    vec![
        ("Cargo.toml", cargo),
        ("src/lib.rs", include_str!("rust/lib.rs.in").into()),
        (".gitignore", "/target\n".into()),
    ]
}

fn c(source: Option<&Source>) -> Files {
    // What is installed is known to pkg-config; a source tree has to be named.
    let pkg_config = match source {
        Some(Source::Tree(tree)) => format!(
            "PKG_CONFIG_PATH='{}':\"$$PKG_CONFIG_PATH\" pkg-config",
            tree.join("guest/client").display()
        ),
        _ => "pkg-config".to_owned(),
    };
    let makefile = include_str!("c/Makefile.in").replace("@PKG_CONFIG@", &pkg_config);
    vec![
        ("@NAME@.c", include_str!("c/function.c.in").into()),
        ("test.c", include_str!("c/test.c.in").into()),
        ("Makefile", makefile),
        (".gitignore", "*.so\n/test_*\n".into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_in_c_and_in_rust() {
        for good in ["total", "f2", "a_b"] {
            assert_eq!(check(good), Ok(()));
        }
        for bad in ["", "2f", "A", "a-b", "my.f", "fn", "while", "match", "submit", "main"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
