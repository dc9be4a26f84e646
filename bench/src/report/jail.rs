//! What the sandbox of services costs.

use super::{Machine, stats};
use crate::method::Compared;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Starts of services with some layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JailRow {
    /// `whole`, `none`, or the layer that was left out.
    pub sandbox: String,
    /// Layers that the services lacked, as the kernel told.
    pub missing: Vec<String>,
    /// Negotiate and activate with the service's start: half took no longer, ns.
    pub p50_ns: f64,
    /// 99 of 100 took no longer, ns; with fewer starts, the slowest.
    pub p99_ns: f64,
    /// How many services were started.
    pub starts: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JailReport {
    /// Where it was measured.
    pub machine: Machine,
    /// How long services take to start, with and without each layer.
    pub rows: Vec<JailRow>,
    /// The null call in the whole sandbox, ns: the median of undisturbed slices.
    pub call_ns: f64,
    /// The same without a sandbox, in turns with the other.
    pub call_without_ns: f64,
    /// The median of the ratios of undisturbed pairs; null if more than half of the pairs were disturbed.
    pub call_ratio: Option<f64>,
    /// The lower end of the interval that holds it in 95 of 100 runs; null without 6 undisturbed pairs.
    pub call_ratio_low: Option<f64>,
    /// Upper end of the interval above.
    pub call_ratio_high: Option<f64>,
    /// Pairs of slices that ran.
    pub pairs: u32,
    /// Pairs of these that were dropped: the kernel counted a disturbance in a slice.
    pub dropped: u32,
}

impl JailRow {
    /// Of these times, ns; `None` without any.
    pub fn of(sandbox: &str, missing: Vec<String>, times: &[f64]) -> Option<Self> {
        let mut sorted: Vec<u64> = times.iter().map(|t| *t as u64).collect();
        let p = stats::Percentiles::of(&mut sorted)?;
        Some(JailRow {
            sandbox: sandbox.to_owned(),
            missing,
            p50_ns: p.p50 as f64,
            p99_ns: p.p99 as f64,
            starts: times.len() as u32,
        })
    }
}

impl JailReport {
    /// As a table for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\nservice start, with\n", self.machine.line());
        let whole = self.rows.iter().find(|r| r.sandbox == "whole").map(|r| r.p50_ns);
        for r in &self.rows {
            let what = match r.sandbox.as_str() {
                "whole" => "the whole sandbox".to_owned(),
                "none" => "no sandbox".to_owned(),
                layer => format!("all but {layer}"),
            };
            let less = whole.map_or(String::new(), |w| format!("{:+8.2}", (r.p50_ns - w) / 1e6));
            let _ = writeln!(
                text,
                "  {what:<28} p50 {:7.2} ms  p99 {:7.2} ms {less}",
                r.p50_ns / 1e6,
                r.p99_ns / 1e6
            );
        }
        let (pairs, dropped) = (self.pairs, self.dropped);
        let (low, high) = (self.call_ratio_low, self.call_ratio_high);
        let ratio = Compared { ratio: self.call_ratio, low, high, pairs, dropped };
        let _ = writeln!(
            text,
            "\na null call: {:.0} ns with, {:.0} ns without; ratio {} ({dropped} of {pairs} pairs dropped)",
            self.call_ns,
            self.call_without_ns,
            ratio.words()
        );
        text
    }
}
