//! Protection domains, and memory that programs register.

use crate::context::{MadeRegion, Which};
use crate::errno::{Errno, status};
use crate::lent::LentBuffer;
use crate::limits::{RUNS_OF_CALL, STAGED_RUNS};
use crate::nic::{At, Nic};
use crate::quota::Wants;
use vfun_verbs::flags::access;
use vfun_verbs_nic::Registration;
use vfun_wire::PAGE;

/// Bytes of a run in a call (`VFUN_NIC_RUN_BYTES`).
const RUN_BYTES: usize = 24;

/// Lends a buffer by the handle that its program knows.
pub type Lend<'a> = &'a mut dyn FnMut(u64) -> Result<LentBuffer, Errno>;

/// A run of pages of a buffer, as a program names it.
pub struct BufferRun {
    pub buffer: u64,
    /// The first one: of the buffer, or a place of a table of pages.
    pub page: u64,
    pub pages: u64,
}

fn read_runs(bytes: &[u8]) -> Result<Vec<BufferRun>, Errno> {
    let (runs, rest) = bytes.as_chunks::<RUN_BYTES>();
    if !rest.is_empty() {
        return Err(Errno::INVALID);
    }
    if runs.len() > RUNS_OF_CALL {
        return Err(Errno::LIMIT);
    }
    let word = |run: &[u8; RUN_BYTES], at: usize| {
        u64::from_le_bytes(run[at * 8..][..8].try_into().expect("eight bytes"))
    };
    let run = |run| BufferRun { buffer: word(run, 0), page: word(run, 1), pages: word(run, 2) };
    Ok(runs.iter().map(run).collect())
}

/// Pages that a region needs. None: it has no bytes, or ends beyond all addresses.
fn pages_of(iova: u64, length: u64) -> Option<u64> {
    iova.checked_add(length).filter(|_| length > 0)?;
    (iova % PAGE as u64).checked_add(length).map(|bytes| bytes.div_ceil(PAGE as u64))
}

impl Nic {
    pub fn vfun_nic_pd_make(&self, context: usize, pd: &mut usize) -> i32 {
        let made = self.of(context, |at| {
            let id = at.engine.make_pd(at.program)?;
            Ok(at.context.pds.insert(id)?)
        });
        let context = Which::of(context).context;
        status(made.map(|place| *pd = Which { context, place }.native()))
    }

    pub fn vfun_nic_pd_end(&self, pd: usize) -> i32 {
        let place = Which::of(pd).place;
        status(self.of(pd, |at| {
            // Those without a key are not the engine's yet.
            if at.context.regions.iter().any(|(_, region)| region.pd == place) {
                return Err(Errno::BUSY);
            }
            let id = *at.context.pds.get(place).ok_or(Errno::INVALID)?;
            at.engine.end_pd(at.program, id)?;
            at.context.pds.remove(place);
            Ok(())
        }))
    }

    /// Begins a region with these runs: the region, and its key if these are all.
    pub(crate) fn begin_region(
        &self,
        pd: usize,
        (iova, length, access): (u64, u64, u32),
        runs: &[u8],
        lend: Lend<'_>,
    ) -> Result<(usize, u32), Errno> {
        let runs = read_runs(runs)?;
        let Which { context, place } = Which::of(pd);
        self.register(pd, Some(Wants::Region(length)), |at| {
            at.context.pds.get(place).ok_or(Errno::INVALID)?;
            let mut region = MadeRegion::new(place, (iova, length, access));
            let key = add_runs(at, &mut region, &runs, lend)?;
            let place = at.context.regions.insert(region)?;
            at.context.region_bytes += u128::from(length);
            Ok((Which { context, place }.native(), key))
        })
    }

    /// Adds runs to a region that has no key yet: its key if these are the last.
    pub(crate) fn add_to_region(
        &self,
        mr: usize,
        runs: &[u8],
        lend: Lend<'_>,
    ) -> Result<u32, Errno> {
        let runs = read_runs(runs)?;
        let place = Which::of(mr).place;
        self.register(mr, None, |at| {
            let mut region = at.context.regions.remove(place).ok_or(Errno::INVALID)?;
            let done = match region.key {
                None => add_runs(at, &mut region, &runs, lend),
                Some(_) => Err(Errno::INVALID),
            };
            // It gets the place that it had: that one was left last.
            at.context.regions.insert(region)?;
            done
        })
    }

    pub fn vfun_nic_mr_end(&self, mr: usize) -> i32 {
        let place = Which::of(mr).place;
        status(self.of(mr, |at| {
            let region = at.context.regions.remove(place).ok_or(Errno::INVALID)?;
            if let Some(key) = region.key {
                at.engine.deregister(at.program, key)?;
            }
            at.context.region_bytes -= u128::from(region.length);
            at.station.staged -= region.runs.len();
            region.buffers.into_iter().for_each(|handle| at.station.leaves(at.engine, handle));
            Ok(())
        }))
    }
}

/// Adds runs, and registers the region if it is complete: its key, or 0. On a failure nothing
/// has changed.
fn add_runs(
    at: &mut At<'_>,
    region: &mut MadeRegion,
    runs: &[BufferRun],
    lend: Lend<'_>,
) -> Result<u32, Errno> {
    let before = region.runs.len();
    let done = take_runs(at, region, runs, lend).and_then(|all| match all {
        true => register(at, region),
        false => Ok(0),
    });
    let mut handles: Vec<u64> = runs.iter().map(|run| run.buffer).collect();
    handles.sort_unstable();
    handles.dedup();
    match done {
        Ok(key) => {
            handles.retain(|handle| !region.buffers.contains(handle));
            handles.iter().for_each(|handle| at.station.uses(*handle));
            region.buffers.append(&mut handles);
            at.station.staged -= before;
            if key != 0 {
                region.runs = vec![];
            }
            at.station.staged += region.runs.len();
        }
        Err(_) => {
            region.runs.truncate(before);
            handles.into_iter().for_each(|handle| at.station.tidy(at.engine, handle));
        }
    }
    done
}

/// Appends runs; whether the region has all of its pages then.
fn take_runs(
    at: &mut At<'_>,
    region: &mut MadeRegion,
    runs: &[BufferRun],
    lend: Lend<'_>,
) -> Result<bool, Errno> {
    let needed = pages_of(region.iova, region.length).ok_or(Errno::INVALID)?;
    // Before any is looked at: a run of a table costs time for each page.
    let named = region.runs.iter().map(|run| run.pages).chain(runs.iter().map(|run| run.pages));
    let pages = named.fold(0, u64::saturating_add);
    if pages > needed {
        return Err(Errno::INVALID);
    }
    let most = (STAGED_RUNS + region.runs.len()).saturating_sub(at.station.staged);
    let is_written =
        region.access & (access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0;
    for run in runs {
        let what = (run, is_written);
        at.station.append(at.engine, what, (&mut region.runs, most), lend)?;
    }
    Ok(pages == needed)
}

fn register(at: &mut At<'_>, region: &mut MadeRegion) -> Result<u32, Errno> {
    let pd = *at.context.pds.get(region.pd).ok_or(Errno::INVALID)?;
    let what = Registration {
        iova: region.iova,
        len: region.length,
        access: region.access,
        pages: &region.runs,
    };
    let key = at.engine.register(at.program, pd, &what)?;
    region.key = Some(key);
    Ok(key)
}
