//! What takes microseconds at most: calls, answers of the guest's own, and calls that nobody waits
//! for.

use super::job::{Bed, RemotingJob};
use super::side::Side;
use super::slice::{Effort, Slice};
use super::taken::{added_over, least};
use crate::measure::{Clock, open};
use crate::method::{SLICE, turns};
use crate::report::{RemotingExperiment, RemotingRatio, RemotingRow, stats};
use crate::{BenchError, Result};
use vfun::{Function, FunctionRequest, Session};

/// Times of a slice.
const CALLS: Effort = Effort { most: 20_000, time: SLICE };
/// Calls that are not counted: after them both sides are awake.
const WARM: Effort = Effort { most: 500, time: std::time::Duration::from_millis(1) };
/// Answers of the guest's own that are timed together: one takes a few ns.
const TOGETHER: u32 = 256;
/// Released transfers behind which a call goes.
const RECORDS: u64 = 64;
/// The same, a few times in a slice: making transfers that can be released takes longer.
const RELEASES: Effort = Effort { most: 8, time: SLICE };

/// The null call of this library: no arguments, no result.
pub fn null(session: &Session) -> Result<Function> {
    open(session, &FunctionRequest::new("echo").depth(4).cell_bytes(0))
}

pub fn call(function: &Function) -> Result<()> {
    Ok(function.call_into(&[], &mut []).map(|_| ())?)
}

/// Times of single calls, after some that do not count.
pub fn calls_of(clock: &Clock, mut f: impl FnMut() -> Result<()>) -> Result<Option<Slice>> {
    Slice::timed(clock, WARM, 1, &mut f)?;
    Slice::timed(clock, CALLS, 1, f)
}

/// Bytes of `gdma_node_by_id` on their way: a head, two names, a number.
const BYTES: usize = 28;

/// A call of as many bytes through a channel of the same shape, whose driver copies them.
fn echo(session: &Session) -> Result<Function> {
    open(session, &FunctionRequest::new("echo").depth(64).cell_bytes(4096))
}

/// A forwarded call beside a null call.
pub fn calls(bed: &Bed) -> Result<Vec<RemotingRow>> {
    let session = bed.session()?;
    let (null, echo) = (null(&session)?, echo(&session)?);
    call(&null)?;
    let bytes = || Ok(echo.call_into(&[0; BYTES], &mut [0; BYTES]).map(|_| ())?);
    bytes()?;
    let taken = turns(bed.job.turns, 4, &bed.watch()?, |variant, _| match variant {
        0 => calls_of(&bed.clock, || call(&null)),
        1 => calls_of(&bed.clock, || bed.remoted.ask()),
        2 => calls_of(&bed.clock, bytes),
        _ => calls_of(&bed.clock, || bed.native.ask()),
    })?;
    null.release()?;
    echo.release()?;
    let row = |base| bed.row(RemotingExperiment::Calls, "gdma_node_by_id", base);
    let crossings = crossings(&bed.remoted, || bed.remoted.ask())?;
    let beside = [("null call", 0), ("echo of as many bytes", 2), ("native", 3)];
    let rows = beside.map(|(base, variant)| RemotingRow {
        crossings,
        ..row(base).of_slices(&taken, 1, variant)
    });
    Ok(rows.into())
}

/// How often a call goes to the host.
fn crossings(side: &Side, mut f: impl FnMut() -> Result<()>) -> Result<Option<f64>> {
    const CALLS: u32 = 1000;
    f()?;
    let Some(before) = side.api.crossings() else { return Ok(None) };
    for _ in 0..CALLS {
        f()?;
    }
    let after = side.api.crossings().unwrap_or(before);
    Ok(Some((after - before) as f64 / f64::from(CALLS)))
}

/// Answers that the guest's library keeps, and answers that it makes by itself.
pub fn answers(bed: &Bed) -> Result<Vec<RemotingRow>> {
    type Ask = fn(&Side) -> Result<()>;
    let node: Ask = |side| Ok(side.api.node_id(side.near).map(|_| ())?);
    let buffer: Ask = |side| Ok(side.api.buffer_id(side.here).map(|_| ())?);
    let cases = [("gdma_node_id, kept", node), ("gdma_buffer_id, local", buffer)];
    let watch = bed.watch()?;
    let each = cases.map(|(case, ask)| {
        let crossings = crossings(&bed.remoted, || ask(&bed.remoted))?;
        let taken = turns(bed.job.turns, 2, &watch, |variant, _| {
            let side = if variant == 0 { &bed.native } else { &bed.remoted };
            Slice::timed(&bed.clock, WARM, TOGETHER, || ask(side))?;
            Slice::timed(&bed.clock, CALLS, TOGETHER, || ask(side))
        })?;
        let row = bed.row(RemotingExperiment::Answers, case, "native");
        Ok(RemotingRow { crossings, ..row.of_slices(&taken, 1, 0) })
    });
    each.into_iter().collect()
}

