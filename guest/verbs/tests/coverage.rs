//! The table of functions, `coverage.tsv`, and the page that is made of it: as the library is, and as the real
//! libraries and their header are. After a change on purpose run this with VFUN_GOLDEN=write.

use object::{Object, ObjectSymbol};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use vfunverbs::coverage::{Coverage, INLINE, called, notes};

/// The header, which not every machine has.
const HEADER: &str = "/usr/include/infiniband/verbs.h";
const LIBRARIES: [&str; 2] = ["libibverbs", "librdmacm"];
/// The table's third part.
const INLINES: &str = "verbs.h";

fn repo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Functions that a library has for programs, by name.
fn exported(file: &Path) -> Option<Vec<String>> {
    let bytes = std::fs::read(file).ok()?;
    let parsed = object::File::parse(bytes.as_slice()).expect("an ELF file");
    let named = parsed.dynamic_symbols().filter(|s| s.is_definition());
    let names = named.filter_map(|s| s.name().ok().map(str::to_owned));
    Some(names.collect())
}

/// The library that was built beside this test.
fn ours() -> Vec<String> {
    let test = std::env::current_exe().expect("this test");
    let folder = test.ancestors().nth(2).expect("a folder of programs");
    exported(&folder.join("libvfunverbs.so")).expect("it was built")
}

/// Functions of the real libraries that programs may call, and not only drivers of devices.
fn real(library: &str) -> Option<Vec<String>> {
    let file = PathBuf::from(format!("/usr/lib/x86_64-linux-gnu/{library}.so.1"));
    let is_for_programs = |name: &String| {
        let first = name.starts_with("ibv_") || name.starts_with("rdma_") || name.starts_with('r');
        first && !name.starts_with("ibv_cmd_")
    };
    // What only drivers of devices call, which Debian gives a version of its own.
    let drivers = ["ibv_register_driver", "ibv_read_ibdev_sysfs_file"];
    let mut names = exported(&file)?;
    names.retain(|name| is_for_programs(name) && !drivers.contains(&name.as_str()));
    names.sort();
    names.dedup();
    Some(names)
}

/// What becomes of a function, and why.
type Row = (Coverage, &'static str);

/// The rows of a library. Panics if nobody has said what becomes of one.
fn rows(library: &str, ours: &[String]) -> Option<BTreeMap<String, Row>> {
    let row = |name: String| {
        let noted = notes().find(|(noted, ..)| *noted == name);
        let has = ours.contains(&name);
        let row = match noted {
            Some((_, Coverage::Real, why)) => {
                assert!(!has, "{name} is the library's own, and noted as the real one's");
                (Coverage::Real, why)
            }
            Some((_, coverage, why)) => {
                // Other functions of sockets are never reached.
                assert!(has || name.starts_with('r'), "{name} is noted, and not there");
                (coverage, why)
            }
            None => {
                assert!(has, "{name} is not there: write it, or note in coverage.rs why not");
                (Coverage::Done, "")
            }
        };
        (name, row)
    };
    Some(real(library)?.into_iter().map(row).collect())
}

fn inline_rows() -> BTreeMap<String, Row> {
    INLINE.iter().map(|(name, coverage, why)| ((*name).to_owned(), (*coverage, *why))).collect()
}

fn table(all: &[(&str, BTreeMap<String, Row>)]) -> String {
    let mut text = "# What becomes of each function of the RDMA libraries. Written by guest/verbs/tests/coverage.rs.\n".to_owned();
    for (library, rows) in all {
        for (name, (coverage, why)) in rows {
            writeln!(text, "{library}\t{name}\t{}\t{why}", coverage.word()).expect("text");
        }
    }
    text
}

fn page(all: &[(&str, BTreeMap<String, Row>)]) -> String {
    let mut text = "# RDMA verbs: what becomes of each function\n\n\
        This page is made of the library ([`guest/verbs`](../guest/verbs/src/coverage.rs)), and of libibverbs and librdmacm of Debian 12.\n\
        `vfun verbs check PROGRAM` says it of the functions that a program uses. [verbs.md](verbs.md) says how to use RDMA.\n\n\
        *Done*: it does what its manual page says. *Nothing*: it succeeds and has nothing to do. *Real*: the real library's function runs, because it\n\
        needs no device. *Refused*: it fails with `EOPNOTSUPP`, and the library says its name and why, once.\n\n\
        | | done | nothing | real | refused |\n|---|---|---|---|---|\n"
        .to_owned();
    let count = |rows: &BTreeMap<String, Row>, of| rows.values().filter(|r| r.0 == of).count();
    use Coverage::{Done, Nothing, Real, Refused};
    for (library, rows) in all {
        let [d, n, r, x] = [Done, Nothing, Real, Refused].map(|of| count(rows, of));
        writeln!(text, "| {library} | {d} | {n} | {r} | {x} |").expect("text");
    }
    for (library, rows) in all {
        let inline = if *library == INLINES { ": inline functions of the header" } else { "" };
        writeln!(text, "\n## {library}{inline}\n\n| function | | why |\n|---|---|---|")
            .expect("text");
        for (name, (coverage, why)) in rows {
            writeln!(text, "| `{name}` | {} | {why} |", coverage.word()).expect("text");
        }
    }
    text
}

fn compare(file: &Path, made: &str) {
    if std::env::var_os("VFUN_GOLDEN").is_some() {
        std::fs::write(file, made).expect("it can be written");
    }
    let kept = std::fs::read_to_string(file).unwrap_or_default();
    assert!(kept == made, "{} is old: run this test with VFUN_GOLDEN=write", file.display());
}

#[test]
fn each_function_is_there_or_has_a_reason() {
    let ours = ours();
    let of_library = |library: &'static str| Some((library, rows(library, &ours)?));
    let all: Option<Vec<_>> = LIBRARIES.into_iter().map(of_library).collect();
    let Some(mut all) = all else {
        return eprintln!("not tried: the real libraries are not there");
    };
    all.push((INLINES, inline_rows()));
    compare(&repo().join("guest/verbs/coverage.tsv"), &table(&all));
    compare(&repo().join("docs/verbs-functions.md"), &page(&all));
}

#[test]
fn inline_functions_are_those_of_the_header() {
    let Ok(header) = std::fs::read_to_string(HEADER) else {
        return eprintln!("not tried: there is no {HEADER}");
    };
    let mut found: Vec<&str> = vec![];
    for (at, _) in header.match_indices("static inline") {
        let head = header[at..].split(['{', ';']).next().unwrap_or_default();
        let name =
            head.split('(').next().and_then(|text| text.split([' ', '*', '\n', '\t']).next_back());
        found.extend(name.filter(|n| n.starts_with("ibv_") || n.starts_with("verbs_")));
    }
    found.sort_unstable();
    let mut noted: Vec<&str> = INLINE.iter().map(|note| note.0).collect();
    noted.sort_unstable();
    let twice = noted.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None);
    let only = |of: &[&'static str], other: &[&str]| {
        of.iter().filter(|n| !other.contains(n)).map(|n| (*n).to_owned()).collect::<Vec<_>>()
    };
    let missing: Vec<&&str> = found.iter().filter(|name| !noted.contains(name)).collect();
    assert!(missing.is_empty(), "not in coverage.rs: {missing:?}");
    assert_eq!(only(&noted, &found), Vec::<String>::new(), "not in the header");
}

#[test]
fn what_is_called_by_the_contexts_table_is_done_if_it_is_there() {
    for (name, is) in called() {
        let noted = INLINE.iter().find(|note| note.0 == name).expect("a note");
        assert_eq!(noted.1 == Coverage::Done, is, "{name}");
    }
}
