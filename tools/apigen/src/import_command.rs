//! `vfun-apigen import`.

use crate::repository;
use clap::Args;
use std::error::Error;
use std::path::PathBuf;
use vfun_apigen::Facts;
use vfun_apigen::import::{self, HeaderImport, ImportError, WantedFunctions};

/// Read a C header; write what it says of the API as TOML.
///
/// The file lists functions, structs, typedefs and constants and is meant to be kept in the
/// repository: with it, nobody needs the header or clang to build. Run the command again for a
/// new version of the header; the difference shows what changed.
#[derive(Args)]
#[command(after_help = "Examples:
  vfun-apigen import gdma.h --prefix gdma_ -o facts.toml
  vfun-apigen import pkcs11.h --table CK_FUNCTION_LIST --also CK_C_INITIALIZE_ARGS -o facts.toml
  vfun-apigen import CL/cl.h --define CL_TARGET_OPENCL_VERSION=300 -o facts.toml")]
pub struct ImportArguments {
    #[command(flatten)]
    header: HeaderArguments,
    /// Write to this file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What to read of a header, and how.
#[derive(Args)]
pub struct HeaderArguments {
    /// The C header. clang (Debian's package clang) must be installed
    pub header: PathBuf,
    /// Take prototypes with this beginning; can be given several times [default: all of the header and of those beside it]
    #[arg(long, value_name = "PREFIX", conflicts_with = "table")]
    pub prefix: Vec<String>,
    /// Take the function pointers in this struct, for an API that gives out a table
    #[arg(long, value_name = "STRUCT")]
    pub table: Option<String>,
    /// Define a macro for the header
    #[arg(long, value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// Look for included headers in this folder, too
    #[arg(long, value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Leave this function out, for example as it takes a variable number of arguments
    #[arg(long, value_name = "FUNCTION")]
    skip: Vec<String>,
    /// Take this struct or typedef, too: one that programs pass through `void *`
    #[arg(long, value_name = "TYPE")]
    also: Vec<String>,
}

impl HeaderArguments {
    /// Reads it.
    pub fn facts(&self) -> Result<Facts, ImportError> {
        let wanted = match &self.table {
            Some(table) => WantedFunctions::Table(table.clone()),
            None => WantedFunctions::Prefixes(self.prefix.clone()),
        };
        import::header(&HeaderImport {
            header: self.header.clone(),
            includes: self.include.clone(),
            defines: self.define.clone(),
            wanted,
            skip: self.skip.clone(),
            types: self.also.clone(),
        })
    }

    /// The header's name, without its folder.
    pub fn name(&self) -> String {
        self.header.file_name().map(|n| n.display().to_string()).unwrap_or_default()
    }

    /// The options after the header, as they were typed.
    pub fn options(&self) -> String {
        let mut words = vec![];
        let mut say = |option: &str, values: &[String]| {
            words.extend(values.iter().map(|value| format!(" --{option} {value}")));
        };
        say("prefix", &self.prefix);
        say("table", self.table.as_slice());
        say("define", &self.define);
        say("include", &self.include.iter().map(|p| p.display().to_string()).collect::<Vec<_>>());
        say("skip", &self.skip);
        say("also", &self.also);
        words.concat()
    }
}

/// What is kept of a header.
pub fn kept(name: &str, facts: &Facts) -> String {
    format!("# What {name} says. `vfun-apigen import` wrote this: do not edit it.\n\n{facts}")
}

pub fn run(arguments: &ImportArguments) -> Result<(), Box<dyn Error>> {
    let text = kept(&arguments.header.name(), &arguments.header.facts()?);
    match &arguments.output {
        Some(file) => repository::write(file, &text).map_err(Into::into),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}
