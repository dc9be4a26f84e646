//! What became of many hand-overs.

use crate::pinger::Count;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Sums of hand-overs, and of the controls beside them, in which nothing was moved.
#[derive(Default)]
pub struct Tally {
    hand_overs: usize,
    /// Of these, the ones after a control that lost packets by itself.
    void: usize,
    /// Of the hand-overs that are not void.
    sent: usize,
    lost: usize,
    late: usize,
    gap: Duration,
    /// Longest silence of a control that lost nothing.
    control: Duration,
    /// How long each step of the moves took, ms.
    steps: BTreeMap<&'static str, Vec<u64>>,
}

/// The steps of a move, in order, as `vfun nics list --json` calls them.
const STEPS: [&str; 6] =
    ["leaving_ms", "unplugging_ms", "resetting_ms", "preparing_ms", "plugging_ms", "joining_ms"];

impl Tally {
    /// Adds how long the steps of a VF's last move took.
    pub fn took(&mut self, last_move: &Value) {
        for step in STEPS {
            let times = self.steps.entry(step).or_default();
            times.extend(last_move[step].as_u64());
        }
    }

    /// Median and longest time of each step.
    fn steps(&self) -> String {
        let mut text =
            String::from("| step | median ms | longest ms | moves |\n|---|---|---|---|\n");
        for (step, times) in STEPS.iter().filter_map(|s| Some((s, self.steps.get(s)?))) {
            let mut times = times.clone();
            times.sort_unstable();
            let (median, most) = (times.get(times.len() / 2), times.last());
            let (median, most) = (median.copied().unwrap_or(0), most.copied().unwrap_or(0));
            text += &format!("| {step} | {median} | {most} | {} |\n", times.len());
        }
        text
    }

    /// Adds hand-overs, with what all VMs lost in each, and the control before them.
    pub fn add(&mut self, control: &[Count], hand_overs: &[Vec<Count>]) {
        self.hand_overs += hand_overs.len();
        if control.iter().any(|c| c.lost > 0) {
            self.void += hand_overs.len();
            return;
        }
        let longest =
            |counts: &[Count], so_far| counts.iter().map(|c| c.gap).fold(so_far, Duration::max);
        self.control = longest(control, self.control);
        for counts in hand_overs {
            self.sent += counts.iter().map(|c| c.sent).sum::<usize>();
            self.lost += counts.iter().map(|c| c.lost).sum::<usize>();
            self.late += counts.iter().map(|c| c.late).sum::<usize>();
            self.gap = longest(counts, self.gap);
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { hand_overs, void, sent, lost, late, gap, control, steps: _ } = self;
        let (gap, control) = (gap.as_millis(), control.as_millis());
        if *hand_overs > 0 {
            let head = "| hand-overs | void | packets | lost | late | longest gap | control's longest gap |";
            writeln!(f, "{head}\n|---|---|---|---|---|---|---|")?;
            let packets = format!("{sent} | {lost} | {late}");
            writeln!(f, "| {hand_overs} | {void} | {packets} | {gap} ms | {control} ms |")?;
        }
        write!(f, "{}", self.steps())
    }
}
