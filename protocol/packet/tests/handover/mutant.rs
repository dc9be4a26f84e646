//! The protocol with one step left out. Each must be found: it proves that the simulation
//! could fail.

use crate::common::plain::{peek, poke};
use crate::handover::memory::Shared;
use vfun_packet::layout::{header, line};
use vfun_packet::{Turn, Way};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    Nothing,
    /// B reads the link's ring as soon as A is told to go there.
    ReadsTheLinkAtOnce,
    /// END does not wait for what the switch still has.
    EndPastTheSwitch,
    /// BEGIN does not either.
    BeginPastTheSwitch,
    /// B does not read the rest of the link's ring at BEGIN.
    NoRest,
    /// The manager does not wait for B before the next epoch.
    NextBeforeClosed,
    /// The same, and B reads up to the position that A had at its RETURN.
    PositionInReturn,
}

pub const ALL: [Mutant; 6] = [
    Mutant::ReadsTheLinkAtOnce,
    Mutant::EndPastTheSwitch,
    Mutant::BeginPastTheSwitch,
    Mutant::NoRest,
    Mutant::NextBeforeClosed,
    Mutant::PositionInReturn,
];

impl Mutant {
    /// Whether the driver's fence for this turn is left out.
    pub fn forgets_the_fence(self, last: u64) -> bool {
        match Turn::of(last).map(Turn::to) {
            Some(Way::Link) => self == Mutant::EndPastTheSwitch,
            Some(Way::Switch) => self == Mutant::BeginPastTheSwitch,
            None => false,
        }
    }

    /// Whether B is shown another position of the link's ring at BEGIN.
    pub fn falsifies(self) -> bool {
        matches!(self, Mutant::NoRest | Mutant::PositionInReturn)
    }

    /// What the manager is shown of B's page.
    pub fn at_manager(self, shared: &Shared) {
        for word in [header::KNOWS, header::HAS_IN, header::OPEN] {
            poke(&shared.b_said, word, peek(&shared.b, word));
        }
        let made = peek(&shared.a, header::ACK);
        if matches!(self, Mutant::NextBeforeClosed | Mutant::PositionInReturn) && made & 1 == 1 {
            poke(&shared.b_said, header::OPEN, made);
        }
        let turn = Turn::of(peek(&shared.a_host, header::TURN));
        let is_new = |turn: &Turn| turn.word() > peek(&shared.fence, line::LAST);
        if let Some(turn) = turn.filter(|turn| turn.to() == Way::Link).filter(is_new)
            && self == Mutant::ReadsTheLinkAtOnce
        {
            poke(&shared.fence, line::STAMP, 0);
            poke(&shared.fence, line::LAST, turn.word());
        }
    }
}
