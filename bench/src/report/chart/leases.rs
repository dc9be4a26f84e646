//! Leases: what a VF gains, calls over time while leases move, and the calls of
//! groups as boxes, in panels one under the other.

use super::Chart;
use super::axis::{Axis, round_down, round_up};
use super::boxes;
use super::canvas::{BLACK, Canvas, Drawn, GREY, Look, width};
use super::frame;
use crate::report::text::number;
use crate::report::{Experiment, LeasesReport, LeasesRow, Source};
use plotters::prelude::{DrawingBackend, RGBColor};

pub const WIDTH: u32 = 1600;
/// Height of a panel's plot, and what its words take below and above.
pub const PANEL: f64 = 360.0;
pub const GAP: f64 = 130.0;
pub const TOP: f64 = 180.0;
/// More switches than this are not marked one by one.
const MARKS_MOST: usize = 40;
/// Colours of lines and groups, those of Okabe and Ito.
pub const COLORS: [RGBColor; 6] = [
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x00, 0x72, 0xb2),
];

pub struct Panels<'a>(pub &'a LeasesReport);

enum Panel {
    Gain,
    Timeline,
    Boxes(Experiment, Source, u32),
}

/// A panel's title, and names with colours at its right end.
pub fn title<B: DrawingBackend>(
    canvas: &Canvas<B>,
    top: f64,
    words: &str,
    names: &[(String, RGBColor)],
) -> Drawn {
    canvas.text((frame::LEFT, top - 26.0), words, Look::left(22.0, BLACK).bold())?;
    let mut x = canvas.size().0 - 40.0;
    for (name, color) in names.iter().rev() {
        x -= width(name, 17.0) + 44.0;
        canvas.rect((x, top - 33.0), (x + 14.0, top - 19.0), *color)?;
        canvas.text((x + 22.0, top - 26.0), name, Look::left(17.0, BLACK))?;
    }
    Ok(())
}

impl<'a> Panels<'a> {
    fn panels(&self) -> Vec<Panel> {
        let mut panels = Vec::new();
        if self.0.of(Experiment::Gain).any(|r| r.boost.is_some()) {
            panels.push(Panel::Gain);
        }
        if !self.0.timeline.points.is_empty() {
            panels.push(Panel::Timeline);
        }
        for experiment in [Experiment::Groups, Experiment::Starvation, Experiment::Worth] {
            let crowds = self.0.crowds(experiment).into_iter();
            panels.extend(crowds.map(|(source, n)| Panel::Boxes(experiment, source, n)));
        }
        panels
    }

    fn gain<B: DrawingBackend>(&self, canvas: &Canvas<B>, top: f64) -> Drawn {
        let rows: Vec<_> = self.0.of(Experiment::Gain).filter(|r| r.boost.is_some()).collect();
        let bytes = |r: &crate::report::LeasesRow| r.bytes.unwrap_or(0).max(1) as f64;
        let boost = |r: &crate::report::LeasesRow| 100.0 * r.boost.unwrap_or(0.0);
        let mut rates: Vec<Option<f64>> = Vec::new();
        for r in &rows {
            if !rates.contains(&r.per_s) {
                rates.push(r.per_s);
            }
        }
        let least = rows.iter().map(|r| boost(r)).fold(0.0, f64::min).max(-100.0);
        let few = rows.iter().map(|r| bytes(r)).fold(f64::INFINITY, f64::min);
        let many = rows.iter().map(|r| bytes(r)).fold(1.0, f64::max);
        let right = canvas.size().0 - 40.0;
        let y = Axis {
            log: false,
            low: least.min(-5.0) * 1.1,
            high: 100.0,
            from: top + PANEL,
            to: top,
        };
        let x = Axis { log: true, low: few * 0.8, high: many * 1.25, from: frame::LEFT, to: right };
        let name = |rate: &Option<f64>| {
            rate.map_or_else(|| "one after the other".to_owned(), |r| format!("{r:.0} calls/s"))
        };
        let names: Vec<_> = rates.iter().map(name).zip(COLORS.into_iter().cycle()).collect();
        title(canvas, top, "What a VF gains: boost by size and rate of calls", &names)?;
        frame::grid_y(canvas, &y, (frame::LEFT, right), |p| format!("{p:.0} %"))?;
        canvas.dashes((frame::LEFT, y.at(0.0)), (right, y.at(0.0)), GREY, 1)?;
        let mut marked = Vec::new();
        for r in &rows {
            let at = bytes(r);
            if !marked.contains(&at) {
                let words = number::bytes(at as u64);
                canvas.text((x.at(at), y.from + 20.0), &words, Look::middle(17.0, GREY))?;
                marked.push(at);
            }
        }
        for (rate, (_, color)) in rates.iter().zip(&names) {
            let of = rows.iter().filter(|r| r.per_s == *rate);
            let points: Vec<_> = of.map(|r| (x.at(bytes(r)), y.at(boost(r)))).collect();
            canvas.line(&points, *color, 3)?;
            points.iter().try_for_each(|&p| canvas.marker(p, 0, *color))?;
        }
        Ok(())
    }

