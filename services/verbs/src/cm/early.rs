//! Requests that come before anybody listens. They wait for a moment: a program that is asked over
//! another connection, and begins to listen then, is some ms late (`perftest -R` is such a program). On a
//! wire the way of the request gives it the time.

use super::id::{CmData, CmId, CmKind, CmOffer, CmSpace, Home, State};
use super::{Cm, NO_SERVICE};
use crate::limits::{CM_EARLY, CM_EARLY_NS};
use std::collections::VecDeque;

/// Where somebody may listen.
pub(super) type Place = (Home, CmSpace, u16);

struct EarlyRequest {
    id: u32,
    to: Place,
    offer: CmOffer,
    data: CmData,
    /// When it is rejected, ns. It is set in the first run that sees it.
    until: Option<u64>,
}

/// Requests that wait, the oldest first. The id of a request may have ended meanwhile.
#[derive(Default)]
pub(super) struct Early(VecDeque<EarlyRequest>);

#[cfg(test)]
impl Early {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Cm {
    /// The id waits for a listener.
    pub(super) fn wait_for_listener(
        &mut self,
        id: u32,
        to: Place,
        offer: CmOffer,
        data: CmData,
    ) -> Result<State, (CmKind, i32)> {
        if self.early.0.len() >= CM_EARLY {
            return Err((CmKind::Rejected, NO_SERVICE));
        }
        self.early.0.push_back(EarlyRequest { id, to, offer, data, until: None });
        Ok(State::Early)
    }

    /// Somebody listens now: those who waited for it have asked.
    pub(super) fn listened(&mut self, listener: u32, at: Place) {
        let (its, others) = self.early.0.drain(..).partition(|one| one.to == at);
        self.early.0 = others;
        for EarlyRequest { id, offer, data, .. } in its {
            let Some(from) = self.waiting(id).cloned() else { continue };
            match self.request(listener, (id, &from), (&offer, &data)) {
                Ok(peer) => self.set_state(id, State::Connecting { peer }),
                Err((kind, status)) => self.tell_end(id, kind, (status, CmData::default())),
            }
        }
    }

    /// Rejects those who waited too long. `now` is a clock that never goes back, ns. Returns when there is
    /// somebody to reject next.
    pub fn run(&mut self, now: u64) -> Option<u64> {
        for new in self.early.0.iter_mut().rev().take_while(|one| one.until.is_none()) {
            new.until = Some(now + CM_EARLY_NS);
        }
        while self.early.0.front().is_some_and(|one| one.until.is_none_or(|t| t <= now)) {
            let Some(one) = self.early.0.pop_front() else { break };
            if self.waiting(one.id).is_some() {
                self.tell_end(one.id, CmKind::Rejected, (NO_SERVICE, CmData::default()));
            }
        }
        self.early.0.front().and_then(|one| one.until)
    }

    fn waiting(&self, id: u32) -> Option<&CmId> {
        self.ids.get(&id).filter(|of| of.state == State::Early)
    }
}
