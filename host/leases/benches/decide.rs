//! How long one decision takes, and what a grant costs: `cargo bench -p vfun-leases`.

use std::time::Instant;
use vfun_leases::{Engine, Policy, Sample, Settings};

fn resident() -> u64 {
    std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|s| s.split_whitespace().nth(1)?.parse::<u64>().ok())
        .map_or(0, |pages| pages * 4096)
}

fn main() {
    const GRANTS: u64 = 10_000;
    for policy in Policy::ALL {
        let before = resident();
        let settings = Settings { policy, ..Settings::default() };
        let mut e = Engine::new(0, 64, settings).expect("sensible settings");
        for id in 0..GRANTS {
            e.add(0, id, id as u32 % 100, (id % 11) as u8, 1000.0).expect("room");
        }
        let bytes = (resident() - before) / GRANTS;
        let mut times: Vec<u64> = (1..=201u64)
            .map(|step| {
                for id in 0..GRANTS {
                    let calls = (id * 2_654_435_761 + step * 40_503) % 10_000;
                    e.sample(id, Sample { calls, soft_ns: Some(2e3), hard_ns: Some(1e3) });
                }
                let begin = Instant::now();
                std::hint::black_box(e.decide(step * 1000));
                begin.elapsed().as_nanos() as u64
            })
            .collect();
        times.sort_unstable();
        println!(
            "{policy:>8}: {GRANTS} grants, 64 VFs: p50 {} us, p99 {} us; {bytes} bytes a grant",
            times[100] / 1000,
            times[199] / 1000
        );
    }
    // A client with very many grants that is kept off a VF which nobody else wants.
    let mut e = Engine::new(0, 256, Settings::default()).expect("sensible settings");
    e.keep_off(0, [(0, 255)].into());
    for id in 0..GRANTS {
        e.add(0, id, 0, 5, 1000.0).expect("room");
        e.sample(id, Sample { calls: 1000, ..Sample::default() });
    }
    let begin = Instant::now();
    std::hint::black_box(e.decide(10_000));
    println!("kept off: {GRANTS} grants, 256 VFs: {} us", begin.elapsed().as_micros());
}
