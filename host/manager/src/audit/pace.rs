//! How often a refusal of each client is recorded, each kind apart: a flood of
//! one must not hide another.

use std::collections::BTreeMap;
use vfun_wire::NackCode;

/// Refusals of one client and kind recorded at once after a quiet time: a program that
/// is set up wrongly asks a few times, and each line may tell something else.
const BURST: i64 = 10;
/// One more after each of these, ms. With the lines that tell what was left out,
/// one who is refused in every way that there is writes fifty thousand lines a day.
const EVERY_MS: i64 = 60_000;
/// How long until it is said how many were left out, ms.
pub const SUMMARY_MS: i64 = 60_000;
/// Clients and kinds counted apart; all others share one count a kind.
const APART: usize = 4096;

#[derive(Default)]
struct One {
    /// When it would have recorded all it has, had it come evenly.
    even: i64,
    left_out: u64,
    /// When the first of these was left out.
    since: i64,
}

/// Who was refused, and how.
type About = (String, u32);

/// Who was recorded how often.
#[derive(Default)]
pub struct Pace {
    about: BTreeMap<About, One>,
    /// Rows that could not be written.
    pub lost: u64,
}

/// Whether a refusal is recorded.
#[derive(Debug, PartialEq, Eq)]
pub enum RecordDecision {
    /// With the number of those before it that were not.
    Yes { missing: u64 },
    /// It is counted; the first one since the last that was recorded or told of.
    No { first: bool },
}

impl Pace {
    /// Whether a refusal of this client, of this kind, is recorded now.
    pub fn may(&mut self, now: i64, who: &str, code: NackCode) -> RecordDecision {
        let about = (who.to_owned(), code.to_wire());
        if !self.about.contains_key(&about) && self.about.len() >= APART {
            self.about.retain(|_, o| o.left_out > 0 || o.even > now);
        }
        let apart = self.about.contains_key(&about) || self.about.len() < APART;
        let about = if apart { about } else { ("others".into(), about.1) };
        let one = self.about.entry(about).or_default();
        // The wall's clock may be set back: that must not silence anybody for long.
        one.even = one.even.clamp(now, now + BURST * EVERY_MS);
        if one.even + EVERY_MS <= now + BURST * EVERY_MS {
            one.even += EVERY_MS;
            return RecordDecision::Yes { missing: std::mem::take(&mut one.left_out) };
        }
        if one.left_out == 0 {
            one.since = now;
        }
        one.left_out += 1;
        RecordDecision::No { first: one.left_out == 1 }
    }

    /// How many were left out of whom and of which kind, where that is due to be said, and
    /// whether there will be more to say. `all`: now or never.
    pub fn summaries(&mut self, now: i64, all: bool) -> (Vec<(String, NackCode, u64)>, bool) {
        let due = |o: &One| o.left_out > 0 && (all || (now - o.since).abs() >= SUMMARY_MS);
        let said = self.about.iter_mut().filter(|(_, o)| due(o));
        let said = said
            .filter_map(|((who, code), o)| {
                let code = NackCode::from_wire(*code)?;
                Some((who.clone(), code, std::mem::take(&mut o.left_out)))
            })
            .collect();
        (said, self.about.values().any(|o| o.left_out > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: NackCode = NackCode::Denied;

    #[test]
    fn a_flood_is_a_few_lines_and_a_number() {
        let mut p = Pace::default();
        let flood: Vec<_> = (0..1000).map(|_| p.may(5, "vm1", NO)).collect();
        let yes = flood.iter().filter(|m| **m == RecordDecision::Yes { missing: 0 }).count();
        assert_eq!(yes as i64, BURST);
        assert_eq!(flood.iter().filter(|m| **m == RecordDecision::No { first: true }).count(), 1);
        assert_eq!(p.may(5, "vm2", NO), RecordDecision::Yes { missing: 0 }, "others are heard");
        let other = p.may(5, "vm1", NackCode::OverQuota);
        assert_eq!(
            other,
            RecordDecision::Yes { missing: 0 },
            "another kind of the same one is heard"
        );
        assert_eq!(p.summaries(6, false), (vec![], true));
        assert_eq!(
            p.summaries(5 + SUMMARY_MS, false),
            (vec![("vm1".into(), NO, 1000 - BURST as u64)], false)
        );
        let later = 5 + EVERY_MS;
        assert_eq!(p.may(later, "vm1", NO), RecordDecision::Yes { missing: 0 });
        assert_eq!(p.may(later, "vm1", NO), RecordDecision::No { first: true });
        assert_eq!(p.may(later + EVERY_MS, "vm1", NO), RecordDecision::Yes { missing: 1 });
        // A clock that is set back silences nobody for longer than one pause.
        assert_eq!(p.may(-1_000_000_000, "vm2", NO), RecordDecision::No { first: true });
        assert_eq!(p.may(-1_000_000_000 + EVERY_MS, "vm2", NO), RecordDecision::Yes { missing: 1 });
        // Ever new names make it grow no further.
        for i in 0..3 * APART {
            let _ = p.may(9, &format!("x{i}"), NO);
        }
        assert!(p.about.len() <= APART + 1);
    }
}
