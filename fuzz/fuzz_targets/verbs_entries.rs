//! Hostile programs write anything anywhere into their queues between the looks of a software
//! NIC: no panic, no byte outside of what they registered, no look without end, and an honest
//! neighbour's entries end as they should.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vfun_fuzz::Bytes;
use vfun_fuzz::verbs::Hostile;

fuzz_target!(|data: &[u8]| {
    let mut b = Bytes(data);
    let mut world = Hostile::new();
    while !b.is_empty() {
        world.step(&mut || u64::from(b.u16()));
    }
    world.finish();
});
