//! Network VFs over time: a lane for each VF with the VMs that used it, and below a line for
//! each VM with what it sent.

use super::Chart;
use super::axis::{Axis, round_up};
use super::canvas::{BLACK, Canvas, Drawn, GREY, Look, width};
use super::frame;
use super::leases::{COLORS, PANEL, title};
use crate::report::text::number;
use plotters::prelude::{DrawingBackend, RGBColor};
use std::collections::{BTreeMap, BTreeSet};
use vfun_admin::VmName;
use vfun_cli::out::timestamp;
use vfun_nics::history::{HistoryView, Hold, RatePoint};

const WIDTH: u32 = 1600;
const TOP: f64 = 150.0;
const LANE: f64 = 34.0;
/// Below a panel: the axis's words, and the title of the next one.
const GAP: f64 = 110.0;
/// VMs with a name in the legend and a colour of their own; the others are grey.
const NAMED: usize = COLORS.len();
const OTHERS: RGBColor = RGBColor(0xbb, 0xbb, 0xbb);

/// A figure of an interval, where it is known.
type PointFigure = fn(&RatePoint) -> Option<f64>;

/// A panel of lines: its title, its figure, and how that is written.
type LinePanel = (&'static str, PointFigure, fn(f64) -> String);

/// The history of one pool.
pub struct Lanes<'a> {
    pool: &'a str,
    history: &'a HistoryView,
    vfs: Vec<String>,
    /// Those with the most packets first.
    vms: Vec<(VmName, RGBColor)>,
    from_ms: u64,
}

impl<'a> Lanes<'a> {
    pub fn new(pool: &'a str, history: &'a HistoryView) -> Self {
        let vfs: BTreeSet<String> = history.holds.iter().map(|h| h.vf.to_string()).collect();
        // Rates go back less far than times of VFs that last.
        let points = history.vms.iter().filter_map(|vm| Some(vm.points.first()?.at_ms)).min();
        let holds = history.holds.iter().map(|h| h.from_ms).min();
        Lanes {
            pool,
            history,
            vfs: vfs.into_iter().collect(),
            vms: ranked(history),
            from_ms: points.or(holds).unwrap_or(history.now_ms),
        }
    }

    fn color(&self, vm: &VmName) -> RGBColor {
        self.vms.iter().find(|(name, _)| name == vm).map_or(OTHERS, |(_, color)| *color)
    }

    fn lanes_height(&self) -> f64 {
        LANE * self.vfs.len().max(1) as f64
    }

    fn has(&self, figure: PointFigure) -> bool {
        self.history.vms.iter().flat_map(|vm| &vm.points).any(|p| figure(p).is_some())
    }

    /// The panels of lines that have figures.
    fn figures(&self) -> Vec<LinePanel> {
        let latency: PointFigure = |p| p.latency_us;
        let rate: PointFigure = |p| Some(p.packets_per_s);
        let mut all: Vec<LinePanel> = vec![];
        if self.has(rate) {
            all.push(("Packets a second of each VM", rate, number::rate));
        }
        if self.has(latency) {
            all.push(("Round trip of each VM", latency, |us| number::round_ns(us * 1000.0)));
        }
        all
    }

    /// The unit of the time axis, and the axis itself: how long ago.
    fn time(&self, right: f64) -> (&'static str, f64, Axis) {
        let seconds = (self.history.now_ms.saturating_sub(self.from_ms) as f64 / 1000.0).max(1.0);
        let (unit, each) = match seconds {
            s if s >= 7200.0 => ("h", 3600.0),
            s if s >= 240.0 => ("min", 60.0),
            _ => ("s", 1.0),
        };
        let low = -seconds / each;
        (unit, each, Axis { log: false, low, high: 0.0, from: frame::LEFT, to: right })
    }

