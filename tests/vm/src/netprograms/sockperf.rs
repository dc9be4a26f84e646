//! sockperf sends packets at an even pace; the VM's answers each.

use super::servers::Latency;
use super::{VM, after, host, longest, said, serve as start};
use crate::pinger::Count;
use std::time::Duration;
use vfun_testguest::Guest;

pub const PORT: u16 = 11111;

/// What one run counted.
struct Run {
    sent: usize,
    lost: usize,
    /// Of each answer: number, when it was sent, when it came, s, and the latency.
    answers: Vec<[f64; 4]>,
}

pub fn serve(guest: &Guest, _: Duration) {
    start(guest, &format!("/usr/bin/sockperf server -i 0.0.0.0 -p {PORT}"), PORT);
}

pub fn run(_: &Guest, long: Duration) -> Result<Count, String> {
    let Run { sent, lost, answers } = under_load(VM, "1000", long)?;
    Ok(Count {
        sent,
        lost,
        gap: longest(answers.iter().map(|a| a[2]).collect()),
        ..Count::default()
    })
}

/// How long packets take to the server at this address and back.
pub fn latency(address: &str, long: Duration) -> Result<Latency, String> {
    let Run { sent: _, lost, answers } = under_load(address, "200", long)?;
    Ok(Latency::of_each(answers.iter().map(|a| (a[2] - a[1]) * 1e6), lost))
}

fn under_load(address: &str, per_s: &str, long: Duration) -> Result<Run, String> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let said = said(
        host("/usr/bin/sockperf")
            .args(["under-load", "-i", address, "-p", &PORT.to_string(), "--mps", per_s])
            // It asks for one answer in a hundred packets otherwise, and counts only those.
            .args(["--reply-every", "1", "-t", &long.as_secs().to_string(), "--full-log"])
            .arg(log.path()),
    )?;
    // It leaves out what it sent while it warmed up.
    let counted = said.find("[Valid Duration]").map(|at| &said[at..]);
    let number =
        |words| counted.and_then(|text| after(text, words)).and_then(|n| n.parse::<usize>().ok());
    let (sent, lost) = (number("SentMessages="), number("# dropped messages = "));
    let (Some(sent), Some(lost)) = (sent, lost) else {
        return Err(format!("sockperf counted nothing: {said}"));
    };
    let log = std::fs::read_to_string(log.path()).unwrap();
    Ok(Run { sent, lost, answers: log.lines().filter_map(answer).collect() })
}

/// An answer, by its line.
fn answer(line: &str) -> Option<[f64; 4]> {
    let words: Vec<f64> = line.split(',').map(|w| w.trim().parse().ok()).collect::<Option<_>>()?;
    words.try_into().ok()
}
