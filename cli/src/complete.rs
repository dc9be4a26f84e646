//! What the shell offers where a name is to be written: of the functions, clients, grants,
//! windows, pools and VMs that there are just now.
//!
//! The shell runs `vfun` with a variable set, which [`answer`] sees. A name that cannot be
//! asked for (nothing listens, no right) is offered nothing for.

use crate::args::Cli;
use crate::cmd::nics::Allocator;
use crate::connect::{Host, Who};
use crate::fail::Result;
use clap::{Command, CommandFactory};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};
use clap_complete::{CompleteEnv, Shell};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

/// Says to `vfun` that a shell asks, and which one.
const VARIABLE: &str = "VFUN_COMPLETE";
/// Longest time that a shell waits for names: a person waits for it at the keyboard.
const PATIENCE: Duration = Duration::from_secs(1);

/// Names of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// Functions that this machine is offered, also in a guest.
    Offered,
    /// Functions that the host's manager knows.
    Functions,
    Clients,
    /// CLIENT, and CLIENT/VM of those with several.
    Vms,
    Grants,
    Windows,
    /// Ports of switches with DPDK, by their names on the host.
    SwitchPorts,
    Tokens,
    /// Pools of network VFs, and VMs that compete for them.
    Pools,
    NicVms,
}

/// The names that an argument takes, by its command and its own name there.
fn names(command: &str, argument: &str) -> Option<Names> {
    Some(match (command, argument) {
        ("call" | "bindgen", "function" | "functions") => Names::Offered,
        ("function remove" | "function show", "name") => Names::Functions,
        ("drain" | "stop", "function") | ("client add", "functions") => Names::Functions,
        ("client remove", "name") => Names::Clients,
        ("client show", "name") | ("nics add", "vm") => Names::Vms,
        (command, "vm") if command.starts_with("port ") => Names::Vms,
        ("window remove" | "window show", "name") | ("attach" | "detach", "window") => {
            Names::Windows
        }
        (command, "from" | "to") if command.starts_with("links ") => Names::SwitchPorts,
        ("token rotate" | "token revoke", "id") => Names::Tokens,
        ("nics pool remove", "name") => Names::Pools,
        (command, "vm") if command.starts_with("nics ") => Names::NicVms,
        (_, "grant") => Names::Grants,
        (_, "pool") => Names::Pools,
        (_, "client") => Names::Vms,
        _ => return None,
    })
}

/// Ends the process with an answer, if a shell asks.
pub fn answer() {
    CompleteEnv::with_factory(whole).var(VARIABLE).complete();
}

/// The script that makes a shell ask.
pub fn script(shell: Shell) -> std::io::Result<Vec<u8>> {
    let of: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::PowerShell => &Powershell,
        Shell::Zsh => &Zsh,
        _ => return Err(std::io::ErrorKind::Unsupported.into()),
    };
    let mut script = vec![];
    of.write_registration(VARIABLE, "vfun", "vfun", "vfun", &mut script)?;
    Ok(script)
}

/// The command line, with names for the arguments that take them.
fn whole() -> Command {
    asking(Cli::command(), "")
}

fn asking(command: Command, path: &str) -> Command {
    let command = command.mut_args(|arg| match names(path, arg.get_id().as_str()) {
        Some(names) => {
            arg.add(ArgValueCompleter::new(move |begun: &OsStr| candidates(names, begun)))
        }
        None => arg,
    });
    command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        asking(sub, path.trim_start())
    })
}

fn candidates(names: Names, begun: &OsStr) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    let (tell, told) = std::sync::mpsc::channel();
    // A manager that does not answer must not hold the shell up; this process ends soon.
    std::thread::spawn(move || tell.send(ask(names)));
    let all = told.recv_timeout(PATIENCE).ok().and_then(Result::ok).unwrap_or_default();
    let fitting = all.into_iter().filter(|name| name.starts_with(&*begun));
    fitting.map(CompletionCandidate::new).collect()
}

/// An option's value in a command line that is not ended yet.
fn option(words: &[String], name: &str) -> Option<String> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == name {
            return words.next().cloned();
        }
        if let Some(value) = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
            return Some(value.to_owned());
        }
    }
    None
}

