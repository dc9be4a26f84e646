//! A hostile producer writes anything anywhere between the operations of a
//! queue's consumer: no panic, no entry that was not there, no loop without end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vfun_fuzz::Bytes;
use vfun_fuzz::queue::{consumer_op, consumer_ops::ConsumerModel, shape};

fn run<const N: usize>(depth: u32, b: &mut Bytes) {
    let mut model = ConsumerModel::<N>::new(depth);
    while !b.is_empty() {
        model.step(consumer_op(b));
    }
}

fuzz_target!(|data: &[u8]| {
    let mut b = Bytes(data);
    match shape(&mut b) {
        (4, depth) => run::<16>(depth, &mut b),
        (5, depth) => run::<32>(depth, &mut b),
        (6, depth) => run::<64>(depth, &mut b),
        (_, depth) => run::<128>(depth, &mut b),
    }
});
