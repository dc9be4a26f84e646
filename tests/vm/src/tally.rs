//! What became of many hand-overs.

use crate::pinger::Count;
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
    gap: Duration,
    /// Longest silence of a control that lost nothing.
    control: Duration,
}

impl Tally {
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
            self.gap = longest(counts, self.gap);
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { hand_overs, void, sent, lost, gap, control } = self;
        let (gap, control) = (gap.as_millis(), control.as_millis());
        writeln!(
            f,
            "| hand-overs | void | packets | lost | longest gap | control's longest gap |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        write!(f, "| {hand_overs} | {void} | {sent} | {lost} | {gap} ms | {control} ms |")
    }
}
