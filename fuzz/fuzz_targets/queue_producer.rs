//! A hostile consumer writes anything anywhere between the operations of a
//! queue's producer: no panic, no entry that was not there, no loop without end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vfun_fuzz::Bytes;
use vfun_fuzz::queue::{producer_op, producer_ops::ProducerModel, shape};

fn run<const N: usize>(depth: u32, b: &mut Bytes) {
    let mut model = ProducerModel::<N>::new(depth);
    while !b.is_empty() {
        model.step(producer_op(b));
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
