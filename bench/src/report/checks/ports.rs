//! The targets of ports.

use super::Check;
use crate::method::Compared;
use crate::report::text::number::{rate, times};
use crate::report::text::ports::names;
use crate::report::{PortsFigure, PortsReport, PortsRow};

/// Small frames: at least so many times as many as by DPDK's own ways.
pub const SMALL: f64 = 1.5;
/// Long frames: at least as many as by memif.
pub const LONG: f64 = 1.0;
/// Frames over a direct link: at least so many times as many as by the switch.
pub const SMALL_LINK: f64 = 2.0;
/// The same of long frames.
pub const LONG_LINK: f64 = 1.5;
/// Bytes of both sorts.
pub const FRAME_BYTES: [u32; 2] = [64, 1500];

/// What a row is to reach; none: it is there to be read.
fn least(row: &PortsRow) -> Option<f64> {
    use PortsFigure::{DriverMemif, DriverVhost, LinkBothWays, LinkOneWay, RingMemif, RingVhost};
    let [small, long] = FRAME_BYTES;
    let bytes = row.frame_bytes?;
    match row.figure {
        RingMemif | RingVhost | DriverMemif | DriverVhost if bytes == small => Some(SMALL),
        RingMemif | DriverMemif if bytes == long => Some(LONG),
        LinkOneWay | LinkBothWays => Some(if bytes == small { SMALL_LINK } else { LONG_LINK }),
        _ => None,
    }
}

fn check(row: &PortsRow) -> Option<Check> {
    let least = least(row)?;
    let (what, beside) = names(row.figure);
    let what = format!("{what}, {} bytes", row.frame_bytes.unwrap_or_default());
    let target = format!("at least {} × {beside}", times(least));
    if row.left_out.is_some() {
        return Some(Check::new(&what, target, "left out".to_owned(), None));
    }
    let pair = row.frames_per_s.zip(row.base_per_s);
    let figures = pair.map(|(a, b)| format!(" ({} over {})", rate(a), rate(b))).unwrap_or_default();
    let words = |c: &Compared| format!("{}{figures}", c.words());
    Some(Check::compared(&what, target, Some(row.compared()), |c| c.at_least(least), words))
}

/// Those of the rows beside DPDK's own ways.
pub fn ports(report: &PortsReport) -> Vec<Check> {
    report.rows.iter().filter_map(check).collect()
}
