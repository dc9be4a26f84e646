//! A hostile app writes anything anywhere between the service's operations:
//! no panic, no request beyond its limits, no answer twice, broken stays broken.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vfun_fuzz::{Bytes, server_op, server_ops::ServerModel};

fuzz_target!(|data: &[u8]| {
    let mut b = Bytes(data);
    let (depth, cell_bytes) = b.shape();
    let mut model = ServerModel::new(depth, cell_bytes);
    while !b.is_empty() {
        model.step(server_op(&mut b));
    }
});
