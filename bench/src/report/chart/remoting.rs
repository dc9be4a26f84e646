//! A remoted API: times of allocations, rates of transfers and bursts by size, and small transfers,
//! remoted and native, in panels one under the other.

use super::Chart;
use super::axis::{Axis, round_down, round_up};
use super::canvas::{BLACK, Canvas, Drawn, Look};
use super::frame;
use super::leases::{COLORS, GAP, PANEL, TOP, WIDTH, title};
use crate::report::text::number;
use crate::report::{RemotingExperiment, RemotingReport, RemotingRow};
use plotters::prelude::DrawingBackend;

/// What is drawn by size, with the published figure's number.
const PANELS: [(RemotingExperiment, &str); 3] = [
    (RemotingExperiment::Allocation, "A buffer, allocated and mapped (published: figure 6)"),
    (RemotingExperiment::Transfers, "Rate of one transfer (published: figure 7)"),
    (RemotingExperiment::Bursts, "Rate of bursts (published: figure 8)"),
];

pub struct RemotingPanels<'a>(pub &'a RemotingReport);

/// Remoted and native: rates where the row has them, else times.
fn figures(row: &RemotingRow) -> Option<(f64, [f64; 2])> {
    let rates = row.per_s.zip(row.base_per_s);
    let (remoted, native) = rates.or(row.p50_ns.zip(row.base_p50_ns))?;
    Some((row.bytes? as f64, [remoted, native]))
}

impl RemotingPanels<'_> {
    fn panels(&self) -> Vec<(RemotingExperiment, &'static str)> {
        let drawn = |e: RemotingExperiment| self.0.of(e).filter_map(figures).count() > 1;
        PANELS.into_iter().filter(|(e, _)| drawn(*e)).collect()
    }

    fn panel<B: DrawingBackend>(
        &self,
        canvas: &Canvas<B>,
        (experiment, words): (RemotingExperiment, &str),
        top: f64,
    ) -> Drawn {
        let rows: Vec<_> = self.0.of(experiment).filter_map(figures).collect();
        let right = canvas.size().0 - 40.0;
        let most = rows.iter().flat_map(|(_, both)| *both).fold(0.0, f64::max);
        let y =
            Axis { log: false, low: 0.0, high: round_up(most * 1.05), from: top + PANEL, to: top };
        let sizes = || rows.iter().map(|(bytes, _)| *bytes);
        let (low, high) = (sizes().fold(f64::MAX, f64::min), sizes().fold(1.0, f64::max));
        let (low, high) = (round_down(low * 0.9), round_up(high * 1.1));
        let x = Axis { log: true, low, high, from: frame::LEFT + 20.0, to: right };
        let names = [("remoted".to_owned(), COLORS[5]), ("native".to_owned(), COLORS[2])];
        title(canvas, top, &format!("{words}: measured, the engine simulated"), &names)?;
        let rate = experiment != RemotingExperiment::Allocation;
        let value = |v: f64| if rate { number::bandwidth(v) } else { number::round_ns(v) };
        frame::grid_y(canvas, &y, (frame::LEFT, right), value)?;
        canvas.line(&[(frame::LEFT, y.from), (frame::LEFT, y.to)], BLACK, 1)?;
        for (which, (_, color)) in names.iter().enumerate().rev() {
            let points: Vec<_> =
                rows.iter().map(|(b, both)| (x.at(*b), y.at(both[which]))).collect();
            canvas.line(&points, *color, 3)?;
            points
                .iter()
                .try_for_each(|&p| canvas.marker(p, if which == 0 { 0 } else { 4 }, *color))?;
        }
        for (bytes, _) in &rows {
            let at = (x.at(*bytes), y.from + 22.0);
            canvas.text(at, &number::bytes(*bytes as u64), Look::middle(17.0, BLACK))?;
        }
        canvas.text((frame::LEFT, y.from + 48.0), "bytes, logarithmic", Look::left(17.0, BLACK))
    }
}

impl Chart for RemotingPanels<'_> {
    fn size(&self) -> Result<(u32, u32), String> {
        match self.panels().len() {
            0 => Err("the report has no rows that a chart shows: ask for allocation, transfers or bursts".to_owned()),
            n => Ok((WIDTH, (TOP + n as f64 * (PANEL + GAP)) as u32)),
        }
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Drawn {
        let words = "A remoted API (gdma) beside its library";
        frame::head(canvas, words, &self.0.machine, &self.0.settings)?;
        let mut top = TOP;
        for panel in self.panels() {
            self.panel(canvas, panel, top)?;
            top += PANEL + GAP;
        }
        Ok(())
    }
}
