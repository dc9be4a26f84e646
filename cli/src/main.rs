//! `vfun`: the command people type. See the library's `run`.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    vfun_cli::run()
}
