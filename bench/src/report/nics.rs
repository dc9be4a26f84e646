//! Network VFs: who holds one, what that gains, and what deciding costs.

use super::published::PublishedLeases;
use super::{Machine, NicsExperiment, Origin, Settings, stats};
use crate::nics::{PacketTimes, Scene, Stay};
use serde::{Deserialize, Serialize};
use vfun_leases::Policy;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NicsReport {
    /// Where it was measured.
    pub machine: Machine,
    pub settings: Settings,
    /// What was published.
    pub published: PublishedLeases,
    /// The rows, experiment by experiment.
    pub rows: Vec<NicsRow>,
}

/// One figure's worth; what an experiment does not have is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NicsRow {
    pub experiment: NicsExperiment,
    /// Whether a clock or a counter of this machine says it, or the simulation.
    pub source: Origin,
    /// What it took part in: the timing, or the case of the experiment.
    pub case: String,
    /// The policy, by name.
    pub policy: Option<String>,
    /// The group of VMs, or what was timed.
    pub group: Option<String>,
    /// VMs of all groups together.
    pub vms: u32,
    /// VMs of the group.
    pub members: Option<u32>,
    pub vfs: u16,
    /// Between two decisions, seconds.
    pub interval_s: Option<f64>,
    /// A VM keeps a VF for at least so long, seconds.
    pub tenure_s: Option<f64>,
    /// Packets a second of each VM.
    pub per_s: Option<f64>,
    /// The part of the time that the group's VMs used a VF, at their mean.
    pub vf_share: Option<f64>,
    /// The same of the VM that had least.
    pub vf_share_least: Option<f64>,
    /// The longest time that a VM of the group was without one, seconds.
    pub without_s: Option<f64>,
    /// How often a VM of the group got a VF.
    pub moves: Option<u64>,
    /// The shortest time from getting a VF until it was taken away, seconds.
    pub least_s: Option<f64>,
    /// The part by which a VF shortens a packet's time at this rate: a parameter.
    pub boost: Option<f64>,
    /// A packet's time, VM by VM: 5 % of the VMs have a mean of at most this, ns.
    pub p5_ns: Option<f64>,
    /// 25 % of the VMs, ns.
    pub p25_ns: Option<f64>,
    /// 50 % of the VMs; of what was timed, 50 % of the times, ns.
    pub p50_ns: Option<f64>,
    /// 75 % of the VMs, ns.
    pub p75_ns: Option<f64>,
    /// 95 % of the VMs, ns.
    pub p95_ns: Option<f64>,
    /// Of what was timed, 99 % took at most this, ns.
    pub p99_ns: Option<f64>,
    /// Of what was timed, the longest, ns.
    pub max_ns: Option<f64>,
    /// A packet's time without any VF, over its mean time here.
    pub faster: Option<f64>,
    /// Of the time that so many VFs could save at most, the part that this group's VMs save.
    pub saved: Option<f64>,
    /// Throughput, as a part of that with a VF at all times.
    pub throughput: Option<f64>,
    /// How often it was timed.
    pub times: Option<u64>,
    /// Processor time, as a part of one processor.
    pub cpu_share: Option<f64>,
    /// Memory that one more VM takes, bytes.
    pub vm_bytes: Option<f64>,
}

impl NicsRow {
    /// A row without figures.
    pub fn new(
        experiment: NicsExperiment,
        source: Origin,
        case: &str,
        (vms, vfs): (u32, u16),
    ) -> Self {
        NicsRow {
            experiment,
            source,
            case: case.to_owned(),
            policy: None,
            group: None,
            vms,
            members: None,
            vfs,
            interval_s: None,
            tenure_s: None,
            per_s: None,
            vf_share: None,
            vf_share_least: None,
            without_s: None,
            moves: None,
            least_s: None,
            boost: None,
            p5_ns: None,
            p25_ns: None,
            p50_ns: None,
            p75_ns: None,
            p95_ns: None,
            p99_ns: None,
            max_ns: None,
            faster: None,
            saved: None,
            throughput: None,
            times: None,
            cpu_share: None,
            vm_bytes: None,
        }
    }

