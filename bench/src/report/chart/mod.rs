//! Reports as charts: PNG or SVG, by the file's name.
//!
//! The colours are those of Okabe and Ito, which people who see colours differently can
//! tell apart. An SVG is drawn without a font at hand; a PNG needs one (see [`font`]).

mod axis;
mod boxes;
mod canvas;
mod domains;
pub mod font;
mod frame;
mod grain;
mod latency;
mod leases;
mod nics;
mod remoting;
mod vf_history;

use super::{
    DomainsReport, GrainReport, LatencyReport, LeasesReport, NicsReport, RemotingReport,
    ReportError, file,
};
use canvas::{Canvas, Drawn};
use plotters::prelude::{BitMapBackend, DrawingBackend, IntoDrawingArea, SVGBackend};
use std::path::Path;
use vfun_nics::history::HistoryView;

/// What all charts have in common: their size, and drawing on either back end.
trait Chart {
    /// Width and height in pixels, or why there is nothing to draw.
    fn size(&self) -> Result<(u32, u32), String>;

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Drawn;
}

/// Draws the published experiment: bars of each instance's time against host-host, with
/// the spread of the repeats; bars of seconds if host-host was not measured.
///
/// # Errors
/// [`ReportError`]; each names the file.
pub fn domains(report: &DomainsReport, path: &Path) -> Result<(), ReportError> {
    write(&domains::Bars(report), path)
}

/// Draws the round trips: bars of p50 with a whisker to p99, on a logarithmic axis.
///
/// # Errors
/// [`ReportError`]; each names the file.
pub fn latency(report: &LatencyReport, path: &Path) -> Result<(), ReportError> {
    write(&latency::Bars(report), path)
}

/// Draws the slowdown in percent by the work in a call, both logarithmic, with the
/// published 2.8 % as a line.
///
/// # Errors
/// [`ReportError`]; each names the file.
pub fn grain(report: &GrainReport, path: &Path) -> Result<(), ReportError> {
    write(&grain::Lines(report), path)
}

/// Draws what was measured of leases: lines of the gain by size, calls over time while a
/// lease comes and goes, and boxes of the calls of groups under each policy.
///
/// # Errors
/// [`ReportError`]; each names the file.
pub fn leases(report: &LeasesReport, path: &Path) -> Result<(), ReportError> {
    write(&leases::Panels(report), path)
}

/// Draws the history of a pool of network VFs: a lane for each VF with the VMs that used it,
/// and a line for each VM with its rate.
///
/// # Errors
/// [`ReportError`]; each names the file.
pub fn vf_history(pool: &str, history: &HistoryView, path: &Path) -> Result<(), ReportError> {
    write(&vf_history::Lanes::new(pool, history), path)
}

/// Draws what is simulated of network VFs: boxes of packets' times of groups under each
/// policy, and lines of who holds a VF by rate.
///
/// # Errors
/// [`ReportError`]; each names the file.
pub fn nics(report: &NicsReport, path: &Path) -> Result<(), ReportError> {
    write(&nics::NicsPanels(report), path)
}

/// Draws a remoted API beside its library: lines of what allocations take and of the rates of
/// transfers and bursts, by size.
///
/// # Errors
/// [`ReportError`]; each names the file.
pub fn remoting(report: &RemotingReport, path: &Path) -> Result<(), ReportError> {
    write(&remoting::RemotingPanels(report), path)
}

fn write(chart: &impl Chart, path: &Path) -> Result<(), ReportError> {
    let failed = |reason: String| ReportError::Chart { path: path.to_owned(), reason };
    let size = chart.size().map_err(failed)?;
    match path.extension().and_then(|e| e.to_str()) {
        Some("svg") => {
            let mut svg = String::new();
            let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            chart.draw(&Canvas::new(&area)).map_err(failed)?;
            area.present().map_err(|e| failed(e.to_string()))?;
            drop(area);
            file::write(path, svg.as_bytes())
        }
        Some("png") => {
            font::register(path)?;
            // The library writes the file by its name, so the name is a temporary one.
            let temporary = file::beside(path, ".png")?;
            let area = BitMapBackend::new(temporary.path(), size).into_drawing_area();
            chart.draw(&Canvas::new(&area)).map_err(failed)?;
            area.present().map_err(|e| failed(e.to_string()))?;
            drop(area);
            file::put_in_place(temporary, path)
        }
        _ => Err(ReportError::UnknownFormat { path: path.to_owned() }),
    }
}
