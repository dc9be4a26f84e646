//! Any events in any order into the manager's state machine, and managers that
//! take over from its notes at any point: no panic, all that `Core::check` looks at is
//! so, no request answered twice, and nothing left when all have gone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vfun_fuzz::Bytes;
use vfun_fuzz::core::Bed;

fuzz_target!(|data: &[u8]| {
    let mut b = Bytes(data);
    let mut bed = Bed::new();
    while !b.is_empty() {
        bed.step(&mut b);
    }
    bed.end();
});
