//! ping, which the VM's kernel answers.

use super::{VM, host, longest, said};
use crate::pinger::Count;
use std::time::Duration;
use vfun_testguest::Guest;

/// Packets a second, and the time between two of them.
const RATE: u64 = 100;
const EVERY: &str = "0.01";

pub fn run(_: &Guest, long: Duration) -> Result<Count, String> {
    let packets = (long.as_secs() * RATE).to_string();
    let said = said(host("/bin/ping").args(["-n", "-D", "-i", EVERY, "-c", &packets, VM]))?;
    // "3000 packets transmitted, 2999 received, 0% packet loss, time 30010ms"
    let line = said.lines().find(|line| line.contains(" packets transmitted, "));
    let mut numbers = line
        .into_iter()
        .flat_map(|l| l.split(", "))
        .map(|part| part.split(' ').next().and_then(|n| n.parse::<usize>().ok()));
    let (Some(Some(sent)), Some(Some(came))) = (numbers.next(), numbers.next()) else {
        return Err(format!("ping counted nothing: {said}"));
    };
    // "[1700000000.123456] 64 bytes from ..."
    let at = |line: &str| line.strip_prefix('[')?.split_once(']')?.0.parse().ok();
    Ok(Count {
        sent,
        lost: sent - came,
        gap: longest(said.lines().filter_map(at).collect()),
        ..Count::default()
    })
}
