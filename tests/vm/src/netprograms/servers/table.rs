//! What was measured, as a table and as JSON.

use super::{Change, Latency, Server};
use serde_json::{Value, json as object};

/// What stands above all figures.
const WHAT: &str = "real path: a vhost-user port of Open vSwitch with DPDK, in an emulated (TCG) guest; not an SR-IOV card";
/// What others found, with a card.
const PUBLISHED: &str = "published (FlexVF; a 10 GbE card with SR-IOV, KVM): figure 1, Xapian, p95: a VF is 22.7 % better than \
     paravirtual and 30 % better than emulated, close to bare. Figures 2 and 3: 1.6 % (Sphinx) to 12 % (Masstree) over paravirtual";
const PUBLISHED_CHANGE: &str =
    "published (figure 6): MySQL with sysbench, 7 to 10 ms without a VF, 2 ms with one";

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Server and client on this machine, over its loopback.
    Bare,
    Emulated,
    Paravirtual,
    Vf,
}

pub const ROUTES: [Route; 4] = [Route::Bare, Route::Emulated, Route::Paravirtual, Route::Vf];

impl Route {
    fn name(self) -> &'static str {
        match self {
            Route::Bare => "bare",
            Route::Emulated => "emulated",
            Route::Paravirtual => "paravirtual",
            Route::Vf => "vf",
        }
    }
}

/// All slices of a server.
pub struct Figures {
    server: &'static Server,
    slices: [Vec<Latency>; ROUTES.len()],
    /// How often the VF came or went while the server was asked all the time, and answers then.
    moves: usize,
    answered_moving: usize,
    /// Requests that were not answered while it came or went.
    pub failed_moving: usize,
}

/// The middle one, the least, the most.
struct Spread {
    middle: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let middle = *sorted.get(sorted.len() / 2)?;
        Some(Spread { middle, least: *sorted.first()?, most: *sorted.last()? })
    }

    fn json(&self) -> Value {
        object!({ "median": self.middle, "least": self.least, "most": self.most })
    }
}

impl Figures {
    pub fn new(server: &'static Server) -> Self {
        let slices = Default::default();
        Figures { server, slices, moves: 0, answered_moving: 0, failed_moving: 0 }
    }

    pub fn add(&mut self, path: Route, slice: Latency) {
        self.slices[path as usize].push(slice);
    }

    /// Adds what was asked while the VF came or went, and whether that was over in time.
    pub fn moved(&mut self, asked: Latency, in_time: bool) {
        self.failed_moving += asked.failed;
        if in_time {
            self.moves += 1;
            self.answered_moving += asked.answered;
        }
    }

    /// Requests that were not answered in all slices.
    pub fn failed(&self) -> usize {
        self.slices.iter().flatten().map(|l| l.failed).sum()
    }

    fn of(&self, path: Route, what: impl Fn(&Latency) -> f64) -> Option<Spread> {
        Spread::of(self.slices[path as usize].iter().map(what))
    }

    /// Each slice by a path over the one beside it by another path.
    fn over(&self, path: Route, other: Route, what: impl Fn(&Latency) -> f64) -> Option<Spread> {
        let pairs = self.slices[path as usize].iter().zip(&self.slices[other as usize]);
        Spread::of(pairs.map(|(a, b)| what(a) / what(b)))
    }

    fn row(&self) -> String {
        let mut row = format!("| {} ({}) ", self.server.name, self.server.load);
        for path in ROUTES {
            let us = |what: fn(&Latency) -> f64| {
                self.of(path, what).map_or("-".into(), |s| format!("{:.0}", s.middle))
            };
            row += &format!("| {}, {} ", us(|l| l.p50_us), us(|l| l.p99_us));
        }
        for (path, other) in OVER {
            let ratio = self.over(path, other, |l| l.p50_us);
            row += &ratio.map_or("| - ".into(), |r| {
                format!("| {:.2} ({:.2} … {:.2}) ", r.middle, r.least, r.most)
            });
        }
        let (moves, failed) = (self.moves, self.failed_moving);
        row + &format!("| {moves}, {}, {failed} |\n", self.answered_moving)
    }

    fn json(&self) -> Value {
        let paths = ROUTES.map(|path| {
            let slices = &self.slices[path as usize];
            let all = |what: fn(&Latency) -> f64| slices.iter().map(what).collect::<Vec<_>>();
            let count = |what: fn(&Latency) -> usize| slices.iter().map(what).sum::<usize>();
            let figures = object!({
                "p50_us": all(|l| l.p50_us), "p99_us": all(|l| l.p99_us),
                "answered": count(|l| l.answered), "failed": count(|l| l.failed),
            });
            (path.name().to_owned(), figures)
        });
        let ratios = OVER.map(|(path, other)| {
            let name = format!("{}_over_{}", path.name(), other.name());
            let ratio = |what: fn(&Latency) -> f64| self.over(path, other, what).map(|s| s.json());
            (name, object!({ "p50": ratio(|l| l.p50_us), "p99": ratio(|l| l.p99_us) }))
        });
        object!({
            "server": self.server.name, "load": self.server.load,
            "paths": Value::Object(paths.into_iter().collect()),
            "ratios": Value::Object(ratios.into_iter().collect()),
            "while_moving": {
                "moves": self.moves, "answered": self.answered_moving, "failed": self.failed_moving,
            },
        })
    }
}

/// What is compared.
const OVER: [(Route, Route); 2] = [(Route::Vf, Route::Paravirtual), (Route::Vf, Route::Emulated)];

/// The table.
pub fn text(all: &[Figures], change: &Change, load: &str) -> String {
    let mut text = format!(
        "{WHAT}\nload of the machine before (/proc/loadavg): {load}\np50 and p99 of a request in µs (the middle one of the slices); ratios of the p50 of slices beside each other: median (least … most)\n\n"
    );
    text += "| server (load) | bare | emulated NIC | paravirtual NIC | VF | VF ÷ paravirtual | VF ÷ emulated | the VF came or went, answered meanwhile, failed |\n";
    text += "|---|---|---|---|---|---|---|---|\n";
    all.iter().for_each(|figures| text += &figures.row());
    let ms = |ms: Option<f64>| ms.unwrap_or(f64::NAN);
    let (before, after) = (ms(change.before_ms()), ms(change.after_ms()));
    text += &format!(
        "{PUBLISHED}\n\nthe policy `activity` gives the VF to the VM of a busy MariaDB (sysbench, one thread; the other VM is idle):\n"
    );
    text += "| p50 of a transaction before, after | after ÷ before | the VF came | longest of all | answered, failed |\n|---|---|---|---|---|\n";
    text += &format!(
        "| {before:.1} ms, {after:.1} ms | {:.2} | {:.1} s after it might | {:.0} ms | {}, {} |\n",
        after / before,
        change.came_s - change.allowed_s,
        change.longest_ms,
        change.transactions,
        change.failed
    );
    text + PUBLISHED_CHANGE
}

/// All of it, for programs.
pub fn json(all: &[Figures], change: &Change, load: &str) -> Value {
    object!({
        "what": WHAT,
        "loadavg_before": load,
        "published": [PUBLISHED, PUBLISHED_CHANGE],
        "servers": all.iter().map(Figures::json).collect::<Vec<_>>(),
        "activity": {
            "before_ms": change.before_ms(), "after_ms": change.after_ms(),
            "seconds_ms": change.seconds_ms, "allowed_s": change.allowed_s, "came_s": change.came_s,
            "longest_ms": change.longest_ms,
            "answered": change.transactions, "failed": change.failed,
        },
    })
}
