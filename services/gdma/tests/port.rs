//! The engine's registers, one by one. The port's own rules are tested where it
//! comes from, in services/fpga.

use crate::fabric::*;
use gdma::engine::{BusError, Engine, FAULT_PORT};
use gdma::limits::{BUFFERS, DESCRIPTORS, NODES};
use gdma::registers::*;

#[test]
fn every_engine_says_what_it_is() {
    for node in 1..=NODES {
        let mut engine = Engine::new(node, 0).expect("the simulated engine");
        assert_eq!(engine.read(ID), Ok(ID_VALUE));
        assert_eq!(engine.read(VERSION), Ok(VERSION_VALUE));
        assert_eq!(engine.read(NODE), Ok(NODES << 16 | node));
        assert_eq!(engine.read(CAPACITY), Ok(BUFFERS << 16 | DESCRIPTORS));
    }
}

#[test]
fn addresses_without_a_register_are_refused() {
    let mut engine = Fabric::new(MEMORY).open_engine(1);
    let both = [SOURCE, SOURCE + 4, DESTINATION, DESTINATION + 4, LENGTH, TAG, IRQ_ENABLE];
    let read_only =
        [ID, VERSION, NODE, CAPACITY, STATUS, IRQ, ROOM, DONE_TAG, DONE_STATUS, DONE_MOVED];
    let read_only: Vec<u32> =
        read_only.into_iter().chain([DONE_CYCLES, ACTIVE_TAG, MOVED, CYCLES]).collect();
    for register in 0..4096 {
        let window = register >= WINDOWS && register % 4 == 0;
        let readable = both.contains(&register) || read_only.contains(&register) || window;
        assert_eq!(engine.read(register).is_ok(), readable, "read {register:#x}");
        // The first windows are open: only whether they are can be written.
        let open = register < WINDOWS + 16 * NODES && register % 16 != 12;
        let writable = both.contains(&register) || (window && !open);
        assert_eq!(engine.write(register, 0).is_ok(), writable, "write {register:#x}");
    }
}

#[test]
fn wrong_values_are_refused_and_right_ones_are_kept() {
    let mut engine = Fabric::new(MEMORY).engine(1);
    for (register, value) in
        [(CONTROL, 0), (CONTROL, 3), (CONTROL, 8), (IRQ_ENABLE, 2), (WINDOWS + 12, 2)]
    {
        assert_eq!(engine.write(register, value), Err(BusError::Refused), "{register:#x} {value}");
    }
    let all = [SOURCE, SOURCE + 4, DESTINATION, DESTINATION + 4, LENGTH, TAG];
    let all = all.into_iter().chain((WINDOWS..WINDOWS + 2048).step_by(4).filter(|r| r % 16 != 12));
    let all: Vec<u32> = all.collect();
    for register in &all {
        engine.write(*register, register.wrapping_mul(0x1234_5679)).expect("a register");
    }
    for register in &all {
        assert_eq!(engine.read(*register), Ok(register.wrapping_mul(0x1234_5679)), "{register:#x}");
    }
    engine.write(CONTROL, CONTROL_RESET).expect("written");
    assert!(all.iter().all(|register| engine.read(*register) == Ok(0)), "a reset clears them");
}

#[test]
fn a_port_that_does_not_answer_is_noticed() {
    let mut engine = Engine::new(1, FAULT_PORT).expect("the simulated engine");
    assert_eq!(engine.read(ID), Err(BusError::Silent));
    assert_eq!(engine.write(TAG, 1), Err(BusError::Silent));
}
