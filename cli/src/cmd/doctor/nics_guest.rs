//! In a guest: what the VM needs to get a network VF (docs/nics-guest.md). Calls need none of
//! it, so nothing here is missing; where vfun-agent is not installed nothing is said.

use super::check::Check;
use crate::programs;
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where the kernel shows interfaces.
const NET: &str = "/sys/class/net";
const BONDING: &str = "/sys/module/bonding";

/// What is looked at of a bond in the answer of `vfun-agent status --json`.
#[derive(Clone, Debug, Deserialize)]
struct AgentStatus {
    bond: String,
    host: String,
    trouble: Option<String>,
}

/// Looks, if the agent is installed.
pub fn look() -> Vec<Check> {
    let Some(program) = programs::find("vfun-agent") else { return vec![] };
    let runs = is_running(Path::new("/proc"), "vfun-agent");
    let said = Command::new(program).args(["status", "--json"]).output();
    let said = said.map(|out| out.stdout).unwrap_or_default();
    let agents = serde_json::from_slice(&said).unwrap_or_default();
    checks(runs, agents, Path::new(NET), Path::new(BONDING).is_dir())
}

/// Whether a process has this name.
fn is_running(proc: &Path, name: &str) -> bool {
    let all = fs::read_dir(proc).into_iter().flatten().flatten();
    let comm = |e: fs::DirEntry| fs::read_to_string(e.path().join("comm")).unwrap_or_default();
    all.map(comm).any(|comm| comm.trim_end() == name)
}

fn checks(runs: bool, agents: Vec<AgentStatus>, net: &Path, module: bool) -> Vec<Check> {
    let bonds = bonds(net);
    let mut checks = vec![agent(runs, !bonds.is_empty())];
    // What an agent left behind that runs no more says nothing of now.
    let agents = if runs { agents } else { vec![] };
    for a in &agents {
        let name = format!("agent of {}", a.bond);
        checks.push(match &a.trouble {
            Some(trouble) => Check::note(&name, trouble.clone())
                .mend("docs/nics-guest.md says what each trouble means and what to do"),
            None => Check::ok(&name, a.host.clone()),
        });
    }
    for (bond, mode) in &bonds {
        checks.push(match mode.as_str() {
            "active-backup" => Check::ok("bond", format!("{bond}, {mode}")),
            _ => {
                Check::note("bond", format!("{bond} has the mode {mode}, which the agent refuses"))
                    .mend("change the mode to active-backup in the network configuration")
            }
        });
    }
    // net_failover is the kernel's own pair of NICs: the agent finds it without a bond.
    if bonds.is_empty() && agents.iter().all(|a| a.trouble.is_some()) {
        let found = "there is none: this VM gets no network VF";
        checks.push(Check::note("bond", found).mend(
            "make it in the network configuration, or once on the running VM: vfun-agent convert IFACE",
        ));
        if !module {
            checks.push(
                Check::note("bonding", "the kernel module is not loaded")
                    .mend("modprobe bonding; if it is not there, install the kernel's modules"),
            );
        }
    }
    checks
}

fn agent(runs: bool, has_bond: bool) -> Check {
    let mend = match has_bond {
        true => "systemctl enable --now vfun-agent",
        false => "make a bond first; then systemctl enable --now vfun-agent",
    };
    match runs {
        true => Check::ok("agent", "vfun-agent runs"),
        false => {
            Check::note("agent", "vfun-agent does not run: this VM gets no network VF").mend(mend)
        }
    }
}

/// Each bond with its mode.
fn bonds(net: &Path) -> Vec<(String, String)> {
    let all = fs::read_dir(net).into_iter().flatten().flatten();
    let mut bonds: Vec<(String, String)> = all
        .filter_map(|e| {
            let mode = fs::read_to_string(e.path().join("bonding/mode")).ok()?;
            let mode = mode.split_whitespace().next()?.to_owned();
            Some((e.file_name().to_string_lossy().into_owned(), mode))
        })
        .collect();
    bonds.sort();
    bonds
}

#[cfg(test)]
mod tests {
    use super::super::check::{State, render};
    use super::*;

    fn agent_of(bond: &str, trouble: Option<&str>) -> Vec<AgentStatus> {
        let json = serde_json::json!([{
            "running": true, "pid": 7, "host": "gives orders", "bond": bond, "trouble": trouble,
        }]);
        serde_json::from_value(json).unwrap()
    }

    fn net(mode: Option<&str>) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        if let Some(mode) = mode {
            fs::create_dir_all(dir.path().join("bond0/bonding")).unwrap();
            fs::write(dir.path().join("bond0/bonding/mode"), mode).unwrap();
        }
        fs::create_dir_all(dir.path().join("lo")).unwrap();
        dir
    }

    #[test]
    fn a_vm_that_is_ready_is_all_right() {
        let net = net(Some("active-backup 1\n"));
        let found = checks(true, agent_of("bond0", None), net.path(), true);
        assert!(found.iter().all(|c| c.state == State::Ok), "{}", render(&found));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn what_a_vm_lacks_is_said_and_nothing_of_it_is_missing_for_calls() {
        let found = checks(false, vec![], net(None).path(), false);
        let said = render(&found);
        for word in ["vfun-agent does not run", "vfun-agent convert", "modprobe bonding"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert!(found.iter().all(|c| c.state == State::Note), "{said}");
        let other = net(Some("802.3ad 4\n"));
        let said = render(&checks(true, agent_of("bond0", Some("no carrier")), other.path(), true));
        assert!(said.contains("the mode 802.3ad") && said.contains("no carrier"), "{said}");
    }

    #[test]
    fn a_pair_that_the_kernel_made_needs_no_bond() {
        let said = render(&checks(true, agent_of("ens3", None), net(None).path(), false));
        assert!(!said.contains("convert"), "{said}");
    }

    #[test]
    fn a_running_agent_is_found_by_its_name() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("12")).unwrap();
        fs::write(proc.path().join("12/comm"), "vfun-agent\n").unwrap();
        assert!(is_running(proc.path(), "vfun-agent") && !is_running(proc.path(), "vfun"));
    }
}
