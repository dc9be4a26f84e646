//! The targets of many clients and channels.

use super::Check;
use crate::method::Compared;
use crate::report::text::number::{ns, times};
use crate::report::{ScaleReport, ScaleRow};

/// A call on one of a thousand channels takes at most this many times one of eight's.
pub const OVER_CONTROL: f64 = 1.2;
/// A killed manager is taken over within this time, ns.
pub const TAKE_OVER_NS: f64 = 1e9;

fn size(row: &ScaleRow) -> String {
    let s = |n: u32| if n == 1 { "" } else { "s" };
    format!("{} client{}, {} channels", row.clients, s(row.clients), row.channels)
}

fn call(row: &ScaleRow, what: &str, compared: Compared, pair: Option<(f64, f64)>) -> Check {
    let target = format!("at most {} × one of 8", times(OVER_CONTROL));
    let what = format!("{}: {what} of a call", size(row));
    let figures = pair.map(|(a, b)| format!(" ({} over {})", ns(a), ns(b))).unwrap_or_default();
    let words = |c: &Compared| format!("{}{figures}", c.words());
    Check::compared(&what, target, Some(compared), |c| c.at_most(OVER_CONTROL), words)
}

fn take_over(row: &ScaleRow) -> Check {
    let pair = row.take_over_ns.zip(row.take_over_max_ns);
    let measured = pair.map(|(mid, most)| {
        format!("{}, at most {}; {} calls failed", ns(mid), ns(most), row.failed_meanwhile)
    });
    let measured = measured.unwrap_or_else(|| "no figure".to_owned());
    let target = format!("under {}, no call fails", ns(TAKE_OVER_NS));
    let reached = |most| most < TAKE_OVER_NS && row.failed_meanwhile == 0;
    let what = format!("{}: take-over", size(row));
    Check::new(&what, target, measured, row.take_over_max_ns.map(reached))
}

/// The targets, for the rows with the most channels.
pub fn scale(report: &ScaleReport) -> Vec<Check> {
    let most = report.rows.iter().map(|r| r.channels).max();
    let rows = report.rows.iter().filter(|r| Some(r.channels) == most);
    let check = |row: &ScaleRow| {
        let p50 = call(row, "p50", row.p50_compared(), row.p50_ns.zip(row.control_p50_ns));
        let p99 = call(row, "p99", row.p99_compared(), row.p99_ns.zip(row.control_p99_ns));
        let pair = row.paced_p50_ns.zip(row.control_paced_p50_ns);
        let paced = call(row, "p50 after a pause", row.paced_compared(), pair);
        [p50, p99, paced, take_over(row)]
    };
    rows.flat_map(check).collect()
}
