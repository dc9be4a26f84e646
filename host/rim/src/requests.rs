//! Takes requests out of windows: each client in its turn, no window faster than
//! its client may ask; and bells that ring for nothing are not listened to for
//! a while. See [`vfun_core::fair`].

use crate::act::Act;
use crate::say::Say;
use crate::{Attached, System};
use std::time::Duration;
use vfun_core::fair::{Intake, Rate, Step};
use vfun_core::limits::{BELL_DEAF, LOOK_BUSY, RINGS_BURST};
use vfun_core::{Action, ControlRequest, Event, ReplyTo, WindowId};

/// Takes the requests of windows, each window in its turn.
pub trait Requests: System {
    /// How fast a client's window may ask, and ring with nothing to say. What a
    /// request costs is [`vfun_core::fair::cost`].
    fn rates(&self, client: u32) -> (Rate, Rate) {
        let catalog = self.rim().core.catalog();
        let name = catalog.clients.get(&client).map_or("", |c| &c.name);
        let rules = catalog.policy.client(name);
        let requests = Rate { per_s: rules.requests_per_s, burst: rules.requests_burst };
        (requests, Rate { per_s: rules.rings_per_s, burst: RINGS_BURST })
    }

    /// How a client's new window may ask and ring.
    fn intake(&self, client: u32) -> Intake {
        let (requests, rings) = self.rates(client);
        Intake::new(requests, rings, self.now())
    }

    /// The rules may be others now.
    fn set_rates(&mut self) {
        let now = self.now();
        let windows = &self.rim().windows;
        let rates: Vec<_> = windows.iter().map(|(id, a)| (*id, self.rates(a.client))).collect();
        for (id, (requests, rings)) in rates {
            if let Some(a) = self.rim_mut().windows.get_mut(&id) {
                a.intake.set(requests, rings, now);
            }
        }
    }

    /// A window's bell rang.
    fn rang(&mut self, id: WindowId) {
        // One whose requests wait has been heard: ringing on says nothing new.
        let waits = self.rim().windows.get(&id).is_some_and(|a| a.intake.due.is_some());
        if self.look(id) && !waits {
            return;
        }
        self.nothing_there(id);
    }

    /// Looks whether anything was posted, and lets the window have its turn if
    /// so. False if there is nothing new.
    fn look(&mut self, id: WindowId) -> bool {
        let Some(a) = self.rim_mut().windows.get_mut(&id) else { return true };
        if a.window.bells().is_none() {
            a.window.beat();
        }
        if !a.window.anything_posted() {
            return false;
        }
        self.queue(id);
        true
    }

    /// Lets a window have its turn.
    fn queue(&mut self, id: WindowId) {
        let rim = self.rim_mut();
        let Some(a) = rim.windows.get_mut(&id) else { return };
        // One that asked too much is looked at again when it may ask again.
        if !a.intake.queued && a.intake.due.is_none() {
            a.intake.queued = true;
            rim.turns.push(a.client, id);
        }
    }

    /// One that rings for nothing too often is not listened to, but looked at
    /// by the clock: each ring would cost the manager a turn.
    fn nothing_there(&mut self, id: WindowId) {
        let now = self.now();
        let Some(a) = self.rim_mut().windows.get_mut(&id) else { return };
        if a.intake.rang_for_nothing(now)
            || a.intake.deaf_until.is_some()
            || a.window.bells().is_none()
            || !self.listen(id, false)
        {
            return;
        }
        let Some(a) = self.rim_mut().windows.get_mut(&id) else { return };
        a.intake.deaf_until = Some(now + BELL_DEAF.as_millis() as u64);
        a.intake.deafened += 1;
        let client = a.client;
        if a.intake.deafened == 1 {
            self.warn_of(client, format_args!(
                "window {id} rings its control bell with nothing to say: it is looked at by the clock while it does"
            ));
        }
    }

    /// Listens again, and looks at those that are looked at by the clock.
    fn look_by_the_clock(&mut self) {
        let now = self.now();
        let (mut looked_at, mut due, mut heard_again) = (vec![], vec![], vec![]);
        for (id, a) in &mut self.rim_mut().windows {
            if a.intake.due.is_some_and(|t| t <= now) {
                a.intake.due = None;
                due.push(*id);
            }
            let deaf_until = a.intake.deaf_until;
            if a.window.bells().is_none() || deaf_until.is_some() {
                looked_at.push(*id);
            }
            if deaf_until.is_some_and(|until| until <= now) {
                heard_again.push(*id);
            }
        }
        for id in heard_again {
            if self.listen(id, true)
                && let Some(a) = self.rim_mut().windows.get_mut(&id)
            {
                a.intake.deaf_until = None;
            }
        }
        due.into_iter().for_each(|id| self.queue(id));
        for id in looked_at {
            self.look(id);
        }
    }

    /// Gives one window of each client that waits for it a turn.
    fn serve_turns(&mut self) {
        for _ in 0..self.rim().turns.clients() {
            let Some(id) = self.rim_mut().turns.pop() else { return };
            let client = self.rim().windows.get(&id).map(|a| a.client);
            if let Some(client) = client
                && self.serve_turn(id)
            {
                self.rim_mut().turns.push(client, id);
            }
        }
    }

    /// One window's turn; true if it wants another one.
    fn serve_turn(&mut self, id: WindowId) -> bool {
        let now = self.now();
        let mut served = 0;
        if let Some(a) = self.rim_mut().windows.get_mut(&id) {
            a.intake.queued = false;
            a.intake.begin_turn();
        }
        loop {
            let rim = self.rim_mut();
            let Some(a) = rim.windows.get_mut(&id) else { return false };
            let Some(waiting) = a.window.next_request() else {
                a.intake.is_empty();
                if served == 0 {
                    // It says that it posted, and did not.
                    self.nothing_there(id);
                }
                return false;
            };
            match a.intake.next(now, waiting.kind()) {
                Step::Serve => {}
                Step::NextTurn => {
                    a.intake.queued = true;
                    return true;
                }
                Step::Until(_) => {
                    let (first, client) = (a.intake.throttled == 1, a.client);
                    if first {
                        self.warn_of(
                            client,
                            format_args!("window {id} asks faster than it may: its requests wait"),
                        );
                    }
                    return false;
                }
            }
            served += 1;
            let r = a.window.take_request(waiting);
            rim.last_asked = now;
            let to = ReplyTo { window: id, cell: r.cell, seq: r.seq };
            match r.body {
                Ok(body) => {
                    let (kind, session) = (r.kind, r.session);
                    self.push(Event::Request(ControlRequest { to, kind, session, body }));
                    self.settle();
                }
                Err(nack) => self.act(Action::Answer { to, result: Err(nack) }),
            }
        }
    }

    /// How long until a window is to be looked at without a bell.
    fn requests_patience(&self) -> Option<Duration> {
        if !self.rim().turns.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = self.now();
        let due = |a: &Attached<Self::Peer>| {
            let again = a.intake.due.map(|t| Duration::from_millis(t.saturating_sub(now).max(1)));
            let deaf = a.intake.deaf_until.map(|_| LOOK_BUSY);
            again.into_iter().chain(deaf).min()
        };
        self.rim().windows.values().filter_map(due).min()
    }
}

impl<S: System> Requests for S {}
