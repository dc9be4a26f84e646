//! Why a report could not be written or read. Every message names the file.

use std::path::{Path, PathBuf};

/// A report that could not be written, read or drawn.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file system refused.
    #[error("cannot {action} the report {}: {source}; check that the folder exists and may be written", path.display())]
    Io {
        /// What was tried: "write", "read".
        action: &'static str,
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is no report in JSON, or the report cannot be put in JSON.
    #[error("the report {} is not the JSON that was expected: {source}", path.display())]
    Json {
        path: PathBuf,
        /// Where it goes wrong.
        source: serde_json::Error,
    },
    /// The file is no table of these rows, or the rows cannot be put in a table.
    #[error("the table {} is not the CSV that was expected: {source}", path.display())]
    Csv {
        path: PathBuf,
        /// Where it goes wrong.
        source: ::csv::Error,
    },
    /// A PNG needs a font to draw its words with, and none was found.
    #[error(
        "cannot draw {}: no font was found (looked for {looked}); install the package fonts-dejavu-core \
         (Debian, Ubuntu), dejavu-sans-fonts (Fedora) or ttf-dejavu (Arch, Alpine), or ask for an .svg, \
         which needs no font",
        path.display()
    )]
    NoFont {
        path: PathBuf,
        /// The files that were looked for.
        looked: String,
    },
    /// The chart's file name ends in something else than `.png` or `.svg`.
    #[error("cannot draw {}: a chart's file name ends in .png or .svg", path.display())]
    UnknownFormat { path: PathBuf },
    /// The report holds nothing that this chart shows.
    #[error("cannot draw {}: {reason}", path.display())]
    Chart {
        path: PathBuf,
        /// What is missing, or what the drawing library said.
        reason: String,
    },
}

impl ReportError {
    pub(super) fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        let path = path.to_owned();
        Self::Io { action, path, source }
    }
}
