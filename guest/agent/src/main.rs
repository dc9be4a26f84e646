//! `vfun-agent`: looks after a VM's bond.

#![forbid(unsafe_code)]

use clap::{CommandFactory, Parser};
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use vfun_agent::agent::{self, Refused, Settings};
use vfun_agent::args::{Args, Command};
use vfun_agent::mailbox::Mailbox;
use vfun_agent::probe::Probe;
use vfun_agent::{convert, host, log, status};

/// `status`: no agent runs.
const NOT_RUNNING: u8 = 3;
/// The machine's configuration has to be changed first; the unit does not try again.
const UNFIT: u8 = 78;

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Run { bond, probe } => run(&bond, probe),
        Command::Status { json } => show(json),
        Command::Convert { interface, bond, yes } => convert(&interface, &bond, yes),
        Command::Completions { shell } => {
            clap_complete::generate(
                shell,
                &mut Args::command(),
                "vfun-agent",
                &mut std::io::stdout(),
            );
            ExitCode::SUCCESS
        }
    }
}

fn failed(why: impl std::fmt::Display) -> ExitCode {
    log::line(why);
    ExitCode::FAILURE
}

fn run(bond: &str, probe: Option<IpAddr>) -> ExitCode {
    let mailbox = match Mailbox::new() {
        Ok(mailbox) => Arc::new(mailbox),
        Err(e) => return failed(e),
    };
    let letters = mailbox.clone();
    let talker = std::thread::Builder::new().name("host".into());
    if let Err(e) = talker.spawn(move || host::talk(&letters)) {
        return failed(format!("no thread can be started: {e}"));
    }
    let probe = match probe.map(Probe::start).transpose() {
        Ok(probe) => probe,
        Err(e) => return failed(format!("no thread can be started: {e}")),
    };
    match agent::run(&Settings { probe, ..Settings::new(bond) }, &mailbox) {
        Err(Refused::Unfit(why)) => {
            log::line(why);
            ExitCode::from(UNFIT)
        }
        Err(Refused::Failed(why)) => failed(why),
    }
}

fn show(json: bool) -> ExitCode {
    let all = status::all(Path::new(status::FOLDER));
    if json {
        println!("{}", serde_json::to_string(&all).expect("plain data"));
    } else if all.is_empty() {
        println!("no vfun-agent has run since this machine started");
    }
    for bond in all.iter().filter(|_| !json) {
        println!("{bond}");
    }
    match all.iter().any(|b| b.running) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NOT_RUNNING),
    }
}

fn convert(interface: &str, bond: &str, yes: bool) -> ExitCode {
    match convert::command(interface, bond, yes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => failed(why),
    }
}
