//! Programs that write anything into their queues. A seed that fails is in the message; the
//! fuzz target `verbs_entries` does the same with coverage.

mod common;

use common::hostile::Hostile;
use common::random;

#[test]
fn nothing_that_a_program_writes_hurts_anybody_else() {
    let seeds = std::env::var("VFUN_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    for seed in 0..seeds {
        let run = std::panic::catch_unwind(|| {
            let mut draw = random(seed);
            let mut world = Hostile::new();
            for _ in 0..300 {
                world.step(&mut || draw() >> 16 & 0xffff);
            }
            world.finish();
        });
        assert!(run.is_ok(), "seed {seed}");
    }
}
