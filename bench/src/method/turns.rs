//! Variants in turns, a slice each, with what disturbed it.

use super::Watch;
use super::compared::{Compared, Pair};
use crate::Result;
use std::time::Instant;

/// What a slice came to, and whether something disturbed it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Taken<T> {
    figure: T,
    disturbed: bool,
}

/// All slices: of each turn, one of each variant.
#[derive(Clone, Debug)]
pub struct Turns<T>(Vec<Vec<Option<Taken<T>>>>);

impl<T: Copy> Turns<T> {
    /// Pairs of a variant and what it is compared with, of the same turn, by one figure.
    pub fn pairs(&self, variant: usize, base: usize, by: impl Fn(&T) -> f64) -> Vec<Pair> {
        let pair = |turn: &Vec<Option<Taken<T>>>| {
            let (a, b) = ((*turn.get(variant)?)?, (*turn.get(base)?)?);
            let disturbed = a.disturbed || b.disturbed;
            Some(Pair { figure: by(&a.figure), base: by(&b.figure), disturbed })
        };
        self.0.iter().filter_map(pair).collect()
    }

    /// One variant over another.
    pub fn over(&self, variant: usize, base: usize, by: impl Fn(&T) -> f64) -> Compared {
        Compared::of(&self.pairs(variant, base, by))
    }

    /// The figures of some variants, of each turn in which all of them have one, disturbed ones too.
    pub fn together<const N: usize>(&self, variants: [usize; N]) -> Vec<[T; N]> {
        let of = |turn: &Vec<Option<Taken<T>>>| {
            let figures = variants.map(|v| turn.get(v).copied().flatten().map(|t| t.figure));
            figures.iter().all(Option::is_some).then(|| figures.map(|f| f.expect("looked at")))
        };
        self.0.iter().filter_map(of).collect()
    }

    fn of(&self, variant: usize) -> impl Iterator<Item = Taken<T>> {
        self.0.iter().filter_map(move |turn| *turn.get(variant)?)
    }

    /// All figures of a variant, disturbed ones too.
    pub fn figures(&self, variant: usize) -> Vec<T> {
        self.of(variant).map(|taken| taken.figure).collect()
    }

    /// The undisturbed figures of a variant; all if none is.
    pub fn kept(&self, variant: usize) -> Vec<T> {
        let kept: Vec<_> =
            self.of(variant).filter(|t| !t.disturbed).map(|taken| taken.figure).collect();
        if kept.is_empty() { self.figures(variant) } else { kept }
    }
}

/// Runs so many turns. The first variant changes from turn to turn, because the later ones find
/// warm caches. `slice` runs one of a variant in a turn and gives its figure; none if it
/// has none (it failed, and that was said).
///
/// # Errors
/// The first of `slice`.
pub fn turns<T: Copy>(
    count: usize,
    variants: usize,
    watch: &Watch,
    mut slice: impl FnMut(usize, usize) -> Result<Option<T>>,
) -> Result<Turns<T>> {
    let mut all = Vec::with_capacity(count);
    for turn in 0..count {
        let mut order: Vec<_> = (0..variants).collect();
        if turn % 2 == 1 {
            order.reverse();
        }
        let mut taken = vec![None; variants];
        for variant in order {
            let (before, start) = (watch.marks(), Instant::now());
            let figure = slice(variant, turn)?;
            let took = start.elapsed();
            let disturbed = watch.marks().since(&before).spoils(took);
            taken[variant] = figure.map(|figure| Taken { figure, disturbed });
        }
        all.push(taken);
    }
    Ok(Turns(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_has_a_turn_and_begins_in_turns() {
        let mut order = Vec::new();
        let turns = turns(3, 2, &Watch::nothing(), |variant, turn| {
            order.push((turn, variant));
            Ok(((turn, variant) != (1, 1)).then_some((10 * turn + variant + 1) as f64))
        })
        .unwrap();
        assert_eq!(order, [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1)]);
        // A turn in which one has no figure makes no pair.
        let pairs = turns.pairs(1, 0, |f| *f);
        assert_eq!(
            pairs.iter().map(|p| (p.figure, p.base)).collect::<Vec<_>>(),
            [(2.0, 1.0), (22.0, 21.0)]
        );
        assert_eq!((turns.figures(0), turns.figures(1)), (vec![1.0, 11.0, 21.0], vec![2.0, 22.0]));
        assert!(turns.pairs(2, 0, |f| *f).is_empty());
        assert_eq!(turns.together([1, 0]), [[2.0, 1.0], [22.0, 21.0]]);
    }

    #[test]
    fn either_disturbed_slice_spoils_the_pair() {
        let slice = |figure, disturbed| Some(Taken { figure, disturbed });
        let turns = Turns(vec![
            vec![slice(1.0, false), slice(2.0, false)],
            vec![slice(1.0, true), slice(2.0, false)],
            vec![slice(9.0, false), slice(2.0, true)],
        ]);
        let spoilt: Vec<_> = turns.pairs(1, 0, |f| *f).iter().map(|p| p.disturbed).collect();
        assert_eq!(spoilt, [false, true, true]);
        assert_eq!(turns.kept(0), [1.0, 9.0]);
    }
}
