//! The slowdown in percent by the work in a call, both logarithmic.

use super::Chart;
use super::axis::{Axis, round_down, round_up};
use super::canvas::{BLACK, Canvas, Drawn, GREY, Look};
use super::frame;
use crate::report::text::number;
use crate::report::{GrainReport, published};
use plotters::prelude::{DrawingBackend, RGBColor};

const SIZE: (u32, u32) = (1600, 960);
/// The least slowdown drawn, in percent: below it a line would show noise, or nothing.
const LEAST: f64 = 0.1;
const BAND: RGBColor = RGBColor(0xf2, 0xf2, 0xf2);
/// Corners of the markers of one line after the other.
const MARKERS: [usize; 3] = [0, 4, 3];

pub struct Lines<'a>(pub &'a GrainReport);

fn percent(slowdown: f64) -> f64 {
    100.0 * (slowdown - 1.0)
}

impl Lines<'_> {
    fn axes(&self, (width, height): (f64, f64)) -> (Axis, Axis) {
        let works = || self.0.rows.iter().map(|r| r.work_ns).filter(|&w| w > 0.0 && w.is_finite());
        let finest = works().fold(published::TARGET_GRAIN_NS / 2.0, f64::min);
        let coarsest = works().fold(published::CALL_NS.1, f64::max);
        let worst = self
            .0
            .rows
            .iter()
            .filter_map(|r| r.slowdown_high.or(r.slowdown).map(percent))
            .filter(|p| p.is_finite())
            .fold(10.0, f64::max);
        let (low, high) = (round_down(finest * 0.8), round_up(coarsest * 1.2));
        let x = Axis { log: true, low, high, from: frame::LEFT + 20.0, to: width - 40.0 };
        let y = Axis {
            log: true,
            low: LEAST,
            high: round_up(worst * 1.2),
            from: height - 90.0,
            to: frame::TOP,
        };
        (x, y)
    }

    fn marks<B: DrawingBackend>(&self, canvas: &Canvas<B>, x: &Axis, y: &Axis) -> Drawn {
        let (low, high) = published::CALL_NS;
        canvas.rect((x.at(low), y.from), (x.at(high), y.to), BAND)?;
        frame::grid_y(canvas, y, (x.from, x.to), |p| format!("{} %", number::times(p)))?;
        frame::grid_x(canvas, x, (y.from, y.to), number::round_ns)?;
        let words = ["published:", "8 to 20 ms", "a call"];
        for (i, word) in words.iter().enumerate() {
            let middle = f64::midpoint(x.at(low), x.at(high));
            canvas.text((middle, y.to + 18.0 + 22.0 * i as f64), word, Look::middle(16.0, GREY))?;
        }
        let (target, worst) =
            (x.at(published::TARGET_GRAIN_NS), y.at(percent(published::WORST_SLOWDOWN)));
        canvas.dashes((target, y.from), (target, y.to), GREY, 2)?;
        canvas.text(
            (target + 10.0, y.to + 18.0),
            "target: 20 µs of work",
            Look::left(16.0, GREY),
        )?;
        canvas.dashes((x.from, worst), (x.to, worst), BLACK, 2)?;
        let words = "2.8 %, the published worst";
        canvas.text((x.from + 10.0, worst - 14.0), words, Look::left(16.0, BLACK))
    }
}

impl Chart for Lines<'_> {
    fn size(&self) -> Result<(u32, u32), String> {
        let empty = || "the report has no rows".to_owned();
        self.0.rows.first().map(|_| SIZE).ok_or_else(empty)
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Drawn {
        let title = "Slowdown by the work in a call";
        frame::head(canvas, title, &self.0.machine, &self.0.settings)?;
        let (x, y) = self.axes(canvas.size());
        self.marks(canvas, &x, &y)?;
        let lines = self.0.lines();
        let series: Vec<_> = lines.iter().map(|l| (l.0, l.1)).collect();
        let colors = frame::colors(&series);
        let names = series.iter().map(|&(domain, transport)| frame::name(domain, transport));
        frame::legend(canvas, &names.zip(colors.iter().copied()).collect::<Vec<_>>())?;
        for (i, (_, _, rows)) in lines.iter().enumerate() {
            let point = |slowdown: f64, work: f64| (x.at(work), y.at(percent(slowdown)));
            let told: Vec<_> = rows.iter().filter_map(|r| Some((*r, r.slowdown?))).collect();
            let points: Vec<_> = told.iter().map(|(r, s)| point(*s, r.work_ns)).collect();
            canvas.line(&points, colors[i], 3)?;
            for ((row, _), &at) in told.iter().zip(&points) {
                if let Some((low, high)) = row.compared().interval() {
                    let ends = [point(low, row.work_ns), point(high, row.work_ns)];
                    canvas.line(&ends, colors[i], 1)?;
                }
                canvas.marker(at, MARKERS[i % MARKERS.len()], colors[i])?;
            }
        }
        let words =
            "work in a call, logarithmic; the lowest line holds whatever is at or below 0.1 %";
        canvas.text((f64::midpoint(x.from, x.to), y.from + 50.0), words, Look::middle(18.0, GREY))
    }
}