    /// With what something took, each time; the times are sorted.
    #[must_use]
    pub fn with_times(mut self, times: &mut [u64]) -> Self {
        times.sort_unstable();
        let at = |thousandths| stats::percentile(times, thousandths).map(|ns| ns as f64);
        self.times = Some(times.len() as u64);
        (self.p50_ns, self.p99_ns, self.max_ns) = (at(500), at(990), at(1000));
        self
    }

    /// A row for each kin of a scene.
    pub fn of_scene(
        experiment: NicsExperiment,
        case: &str,
        policy: Policy,
        scene: &Scene,
        stays: &[Stay],
        packets: &PacketTimes,
    ) -> Vec<Self> {
        let possible = possible_ns(scene, packets);
        let rows = scene.kin.iter().enumerate().map(|(i, kin)| {
            let of: Vec<&Stay> = stays.iter().filter(|s| s.kin == i).collect();
            let shares: Vec<f64> = of.iter().map(|s| s.vf_share).collect();
            let share = stats::mean(&shares);
            let mean = |share: f64| packets.mean_ns(kin.per_s, share);
            let mut each: Vec<u64> = shares.iter().map(|s| mean(*s).round() as u64).collect();
            each.sort_unstable();
            let at = |thousandths| stats::percentile(&each, thousandths).map(|ns| ns as f64);
            let saved: f64 = shares.iter().map(|s| packets.saved_ns(kin.per_s, *s)).sum();
            let s = |ms: u64| ms as f64 / 1000.0;
            NicsRow {
                policy: Some(policy.name().to_owned()),
                group: Some(kin.name.clone()),
                members: Some(kin.vms),
                interval_s: Some(s(scene.interval_ms)),
                tenure_s: Some(s(scene.tenure_ms)),
                per_s: Some(kin.per_s),
                vf_share: share,
                vf_share_least: stats::range(&shares).map(|(least, _)| least),
                without_s: of.iter().map(|x| s(x.without_ms)).reduce(f64::max),
                moves: Some(of.iter().map(|x| x.got).sum()),
                least_s: of.iter().filter_map(|x| x.least_ms).min().map(s),
                boost: Some(packets.boost(kin.per_s)),
                p5_ns: at(50),
                p25_ns: at(250),
                p50_ns: at(500),
                p75_ns: at(750),
                p95_ns: at(950),
                faster: share.map(|share| packets.without_ns(kin.per_s) / mean(share)),
                saved: (possible > 0.0).then_some(saved / possible),
                ..NicsRow::new(experiment, Origin::Simulated, case, (scene.vms(), scene.vfs))
            }
        });
        rows.collect()
    }
}

/// What the VFs save in a second if those VMs have them that gain most, ns.
fn possible_ns(scene: &Scene, packets: &PacketTimes) -> f64 {
    let mut each: Vec<f64> =
        scene.members().iter().map(|k| packets.saved_ns(scene.kin[*k].per_s, 1.0)).collect();
    each.sort_by(|a, b| b.total_cmp(a));
    each.iter().take(scene.vfs.into()).sum()
}

impl NicsReport {
    /// A report without rows.
    pub fn new(machine: Machine, settings: Settings) -> Self {
        NicsReport { machine, settings, published: PublishedLeases::default(), rows: Vec::new() }
    }

    /// The rows of an experiment.
    pub fn of(&self, experiment: NicsExperiment) -> impl Iterator<Item = &NicsRow> {
        self.rows.iter().filter(move |r| r.experiment == experiment)
    }

    /// The cases of an experiment, in order.
    pub fn cases(&self, experiment: NicsExperiment) -> Vec<&str> {
        let mut cases: Vec<&str> = Vec::new();
        for r in self.of(experiment) {
            if !cases.contains(&r.case.as_str()) {
                cases.push(&r.case);
            }
        }
        cases
    }

    /// Of what so many VFs could save, the part that all VMs save, by policy.
    pub fn saved(&self, experiment: NicsExperiment, case: &str) -> Vec<(&str, f64)> {
        let mut sums: Vec<(&str, f64)> = Vec::new();
        for r in self.of(experiment).filter(|r| r.case == case) {
            let Some((policy, saved)) = r.policy.as_deref().zip(r.saved) else { continue };
            match sums.iter_mut().find(|(p, _)| *p == policy) {
                Some((_, sum)) => *sum += saved,
                None => sums.push((policy, saved)),
            }
        }
        sums
    }
}
