//! One link, from its first word to its last: what is told to its two VMs and to the switch's
//! driver, and when. No sockets: what is to be done is said in [`LinkAct`]s. The turns are
//! `vfun_packet::Director`'s.

use crate::limits::{LINK_ALONE, LINK_REST};
use std::sync::atomic::Ordering;
use vfun_packet::layout::header::{ACK, BAD, FULL, HEAD, LONG, OPEN, TAIL};
use vfun_packet::layout::header::{
    IN_PLACE, LINK_IN, LINK_OUT, OUT_BELL, OUT_PLACE, REFUSED, SENT, SENT_BYTES, TAKEN,
    TAKEN_BYTES, TURN, WAKE,
};
use vfun_packet::{Director, Memory, Stage, Todo};

/// What the switch's driver can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DriverView {
    /// There is none, and none has memory of the sender's port.
    Gone,
    /// It is not connected, and has memory: it connects again, or its process ends.
    Away,
    /// It is connected, by this number. `both`: it has the memory of both ports.
    There { id: u32, both: bool },
}

/// What is to be done for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkAct {
    /// Note that this epoch may be allowed to the driver: before it is told.
    Note {
        epoch: u64,
    },
    /// Tell the driver of the link, and the epoch that it may know.
    Tell {
        epoch: u64,
    },
    /// Tell it that an epoch is allowed.
    Allow {
        epoch: u64,
    },
    /// Tell it to make the turn back.
    Force {
        epoch: u64,
    },
    /// Note that the link is over: before the driver is told.
    NoteOver,
    /// Tell it that the link is over.
    Unlink,
    /// Ring the VM that sends, or the one that receives.
    RingSender,
    RingReceiver,
    /// Nobody has anything of it any more: forget it.
    Forget,
}

/// What is wanted of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Frames go past the switch, as soon as they can.
    Direct,
    /// Frames go through the switch; the link stays.
    Wait,
    /// The same, and then it ends.
    Leave,
    /// It ends at once: the memory of a port is gone, or the driver does nothing for it.
    End,
}

/// How a link is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    Switch,
    Going,
    Direct,
    Back,
    Over,
}

/// What VMs find in their pages of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkWords {
    /// Its number, not 0.
    pub number: u64,
    pub out_place: u64,
    pub out_bell: u64,
    pub in_place: u64,
}

/// What an earlier manager noted of a link; nothing of a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Had {
    /// The last epoch that it may have allowed.
    pub epoch: u64,
    /// The link is not used any more.
    pub over: bool,
}

/// What a driver was told on one connection.
#[derive(Clone, Copy, Debug)]
struct Told {
    driver: u32,
    allow: u64,
    /// When that was, ms.
    allow_at: u64,
    force: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// As it is wished.
    Lives(Wish),
    /// Not used again; the driver was told so on this connection, if it was.
    Over { asked: Option<u32> },
    /// The driver has said that it has nothing of it.
    Unlinked,
}

/// The two sides of a link's memory begin with these counts (R-PKT-1). `sender` and
/// `receiver` are header pages; what stands there of the way back is left alone.
pub(super) fn begin_sides<M: Memory>(sender: &M, receiver: &M) {
    for word in [HEAD, SENT, SENT_BYTES, FULL, LONG] {
        sender.store(word, 0, Ordering::Relaxed);
    }
    for word in [TAIL, TAKEN, TAKEN_BYTES, REFUSED, BAD, WAKE] {
        receiver.store(word, 0, Ordering::Release);
    }
}

/// See above.
pub(super) struct Handover<M> {
    words: LinkWords,
    sender: M,
    receiver: M,
    /// None once the link is over: then nothing more is turned.
    director: Option<Director<M>>,
    phase: Phase,
    told: Option<Told>,
    /// An earlier manager began it.
    is_taken_up: bool,
    /// The first connection on which it was told.
    first: Option<u32>,
    /// A connection on which the driver said that it does nothing for the link.
    refused: Option<u32>,
    /// A VM was silent, and may believe still that the link goes on (R-LNK-10).
    silent: bool,
    /// How long one may be, ms.
    silence: u64,
    /// The highest epoch that was noted.
    noted: u64,
    /// Since when it ends, if it does so at once.
    ending: Option<u64>,
    /// Until when no epoch begins: the last one was given up, and not by the manager's wish.
    rests_until: u64,
    /// What stood in the VMs' pages when they were rung last.
    rung_for: [u64; 3],
    state: LinkState,
    since: u64,
}

