//! What is known of how switches join VMs' ports.

use super::Daemon;
use super::verdicts::PlugOf;
use std::collections::BTreeMap;

/// What holds for the frames that a port's VM sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PortVerdict {
    /// The switch sends all of them unchanged to this port, and nowhere else.
    Joined { to: String },
    /// They need the switch, for this reason.
    Not { why: String },
}

/// The verdicts, by the port's name on the host.
#[derive(Default)]
pub(super) struct Links {
    verdicts: BTreeMap<String, PortVerdict>,
}

impl Daemon {
    /// What holds for a port's frames, from now on.
    pub(super) fn heard_verdict(&mut self, port: &str, verdict: PortVerdict) {
        self.links.verdicts.insert(port.to_owned(), verdict);
    }

    /// A port is not watched any more.
    pub(super) fn forget_verdict(&mut self, port: &str) {
        self.links.verdicts.remove(port);
    }

    /// Nothing is known of any port any more.
    pub(super) fn no_verdicts(&mut self, why: &str) {
        for verdict in self.links.verdicts.values_mut() {
            *verdict = PortVerdict::Not { why: why.to_owned() };
        }
    }

    /// A window went into a VM or out of it, or did not, and why.
    pub(super) fn window_plugged(&mut self, of: PlugOf, done: Result<(), String>) {
        let PlugOf { vm, window, goes_in } = of;
        let where_to = if goes_in { "into" } else { "out of" };
        match done {
            Ok(()) => tracing::info!("window {window} went {where_to} VM {vm}"),
            Err(why) => tracing::warn!("window {window} did not go {where_to} VM {vm}: {why}"),
        }
    }

    /// What was last heard of a port.
    pub(super) fn verdict_of(&self, port: &str) -> Option<&PortVerdict> {
        self.links.verdicts.get(port)
    }
}
