//! Commands that are programs of their own, as git has them: `vfun bench` runs
//! `vfun-bench`. What they stand on (charts, a screen, test guests) is then in
//! no guest, and `vfun` stays small.

use crate::admin::ROOT;
use crate::fail::{self, Exit, Failure};
use crate::machine;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where programs are looked for, in this order: beside this one, where the
/// installation puts them, and in the folders of PATH.
fn places(me: &Path, path: &OsStr) -> Vec<PathBuf> {
    let mut places = vec![];
    if let Some(beside) = me.parent() {
        places.push(beside.to_owned());
        places.push(beside.join("../lib/virtfun"));
        if beside.ends_with("lib/virtfun") {
            places.push(beside.join("../../bin"));
        }
    }
    // A relative one would mean wherever the user stands.
    places.extend(std::env::split_paths(path).filter(|p| p.is_absolute()));
    places
}

/// A program of ours, if it is there.
pub fn find(name: &str) -> Option<PathBuf> {
    let me = std::env::current_exe().unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = places(&me, &path).into_iter().map(|p| p.join(name)).find(|p| p.is_file())?;
    found.canonicalize().ok()
}

/// Becomes the program of a command. Returns only if that cannot be.
pub fn run(command: &str, words: impl IntoIterator<Item = OsString>) -> Failure {
    let program = format!("vfun-{command}");
    let Some(path) = find(&program) else {
        if command != "bench" && machine::is_guest(Path::new(ROOT)) {
            return fail::of_the_host();
        }
        return Failure::new(
            Exit::Failed,
            format!("`vfun {command}` is the program {program}, which is not installed here"),
        )
        .advise(
            "`make install` puts it on a host, into lib/virtfun, where vfun looks besides its own folder \
             and PATH; packages for guests have vfun alone",
        );
    };
    let e = Command::new(&path).arg0(format!("vfun {command}")).args(words).exec();
    Failure::new(Exit::Failed, format!("{} cannot be started: {e}", path.display()))
}

/// Becomes the program of a command, which reads the same command line.
pub fn hand_over(command: &str) -> Failure {
    run(command, std::env::args_os().skip(1))
}

/// The command line that a program of its own was started with, as `vfun` reads
/// it: handed over by `vfun` it is that already; else it lacks the command.
pub fn line(command: &str, words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words = words.into_iter();
    let handed_over = words.next().is_some_and(|name| name == format!("vfun {command}").as_str());
    let name = (!handed_over).then(|| OsString::from(command));
    [OsString::from("vfun")].into_iter().chain(name).chain(words).collect()
}

/// `vfun help bench` is `vfun bench --help`, where that is installed: nobody
/// else knows its options.
pub fn help() {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let [help, command, rest @ ..] = &words[..]
        && help == "help"
        && command == "bench"
        && find("vfun-bench").is_some()
    {
        run("bench", rest.iter().cloned().chain(["--help".into()]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_beside_this_one_or_where_they_were_installed() {
        let path = OsStr::new("/usr/bin:.:bin::/opt/bin");
        let found = places(Path::new("/usr/local/bin/vfun"), path);
        let texts: Vec<_> = found.iter().map(|p| p.to_str().unwrap()).collect();
        let first = ["/usr/local/bin", "/usr/local/bin/../lib/virtfun"];
        assert_eq!(texts, [&first[..], &["/usr/bin", "/opt/bin"]].concat());
        let found = places(Path::new("/usr/lib/virtfun/vfun-guest"), OsStr::new(""));
        assert!(found.contains(&"/usr/lib/virtfun/../../bin".into()), "{found:?}");
    }

    #[test]
    fn a_program_reads_the_same_line_alone_and_handed_over() {
        let line = |words: &[&str]| line("top", words.iter().map(OsString::from));
        assert_eq!(line(&["/usr/lib/virtfun/vfun-top", "--once"]), ["vfun", "top", "--once"]);
        assert_eq!(
            line(&["vfun top", "--json", "top", "-s", "busy"]),
            ["vfun", "--json", "top", "-s", "busy"]
        );
        assert_eq!(line(&[]), ["vfun", "top"]);
    }
}
