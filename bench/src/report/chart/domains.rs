//! Bars of each instance: the time against host-host, or seconds without host-host. Beside them
//! what was published.

use super::Chart;
use super::axis::{Axis, round_down, round_up};
use super::canvas::{BLACK, Canvas, Drawn, GREY, Look};
use super::frame;
use crate::report::text::number;
use crate::report::{Domain, DomainRow, DomainsReport, Function, Instance};
use plotters::prelude::DrawingBackend;
use std::collections::BTreeSet;

const PANEL: f64 = 400.0;
const GAP: f64 = 100.0;
const WIDTH: u32 = 1600;

pub struct Bars<'a>(pub &'a DomainsReport);

/// What a bar shows: its height, none if that cannot be told, and the ends of its whisker.
#[derive(Clone, Copy)]
struct Value {
    height: Option<f64>,
    low: f64,
    high: f64,
}

impl Bars<'_> {
    fn functions(&self) -> Vec<Function> {
        let has = |f: &Function| self.0.rows.iter().any(|r| r.function == *f);
        Function::ALL.iter().copied().filter(has).collect()
    }

    fn series(&self) -> Vec<(Domain, &str)> {
        let all: BTreeSet<_> =
            self.0.rows.iter().map(|r| (r.domain, r.transport.as_str())).collect();
        all.into_iter().collect()
    }

    fn relative(&self) -> bool {
        self.0.rows.iter().any(|r| r.ratio_to_host_host_low.is_some())
    }

    fn value(&self, row: &DomainRow) -> Option<Value> {
        if !self.relative() {
            let (mean, sd) = (row.seconds_mean, row.seconds_sd.unwrap_or(0.0));
            return Some(Value { height: Some(mean), low: mean - sd, high: mean + sd });
        }
        let (low, high) = row.to_host_host()?.interval()?;
        Some(Value { height: row.ratio_to_host_host, low, high })
    }

    /// The published figure in the same unit.
    fn published(&self, row: &DomainRow) -> Option<f64> {
        match self.relative() {
            true => row.published_ratio_to_host_host,
            // Seconds of a scaled instance have no published ones beside them.
            false => row.published_seconds.filter(|_| row.instance() == row.published_instance()),
        }
    }

    /// The axis that both panels share, so that they can be compared. It starts at 0
    /// unless the bars differ so much that only a logarithm shows them all.
    fn axis(&self) -> Axis {
        let values: Vec<Value> = self.0.rows.iter().filter_map(|r| self.value(r)).collect();
        let published = self.0.rows.iter().filter_map(|r| self.published(r));
        let high = values.iter().map(|v| v.high).chain(published).fold(0.0, f64::max);
        let low = values.iter().map(|v| v.low).filter(|&v| v > 0.0).fold(f64::INFINITY, f64::min);
        let (from, to) = (PANEL, 0.0);
        if high > 8.0 * low {
            return Axis {
                log: true,
                low: round_down(low * 0.7),
                high: round_up(high * 1.4),
                from,
                to,
            };
        }
        Axis { log: false, low: 0.0, high: high.max(f64::MIN_POSITIVE) * 1.12, from, to }
    }

    fn panel<B: DrawingBackend>(&self, canvas: &Canvas<B>, function: Function, top: f64) -> Drawn {
        let right = canvas.size().0 - 40.0;
        let axis = Axis { from: top + PANEL, to: top, ..self.axis() };
        let unit = if self.relative() { "time against host-host" } else { "seconds" };
        let log = if axis.log { ", logarithmic" } else { "" };
        let whisker = if self.relative() { "its interval" } else { "± one standard deviation" };
        let title = format!("{function}: {unit}{log} (whisker: {whisker}; diamond: published)");
        canvas.text((frame::LEFT, top - 22.0), &title, Look::left(22.0, BLACK).bold())?;
        frame::grid_y(canvas, &axis, (frame::LEFT, right), number::times)?;

        let rows: Vec<_> = self.0.rows.iter().filter(|r| r.function == function).collect();
        let instances: BTreeSet<_> =
            rows.iter().map(|r| (r.iterations, r.published_instance(), r.instance())).collect();
        let group = (right - frame::LEFT) / instances.len() as f64;
        for (i, &(_, published, run)) in instances.iter().enumerate() {
            let x = frame::LEFT + group * i as f64;
            let middle = x + group / 2.0;
            canvas.text(
                (middle, axis.from + 20.0),
                &published.to_string(),
                Look::middle(20.0, BLACK),
            )?;
            if run != published {
                canvas.text(
                    (middle, axis.from + 42.0),
                    &format!("run as {run}"),
                    Look::middle(16.0, GREY),
                )?;
            }
            self.group(canvas, &axis, (x, group), &rows, run)?;
        }
        if self.relative() {
            canvas.dashes((frame::LEFT, axis.at(1.0)), (right, axis.at(1.0)), GREY, 1)?;
        }
        Ok(())
    }

    fn group<B: DrawingBackend>(
        &self,
        canvas: &Canvas<B>,
        axis: &Axis,
        (x, width): (f64, f64),
        rows: &[&DomainRow],
        run: Instance,
    ) -> Drawn {
        let series = self.series();
        let bar = width * 0.84 / series.len() as f64;
        let colors = frame::colors(&series);
        for (i, &(domain, transport)) in series.iter().enumerate() {
            let row = rows.iter().find(|r| {
                (r.domain, r.transport.as_str(), r.instance()) == (domain, transport, run)
            });
            let Some((row, value)) = row.and_then(|r| Some((r, self.value(r)?))) else {
                continue;
            };
            let left = x + width * 0.08 + bar * i as f64;
            let (right, middle) = (left + bar - 6.0, left + bar / 2.0 - 3.0);
            if let Some(height) = value.height {
                canvas.rect((left, axis.from), (right, axis.at(height)), colors[i])?;
            }
            let (low, high) = (axis.at(value.low), axis.at(value.high));
            if value.high > value.low {
                canvas.line(&[(middle, low), (middle, high)], BLACK, 2)?;
                for y in [low, high] {
                    canvas.line(&[(middle - 6.0, y), (middle + 6.0, y)], BLACK, 2)?;
                }
            }
            if let Some(published) = self.published(row) {
                canvas.marker((right - 8.0, axis.at(published)), 4, GREY)?;
            }
            let words = value.height.map_or_else(|| "?".to_owned(), number::times_column);
            canvas.text((middle, high - 12.0), &words, Look::middle(16.0, BLACK))?;
        }
        Ok(())
    }
}

impl Chart for Bars<'_> {
    fn size(&self) -> Result<(u32, u32), String> {
        match self.functions().len() {
            0 => Err("the report has no rows".to_owned()),
            n => Ok((WIDTH, (frame::TOP + 40.0 + n as f64 * (PANEL + GAP)) as u32)),
        }
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Drawn {
        frame::head(
            canvas,
            "The published experiment in each domain",
            &self.0.machine,
            &self.0.settings,
        )?;
        let series = self.series();
        let names = series.iter().map(|&(domain, transport)| frame::name(domain, transport));
        frame::legend(canvas, &names.zip(frame::colors(&series)).collect::<Vec<_>>())?;
        for (i, function) in self.functions().into_iter().enumerate() {
            self.panel(canvas, function, frame::TOP + 40.0 + i as f64 * (PANEL + GAP))?;
        }
        Ok(())
    }
}