    /// Where a moment is on the time axis.
    fn x(&self, time: &(&'static str, f64, Axis), at_ms: u64) -> f64 {
        let ago_ms = self.history.now_ms.saturating_sub(at_ms) as f64;
        time.2.at(-ago_ms / 1000.0 / time.1)
    }

    fn lanes<B: DrawingBackend>(&self, canvas: &Canvas<B>, top: f64) -> Drawn {
        let right = canvas.size().0 - 40.0;
        let time = self.time(right);
        let bottom = top + self.lanes_height();
        title(canvas, top, "Who used each VF", &self.legend())?;
        let unit = time.0;
        frame::grid_x(canvas, &time.2, (bottom, top), |t| format!("{} {unit}", number::times(t)))?;
        for (n, vf) in self.vfs.iter().enumerate() {
            let y = top + LANE * n as f64;
            let size = (86.0 / width(vf, 1.0)).min(16.0);
            let look = Look::right(size, GREY);
            canvas.text((frame::LEFT - 8.0, y + LANE / 2.0), vf, look)?;
            for hold in self.history.holds.iter().filter(|h| h.vf.0 == *vf) {
                self.hold(canvas, &time, hold, y)?;
            }
        }
        canvas.line(&[(frame::LEFT, bottom), (right, bottom)], GREY, 1)
    }

    fn hold<B: DrawingBackend>(
        &self,
        canvas: &Canvas<B>,
        time: &(&'static str, f64, Axis),
        hold: &Hold,
        y: f64,
    ) -> Drawn {
        let end_ms = hold.to_ms.unwrap_or(self.history.now_ms);
        if end_ms < self.from_ms {
            return Ok(());
        }
        let (from, to) = (self.x(time, hold.from_ms), self.x(time, end_ms));
        canvas.rect((from, y + 4.0), (to.max(from + 1.0), y + LANE - 4.0), self.color(&hold.vm))?;
        let name = hold.vm.to_string();
        match width(&name, 15.0) + 8.0 <= to - from {
            true => {
                canvas.text(((from + to) / 2.0, y + LANE / 2.0), &name, Look::middle(15.0, BLACK))
            }
            false => Ok(()),
        }
    }

    fn lines<B: DrawingBackend>(
        &self,
        canvas: &Canvas<B>,
        top: f64,
        (words, figure, write): (&str, PointFigure, fn(f64) -> String),
    ) -> Drawn {
        let right = canvas.size().0 - 40.0;
        let time = self.time(right);
        let values = self.history.vms.iter().flat_map(|vm| vm.points.iter().filter_map(figure));
        let high = round_up(values.fold(1.0, f64::max));
        let y = Axis { log: false, low: 0.0, high, from: top + PANEL, to: top };
        title(canvas, top, words, &self.legend())?;
        frame::grid_y(canvas, &y, (frame::LEFT, right), write)?;
        let unit = time.0;
        frame::grid_x(canvas, &time.2, (y.from, y.to), |t| format!("{} {unit}", number::times(t)))?;
        // The named ones lie above the others.
        let named = |vm: &VmName| self.vms.iter().any(|(name, _)| name == vm);
        let (above, below): (Vec<_>, Vec<_>) =
            self.history.vms.iter().partition(|rates| named(&rates.vm));
        for rates in below.into_iter().chain(above) {
            let points = rates.points.iter().filter(|p| p.at_ms >= self.from_ms);
            let points: Vec<_> =
                points.filter_map(|p| Some((self.x(&time, p.at_ms), y.at(figure(p)?)))).collect();
            canvas.line(&points, self.color(&rates.vm), 2)?;
        }
        Ok(())
    }

    fn legend(&self) -> Vec<(String, RGBColor)> {
        let mut names: Vec<_> = self.vms.iter().map(|(vm, c)| (vm.to_string(), *c)).collect();
        if self.history.vms.len() > self.vms.len() {
            names.push(("others".into(), OTHERS));
        }
        names
    }
}

/// The VMs that get a name and a colour: those with the most packets; what is equal by name.
fn ranked(history: &HistoryView) -> Vec<(VmName, RGBColor)> {
    let mut sums: BTreeMap<&VmName, f64> = history.holds.iter().map(|h| (&h.vm, 0.0)).collect();
    for vm in &history.vms {
        let sum: f64 = vm.points.iter().map(|p| p.packets_per_s).sum();
        *sums.entry(&vm.vm).or_default() += sum;
    }
    let mut all: Vec<(&VmName, f64)> = sums.into_iter().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    all.into_iter().map(|(vm, _)| vm.clone()).zip(COLORS).take(NAMED).collect()
}

impl Chart for Lanes<'_> {
    fn size(&self) -> Result<(u32, u32), String> {
        let figures = self.figures().len();
        if self.vfs.is_empty() && figures == 0 {
            return Err(format!(
                "nothing has happened in pool {} since vfun-nics began: no decision yet",
                self.pool
            ));
        }
        Ok((WIDTH, (TOP + self.lanes_height() + GAP + figures as f64 * (PANEL + GAP)) as u32))
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Drawn {
        let at = |ms: u64| timestamp(ms.cast_signed());
        let span = format!("{} to {}", at(self.from_ms), at(self.history.now_ms));
        frame::head_lines(canvas, &format!("Network VFs of pool {}", self.pool), &[span])?;
        self.lanes(canvas, TOP)?;
        let mut top = TOP + self.lanes_height() + GAP;
        for figure in self.figures() {
            self.lines(canvas, top, figure)?;
            top += PANEL + GAP;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart;
    use vfun_nics::VfId;
    use vfun_nics::history::VmRates;

    fn vm(n: usize) -> VmName {
        VmName::new(&format!("vm{n}"), &format!("vm{n}"))
    }

    /// So many VMs that took turns with two VFs for ten minutes.
    fn history(vms: usize, latency: bool) -> HistoryView {
        let now_ms = 1_800_000_000_000;
        let hold = |n: usize| Hold {
            pool: "cards".into(),
            vf: VfId(format!("0000:01:10.{}", n % 2)),
            vm: vm(n % vms),
            from_ms: now_ms - 600_000 + n as u64 * 60_000,
            to_ms: (n < 8).then(|| now_ms - 600_000 + n as u64 * 60_000 + 100_000),
        };
        let rates = |n: usize| VmRates {
            vm: vm(n),
            pool: "cards".into(),
            points: (0..=60)
                .map(|i| RatePoint {
                    at_ms: now_ms - 600_000 + i * 10_000,
                    packets_per_s: 1000.0 * (n + 1) as f64,
                    latency_us: latency.then_some(80.0),
                })
                .collect(),
        };
        HistoryView {
            now_ms,
            holds: (0..10).map(hold).collect(),
            vms: (0..vms).map(rates).collect(),
            rates_left_out: 0,
        }
    }

    fn drawn(history: &HistoryView) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("chart.svg");
        chart::vf_history("cards", history, &path).unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn each_vf_is_a_lane_and_each_vm_a_line() {
        let svg = drawn(&history(2, false));
        for words in ["pool cards", "0000:01:10.0", "0000:01:10.1", "vm0", "vm1", "-10 min"] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        // The busiest has the first colour.
        for color in ["#56B4E9", "#009E73"] {
            assert_eq!(svg.matches(&format!("stroke=\"{color}\"")).count(), 1, "{svg}");
        }
        assert!(svg.contains("Packets a second") && !svg.contains("Round trip"));
        assert!(drawn(&history(2, true)).contains("Round trip"));
    }

    #[test]
    fn of_many_vms_the_busiest_have_names() {
        let history = history(10, false);
        let lanes = Lanes::new("cards", &history);
        assert_eq!(lanes.vms.len(), NAMED);
        assert_eq!(lanes.vms[0].0, vm(9));
        assert_eq!(lanes.legend().last().unwrap().0, "others");
        assert_eq!(lanes.color(&vm(0)), OTHERS);
    }

    #[test]
    fn a_time_that_lasts_begins_with_the_rates_and_one_before_is_left_out() {
        let mut history = history(1, false);
        (history.holds[9].from_ms, history.holds[8].from_ms) = (5, 5);
        (history.holds[0].from_ms, history.holds[0].to_ms) = (5, Some(6));
        let lanes = Lanes::new("cards", &history);
        assert_eq!(lanes.from_ms, history.now_ms - 600_000);
        let time = lanes.time(1560.0);
        assert_eq!(lanes.x(&time, 5), frame::LEFT);
        drawn(&history);
    }

    #[test]
    fn where_nothing_has_happened_it_says_so() {
        let empty = HistoryView { now_ms: 5, ..HistoryView::default() };
        let why = Lanes::new("cards", &empty).size().unwrap_err();
        assert!(why.contains("pool cards"), "{why}");
    }
}
