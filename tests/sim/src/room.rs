//! Whether services are left alone while the host has no room for descriptors on their
//! way: they are not told of channels, and not of what comes after these.

use crate::plan::Plan;
use crate::runner::{Failure, catch};
use crate::world::World;

/// Runs a world without room for so many rounds of 20 ms. Services that were not told
/// something, and those that the manager ended as not running.
pub fn none(seed: u64, rounds: u32, loud: bool) -> Result<(usize, u64), Box<Failure>> {
    let plan = Plan { seed, steps: rounds.into(), chances: 0, kill_at: None };
    catch(plan, loud, || World::new(plan).without_room(rounds))
}
