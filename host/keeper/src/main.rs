//! `vfun-keeper PATH`: the manager starts it with the listening socket of
//! PATH as its standard input.

#![forbid(unsafe_code)]

use std::os::fd::AsFd;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1).map(std::path::PathBuf::from) else {
        eprintln!(
            "vfun-keeper is started by vfund: it keeps its descriptors while vfund is started again"
        );
        return ExitCode::from(2);
    };
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    // Fewer descriptors fit if this fails; the manager has the same limit.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
    let served = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|listener| vfun_keeper::serve(listener, &path));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("vfun-keeper: {e}");
            ExitCode::FAILURE
        }
    }
}
