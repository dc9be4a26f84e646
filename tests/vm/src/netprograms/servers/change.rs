//! A database's answers, second by second, while its VM gets a VF.

use super::mariadb::{failed, sysbench};
use crate::netprograms::said;
use std::time::{Duration, Instant};

/// How long it is loaded before its VM may have the VF.
const BEFORE: Duration = Duration::from_secs(10);
/// How long it is loaded with the VF, at least.
const AFTER: Duration = Duration::from_secs(15);
/// A policy decides only now and then, and takes the VF away elsewhere first: so many times as
/// long as a VF takes to come when it is told to.
const DECIDES: u32 = 10;
/// The seconds beside the move do not count.
const BESIDE: usize = 1;

/// What transactions took.
pub struct Change {
    /// Half of each second's transactions took at most so long, ms.
    pub seconds_ms: Vec<f64>,
    /// When the VM was first allowed the VF, and when it used it, s.
    pub allowed_s: f64,
    pub came_s: f64,
    pub transactions: usize,
    pub failed: usize,
    /// The longest one of all, ms.
    pub longest_ms: f64,
}

/// Loads the server at this address. `moves` makes its VM get the VF, and waits for that; where
/// a VM is told to take it, that takes so long.
pub fn change(address: &str, told: Duration, moves: impl FnOnce()) -> Result<Change, String> {
    let long = BEFORE + told * DECIDES + AFTER;
    let began = Instant::now();
    let (said, allowed, came) = std::thread::scope(|s| {
        let seconds = format!("--time={}", long.as_secs());
        let words = ["--report-interval=1", "--percentile=50", &seconds, "run"];
        let mut command = sysbench(address);
        command.args(words);
        let runs = s.spawn(move || said(&mut command));
        std::thread::sleep(BEFORE);
        let allowed = began.elapsed();
        moves();
        let came = began.elapsed();
        (runs.join().expect("it says why it fails"), allowed, came)
    });
    let said = said?;
    let number = |words| super::super::after(&said, words);
    let (Some(Ok(transactions)), Some(Ok(longest_ms))) =
        (number("transactions:").map(str::parse), number("max:").map(str::parse))
    else {
        return Err(format!("sysbench counted nothing: {said}"));
    };
    let change = Change {
        seconds_ms: said.lines().filter_map(of_a_second).collect(),
        allowed_s: allowed.as_secs_f64(),
        came_s: came.as_secs_f64(),
        transactions,
        failed: failed(&said)?,
        longest_ms,
    };
    match change.after_ms() {
        Some(_) => Ok(change),
        None => Err(format!("the VF came after {came:?}, too late to see what it changes: {said}")),
    }
}

/// "[ 7s ] thds: 1 tps: 70.00 qps: 1400.00 (r/w/o: ...) lat (ms,50%): 14.21 err/s: ..."
fn of_a_second(line: &str) -> Option<f64> {
    let rest = line.strip_prefix("[ ")?.split_once("lat (ms,50%): ")?.1;
    rest.split(' ').next()?.parse().ok()
}

impl Change {
    /// Half of the seconds before the VF: at most so long, ms.
    pub fn before_ms(&self) -> Option<f64> {
        let end = (self.allowed_s as usize).min(self.seconds_ms.len());
        middle(&self.seconds_ms[..end])
    }

    /// The same with the VF.
    pub fn after_ms(&self) -> Option<f64> {
        let begin = self.came_s.ceil() as usize + BESIDE;
        middle(self.seconds_ms.get(begin..)?)
    }
}

fn middle(seconds: &[f64]) -> Option<f64> {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}
