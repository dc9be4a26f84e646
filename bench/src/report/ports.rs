//! Ports: rings of packets by themselves, and below testpmd beside DPDK's own ways.

use super::stats::{self, Percentiles};
use super::{Machine, Settings};
use crate::method::{Compared, Pair, Turns};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortsReport {
    /// Where it was measured.
    pub machine: Machine,
    pub settings: Settings,
    pub rows: Vec<PortsRow>,
}

/// What is measured, and beside what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortsFigure {
    /// A frame from one thread to another: half of a round trip, beside a bare line.
    OneWay,
    /// Frames a second through the ring, 32 at a time, beside memcpy through a ring of as much memory.
    Ring,
    /// A look at an empty ring, beside a look at a bare line.
    EmptyLook,
    /// The ring, beside testpmd's net_memif.
    RingMemif,
    /// The ring, beside testpmd's net_vhost with virtio-user.
    RingVhost,
    /// testpmd's net_vfun, beside its net_memif.
    DriverMemif,
    /// testpmd's net_vfun, beside its net_vhost with virtio-user.
    DriverVhost,
    /// Frames a second over a direct link, beside Open vSwitch with DPDK between two ports.
    LinkOneWay,
    /// The same where both ends send and take. With two processors both ends by the switch are one thread.
    LinkBothWays,
}

/// Figures of one side of a row: the middle, the lowest and the highest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reach {
    middle: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

impl Reach {
    /// Of these figures.
    pub fn of(figures: &[f64]) -> Self {
        let (low, high) = stats::range(figures).unzip();
        Reach { middle: stats::median(figures), low, high }
    }
}

/// One figure; medians of undisturbed slices, or of rounds with testpmd, of which each has its best second. What
/// does not apply is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortsRow {
    pub figure: PortsFigure,
    /// Bytes of a frame; null where there is none.
    pub frame_bytes: Option<u32>,
    pub p50_ns: Option<f64>,
    pub p99_ns: Option<f64>,
    /// The same of what it is held against.
    pub base_p50_ns: Option<f64>,
    pub base_p99_ns: Option<f64>,
    pub frames_per_s: Option<f64>,
    /// The lowest and the highest of what the median is of.
    pub frames_per_s_low: Option<f64>,
    pub frames_per_s_high: Option<f64>,
    pub base_per_s: Option<f64>,
    pub base_per_s_low: Option<f64>,
    pub base_per_s_high: Option<f64>,
    /// Threads that looked without a pause while it was measured.
    pub spinning: u32,
    /// Processors that there were for them. Where these are fewer, the figures mean little.
    pub processors: u32,
    /// Why it was not measured; null if it was.
    pub left_out: Option<String>,
    /// The figure over that beside it, at the median of undisturbed pairs of slices, or of rounds; null if more than
    /// half of the pairs were disturbed.
    pub ratio: Option<f64>,
    /// The lower end of the interval that holds it in 95 of 100 runs; null without 6 undisturbed pairs.
    pub ratio_low: Option<f64>,
    /// Upper end of the interval above.
    pub ratio_high: Option<f64>,
    /// Pairs of slices, or rounds, that ran.
    pub pairs: u32,
    /// Pairs of these that were dropped: the kernel counted a disturbance in a slice, or in a best second.
    pub dropped: u32,
}

fn median(of: &[Percentiles], by: impl Fn(&Percentiles) -> f64) -> Option<f64> {
    stats::median(&of.iter().map(by).collect::<Vec<_>>())
}

impl PortsRow {
    fn new(figure: PortsFigure, frame_bytes: Option<u32>, ratio: Compared) -> Self {
        PortsRow {
            figure,
            frame_bytes,
            p50_ns: None,
            p99_ns: None,
            base_p50_ns: None,
            base_p99_ns: None,
            frames_per_s: None,
            frames_per_s_low: None,
            frames_per_s_high: None,
            base_per_s: None,
            base_per_s_low: None,
            base_per_s_high: None,
            // Both ends look all the time.
            spinning: if figure == PortsFigure::EmptyLook { 1 } else { 2 },
            processors: 1,
            left_out: None,
            ratio: ratio.ratio,
            ratio_low: ratio.low,
            ratio_high: ratio.high,
            pairs: ratio.pairs,
            dropped: ratio.dropped,
        }
    }