impl<M: Memory + Clone> Handover<M> {
    /// Begins with a link, or takes one up as an earlier manager noted it. The link's number
    /// is stored last (R-LNK-2).
    pub fn new(
        (sender, receiver): (M, M),
        words: LinkWords,
        had: Had,
        silence: u64,
        now: u64,
    ) -> Self {
        let Had { epoch: noted, over } = had;
        if over {
            let phase = Phase::Over { asked: None };
            return Self::with((sender, receiver), words, None, (noted, phase), (silence, now));
        }
        sender.store(OUT_PLACE, words.out_place, Ordering::Relaxed);
        sender.store(OUT_BELL, words.out_bell, Ordering::Relaxed);
        receiver.store(IN_PLACE, words.in_place, Ordering::Relaxed);
        let director = Director::new(sender.clone(), receiver.clone(), words.number, noted, now);
        let director = Some(director.with_silence(silence));
        let phase = Phase::Lives(Wish::Wait);
        Self::with((sender, receiver), words, director, (noted, phase), (silence, now))
    }

    fn with(
        (sender, receiver): (M, M),
        words: LinkWords,
        director: Option<Director<M>>,
        (noted, phase): (u64, Phase),
        (silence, now): (u64, u64),
    ) -> Self {
        let mut handover = Handover {
            words,
            sender,
            receiver,
            director,
            phase,
            told: None,
            is_taken_up: noted != 0,
            first: None,
            refused: None,
            silent: false,
            silence,
            noted,
            ending: None,
            rests_until: 0,
            rung_for: [0; 3],
            state: LinkState::Switch,
            since: now,
        };
        handover.rung_for = handover.stored();
        handover.look_at_state(now);
        handover
    }

    /// How it is, and since when.
    pub fn state(&self) -> (LinkState, u64) {
        (self.state, self.since)
    }

    /// The last turn that the sender says it has made, and that the receiver says so.
    pub fn said(&self) -> [u64; 2] {
        [self.sender.load(ACK, Ordering::Acquire), self.receiver.load(OPEN, Ordering::Acquire)]
    }

    /// The epoch that counts now, or did last.
    pub fn epoch(&self) -> u64 {
        self.director.as_ref().and_then(Director::epoch).unwrap_or(self.noted)
    }

    /// Whether a VM was silent: its memory is not used again while that VM may have it.
    pub fn was_silent(&self) -> bool {
        self.silent
    }

    /// Whether the driver does nothing for it.
    pub fn was_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Whether both VMs have its memory.
    pub fn is_ready(&self) -> bool {
        self.director.as_ref().is_some_and(Director::is_ready)
    }

    /// Whether the last try was given up, and the next one waits.
    pub fn rests(&self, now: u64) -> bool {
        now < self.rests_until
    }

    /// Whether it is on its way out.
    pub fn ends(&self) -> bool {
        !matches!(self.phase, Phase::Lives(Wish::Direct | Wish::Wait))
    }

    /// Whether something is about to happen.
    pub fn turns(&self) -> bool {
        !matches!(self.state, LinkState::Switch | LinkState::Direct) || self.ends()
    }

    /// Wishes something of it; whether that is new. One that ends does not begin again.
    pub fn wish(&mut self, wish: Wish) -> bool {
        let rank = |w: Wish| match w {
            Wish::Direct | Wish::Wait => 0,
            Wish::Leave => 1,
            Wish::End => 2,
        };
        match &mut self.phase {
            Phase::Lives(old) if rank(wish) >= rank(*old) => std::mem::replace(old, wish) != wish,
            _ => false,
        }
    }

    /// The driver allows an epoch.
    pub fn allowed(&mut self, driver: u32, epoch: u64, now: u64) {
        if self.told.is_some_and(|t| t.driver == driver && t.allow == epoch) {
            self.director.iter_mut().for_each(|d| d.allowed(epoch, now));
        }
    }

    /// It has made the turn back in a VM's place.
    pub fn forced(&mut self, driver: u32, epoch: u64) {
        let is_asked = self.told.is_some_and(|t| t.driver == driver && t.force == epoch);
        let is_forcing =
            |d: &Director<M>| matches!(d.stage(), Stage::Forcing { epoch: e, .. } if e == epoch);
        if let Some(director) = self.director.as_mut().filter(|d| is_asked && is_forcing(d)) {
            director.forced();
        }
    }

