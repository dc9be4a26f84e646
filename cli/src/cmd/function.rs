//! `vfun function`.

use crate::admin::Admin;
use crate::carried;
use crate::fail::{Exit, Failure, Result};
use crate::out::{self, Facts, Output, Table};
use std::path::{Path, PathBuf};
use vfun_admin::{Ask, FunctionRow};

/// What to do with functions.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    /// Offer a function by its manifest; replaces one of the same name.
    Add {
        /// The manifest, TOML: its driver's library is looked for beside it, then in the manager's
        /// --drivers. Or a library or module that carries its manifest, as #[vfunction] and
        /// vfun_function.h make them.
        file: PathBuf,
    },
    /// Take a function away. Apps that have it keep it until they release it.
    #[command(visible_alias = "rm")]
    Remove {
        /// The function's name.
        name: String,
        /// The client that submitted it, if one did.
        #[arg(long, value_name = "NAME")]
        client: Option<String>,
    },
    /// List the functions that the manager offers.
    #[command(visible_alias = "ls")]
    List,
    /// Show a function: its manifest's facts and its signature.
    Show {
        /// The function's name.
        name: String,
    },
}

pub fn run(admin: &Admin, output: Output, sub: &Sub) -> Result<()> {
    match sub {
        Sub::Add { file } => {
            let manifest = carried::complete(file)?;
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            output.done(admin.tell(&Ask::AddFunction { manifest, file })?)
        }
        Sub::Remove { name, client } => output
            .done(admin.tell(&Ask::RemoveFunction { name: name.clone(), client: client.clone() })?),
        Sub::Show { name } => {
            let all = admin.functions()?;
            let Some(f) = all.iter().find(|f| f.name == *name) else {
                return Err(Failure::new(
                    Exit::Refused,
                    format!("no function '{name}' is offered"),
                )
                .advise("`vfun function list` shows those that are"));
            };
            output.show(f, || show(f))
        }
        Sub::List => {
            let functions = admin.functions()?;
            output.show(&functions, || render(&functions))
        }
    }
}

fn show(f: &FunctionRow) -> String {
    let none = || "none: bytes in, bytes out".to_owned();
    let mut facts = Facts::new()
        .fact("name", &f.name)
        .fact("offered to", f.client.as_deref().unwrap_or("all whose policy allows it"))
        .fact("version", &f.version)
        .fact("id", f.id.to_string())
        .fact("summary", &f.summary)
        .fact("signature", f.signature.as_deref().map_or_else(none, out::signature))
        .fact("fingerprint", f.fingerprint.as_deref().unwrap_or("-"))
        .fact("runs on", f.locations.join(", "))
        .fact("driver", &f.driver)
        .fact("deadline", out::duration(std::time::Duration::from_millis(f.deadline_ms.into())))
        .fact("max arguments", out::bytes(f.max_args.into()))
        .fact("max results", out::bytes(f.max_result.into()));
    for c in &f.codes {
        facts = facts.fact(&format!("error {}", c.code), &c.means);
    }
    facts.render()
}

fn render(functions: &[FunctionRow]) -> String {
    let mut table = Table::new(&[
        "NAME",
        "CLIENT",
        "VERSION",
        ">ID",
        "RUNS ON",
        ">DEADLINE",
        "DRIVER",
        "SUMMARY",
    ]);
    for f in functions {
        let file = Path::new(&f.driver)
            .file_name()
            .map_or(f.driver.clone(), |n| n.to_string_lossy().into_owned());
        table.row([
            f.name.clone(),
            f.client.clone().unwrap_or_else(|| "all".into()),
            f.version.clone(),
            f.id.to_string(),
            f.locations.join(", "),
            out::duration(std::time::Duration::from_millis(f.deadline_ms.into())),
            file,
            f.summary.clone(),
        ]);
    }
    table.render()
}
