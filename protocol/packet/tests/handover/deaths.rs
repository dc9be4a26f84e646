//! Who dies, how, and when.

use crate::common::plain::peek;
use crate::handover::memory::{Process, Shared, View, left, ring};
use crate::handover::verdict::Kind;
use crate::handover::world::{A, C, LINK, World, director, fence};
use vfun_packet::layout::header;
use vfun_packet::{Closer, LinkedReceiver, Sender, Stage};

/// Who may die in a run, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crashes {
    None,
    /// Between two of its steps; or the link's memory goes away under it, and comes back.
    Sender,
    Receiver,
    Switch,
    Manager,
    /// One half of the driver is made anew, as when a port is taken out of the switch and
    /// put in again. The other half goes on, and the switch has what it had.
    Half,
    /// A VM is started anew: its port's memory is another one, and the link ends.
    Anew,
    /// Nobody dies. A VM or the switch is stopped for a while, and then goes on as if nothing
    /// had been.
    Stops,
    /// All of them, after any store. What dies in the middle of a burst may lose it.
    Anywhere,
}

/// Whose VM was started anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anew {
    /// So many frames the earlier one had sent by its port.
    Sender(u64),
    Receiver,
}

impl World {
    pub fn maybe_crash(&mut self) {
        if self.quiet || !self.random.once_in(200) {
            return;
        }
        let after = self.random.below(16);
        match self.plan.crashes {
            Crashes::None => {}
            Crashes::Sender if after < 8 => self.kill_sender(),
            Crashes::Receiver if after < 8 => self.kill_receiver(),
            Crashes::Sender | Crashes::Receiver => self.unplug(),
            Crashes::Switch => self.kill_driver(),
            Crashes::Manager => self.restart_manager(),
            Crashes::Anew if self.anew.is_none() => self.start_anew(after),
            Crashes::Anew => {}
            Crashes::Half => self.renew_half(after),
            Crashes::Stops => {
                let until = self.again() + self.random.below(1000);
                match self.random.below(3) {
                    0 => self.sender.again = until,
                    1 => self.receiver.again = until,
                    _ => self.driver_again = until,
                }
            }
            Crashes::Anywhere => match self.random.below(4) {
                0 => self.sender.live.iter().for_each(|(p, _)| p.dies_after(after)),
                1 => self.receiver.live.iter().for_each(|(p, _)| p.dies_after(after)),
                2 => self.driver.iter().for_each(|d| d.process.dies_after(after)),
                _ => self.manager.dies_after(after % 3),
            },
        }
    }

    /// The few stores of a turn are where a death may matter.
    pub fn die_at_turn(&mut self) {
        let s = &self.shared;
        let is_due = peek(&s.a, header::ACK) != peek(&s.a_host, header::TURN);
        let may_die = self.plan.crashes == Crashes::Anywhere && !self.quiet;
        if may_die && is_due && self.random.once_in(2) {
            // To publish is 5 stores, and a turn 10 more.
            let after = self.random.below(17);
            let live = self.sender.live.iter().filter(|(process, _)| !process.is_dead());
            live.for_each(|(process, _)| process.dies_after(after));
        }
    }

    /// Those that died in the middle of a step.
    pub fn bury(&mut self) {
        if self.sender.is_dead() {
            self.kill_sender();
        }
        if self.receiver.is_dead() {
            self.kill_receiver();
        }
        if self.driver.as_ref().is_some_and(|d| d.process.is_dead()) {
            self.kill_driver();
        }
        if self.manager.is_dead() {
            self.restart_manager();
        }
    }

    fn unplug(&mut self) {
        if self.plan.crashes == Crashes::Sender {
            self.sender.has_link = false;
            self.sender.live.iter_mut().for_each(|(_, tx)| _ = tx.detach());
        } else {
            self.receiver.has_link = false;
            self.receiver.live.iter_mut().for_each(|(_, rx)| rx.detach());
        }
    }

    fn again(&mut self) -> u64 {
        self.outcome.crashes += 1;
        self.now + self.random.below(500)
    }

    fn kill_sender(&mut self) {
        let again = self.again();
        self.sender.kill(again);
    }

    fn kill_receiver(&mut self) {
        let again = self.again();
        self.receiver.kill(again);
    }

    fn kill_driver(&mut self) {
        self.driver_again = self.again();
        let Some(driver) = self.driver.take() else { return };
        self.dropped[A as usize] += driver.queues[0].len() as u64;
        self.dropped[C as usize] += driver.queues[1].len() as u64;
    }

    fn start_anew(&mut self, which: u64) {
        let Some(driver) = &mut self.driver else { return };
        let (s, fresh) = (&mut self.shared, Shared::new());
        if which.is_multiple_of(2) {
            self.anew = Some(Anew::Sender(peek(&s.a, header::SENT)));
            self.dropped[A as usize] += left(&s.a, &s.a_host);
            (s.a, s.a_host) = (fresh.a, fresh.a_host);
            driver.fence.renew(driver.process.view(&s.a_host, &s.a), ring());
            self.kill_sender();
        } else {
            self.anew = Some(Anew::Receiver);
            let old = driver.process.view(&s.b, &s.b_host);
            for source in sources(LinkedReceiver::new(old, ring())) {
                self.dropped[source as usize] += 1;
            }
            (s.b, s.b_host) = (fresh.b, fresh.b_host);
            driver.tx = Sender::new(driver.process.view(&s.b_host, &s.b), ring());
            driver.closer.renew();
            self.kill_receiver();
        }
        self.director.end(self.clock());
    }

    fn renew_half(&mut self, which: u64) {
        let Some(epoch) = self.director.epoch() else { return };
        let Some(driver) = &mut self.driver else { return };
        self.outcome.crashes += 1;
        let s = &self.shared;
        if which.is_multiple_of(2) {
            driver.fence = fence(&driver.process, s);
            driver.fence.line(driver.process.view(&s.fence, &s.closer), LINK, epoch);
        } else {
            driver.closer = Closer::new(driver.process.view(&s.closer, &s.fence), LINK);
            driver.tx = Sender::new(driver.process.view(&s.b_host, &s.b), ring());
        }
    }

    fn restart_manager(&mut self) {
        // That a link is not used any more stands in the manager's notes.
        if self.director.stage() != Stage::Over {
            self.outcome.crashes += 1;
            self.manager = Process::new();
            self.director = director(&self.manager, &self.shared, self.noted, self.clock());
            if self.director.epoch() != Some(self.noted) {
                let found = self.director.epoch();
                let noted = self.noted;
                self.wrong(Kind::Past, format!("{found:?} is not the noted epoch {noted}"));
            }
        }
    }
}

/// Who has sent what is left in a port's ring.
fn sources(mut rx: LinkedReceiver<View>) -> Vec<u64> {
    let (mut found, mut to) = (vec![], [0; 4096]);
    while let Some(bytes) = rx.next(&mut to) {
        if bytes != 0 {
            found.push(u64::from_le_bytes(to[..8].try_into().unwrap()));
        }
    }
    found
}