/// Times of releasing transfers that have ended, with one call behind them.
fn releases(side: &Side) -> Result<Option<Slice>> {
    Slice::told(RELEASES, || {
        let ended = side.ended(RECORDS)?;
        side.ask()?;
        side.release_all(&ended)
    })
}

/// What a call adds that nobody waits for, beside a null call.
pub fn records(bed: &Bed) -> Result<Vec<RemotingRow>> {
    const NULL: usize = 0;
    let session = bed.session()?;
    let null = null(&session)?;
    call(&null)?;
    let (watch, count) = (bed.watch()?, bed.job.turns / 2 + 1);
    let taken = turns(count, 5, &watch, |variant, _| match variant {
        NULL => calls_of(&bed.clock, || call(&null)),
        1 => calls_of(&bed.clock, || bed.remoted.ask()),
        2 => releases(&bed.remoted),
        3 => calls_of(&bed.clock, || bed.native.ask()),
        _ => releases(&bed.native),
    })?;
    null.release()?;
    // Of one record, by what all of them add to the call behind them.
    let row = |case: &str, (many, one): (usize, usize)| {
        let parts = RECORDS as f64;
        let whole = bed.row(RemotingExperiment::Records, case, "null call");
        let whole = whole.of_slices(&taken, many, one);
        let null = whole.clone().of_slices(&taken, many, NULL);
        let ratio = added_over(&taken, (many, one), parts, (NULL, 1.0));
        let least = least(&taken, [many, one, NULL]);
        let each = RemotingRow {
            p50_ns: whole.added_ns.map(|ns| ns / parts),
            p99_ns: None,
            least_ns: least.map(|[all, one, _]| (all - one) / parts),
            most_ns: None,
            added_ns: None,
            base_p50_ns: null.base_p50_ns,
            base_p99_ns: null.base_p99_ns,
            base_least_ns: least.map(|[_, _, null]| null),
            ..whole
        };
        each.compared_by(RemotingRatio::Added, ratio)
    };
    let remoted = row("gdma_transfer_release, collected", (2, 1));
    let crossings = release_crossings(&bed.remoted)?;
    Ok(vec![RemotingRow { crossings, ..remoted }, row("gdma_transfer_release, native", (4, 3))])
}

/// How often releasing one goes to the host, the call behind them included.
fn release_crossings(side: &Side) -> Result<Option<f64>> {
    let ended = side.ended(RECORDS)?;
    let before = side.api.crossings();
    side.release_all(&ended)?;
    let both = side.api.crossings().zip(before);
    Ok(both.map(|(after, before)| (after - before) as f64 / RECORDS as f64))
}

/// The medians of so many slices: p50 and p99.
fn medians(count: usize, mut slice: impl FnMut() -> Result<Option<Slice>>) -> Result<[f64; 2]> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.extend(slice()?);
    }
    let median = |f: fn(&Slice) -> f64| stats::median(&all.iter().map(f).collect::<Vec<_>>());
    let both = median(|s| s.p50).zip(median(|s| s.p99));
    let (p50, p99) = both.ok_or_else(|| BenchError::Driver("no call was timed".into()))?;
    Ok([p50, p99])
}

/// A null call and a forwarded call, one after the other: a service that spins needs its processor
/// for itself.
pub fn waiting(
    job: &RemotingJob,
    clock: &Clock,
    session: impl FnOnce() -> Result<Session>,
) -> Result<Vec<RemotingRow>> {
    let base = {
        let session = session()?;
        let null = null(&session)?;
        let both = medians(job.turns, || calls_of(clock, || call(&null)))?;
        null.release()?;
        both
    };
    let side = Side::open(&job.remoted, None, clock)?;
    let forwarded = medians(job.turns, || calls_of(clock, || side.ask()))?;
    side.close()?;
    let row =
        RemotingRow::new(RemotingExperiment::Waiting, "gdma_node_by_id", job.wait, "null call");
    Ok(vec![RemotingRow {
        p50_ns: Some(forwarded[0]),
        p99_ns: Some(forwarded[1]),
        base_p50_ns: Some(base[0]),
        base_p99_ns: Some(base[1]),
        ..row
    }])
}
