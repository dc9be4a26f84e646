//! The one method by which everything here compares two things on a machine that is not quiet.
//!
//! - The variants are run in turns, a few milliseconds each ([`turns`]): what drifts hits all alike.
//! - The kernel says what disturbed a slice ([`Watch`]): how long other machines had the processors, and how long
//!   its threads had to wait for them. Such a slice is dropped, by rules that are fixed here and not after a look
//!   at the figures ([`Disturbance::spoils`]).
//! - Slices that ran beside each other make a pair. The ratio is the median of the pairs, with an
//!   interval that holds the true one in 95 of 100 runs ([`median_interval`]).
//! - What the interval does not settle is not answered ([`Compared::says`]): "cannot tell".

mod compared;
mod interval;
mod turns;
mod watch;

pub use compared::{Compared, Pair, Says, over_in_turns};
pub use interval::median_interval;
pub use turns::{Turns, turns};
pub use watch::{Disturbance, Marks, Watch, farewell, ready};

use std::time::Duration;

/// What a slice should take: long against a clock's reading and a wake, short against
/// the time between two disturbances.
pub const SLICE: Duration = Duration::from_millis(4);
