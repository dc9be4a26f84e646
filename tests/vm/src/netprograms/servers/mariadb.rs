//! MariaDB, by sysbench's transactions that read and write.

use super::{Bare, Latency};
use crate::netprograms::{after, folder, host, said};
use std::process::Command;
use std::time::Duration;

pub const PORT: u16 = 3306;
/// Rows of its table.
const ROWS: &str = "1000";

/// Its tables of users are left out: the test's network is its own.
pub const WORDS: &str = "/usr/sbin/mariadbd --no-defaults --user=root --datadir=/srv/mariadb \
     --skip-grant-tables --bind-address=0.0.0.0 --port=3306 --socket=/tmp/mariadb.sock \
     --pid-file=/tmp/mariadb.pid --lc-messages-dir=/usr/share/mysql --init-file=/etc/mariadb.sql \
     --innodb-log-file-size=8M --innodb-buffer-pool-size=32M --innodb-use-native-aio=0";

pub fn prepare(bare: &Bare) {
    bare.folder_of("/srv/mariadb", 0);
    bare.writes("/etc/mariadb.sql", "CREATE DATABASE IF NOT EXISTS sbtest;\n");
}

/// sysbench, with the server at this address.
pub(super) fn sysbench(address: &str) -> Command {
    let scripts = folder().expect("asked for").join("root/usr/share/sysbench");
    let mut command = host("/usr/bin/sysbench");
    command.env("LUA_PATH", scripts.join("?.lua")).arg(scripts.join("oltp_read_write.lua"));
    command.args([&format!("--mysql-host={address}"), &format!("--mysql-port={PORT}")]);
    command.args(["--mysql-user=root", "--mysql-db=sbtest", "--tables=1", "--threads=1"]);
    command.arg(format!("--table-size={ROWS}"));
    command
}

pub fn fill() -> Result<(), String> {
    said(sysbench("127.0.0.1").arg("prepare")).map(drop)
}

pub fn latency(address: &str, long: Duration) -> Result<Latency, String> {
    let s = format!("--time={}", long.as_secs());
    let said = said(sysbench(address).args(["--histogram=on", &s, "run"]))?;
    Ok(Latency::of(histogram(&said), failed(&said)?))
}

/// What transactions took, us, and how many took so long.
fn histogram(said: &str) -> Vec<(f64, usize)> {
    // "      4.329 |*****                3"
    let bar = |line: &str| {
        let (ms, bar) = line.split_once('|')?;
        let times = bar.trim_start_matches('*').trim().parse().ok()?;
        Some((ms.trim().parse::<f64>().ok()? * 1e3, times))
    };
    said.lines().filter_map(bar).collect()
}

/// How many transactions failed, and how many times the client connected again.
pub(super) fn failed(said: &str) -> Result<usize, String> {
    let number = |words| after(said, words)?.parse::<usize>().ok();
    match (number("ignored errors:"), number("reconnects:")) {
        (Some(errors), Some(reconnects)) => Ok(errors + reconnects),
        _ => Err(format!("sysbench counted nothing: {said}")),
    }
}
