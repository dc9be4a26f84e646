//! Calls that find several objects at a time.

use crate::failure::Failure;
use crate::objects::{Fresh, Kind, Objects};
use std::mem::MaybeUninit;
use vfun_remoting::Name;
use vfun_remoting::limits::FOUND_MAX;

/// Asks the host for objects until all places are filled or it has no more. `ask` proposes names
/// and gives the status and the names of what was found, at most as many. Gives the first status
/// and how many were found.
pub fn found<S: PartialEq + Copy>(
    objects: &Objects,
    kind: Kind,
    link: u32,
    places: &mut [MaybeUninit<u64>],
    ok: S,
    mut ask: impl FnMut(&[Fresh<'_>]) -> Result<(S, Vec<Name>), Failure>,
) -> Result<(S, u64), Failure> {
    let mut done = 0;
    loop {
        let wanted = (places.len() - done).min(FOUND_MAX);
        let fresh: Vec<_> =
            (0..wanted).map(|_| objects.make(kind, link, None)).collect::<Result<_, _>>()?;
        let (status, names) = ask(&fresh)?;
        if status != ok && done == 0 {
            return Ok((status, 0));
        }
        let count = names.len();
        for (proposed, name) in fresh.into_iter().zip(names) {
            let object = objects.found(proposed, name, kind)?;
            places[done].write(object.name().value());
            done += 1;
        }
        if count < wanted || done == places.len() {
            return Ok((ok, done as u64));
        }
    }
}
