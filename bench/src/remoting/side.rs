//! The API on one of the two ways: a context with a buffer on each of two nodes.

use crate::Result;
use crate::lab::Pinned;
use crate::measure::Clock;
use std::collections::VecDeque;
use std::path::Path;
use vfun_bench_gdma::{Gdma, Handle, Signal};
use vfun_window::cycles;

/// Bytes of each buffer: the largest published transfer.
pub const LARGEST: u64 = 8 << 20;
/// Transfers under way at once: more than the engine takes, and fewer than a program may have.
const UNDER_WAY: u64 = 64;
/// The node of this program, and another one.
const NODES: [u32; 2] = [1, 2];

pub struct Side {
    pub api: Gdma,
    pub context: Handle,
    pub near: Handle,
    pub here: Handle,
    there: Handle,
    signal: &'static Signal,
    clock: Clock,
}

/// How a program learns that a transfer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learns {
    /// It asks until it has.
    Polled,
    /// By its callback.
    Event,
}

impl Side {
    /// Loads the library and opens it. The threads that it starts then run on this processor.
    pub fn open(library: &Path, cpu: Option<usize>, clock: &Clock) -> Result<Side> {
        let api = Gdma::load(library)?;
        let context = {
            let _pinned = Pinned::to(cpu);
            api.init()?
        };
        let [near, far] = [api.node_by_id(context, NODES[0])?, api.node_by_id(context, NODES[1])?];
        let (here, there) = (api.alloc(near, LARGEST)?, api.alloc(far, LARGEST)?);
        Ok(Side { api, context, near, here, there, signal: Signal::new(), clock: *clock })
    }

    fn ns(&self, from: u64, to: u64) -> f64 {
        to.wrapping_sub(from) as f64 * self.clock.ns_per_cycle()
    }

    /// A call that goes to the host and back, if this is the remoted side.
    pub fn ask(&self) -> Result<()> {
        Ok(self.api.node_by_id(self.context, NODES[0]).map(|_| ())?)
    }

    /// A buffer until a program can use it, and no longer. Its time, ns.
    pub fn allocation(&self, bytes: u64) -> Result<f64> {
        let from = cycles();
        let buffer = self.api.alloc(self.near, bytes)?;
        self.api.map(buffer)?;
        let took = self.ns(from, cycles());
        self.api.free(buffer)?;
        Ok(took)
    }

    /// One transfer. Its time from the call until the program knows that it has ended, ns.
    pub fn transfer(&self, bytes: u64, learns: Learns) -> Result<f64> {
        let before = self.signal.count();
        let from = cycles();
        let (transfer, at) = match learns {
            Learns::Event => {
                let transfer = self.api.start(self.there, self.here, bytes, Some(self.signal))?;
                (transfer, self.signal.wait(before + 1)?)
            }
            Learns::Polled => {
                let transfer = self.api.start(self.there, self.here, bytes, None)?;
                while !self.api.has_ended(transfer)? {
                    std::hint::spin_loop();
                }
                (transfer, cycles())
            }
        };
        self.api.release(transfer)?;
        Ok(self.ns(from, at))
    }

    /// So many transfers, as many under way as a program keeps. The time of all, ns.
    pub fn burst(&self, count: u64, bytes: u64, learns: Learns) -> Result<f64> {
        let before = self.signal.count();
        let mut under_way = VecDeque::new();
        let mut released = 0;
        let from = cycles();
        let mut last = from;
        for started in 0..count {
            let done = (learns == Learns::Event).then_some(self.signal);
            under_way.push_back(self.api.start(self.there, self.here, bytes, done)?);
            if started + 1 - released >= UNDER_WAY {
                last = self.oldest_ends(&mut under_way, before + released, learns)?;
                released += 1;
            }
        }
        while !under_way.is_empty() {
            last = self.oldest_ends(&mut under_way, before + released, learns)?;
            released += 1;
        }
        Ok(self.ns(from, last))
    }

    /// Waits until the oldest has ended, after so many before it; when.
    fn oldest_ends(
        &self,
        under_way: &mut VecDeque<Handle>,
        before: u64,
        learns: Learns,
    ) -> Result<u64> {
        let Some(oldest) = under_way.pop_front() else { return Ok(cycles()) };
        match learns {
            Learns::Event => self.signal.wait(before + 1).map(|_| ())?,
            Learns::Polled => {
                while !self.api.has_ended(oldest)? {
                    std::hint::spin_loop();
                }
            }
        }
        let at = cycles();
        self.api.release(oldest)?;
        Ok(at)
    }

    /// Transfers of nothing that have ended, with their callbacks.
    pub fn ended(&self, count: u64) -> Result<Vec<Handle>> {
        let before = self.signal.count();
        let start = |_| Ok(self.api.start(self.there, self.here, 0, Some(self.signal))?);
        let all = (0..count).map(start).collect::<Result<Vec<_>>>()?;
        self.signal.wait(before + count)?;
        Ok(all)
    }

    /// Releases them and asks the host once, behind all of them. The time of that, ns.
    pub fn release_all(&self, ended: &[Handle]) -> Result<f64> {
        let from = cycles();
        ended.iter().try_for_each(|&transfer| self.api.release(transfer))?;
        self.ask()?;
        Ok(self.ns(from, cycles()))
    }

    pub fn close(self) -> Result<()> {
        self.api.free(self.here)?;
        self.api.free(self.there)?;
        Ok(self.api.exit(self.context)?)
    }
}
