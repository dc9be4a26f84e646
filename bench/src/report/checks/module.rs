//! The targets of the kernel module.

use super::Check;
use crate::method::Compared;
use crate::report::text::number::{ns, times};
use crate::report::{ModuleFigure, ModuleReport, ModuleRow};

/// A null call through the module takes at most this many times the raw path's.
pub const OVER_RAW: f64 = 1.02;
/// From loading to the first call's result.
pub const LOAD_NS: f64 = 100e6;
/// From plugging in to the first call's result.
pub const ATTACH_NS: f64 = 300e6;

/// The targets, always the same three.
pub fn module(report: &ModuleReport) -> Vec<Check> {
    let call = report.find(ModuleFigure::NullCall, "module").map(ModuleRow::compared);
    let under = |kind: ModuleFigure, limit: f64| {
        let took = report.find(kind, "module").and_then(|r| r.p50_ns);
        Check::new(
            kind.words(),
            format!("under {}", ns(limit)),
            took.map_or_else(|| "no figure".to_owned(), ns),
            took.map(|t| t < limit),
        )
    };
    vec![
        Check::compared(
            "null call, module over raw",
            format!("at most {} ×", times(OVER_RAW)),
            call,
            |c| c.at_most(OVER_RAW),
            Compared::words,
        ),
        under(ModuleFigure::LoadToFirstCall, LOAD_NS),
        under(ModuleFigure::AttachToFirstCall, ATTACH_NS),
    ]
}
