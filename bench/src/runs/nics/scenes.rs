//! What is simulated.

use super::NicsPlan;
use crate::nics::{HandOver, Kin, Scene, play};
use crate::report::published::{NICS_INTERVAL_S, NICS_RATES, NICS_VFS, PublishedLeases};
use crate::report::{NicsExperiment, NicsReport, NicsRow};
use vfun_leases::Policy;
use vfun_nics::declared::{Pool, Source};

/// The published scenarios.
const PUBLISHED: [Policy; 4] = [Policy::None, Policy::Random, Policy::Fair, Policy::Activity];
/// Tenures at the beginning that do not count.
const WARM_TENURES: u64 = 6;
/// Hand-overs of emulated NICs in guests without KVM, ms (docs/nics.md).
const OURS: HandOver = HandOver { order_ms: 5, setup_ms: 20, plug_ms: 1_100, unplug_ms: 100 };
/// The share that a VM with a reserve has, percent.
const RESERVE: u8 = 50;

/// The published hand-over. How it is split is not said.
fn published_hand_over() -> HandOver {
    let p = PublishedLeases::default();
    let ms = |ns: f64| (ns / 1e6) as u64;
    HandOver { order_ms: 5, setup_ms: 20, plug_ms: ms(p.plug_ns), unplug_ms: ms(p.unplug_ns) }
}

/// With the usual timing, and with the published interval.
fn timings(kin: &[Kin], plan: &NicsPlan) -> [(&'static str, Scene); 2] {
    let usual = Pool::new(Source::Sriov { pf: String::new() });
    let of = |interval_ms, tenure_ms, takes| Scene {
        kin: kin.to_vec(),
        vfs: NICS_VFS,
        interval_ms,
        tenure_ms,
        takes,
        card_counts: true,
        warm_ms: WARM_TENURES * tenure_ms,
        counts_ms: plan.simulated.as_millis() as u64,
    };
    let published = NICS_INTERVAL_S * 1000;
    [
        ("usual timing", of(usual.interval_ms, usual.tenure_ms, OURS)),
        ("published timing", of(published, published, published_hand_over())),
    ]
}

fn add(
    experiment: NicsExperiment,
    (case, scene): (&str, &Scene),
    policy: Policy,
    plan: &NicsPlan,
    report: &mut NicsReport,
) {
    let stays = play(scene, policy);
    report.rows.extend(NicsRow::of_scene(experiment, case, policy, scene, &stays, &plan.packets));
}

/// Four groups of 25 VMs: the published figure 7.
pub fn groups(plan: &NicsPlan, report: &mut NicsReport) {
    let kin = NICS_RATES.map(|rate| Kin::new(&format!("{:.0} k/s", rate / 1e3), 25, rate));
    for (case, scene) in timings(&kin, plan) {
        for policy in PUBLISHED {
            add(NicsExperiment::Groups, (case, &scene), policy, plan, report);
        }
    }
}

/// A hundred VMs from 5,000 to 100,000 packets a second: the figures 2, 3 and 5.
pub fn rates(plan: &NicsPlan, report: &mut NicsReport) {
    let kin: Vec<Kin> =
        (1..=20).map(|n| Kin::new(&format!("{} k/s", 5 * n), 5, 5e3 * f64::from(n))).collect();
    let [usual, _] = timings(&kin, plan);
    for policy in [Policy::Fair, Policy::Activity] {
        add(NicsExperiment::Rates, (usual.0, &usual.1), policy, plan, report);
    }
}

/// A file server beside a hundred VMs that send more packets, and less: figure 8; and with
/// a reserve, which the published system has not.
pub fn starvation(plan: &NicsPlan, report: &mut NicsReport) {
    const SERVER: f64 = 50e3;
    let lost = PublishedLeases::default().starved;
    for (case, rate) in [("others send more", 100e3), ("others send less", 20e3)] {
        let server = Kin::new("server", 1, SERVER);
        let kept = Kin {
            name: format!("server, {RESERVE} % reserved"),
            reserve_percent: RESERVE,
            ..server.clone()
        };
        for (server, policy) in
            [(&server, Policy::Fair), (&server, Policy::Activity), (&kept, Policy::Activity)]
        {
            let kin = [server.clone(), Kin::new("others", 100, rate)];
            let [(_, scene), _] = timings(&kin, plan);
            let stays = play(&scene, policy);
            let mut rows = NicsRow::of_scene(
                NicsExperiment::Starvation,
                case,
                policy,
                &scene,
                &stays,
                &plan.packets,
            );
            let share = rows[0].vf_share;
            rows[0].throughput = share.map(|s| s + (1.0 - s) * (1.0 - lost));
            report.rows.extend(rows);
        }
    }
}

/// Honest VMs and liars of one low rate, beside busy ones; on a card that counts packets,
/// and on one that does not.
pub fn liar(plan: &NicsPlan, report: &mut NicsReport) {
    let liar = Kin { claims: 100.0, ..Kin::new("liar", 25, 5e3) };
    let kin = [Kin::new("busy", 50, 50e3), Kin::new("honest", 25, 5e3), liar];
    for (case, card_counts) in
        [("the card counts packets", true), ("the card does not count packets", false)]
    {
        let [(_, scene), _] = timings(&kin, plan);
        // Two fewer, so that those of the low rate that have one can be as many of each.
        let scene = Scene { card_counts, vfs: NICS_VFS - 1, ..scene };
        add(NicsExperiment::Liar, (case, &scene), Policy::Activity, plan, report);
    }
}
