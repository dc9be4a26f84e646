//! Bars of round trips: p50, with a whisker to p99.

use super::Chart;
use super::axis::{Axis, round_down, round_up};
use super::canvas::{BLACK, Canvas, Drawn, GREY, Look};
use super::frame;
use crate::report::text::{number, what};
use crate::report::{Domain, Kind, LatencyReport, LatencyRow, checks};
use plotters::prelude::DrawingBackend;

const BAR: f64 = 44.0;
const WIDTH: u32 = 1600;
/// Where the bars begin, right of their names.
const START: f64 = 440.0;
/// What is kept free right of the axis for the last bar's figures.
const END: f64 = 300.0;

pub struct Bars<'a>(pub &'a LatencyReport);

impl Bars<'_> {
    fn rows(&self) -> Vec<(&LatencyRow, f64)> {
        let kinds = [Kind::Floor, Kind::NullCall, Kind::Unix, Kind::Tcp];
        let rows = self.0.rows.iter().filter(|r| kinds.contains(&r.kind));
        let mut rows: Vec<_> = rows
            .filter_map(|r| Some((r, r.p50_ns.filter(|&ns| ns > 0.0 && ns.is_finite())?)))
            .collect();
        rows.sort_by_key(|(r, _)| (r.domain, r.transport.as_str(), r.kind, r.bytes));
        rows
    }
}

impl Chart for Bars<'_> {
    fn size(&self) -> Result<(u32, u32), String> {
        match self.rows().len() {
            0 => Err("the report has no round trips (floor, null_call, unix or tcp with p50_ns)"
                .to_owned()),
            n => Ok((WIDTH, (frame::TOP + n as f64 * BAR + 90.0) as u32)),
        }
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Drawn {
        let rows = self.rows();
        frame::head(canvas, "Round trips: p50, whisker to p99", &self.0.machine, &self.0.settings)?;
        let domains = Domain::ALL.iter().copied().filter(|d| rows.iter().any(|r| r.0.domain == *d));
        let entries: Vec<_> = domains.map(|d| (d.to_string(), frame::color(d, 0))).collect();
        frame::legend(canvas, &entries)?;

        let p99 = |row: &LatencyRow, p50: f64| {
            row.p99_ns.filter(|ns| ns.is_finite()).unwrap_or(p50).max(p50)
        };
        let lowest = rows.iter().map(|r| r.1).fold(f64::INFINITY, f64::min);
        let highest = rows.iter().map(|&(r, p50)| p99(r, p50)).fold(0.0, f64::max);
        let axis = Axis {
            log: true,
            low: round_down(lowest * 0.5),
            high: round_up(highest),
            from: START,
            to: canvas.size().0 - END,
        };
        let bottom = frame::TOP + rows.len() as f64 * BAR;
        frame::grid_x(canvas, &axis, (bottom, frame::TOP), number::round_ns)?;
        let middle = f64::midpoint(axis.from, axis.to);
        canvas.text(
            (middle, bottom + 48.0),
            "time of a round trip, logarithmic",
            Look::middle(18.0, GREY),
        )?;

        for (i, &(row, p50)) in rows.iter().enumerate() {
            let y = frame::TOP + (i as f64 + 0.5) * BAR;
            let name = format!("{} ({}), {}", row.domain, row.transport, what(row));
            canvas.text((START - 14.0, y), &name, Look::right(18.0, BLACK))?;
            let (half, high) = (BAR * 0.34, axis.at(p99(row, p50)));
            canvas.rect(
                (START, y - half),
                (axis.at(p50), y + half),
                frame::color(row.domain, 0),
            )?;
            canvas.line(&[(axis.at(p50), y), (high, y)], BLACK, 2)?;
            canvas.line(&[(high, y - 7.0), (high, y + 7.0)], BLACK, 2)?;
            let mut figures = number::ns(p50);
            if let Some(floor) = checks::floor_of(self.0, row).filter(|_| row.kind != Kind::Floor) {
                figures += &format!(", {} × floor", number::times_column(p50 / floor));
            }
            canvas.text((high + 12.0, y), &figures, Look::left(17.0, BLACK))?;
        }
        Ok(())
    }
}
