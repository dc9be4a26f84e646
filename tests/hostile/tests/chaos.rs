//! Every call ends once while what serves it is killed. `make chaos` runs the
//! long one.

use vfun_tests_hostile::chaos::{Plan, run};
use vfun_tests_local::built::long;

fn holds(plan: Plan) {
    let outcome = run(&plan);
    print!("{outcome}");
    let wrong = outcome.wrong(&plan);
    assert!(wrong.is_empty(), "{plan:?}: {wrong:#?}");
}

#[test]
fn every_call_ends_once_and_the_neighbour_sees_nothing() {
    holds(Plan {
        calls: long(30_000, 100_000),
        managers: long(2, 4),
        services: long(6, 14),
        both: false,
        seed: 1,
    });
}

#[test]
fn both_clients_may_be_stricken() {
    holds(Plan {
        calls: long(20_000, 40_000),
        managers: 2,
        services: long(6, 12),
        both: true,
        seed: 2,
    });
}
