//! How long a VF's last move took, step by step.

use crate::vf::State;
use serde::{Deserialize, Serialize};

/// Times of the steps from one VM to the next, ms. None: this step was not needed, or has not
/// ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveTimes {
    /// The agent moved its bond to the paravirtual NIC; until the switch has learned it, and the
    /// pause for late packets, are part of it.
    pub leaving_ms: Option<u64>,
    /// The VM let go of the VF.
    pub unplugging_ms: Option<u64>,
    /// What the VM left was taken away, on the host.
    pub resetting_ms: Option<u64>,
    /// It was made ready for the next VM, on the host.
    pub preparing_ms: Option<u64>,
    /// The hypervisor plugged it in.
    pub plugging_ms: Option<u64>,
    /// The VM found it, its carrier came, and the agent moved its bond to it.
    pub joining_ms: Option<u64>,
}

impl MoveTimes {
    /// A state was left after so many ms.
    pub(crate) fn add(&mut self, before: &State, ms: u64) {
        let step = match before {
            // Here a move begins.
            State::Held { .. } => return *self = MoveTimes::default(),
            State::Leaving { .. } => &mut self.leaving_ms,
            State::Unplugging { .. } => &mut self.unplugging_ms,
            State::Resetting => &mut self.resetting_ms,
            State::Preparing { .. } => &mut self.preparing_ms,
            State::Plugging { .. } => &mut self.plugging_ms,
            State::Joining { .. } => &mut self.joining_ms,
            State::Unknown { .. }
            | State::Free
            | State::Quarantined { .. }
            | State::Missing { .. } => return,
        };
        *step = Some(ms);
    }

    /// All steps that took place, in order, with what to call them.
    pub fn steps(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("leave", self.leaving_ms),
            ("unplug", self.unplugging_ms),
            ("reset", self.resetting_ms),
            ("prepare", self.preparing_ms),
            ("plug", self.plugging_ms),
            ("join", self.joining_ms),
        ];
        all.into_iter().filter_map(|(name, ms)| Some((name, ms?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_admin::VmName;

    #[test]
    fn each_step_has_its_time_and_a_move_begins_anew() {
        let (vm, mut times) = (VmName::new("a", "a"), MoveTimes::default());
        times.add(&State::Preparing { vm: vm.clone() }, 5);
        times.add(&State::Joining { vm: vm.clone(), until_ms: 9 }, 70);
        assert_eq!(times.steps(), [("prepare", 5), ("join", 70)]);
        times.add(&State::Free, 1000);
        times.add(&State::Held { vm: vm.clone() }, 5000);
        assert_eq!(times.steps(), []);
        times.add(&State::Resetting, 3);
        assert_eq!(times.resetting_ms, Some(3));
    }
}
