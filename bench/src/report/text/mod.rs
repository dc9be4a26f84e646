//! Reports as plain text for a terminal.

mod domains;
mod footprint;
mod grain;
mod isolation;
mod latency;
mod leases;
mod module;
mod nics;
pub(crate) mod number;
pub(super) mod ports;
mod queues;
mod remoting;
mod scale;
mod summary;
mod verbs;
mod waiting;

use super::checks::Check;
use super::{Machine, Settings};
use vfun_cli::out::Table;

pub use domains::domains;
pub use footprint::footprint;
pub use grain::grain;
pub use isolation::isolation;
pub use latency::latency;
pub(super) use latency::what;
pub use leases::leases;
pub use module::module;
pub use nics::nics;
pub use ports::ports;
pub use queues::queues;
pub use remoting::remoting;
pub use scale::scale;
pub use summary::summary;
pub use verbs::verbs;
pub use waiting::waiting;

fn head(title: &str, machine: &Machine, settings: &Settings) -> String {
    format!(
        "{title}{}\n  on    {}\n  noise {}\n  how   {}\n",
        machine.guest_words(),
        machine.line(),
        machine.noise_line(),
        settings.line()
    )
}

fn checks(checks: &[Check]) -> String {
    let mut table = Table::ruled(&["target", "asked", "", "measured"]);
    for check in checks {
        table.row([
            check.what.clone(),
            check.target.clone(),
            check.outcome.to_string(),
            check.measured.clone(),
        ]);
    }
    table.to_string()
}
