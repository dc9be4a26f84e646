//! Buffers and transfers: figures 6 to 8, 10 and 11 of the published evaluation, and the delay of
//! callbacks.

use super::job::Bed;
use super::side::{LARGEST, Learns, Side};
use super::slice::{Effort, Slice};
use super::taken::{added_over, least};
use crate::Result;
use crate::measure::bare_doorbell;
use crate::method::{SLICE, turns};
use crate::report::{RemotingExperiment, RemotingRatio, RemotingRow};
use std::time::Duration;

/// The published sizes: 512 KiB to 8 MiB.
const SIZES: [u64; 5] = [512 << 10, 1 << 20, 2 << 20, 4 << 20, LARGEST];
/// The published bytes of all bursts together.
const BURST: f64 = (1u64 << 30) as f64;
/// The published small transfers: of a byte, and 64 KiB.
const SMALL: [u64; 2] = [1, 64 << 10];
/// Small transfers of a slice that counts how many go a second.
const COUNT: [u64; 2] = [256, 16];
/// Times of a slice.
const MANY: Effort = Effort { most: 2_000, time: SLICE };
const ONE: Effort = Effort { most: 1, time: Duration::ZERO };
/// Round trips of bare doorbells in a slice.
const BELLS: u32 = 200;

/// Both ways of the program's to learn of an end.
const WAYS: [(Learns, &str); 2] = [(Learns::Polled, "polled"), (Learns::Event, "by callback")];

fn sides(bed: &Bed, variant: usize) -> &Side {
    if variant == 0 { &bed.native } else { &bed.remoted }
}

/// Until a program can use a new buffer, by its size.
pub fn allocation(bed: &Bed) -> Result<Vec<RemotingRow>> {
    let watch = bed.watch()?;
    let row = |bytes| {
        let taken = turns(bed.job.turns, 2, &watch, |variant, _| {
            let side = sides(bed, variant);
            Slice::told(MANY, || side.allocation(bytes))
        })?;
        let row = bed.row(RemotingExperiment::Allocation, "gdma_buffer_alloc and _map", "native");
        let row = RemotingRow { bytes: Some(bytes), simulated: true, ..row };
        Ok(row.of_slices(&taken, 1, 0))
    };
    SIZES.into_iter().map(row).collect()
}

/// The rate of one transfer, by its size.
pub fn transfers(bed: &Bed) -> Result<Vec<RemotingRow>> {
    let watch = bed.watch()?;
    let row = |bytes: u64| {
        let taken = turns(bed.job.long_turns, 2, &watch, |variant, _| {
            let side = sides(bed, variant);
            Slice::told(ONE, || side.transfer(bytes, Learns::Event))
        })?;
        let row = bed.row(RemotingExperiment::Transfers, "one, by callback", "native");
        let row = RemotingRow { bytes: Some(bytes), simulated: true, ..row };
        Ok(row.of_slices(&taken, 1, 0).as_rate(&taken, (1, 0), bytes as f64))
    };
    SIZES.into_iter().map(row).collect()
}

/// The rate of many transfers together, by their size.
pub fn bursts(bed: &Bed) -> Result<Vec<RemotingRow>> {
    let watch = bed.watch()?;
    let row = |bytes: u64| {
        let count = ((BURST * bed.job.scale / bytes as f64).round() as u64).max(2);
        let taken = turns(bed.job.long_turns, 2, &watch, |variant, _| {
            let side = sides(bed, variant);
            Slice::told(ONE, || side.burst(count, bytes, Learns::Event))
        })?;
        let case = format!("{count} together, by callback");
        let row = bed.row(RemotingExperiment::Bursts, &case, "native");
        let row = RemotingRow { bytes: Some(bytes), simulated: true, ..row };
        Ok(row.of_slices(&taken, 1, 0).as_rate(&taken, (1, 0), (count * bytes) as f64))
    };
    SIZES.into_iter().map(row).collect()
}

/// How much later a callback comes, beside a bare doorbell.
pub fn completion(bed: &Bed) -> Result<Vec<RemotingRow>> {
    let taken = turns(bed.job.turns, 3, &bed.watch()?, |variant, _| match variant {
        2 => {
            let trips = bare_doorbell(&bed.clock, bed.service(), BELLS, SLICE)?;
            // One ring and one wake are half of it.
            let half = |ns: u64| ns as f64 / 2.0;
            Ok(Some(Slice { p50: half(trips.p50), p99: half(trips.p99), times: BELLS }))
        }
        _ => {
            let side = sides(bed, variant);
            Slice::told(MANY, || {
                // The service is awake, so that what is added is the way back.
                side.ask()?;
                side.transfer(1, Learns::Event)
            })
        }
    })?;
    let row = |base| {
        let row = bed.row(RemotingExperiment::Completion, "1 byte, start to callback", base);
        RemotingRow { bytes: Some(1), simulated: true, ..row }
    };
    let of_bell = added_over(&taken, (1, 0), 1.0, (2, 1.0));
    let bell = row("bare doorbell").of_slices(&taken, 1, 2);
    let native = row("native").of_slices(&taken, 1, 0);
    // What is compared with a doorbell is what came on top of the native time.
    let least = least(&taken, [1, 0, 2]);
    let bell = RemotingRow {
        case: "the same, less the native time".to_owned(),
        p50_ns: native.added_ns,
        p99_ns: None,
        least_ns: least.map(|[remoted, own, _]| remoted - own),
        base_least_ns: least.map(|[_, _, bell]| bell),
        most_ns: None,
        added_ns: None,
        ..bell
    };
    Ok(vec![native, bell.compared_by(RemotingRatio::Added, of_bell)])
}

/// From a transfer's start until the program knows of its end.
pub fn latency(bed: &Bed) -> Result<Vec<RemotingRow>> {
    let watch = bed.watch()?;
    let mut rows = Vec::new();
    for bytes in SMALL {
        for (learns, case) in WAYS {
            let taken = turns(bed.job.turns, 2, &watch, |variant, _| {
                let side = sides(bed, variant);
                Slice::told(MANY, || side.transfer(bytes, learns))
            })?;
            let row = bed.row(RemotingExperiment::Latency, case, "native");
            let row = RemotingRow { bytes: Some(bytes), simulated: true, ..row };
            rows.push(row.of_slices(&taken, 1, 0));
        }
    }
    Ok(rows)
}

/// Small transfers a second.
pub fn throughput(bed: &Bed) -> Result<Vec<RemotingRow>> {
    let watch = bed.watch()?;
    let mut rows = Vec::new();
    for (bytes, count) in SMALL.into_iter().zip(COUNT) {
        for (learns, case) in WAYS {
            let taken = turns(bed.job.turns / 2 + 1, 2, &watch, |variant, _| {
                let side = sides(bed, variant);
                Slice::told(ONE, || Ok(side.burst(count, bytes, learns)? / count as f64))
            })?;
            let row = bed.row(RemotingExperiment::Throughput, case, "native");
            let row = RemotingRow { bytes: Some(bytes), simulated: true, ..row };
            let work = bytes as f64;
            rows.push(row.of_slices(&taken, 1, 0).as_rate(&taken, (1, 0), work));
        }
    }
    Ok(rows)
}
