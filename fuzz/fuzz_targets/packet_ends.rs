//! A peer writes anything anywhere between the operations of both ends of a ring of
//! packets: no panic, no access outside of the ring, and no more frames at once than it
//! has records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vfun_fuzz::Bytes;
use vfun_fuzz::packet::{Pair, RING, op};

fuzz_target!(|data: &[u8]| {
    let mut b = Bytes(data);
    let mut pair = Pair::new();
    let mut to = [0; 4096];
    while !b.is_empty() {
        pair.step(op(&mut b));
        let most = RING / 64;
        let mut got = 0;
        while b.u8() & 1 == 1 && pair.rx.next(&mut to).is_some() {
            got += 1;
            assert!(got <= most);
        }
    }
});
