//! Words to services, none of which may be lost: one whose socket is full is
//! told later, in the same order.

use super::Daemon;
use crate::core::ServiceId;
use crate::limits::TELL_AGAIN;
use std::time::Duration;
use vfun_supervise::ToService;

/// Words that may wait for one service: beyond it, it hears nothing any more,
/// and is ended.
const UNTOLD_MAX: usize = 1 << 14;

impl Daemon {
    /// Tells a service something that comes without descriptors.
    pub(super) fn tell(&mut self, id: ServiceId, message: ToService) {
        let Some(p) = self.services.get(&id) else { return };
        if self.untold.contains_key(&id) || p.send(&message, &[]).is_err() {
            // One that is gone is noticed by its pidfd.
            let waiting = self.untold.entry(id).or_default();
            waiting.push_back(message);
            if waiting.len() > UNTOLD_MAX {
                p.kill();
            }
        }
    }

    /// Tells services what they could not be told.
    pub(super) fn tell_again(&mut self) {
        let services = &self.services;
        self.untold.retain(|id, waiting| {
            let Some(p) = services.get(id) else { return false };
            while let Some(message) = waiting.front() {
                if p.send(message, &[]).is_err() {
                    return true;
                }
                waiting.pop_front();
            }
            false
        });
    }

    pub(super) fn tell_patience(&self) -> Option<Duration> {
        (!self.untold.is_empty()).then_some(TELL_AGAIN)
    }
}
