//! `vfun verbs`: programs for RDMA, and what becomes of the functions that they use.

mod imported;
mod table;

use crate::fail::Result;
use crate::out::{Output, Table};
use imported::Imported;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use table::Known;

/// What to do with programs for RDMA.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    Check(Args),
}

const AFTER: &str = "\
A function that is refused fails with EOPNOTSUPP and a sentence; whether the program goes on without it is \
the program's matter. Inline functions of infiniband/verbs.h (ibv_post_send, ibv_poll_cq) have no symbol \
and are not seen. All functions: docs/verbs-functions.md.

Examples:
  vfun verbs check ib_write_bw rping       programs that the shell finds, too
  vfun verbs check --all ./server          show functions that work, too

Exit code: 0 if all works; 1 if something is refused or not known.";

/// Say which functions of libibverbs and librdmacm a program uses, and whether libvfunverbs has them.
///
/// The program is read and not run. Libraries that it needs are read as well. What it loads while it runs
/// (dlopen) is not seen.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Programs or libraries: files, or names that the shell finds.
    #[arg(value_name = "PROGRAM", required = true)]
    programs: Vec<PathBuf>,
    /// Show functions that work, too.
    #[arg(long)]
    all: bool,
}

/// A function that a program uses.
#[derive(Clone, Debug, Serialize)]
struct Used {
    function: String,
    /// `done`, `nothing`, `real`, `refused` or `unknown`.
    state: &'static str,
    why: &'static str,
    /// The library that uses it; none: the program itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

impl Used {
    fn works(&self) -> bool {
        !matches!(self.state, table::REFUSED | table::UNKNOWN)
    }
}

/// A program, and what it uses.
#[derive(Debug, Serialize)]
struct Checked {
    program: String,
    functions: Vec<Used>,
    /// Libraries that it needs and that were not found.
    not_found: Vec<String>,
}

pub fn run(output: Output, sub: &Sub) -> Result<ExitCode> {
    let Sub::Check(args) = sub;
    let known = table::known();
    let checked = |program: &PathBuf| Ok(check(imported::of(program)?, &known));
    let all: Vec<Checked> = args.programs.iter().map(checked).collect::<Result<_>>()?;
    output.show(&all, || all.iter().map(|one| text(one, args.all)).collect())?;
    let works = all.iter().flat_map(|one| &one.functions).all(Used::works);
    Ok(ExitCode::from(u8::from(!works)))
}

fn check(program: Imported, known: &BTreeMap<&str, Known>) -> Checked {
    let used = |(function, by): (String, Option<String>)| {
        let Known { state, why } =
            known.get(function.as_str()).copied().unwrap_or(table::NOT_KNOWN);
        Used { function, state, why, by }
    };
    Checked {
        program: program.name,
        functions: program.functions.into_iter().map(used).collect(),
        not_found: program.not_found,
    }
}

fn text(of: &Checked, all: bool) -> String {
    let mut table = Table::new(&["FUNCTION", "STATE", "USED BY", "WHY"]);
    for used in of.functions.iter().filter(|used| all || !used.works()) {
        let by = used.by.clone().unwrap_or_else(|| "the program".into());
        table.row([used.function.clone(), used.state.into(), by, used.why.into()]);
    }
    let count = of.functions.len();
    let bad = of.functions.iter().filter(|used| !used.works()).count();
    let mut text = match (count, bad) {
        (0, _) => format!(
            "{}: uses no function of libibverbs or librdmacm, unless it loads them while it runs\n",
            of.program
        ),
        (_, 0) => format!("{}: all of its {count} functions work\n", of.program),
        (_, 1) => format!("{}: 1 of its {count} functions does not work\n", of.program),
        _ => format!("{}: {bad} of its {count} functions do not work\n", of.program),
    };
    if !table.is_empty() {
        text += &table.render();
    }
    if !of.not_found.is_empty() {
        text += &format!("not found, and so not looked at: {}\n", of.not_found.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_work_is_shown_with_its_reason() {
        let known = table::known();
        let names = ["ibv_open_device", "ibv_fork_init", "ibv_resize_cq", "ibv_of_tomorrow"];
        let functions = names.map(|name| (name.to_owned(), None)).into();
        let of = Imported { name: "p".into(), functions, not_found: vec!["libx.so.1".into()] };
        let checked = check(of, &known);
        let states: Vec<_> = checked.functions.iter().map(|used| used.state).collect();
        // By name.
        assert_eq!(states, ["nothing", "unknown", "done", "refused"]);
        let said = text(&checked, false);
        assert!(said.starts_with("p: 2 of its 4 functions do not work\n"), "{said}");
        assert!(said.contains("make a new one") && said.contains("libx.so.1"), "{said}");
        assert!(
            !said.contains("ibv_open_device") && text(&checked, true).contains("ibv_open_device")
        );
    }

    #[test]
    fn this_program_is_read_and_others_are_named() {
        let me = std::env::current_exe().unwrap();
        assert!(imported::of(&me).unwrap().functions.is_empty());
        let wrong = |path: &str, says: &str| {
            let said = imported::of(path.as_ref()).unwrap_err();
            assert!(said.what.contains(says), "{}", said.what);
        };
        wrong("/nonexistent/x", "/nonexistent/x");
        wrong("no-program-has-this-name", "no-program-has-this-name");
        wrong(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "is no program");
    }
}
