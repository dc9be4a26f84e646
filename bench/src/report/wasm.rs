//! What a function in WebAssembly costs beside its native kin, and how soon a
//! submitted one is there.

use super::{Machine, stats};
use crate::method::{Compared, Turns, median_interval};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// A native function and the same in WebAssembly, each in its own service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WasmRow {
    /// The function, or kind of call, that was measured.
    pub what: String,
    /// Native, ns: the median of undisturbed slices.
    pub native_ns: f64,
    /// In WebAssembly, ns, in turns with it.
    pub wasm_ns: f64,
    /// The median of the pairs' differences, ns; null if more than half of the pairs were disturbed.
    pub more_ns: Option<f64>,
    /// The interval that holds it in 95 of 100 runs; null without 6 undisturbed pairs.
    pub more_ns_interval: Option<(f64, f64)>,
    /// The median of the pairs' ratios.
    pub ratio: Option<f64>,
    /// The interval of the ratio: lower and upper end.
    pub ratio_interval: Option<(f64, f64)>,
    /// Pairs of slices that ran.
    pub pairs: u32,
    /// Pairs of these that were dropped: the kernel counted a disturbance in a slice.
    pub dropped: u32,
}

/// How long it took from handing a module over to the new function's first result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubmitRow {
    /// Whether the service that takes modules ran already.
    pub service: String,
    /// Half took no longer, ns.
    pub p50_ns: f64,
    /// 99 of 100 took no longer, ns; with fewer, the slowest.
    pub p99_ns: f64,
    /// Of that, until the submission was answered: half took no longer, ns.
    pub submitted_p50_ns: f64,
    /// Of that, checking and compiling, by the host's account, ns.
    pub compiled_p50_ns: f64,
    /// How many modules were submitted.
    pub modules: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WasmReport {
    /// Where it was measured.
    pub machine: Machine,
    /// What calls take, native and in WebAssembly.
    pub rows: Vec<WasmRow>,
    /// What it takes to submit a module.
    pub submissions: Vec<SubmitRow>,
    /// Bytes of the module that was submitted.
    pub module_bytes: usize,
}

impl WasmRow {
    /// Of both in turns, the native one first, ns.
    pub fn of(what: &str, turns: &Turns<f64>) -> Self {
        let median = |v: &[f64]| stats::median(v).unwrap_or_default();
        let ratio = turns.over(1, 0, |ns| *ns);
        let pairs = turns.pairs(1, 0, |ns| *ns);
        let kept = pairs.iter().filter(|p| !p.disturbed);
        let more: Vec<_> = kept.map(|p| p.figure - p.base).collect();
        WasmRow {
            what: what.into(),
            native_ns: median(&turns.kept(0)),
            wasm_ns: median(&turns.kept(1)),
            more_ns: ratio.ratio.and_then(|_| stats::median(&more)),
            more_ns_interval: ratio.interval().and_then(|_| median_interval(&more)),
            ratio: ratio.ratio,
            ratio_interval: ratio.interval(),
            pairs: ratio.pairs,
            dropped: ratio.dropped,
        }
    }

    /// The row as one line of text.
    fn text(&self) -> String {
        let (low, high) = self.ratio_interval.unzip();
        let (pairs, dropped) = (self.pairs, self.dropped);
        let ratio = Compared { ratio: self.ratio, low, high, pairs, dropped };
        let more = match (self.more_ns, self.more_ns_interval) {
            (Some(more), Some((low, high))) => format!("{more:+.1} ns ({low:+.1} … {high:+.1})"),
            _ => "cannot tell".to_owned(),
        };
        format!(
            "  {:<34} native {:9.1} ns  WebAssembly {:9.1} ns  more {more}  ratio {} ({dropped} of {pairs} dropped)",
            self.what,
            self.native_ns,
            self.wasm_ns,
            ratio.words()
        )
    }
}

impl SubmitRow {
    /// Of these, each the whole, the submission's part and the compiler's, ns.
    pub fn of(service: &str, times: &[[f64; 3]]) -> Option<Self> {
        let part = |i: usize| {
            let mut sorted: Vec<u64> = times.iter().map(|t| t[i] as u64).collect();
            stats::Percentiles::of(&mut sorted)
        };
        let whole = part(0)?;
        Some(SubmitRow {
            service: service.into(),
            p50_ns: whole.p50 as f64,
            p99_ns: whole.p99 as f64,
            submitted_p50_ns: part(1)?.p50 as f64,
            compiled_p50_ns: part(2)?.p50 as f64,
            modules: times.len() as u32,
        })
    }
}

impl WasmReport {
    /// As a table for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.machine.line());
        for r in &self.rows {
            let _ = writeln!(text, "{}", r.text());
        }
        let _ = writeln!(
            text,
            "\nfrom handing over a module of {} bytes to the first result of its function",
            self.module_bytes
        );
        for r in &self.submissions {
            let _ = writeln!(
                text,
                "  {:<34} p50 {:6.2} ms  p99 {:6.2} ms  (answered {:.2} ms, compiled {:.2} ms; {} modules)",
                r.service,
                r.p50_ns / 1e6,
                r.p99_ns / 1e6,
                r.submitted_p50_ns / 1e6,
                r.compiled_p50_ns / 1e6,
                r.modules
            );
        }
        text
    }
}
