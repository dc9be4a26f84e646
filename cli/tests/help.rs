//! What people read first.

use crate::manager::offered;
use clap::CommandFactory;
use std::path::Path;
use vfun_cli::args::Cli;
use vfun_tests_local::placed;

/// The main help, word for word: it is the front page. After a change on
/// purpose, run with VFUN_GOLDEN=write and look at the difference.
#[test]
fn the_main_help_is_as_agreed() {
    let help = Cli::command().term_width(100).render_long_help().to_string();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/help.txt");
    if std::env::var_os("VFUN_GOLDEN").is_some() {
        std::fs::write(&path, &help).unwrap();
    }
    assert_eq!(help, std::fs::read_to_string(path).unwrap());
}

fn walk(command: &clap::Command, path: &str, see: &mut dyn FnMut(&clap::Command, &str)) {
    for sub in command.get_subcommands().filter(|c| c.get_name() != "help") {
        let path = format!("{path} {}", sub.get_name());
        see(sub, &path);
        walk(sub, &path, see);
    }
}

#[test]
fn every_command_and_option_says_what_it_is_for() {
    let mut command = Cli::command();
    command.build();
    let mut seen = 0;
    walk(&command, "vfun", &mut |c, path| {
        seen += 1;
        assert!(c.get_about().is_some(), "{path} says nothing");
        for a in c.get_arguments() {
            assert!(a.get_help().is_some(), "{path}: {} says nothing", a.get_id());
        }
    });
    assert!(seen >= 20, "{seen}");
}

#[test]
fn manual_and_completions_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let vfun = env!("CARGO_BIN_EXE_vfun");
    let out =
        std::process::Command::new(vfun).arg("man").arg(dir.path().join("man")).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let page = std::fs::read_to_string(dir.path().join("man/vfun-client-add.1")).unwrap();
    assert!(page.contains("max\\-grants"));
    for page in ["attach", "detach", "top"] {
        assert!(dir.path().join(format!("man/vfun-{page}.1")).is_file());
    }
    for shell in ["bash", "zsh", "fish"] {
        let out = std::process::Command::new(vfun).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success() && script.contains("VFUN_COMPLETE"), "{shell}: {script}");
    }
}

/// A folder with `vfun` in it, and no other program of ours.
fn alone() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let vfun = dir.path().join("vfun");
    placed::copy(Path::new(env!("CARGO_BIN_EXE_vfun")), &vfun);
    (dir, vfun)
}

/// Exit code, stdout and stderr, where programs are looked for in its folder only.
fn run(vfun: &Path, args: &[&str]) -> (i32, String, String) {
    let out = std::process::Command::new(vfun)
        .args(args)
        .env("PATH", "/nowhere")
        .env_remove("VFUN_ROOT")
        .env_remove("VFUN_ENDPOINT")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (out.status.code().unwrap(), text(out.stdout), text(out.stderr))
}

#[test]
fn a_command_whose_program_is_not_there_says_which() {
    let (_dir, vfun) = alone();
    for (command, args) in
        [("bench", &["bench", "grain"][..]), ("top", &["top", "--once"]), ("guest", &["guest"])]
    {
        let (code, _, said) = run(&vfun, args);
        let which =
            format!("`vfun {command}` is the program vfun-{command}, which is not installed");
        assert!(code == 1 && said.contains(&which) && said.contains("make install"), "{said}");
        let (code, said, _) = run(&vfun, &["help", command]);
        assert!(code == 0 && said.contains(&format!("Usage: vfun {command}")), "{said}");
    }
    // Their options are known all the same, and what is wrong with them is said.
    assert!(run(&vfun, &["top", "--help"]).1.contains("--interval"));
    assert!(run(&vfun, &["guest", "--help"]).1.contains("--no-module"));
    assert_eq!(run(&vfun, &["top", "--sort", "size"]).0, 2);
    assert_eq!(offered(&vfun, &["vfun", "top", "--interv"]), ["--interval"]);
}

#[test]
fn a_command_that_is_a_program_gets_its_words() {
    let (dir, vfun) = alone();
    for command in ["bench", "top", "guest"] {
        let program = dir.path().join(format!("vfun-{command}"));
        placed::script(&program, "#!/bin/sh\nprintf '%s|' \"${0##*/}\" \"$@\"\nexit 7\n");
    }
    for (args, words) in [
        (&["bench", "grain", "--json", "f", "--help"][..], "vfun-bench|grain|--json|f|--help|"),
        (&["--root", "/r", "bench", "all"], "vfun-bench|all|--root|/r|"),
        (&["help", "bench", "grain"], "vfun-bench|grain|--help|"),
        (&["--json", "top", "--once"], "vfun-top|--json|top|--once|"),
        (&["guest", "--", "ls", "--json"], "vfun-guest|guest|--|ls|--json|"),
    ] {
        let (code, said, errors) = run(&vfun, args);
        assert_eq!((code, said.as_str()), (7, words), "{args:?}: {errors}");
    }
    assert_eq!(run(&vfun, &["--json", "bench", "all"]).0, 2, "bench writes JSON to a file");
}
