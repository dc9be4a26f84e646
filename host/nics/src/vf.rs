//! One VF: where it is on its way from VM to VM.

use crate::event::{OpId, PoolName};
use crate::moved::MoveTimes;
use crate::notes::VfNote;
use std::fmt;
use vfun_admin::VmName;

/// Where a VF is. Each state carries what is known in it and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// After a start: whether a VM has it is not known.
    Unknown {
        owner: Option<VmName>,
    },
    /// No VM has it.
    Free,
    /// It is made ready on the host.
    Preparing {
        vm: VmName,
    },
    Plugging {
        vm: VmName,
    },
    /// It is plugged in; the agent has not said that packets go through it.
    Joining {
        vm: VmName,
        until_ms: u64,
    },
    Held {
        vm: VmName,
    },
    /// The agent was told to leave it.
    Leaving {
        vm: VmName,
        until_ms: u64,
        /// When packets on their way have arrived. None: the agent has not left it, or the
        /// switch has not learned that.
        settled_ms: Option<u64>,
    },
    /// The VM was asked to let go of it.
    Unplugging {
        vm: VmName,
        tries: u32,
        again_ms: u64,
    },
    /// What its last owner left is taken away.
    Resetting,
    /// Not to be given to anybody: a VM does not let go of it, or a reset failed.
    Quarantined {
        vm: Option<VmName>,
        why: String,
        again_ms: u64,
    },
    /// Its pool has it no more.
    Missing {
        vm: Option<VmName>,
        again_ms: u64,
    },
}

impl State {
    pub(crate) fn owner(&self) -> Option<&VmName> {
        match self {
            State::Free | State::Resetting => None,
            State::Unknown { owner: vm }
            | State::Quarantined { vm, .. }
            | State::Missing { vm, .. } => vm.as_ref(),
            State::Preparing { vm }
            | State::Plugging { vm }
            | State::Joining { vm, .. }
            | State::Held { vm }
            | State::Leaving { vm, .. }
            | State::Unplugging { vm, .. } => Some(vm),
        }
    }

    /// Whether its owner is to use it.
    pub(crate) fn is_in_use(&self) -> bool {
        matches!(self, State::Joining { .. } | State::Held { .. })
    }

    /// Whether its owner has it or is about to get it, and nobody takes it away.
    pub(crate) fn is_granted(&self) -> bool {
        self.is_in_use() || matches!(self, State::Preparing { .. } | State::Plugging { .. })
    }

    /// Whether nobody knows when its owner will be rid of it.
    pub(crate) fn is_stuck(&self) -> bool {
        matches!(self, State::Unknown { .. } | State::Quarantined { .. } | State::Missing { .. })
    }
}

/// In a few words, for lists.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Unknown { .. } => "unknown",
            State::Free => "free",
            State::Preparing { .. } => "preparing",
            State::Plugging { .. } => "plugging",
            State::Joining { .. } => "joining",
            State::Held { .. } => "held",
            State::Leaving { .. } => "leaving",
            State::Unplugging { .. } => "unplugging",
            State::Resetting => "resetting",
            State::Quarantined { .. } => "quarantined",
            State::Missing { .. } => "missing",
        })
    }
}

/// What is being done for a VF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Prepare,
    Plug,
    Relearn,
    Unplug,
    Reset,
}

#[derive(Clone, Debug)]
pub(crate) struct Vf {
    /// None: it is noted, and no pool has listed it yet.
    pub pool: Option<PoolName>,
    /// Its place in its pool's contest.
    pub slot: Option<u16>,
    /// Whether its pool has it, by the last list.
    pub listed: bool,
    pub unusable: Option<String>,
    /// It is known that nothing is left of its last owner.
    pub clean: bool,
    /// What its provider said of that last.
    said_clean: bool,
    /// A VM had it since its last reset: so it is noted.
    pub dirty: bool,
    pub state: State,
    /// Since when it is in this state.
    pub since_ms: u64,
    /// How long the states before took, since it left its last owner.
    pub times: MoveTimes,
    /// What is being done, and not answered.
    pub op: Option<(OpId, Step)>,
    /// It was said to be gone from its owner, since it was plugged in.
    pub gone: bool,
    /// The event by which the last op was answered: what a hypervisor said before says
    /// nothing of now.
    pub answered: u64,
    pub resets_failed: u32,
    /// What failed last, in a sentence.
    pub trouble: Option<String>,
}

impl Vf {
    /// One that a VM may have had before this process began.
    pub(crate) fn noted(now_ms: u64, note: VfNote) -> Self {
        let mut vf = Vf::new(now_ms, false);
        vf.dirty = note.dirty || note.owner.is_some();
        vf.state = State::Unknown { owner: note.owner };
        vf
    }

    pub(crate) fn new(now_ms: u64, clean: bool) -> Self {
        Vf {
            pool: None,
            slot: None,
            listed: false,
            unusable: None,
            clean,
            said_clean: clean,
            dirty: false,
            state: State::Unknown { owner: None },
            since_ms: now_ms,
            times: MoveTimes::default(),
            op: None,
            gone: false,
            answered: 0,
            resets_failed: 0,
            trouble: None,
        }
    }

    /// Its pool has it. One that somebody else uses, or touched, is reset before anybody gets
    /// it. A provider that never knows whether one is clean says nothing new by that.
    pub(crate) fn list(&mut self, unusable: Option<String>, clean: bool) {
        let was_said_clean = std::mem::replace(&mut self.said_clean, clean);
        let touched = self.state == State::Free && was_said_clean && !clean;
        self.clean &= unusable.is_none() && !touched;
        (self.listed, self.unusable) = (true, unusable);
    }

    /// What is to be noted of it; nothing of one that nobody had.
    pub(crate) fn note(&self) -> Option<VfNote> {
        let owner = self.state.owner().cloned();
        let dirty = self.dirty || owner.is_some();
        (dirty).then_some(VfNote { owner, dirty })
    }
}
