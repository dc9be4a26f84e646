//! What has been published, and what is aimed for.
//!
//! Source: Carlos A. Petry and Rodolfo J. de Azevedo, "VirtFun: Function Offload
//! Methodology to Virtualized Environment", Computer Science & Information Technology
//! (CS & IT), volume 10, number 11, September 2020; abstract at
//! <https://aircconline.com/csit/abstract/v10n11/csit101106.html>.
//!
//! **The paper's tables of seconds could not be obtained**, only its abstract; so
//! [`seconds`] knows none, and reports say so. No figure here was worked out or guessed.

use super::{Domain, Function, Instance};

/// The paper, as reports cite it.
pub const PAPER: &str = "Petry and de Azevedo, VirtFun, CS & IT 10(11), 2020";

/// The largest slowdown against native that the abstract gives: 2.8 %.
pub const WORST_SLOWDOWN: f64 = 1.028;

/// The time a call took where that slowdown was found: 8 to 20 ms.
pub const CALL_NS: (f64, f64) = (8e6, 20e6);

/// The work a call may be as small as while it keeps within [`WORST_SLOWDOWN`]: 20 µs.
pub const TARGET_GRAIN_NS: f64 = 20e3;

/// The abstract's own words on the network.
pub const NETWORK_WORDS: &str = "speedup reached 340% compared to conventional network execution";

/// What 340 % may mean, as guest-net over guest-host: 3.4 times as fast, or 340 %
/// faster, which is 4.4 times as fast. The abstract does not settle it.
pub const NETWORK_READINGS: (f64, f64) = (3.4, 4.4);

/// What a report says where published seconds would stand.
pub fn note() -> String {
    format!(
        "Published seconds: the paper's tables could not be obtained ({PAPER}). Its abstract states that the \
         \"{NETWORK_WORDS}\" ({} or {} times as fast, by how it is read) and gives a maximum slowdown of 2.8 % \
         against native at 8 to 20 ms a call.",
        NETWORK_READINGS.0, NETWORK_READINGS.1
    )
}

/// The published mean seconds of an unscaled instance; `None` for all while the paper's
/// tables are not at hand. Put them here, with their table's number, if they are found.
pub fn seconds(_function: Function, _domain: Domain, _published: Instance) -> Option<f64> {
    None
}
