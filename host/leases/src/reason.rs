//! Why a grant holds a VF or does not, for `vfun leases explain`.

use crate::Vf;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a grant stands as it does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum Reason {
    /// It has not been looked at yet.
    New,
    /// No policy gives VFs.
    PolicyNone,
    /// There were VFs for everybody who wanted one.
    Free,
    /// It was drawn.
    Drawn,
    /// It was not drawn.
    NotDrawn,
    /// Its turn has come.
    Turn,
    /// Others have their turn; this many wait before it.
    Waits {
        /// Grants before it.
        before: u32,
    },
    /// Its score is among the highest.
    Among {
        /// Its score.
        score: f64,
        /// The best score without a VF.
        next: f64,
    },
    /// Others have higher scores.
    Below {
        /// Its score.
        score: f64,
        /// The least score with a VF.
        least: f64,
    },
    /// It is better than one that holds a VF, but not by enough to make a switch worth it.
    TooLittle {
        /// Its score.
        score: f64,
        /// The least score with a VF.
        least: f64,
    },
    /// No VF can be won at this decision: each is pinned, reserved, or held for less than the
    /// minimum time.
    AllKept {
        /// Its score.
        score: f64,
    },
    /// A better one is there, but not by enough to make a switch worth it.
    Hysteresis {
        /// Its score.
        score: f64,
        /// The challenger's.
        challenger: f64,
    },
    /// It has not held its VF for the minimum time yet.
    Held {
        /// How long still, ms.
        ms: u64,
    },
    /// It makes no calls: a VF would do nothing.
    Idle,
    /// Software has been measured to be as fast.
    NoGain,
    /// Its client may not have hardware, or not more of it.
    Capped,
    /// Its client's service failed on those that it could have: they are left
    /// to others for a while.
    KeptOff,
    /// It is pinned: it gets a VF before all that compete.
    Pinned,
    /// It is given a part of the time, whatever its score.
    Reserved,
    /// It has held a VF for as much of the time as it may.
    ShareUsed,
    /// It takes no part now.
    Out,
    /// It is better than one that holds a VF, and has to be so at the next decision too.
    Unconfirmed {
        /// Its score.
        score: f64,
    },
    /// Its device, or this VF of it, is gone.
    Lost,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::New => f.write_str("it is new: it is looked at when the interval ends"),
            Reason::PolicyNone => {
                f.write_str("the policy is \"none\": everything runs in software")
            }
            Reason::Free => f.write_str("a VF was free"),
            Reason::Drawn => f.write_str("it was drawn by lot"),
            Reason::NotDrawn => f.write_str("others were drawn by lot"),
            Reason::Turn => f.write_str("it is its turn"),
            Reason::Waits { before } => {
                write!(f, "others have their turn; {before} wait before it")
            }
            Reason::Among { score, next } => {
                write!(
                    f,
                    "its score {score:.4} is among the highest (the best without a VF: {next:.4})"
                )
            }
            Reason::Below { score, least } => {
                write!(f, "its score {score:.4} is below the least that holds a VF, {least:.4}")
            }
            Reason::TooLittle { score, least } => write!(
                f,
                "its score {score:.4} is above a holder's {least:.4}, by too little for a switch"
            ),
            Reason::AllKept { score } => write!(
                f,
                "its score is {score:.4}, and no VF can be won now: each is pinned, reserved, or in its minimum time"
            ),
            Reason::Hysteresis { score, challenger } => write!(
                f,
                "its score {score:.4} is below a challenger's {challenger:.4}, by too little for a switch"
            ),
            Reason::Held { ms } => write!(f, "it keeps its VF for {ms} ms more, the minimum time"),
            Reason::Idle => f.write_str("it makes no calls"),
            Reason::NoGain => f.write_str("software was measured to be as fast for it"),
            Reason::Capped => f.write_str("its client holds as many VFs as its policy allows"),
            Reason::KeptOff => f.write_str(
                "its client's service failed on each VF that it could have: it is tried there again later",
            ),
            Reason::Pinned => f.write_str("it is pinned"),
            Reason::Reserved => f.write_str("a part of the time is reserved for it"),
            Reason::ShareUsed => {
                f.write_str("it has held a VF for as much of the time as it may")
            }
            Reason::Out => f.write_str("it takes no part now"),
            Reason::Unconfirmed { score } => write!(
                f,
                "its score {score:.4} is above a holder's; the VF moves if that is so at the next decision too"
            ),
            Reason::Lost => f.write_str("its VF was lost"),
        }
    }
}

/// Where a grant stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The VF it holds.
    pub vf: Option<Vf>,
    /// Since when it holds it or runs without, ms.
    pub since_ms: u64,
    pub reason: Reason,
    /// Its score by the policy in force.
    pub score: f64,
    /// Calls a second, smoothed.
    pub per_s: f64,
    /// (soft − hard) / soft, where both were measured.
    pub boost: Option<f64>,
}