    fn boxes<B: DrawingBackend>(
        &self,
        canvas: &Canvas<B>,
        (experiment, source, clients): (Experiment, Source, u32),
        top: f64,
    ) -> Drawn {
        let of = |r: &&LeasesRow| r.source == source && r.clients == Some(clients);
        let rows: Vec<_> = self.0.of(experiment).filter(of).collect();
        let vfs = rows.iter().find_map(|r| r.vfs).unwrap_or(0);
        let how = if source == Source::Real { "run" } else { "simulated time" };
        let words = match experiment {
            Experiment::Starvation => format!("A steady client beside heavy ones, {how}"),
            Experiment::Worth => format!("Frequent calls beside ones that gain more, {how}"),
            _ => format!("{clients} clients, {vfs} VFs, {how}"),
        };
        let words = format!("{words}: time of a call (5, 25, 50, 75, 95 %) and of a VF");
        let figures = |r: &LeasesRow| Some([r.p5_ns?, r.p25_ns?, r.p50_ns?, r.p75_ns?, r.p95_ns?]);
        let group = |r: &&'a LeasesRow| boxes::BoxGroup {
            policy: r.policy.as_deref(),
            name: r.group.as_deref(),
            figures: figures(r),
            vf_share: r.vf_share,
        };
        let groups: Vec<_> = rows.iter().map(group).collect();
        boxes::panel(canvas, &words, &groups, top)
    }

    fn timeline<B: DrawingBackend>(&self, canvas: &Canvas<B>, top: f64) -> Drawn {
        let t = &self.0.timeline;
        let right = canvas.size().0 - 40.0;
        let values = || t.points.iter().flat_map(|p| [p.p50_ns, p.max_ns]).filter(|v| *v > 0.0);
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(1.0, f64::max));
        let y = Axis {
            log: true,
            low: round_down(low * 0.9),
            high: round_up(high * 1.1),
            from: top + PANEL,
            to: top,
        };
        let last = t.points.last().map_or(1.0, |p| p.at_s).max(1e-3);
        let x = Axis { log: false, low: 0.0, high: last, from: frame::LEFT, to: right };
        let (soft, hard, most) = (COLORS[3], COLORS[5], RGBColor(0xbb, 0xbb, 0xbb));
        let names = [("software", soft), ("on a VF", hard), ("the longest of a moment", most)];
        let names = names.map(|(name, color)| (name.to_owned(), color));
        title(canvas, top, "A lease that comes and goes: time of a call", &names)?;
        frame::grid_y(canvas, &y, (frame::LEFT, right), number::round_ns)?;
        frame::grid_x(canvas, &x, (y.from, y.to), |s| format!("{} s", number::times(s)))?;
        if t.switches_s.len() <= MARKS_MOST {
            for &s in &t.switches_s {
                canvas.dashes((x.at(s), y.from), (x.at(s), y.to), GREY, 1)?;
            }
        }
        for p in &t.points {
            let (at, most_at) = (x.at(p.at_s), y.at(p.max_ns));
            canvas.rect((at - 1.0, most_at - 1.0), (at + 1.0, most_at + 1.0), most)?;
        }
        for p in &t.points {
            let (at, middle) = (x.at(p.at_s), y.at(p.p50_ns));
            let color = if p.on_vf { hard } else { soft };
            canvas.rect((at - 2.0, middle - 2.0), (at + 2.0, middle + 2.0), color)?;
        }
        Ok(())
    }
}

impl Chart for Panels<'_> {
    fn size(&self) -> Result<(u32, u32), String> {
        match self.panels().len() {
            0 => Err("the report has no rows that a chart shows".to_owned()),
            n => Ok((WIDTH, (TOP + n as f64 * (PANEL + GAP)) as u32)),
        }
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Drawn {
        let words = "Leases on a modelled device (simulated, no hardware)";
        frame::head(canvas, words, &self.0.machine, &self.0.settings)?;
        for (i, panel) in self.panels().into_iter().enumerate() {
            let top = TOP + i as f64 * (PANEL + GAP);
            match panel {
                Panel::Gain => self.gain(canvas, top)?,
                Panel::Timeline => self.timeline(canvas, top)?,
                Panel::Boxes(experiment, source, clients) => {
                    self.boxes(canvas, (experiment, source, clients), top)?;
                }
            }
        }
        Ok(())
    }
}
