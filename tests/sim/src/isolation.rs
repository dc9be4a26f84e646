//! Whether what one client does shows in what another one is told: the same
//! clients with the same chances, with and without hostile ones beside them.

use crate::plan::{Chance, Plan};
use crate::runner::{Failure, catch};
use crate::world::World;

/// What runs with and without hostile guests had in common.
#[derive(Clone, Copy, Debug)]
pub struct Same {
    /// Answers and results that were compared.
    pub told: usize,
}

/// Runs both and compares what well-behaved apps were told, and when.
pub fn compare(seed: u64, rounds: u32, loud: bool) -> Result<Same, Box<Failure>> {
    let chances = [Chance::ManagerDies, Chance::ServicesDie, Chance::ServicesLie, Chance::Hostile];
    let chances = chances.iter().map(|c| *c as u32).sum();
    let plan = Plan { seed, steps: rounds.into(), chances, kill_at: None };
    catch(plan, loud, || {
        let with = World::new(plan).in_turn(rounds);
        let without = World::new(plan.without(Chance::Hostile)).in_turn(rounds);
        for (guest, told) in &without {
            let other = &with[guest];
            for (i, line) in told.iter().enumerate() {
                assert_eq!(
                    other.get(i),
                    Some(line),
                    "guest {guest} is told something else beside hostile ones, at its answer {i}"
                );
            }
            assert_eq!(other.len(), told.len(), "guest {guest} is told more beside hostile ones");
        }
        Same { told: without.values().map(Vec::len).sum() }
    })
}
