//! The core in a world where everything goes wrong, many seeds. What must never be is
//! asserted in `world/hands.rs`: a VF in two VMs, one that is plugged in dirty, a VM with
//! two VFs, an op without its note, two ops of one VF at once.
//!
//! Broken by hand, it was found by the first 60 seeds that: what a hypervisor said before
//! the last op was answered counts; a plug that failed is taken for not plugged in; a noted
//! owner is not asked; notes are written after ops; a VM that has a VF gets another; a VF's
//! next op begins before the last one is answered; a VM that ended is not asked again.
//! These were not found here, but by `behaviour.rs`: a quarantined VF is not asked for
//! again; another agent gets no order; a VF that is seen in another VM is given on.

#[allow(dead_code, reason = "the tests of single behaviours use the rest")]
mod world;

use world::{Faults, World};

/// One seed: trouble, then none; then everybody who may have a VF gets one.
fn one(seed: u64) {
    let (vms, vfs) = [(3, 1), (6, 2), (8, 4), (3, 4)][(seed % 4) as usize];
    let mut w = World::new(seed, vms, vfs, World::pool());
    w.faults = Faults::many();
    if seed.is_multiple_of(5) {
        // No process dies: longer runs between two starts.
        w.faults.crash = 0;
    }
    w.run(400_000, 100);
    w.heal();
    // Longer than the longest back-off.
    w.run(2 * 3_600_000, 2_000);
    w.run(60_000, 100);
    let holders = w.holders();
    let states: Vec<String> = (0..vfs).map(|n| w.state(n)).collect();
    let why: Vec<String> = (0..vms).map(|n| w.why(n)).collect();
    // A VF may be on its way at this moment, not more than one for each.
    let moving = states.iter().filter(|s| !["held", "free"].contains(&s.as_str())).count();
    assert!(
        holders.len() + moving >= vms.min(vfs) && moving <= 1,
        "seed {seed}: {holders:?}; {states:?}; {why:#?}"
    );
    assert!(w.disk.vfs.len() <= vfs && w.disk.migrating.is_empty(), "seed {seed}: {:?}", w.disk);
}

fn seeds(from: u64, n: u64) {
    for seed in from..from + n {
        let result = std::panic::catch_unwind(|| one(seed));
        if let Err(why) = result {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(why);
        }
    }
}

#[test]
fn whatever_goes_wrong_no_vf_has_two_owners_and_all_ends_well() {
    let n = std::env::var("NICS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    seeds(1, n);
}
