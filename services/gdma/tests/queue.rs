//! Descriptors and completions: several at once, in order, and no more than fit.

use crate::fabric::*;
use gdma::engine::{BusError, Engine, FAULT_MOVES};
use gdma::limits::DESCRIPTORS;
use gdma::registers::*;

fn word(engine: &mut Engine, register: u32) -> u32 {
    engine.read(register).expect("an answer")
}

#[test]
fn a_full_queue_refuses_and_keeps_what_it_has() {
    let fabric = Fabric::new(MEMORY);
    let mut engine = fabric.open_engine(1);
    // None ends before all are there: each takes hundreds of cycles.
    for tag in 1..=DESCRIPTORS {
        assert_eq!(word(&mut engine, ROOM), DESCRIPTORS - (tag - 1));
        engine.start(&descriptor((1, 0), (2, 64), MEMORY as u32 - 64, tag)).expect("room");
    }
    assert_eq!(word(&mut engine, ROOM), 0);
    let one = descriptor((1, 0), (3, 0), 1, 99);
    assert_eq!(engine.start(&one), Err(BusError::Refused));
    settle(&mut engine);
    assert_eq!(
        engine.start(&one),
        Err(BusError::Refused),
        "a place is free when its completion was taken"
    );
    for tag in 1..=DESCRIPTORS {
        let done = engine.take().expect("an answer").expect("a completion");
        assert_eq!((done.tag, done.status), (tag, DONE_OKAY));
        assert_eq!(word(&mut engine, ROOM), tag);
    }
    assert_eq!(engine.take(), Ok(None));
    assert_eq!(engine.write(CONTROL, CONTROL_TAKE), Err(BusError::Refused), "there is none");
    assert_eq!(fabric.read(3, 0, 1), [pattern(3, 0)], "what was refused was not done");
}

#[test]
fn the_interrupt_is_high_while_a_completion_waits_and_is_wanted() {
    let fabric = Fabric::new(MEMORY);
    let mut engine = fabric.open_engine(1);
    for tag in 1..=2 {
        engine.start(&descriptor((1, 0), (2, 0), 64, tag)).expect("room");
    }
    settle(&mut engine);
    assert_eq!(word(&mut engine, STATUS), STATUS_DONE);
    assert_eq!(word(&mut engine, IRQ), 0);
    assert_eq!(engine.run(10), 10, "not wanted");
    engine.write(IRQ_ENABLE, 1).expect("written");
    assert_eq!(word(&mut engine, IRQ), 1);
    assert_eq!(engine.run(10), 0);
    engine.write(CONTROL, CONTROL_TAKE).expect("written");
    assert_eq!(engine.run(10), 0, "another one waits");
    engine.write(CONTROL, CONTROL_TAKE).expect("written");
    assert_eq!(engine.run(10), 10);
}

#[test]
fn what_is_being_moved_can_be_watched() {
    let fabric = Fabric::new(MEMORY);
    let mut engine = fabric.open_engine(1);
    engine.start(&descriptor((1, 0), (2, 0), MEMORY as u32, 77)).expect("room");
    engine.run(100);
    assert_eq!(word(&mut engine, STATUS), STATUS_BUSY);
    assert_eq!(word(&mut engine, ACTIVE_TAG), 77);
    let (moved, cycles) = (word(&mut engine, MOVED), word(&mut engine, CYCLES));
    assert!((1000..MEMORY as u32).contains(&moved), "{moved}");
    assert!((90..200).contains(&cycles), "{cycles}");
    settle(&mut engine);
    assert_eq!([ACTIVE_TAG, MOVED, CYCLES].map(|r| word(&mut engine, r)), [0; 3]);
    assert_eq!(word(&mut engine, DONE_MOVED), MEMORY as u32);
}

#[test]
fn an_error_is_shown_by_the_status_and_does_not_stop_the_next_one() {
    let fabric = Fabric::new(MEMORY);
    let mut engine = fabric.open_engine(1);
    engine.start(&descriptor((2, 0), (3, 0), 1, 1)).expect("room");
    engine.start(&descriptor((1, 0), (3, 0), 1, 2)).expect("room");
    settle(&mut engine);
    assert_eq!(word(&mut engine, STATUS), STATUS_DONE | STATUS_ERROR);
    assert_eq!(engine.take().expect("an answer").expect("one").status, DONE_NODE);
    assert_eq!(word(&mut engine, STATUS), STATUS_DONE);
    assert_eq!(engine.take().expect("an answer").expect("one").status, DONE_OKAY);
}

#[test]
fn a_reset_forgets_all_and_nothing_is_written_from_then_on() {
    for pauses in [0, 0x55_0005] {
        let fabric = Fabric::new(MEMORY);
        let mut engine = fabric.open_engine(1);
        engine.set_pauses(pauses);
        for tag in 1..=3 {
            engine.start(&descriptor((1, 3), (2, 5), MEMORY as u32 - 64, tag)).expect("room");
        }
        engine.run(100);
        engine.write(CONTROL, CONTROL_RESET).expect("written");
        let before = fabric.all();
        assert_eq!(word(&mut engine, STATUS), STATUS_BUSY, "bursts that were begun are finished");
        assert_eq!(engine.write(CONTROL, CONTROL_START), Err(BusError::Refused));
        settle(&mut engine);
        // What was on its way when the reset came may have arrived.
        let beside: usize = fabric
            .all()
            .iter()
            .flatten()
            .zip(before.iter().flatten())
            .filter(|(a, b)| a != b)
            .count();
        assert!(beside <= 64, "{beside} bytes were written after the reset");
        assert_eq!(word(&mut engine, STATUS), 0, "and there is no completion");
        assert_eq!(word(&mut engine, ROOM), DESCRIPTORS);
        assert_eq!(word(&mut engine, WINDOWS + 12), 0);
        let d = descriptor((1, 0), (3, 0), 9, 4);
        assert_eq!(run(&mut engine, &d).status, DONE_WINDOW);
        assert_eq!(engine.violations(), 0);
    }
}

#[test]
fn faults_do_what_they_say() {
    let fabric = Fabric::new(MEMORY);
    let mut stuck = Engine::new(1, FAULT_MOVES).expect("the simulated engine");
    stuck.set_memory(1, fabric.memories[0].clone());
    stuck.start(&descriptor((1, 0), (1, 64), 1, 1)).expect("room");
    stuck.run(10_000);
    assert_eq!(word(&mut stuck, STATUS), STATUS_BUSY);
}
