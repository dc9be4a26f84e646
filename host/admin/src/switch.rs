//! How far a channel is on its way from one service to another.

use serde::{Deserialize, Serialize};

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Where it goes is being started; where it comes from serves.
    Warming,
    /// Where it goes was told to stand by.
    Standby,
    /// Where it goes stands by.
    Stood,
    /// Where it comes from was told to hand it over.
    Handing,
    /// Where it comes from was told to let go, and is to serve it again.
    Closing,
    /// Where it goes was told to take it up; nobody else has it.
    Opening,
    /// Where it came from has handed it over and has not let go yet.
    Leaving,
    /// Who stood by was told to let go: it stays where it is.
    Off,
}

impl Phase {
    /// Whether nobody was told to let go yet.
    pub fn may_be_called_off(self) -> bool {
        matches!(self, Phase::Warming | Phase::Standby | Phase::Stood)
    }
    /// The other service has had its turn, or never will: only its end is waited for.
    pub fn lingers(self) -> bool {
        matches!(self, Phase::Leaving | Phase::Off)
    }
}