    /// It does nothing for the link any more.
    pub fn unlinked(&mut self, driver: u32) {
        match self.phase {
            Phase::Over { asked } if asked == Some(driver) => self.phase = Phase::Unlinked,
            Phase::Lives(_) if self.told.is_some_and(|t| t.driver == driver) => {
                self.refused = Some(driver);
                self.wish(Wish::End);
            }
            _ => {}
        }
    }

    /// Looks at what the VMs say, and goes on. What is to be done comes in order.
    pub fn step(&mut self, now: u64, driver: DriverView) -> Vec<LinkAct> {
        let mut acts = vec![];
        let is_told_now = self.follow_driver(driver, now, &mut acts);
        if let Phase::Lives(wish) = self.phase {
            // Nobody is late who waited for this driver.
            let is_there = self.told.is_some() && !is_told_now;
            self.turn(wish, now, (driver, is_there), &mut acts);
        }
        if !matches!(self.phase, Phase::Lives(_)) {
            self.leave(driver, &mut acts);
        }
        // Also what was stored since the last step.
        let (before, after) = (self.rung_for, self.stored());
        self.rung_for = after;
        if before[..2] != after[..2] {
            acts.push(LinkAct::RingSender);
        }
        if before[2] != after[2] {
            acts.push(LinkAct::RingReceiver);
        }
        self.look_at_state(now);
        acts
    }

    /// What it has stored for the sender, and for the receiver.
    fn stored(&self) -> [u64; 3] {
        let [a, b] = [LINK_OUT, TURN].map(|word| self.sender.load_own(word, Ordering::Relaxed));
        [a, b, self.receiver.load_own(LINK_IN, Ordering::Relaxed)]
    }

    /// A driver that connects anew is told anew; whether it is now.
    fn follow_driver(&mut self, driver: DriverView, now: u64, acts: &mut Vec<LinkAct>) -> bool {
        let there = match driver {
            DriverView::There { id, .. } => Some(id),
            DriverView::Away | DriverView::Gone => None,
        };
        self.told = self.told.filter(|told| there == Some(told.driver));
        if let (DriverView::There { id, both: true }, Phase::Lives(_)) = (driver, self.phase)
            && self.told.is_none()
        {
            self.told = Some(Told { driver: id, allow: 0, allow_at: now, force: 0 });
            self.first.get_or_insert(id);
            acts.push(LinkAct::Tell { epoch: self.epoch() });
            return true;
        }
        false
    }

    fn turn(
        &mut self,
        wish: Wish,
        now: u64,
        (driver, is_told): (DriverView, bool),
        acts: &mut Vec<LinkAct>,
    ) {
        let is_there = matches!(driver, DriverView::There { both: true, .. }) && is_told;
        let Some(director) = &mut self.director else { return };
        match wish {
            Wish::Direct if is_there && now >= self.rests_until => drop(director.go(now)),
            Wish::Direct => {}
            Wish::Wait | Wish::Leave => {
                director.back(now);
                // Nobody is there who could finish it, and a VM may go on meanwhile.
                let is_back = is_at_switch(director.stage()) || director.stage() == Stage::Over;
                if is_there || is_back {
                    self.ending = None;
                } else if now - *self.ending.get_or_insert(now) >= LINK_ALONE.as_millis() as u64 {
                    director.end(now);
                }
            }
            Wish::End => {
                self.ending.get_or_insert(now);
                director.end(now);
            }
        }
        let before = director.stage();
        let todo = director.look(now, is_there);
        let after = director.stage();
        if wish == Wish::Direct && is_given_up(before, after) {
            self.rests_until = now + LINK_REST.as_millis() as u64;
        }
        let is_forcing = matches!(after, Stage::Forcing { .. });
        // Not by our own wish. A driver that came later may have missed what a VM has said.
        let is_first = self.told.is_some_and(|told| self.first == Some(told.driver));
        let is_first = is_first && !self.is_taken_up;
        self.silent |= is_forcing && is_first && !matches!(before, Stage::Forcing { .. });
        // One whose port has lost its memory may have no more to say of it.
        let is_late = self.ending.is_some_and(|since| now - since >= 2 * self.silence);
        if is_forcing && (driver == DriverView::Gone || self.refused.is_some() || is_late) {
            director.forced();
        }
        if wish == Wish::Leave && is_at_switch(after) {
            director.end(now);
        }
        match director.stage() {
            Stage::Over => self.is_over(acts),
            _ => {
                self.ask_again(now);
                self.tell(todo, now, acts);
            }
        }
    }

