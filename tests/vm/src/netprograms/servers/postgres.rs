//! PostgreSQL, by pgbench.

use super::{Bare, Latency};
use crate::netprograms::{host, said};
use std::process::Command;
use std::time::{Duration, Instant};

pub const PORT: u16 = 5432;
/// Its user (packaging/net-programs.sh): it does not run as root.
const USER: u32 = 105;
/// How long it may take to answer after it listens.
const PATIENCE: Duration = Duration::from_secs(60);

pub const WORDS: &str = "/usr/bin/setpriv --reuid 105 --regid 105 --clear-groups \
     /usr/lib/postgresql/15/bin/postgres -D /srv/postgres \
     -c listen_addresses=0.0.0.0 -c unix_socket_directories=";

pub fn prepare(bare: &Bare) {
    bare.folder_of("/srv/postgres", USER);
    bare.does(&format!(
        "/usr/bin/setpriv --reuid {USER} --regid {USER} --clear-groups \
         /usr/lib/postgresql/15/bin/initdb -D /srv/postgres -U postgres -A trust \
         --no-sync --no-locale -E UTF8"
    ));
    bare.writes("/srv/postgres/pg_hba.conf", "host all all 0.0.0.0/0 trust\n");
}

fn pgbench(address: &str) -> Command {
    let mut command = host("/usr/lib/postgresql/15/bin/pgbench");
    command.args(["-h", address, "-p", &PORT.to_string(), "-U", "postgres"]);
    command
}

/// What it said. A server that has just been started listens some time before it answers.
fn once_up(command: &mut Command) -> Result<String, String> {
    let end = Instant::now() + PATIENCE;
    loop {
        match said(command) {
            Err(why) if why.contains("is starting up") && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(100));
            }
            end => return end,
        }
    }
}

pub fn fill() -> Result<(), String> {
    once_up(pgbench("127.0.0.1").args(["-i", "-q", "postgres"])).map(drop)
}

pub fn latency(address: &str, long: Duration) -> Result<Latency, String> {
    let logs = tempfile::tempdir().unwrap();
    let s = long.as_secs().to_string();
    once_up(
        pgbench(address)
            .args(["-n", "-S", "-c", "1", "-T", &s, "--log", "--log-prefix"])
            .arg(logs.path().join("log"))
            .arg("postgres"),
    )?;
    let mut took = vec![];
    for log in std::fs::read_dir(logs.path()).unwrap().flatten() {
        let text = std::fs::read_to_string(log.path()).unwrap();
        // Client, number, and how many microseconds it took.
        took.extend(text.lines().filter_map(|l| l.split(' ').nth(2)?.parse::<f64>().ok()));
    }
    // It ends with an error where its client is cut off.
    Ok(Latency::of_each(took.into_iter(), 0))
}
