//! What keeps one client's zeal from being another's wait: how fast each may
//! ask, ring, start things and fill the log. Pure: numbers and the clock go in.
//!
//! - [`bucket`]: so many a second, with a burst.
//! - [`intake`]: whose requests are next, and what each costs.
//! - [`lines`]: the log's lines about each client.
//! - [`rates`]: one bucket a name, forgotten when it is full again.

pub mod bucket;
pub mod intake;
pub mod lines;
pub mod rates;

pub use bucket::{Bucket, Rate};
pub use intake::{Intake, Step, cost};
pub use lines::{Lines, Say};
pub use rates::Rates;
