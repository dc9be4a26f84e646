//! The target of the published experiment.

use super::Check;
use crate::report::{Domain, DomainRow, DomainsReport, Function, instances};

/// At the finest published instance guest-host takes at most this many times host-host.
pub const GUEST_HOST_OVER_HOST_HOST: f64 = 1.01;

/// For each function that was measured: guest-host against host-host at the finest
/// published instance, as scaled.
pub fn domains(report: &DomainsReport) -> Vec<Check> {
    let finest = instances::PUBLISHED[instances::PUBLISHED.len() - 1];
    let measured = |f: &&Function| report.rows.iter().any(|r| r.function == **f);
    let check = |&function: &Function| {
        let what = format!("{function} guest-host at {finest}");
        let target = format!("at most {GUEST_HOST_OVER_HOST_HOST} × host-host");
        let row = report.rows.iter().find(|r| {
            (r.function, r.domain) == (function, Domain::GuestHost)
                && r.published_instance() == finest
        });
        let scaled = match row.filter(|r| r.instance() != finest) {
            Some(row) => format!(", run as {}", row.instance()),
            None => String::new(),
        };
        Check::compared(
            &what,
            target,
            row.and_then(DomainRow::to_host_host),
            |c| c.at_most(GUEST_HOST_OVER_HOST_HOST),
            |c| format!("{}{scaled}", c.words()),
        )
    };
    Function::ALL.iter().filter(measured).map(check).collect()
}
