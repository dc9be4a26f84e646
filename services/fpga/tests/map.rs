//! The register map is written down twice, for the RTL and for the driver.

use std::collections::BTreeMap;
use vfun_fpga::{Function, registers as r};

/// `NAME = 12'h0A0` and the like in the RTL's package.
fn rtl() -> BTreeMap<String, u32> {
    let text = include_str!("../rtl/vfun_fpga_pkg.sv");
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|l| l.trim_start().starts_with("localparam")) {
        let (left, right) = line.split_once('=').expect("a constant has a value");
        let name = left.split_whitespace().last().expect("a constant has a name");
        let (_, digits) = right.split_once('\'').expect("a constant has a base");
        let radix = match &digits[..1] {
            "h" => 16,
            "d" => 10,
            "b" => 2,
            other => panic!("base {other} in {line}"),
        };
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
        ("VF", r::VF),
        ("FUNCTIONS", r::FUNCTIONS),
        ("CONTROL", r::CONTROL),
        ("STATUS", r::STATUS),
        ("FUNCTION", r::FUNCTION),
        ("IRQ_ENABLE", r::IRQ_ENABLE),
        ("IRQ", r::IRQ),
        ("ROOM", r::ROOM),
        ("CYCLES", r::CYCLES),
        ("ARGUMENT", r::ARGUMENT),
        ("RESULT", r::RESULT),
        ("DIGEST", r::DIGEST),
        ("STREAM", r::STREAM),
        ("CONTROL_START", r::CONTROL_START),
        ("CONTROL_RESET", r::CONTROL_RESET),
        ("FACTORIAL", Function::Factorial as u32),
        ("FIBONACCI", Function::Fibonacci as u32),
        ("SHA256", Function::Sha256 as u32),
        ("OKAY", vfun_fpga::sim::pins::OKAY.into()),
        ("SLVERR", vfun_fpga::sim::pins::SLVERR.into()),
    ];
    let ours = ours.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(rtl(), BTreeMap::from(ours));
}
