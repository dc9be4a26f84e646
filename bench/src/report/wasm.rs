//! What a function in WebAssembly costs beside its native kin, and how soon a
//! submitted one is there.

use super::{Machine, stats};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// A native function and the same in WebAssembly, each in its own service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WasmRow {
    /// What was called.
    pub what: String,
    /// Native, ns: the median of the rounds' medians.
    pub native_ns: f64,
    /// In WebAssembly, ns, in turns with it.
    pub wasm_ns: f64,
    /// The median of the rounds' differences, ns.
    pub more_ns: f64,
    /// The median of the rounds' ratios.
    pub ratio: f64,
    /// Least and greatest of them.
    pub ratios: (f64, f64),
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
    /// Modules.
    pub modules: u32,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WasmReport {
    /// Where it was measured.
    pub machine: Machine,
    /// Calls.
    pub rows: Vec<WasmRow>,
    /// Submissions.
    pub submissions: Vec<SubmitRow>,
    /// Bytes of the module that was submitted.
    pub module_bytes: usize,
}

impl WasmRow {
    /// Of rounds of both in turns, ns.
    pub fn of(what: &str, native: &[f64], wasm: &[f64]) -> Self {
        let each = |f: fn(f64, f64) -> f64| -> Vec<f64> {
            native.iter().zip(wasm).map(|(n, w)| f(*n, *w)).collect()
        };
        let median = |v: &[f64]| stats::median(v).unwrap_or_default();
        let ratios = each(|n, w| w / n);
        WasmRow {
            what: what.into(),
            native_ns: median(native),
            wasm_ns: median(wasm),
            more_ns: median(&each(|n, w| w - n)),
            ratio: median(&ratios),
            ratios: stats::range(&ratios).unwrap_or_default(),
        }
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
    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.machine.line());
        for r in &self.rows {
            let _ = writeln!(
                text,
                "  {:<34} native {:9.1} ns  WebAssembly {:9.1} ns  more {:+7.1} ns  ratio {:.3} (rounds {:.3} to {:.3})",
                r.what, r.native_ns, r.wasm_ns, r.more_ns, r.ratio, r.ratios.0, r.ratios.1
            );
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
