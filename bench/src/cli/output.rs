//! Where reports go.

use super::args::OutputArgs;
use crate::Result;
use crate::error::Doing;
use crate::report::jail::{JailReport, JailRow};
use crate::report::wasm::{WasmReport, WasmRow};
use crate::report::{DomainsReport, FootprintReport, GrainReport, LatencyReport};
use crate::report::{
    IsolationReport, LeasesReport, ModuleReport, NicsReport, PortsReport, QueuesReport,
    RemotingReport, ScaleReport, VerbsReport, WaitingReport,
};
use crate::report::{ReportError, chart, csv, json, text};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What all reports can do.
pub(super) trait Report: Serialize {
    /// A row of the report's table.
    type Row: Serialize;
    fn rows(&self) -> &[Self::Row];
    /// As a table for people.
    fn text(&self) -> String;
    /// Draws a chart of it into this file, .svg or .png.
    fn chart(&self, path: &Path) -> std::result::Result<(), ReportError>;
}

macro_rules! report {
    ($report:ty, $row:ty, $name:ident, $chart:expr) => {
        impl Report for $report {
            type Row = $row;
            fn rows(&self) -> &[$row] {
                &self.rows
            }
            fn text(&self) -> String {
                text::$name(self)
            }
            fn chart(&self, path: &Path) -> std::result::Result<(), ReportError> {
                $chart(self, path)
            }
        }
    };
}

report!(DomainsReport, crate::report::DomainRow, domains, chart::domains);
report!(LatencyReport, crate::report::LatencyRow, latency, chart::latency);
report!(GrainReport, crate::report::GrainRow, grain, chart::grain);
report!(FootprintReport, crate::report::FootprintRow, footprint, no_chart);
report!(IsolationReport, crate::report::IsolationRow, isolation, no_chart);
report!(LeasesReport, crate::report::LeasesRow, leases, chart::leases);
report!(ModuleReport, crate::report::ModuleRow, module, no_chart);
report!(NicsReport, crate::report::NicsRow, nics, chart::nics);
report!(PortsReport, crate::report::PortsRow, ports, no_chart);
report!(QueuesReport, crate::report::QueuesRow, queues, no_chart);
report!(VerbsReport, crate::report::VerbsRow, verbs, no_chart);
report!(RemotingReport, crate::report::RemotingRow, remoting, chart::remoting);
report!(ScaleReport, crate::report::ScaleRow, scale, no_chart);
report!(WaitingReport, crate::report::WaitingRow, waiting, no_chart);

impl Report for JailReport {
    type Row = JailRow;
    fn rows(&self) -> &[JailRow] {
        &self.rows
    }
    fn text(&self) -> String {
        JailReport::text(self)
    }
    fn chart(&self, path: &Path) -> std::result::Result<(), ReportError> {
        no_chart(self, path)
    }
}

impl Report for WasmReport {
    type Row = WasmRow;
    fn rows(&self) -> &[WasmRow] {
        &self.rows
    }
    fn text(&self) -> String {
        WasmReport::text(self)
    }
    fn chart(&self, path: &Path) -> std::result::Result<(), ReportError> {
        no_chart(self, path)
    }
}

fn no_chart<R>(_: &R, path: &Path) -> std::result::Result<(), ReportError> {
    let reason = "this report is a table only".to_owned();
    Err(ReportError::Chart { path: path.to_owned(), reason })
}

/// Writes to stdout; a reader that has gone is no error.
pub(super) fn say(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// Shows a report and writes it wherever it was asked for.
pub(super) fn put<R: Report>(report: &R, to: &OutputArgs) -> Result<()> {
    let stdout = to.json.as_deref() == Some(Path::new("-"));
    if stdout {
        let line = serde_json::to_string(report).map_err(std::io::Error::from);
        say(&format!("{}\n", line.doing(|| "the report cannot be put in JSON".into())?));
    } else {
        say(&format!("{}\n", report.text()));
    }
    if let Some(path) = to.json.as_deref().filter(|_| !stdout) {
        json::write(path, report)?;
    }
    if let Some(path) = &to.csv {
        csv::write(path, report.rows())?;
    }
    to.chart.iter().try_for_each(|path| Ok(report.chart(path)?))
}

/// The files of one report in a folder, with its charts if it has any.
pub(super) fn files(folder: Option<&Path>, name: &str, charts: bool) -> OutputArgs {
    let Some(folder) = folder else { return OutputArgs::default() };
    let file = |ending: &str| -> PathBuf { folder.join(format!("{name}.{ending}")) };
    let chart = if charts { vec![file("svg"), file("png")] } else { Vec::new() };
    OutputArgs { json: Some(file("json")), csv: Some(file("csv")), chart }
}
