//! The target of the published experiment.

use super::Check;
use crate::report::text::number::times_column;
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
        let at = |domain: Domain| {
            report.rows.iter().find(|r| {
                (r.function, r.domain) == (function, domain) && r.published_instance() == finest
            })
        };
        let ratio = |r: &DomainRow| r.paired_ratio.or(r.ratio_to_host_host);
        match at(Domain::GuestHost).and_then(|r| Some((r, ratio(r)?))) {
            Some((row, ratio)) => {
                let s = if row.repeats == 1 { "" } else { "s" };
                let scaled = match row.instance() == finest {
                    true => String::new(),
                    false => format!(", run as {}", row.instance()),
                };
                let words = format!(
                    "{} × (median of {} repeat{s}{scaled})",
                    times_column(ratio),
                    row.repeats
                );
                Check::new(&what, target, words, Some(ratio <= GUEST_HOST_OVER_HOST_HOST))
            }
            None => {
                Check::new(&what, target, "not both of guest-host and host-host".to_owned(), None)
            }
        }
    };
    Function::ALL.iter().filter(measured).map(check).collect()
}
