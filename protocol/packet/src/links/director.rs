//! The host's end that decides when a link's frames turn.

use crate::control::{Turn, Way};
use crate::layout::header::{ACK, HAS_IN, HAS_OUT, KNOWS, LINK_IN, LINK_OUT, OPEN, TURN};
use crate::limits::SILENCE_MS;
use vfun_window::Memory;
use vfun_window::sync::Ordering;

/// How far a link's handover is. An epoch is a way to the link and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Through the switch; this epoch is over, or was never begun.
    Switch { epoch: u64 },
    /// This is a manager that was started again. The driver at the sender's port is told of the
    /// epoch, in case that it was not, before the sender is told to come back from it.
    Resuming { epoch: u64, since: u64 },
    /// The driver at the sender's port is told of the epoch.
    Allowing { epoch: u64, since: u64 },
    /// The epoch is not wanted any more, but the driver may allow it already. Once it has said so,
    /// the sender is told to come back, as if it had gone: then the epoch is over for all.
    Withdrawn { epoch: u64 },
    /// The sender is told to go to the link.
    Going { epoch: u64, since: u64 },
    /// Over the link, as both VMs say.
    Direct { epoch: u64 },
    /// The sender is told to come back, and the receiver has not said that it is over.
    Back { epoch: u64, since: u64 },
    /// A VM was silent: the driver at the sender's port is to make the turn.
    Forcing { epoch: u64, since: u64 },
    /// The link is not used again: it is to be taken away, and its number never given again.
    Over,
}

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Todo {
    Nothing,
    /// Note the epoch where a manager that is started again finds it; then tell the driver at
    /// the sender's port ([`Fence::allow`](crate::Fence::allow)); then [`Director::allowed`].
    Allow(u64),
    /// Tell it ([`Fence::force`](crate::Fence::force)), and, when the turn is passed on,
    /// [`Director::forced`].
    Force(u64),
}

/// Turns one link's frames from the switch to the link and back. It never waits: what the
/// VMs and the driver have done is looked at with [`Director::look`].
///
/// A manager that is started again ends the epoch that it has noted (R-LNK-9). Times are
/// milliseconds of any clock that does not go back.
pub struct Director<M> {
    /// The host's side of the sender's port, and of the receiver's.
    sender: M,
    receiver: M,
    link: u64,
    stage: Stage,
    silence: u64,
}

impl<M: Memory> Director<M> {
    /// Begins with a link; `link` is not 0. A manager that was started again says the epoch
    /// that it has noted last for this link ([`Todo::Allow`]), which ends; 0: none. What stands
    /// in the memory is not asked: the VMs can write there.
    pub fn new(sender: M, receiver: M, link: u64, noted: u64, now: u64) -> Self {
        let is_mine = sender.load_own(LINK_OUT, Ordering::Relaxed) == link;
        if noted == 0 || !is_mine {
            // First the turn: one of another link is nothing to this one.
            sender.store(TURN, 0, Ordering::Release);
            sender.store(LINK_OUT, link, Ordering::Release);
        }
        receiver.store(LINK_IN, link, Ordering::Release);
        let stage = match noted {
            0 => Stage::Switch { epoch: 0 },
            epoch => Stage::Resuming { epoch, since: now },
        };
        Director { sender, receiver, link, stage, silence: SILENCE_MS }
    }

    /// How many milliseconds a party may be silent, in place of [`SILENCE_MS`].
    pub fn with_silence(mut self, milliseconds: u64) -> Self {
        self.silence = milliseconds;
        self
    }

    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The epoch that a driver which is started is to allow ([`Fence::line`](crate::Fence::line));
    /// `None`: the link is over.
    pub fn epoch(&self) -> Option<u64> {
        match self.stage {
            Stage::Switch { epoch }
            | Stage::Resuming { epoch, .. }
            | Stage::Allowing { epoch, .. }
            | Stage::Withdrawn { epoch }
            | Stage::Going { epoch, .. }
            | Stage::Direct { epoch }
            | Stage::Back { epoch, .. }
            | Stage::Forcing { epoch, .. } => Some(epoch),
            Stage::Over => None,
        }
    }

    /// Whether both VMs know links, and have the memory of this one.
    pub fn is_ready(&self) -> bool {
        let has = |mem: &M, word| {
            mem.load(word, Ordering::Acquire) == self.link
                && mem.load(KNOWS, Ordering::Relaxed) == 1
        };
        has(&self.sender, HAS_OUT) && has(&self.receiver, HAS_IN)
    }

    /// Begins an epoch; false: the one before is not over, or a VM is not ready.
    pub fn go(&mut self, now: u64) -> bool {
        match self.stage {
            Stage::Switch { epoch } if self.is_ready() && epoch < u64::MAX >> 1 => {
                self.stage = Stage::Allowing { epoch: epoch + 1, since: now };
                true
            }
            _ => false,
        }
    }

