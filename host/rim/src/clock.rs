//! What is due by the clock alone.

use crate::System;
use crate::act::Act;
use crate::requests::Requests;
use crate::tell::Tell;
use std::time::Duration;
use vfun_core::Event;
use vfun_core::leases::Usage;
use vfun_core::limits::{BUSY_FOR, HEARTBEAT_LOOK, LOOK_BUSY, LOOK_IDLE, TICK};

fn ms(d: Duration) -> u64 {
    d.as_millis() as u64
}

/// Heartbeats, ticks, and who holds which VF.
pub trait Clock: System {
    /// What a manager does at each turn, whatever woke it.
    fn look_around(&mut self) {
        self.look_by_the_clock();
        self.serve_turns();
        self.look_at_leases();
        self.tell_again();
        self.beat_and_tick();
        self.settle();
    }

    /// Whether there is an app whose end only its heartbeat shows.
    fn heartbeats_watched(&self) -> bool {
        let rim = self.rim();
        rim.windows.iter().any(|(id, w)| w.by_heartbeats() && rim.core.has_sessions(*id))
    }

    /// Whether heartbeats are to be looked at now.
    fn heartbeats_due(&self) -> bool {
        let since = self.now().saturating_sub(self.rim().last_heartbeats);
        since >= ms(HEARTBEAT_LOOK) && self.heartbeats_watched()
    }

    /// Looks at heartbeats and tells the core that time passed, if either is due.
    fn beat_and_tick(&mut self) {
        let now = self.now();
        if self.heartbeats_due() {
            let rim = self.rim_mut();
            rim.last_heartbeats = now;
            // These apps have no socket to the manager: each side sees only by the
            // other's beat that it has ended.
            for (id, w) in rim.windows.iter_mut().filter(|(_, w)| w.by_heartbeats()) {
                w.window.beat();
                let values = w.window.heartbeats();
                rim.events.push_back(Event::Heartbeats { window: *id, values });
            }
        }
        let rim = self.rim_mut();
        if now.saturating_sub(rim.last_tick) >= ms(TICK) && rim.core.needs_tick() {
            rim.last_tick = now;
            rim.events.push_back(Event::Tick);
        }
    }

    /// Until when nothing of this, and no window without a bell, is to be looked at.
    fn clock_patience(&self) -> Option<Duration> {
        let rim = self.rim();
        let polled = rim.windows.values().any(|w| w.window.bells().is_none());
        let busy = self.now().saturating_sub(rim.last_asked) < ms(BUSY_FOR);
        let dues = [
            polled.then_some(if busy { LOOK_BUSY } else { LOOK_IDLE }),
            rim.core.needs_tick().then_some(TICK),
            self.heartbeats_watched().then_some(HEARTBEAT_LOOK),
            self.leases_patience(),
        ];
        dues.into_iter().flatten().min()
    }

    /// How long until the next decision about leases, if any is to be made.
    fn leases_patience(&self) -> Option<Duration> {
        let due = self.rim().core.leases_due()?;
        Some(Duration::from_millis(due.saturating_sub(self.now())))
    }

    /// Reads counters of leased grants if a decision is due, and lets the core decide.
    fn look_at_leases(&mut self) {
        let now = self.now();
        let rim = self.rim_mut();
        // Of moves that came to nothing, at each turn: whoever comes and goes between
        // two decisions must not leave a descriptor each time.
        let core = &rim.core;
        rim.batons.retain(|h, _| core.is_moving(*h));
        if rim.core.leases_due().is_none_or(|due| due > now) {
            return;
        }
        let values = rim
            .core
            .leased()
            .filter_map(|(handle, g)| {
                let c = rim.windows.get(&g.holder.window)?.window.counters(&g.told()?);
                Some((handle, Usage { calls: c.calls, errors: c.errors, busy_ns: c.busy_ns }))
            })
            .collect();
        self.push(Event::Usage { values });
        self.settle();
    }
}

impl<S: System> Clock for S {}
