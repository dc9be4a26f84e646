//! What must hold after each event, whatever it was.

use crate::nics::Nics;
use crate::vf::{State, Step};
use std::collections::BTreeMap;
use vfun_admin::VmName;

impl Nics {
    /// Panics if what must hold does not:
    /// - no VM has two VFs that it uses or is about to get;
    /// - a VF is prepared and plugged in only for its owner, and only that owner is noted;
    /// - one that is given is noted as dirty; one that is free is not;
    /// - at most one thing is being done for a VF, and the kind that its state asks for;
    /// - the contest and the VFs' places agree.
    pub fn check(&self) {
        let mut granted: BTreeMap<&VmName, u32> = BTreeMap::new();
        for (id, vf) in &self.vfs {
            let owner = vf.state.owner();
            if vf.state.is_granted() {
                let n = granted.entry(owner.expect("a VF that is given has an owner")).or_default();
                *n += 1;
                assert_eq!(*n, 1, "VM {owner:?} has two VFs, one of them {id}");
            }
            let noted = self.written().vfs.get(id);
            assert_eq!(noted, vf.note().as_ref(), "the notes of {id} ({})", vf.state);
            assert!(owner.is_none() || (vf.dirty && !vf.clean), "{id} has an owner and is clean");
            assert!(!(vf.clean && vf.dirty), "{id} is clean and dirty");
            assert!(
                !matches!(vf.state, State::Free) || !vf.dirty,
                "{id} is free and was not reset since its last owner"
            );
            let fits = match (&vf.state, vf.op.map(|(_, step)| step)) {
                (State::Preparing { .. }, step) => step == Some(Step::Prepare),
                (State::Plugging { .. }, step) => step == Some(Step::Plug),
                (State::Resetting, step) => step == Some(Step::Reset),
                (_, None) => true,
                (State::Leaving { .. }, step) => step == Some(Step::Relearn),
                (
                    State::Unplugging { .. } | State::Quarantined { .. } | State::Missing { .. },
                    step,
                ) => step == Some(Step::Unplug),
                (_, Some(_)) => false,
            };
            assert!(fits, "{id} is {} while {:?} is under way", vf.state, vf.op);
            let owners = self.owned.iter().filter(|(_, vfs)| vfs.contains(id));
            assert!(owners.map(|(vm, _)| vm).eq(owner), "the owners of {id}");
            if let (Some(pool), Some(slot)) = (&vf.pool, vf.slot) {
                let at = self.pools.get(pool).and_then(|contest| contest.vf_at(slot));
                assert_eq!(at, Some(id), "the place of {id}");
            }
        }
        assert!(self.written().migrating.iter().eq(&self.migrating), "the migrations are noted");
        assert!(self.owned.values().all(|vfs| !vfs.is_empty()), "a VM that owns nothing");
    }
}
