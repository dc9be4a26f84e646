//! Random operations.

use crate::common::Op;
use proptest::prelude::*;

/// Mostly what an honest pair does; now and then a word that means something else.
pub fn op() -> impl Strategy<Value = Op> {
    let bytes = prop_oneof![6 => 1u32..200, 2 => 200u32..2100, 1 => Just(0), 1 => any::<u32>()];
    let at = prop_oneof![3 => (0u32..26).prop_map(|w| w * 8), 2 => 4096u32..8192];
    let value = prop_oneof![
        3 => (0u64..200).prop_map(|n| n * 64),
        2 => (0u64..8, 0u64..2100).prop_map(|(kind, bytes)| kind << 32 | bytes),
        1 => any::<u64>(),
        1 => (0u64..9000).prop_map(|n| 0u64.wrapping_sub(n)),
    ];
    let poke = (at, value);
    let room = prop_oneof![6 => Just(4096u32), 1 => 0u32..200];
    prop_oneof![
        20 => (bytes.clone(), any::<u32>()).prop_map(|(bytes, seed)| Op::Put { bytes, seed }),
        4 => (bytes, any::<u32>()).prop_map(|(bytes, seed)| Op::PutNoted { bytes, seed }),
        10 => Just(Op::Publish),
        4 => Just(Op::MustRing),
        8 => room.clone().prop_map(|room| Op::Get { room }),
        16 => room.prop_map(|room| Op::GetNoted { room }),
        8 => Just(Op::Take),
        4 => Just(Op::Sleep),
        1 => poke.clone().prop_map(|(at, value)| Op::PokeSender { at, value }),
        1 => poke.prop_map(|(at, value)| Op::PokeReceiver { at, value }),
        1 => Just(Op::TakeUpSender),
        1 => Just(Op::TakeUpReceiver),
    ]
}
