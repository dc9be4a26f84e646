//! The function `bond`, and the agents that have it: one in each VM that is lent VFs of
//! network cards.

use super::catalog::{Function, VmId};
use super::grant::{Grant, Stage};
use super::{Core, ServiceId};
use vfun_admin::VmName;
use vfun_supervise::Driver;
use vfun_wire::Handle;
use vfun_wire::version::FunctionVersion;

/// Deadline of a call that says how things are, ms: it is answered at once. One that waits
/// for an order has none.
const DEADLINE_MS: u32 = 5_000;

/// The function: part of a catalog whose manager lends VFs of network cards.
pub fn built_in(id: u32) -> Function {
    let (major, minor) = vfun_bond::VERSION;
    Function {
        id,
        name: vfun_bond::FUNCTION.into(),
        version: FunctionVersion::new(major, minor),
        summary: "moves a VM's network bond to a VF and back".into(),
        software: Some(Driver::Bond),
        hardware: None,
        deadline_ms: DEADLINE_MS,
        fixed_deadline: false,
        max_args: vfun_bond::MESSAGE_BYTES as u32,
        max_result: vfun_bond::MESSAGE_BYTES as u32,
        settings: Default::default(),
        reads: vec![],
        writes: vec![],
        environment: Default::default(),
        makes_code: false,
        devices: vec![],
        codes: Default::default(),
        signature: None,
    }
}

/// A VM's agent: a program whose channel of `bond` is served, or will be again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub vm: VmName,
    /// The service that serves it now; none while another one is started.
    pub service: Option<ServiceId>,
}

impl Core {
    /// The agent behind a channel, if it is one's.
    pub fn agent(&self, channel: Handle) -> Option<Agent> {
        self.agent_of(self.grants.get(channel).ok()?)
    }

    /// All agents, by their channels.
    pub fn agents(&self) -> impl Iterator<Item = (Handle, Agent)> {
        self.grants.iter().filter_map(|(channel, g)| Some((channel, self.agent_of(g)?)))
    }

    fn agent_of(&self, g: &Grant) -> Option<Agent> {
        let service = match g.stage {
            Stage::Active { service, .. } => Some(service),
            Stage::Recovering { .. } => None,
            _ => return None,
        };
        if g.subject.function != vfun_bond::FUNCTION {
            return None;
        }
        let f = self.catalog.function(g.holder.client_id, &g.subject.function)?;
        let vm = VmId { client: g.holder.client_id, vm: g.holder.vm.clone()? };
        let vm = self.catalog.vm(&vm)?.name();
        (f.software == Some(Driver::Bond)).then_some(Agent { vm, service })
    }
}
