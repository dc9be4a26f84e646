//! `vfun-apigen import`.

use clap::Args;
use std::error::Error;
use std::path::PathBuf;
use vfun_apigen::import::{self, HeaderImport, WantedFunctions};

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
    /// The C header. clang (Debian's package clang) must be installed
    header: PathBuf,
    /// Take prototypes with this beginning; can be given several times [default: all of the header and of those beside it]
    #[arg(long, value_name = "PREFIX", conflicts_with = "table")]
    prefix: Vec<String>,
    /// Take the function pointers in this struct, for an API that gives out a table
    #[arg(long, value_name = "STRUCT")]
    table: Option<String>,
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
    /// Write to this file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(arguments: ImportArguments) -> Result<(), Box<dyn Error>> {
    let wanted = match arguments.table {
        Some(table) => WantedFunctions::Table(table),
        None => WantedFunctions::Prefixes(arguments.prefix),
    };
    let name = arguments.header.file_name().map(|n| n.display().to_string()).unwrap_or_default();
    let facts = import::header(&HeaderImport {
        header: arguments.header,
        includes: arguments.include,
        defines: arguments.define,
        wanted,
        skip: arguments.skip,
        types: arguments.also,
    })?;
    let text =
        format!("# What {name} says. `vfun-apigen import` wrote this: do not edit it.\n\n{facts}");
    match arguments.output {
        Some(file) => std::fs::write(&file, text)
            .map_err(|why| format!("{} cannot be written: {why}", file.display()).into()),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}
