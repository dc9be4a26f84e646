//! The simulation, bounded to what fits a run of all tests.

use std::time::{Duration, Instant};
use vfun_tests_sim::{ALL, CHANCES, Plan, attempt, explain, isolation, minimise, room};

/// `VFUN_SIM_SEED` runs one seed; else these, for at most this long.
fn seeds(from: u64, most: u64) -> Vec<u64> {
    match std::env::var("VFUN_SIM_SEED") {
        Ok(seed) => vec![seed.parse().expect("VFUN_SIM_SEED is a number")],
        Err(_) => (from..from + most).collect(),
    }
}

fn run(plan: Plan) -> vfun_tests_sim::Report {
    attempt(plan, false).unwrap_or_else(|f| panic!("{}", explain(&minimise(*f))))
}

/// Anything may happen at any time.
#[test]
fn everything_fails_and_nothing_is_lost() {
    let (mut calls, mut kills) = (0, 0);
    let began = Instant::now();
    for (n, seed) in seeds(1, 220).into_iter().enumerate() {
        let report = run(Plan::new(seed, 4_000));
        calls += report.calls[0];
        kills += report.kills;
        // A machine that is busy with something else does fewer.
        if n >= 40 && began.elapsed() > Duration::from_secs(25) {
            break;
        }
    }
    assert!(calls > 0 && kills > 0, "{calls} calls, {kills} managers killed");
}

/// Each thing by itself, so that what hides behind another one shows.
#[test]
fn each_failure_by_itself() {
    for (chance, _) in CHANCES {
        for seed in seeds(1, 4) {
            run(Plan { chances: chance as u32, ..Plan::new(seed, 3_000) });
            run(Plan { chances: ALL & !(chance as u32), ..Plan::new(seed, 3_000) });
        }
    }
}

/// The manager is killed at each point of a run.
#[test]
fn the_manager_is_killed_at_every_point() {
    let seed = seeds(1, 1)[0];
    let plan = Plan { chances: 0, ..Plan::new(seed, 500) };
    let points = run(plan).points;
    assert!(points > 300, "{points} points");
    for point in 1..=points.min(600) {
        run(Plan { kill_at: Some(point), ..plan });
    }
}

/// What well-behaved clients are told does not depend on hostile ones.
#[test]
fn a_client_sees_nothing_of_another() {
    let mut told = 0;
    for seed in seeds(1, 25) {
        let same = isolation::compare(seed, 300, false);
        told += same.unwrap_or_else(|f| panic!("{}", explain(&f))).told;
    }
    assert!(told > 1_000, "{told} answers were compared");
}

/// For longer than a service may owe a sign of life there is no room for descriptors.
#[test]
fn a_service_that_cannot_be_told_of_a_channel_is_not_ended() {
    let mut untold = 0;
    for seed in seeds(1, 20) {
        let (n, stalled) =
            room::none(seed, 1_000, false).unwrap_or_else(|f| panic!("{}", explain(&f)));
        assert_eq!(stalled, 0, "seed {seed}: services are ended for what the host lacks");
        untold += n;
    }
    assert!(untold > 0, "some were not told of a channel");
}
