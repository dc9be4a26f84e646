//! Reads an API's facts from its C header. clang, a program of its own, reads the C and
//! prints what it understood as JSON; nothing of it is linked here.

mod clang;
mod constants;
mod error;
mod files;
mod resolve;
mod spelling;
mod syntax;
mod tree;

pub use error::{FunctionFault, ImportError};

use crate::facts::{CField, CFunction, Facts};
use resolve::TypeResolver;
use std::path::PathBuf;
use tree::{Declarations, FunctionDecl};

/// What to read, and how.
#[derive(Clone, Debug, Default)]
pub struct HeaderImport {
    pub header: PathBuf,
    /// Folders where the header looks for others (`-I`).
    pub includes: Vec<PathBuf>,
    /// `NAME` or `NAME=VALUE` (`-D`).
    pub defines: Vec<String>,
    pub wanted: WantedFunctions,
    /// Functions that are left out.
    pub skip: Vec<String>,
    /// Structs and typedefs that no prototype mentions but that programs pass by `void *`.
    pub types: Vec<String>,
}

/// Which of the header's functions are the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedFunctions {
    /// Prototypes with one of these beginnings. An empty list: all that stand in the header
    /// itself and in the headers beside it.
    Prefixes(Vec<String>),
    /// The function pointers in this struct: APIs that give out a table, as PKCS#11 does.
    Table(String),
}

impl Default for WantedFunctions {
    fn default() -> Self {
        WantedFunctions::Prefixes(vec![])
    }
}

/// Reads the facts, or says everything that is wrong with the chosen functions at once.
pub fn header(import: &HeaderImport) -> Result<Facts, ImportError> {
    let macros = constants::macros(&clang::preprocess(import)?, &import.header);
    let text = clang::syntax_tree(import)?;
    let declarations = Declarations::read(&text, &macros.own_files)?;
    let mut resolver = TypeResolver::new(&declarations);
    let functions = functions(import, &declarations, &mut resolver)?;
    for name in &import.types {
        resolver.named(name).map_err(|why| ImportError::Type { name: name.clone(), why })?;
    }
    let mut facts = resolver.into_facts();
    facts.functions = functions;
    facts.constants.extend(declarations.enumerators());
    let evaluated = clang::syntax_tree_with(import, &macros.questions())?;
    facts.constants.extend(constants::answers(&evaluated)?);
    Ok(facts)
}

fn functions(
    import: &HeaderImport,
    declarations: &Declarations,
    resolver: &mut TypeResolver,
) -> Result<Vec<CFunction>, ImportError> {
    let all = match &import.wanted {
        WantedFunctions::Prefixes(prefixes) => declarations.functions_with(prefixes),
        WantedFunctions::Table(name) => declarations.functions_of_table(name)?,
    };
    if all.is_empty() {
        return Err(ImportError::NoFunctions {
            header: import.header.clone(),
            wanted: import.wanted.clone(),
        });
    }
    for name in &import.skip {
        if !all.iter().any(|f| f.name == *name) {
            return Err(ImportError::NothingToSkip { name: name.clone() });
        }
    }
    let mut functions = vec![];
    let mut faults = vec![];
    for declared in all.iter().filter(|f| !import.skip.contains(&f.name)) {
        match function(declared, resolver) {
            Ok(function) => functions.push(function),
            Err(why) => faults.push(FunctionFault { function: declared.name.clone(), why }),
        }
    }
    if faults.is_empty() { Ok(functions) } else { Err(ImportError::Functions { faults }) }
}

fn function(declared: &FunctionDecl, resolver: &mut TypeResolver) -> Result<CFunction, String> {
    let (returns, types) = resolver.prototype(&declared.spelling, &declared.parameters)?;
    let parameters = types
        .into_iter()
        .enumerate()
        .map(|(n, ty)| CField { name: declared.parameter(n), ty })
        .collect();
    Ok(CFunction { name: declared.name.clone(), returns, parameters })
}
