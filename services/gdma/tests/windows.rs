//! The engine itself refuses what is not registered.

use crate::fabric::*;
use gdma::engine::{BusError, global};
use gdma::registers::*;

#[test]
fn a_byte_beside_a_window_is_out_of_reach_on_each_side() {
    let fabric = Fabric::new(MEMORY);
    let before = fabric.all();
    let mut engine = fabric.engine(1);
    engine.open_window(0, global(1, 4096), 8192).expect("a free entry");
    engine.open_window(127, global(2, 100), 50).expect("the last entry");
    for (from, to, bytes) in [
        ((1, 4095), (2, 100), 1),
        ((1, 4096), (2, 99), 1),
        ((1, 4096), (2, 100), 51),
        ((1, 12_288), (2, 100), 1),
        ((1, 12_287), (2, 100), 2),
        ((1, 4096), (2, 150), 1),
        ((2, 100), (1, 4095), 50),
        ((1, 4096), (3, 100), 1),
        ((1, (1 << 40) - 1), (2, 100), 2),
        ((1, 4096), (2, 100), u32::MAX),
    ] {
        let done = run(&mut engine, &descriptor(from, to, bytes, 1));
        assert_eq!((done.status, done.moved), (DONE_WINDOW, 0), "{from:?} {to:?} {bytes}");
    }
    assert!(fabric.all() == before, "nothing was moved");
    let done = run(&mut engine, &descriptor((1, 12_238), (2, 100), 50, 1));
    assert_eq!((done.status, done.moved), (DONE_OKAY, 50), "to the last byte of both");
    assert!(fabric.read(2, 100, 50) == fabric.read(1, 12_238, 50));
}

#[test]
fn two_windows_side_by_side_are_not_one() {
    let fabric = Fabric::new(MEMORY);
    let mut engine = fabric.open_engine(1);
    engine.close_window(1).expect("an entry");
    engine.open_window(1, global(2, 0), 4096).expect("a free entry");
    engine.open_window(5, global(2, 4096), 4096).expect("a free entry");
    let end = run(&mut engine, &descriptor((1, 0), (2, 4000), 200, 1)).status;
    assert_eq!(end, DONE_WINDOW);
}

#[test]
fn a_window_that_was_closed_is_closed() {
    let fabric = Fabric::new(MEMORY);
    let mut engine = fabric.open_engine(1);
    let d = descriptor((1, 0), (2, 0), 64, 1);
    assert_eq!(run(&mut engine, &d).status, DONE_OKAY);
    engine.close_window(1).expect("an entry");
    assert_eq!(run(&mut engine, &d).status, DONE_WINDOW);
    engine.open_window(1, global(2, 0), 64).expect("a free entry");
    assert_eq!(run(&mut engine, &d).status, DONE_OKAY);
}

#[test]
fn an_open_window_does_not_change_under_a_transfer() {
    let fabric = Fabric::new(MEMORY);
    let mut engine = fabric.open_engine(1);
    for word in 0..3 {
        assert_eq!(engine.write(WINDOWS + 16 + 4 * word, 0), Err(BusError::Refused));
    }
    assert_eq!(engine.write(WINDOWS + 16 + 12, 3), Err(BusError::Refused), "one bit says valid");
    let entry: Vec<_> = (0..4).map(|word| engine.read(WINDOWS + 16 + 4 * word)).collect();
    let base = global(2, 0);
    assert_eq!(entry, [base as u32, (base >> 32) as u32, MEMORY as u32, 1].map(Ok));
}

#[test]
fn another_nodes_engine_has_windows_of_its_own() {
    let fabric = Fabric::new(MEMORY);
    let (mut first, mut second) = (fabric.open_engine(1), fabric.engine(2));
    let d = descriptor((2, 0), (1, 0), 64, 1);
    assert_eq!(run(&mut second, &d).status, DONE_WINDOW);
    assert_eq!(run(&mut first, &d).status, DONE_OKAY);
}
