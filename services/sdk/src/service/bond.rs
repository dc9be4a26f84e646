//! The function `bond`: passes on what the agents in VMs and the manager say to each
//! other. Both say what is, not what changed, so that one order and one report are kept
//! for each channel: a newer one takes the place of the one before.

use super::engine::{Engine, Serve};
use super::manager_link::ManagerLink;
use crate::later::Answerer;
use crate::loader::{ArgsAt, OutAt};
use crate::{CallOutcome, Config, DriverError, OpenCalls, WaitsFor, abi};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vfun_bond::{Call, MESSAGE_BYTES, Order, REPORTS_PER_S, Report};

/// Code of the error by which a call that waits for an order ends without one.
pub const NO_ORDER: i32 = 1;
/// Least time between two reports of one agent to the manager.
const BETWEEN_REPORTS: Duration = Duration::from_millis(1000 / REPORTS_PER_S as u64);

/// All agents of the client that the service serves.
#[derive(Clone)]
pub struct Bonds(Arc<BondAgents>);

struct BondAgents {
    manager: ManagerLink,
    /// By their channels.
    agents: Mutex<BTreeMap<u64, Agent>>,
}

#[derive(Default)]
struct Agent {
    order: Option<Order>,
    /// A call that is answered with the first order of another number than it names.
    waits: Option<(u64, Answerer)>,
    report: Option<Report>,
    /// The manager has not got that report.
    unsent: bool,
    /// When the manager got the report before.
    sent: Option<Instant>,
}

impl Agent {
    /// When its report may go.
    fn due(&self, now: Instant) -> Option<Instant> {
        self.unsent.then(|| self.sent.map_or(now, |sent| sent + BETWEEN_REPORTS))
    }

    /// Answers the call that waits, if there is an order for it.
    fn answer(&mut self) {
        if let Some(order) = &self.order
            && let Some((_, call)) = self.waits.take_if(|(have, _)| *have != order.number)
        {
            let _ = call.answer(&order.to_bytes());
        }
    }

    /// The call that waits ends without an order.
    fn fail(&mut self, why: &str) {
        if let Some((_, call)) = self.waits.take() {
            let _ = call.fail(&DriverError::new(NO_ORDER, why));
        }
    }
}

impl Bonds {
    /// No agent is there yet.
    pub fn new(manager: ManagerLink) -> Self {
        Bonds(Arc::new(BondAgents { manager, agents: Mutex::default() }))
    }

    fn agents(&self) -> MutexGuard<'_, BTreeMap<u64, Agent>> {
        self.0.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The manager's order for the agent behind a channel, which may not be there yet.
    pub(crate) fn ordered(&self, channel: u64, order: Order) {
        let mut agents = self.agents();
        let agent = agents.entry(channel).or_default();
        agent.order = Some(order);
        agent.answer();
    }

    /// A channel is served here no more.
    pub(crate) fn gone(&self, channel: u64) {
        self.agents().remove(&channel);
    }

    /// Another manager is there, which knows no report.
    pub(crate) fn tell_again(&self) {
        for agent in self.agents().values_mut() {
            agent.unsent = agent.report.is_some();
        }
    }

    /// Reports that are due; they count as sent.
    pub(crate) fn due_reports(&self, now: Instant) -> Vec<(u64, Report)> {
        let mut due = vec![];
        for (&channel, agent) in self.agents().iter_mut() {
            if agent.due(now).is_some_and(|at| at <= now)
                && let Some(report) = agent.report.clone()
            {
                (agent.unsent, agent.sent) = (false, Some(now));
                due.push((channel, report));
            }
        }
        due
    }

    /// How long until the next report is due.
    pub(crate) fn patience(&self, now: Instant) -> Option<Duration> {
        let due = self.agents().values().filter_map(|agent| agent.due(now)).min()?;
        Some(due.saturating_duration_since(now))
    }

    fn told(&self, channel: u64, report: Report) {
        let was_unsent = {
            let mut agents = self.agents();
            let agent = agents.entry(channel).or_default();
            agent.report = Some(report);
            std::mem::replace(&mut agent.unsent, true)
        };
        if !was_unsent {
            self.0.manager.wake();
        }
    }
}

/// A channel of it.
pub struct BondChannel {
    bonds: Bonds,
    channel: u64,
    calls: OpenCalls,
}

impl BondChannel {
    fn next(&self, have: u64, mut out: OutAt<'_>) -> Result<CallOutcome, DriverError> {
        let mut agents = self.bonds.agents();
        let agent = agents.entry(self.channel).or_default();
        agent.fail("a later call waits for the order in the place of this one");
        if let Some(order) = agent.order.as_ref().filter(|order| order.number != have) {
            let bytes = order.to_bytes();
            return match out.write(&bytes) {
                true => Ok(CallOutcome::Done(bytes.len())),
                false => Err(DriverError::too_large(bytes.len(), out.capacity())),
            };
        }
        let call = self.calls.later(WaitsFor::Event);
        let call = call.ok_or_else(|| {
            DriverError::new(NO_ORDER, "too many calls were answered at once: ask again")
        })?;
        agent.waits = Some((have, call));
        Ok(CallOutcome::Later)
    }
}

impl Serve for BondChannel {
    fn run(
        &mut self,
        command: u32,
        args: ArgsAt<'_>,
        out: OutAt<'_>,
    ) -> Result<CallOutcome, DriverError> {
        if command == abi::COMMAND_RST {
            let mut agents = self.bonds.agents();
            agents.entry(self.channel).or_default().fail("the agent took its call back (rst)");
            return Ok(CallOutcome::Done(0));
        }
        // Once, into private memory: what is checked is what is used.
        let mut bytes = vec![0; args.len().min(MESSAGE_BYTES)];
        if !args.copy_to(&mut bytes) {
            let long = format!("a message has at most {MESSAGE_BYTES} bytes, not {}", args.len());
            return Err(DriverError::bad_args(long));
        }
        match Call::from_bytes(&bytes).map_err(|e| DriverError::bad_args(e.to_string()))? {
            Call::Next { have } => self.next(have, out),
            Call::Tell(report) => {
                self.bonds.told(self.channel, report);
                Ok(CallOutcome::Done(0))
            }
        }
    }
}

impl Engine for Bonds {
    type Instance = BondChannel;

    fn max_args(&self) -> u32 {
        MESSAGE_BYTES as u32
    }

    fn max_result(&self) -> u32 {
        MESSAGE_BYTES as u32
    }

    fn open(&self, _: &Config) -> Result<BondChannel, DriverError> {
        Err(DriverError::new(abi::PANIC, "no call can be answered later here"))
    }

    fn open_later(&self, config: &Config, calls: &OpenCalls) -> Result<BondChannel, DriverError> {
        Ok(BondChannel { bonds: self.clone(), channel: config.channel, calls: calls.clone() })
    }

    fn bonds(&self) -> Option<&Bonds> {
        Some(self)
    }
}
