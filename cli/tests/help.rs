//! What people read first.

use clap::CommandFactory;
use std::path::Path;
use vfun_cli::args::Cli;

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
        assert!(out.status.success() && String::from_utf8_lossy(&out.stdout).contains("detach"));
    }
}
