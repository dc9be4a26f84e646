//! Asks Open vSwitch by its own program, `ovs-vsctl`.

use crate::limits::{SWITCH_KILLED, SWITCH_TIME};
use std::io::{self, Read as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs `ovs-vsctl`, which ends by itself in time: what it printed.
///
/// # Errors
/// A sentence: the first line of what went wrong, or what to do.
pub(super) fn vsctl(words: &[&str]) -> Result<String, String> {
    let time = format!("--timeout={}", SWITCH_TIME.as_secs());
    let child = Command::new("ovs-vsctl")
        .args([time.as_str()].iter().chain(words))
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            "no ovs-vsctl is installed: install openvswitch-switch".to_owned()
        }
        _ => format!("ovs-vsctl could not be started: {e}"),
    })?;
    let since = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(Some(end)) => break end,
            Ok(None) if since.elapsed() < SWITCH_KILLED => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err("ovs-vsctl did not end: is ovsdb-server running?".into());
            }
            Err(e) => return Err(format!("ovs-vsctl was lost: {e}")),
        }
    };
    if ended.success() {
        return Ok(read(child.stdout.take()));
    }
    let text = read(child.stderr.take());
    let first: String = text.lines().next().unwrap_or("nothing").chars().take(200).collect();
    Err(match first.contains("Permission denied") {
        true => {
            format!("{first}: run vfund as root, or as a user that may reach the switch's socket")
        }
        false => first,
    })
}

/// What a program that has ended said: a line or two, less than a pipe holds.
fn read(from: Option<impl io::Read>) -> String {
    let mut text = String::new();
    if let Some(from) = from {
        let _ = from.take(4096).read_to_string(&mut text);
    }
    text
}
