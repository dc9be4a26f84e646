//! Times of groups as boxes, policy by policy.

use super::axis::{Axis, round_down, round_up};
use super::canvas::{BLACK, Canvas, Drawn, GREY, Look};
use super::frame;
use super::leases::{COLORS, PANEL, title};
use crate::report::text::number;
use plotters::prelude::{DrawingBackend, RGBColor};

/// What is drawn of one group under one policy.
pub struct BoxGroup<'a> {
    pub policy: Option<&'a str>,
    pub name: Option<&'a str>,
    /// 5, 25, 50, 75 and 95 %, ascending, ns.
    pub figures: Option<[f64; 5]>,
    /// The part of the time on a VF.
    pub vf_share: Option<f64>,
}

/// Each value once, in order.
fn different<'a>(values: impl Iterator<Item = Option<&'a str>>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for value in values.flatten() {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

fn one<B: DrawingBackend>(
    canvas: &Canvas<B>,
    axis: &Axis,
    (left, right): (f64, f64),
    figures: [f64; 5],
    color: RGBColor,
) -> Drawn {
    let [low, q1, middle, q3, high] = figures.map(|f| axis.at(f));
    let centre = f64::midpoint(left, right);
    canvas.line(&[(centre, low), (centre, high)], BLACK, 2)?;
    for y in [low, high] {
        canvas.line(&[(centre - 7.0, y), (centre + 7.0, y)], BLACK, 2)?;
    }
    // A box of no height still shows.
    let (bottom, top) = (q1.max(q3 + 2.0), q3);
    canvas.rect((left, bottom), (right, top), color)?;
    let edge = [(left, bottom), (right, bottom), (right, top), (left, top), (left, bottom)];
    canvas.line(&edge, BLACK, 1)?;
    canvas.line(&[(left, middle), (right, middle)], BLACK, 3)
}

/// Draws the boxes of some groups.
pub fn panel<B: DrawingBackend>(
    canvas: &Canvas<B>,
    words: &str,
    rows: &[BoxGroup],
    top: f64,
) -> Drawn {
    let boxes = || rows.iter().filter_map(|r| r.figures);
    let low = boxes().map(|b| b[0]).fold(f64::INFINITY, f64::min).max(1.0);
    let high = boxes().map(|b| b[4]).fold(low, f64::max);
    let axis = Axis {
        log: true,
        low: round_down(low * 0.95),
        high: round_up(high * 1.05).max(round_down(low * 0.95) * 2.0),
        from: top + PANEL,
        to: top,
    };
    let right = canvas.size().0 - 40.0;
    let policies = different(rows.iter().map(|r| r.policy));
    let groups = different(rows.iter().map(|r| r.name));
    let names: Vec<_> =
        groups.iter().map(|g| (*g).to_owned()).zip(COLORS.into_iter().cycle()).collect();
    title(canvas, top, words, &names)?;
    frame::grid_y(canvas, &axis, (frame::LEFT, right), number::round_ns)?;
    let each = (right - frame::LEFT) / policies.len().max(1) as f64;
    let slot = each * 0.86 / groups.len().max(1) as f64;
    for (p, policy) in policies.iter().enumerate() {
        let start = frame::LEFT + each * p as f64;
        let at = (start + each / 2.0, axis.from + 46.0);
        canvas.text(at, policy, Look::middle(20.0, BLACK).bold())?;
        for (g, group) in groups.iter().enumerate() {
            let same = |r: &&BoxGroup| r.policy == Some(*policy) && r.name == Some(*group);
            let Some(row) = rows.iter().find(same) else { continue };
            let left = start + each * 0.07 + slot * g as f64;
            if let Some(f) = row.figures {
                one(canvas, &axis, (left + slot * 0.14, left + slot * 0.86), f, names[g].1)?;
            }
            let share = row.vf_share.map_or_else(String::new, |s| format!("{:.0} %", 100.0 * s));
            canvas.text((left + slot / 2.0, axis.from + 20.0), &share, Look::middle(16.0, GREY))?;
        }
    }
    canvas.text((frame::LEFT - 10.0, axis.from + 20.0), "VF time", Look::right(15.0, GREY))
}
