//! The clients behind the grants, and what a grant may expect of a VF by what
//! others got of it.

use std::collections::BTreeMap;

/// Which clients have grants here, each at a place of its own: a decision adds
/// up by client without looking any up.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients {
    /// Its place, and how many grants it has.
    known: BTreeMap<u32, (u32, u32)>,
    unused: Vec<u32>,
    room: u32,
}

impl Clients {
    /// One more grant of this client: the client's place.
    pub(super) fn enter(&mut self, client: u32) -> u32 {
        if let Some((place, grants)) = self.known.get_mut(&client) {
            *grants += 1;
            return *place;
        }
        let place = self.unused.pop().unwrap_or_else(|| {
            self.room += 1;
            self.room - 1
        });
        self.known.insert(client, (place, 1));
        place
    }

    /// One grant less.
    pub(super) fn leave(&mut self, client: u32) {
        let Some((place, grants)) = self.known.get_mut(&client) else { return };
        *grants -= 1;
        if *grants == 0 {
            self.unused.push(*place);
            self.known.remove(&client);
        }
    }

    /// The median over clients of their grants' mean boost. Times come from
    /// where a client can write, so each client has one voice, however many
    /// grants it has and however wild its numbers: a mean would be whatever a
    /// single one wants it to be.
    pub(super) fn median(&self, boosts: impl Iterator<Item = (u32, f64)>) -> Option<f64> {
        let mut voices = vec![(0u32, 0.0); self.room as usize];
        for (place, boost) in boosts {
            let voice = &mut voices[place as usize];
            *voice = (voice.0 + 1, voice.1 + boost.max(-1.0));
        }
        let mut means: Vec<f64> =
            voices.iter().filter(|v| v.0 > 0).map(|v| v.1 / f64::from(v.0)).collect();
        let middle = means.len().checked_sub(1)? / 2;
        let even = means.len().is_multiple_of(2);
        let (_, low, above) = means.select_nth_unstable_by(middle, f64::total_cmp);
        let low = *low;
        let high = above.iter().copied().min_by(f64::total_cmp).filter(|_| even);
        Some(high.map_or(low, |high| (low + high) / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_one_voice() {
        let mut c = Clients::default();
        let places: Vec<u32> = [7, 8, 9, 7].map(|client| c.enter(client)).to_vec();
        assert_eq!(places, [0, 1, 2, 0]);
        let said = |all: &[(u32, f64)]| c.median(all.iter().copied());
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[(1, 0.5)]), Some(0.5));
        assert_eq!(said(&[(1, 0.5), (2, 0.25)]), Some(0.375));
        assert_eq!(said(&[(0, -1e300), (0, -1.0), (1, 0.5), (2, 0.4)]), Some(0.4));
        assert_eq!(said(&[(0, 0.99), (0, 0.99), (1, 0.5), (2, 0.4)]), Some(0.5));
    }

    #[test]
    fn a_place_is_used_again() {
        let mut c = Clients::default();
        for client in 0..1000 {
            assert_eq!(c.enter(client), 0);
            assert_eq!(c.enter(client), 0);
            c.leave(client);
            c.leave(client);
        }
        c.leave(5);
        assert_eq!((c.room, c.known.len()), (1, 0));
    }
}
