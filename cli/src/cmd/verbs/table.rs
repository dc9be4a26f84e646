//! What becomes of each function, as a test of the library says it.

use std::collections::BTreeMap;

const TABLE: &str = include_str!("../../../../guest/verbs/coverage.tsv");
/// Functions of the header have no symbols.
const INLINE: &str = "verbs.h";

pub const REFUSED: &str = "refused";
pub const UNKNOWN: &str = "unknown";

/// What becomes of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub state: &'static str,
    pub why: &'static str,
}

/// What is said of a function that is not in the table.
pub const NOT_KNOWN: Known = Known {
    state: UNKNOWN,
    why: "libvfunverbs does not know it: the real library's would run, without a device",
};

/// By the function's name.
pub fn known() -> BTreeMap<&'static str, Known> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut cells = line.split('\t');
        let (library, name, state) = (cells.next()?, cells.next()?, cells.next()?);
        let why = cells.next().unwrap_or_default();
        (library != INLINE).then_some((name, Known { state, why }))
    };
    rows.filter_map(row).collect()
}