    /// On so many processors.
    #[must_use]
    pub fn on(self, processors: u32) -> Self {
        PortsRow { processors, ..self }
    }

    /// With so many threads that look.
    #[must_use]
    pub fn spun(self, spinning: u32) -> Self {
        PortsRow { spinning, ..self }
    }

    /// Whether more threads looked than there were processors.
    pub fn is_crowded(&self) -> bool {
        self.spinning > self.processors
    }

    /// Ratio and interval together.
    pub fn compared(&self) -> Compared {
        Compared {
            ratio: self.ratio,
            low: self.ratio_low,
            high: self.ratio_high,
            pairs: self.pairs,
            dropped: self.dropped,
        }
    }

    /// From round trips in turns: the ring's, the bare line's.
    pub fn one_way(frame_bytes: u32, turns: &Turns<Percentiles>) -> Self {
        let (own, line) = (turns.kept(0), turns.kept(1));
        PortsRow {
            p50_ns: median(&own, |p| p.p50 as f64 / 2.0),
            p99_ns: median(&own, |p| p.p99 as f64 / 2.0),
            base_p50_ns: median(&line, |p| p.p50 as f64 / 2.0),
            base_p99_ns: median(&line, |p| p.p99 as f64 / 2.0),
            ..Self::new(PortsFigure::OneWay, Some(frame_bytes), turns.over(0, 1, |p| p.p50 as f64))
        }
    }

    /// From times of one look: at the ring, at the line. How slow the slowest slices were is the p99.
    pub fn empty_look(turns: &Turns<f64>) -> Self {
        let tenths = |variant| {
            let mut all: Vec<u64> =
                turns.kept(variant).iter().map(|ns| (ns * 1e3).round() as u64).collect();
            Percentiles::of(&mut all).map(|p| p.p99 as f64 / 1e3)
        };
        PortsRow {
            p50_ns: stats::median(&turns.kept(0)),
            p99_ns: tenths(0),
            base_p50_ns: stats::median(&turns.kept(1)),
            base_p99_ns: tenths(1),
            ..Self::new(PortsFigure::EmptyLook, None, turns.over(0, 1, |ns| *ns))
        }
    }

    fn rates(self, own: Reach, base: Reach) -> Self {
        PortsRow {
            frames_per_s: own.middle,
            frames_per_s_low: own.low,
            frames_per_s_high: own.high,
            base_per_s: base.middle,
            base_per_s_low: base.low,
            base_per_s_high: base.high,
            ..self
        }
    }

    /// From frames a second in turns: the ring's, memcpy's.
    pub fn ring(frame_bytes: u32, turns: &Turns<f64>) -> Self {
        let ratio = turns.over(0, 1, |per_s| *per_s);
        let row = Self::new(PortsFigure::Ring, Some(frame_bytes), ratio);
        row.rates(Reach::of(&turns.kept(0)), Reach::of(&turns.kept(1)))
    }

    /// From rounds with testpmd: what each brought of both sides, of those rounds in which both ran.
    pub fn rounds(figure: PortsFigure, frame_bytes: u32, pairs: &[Pair]) -> Self {
        let (own, base): (Vec<f64>, Vec<f64>) = pairs.iter().map(|p| (p.figure, p.base)).unzip();
        let row = Self::new(figure, Some(frame_bytes), Compared::of(pairs));
        row.rates(Reach::of(&own), Reach::of(&base))
    }

    /// One that was not measured, and why.
    pub fn left_out(figure: PortsFigure, frame_bytes: u32, why: &str) -> Self {
        let row = Self::new(figure, Some(frame_bytes), Compared::default());
        PortsRow { left_out: Some(why.to_owned()), ..row }
    }
}
