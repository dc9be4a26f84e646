//! Functions of the RDMA libraries that a program imports, itself or by libraries that it needs.

use super::table;
use crate::fail::{Exit, Failure, Result, file};
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// The libraries in question. What they import themselves does not count: libvfunverbs stands in for them.
const LIBRARIES: [&str; 2] = ["libibverbs.so", "librdmacm.so"];
/// A library that imports such a function is a driver of real devices, which finds none.
const OF_DRIVERS: &str = "ibv_cmd_";
/// Most libraries that are read.
const MOST: usize = 256;
/// Where libraries are looked for, after LD_LIBRARY_PATH.
const FOLDERS: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib",
];

/// What a program imports.
#[derive(Debug)]
pub struct Imported {
    pub name: String,
    /// Functions, each with the library that imports it, if it is not the program itself.
    pub functions: BTreeMap<String, Option<String>>,
    pub not_found: Vec<String>,
}

/// One file.
struct Elf {
    needed: Vec<String>,
    undefined: Vec<String>,
}

fn read(bytes: &[u8]) -> std::result::Result<Elf, object::Error> {
    let parsed = ElfFile64::<Endianness>::parse(bytes)?;
    let header: &FileHeader64<Endianness> = parsed.elf_header();
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let mut needed = vec![];
    if let Some((entries, strings)) = sections.dynamic(endian, bytes)? {
        let strings = sections.strings(endian, bytes, strings)?;
        for entry in entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED) {
            let name = entry.string(endian, strings)?;
            needed.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    let undefined = parsed.dynamic_symbols().filter(|symbol| symbol.is_undefined());
    let names = undefined.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    Ok(Elf { needed, undefined: names.collect() })
}

/// Where a program is: a path, or a name that the shell finds.
fn find(program: &Path) -> Result<PathBuf> {
    if program.components().count() > 1 || program.exists() {
        return Ok(program.to_owned());
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|dir| dir.join(program)).find(|p| p.is_file());
    found.ok_or_else(|| {
        Failure::new(Exit::Failed, format!("there is no program '{}' in PATH", program.display()))
            .advise("install it, or name its file: ./PROGRAM")
    })
}

fn library(name: &str) -> Option<PathBuf> {
    let set = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&set).chain(FOLDERS.map(PathBuf::from));
    folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()))
}

fn is_of_rdma(name: &str) -> bool {
    LIBRARIES.iter().any(|library| name.starts_with(library))
}

/// Functions that count: those of the table, and others that are named like them.
fn counts(name: &str) -> bool {
    table::known().contains_key(name) || name.starts_with("ibv_") || name.starts_with("rdma_")
}

/// Reads a program and the libraries that it needs.
///
/// # Errors
/// There is no such program, or it is none.
pub fn of(program: &Path) -> Result<Imported> {
    let path = find(program)?;
    let bytes = std::fs::read(&path).map_err(|e| file(&path, "read", &e))?;
    let elf = read(&bytes).map_err(|e| {
        Failure::new(
            Exit::Failed,
            format!("{} is no program of 64 bits (ELF): {e}", path.display()),
        )
        .advise("name the program that a script starts")
    })?;
    let name = program.display().to_string();
    let mut imported = Imported { name, functions: BTreeMap::new(), not_found: vec![] };
    let (mut wait, mut seen) = (VecDeque::from([(None, elf)]), BTreeSet::new());
    while let Some((by, elf)) = wait.pop_front() {
        if elf.needed.iter().any(|needed| is_of_rdma(needed)) {
            take(&mut imported, by.as_ref(), &elf);
        }
        for needed in elf.needed {
            if is_of_rdma(&needed) || seen.len() >= MOST || !seen.insert(needed.clone()) {
                continue;
            }
            let bytes = library(&needed).and_then(|path| std::fs::read(path).ok());
            match bytes.and_then(|bytes| read(&bytes).ok()) {
                Some(elf) => wait.push_back((Some(needed), elf)),
                None => imported.not_found.push(needed),
            }
        }
    }
    Ok(imported)
}

fn take(to: &mut Imported, by: Option<&String>, elf: &Elf) {
    if by.is_some() && elf.undefined.iter().any(|name| name.starts_with(OF_DRIVERS)) {
        return;
    }
    for name in elf.undefined.iter().filter(|name| counts(name)) {
        to.functions.entry(name.clone()).or_insert_with(|| by.cloned());
    }
}
