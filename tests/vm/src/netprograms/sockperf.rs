//! sockperf sends packets at an even pace; the VM's answers each.

use super::{VM, after, host, longest, said, serve as start};
use crate::pinger::Count;
use std::time::Duration;
use vfun_testguest::Guest;

const PORT: u16 = 11111;

pub fn serve(guest: &Guest, _: Duration) {
    start(guest, &format!("/usr/bin/sockperf server -i 0.0.0.0 -p {PORT}"), PORT);
}

pub fn run(_: &Guest, long: Duration) -> Result<Count, String> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let said = said(
        host("/usr/bin/sockperf")
            .args(["under-load", "-i", VM, "-p", &PORT.to_string(), "--mps", "1000"])
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
    Ok(Count { sent, lost, gap: longest(log.lines().filter_map(came).collect()) })
}

/// When an answer came, by its line: number, when it was sent, when it came, latency.
fn came(line: &str) -> Option<f64> {
    let words: Vec<f64> = line.split(',').map(|w| w.trim().parse().ok()).collect::<Option<_>>()?;
    (words.len() == 4).then(|| words[2])
}
