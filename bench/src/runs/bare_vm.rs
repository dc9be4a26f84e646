//! Calls from a bare virtual machine beside calls from the host.

use super::Bench;
use crate::measure::{BareVm, Job, Outcome};
use crate::report::LatencyRow;
use crate::{BenchError, Result};
use std::time::Duration;

/// What is measured, in the words of every report.
const WHAT: &str = "user-mode code in a bare KVM virtual machine, without a guest kernel";
/// Most samples in a turn, and most time, as for round trips elsewhere.
const SAMPLES: u32 = 20_000;
const MILLIS: u32 = 60;

fn words(measured: &BareVm) -> String {
    let over_host = measured.over_host.map_or_else(String::new, |ratio| {
        format!("; its null call takes {ratio:.3} × that of host-host in the same round")
    });
    format!(
        "{WHAT}{over_host}; timed in the machine by the processor's counter, whose rate there is {:.5} of the host's",
        measured.counter
    )
}

/// The rows, and a note on what they are.
pub(super) fn bare_vm(bench: &mut Bench, place: usize, rounds: u32) -> Result<Vec<LatencyRow>> {
    let job = Job::BareVm { rounds, samples: SAMPLES, millis: MILLIS };
    match bench.place(place).run(&job, Duration::ZERO)? {
        Outcome::BareVm(measured) => {
            bench.note("kvm_bare", words(&measured));
            Ok(measured.rows)
        }
        _ => Err(BenchError::BareVm("it answered another job".into())),
    }
}
