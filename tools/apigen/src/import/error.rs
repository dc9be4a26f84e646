//! Why a header could not be read.

use super::WantedFunctions;
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

/// Why an import failed, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("clang does not start: {0}. Install it (Debian's package clang)")]
    NoClang(std::io::Error),
    #[error("clang cannot read {}. Mend what it says below, or add --include or --define:\n{said}", header.display())]
    Refused { header: PathBuf, said: String },
    #[error(
        "clang printed what this program cannot read ({why}): another version of clang? Version 14 was tried"
    )]
    Output { why: String },
    #[error("{} has no function to import: {wanted}", header.display())]
    NoFunctions { header: PathBuf, wanted: WantedFunctions },
    #[error(
        "the header has no struct '{name}' with members: --table wants a struct of function pointers"
    )]
    NoTable { name: String },
    #[error(
        "'{name}' is to be skipped, but it is none of the chosen functions: correct or remove it"
    )]
    NothingToSkip { name: String },
    #[error("the type '{name}': {why}")]
    Type { name: String, why: String },
    #[error(
        "two different structs are called '{name}', one by its tag and one by a typedef: rename one"
    )]
    TwoStructs { name: String },
    #[error(
        "{} cannot be described; leave out (--skip) what cannot be forwarded:{}",
        count(faults),
        lines(faults)
    )]
    Functions { faults: Vec<FunctionFault> },
}

/// A function that cannot be described, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionFault {
    pub function: String,
    pub why: String,
}

fn count(faults: &[FunctionFault]) -> String {
    match faults {
        [_] => "one function".into(),
        all => format!("{} functions", all.len()),
    }
}

fn lines(faults: &[FunctionFault]) -> String {
    faults.iter().map(|f| format!("\n  {}: {}", f.function, f.why)).collect()
}

impl Display for WantedFunctions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            WantedFunctions::Prefixes(none) if none.is_empty() => {
                write!(f, "it declares none; name a prefix if another header does (--prefix)")
            }
            WantedFunctions::Prefixes(all) => {
                write!(f, "none begins with {}; correct --prefix", all.join(" or "))
            }
            WantedFunctions::Table(name) => {
                write!(f, "struct {name} has no function pointers; correct --table")
            }
        }
    }
}
