//! A hostile service writes anything anywhere between the app's operations:
//! no panic, no cell lent twice, no answer beyond its room.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vfun_fuzz::{Bytes, caller_op, caller_ops::CallerModel};

fuzz_target!(|data: &[u8]| {
    let mut b = Bytes(data);
    let (depth, cell_bytes) = b.shape();
    let mut model = CallerModel::new(depth, cell_bytes);
    while !b.is_empty() {
        model.step(caller_op(&mut b));
    }
});
