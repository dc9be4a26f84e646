//! The register map is written down twice, for the RTL and for the library.

use gdma::registers as r;
use std::collections::BTreeMap;

/// `NAME = 12'h0A0` and the like in the RTL's package.
fn rtl() -> BTreeMap<String, u32> {
    let text = include_str!("../rtl/vfun_dma_pkg.sv");
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|l| l.trim_start().starts_with("localparam")) {
        let (left, right) = line.split_once('=').expect("a constant has a value");
        let name = left.split_whitespace().last().expect("a constant has a name");
        let (_, digits) = right.split_once('\'').expect("a constant has a base");
        let radix = if digits.starts_with('h') { 16 } else { 10 };
        let digits: String =
            digits[1..].chars().take_while(|c| *c != ';').filter(|c| *c != '_').collect();
        found.insert(name.to_owned(), u32::from_str_radix(&digits, radix).expect("digits"));
    }
    found
}

#[test]
fn the_map_is_the_rtls() {
    let ours = [
        ("ID_VALUE", r::ID_VALUE),
        ("VERSION_VALUE", r::VERSION_VALUE),
        ("ID", r::ID),
        ("VERSION", r::VERSION),
        ("NODE", r::NODE),
        ("CAPACITY", r::CAPACITY),
        ("CONTROL", r::CONTROL),
        ("STATUS", r::STATUS),
        ("IRQ_ENABLE", r::IRQ_ENABLE),
        ("IRQ", r::IRQ),
        ("SOURCE", r::SOURCE),
        ("DESTINATION", r::DESTINATION),
        ("LENGTH", r::LENGTH),
        ("TAG", r::TAG),
        ("ROOM", r::ROOM),
        ("DONE_TAG", r::DONE_TAG),
        ("DONE_STATUS", r::DONE_STATUS),
        ("DONE_MOVED", r::DONE_MOVED),
        ("DONE_CYCLES", r::DONE_CYCLES),
        ("ACTIVE_TAG", r::ACTIVE_TAG),
        ("MOVED", r::MOVED),
        ("CYCLES", r::CYCLES),
        ("WINDOWS", r::WINDOWS),
        ("CONTROL_START", r::CONTROL_START),
        ("CONTROL_RESET", r::CONTROL_RESET),
        ("CONTROL_TAKE", r::CONTROL_TAKE),
        ("STATUS_BUSY", r::STATUS_BUSY),
        ("STATUS_DONE", r::STATUS_DONE),
        ("STATUS_ERROR", r::STATUS_ERROR),
        ("DONE_OKAY", r::DONE_OKAY),
        ("DONE_NODE", r::DONE_NODE),
        ("DONE_WINDOW", r::DONE_WINDOW),
        ("DONE_OVERLAP", r::DONE_OVERLAP),
        ("DONE_READ", r::DONE_READ),
        ("DONE_WRITE", r::DONE_WRITE),
        ("NODE_SHIFT", r::NODE_SHIFT),
    ];
    let ours = ours.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(rtl(), BTreeMap::from(ours));
}
