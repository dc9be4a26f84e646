//! The vFunction `nearest`, and an example of one source for both sides: a
//! host serves it (feature `driver`), a program calls it there or, where no
//! host offers it, in its own process (feature `app`).

use vfun_function::{Value, vfunction};

/// A place in the plane.
#[derive(Clone, Copy, Debug, PartialEq, Value)]
pub struct Point {
    /// Grows to the right.
    pub x: f64,
    /// Grows upwards.
    pub y: f64,
}

/// Which one it is, and how far away.
#[derive(Clone, Copy, Debug, PartialEq, Value)]
pub struct Hit {
    /// Among those given, from 0.
    pub index: u32,
    /// In the points' unit.
    pub distance: f64,
}

/// The nearest of the points that are at most `within` away from `to`; the
/// first of several. None such is an error, and so is a distance that is no number.
#[vfunction(version = "1.0", summary = "the nearest of many points", deadline_ms = 10000)]
pub fn nearest(to: Point, within: f64, among: &[Point]) -> Result<Hit, String> {
    let mut best: Option<Hit> = None;
    for (index, p) in among.iter().enumerate() {
        let distance = (p.x - to.x).hypot(p.y - to.y);
        if distance <= within && best.is_none_or(|b| distance < b.distance) {
            best = Some(Hit { index: index as u32, distance });
        }
    }
    best.ok_or_else(|| format!("none of {} points is within {within}", among.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMONG: [Point; 3] =
        [Point { x: 0., y: 5. }, Point { x: 3., y: 4. }, Point { x: 1., y: 0. }];

    #[test]
    fn it_is_an_ordinary_function() {
        let origin = Point { x: 0., y: 0. };
        assert_eq!(nearest(origin, 10., &AMONG), Ok(Hit { index: 2, distance: 1. }));
        assert_eq!(nearest(origin, 5., &AMONG[..2]), Ok(Hit { index: 0, distance: 5. }));
        assert!(nearest(origin, 0.5, &AMONG).unwrap_err().contains("none of 3 points"));
        assert!(nearest(origin, f64::NAN, &AMONG).is_err());
    }

    #[test]
    fn its_manifest_is_the_one_beside_it() {
        let beside = include_str!("../function.toml");
        let rest = "kind = \"native\"\nlibrary = \"libvfun_fn_nearest.so\"\n";
        // The attribute knows no codes.
        let (head, _) = beside.split_once("\n[codes]\n").unwrap();
        assert_eq!(head, format!("{}{rest}", nearest::MANIFEST));
    }
}
