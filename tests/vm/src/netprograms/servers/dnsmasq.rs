//! dnsmasq, by dnsperf.

use super::Latency;
use crate::netprograms::{after, host, said};
use std::io::Write;
use std::time::Duration;

pub const PORT: u16 = 5300;
/// Questions a second, as many as sockperf sends, and how many may wait for an answer.
///
/// With one at a time, dnsperf 2.10 stands still for 100 ms after some answers: its
/// thread that receives wakes the one that sends before it counts the answer. By one path that
/// was after most answers and by another after none, so one was asked after a sleep and the
/// other not. The number that may wait is so large that it never waits for one.
const PER_S: &str = "200";
const WAITING: &str = "100";

pub fn latency(address: &str, long: Duration) -> Result<Latency, String> {
    let mut questions = tempfile::NamedTempFile::new().unwrap();
    writeln!(questions, "vf.example A").unwrap();
    let (port, s) = (PORT.to_string(), long.as_secs().to_string());
    let said = said(
        host("/usr/bin/dnsperf")
            .args(["-s", address, "-p", &port, "-l", &s, "-c", "1", "-T", "1", "-v"])
            .args(["-Q", PER_S, "-q", WAITING])
            .arg("-d")
            .arg(questions.path()),
    )?;
    let sent = after(&said, "Queries sent:").and_then(|n| n.parse::<usize>().ok());
    let Some(sent) = sent else {
        return Err(format!("dnsperf counted nothing: {said}"));
    };
    // "> NOERROR vf.example A 0.000312"
    let right = said.lines().filter_map(|line| line.strip_prefix("> NOERROR "));
    let took: Vec<f64> =
        right.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).collect();
    let failed = sent.saturating_sub(took.len());
    Ok(Latency::of_each(took.into_iter().map(|s| s * 1e6), failed))
}
