//! The manager with points at which a test lets it die: built only by tests,
//! with the feature `fault-points`.

#[path = "../main.rs"]
mod manager;

fn main() -> std::process::ExitCode {
    manager::main()
}
