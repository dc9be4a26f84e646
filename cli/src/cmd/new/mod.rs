//! `vfun new`.

use crate::cmd::bindgen;
use crate::fail::{self, Exit, Failure, Result};
use crate::out::{self, Output};
use serde_json::json;
use std::path::{Path, PathBuf};

const AFTER: &str = "\
Examples:
  vfun new total --lang c && cd total && make test && make
  vfun new total --lang rust --source ~/virtfun
  vfun new total --lang wasm --dir modules/total
C, Python and WebAssembly need VirtFun's headers, as `make install` and the package libvfun-dev
install them; Rust needs its source. README.md in the folder has the commands that follow.";

/// The folder of VirtFun's source tree that shows that one is there.
const MARK: &str = "services/sdk/Cargo.toml";

/// Write a small project with a function of your own.
///
/// The project builds as it is, and has a typed function and a test. The command prints what to type
/// next.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// The function's name: letters, digits and '_', in small letters.
    name: String,
    /// Its language; wasm is C, compiled to WebAssembly.
    #[arg(long, value_name = "LANGUAGE", value_parser = ["c", "rust", "python", "wasm"])]
    lang: String,
    /// Folder to write to; it must be empty, or not exist yet [default: NAME].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// VirtFun's source tree, or its git address [default: the tree in which this vfun was built].
    #[arg(long, value_name = "DIR|URL")]
    source: Option<String>,
}

pub fn run(output: Output, args: &Args) -> Result<()> {
    check(&args.name)?;
    let source = Source::find(args.source.as_deref())?;
    let dir = args.dir.clone().unwrap_or_else(|| args.name.clone().into());
    let files = match args.lang.as_str() {
        "rust" => rust(&source.ok_or_else(no_source)?),
        "python" => with_headers(&PYTHON, source.as_ref()),
        "wasm" => with_headers(&WASM, source.as_ref()),
        _ => with_headers(&C, source.as_ref()),
    };
    make_folder(&dir)?;
    let mut written = vec![];
    let mut next = vec![format!("cd {}", dir.display())];
    for (path, text) in files {
        let path = dir.join(path.replace("@NAME@", &args.name));
        let text = text.replace("@NAME@", &args.name);
        let parent = path.parent().unwrap_or(&dir);
        std::fs::create_dir_all(parent).map_err(|e| fail::file(parent, "made", &e))?;
        std::fs::write(&path, &text).map_err(|e| fail::file(&path, "written", &e))?;
        if path.ends_with(README) {
            next.extend(commands(&text));
        }
        written.push(path);
    }
    if output.is_json() {
        let (name, lang) = (&args.name, &args.lang);
        return out::json(&json!({
            "name": name, "lang": lang, "folder": dir, "written": written, "next": next,
        }));
    }
    let list: String = written.iter().map(|p| format!("{}\n", p.display())).collect();
    out::text(&format!("{list}Next:\n  {}\n", next.join("\n  ")))
}

/// The folder, which is new or empty: nobody's work is overwritten.
fn make_folder(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|e| fail::file(dir, "made", &e))?;
    let mut there = std::fs::read_dir(dir).map_err(|e| fail::file(dir, "read", &e))?;
    match there.next() {
        None => Ok(()),
        Some(_) => Err(Failure::usage(format!("{} has files in it already", dir.display()))
            .advise("name another folder with --dir, or empty this one")),
    }
}

/// The command lines of a project's README, without their comments.
fn commands(readme: &str) -> impl Iterator<Item = String> {
    let lines = readme.lines().filter_map(|l| l.strip_prefix("    "));
    lines.map(|l| l.split("  #").next().unwrap_or(l).trim_end().to_owned())
}

/// The name is an identifier of C, of Rust and of Python.
fn check(name: &str) -> Result<()> {
    let good = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let wrong = |why: String| Err(Failure::usage(why));
    if !good {
        return wrong(format!(
            "'{name}' cannot be a function's name in a program: small letters, digits and '_', a letter first"
        ));
    }
    if bindgen::is_word(name) || TAKEN.contains(&name) {
        return wrong(format!("'{name}' means something else already: choose another name"));
    }
    vfun_wire::names::check(name).or_else(|e| wrong(format!("name '{name}': {e}")))
}

