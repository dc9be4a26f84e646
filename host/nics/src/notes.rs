//! What outlives the allocator process: who may own which VF.

use crate::event::VfId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vfun_admin::VmName;

/// The notes: written whole each time. A VF that is not in them had no owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notes {
    pub version: u32,
    pub vfs: BTreeMap<VfId, VfNote>,
    /// VMs that are being migrated: they get no VF until that has ended.
    #[serde(default)]
    pub migrating: Vec<VmName>,
}

/// What is noted of a VF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VfNote {
    /// Who has it, or is about to get it, or may still have it.
    pub owner: Option<VmName>,
    /// It must be reset before anybody else gets it.
    pub dirty: bool,
}
