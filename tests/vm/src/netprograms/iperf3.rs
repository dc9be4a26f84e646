//! iperf3 sends packets, or bytes by TCP, at a bounded rate. It tells how many came in each
//! 100 ms, so there are only bounds of its gaps.

use super::{VM, host, said, serve as start};
use crate::pinger::Count;
use serde_json::Value;
use std::time::Duration;
use vfun_testguest::Guest;

const PORT: u16 = 5201;
/// The shortest time that it tells figures of.
const STEP: Duration = Duration::from_millis(100);

pub fn serve(guest: &Guest, _: Duration) {
    start(guest, "/usr/bin/iperf3 -s -4 -J -i 0.1", PORT);
}

fn run(long: Duration, words: &[&str]) -> Result<Value, String> {
    let seconds = long.as_secs().to_string();
    let said = said(
        host("/usr/bin/iperf3")
            .args(["-c", VM, "-J", "-i", "0.1", "-t", &seconds])
            // 1000 packets a second.
            .args(["-b", "4M", "-l", "500"])
            .args(words),
    )?;
    let value: Value = serde_json::from_str(&said).map_err(|e| format!("{e}: {said}"))?;
    match value["error"].as_str() {
        Some(why) => Err(why.to_owned()),
        None => Ok(value),
    }
}

/// What is longer than any time in which nothing came, by the receiver's words.
fn bound(receiver: &Value) -> Duration {
    let steps = receiver["intervals"].as_array().into_iter().flatten();
    let nothing = steps.map(|step| step["sum"]["bytes"] == 0);
    let longest = nothing.fold((0, 0), |(longest, now), nothing| {
        let now = if nothing { now + 1 } else { 0 };
        (longest.max(now), now)
    });
    // From some moment of the step before to some moment of the step after.
    STEP * (longest.0 + 2)
}

fn count(said: &Value, what: [&str; 2], receiver: &Value) -> Result<Count, String> {
    let end = &said["end"];
    let number = |name: &str| end["sum"][name].as_u64().or(end["sum_received"][name].as_u64());
    let (Some(sent), Some(lost)) = (number(what[0]), number(what[1])) else {
        return Err(format!("iperf3 counted nothing: {end}"));
    };
    Ok(Count { sent: sent as usize, lost: lost as usize, gap: bound(receiver), ..Count::default() })
}

pub fn udp_to_vm(_: &Guest, long: Duration) -> Result<Count, String> {
    let said = run(long, &["-u", "--get-server-output"])?;
    count(&said, ["packets", "lost_packets"], &said["server_output_json"])
}

pub fn udp_from_vm(_: &Guest, long: Duration) -> Result<Count, String> {
    let said = run(long, &["-u", "-R"])?;
    count(&said, ["packets", "lost_packets"], &said)
}

/// TCP sends again what is lost: nothing is missing where the connection is kept.
pub fn tcp_from_vm(_: &Guest, long: Duration) -> Result<Count, String> {
    let said = run(long, &["-R"])?;
    let end = &said["end"];
    let Some(bytes) = end["sum_received"]["bytes"].as_u64() else {
        return Err(format!("iperf3 counted nothing: {end}"));
    };
    eprintln!("iperf3's TCP sent again: {} segments", end["sum_sent"]["retransmits"]);
    Ok(Count { sent: bytes as usize, lost: 0, gap: bound(&said), ..Count::default() })
}