    /// The driver at the sender's port knows the epoch.
    pub fn allowed(&mut self, epoch: u64, now: u64) {
        match self.stage {
            Stage::Allowing { epoch: e, .. } if e == epoch => {
                self.say(Turn::new(epoch, Way::Link));
                self.stage = Stage::Going { epoch, since: now };
            }
            Stage::Resuming { epoch: e, .. } | Stage::Withdrawn { epoch: e } if e == epoch => {
                self.say(Turn::new(epoch, Way::Switch));
                self.stage = Stage::Back { epoch, since: now };
            }
            _ => {}
        }
    }

    /// Ends the epoch; nothing, if none is under way.
    pub fn back(&mut self, now: u64) {
        match self.stage {
            Stage::Allowing { epoch, .. } => self.stage = Stage::Withdrawn { epoch },
            Stage::Going { epoch, .. } | Stage::Direct { epoch } => {
                self.say(Turn::new(epoch, Way::Switch));
                self.stage = Stage::Back { epoch, since: now };
            }
            _ => {}
        }
    }

    /// The driver has made the turn of a VM that was silent, or there is no driver any more.
    pub fn forced(&mut self) {
        if matches!(self.stage, Stage::Forcing { .. }) {
            self.over();
        }
    }

    /// A VM was started anew, or a link's memory is gone: the sender is told to come back if
    /// it is still there, and the link is not used again.
    pub fn end(&mut self, now: u64) -> Todo {
        self.back(now);
        match self.stage {
            Stage::Back { epoch, .. } | Stage::Resuming { epoch, .. } => self.force(epoch, now),
            // The sender does not know of the epoch, and the receiver reads no more.
            Stage::Switch { .. } | Stage::Withdrawn { .. } => self.over(),
            _ => {}
        }
        self.todo()
    }

    /// Looks at what the VMs say. While the switch is not there, nobody is late who needs it.
    pub fn look(&mut self, now: u64, is_switch_there: bool) -> Todo {
        let made = self.sender.load(ACK, Ordering::Acquire);
        let open = self.receiver.load(OPEN, Ordering::Acquire);
        let silence = self.silence;
        let is_late = |since| now.saturating_sub(since) >= silence;
        match self.stage {
            // The driver knew an epoch, and the sender began it without a word.
            Stage::Switch { epoch }
            | Stage::Allowing { epoch, .. }
            | Stage::Withdrawn { epoch }
                if is_direct(open) =>
            {
                self.force(epoch, now);
            }
            Stage::Resuming { epoch, .. } if !is_switch_there => {
                self.stage = Stage::Resuming { epoch, since: now };
            }
            Stage::Resuming { epoch, since } if is_late(since) => self.force(epoch, now),
            Stage::Allowing { since, .. } if is_late(since) => self.back(now),
            // The sender came back by itself, the receiver was started anew, or one of them lies.
            Stage::Going { epoch, .. } if open == Turn::new(epoch, Way::Switch).word() => {
                self.back(now);
            }
            Stage::Direct { epoch } if open != Turn::new(epoch, Way::Link).word() => {
                self.back(now);
            }
            Stage::Going { epoch, since } => {
                let there = Turn::new(epoch, Way::Link).word();
                if made == there && open == there {
                    self.stage = Stage::Direct { epoch };
                } else if !is_switch_there {
                    self.stage = Stage::Going { epoch, since: now };
                } else if is_late(since) {
                    self.back(now);
                }
            }
            Stage::Back { epoch, since } => {
                let here = Turn::new(epoch, Way::Switch).word();
                if made == here && open == here {
                    self.stage = Stage::Switch { epoch };
                } else if !is_switch_there {
                    self.stage = Stage::Back { epoch, since: now };
                } else if is_late(since) {
                    self.force(epoch, now);
                }
            }
            Stage::Forcing { epoch, .. } if !is_switch_there => {
                self.stage = Stage::Forcing { epoch, since: now };
            }
            // A receiver whose ring is full hears of it when it has room.
            Stage::Forcing { since, .. } if is_late(since) => self.over(),
            _ => {}
        }
        self.todo()
    }

    fn todo(&self) -> Todo {
        match self.stage {
            Stage::Allowing { epoch, .. }
            | Stage::Withdrawn { epoch }
            | Stage::Resuming { epoch, .. } => Todo::Allow(epoch),
            Stage::Forcing { epoch, .. } => Todo::Force(epoch),
            _ => Todo::Nothing,
        }
    }

    /// The driver makes the turn back, and the sender as soon as it looks.
    fn force(&mut self, epoch: u64, now: u64) {
        self.say(Turn::new(epoch, Way::Switch));
        self.stage = Stage::Forcing { epoch, since: now };
    }

    /// The receiver reads this link no more, whatever becomes of the turns.
    fn over(&mut self) {
        self.receiver.store(LINK_IN, 0, Ordering::Release);
        self.stage = Stage::Over;
    }

    fn say(&self, turn: Turn) {
        self.sender.store(TURN, turn.word(), Ordering::Release);
    }
}

/// Whether the receiver says that it reads the link.
fn is_direct(open: u64) -> bool {
    Turn::of(open).is_some_and(|turn| turn.to() == Way::Link)
}
