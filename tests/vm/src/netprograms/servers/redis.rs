//! redis, by redis-benchmark.

use super::Latency;
use crate::netprograms::{host, said};
use std::time::Duration;

pub const PORT: u16 = 6379;
/// Requests that show how many of them fill the time: the program takes only their number.
const SOME: usize = 100;

pub fn latency(address: &str, long: Duration) -> Result<Latency, String> {
    let (_, per_s) = run(address, SOME)?;
    Ok(run(address, ((long.as_secs_f64() * per_s) as usize).max(SOME))?.0)
}

/// So many requests; how many there were in a second, too.
fn run(address: &str, requests: usize) -> Result<(Latency, f64), String> {
    let said = said(
        host("/usr/bin/redis-benchmark")
            .args(["-h", address, "-p", &PORT.to_string(), "-c", "1", "-d", "64", "-t", "set"])
            .args(["--csv", "-n", &requests.to_string()]),
    )?;
    // "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms",...
    let line = |start: &str| {
        let line = said.lines().find(|line| line.starts_with(start));
        line.map(|line| line.split(',').map(|w| w.trim_matches('"')).collect::<Vec<_>>())
    };
    let (Some(names), Some(values)) = (line("\"test\""), line("\"SET\"")) else {
        return Err(format!("redis-benchmark counted nothing: {said}"));
    };
    let value = |name: &str| -> Option<f64> {
        values.get(names.iter().position(|n| *n == name)?)?.parse().ok()
    };
    match (value("rps"), value("p50_latency_ms"), value("p99_latency_ms")) {
        (Some(per_s), Some(p50), Some(p99)) => {
            let (p50_us, p99_us) = (p50 * 1e3, p99 * 1e3);
            // It ends with an error where one fails.
            Ok((Latency { answered: requests, failed: 0, p50_us, p99_us }, per_s))
        }
        _ => Err(format!("redis-benchmark counted nothing: {said}")),
    }
}
