//! Direct links: frames from one VM's port to another one's go past the switch, through memory
//! that the two VMs share (docs/links.md; rules R-LNK and R-SWI of docs/protocol.md).
//!
//! - [`want`]: which links there should be. [`facts`]: what that is decided by.
//! - [`handover`]: one link, from its first word to its last.
//! - [`bells`]: how one VM rings the other.
//! - [`live`]: links begin, go on and end. [`driver`]: words to and from the switch's driver.
//! - [`plug`]: memory for links goes into VMs, and out of them. [`made`]: when memory that the
//!   manager made goes out. [`serve`]: where QEMUs take it. [`flows`]: rules whose counts miss what
//!   links carry.
//! - [`notes`]: what the next manager is to know. [`rows`]: links for people.

mod bells;
mod driver;
mod facts;
mod flows;
mod handover;
mod live;
mod made;
mod notes;
mod page;
mod plug;
mod rows;
mod serve;
mod want;

use super::Daemon;
use crate::core::WindowId;
use crate::limits::{LINK_EAGER, LINK_LOOK_DIRECT, LINK_LOOK_RESTING, LINK_LOOK_TURNING};
use handover::{LinkState, Wish};
use live::Link;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vfun_links::passed::Passed;
use vfun_rim::further::HostFurther;
use want::{LinkPlan, Pair};

/// Where the switch sends the frames of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::rim) enum PortVerdict {
    /// All of them to this port, as they are; they pass these rules.
    Joined { to: String, passed: Passed },
    /// Not so, and why.
    Not { why: String },
}

/// A window that is not used again before one of its VMs has let go of it.
struct Bar {
    /// The control windows of its two VMs then.
    of: [Option<WindowId>; 2],
    /// When one of its VMs said that it has it no more, ms.
    let_go: Option<u64>,
}

/// Links, and what is known of ports.
#[derive(Default)]
pub(super) struct Links {
    /// By names of ports on the host.
    verdicts: BTreeMap<String, PortVerdict>,
    /// Why nobody watches the switch any more.
    unwatched: Option<String>,
    /// By their numbers.
    links: BTreeMap<u64, Link>,
    /// Why ports send over no link.
    why: BTreeMap<String, String>,
    /// What the operator turned off.
    off: BTreeSet<Pair>,
    /// Nobody knows what was turned off under an earlier manager.
    is_off_unknown: bool,
    /// Pairs that rest: until when, ms, and why.
    resting: BTreeMap<Pair, (u64, String)>,
    /// What earlier links of pairs came to.
    past: BTreeMap<Pair, rows::PastLinks>,
    /// By the windows' numbers.
    bars: BTreeMap<WindowId, Bar>,
    bells: bells::LinkBells,
    plugs: plug::LinkPlugs,
    made: plug::MadeWindows,
    served: serve::ServedWindows,
    flows: flows::FlowSums,
    /// What an earlier manager noted, until it is taken up.
    left: Vec<(String, String)>,
    /// Something may have changed of which links there should be.
    changed: bool,
    /// When that was last decided, ms.
    planned: u64,
}

impl Links {
    /// Something became of a grant, a window or what manifests say.
    pub fn changed(&mut self) {
        self.changed = true;
    }

    /// What an earlier manager noted of links.
    pub fn were_left(&mut self, notes: Vec<(String, String)>) {
        self.left = notes;
    }

    /// Whether there is nothing to look at before something changes.
    fn is_idle(&self) -> bool {
        let is_joined = |v: &PortVerdict| matches!(v, PortVerdict::Joined { .. });
        let is_quiet = self.links.is_empty() && self.bars.is_empty() && self.made.all.is_empty();
        is_quiet && self.made.stuck.is_empty() && !self.verdicts.values().any(is_joined)
    }

    /// Sends QEMUs away: the manager is out of file descriptors.
    pub fn turn_away(&self) {
        self.served.turn_away();
    }

    /// Whether anybody has ever said anything of a port.
    fn is_watched(&self) -> bool {
        self.unwatched.is_none() && !self.verdicts.is_empty()
    }
}

impl Daemon {
    /// The detector says where the switch sends a port's frames.
    pub(in crate::rim) fn heard_verdict(&mut self, port: &str, verdict: PortVerdict) {
        self.links.unwatched = None;
        if self.links.verdicts.get(port) != Some(&verdict) {
            tracing::debug!(port, "the switch: {verdict:?}");
            self.links.verdicts.insert(port.into(), verdict);
            self.links.changed = true;
            self.share_links_of(port);
        }
    }