    /// A driver that has not said whether it allows an epoch which is not wanted any more: until it
    /// has, no other one begins.
    fn ask_again(&mut self, now: u64) {
        let rest = LINK_REST.as_millis() as u64;
        let stage = self.director.as_ref().map(Director::stage);
        let is_withdrawn = matches!(stage, Some(Stage::Withdrawn { .. }));
        if let Some(told) = self.told.as_mut().filter(|t| is_withdrawn && now >= t.allow_at + rest)
        {
            told.allow = 0;
            self.rests_until = now + rest;
        }
    }

    fn is_over(&mut self, acts: &mut Vec<LinkAct>) {
        self.noted = self.epoch();
        self.director = None;
        self.phase = Phase::Over { asked: None };
        acts.push(LinkAct::NoteOver);
    }

    /// Tells the driver what it is to do, once on each connection.
    fn tell(&mut self, todo: Todo, now: u64, acts: &mut Vec<LinkAct>) {
        let Some(told) = &mut self.told else { return };
        match todo {
            Todo::Allow(epoch) if told.allow != epoch => {
                (told.allow, told.allow_at) = (epoch, now);
                self.noted = self.noted.max(epoch);
                acts.extend([LinkAct::Note { epoch }, LinkAct::Allow { epoch }]);
            }
            Todo::Force(epoch) if told.force != epoch => {
                told.force = epoch;
                acts.push(LinkAct::Force { epoch });
            }
            _ => {}
        }
    }

    /// Takes the link out of the driver, and then out of the VMs' pages.
    fn leave(&mut self, driver: DriverView, acts: &mut Vec<LinkAct>) {
        let is_done = match (self.phase, driver) {
            (Phase::Unlinked, _) | (_, DriverView::Gone) => true,
            (_, DriverView::Away) => false,
            (Phase::Over { asked: None }, DriverView::There { id, .. }) => {
                // One that has said it already, or was never told of it, is not waited for.
                let is_waited_for = self.told.is_some() && self.refused != Some(id);
                self.phase = Phase::Over { asked: Some(id) };
                acts.push(LinkAct::Unlink);
                !is_waited_for
            }
            (Phase::Over { asked }, DriverView::There { id, .. }) if asked == Some(id) => false,
            // It has connected anew, and knows no links of before but those that it is told.
            (_, DriverView::There { .. }) => {
                acts.push(LinkAct::Unlink);
                true
            }
        };
        if is_done {
            self.clear();
            acts.push(LinkAct::Forget);
        }
    }

    /// The VMs are shown no link any more. First the number: a place without one means nothing.
    fn clear(&self) {
        let number = self.words.number;
        let is_mine = |mem: &M, word| mem.load_own(word, Ordering::Relaxed) == number;
        if is_mine(&self.sender, LINK_OUT) {
            for word in [LINK_OUT, OUT_PLACE, OUT_BELL] {
                self.sender.store(word, 0, Ordering::Release);
            }
        }
        if is_mine(&self.receiver, LINK_IN) {
            self.receiver.store(LINK_IN, 0, Ordering::Release);
        }
        if self.receiver.load_own(LINK_IN, Ordering::Relaxed) == 0 {
            self.receiver.store(IN_PLACE, 0, Ordering::Release);
        }
    }

    fn look_at_state(&mut self, now: u64) {
        let state = match self.director.as_ref().map(Director::stage) {
            None | Some(Stage::Over) => LinkState::Over,
            Some(Stage::Switch { .. } | Stage::Withdrawn { .. }) => LinkState::Switch,
            Some(Stage::Allowing { .. } | Stage::Going { .. }) => LinkState::Going,
            Some(Stage::Direct { .. }) => LinkState::Direct,
            Some(Stage::Resuming { .. } | Stage::Back { .. } | Stage::Forcing { .. }) => {
                LinkState::Back
            }
        };
        if state != self.state {
            (self.state, self.since) = (state, now);
        }
    }
}

/// Whether an epoch that was under way is on its way back.
fn is_given_up(before: Stage, after: Stage) -> bool {
    matches!(before, Stage::Allowing { .. } | Stage::Going { .. } | Stage::Direct { .. })
        && matches!(after, Stage::Switch { .. } | Stage::Withdrawn { .. } | Stage::Back { .. })
}

/// Whether the sender was not told of an epoch that goes on.
fn is_at_switch(stage: Stage) -> bool {
    matches!(stage, Stage::Switch { .. } | Stage::Withdrawn { .. })
}

#[cfg(test)]
mod tests;
