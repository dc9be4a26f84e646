//! The tables of one tenant's NIC.

use crate::events::{Event, Events};
use crate::limits::*;
use crate::names::{Drawn, Random};
use crate::payload::Payload;
use crate::program::{Program, ProgramCounts};
use crate::qp::{Ah, Cq, Pd, Qp, Srq};
use crate::region::Region;
use crate::slab::{ProgramId, Slab};
use std::collections::BTreeSet;
use vfun_queue::Memory;

/// What happened so far; each number wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// What entries did, of all programs together.
    pub all: ProgramCounts,
    /// Looks at queue pairs: those without work should have none.
    pub looks: u64,
    /// Queue pairs whose doorbell bits were found to differ.
    pub rung: u64,
    /// Events lost because nobody took those before.
    pub lost_events: u64,
}

/// Memory that may be reached by keys.
pub(crate) struct Regions<P> {
    pub windows: Slab<P>,
    /// How many parts of regions lie in each.
    pub parts: Vec<u32>,
    pub keys: Drawn<Region>,
}

/// A software NIC: everything of one tenant. `M` is the memory of its queues, `P` that of
/// registered memory. One thread's.
pub struct Engine<M, P> {
    pub(crate) regions: Regions<P>,
    pub(crate) programs: Slab<Program<M>>,
    pub(crate) pds: Slab<Pd>,
    pub(crate) cqs: Slab<Cq<M>>,
    pub(crate) srqs: Slab<Srq<M>>,
    pub(crate) ahs: Slab<Ah>,
    pub(crate) qps: Slab<Qp<M>>,
    pub(crate) qpns: Drawn<u32>,
    pub(crate) random: Random,
    pub(crate) events: Events,
    /// As in [`Counts`].
    pub(crate) looks: u64,
    pub(crate) heard: u64,
    /// Of programs that have gone.
    pub(crate) gone: ProgramCounts,
    /// Time of this run, ns.
    pub(crate) now: u64,
    /// When queue pairs that wait are looked at, ns: each at most once.
    pub(crate) timers: BTreeSet<(u64, u32)>,
    /// The first of them; `u64::MAX`: none.
    pub(crate) first_timer: u64,
    /// As in [`crate::Ran`].
    pub(crate) more: bool,
    /// The completion queue of the sends of this turn, if something was put there and nobody was told.
    pub(crate) owed: Option<u32>,
    /// Empty between two uses: its memory is used again.
    pub(crate) rung: Vec<u32>,
}

impl<M: Memory, P: Payload> Engine<M, P> {
    /// With nothing in it. `random` must not be guessable: queue pairs and keys get their
    /// numbers from its lower 32 bits.
    pub fn new(random: impl FnMut() -> u64 + Send + 'static) -> Self {
        Engine {
            regions: Regions {
                windows: Slab::new("windows", WINDOWS),
                parts: vec![],
                keys: Drawn::new("memory regions", REGIONS, u32::MAX),
            },
            programs: Slab::new("programs", PROGRAMS),
            pds: Slab::new("protection domains", PDS),
            cqs: Slab::new("completion queues", CQS),
            srqs: Slab::new("shared receive queues", SRQS),
            ahs: Slab::new("address handles", AHS),
            qps: Slab::new("queue pairs", QPS),
            qpns: Drawn::new("queue pairs", QPS, 0xff_ffff),
            random: Box::new(random),
            events: Events::new(),
            looks: 0,
            heard: 0,
            gone: ProgramCounts::default(),
            now: 0,
            timers: BTreeSet::new(),
            first_timer: u64::MAX,
            more: false,
            owed: None,
            rung: Vec::new(),
        }
    }

    /// The next thing that a program must be told.
    pub fn take_event(&mut self) -> Option<Event> {
        self.events.take()
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        let mut all = self.gone;
        self.programs.iter().for_each(|(_, program)| all.add(&program.counts));
        self.qps.iter().for_each(|(_, qp)| all.add(&qp.counts));
        let (looks, rung) = (self.looks, self.heard);
        Counts { all, looks, rung, lost_events: self.events.lost }
    }

    /// What a program's entries did.
    pub fn program_counts(&self, program: ProgramId) -> Option<ProgramCounts> {
        let program = self.programs.get(program.0)?;
        let mut all = program.counts;
        program.pairs().filter_map(|qp| self.qps.get(qp)).for_each(|qp| all.add(&qp.counts));
        Some(all)
    }
}
