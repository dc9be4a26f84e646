//! Network VFs in simulated time: boxes of packets' times of groups, and who holds a VF
//! by rate.

use super::Chart;
use super::axis::Axis;
use super::boxes;
use super::canvas::{BLACK, Canvas, Drawn, Look};
use super::frame;
use super::leases::{COLORS, GAP, PANEL, TOP, WIDTH, title};
use crate::report::text::number;
use crate::report::{NicsExperiment, NicsReport, NicsRow};
use plotters::prelude::DrawingBackend;

pub struct NicsPanels<'a>(pub &'a NicsReport);

impl<'a> NicsPanels<'a> {
    fn rates(&self) -> Vec<&'a NicsRow> {
        self.0.of(NicsExperiment::Rates).filter(|r| r.per_s.is_some()).collect()
    }

    fn groups<B: DrawingBackend>(&self, canvas: &Canvas<B>, case: &str, top: f64) -> Drawn {
        let rows: Vec<_> = self.0.of(NicsExperiment::Groups).filter(|r| r.case == case).collect();
        let (vms, vfs) = rows.first().map_or((0, 0), |r| (r.vms, r.vfs));
        let figures = |r: &NicsRow| Some([r.p5_ns?, r.p25_ns?, r.p50_ns?, r.p75_ns?, r.p95_ns?]);
        let group = |r: &&'a NicsRow| boxes::BoxGroup {
            policy: r.policy.as_deref(),
            name: r.group.as_deref(),
            figures: figures(r),
            vf_share: r.vf_share,
        };
        let groups: Vec<_> = rows.iter().map(group).collect();
        let words = format!(
            "{vms} VMs, {vfs} VFs, {case}, simulated: packets' time, VM by VM (5, 25, 50, 75, 95 %)"
        );
        boxes::panel(canvas, &words, &groups, top)
    }

    fn by_rate<B: DrawingBackend>(&self, canvas: &Canvas<B>, top: f64) -> Drawn {
        let rows = self.rates();
        let right = canvas.size().0 - 40.0;
        let most = rows.iter().filter_map(|r| r.per_s).fold(1.0, f64::max);
        let y = Axis { log: false, low: 0.0, high: 100.0, from: top + PANEL, to: top };
        let x = Axis { log: false, low: 0.0, high: most * 1.02, from: frame::LEFT, to: right };
        let mut lines: Vec<(String, Vec<(f64, f64)>)> =
            vec![("what a VF gains (parameter)".to_owned(), vec![])];
        for r in &rows {
            let Some((at, share)) = r.per_s.zip(r.vf_share) else { continue };
            let policy = format!("time on a VF, {}", r.policy.as_deref().unwrap_or("-"));
            let point = |part: f64| (x.at(at), y.at(100.0 * part));
            let seen = lines.iter_mut().find(|(name, _)| *name == policy);
            match seen {
                Some((_, points)) => points.push(point(share)),
                None => lines.push((policy, vec![point(share)])),
            }
            if let Some(boost) = r.boost.filter(|_| lines.len() <= 2) {
                lines[0].1.push(point(boost));
            }
        }
        let names: Vec<_> =
            lines.iter().map(|(name, _)| name.clone()).zip(COLORS.into_iter().cycle()).collect();
        title(canvas, top, "VMs of every rate, simulated", &names)?;
        frame::grid_y(canvas, &y, (frame::LEFT, right), |p| format!("{p:.0} %"))?;
        frame::grid_x(canvas, &x, (y.from, y.to), number::rate)?;
        for ((_, points), (_, color)) in lines.iter().zip(&names) {
            canvas.line(points, *color, 3)?;
            points.iter().try_for_each(|&p| canvas.marker(p, 0, *color))?;
        }
        canvas.text(
            (frame::LEFT, y.from + 46.0),
            "packets a second of a VM",
            Look::left(17.0, BLACK),
        )
    }
}

impl Chart for NicsPanels<'_> {
    fn size(&self) -> Result<(u32, u32), String> {
        let groups = self.0.cases(NicsExperiment::Groups).len();
        match groups + usize::from(!self.rates().is_empty()) {
            0 => {
                Err("the report has no rows that a chart shows: ask for groups or rates".to_owned())
            }
            n => Ok((WIDTH, (TOP + n as f64 * (PANEL + GAP)) as u32)),
        }
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Drawn {
        let words = "Network VFs, by the real allocator in simulated time";
        frame::head(canvas, words, &self.0.machine, &self.0.settings)?;
        let mut top = TOP;
        for case in self.0.cases(NicsExperiment::Groups) {
            self.groups(canvas, case, top)?;
            top += PANEL + GAP;
        }
        if !self.rates().is_empty() {
            self.by_rate(canvas, top)?;
        }
        Ok(())
    }
}
