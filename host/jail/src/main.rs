//! `vfun-jail`: makes one service, as its manager's child and in a jail of its
//! own, and ends. The manager starts it with the service's standard input and
//! error as its own, and a socket to report to as its standard output.
//!
//! A program of its own because it forks, which only a process of one thread
//! may do and go on using its libraries, and because the manager's memory and
//! privileges then never are near a driver, not even for a moment.

#![deny(unsafe_code)]

mod launcher;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        None => launcher::run(),
        // What `vfun doctor` puts into a jail: it lives until it is told to end.
        Some("--stand-in") => {
            let mut nothing = [0];
            let _ = std::io::Read::read(&mut std::io::stdin(), &mut nothing);
            ExitCode::SUCCESS
        }
        // What services wrote is counted: USER FOLDER, as often as there are folders.
        Some("--count") => launcher::count(),
        Some("--version") => {
            println!("vfun-jail {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Some(_) => {
            eprintln!("vfun-jail is started by vfund: it puts a service into its sandbox");
            ExitCode::from(2)
        }
    }
}