/// Names that mean something else: to a linker, to the languages' libraries, in the files
/// that are written, or (`submit`) to every host.
const TAKEN: [&str; 9] =
    ["call", "core", "driver", "main", "std", "struct", "submit", "test", "tests"];

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

    fn shown(&self) -> String {
        match self {
            Source::Tree(tree) => tree.display().to_string(),
            Source::Git(url) => url.clone(),
        }
    }
}

fn no_source() -> Failure {
    Failure::new(Exit::Failed, "a function in Rust is built with VirtFun's crates, and their source is not beside this program")
        .advise("name VirtFun's source tree, or its git address, with --source; or take --lang c, which needs headers only")
}

/// Files by their paths in the project, with `@NAME@` for the function's name.
type Files = Vec<(&'static str, String)>;

/// The file whose indented lines are the commands to type.
const README: &str = "README.md";

const C: [(&str, &str); 5] = [
    ("@NAME@.c", include_str!("c/function.c.in")),
    ("test.c", include_str!("c/test.c.in")),
    ("Makefile", include_str!("c/Makefile.in")),
    (README, include_str!("c/README.md.in")),
    (".gitignore", "*.so\n/test_*\n"),
];

const PYTHON: [(&str, &str); 7] = [
    ("@NAME@.py", include_str!("python/function.py.in")),
    ("test.py", include_str!("python/test.py.in")),
    ("function.toml.in", include_str!("python/function.toml.in")),
    ("driver.c", include_str!("python/driver.c.in")),
    ("Makefile", include_str!("python/Makefile.in")),
    (README, include_str!("python/README.md.in")),
    (".gitignore", "*.so\n/function.toml\n__pycache__/\n"),
];

const WASM: [(&str, &str); 5] = [
    ("@NAME@.c", include_str!("wasm/function.c.in")),
    ("test.c", include_str!("c/test.c.in")),
    ("Makefile", include_str!("wasm/Makefile.in")),
    (README, include_str!("wasm/README.md.in")),
    (".gitignore", "*.wasm\n/test_*\n"),
];

fn rust(source: &Source) -> Files {
    let cargo = include_str!("rust/Cargo.toml.in")
        .replace("@FUNCTION@", &source.of_crate("functions/function"))
        .replace("@SDK@", &source.of_crate("services/sdk"))
        .replace("@CLIENT@", &source.of_crate("guest/client"));
    vec![
        ("Cargo.toml", cargo),
        ("src/lib.rs", include_str!("rust/lib.rs.in").into()),
        (README, include_str!("rust/README.md.in").replace("@SOURCE@", &source.shown())),
        (".gitignore", "/target\n".into()),
    ]
}

/// A project that a Makefile builds with VirtFun's headers.
fn with_headers(files: &[(&'static str, &str)], source: Option<&Source>) -> Files {
    // What is installed is known to pkg-config; a source tree has to be named.
    let pkg_config = match source {
        Some(Source::Tree(tree)) => format!(
            "PKG_CONFIG_PATH='{}':\"$$PKG_CONFIG_PATH\" pkg-config",
            tree.join("guest/client").display()
        ),
        _ => "pkg-config".to_owned(),
    };
    let headers = include_str!("headers.mk.in").replace("@PKG_CONFIG@", &pkg_config);
    files.iter().map(|(path, text)| (*path, text.replace("@HEADERS@\n", &headers))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_in_each_language() {
        for good in ["total", "f2", "a_b"] {
            assert_eq!(check(good), Ok(()));
        }
        for bad in
            ["", "2f", "A", "a-b", "my.f", "fn", "while", "match", "lambda", "submit", "main"]
        {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn commands_are_the_indented_lines_without_comments() {
        let readme = "# It\n\n    make test      # first\n    make '#'\nMore: x\n";
        assert_eq!(commands(readme).collect::<Vec<_>>(), ["make test", "make '#'"]);
    }
}
