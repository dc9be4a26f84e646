//! What manifests and the policy file have in common: TOML, refused with file,
//! line and reason.

use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::DeTable;
use vfun_wire::names;

/// Why a file was refused.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {reason}", file.display(), line.map_or(String::new(), |l| format!(":{l}")))]
pub struct ManifestError {
    /// The file that it was read from.
    pub file: PathBuf,
    /// Which line, from 1, if one is to blame.
    pub line: Option<usize>,
    /// What is wrong and what would be right.
    pub reason: String,
}

/// A file's text, and where it came from.
pub struct Source<'a> {
    /// The file that errors name.
    pub file: &'a Path,
    /// All of it.
    pub text: &'a str,
}

impl Source<'_> {
    /// The line of a byte, from 1.
    pub fn at(&self, byte: usize) -> usize {
        self.text.as_bytes().iter().take(byte).filter(|b| **b == b'\n').count() + 1
    }

    /// A field is to blame.
    pub fn error<T>(&self, field: &Spanned<T>, reason: impl Into<String>) -> ManifestError {
        ManifestError {
            file: self.file.to_owned(),
            line: Some(self.at(field.span().start)),
            reason: reason.into(),
        }
    }

    /// No one line is to blame.
    pub fn whole(&self, reason: impl Into<String>) -> ManifestError {
        ManifestError { file: self.file.to_owned(), line: None, reason: reason.into() }
    }

    /// As TOML.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ManifestError> {
        self.of_table(self.table()?)
    }

    /// As a table, of which parts can be taken.
    pub fn table(&self) -> Result<Spanned<DeTable<'_>>, ManifestError> {
        DeTable::parse(self.text).map_err(|e| self.wrong(e))
    }

    /// What a table of this file says.
    pub fn of_table<T: DeserializeOwned>(
        &self,
        table: Spanned<DeTable<'_>>,
    ) -> Result<T, ManifestError> {
        T::deserialize(toml::Deserializer::from(table)).map_err(|e| self.wrong(e))
    }

    fn wrong(&self, e: toml::de::Error) -> ManifestError {
        ManifestError {
            file: self.file.to_owned(),
            line: e.span().map(|s| self.at(s.start)),
            reason: e.message().to_owned(),
        }
    }

    /// A name of a client or function.
    pub fn name(&self, name: &Spanned<String>) -> Result<String, ManifestError> {
        match names::check(name.get_ref()) {
            Ok(()) => Ok(name.get_ref().clone()),
            Err(e) => Err(self.error(name, format!("name '{}': {e}", name.get_ref()))),
        }
    }
}