    /// What was last heard of a port.
    pub(in crate::rim) fn verdict_of(&self, port: &str) -> Option<&PortVerdict> {
        self.links.verdicts.get(port)
    }

    /// A port is not watched any more.
    pub(in crate::rim) fn forget_verdict(&mut self, port: &str) {
        self.links.verdicts.remove(port);
        self.links.changed = true;
    }

    /// Nobody watches the switch any more: all frames go through it.
    pub(in crate::rim) fn no_verdicts(&mut self, why: &str) {
        self.links.unwatched = Some(why.into());
        for verdict in self.links.verdicts.values_mut() {
            *verdict = PortVerdict::Not { why: why.into() };
        }
        self.links.changed = true;
    }

    /// Begins links that should be there, goes on with those that are, and ends others.
    pub(super) fn look_after_links(&mut self) {
        self.mind_link_bells();
        if self.links.is_idle() && !self.links.changed {
            return;
        }
        let now = self.now();
        self.mind_link_ends();
        self.lift_bars();
        let is_due = now.saturating_sub(self.links.planned) >= LINK_LOOK_RESTING.as_millis() as u64;
        if std::mem::take(&mut self.links.changed) || is_due {
            self.links.planned = now;
            self.links.resting.retain(|_, (until, _)| now < *until);
            self.plan_links();
        }
        let due = |(number, link): (&u64, &Link)| (link.due <= now).then_some(*number);
        let due: Vec<u64> = self.links.links.iter().filter_map(due).collect();
        due.into_iter().for_each(|number| self.step_link(number));
        self.take_made_windows_out();
    }

    pub(super) fn links_patience(&self) -> Option<Duration> {
        if self.links.is_idle() {
            return None;
        }
        let now = self.now();
        let due = self.links.links.values().map(|link| link.due.saturating_sub(now)).min();
        let look = LINK_LOOK_RESTING.as_millis() as u64;
        let plan = (self.links.planned + look).saturating_sub(now);
        Some(Duration::from_millis(due.map_or(plan, |due| due.min(plan))))
    }

    /// Decides which links there should be, and wishes that of each.
    fn plan_links(&mut self) {
        let (now, mut plan) = (self.now(), self.link_plan());
        for link in self.links.links.values_mut() {
            let wish = match plan.may.get(&link.pair) {
                Some(window) if *window == link.window => match plan.go.contains(&link.pair) {
                    true => Wish::Direct,
                    false => Wish::Wait,
                },
                _ => Wish::Leave,
            };
            if link.handover.wish(wish) {
                link.due = 0;
                link.eager = now + LINK_EAGER.as_millis() as u64;
            }
        }
        self.forget_old_pairs();
        self.links.why = std::mem::take(&mut plan.why);
        let failed = self.make_windows(&plan.lacking.keys().cloned().collect());
        for (vms, why) in failed {
            for port in plan.lacking.get(&vms).into_iter().flatten() {
                self.links.why.insert(port.clone(), why.clone());
            }
        }
        self.mind_made_windows(&self.needed_windows(&plan));
        self.plug_for_links(&plan.apart);
        for pair in plan.go {
            if let Err(why) = self.begin_link(&pair, plan.may[&pair]) {
                self.links.why.insert(pair.from, why);
            }
        }
    }
}

impl Daemon {
    /// Windows in which frames go, or should go. A link that only waits needs none.
    fn needed_windows(&self, plan: &LinkPlan) -> BTreeSet<WindowId> {
        let mut needed: BTreeSet<WindowId> = plan.go.iter().map(|pair| plan.may[pair]).collect();
        let is_used = |link: &&Link| link.handover.state().0 != LinkState::Switch;
        needed.extend(self.links.links.values().filter(is_used).map(|link| link.window));
        let is_for = |d: &HostFurther| plug::vms_of(d).is_some_and(|vms| plan.apart.contains(&vms));
        needed.extend(self.made_windows().filter(|(_, d)| is_for(d)).map(|(id, _)| id));
        needed
    }
}

/// When a link is looked at again.
fn look_after(state: LinkState, turns: bool, is_there: bool) -> Duration {
    match state {
        LinkState::Direct if !turns => LINK_LOOK_DIRECT,
        // Without a driver nothing turns.
        _ if turns && is_there => LINK_LOOK_TURNING,
        _ => LINK_LOOK_RESTING,
    }
}

#[cfg(test)]
mod tests;
