//! `vfun run`: a program with the libraries of remoted APIs.

use crate::fail::{Exit, Failure, Result};
use crate::out::Output;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where packages put them.
const INSTALLED: &str = "/usr/lib/virtfun/apis";
/// Of these a library is loaded before all others; of the rest, a folder is looked into first.
const PRELOADED: [(&str, &str); 1] = [("verbs", "libvfunverbs.so")];
const PRELOAD: &str = "LD_PRELOAD";
const LIBRARIES: &str = "LD_LIBRARY_PATH";

const AFTER: &str = "\
The libraries lie in a folder for each API, where no loader looks by itself. The loader takes none of \
them for programs that run with another user's rights (setuid).

Examples:
  vfun run -- ib_write_bw                    a program for RDMA finds the NIC of the host
  vfun run -- ibv_devinfo
  vfun run --api gdma -- ./bounce            only this API
  vfun run --print                           what would be set

The exit code is the program's.";

/// Run a program with the libraries of remoted APIs, whose work the host does.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// An API, such as verbs or gdma; may be repeated [default: all that are installed].
    #[arg(long = "api", value_name = "NAME")]
    pub apis: Vec<String>,
    /// The folder with a folder for each API [default: of the installation].
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Only show which variables would be set.
    #[arg(long)]
    pub print: bool,
    /// The program and its arguments.
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "print")]
    pub program: Vec<OsString>,
}

/// Variables of the loader, by name.
type Variables = BTreeMap<&'static str, OsString>;

#[derive(Serialize)]
struct Shown {
    folder: String,
    apis: Vec<String>,
    variables: BTreeMap<&'static str, String>,
}

/// The folder of APIs: named, or of the installation that this program is of.
fn folder(named: Option<&Path>) -> Result<PathBuf> {
    let me = std::env::current_exe().unwrap_or_default();
    let beside = me.parent().map(|bin| bin.join("../lib/virtfun/apis"));
    let places: Vec<PathBuf> = match named {
        Some(named) => vec![named.to_owned()],
        None => beside.into_iter().chain([INSTALLED.into()]).collect(),
    };
    let found = places.iter().find(|place| place.is_dir()).and_then(|p| p.canonicalize().ok());
    found.ok_or_else(|| {
        let looked: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        Failure::new(Exit::Failed, format!("no libraries of APIs are in {}", looked.join(", ")))
            .advise("install the package virtfun-apis, or name their folder with --folder DIR")
    })
}

/// The library of an API that is loaded before all others, if it is installed.
pub fn preloaded(api: &str) -> Option<PathBuf> {
    let (name, library) = PRELOADED.iter().find(|(name, _)| *name == api)?;
    let path = folder(None).ok()?.join(name).join(library);
    path.is_file().then_some(path)
}

/// The APIs that are there.
fn there(folder: &Path) -> Vec<String> {
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = all.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// What is wanted, of what is there.
fn wanted(folder: &Path, asked: &[String]) -> Result<Vec<String>> {
    let there = there(folder);
    match asked.iter().find(|name| !there.contains(name)) {
        _ if asked.is_empty() => Ok(there),
        None => Ok(asked.to_vec()),
        Some(missing) => {
            let what = format!("there is no API '{missing}' in {}", folder.display());
            Err(Failure::usage(what).advise(format!("there is: {}", there.join(", "))))
        }
    }
}

/// `first`, then what the variable has already, with a colon between.
fn before(name: &str, first: Vec<PathBuf>) -> OsString {
    let old = std::env::var_os(name).filter(|old| !old.is_empty());
    let all = first.into_iter().map(PathBuf::into_os_string).chain(old);
    all.collect::<Vec<_>>().join(std::ffi::OsStr::new(":"))
}

fn variables(folder: &Path, apis: &[String]) -> Variables {
    let loaded_first = |api: &String| {
        let library = PRELOADED.iter().find(|(name, _)| name == api)?.1;
        Some(folder.join(api).join(library))
    };
    let (mut libraries, mut folders) = (vec![], vec![]);
    for api in apis {
        match loaded_first(api) {
            Some(library) => libraries.push(library),
            None => folders.push(folder.join(api)),
        }
    }
    let some = [(PRELOAD, libraries), (LIBRARIES, folders)];
    let some = some.into_iter().filter(|(_, paths)| !paths.is_empty());
    some.map(|(name, paths)| (name, before(name, paths))).collect()
}

pub fn run(output: Output, args: &Args) -> Result<()> {
    let folder = folder(args.folder.as_deref())?;
    let apis = wanted(&folder, &args.apis)?;
    let variables = variables(&folder, &apis);
    if args.print {
        let text = |value: &OsString| value.to_string_lossy().into_owned();
        let shown = Shown {
            folder: folder.display().to_string(),
            apis,
            variables: variables.iter().map(|(name, value)| (*name, text(value))).collect(),
        };
        return output.show(&shown, || {
            let lines = shown.variables.iter().map(|(name, value)| format!("{name}={value}\n"));
            lines.collect()
        });
    }
    let (program, words) = args.program.split_first().expect("clap asks for one");
    // Returns only if it cannot be.
    let error = Command::new(program).args(words).envs(&variables).exec();
    Err(Failure::new(Exit::Failed, format!("cannot run {}: {error}", program.to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        ["gdma", "verbs"].iter().for_each(|api| std::fs::create_dir(dir.path().join(api)).unwrap());
        dir
    }

    #[test]
    fn a_library_is_preloaded_and_a_folder_is_looked_into() {
        let dir = installed();
        let all = wanted(dir.path(), &[]).unwrap();
        assert_eq!(all, ["gdma", "verbs"]);
        let set = variables(dir.path(), &all);
        let of = |name: &str| set[name].to_string_lossy().into_owned();
        let path = |end: &str| dir.path().join(end).display().to_string();
        assert!(of(PRELOAD).starts_with(&path("verbs/libvfunverbs.so")), "{}", of(PRELOAD));
        assert!(of(LIBRARIES).starts_with(&path("gdma")), "{}", of(LIBRARIES));
        let only = variables(dir.path(), &["gdma".into()]);
        assert!(!only.contains_key(PRELOAD));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let dir = installed();
        let e = wanted(dir.path(), &["opencl".into()]).unwrap_err();
        assert!(e.what.contains("no API 'opencl'"), "{}", e.what);
        assert_eq!(e.advice.as_deref(), Some("there is: gdma, verbs"));
        let e = folder(Some(&dir.path().join("nowhere"))).unwrap_err();
        assert!(e.what.contains("no libraries of APIs are in"), "{}", e.what);
    }
}
