//! VMs in groups, and what each gets of the VFs.

use super::Host;
use vfun_leases::Policy;
use vfun_nics::declared::{Pool, Source};

/// VMs that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Kin {
    /// Its name in reports.
    pub name: String,
    /// How many VMs it has.
    pub vms: u32,
    /// Packets a second of each, both directions.
    pub per_s: f64,
    /// The VM claims so many times what it sends; 1 is honest.
    pub claims: f64,
    /// Percent of the time that each holds a VF at least.
    pub reserve_percent: u8,
}

impl Kin {
    /// Honest VMs that have no reserve.
    pub fn new(name: &str, vms: u32, per_s: f64) -> Self {
        Kin { name: name.to_owned(), vms, per_s, claims: 1.0, reserve_percent: 0 }
    }
}

/// What a hand-over takes, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandOver {
    /// From an order until the agent has moved its bond.
    pub order_ms: u64,
    /// To set the VF up on the host, and to reset it.
    pub setup_ms: u64,
    /// From the plug until the VF has carrier in the VM.
    pub plug_ms: u64,
    /// From the request until the VF is out of the VM.
    pub unplug_ms: u64,
}

/// An experiment in simulated time.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    pub kin: Vec<Kin>,
    pub vfs: u16,
    /// Between two decisions, ms.
    pub interval_ms: u64,
    /// A VM keeps a VF for at least so long, ms.
    pub tenure_ms: u64,
    pub takes: HandOver,
    /// Whether the card counts the packets of its VFs.
    pub card_counts: bool,
    /// Time at the beginning that does not count, ms.
    pub warm_ms: u64,
    /// Time after that, which counts, ms.
    pub counts_ms: u64,
}

/// What one VM got in the time that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stay {
    /// Index of its kin.
    pub kin: usize,
    /// The part of the time that its packets went through a VF.
    pub vf_share: f64,
    /// The longest time without one, ms.
    pub without_ms: u64,
    /// How often it got a VF.
    pub got: u64,
    /// The shortest time that it had a VF until the VF was taken away, ms.
    pub least_ms: Option<u64>,
}

impl Scene {
    /// VMs of all kin.
    pub fn vms(&self) -> u32 {
        self.kin.iter().map(|k| k.vms).sum()
    }

    /// The kin of each VM. Kin take turns, so that the first to come are not all of one.
    pub fn members(&self) -> Vec<usize> {
        let most = self.kin.iter().map(|k| k.vms).max().unwrap_or(0);
        let of_turn =
            |turn| self.kin.iter().enumerate().filter(move |(_, k)| turn < k.vms).map(|(i, _)| i);
        (0..most).flat_map(of_turn).collect()
    }

    /// The pool of this experiment.
    pub fn pool(&self, policy: Policy) -> Pool {
        Pool {
            policy,
            interval_ms: self.interval_ms,
            tenure_ms: self.tenure_ms,
            ..Pool::new(Source::Sriov { pf: super::host::POOL.into() })
        }
    }
}

/// What each VM gets under a policy.
pub fn play(scene: &Scene, policy: Policy) -> Vec<Stay> {
    let mut host = Host::new(scene.pool(policy), scene.vfs, scene.takes, scene.card_counts);
    for kin in scene.members() {
        host.add(kin, &scene.kin[kin]);
    }
    host.run(scene.warm_ms);
    host.begin_to_count();
    host.run(scene.warm_ms + scene.counts_ms);
    host.stays(scene.counts_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> Scene {
        Scene {
            kin: [20e3, 40e3, 80e3, 100e3].map(|r| Kin::new("k", 5, r)).to_vec(),
            vfs: 12,
            interval_ms: 10_000,
            tenure_ms: 30_000,
            takes: HandOver { order_ms: 5, setup_ms: 20, plug_ms: 1_100, unplug_ms: 100 },
            card_counts: true,
            warm_ms: 120_000,
            counts_ms: 1_200_000,
        }
    }

    fn shares(scene: &Scene, policy: Policy) -> Vec<f64> {
        let stays = play(scene, policy);
        let of = |kin| -> Vec<f64> {
            stays.iter().filter(|s| s.kin == kin).map(|s| s.vf_share).collect()
        };
        (0..scene.kin.len()).map(|k| of(k).iter().sum::<f64>() / of(k).len() as f64).collect()
    }

    #[test]
    fn the_busiest_hold_the_vfs_under_activity_and_all_the_same_under_fair() {
        let scene = scene();
        let got = shares(&scene, Policy::Activity);
        assert!(got[3] > 0.99 && got[2] > 0.99 && got[0] < 0.01, "{got:?}");
        assert!((got[1] - 0.4).abs() < 0.05, "two of five: {got:?}");
        for share in shares(&scene, Policy::Fair) {
            // Twelve for twenty, less the time of hand-overs.
            assert!((0.5..0.61).contains(&share), "{share}");
        }
        assert_eq!(shares(&scene, Policy::None), [0.0; 4]);
    }

    #[test]
    fn no_vf_is_held_by_more_than_one_and_none_moves_within_a_tenure() {
        let scene = scene();
        for policy in Policy::ALL {
            let stays = play(&scene, policy);
            let sum: f64 = stays.iter().map(|s| s.vf_share).sum();
            assert!(sum <= f64::from(scene.vfs) + 1e-9, "{policy}: {sum}");
            let least = stays.iter().filter_map(|s| s.least_ms).min();
            // Lots are drawn at fixed times: the hand-over comes off the time that follows.
            let off = if policy == Policy::Random { 2_000 } else { 0 };
            assert!(least.is_none_or(|ms| ms + off >= scene.tenure_ms), "{policy}: {least:?}");
            assert!(stays.iter().all(|s| s.without_ms <= scene.counts_ms));
        }
    }

    #[test]
    fn a_reserve_is_kept() {
        let quiet = Kin { reserve_percent: 40, ..Kin::new("quiet", 1, 10.0) };
        let scene = Scene { kin: vec![Kin::new("busy", 10, 1e5), quiet], vfs: 4, ..scene() };
        let got = shares(&scene, Policy::Activity);
        assert!(got[1] >= 0.4, "{got:?}");
    }
}
