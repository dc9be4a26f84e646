//! `vfun policy`.

use crate::admin::Admin;
use crate::fail::{Exit, Failure, Result};
use crate::out::{self, Facts, Output, Table};
use crate::toml_file;
use std::path::{Path, PathBuf};
use vfun_admin::Ask;
use vfun_admin::policy::{RuleView, View};
use vfun_policy::Unenforced;

/// What to do with the policy.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    /// Show the rules in force, and which section of the file each is from.
    Show {
        /// Of this client only.
        #[arg(long, value_name = "NAME")]
        client: Option<String>,
    },
    /// Read a file as a policy and say what is wrong with it; nothing is changed, and no manager is needed.
    Check {
        /// The file [default: ROOT/admin/policy.toml].
        file: Option<PathBuf>,
    },
    /// Put a file in the place of the policy; a wrong one is refused whole, and the old one stays.
    Set {
        /// The file with the new policy, TOML.
        file: PathBuf,
    },
    /// Read ROOT/admin/policy.toml again, after it was edited.
    Reload,
}

pub fn run(admin: &Admin, output: Output, sub: &Sub) -> Result<()> {
    match sub {
        Sub::Show { client } => {
            let view = admin.policy(client.clone())?;
            output.show(&view, || render(&view))
        }
        Sub::Check { file } => check(admin, output, file.as_deref()),
        Sub::Set { file } => {
            let text = toml_file::read(file, toml_file::POLICY)?;
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            output.done(admin.tell(&Ask::SetPolicy { text, file })?)
        }
        Sub::Reload => output.done(admin.tell(&Ask::ReloadPolicy)?),
    }
}

fn check(admin: &Admin, output: Output, file: Option<&Path>) -> Result<()> {
    let usual = admin.policy_file();
    let file = file.unwrap_or(&usual);
    let text = toml_file::read(file, toml_file::POLICY)?;
    let policy =
        vfun_policy::parse(file, &text).map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
    // Whether what it names is there can be said only where a manager is.
    let known = admin.clients().and_then(|c| Ok((c, admin.functions()?)));
    // Nor what the host enforces.
    let host = admin.sandbox().map(|s| Unenforced::of(&s.standing.missing)).unwrap_or_default();
    let unenforced = policy.unenforced(&host);
    let doubts = known.map_or(vec![], |(c, f)| {
        policy.doubts(|n| c.iter().any(|c| c.name == n), |n| f.iter().any(|f| f.name == n))
    });
    let said = serde_json::json!({ "file": file, "doubts": doubts, "unenforced": unenforced });
    output.show(&said, || {
        let doubts: String = doubts.iter().map(|d| format!("warning: {d}\n")).collect();
        let unenforced = not_enforced(&unenforced);
        format!("{} can be read\n{doubts}{unenforced}", file.display())
    })
}

fn not_enforced(sentences: &[String]) -> String {
    sentences.iter().map(|s| format!("not enforced on this host: {s}\n")).collect()
}

fn rows(table: &mut Table, whose: &str, rules: &[RuleView]) {
    for r in rules {
        let value = match r.unenforced {
            Some(_) => format!("{} (not enforced)", r.value),
            None => r.value.clone(),
        };
        table.row([whose, &r.key, &value, &r.from]);
    }
}

fn render(v: &View) -> String {
    let state = match (&v.unreadable, v.written) {
        (Some(why), _) => format!("NOTHING NEW IS GRANTED: {why}"),
        (None, true) => "in force".into(),
        (None, false) => "not there: the default rules are in force".into(),
    };
    let require = match v.require.is_empty() {
        true => "none: a service starts with those that the host has".into(),
        false => v.require.join(", "),
    };
    let mut text = Facts::new()
        .fact("file", v.file.display().to_string())
        .fact("state", state)
        .fact("required layers", require)
        .render();
    for c in &v.clients {
        text += &format!(
            "\n{} holds {} channels, {}, {} calls at once\n",
            c.client,
            c.holds.channels,
            out::bytes(c.holds.bytes),
            c.holds.in_flight
        );
        let mut table = Table::new(&["OF", "RULE", "VALUE", "FROM"]);
        rows(&mut table, "all", &c.rules);
        for f in &c.functions {
            rows(&mut table, &f.function, &f.rules);
        }
        text += &table.render();
    }
    for d in &v.doubts {
        text += &format!("\nwarning: {d}");
    }
    if !v.doubts.is_empty() {
        text.push('\n');
    }
    text + &not_enforced(&v.unenforced)
}
