//! Every rule that code quotes by number is in `docs/protocol.md` or, for verbs, in
//! `docs/verbs-protocol.md`, once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Rule numbers in a text: `R-`, capital letters, `-`, digits.
fn quoted(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("R-") {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            continue;
        }
        let rest = &text[at + 2..];
        let word: String = rest.chars().take_while(char::is_ascii_uppercase).collect();
        let Some(tail) = rest[word.len()..].strip_prefix('-') else { continue };
        let number: String = tail.chars().take_while(char::is_ascii_digit).collect();
        if !word.is_empty() && !number.is_empty() {
            found.insert(format!("R-{word}-{number}"));
        }
    }
    found
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" && name != "corpus" {
                sources(&path, found);
            }
        } else if [".rs", ".c", ".h", ".py", ".sh"].iter().any(|end| name.ends_with(end)) {
            found.push(path);
        }
    }
}

/// The pages of rules.
fn pages() -> String {
    let page = |name| std::fs::read_to_string(root().join(name)).unwrap();
    ["docs/protocol.md", "docs/verbs-protocol.md"].map(page).concat()
}

/// Rules as they are defined: `- **R-ABC-1** …`.
fn defined() -> Vec<String> {
    pages()
        .lines()
        .filter_map(|l| l.strip_prefix("- **R-"))
        .map(|l| format!("R-{}", l.split("**").next().unwrap()))
        .collect()
}

#[test]
fn every_rule_that_is_quoted_exists() {
    let defined: BTreeSet<String> = defined().into_iter().collect();
    let mut files = Vec::new();
    sources(&root(), &mut files);
    let mut missing: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for file in files {
        // A file that another process removes meanwhile quotes nothing.
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        for rule in quoted(&text) {
            if !defined.contains(&rule) && !file.ends_with("tests/requirements.rs") {
                missing.entry(rule.clone()).or_default().push(file.clone());
            }
            seen.insert(rule);
        }
    }
    assert!(missing.is_empty(), "quoted, but on no page: {missing:#?}");
    assert!(seen.len() > 12, "the scan finds only {seen:?}");
}

#[test]
fn rules_are_defined_once_and_the_page_quotes_none_it_lacks() {
    let all = defined();
    let set: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(all.len(), set.len(), "a rule is defined twice: {all:?}");
    let lost: Vec<_> = quoted(&pages()).difference(&set).cloned().collect();
    assert!(lost.is_empty(), "the pages refer to rules they do not define: {lost:?}");
    // Numbers count up from 1 in each group, without a gap.
    let mut last: BTreeMap<String, u32> = BTreeMap::new();
    for rule in all {
        let (group, number) = rule.rsplit_once('-').unwrap();
        let before = last.entry(group.to_string()).or_default();
        *before += 1;
        assert_eq!(number, before.to_string(), "{rule} is out of order");
    }
}

#[test]
fn the_scan_finds_what_it_should() {
    let text = "(R-CEL-3) and R-SLP-2: but not XR-A-1, R-1, R--2 or CLEAR-MEM-4";
    let want: BTreeSet<String> = ["R-CEL-3", "R-SLP-2"].map(String::from).into();
    assert_eq!(quoted(text), want);
}

/// A session has as many buffers as the kernel module keeps of one file.
#[test]
fn the_kernel_module_keeps_as_many_buffers_as_a_session_has() {
    let limits = std::fs::read_to_string(root().join("guest/kmod/limits.h")).unwrap();
    let line = limits.lines().find_map(|l| l.strip_prefix("#define VFUN_BUFFERS_MAX "));
    let module = line.expect("it has a limit").trim();
    let same = module == vfun_wire::limits::BUFFERS.to_string() || module == "VFUN_BUFFERS";
    assert!(same, "the module keeps {module}");
}
