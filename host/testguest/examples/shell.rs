//! A guest with a shell on this terminal. `cargo run -p vfun-testguest --example shell`

use std::process::exit;

fn main() {
    let mut config = vfun_testguest::GuestConfig::new("shell");
    config.net = true;
    match vfun_testguest::interactive(&config) {
        Ok(status) => exit(status),
        Err(error) => {
            eprintln!("shell: {error}");
            exit(1);
        }
    }
}
