//! What the parties of a direct link say to each other: turns, and the records of them.

use crate::layout::{CONTROL_BYTES, KIND_BEGIN, KIND_END, KIND_RETURN, KIND_SWITCH};

/// Which way frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over the link, past the switch.
    Link,
    /// Through the switch.
    Switch,
}

/// A change of the way of one link's frames. Each epoch has two: to the link, and back.
///
/// In a word it is twice its epoch, and one more for the way back. So a later turn is a
/// larger word, and 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn(u64);

impl Turn {
    pub const fn new(epoch: u64, to: Way) -> Turn {
        Turn(epoch << 1 | matches!(to, Way::Switch) as u64)
    }

    /// The turn in a word; `None`: there is none.
    pub const fn of(word: u64) -> Option<Turn> {
        if word < 2 { None } else { Some(Turn(word)) }
    }

    pub const fn word(self) -> u64 {
        self.0
    }

    pub const fn epoch(self) -> u64 {
        self.0 >> 1
    }

    /// Which way frames go after it.
    pub const fn to(self) -> Way {
        if self.0 & 1 == 0 { Way::Link } else { Way::Switch }
    }

    /// The end of its epoch.
    pub const fn back(self) -> Turn {
        Turn(self.0 | 1)
    }
}

/// A kind of record that says a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlKind {
    Switch = KIND_SWITCH as isize,
    Return = KIND_RETURN as isize,
    End = KIND_END as isize,
    Begin = KIND_BEGIN as isize,
}

impl ControlKind {
    /// The kind that a record's head says, if it says one.
    #[cold]
    pub(crate) const fn of_head(word: u64) -> Option<ControlKind> {
        if word as u32 as u64 != CONTROL_BYTES {
            return None;
        }
        match word >> 32 {
            KIND_SWITCH => Some(ControlKind::Switch),
            KIND_RETURN => Some(ControlKind::Return),
            KIND_END => Some(ControlKind::End),
            KIND_BEGIN => Some(ControlKind::Begin),
            _ => None,
        }
    }
}

/// A record that says a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    pub kind: ControlKind,
    pub epoch: u64,
    pub link: u64,
}

impl Control {
    /// How a link's sender says a turn to the switch.
    pub const fn from_sender(link: u64, turn: Turn) -> Control {
        let kind = match turn.to() {
            Way::Link => ControlKind::Switch,
            Way::Switch => ControlKind::Return,
        };
        Control { kind, epoch: turn.epoch(), link }
    }

    /// How the switch says it to the link's receiver.
    pub const fn to_receiver(link: u64, turn: Turn) -> Control {
        let kind = match turn.to() {
            Way::Link => ControlKind::End,
            Way::Switch => ControlKind::Begin,
        };
        Control { kind, epoch: turn.epoch(), link }
    }

    /// The turn of a link's record that its sender wrote.
    pub const fn of_sender(self, link: u64) -> Option<Turn> {
        match self.kind {
            ControlKind::Switch => self.turn(link, Way::Link),
            ControlKind::Return => self.turn(link, Way::Switch),
            ControlKind::End | ControlKind::Begin => None,
        }
    }

    /// The turn of a link's record for its receiver.
    pub const fn for_receiver(self, link: u64) -> Option<Turn> {
        match self.kind {
            ControlKind::End => self.turn(link, Way::Link),
            ControlKind::Begin => self.turn(link, Way::Switch),
            ControlKind::Switch | ControlKind::Return => None,
        }
    }

    const fn turn(self, link: u64, to: Way) -> Option<Turn> {
        if self.link != link || self.epoch == 0 || self.epoch > u64::MAX >> 1 {
            return None;
        }
        Some(Turn::new(self.epoch, to))
    }
}
