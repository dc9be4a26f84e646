//! What can keep a measurement from being taken.

use crate::report::{Function, ReportError};
use std::io;
use std::path::PathBuf;
use vfun_testguest::GuestError;

/// What fallible functions here return.
pub type Result<T> = std::result::Result<T, BenchError>;

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A call, or the way to one.
    #[error("{0}")]
    Vfun(#[from] vfun::Error),
    /// The manager did not do what was asked.
    #[error("{0}")]
    Admin(#[from] vfun_admin::AskError),
    /// No manager of one's own could be started.
    #[error("a manager for the measurement could not be started: {0}")]
    Manager(String),
    /// A program that the measurement needs is missing.
    #[error("{} is not there: build it (`cargo build --release`); programs are looked for beside this one", .0.display())]
    NoProgram(PathBuf),
    /// No manifests were found.
    #[error("no functions were found in {looked}: name their folder with --functions")]
    NoFunctions {
        /// The folders that were looked at.
        looked: String,
    },
    /// No guest could be had.
    #[error("{0}")]
    Guest(#[from] GuestError),
    /// A guest's answer was no answer.
    #[error("the guest did not measure: {0}")]
    Inside(String),
    /// No bare virtual machine, or none that runs code.
    #[error("{0}")]
    BareVm(String),
    /// testpmd did not do its part.
    #[error("testpmd: {0}")]
    Testpmd(String),
    /// Open vSwitch did not do its part.
    #[error("Open vSwitch: {0}")]
    Switch(String),
    /// A driver could not be called in this process.
    #[error("in-process: {0}")]
    Driver(String),
    /// A remoted API, or the library that it stands for.
    #[error("{0}")]
    Gdma(#[from] vfun_bench_gdma::GdmaFailed),
    /// A function computed something else than it should.
    #[error(
        "{function} gave {got} where {wanted} is right: what was timed is not the work that was asked for"
    )]
    Wrong {
        function: String,
        /// The result that came back.
        got: String,
        /// The result that is right.
        wanted: String,
    },
    /// Raw lines were not answered.
    #[error(
        "the service of 'floor' did not answer a raw line within {seconds} s: `vfun service list` shows whether it runs"
    )]
    NoFloor {
        /// How long it was waited for.
        seconds: u64,
    },
    /// This place cannot do this work.
    #[error("{place} cannot measure {what}")]
    Unfit {
        /// Where the work should be done.
        place: String,
        /// What should be done there.
        what: &'static str,
    },
    /// The operating system refused something.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        source: io::Error,
    },
    /// A report could not be written.
    #[error("{0}")]
    Report(#[from] ReportError),
    /// The options contradict each other.
    #[error("{0}")]
    Options(String),
}

impl From<vfun_barevm::NoMachine> for BenchError {
    fn from(e: vfun_barevm::NoMachine) -> Self {
        Self::BareVm(e.to_string())
    }
}

impl BenchError {
    pub(crate) fn wrong(function: Function, got: &[u8], wanted: u64) -> Self {
        let got = match <[u8; 8]>::try_from(got) {
            Ok(bytes) => u64::from_le_bytes(bytes).to_string(),
            Err(_) => format!("{} bytes", got.len()),
        };
        Self::Wrong { function: function.as_str().to_owned(), got, wanted: wanted.to_string() }
    }
}

/// Says what was being done when the system refused.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| BenchError::Io { doing: what(), source: e.into() })
    }
}