fn ask(names: Names) -> Result<Vec<String>> {
    let words: Vec<String> =
        std::env::args_os().map(|w| w.to_string_lossy().into_owned()).collect();
    let variable = |name| std::env::var(name).ok().filter(|v| !v.is_empty());
    let said = |name, var| option(&words, name).or_else(|| variable(var));
    let root = said("--root", "VFUN_ROOT").map(PathBuf::from);
    let host = Host::new(root, said("--endpoint", "VFUN_ENDPOINT"));
    let who = Who { client: said("--client", "VFUN_CLIENT"), ..Who::default() };
    let admin = crate::admin::Admin::at(host.root());
    let nics = || Allocator::at(host.root()).view();
    Ok(match names {
        Names::Offered => match host.session(&who) {
            Ok(session) => session.list()?.into_iter().map(|f| f.name).collect(),
            // On a host whose client was not named yet.
            Err(_) => admin.functions()?.into_iter().map(|f| f.name).collect(),
        },
        Names::Functions => admin.functions()?.into_iter().map(|f| f.name).collect(),
        Names::Clients => sole(admin.clients()?.into_iter().map(|c| c.name)),
        Names::Vms => {
            let rows = admin.clients()?;
            sole(rows.iter().flat_map(|c| [c.name.clone(), c.shown()]))
        }
        Names::Grants => admin.grants()?.into_iter().map(|g| g.grant).collect(),
        Names::Windows => admin.windows()?.into_iter().map(|w| w.name).collect(),
        Names::SwitchPorts => admin.links()?.into_iter().map(|l| l.from.tap).collect(),
        Names::Tokens => admin.tokens(None)?.into_iter().map(|t| t.id.to_string()).collect(),
        Names::Pools => nics()?.pools.into_iter().map(|p| p.name).collect(),
        Names::NicVms => nics()?.vms.into_iter().map(|v| v.vm.to_string()).collect(),
    })
}

/// Each once, in order.
fn sole(names: impl Iterator<Item = String>) -> Vec<String> {
    names.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All arguments that names are offered for, as `COMMAND ARGUMENT`.
    fn asked(command: &Command, path: &str, all: &mut Vec<String>) {
        for arg in command.get_arguments() {
            if arg.get::<ArgValueCompleter>().is_some() {
                all.push(format!("{path} {}", arg.get_id()).trim_start().to_owned());
            }
        }
        for sub in command.get_subcommands() {
            asked(sub, format!("{path} {}", sub.get_name()).trim_start(), all);
        }
    }

    #[test]
    fn names_are_offered_where_commands_take_them() {
        let mut all = vec![];
        asked(&whole(), "", &mut all);
        for wanted in [
            "call function",
            "bindgen functions",
            "function show name",
            "function remove name",
            "client show name",
            "client remove name",
            "window show name",
            "attach window",
            "attach client",
            "revoke grant",
            "stats grant",
            "leases explain grant",
            "token revoke id",
            "token add client",
            "guest client",
            "guest pool",
            "nics explain vm",
            "nics add vm",
            "nics add pool",
            "nics pool remove name",
        ] {
            assert!(all.iter().any(|a| a == wanted), "{wanted} is not among {all:?}");
        }
        for other in ["client add name", "function add file", "new name", "bench domains function"]
        {
            assert!(!all.iter().any(|a| a == other), "{other}");
        }
    }

    #[test]
    fn options_of_a_line_that_is_not_ended_are_found() {
        let words = ["vfun", "--", "vfun", "--root=/r", "call", "--client", "a", "--endpoint"];
        let words = words.map(String::from);
        let of = |name| option(&words, name);
        assert_eq!(of("--root").as_deref(), Some("/r"));
        assert_eq!(of("--client").as_deref(), Some("a"));
        assert_eq!((of("--endpoint"), of("--credential")), (None, None));
    }

    #[test]
    fn each_shell_has_a_script_that_asks_vfun() {
        for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
            let script = String::from_utf8(script(shell).unwrap()).unwrap();
            assert!(script.contains(VARIABLE) && script.contains("vfun"), "{shell}: {script}");
        }
    }
}
