//! Control calls that make things.

use crate::attributes::{Address, Path};
use crate::engine::Engine;
use crate::limits::{ALL_EXTENTS, PDS_OF_PROGRAM, SRQS_OF_PROGRAM};
use crate::payload::Payload;
use crate::program::Program;
use crate::qp::{Ah, Cq, Fixed, Pd, Qp, Srq};
use crate::refused::Refused;
use crate::region::{PageRun, Region};
use crate::slab::*;
use vfun_queue::{Memory, Producer};
use vfun_verbs::bells::NicBells;
use vfun_verbs::completions::Answerer;
use vfun_verbs::{QpType, WorkConsumer, WorkShape};

/// Memory that a program registers.
#[derive(Clone, Copy, Debug)]
pub struct Registration<'a> {
    /// Address of the first byte, as the program's entries will name it. Its place in its
    /// page is that of the first byte in the first page.
    pub iova: u64,
    /// Bytes.
    pub len: u64,
    /// [`vfun_verbs::flags::access`].
    pub access: u32,
    /// Its pages, all of them and no others.
    pub pages: &'a [PageRun],
}

/// A completion queue that is to be made.
pub struct CompletionQueue<M> {
    /// Its memory, zeroed: the NIC's side is its own.
    pub memory: M,
    pub depth: u32,
    /// Whether events of it can be waited for.
    pub has_channel: bool,
}

/// A shared receive queue that is to be made.
pub struct Shared<M> {
    /// Its memory, zeroed.
    pub memory: M,
    pub shape: WorkShape,
}

/// A queue pair that is to be made.
pub struct QueuePair<M> {
    pub pd: PdId,
    pub kind: QpType,
    pub send_cq: CqId,
    pub receive_cq: CqId,
    /// Its memory, zeroed, and its shape.
    pub sends: (M, WorkShape),
    /// Receives of its own, or shared ones.
    pub receives: Result<(M, WorkShape), SrqId>,
    /// Whether each entry completes with a completion.
    pub all_signaled: bool,
}

const NO_SHAPE: Refused = Refused::Invalid("there is no queue of this size");

impl<M: Memory, P: Payload> Engine<M, P> {
    /// Adds a window that registered memory may lie in.
    ///
    /// # Errors
    /// [`Refused::Limit`].
    pub fn add_window(&mut self, window: P) -> Result<WindowId, Refused> {
        let at = self.regions.windows.insert(window)?;
        if self.regions.parts.len() <= at as usize {
            self.regions.parts.push(0);
        }
        Ok(WindowId(at))
    }

    /// Adds a program: where it is in the network, and its page of doorbells, zeroed.
    ///
    /// # Errors
    /// [`Refused::Limit`].
    pub fn add_program(&mut self, address: Address, bells: M) -> Result<ProgramId, Refused> {
        self.programs.insert(Program::new(address, NicBells::new(bells))).map(ProgramId)
    }

    /// # Errors
    /// [`Refused`].
    pub fn make_pd(&mut self, program: ProgramId) -> Result<PdId, Refused> {
        self.programs.get(program.0).ok_or(Refused::NoSuch("program"))?;
        let own = self.pds.iter().filter(|(_, pd)| pd.program == program.0).count();
        if own >= PDS_OF_PROGRAM {
            return Err(Refused::Limit("protection domains of a program"));
        }
        self.pds.insert(Pd { program: program.0, users: 0 }).map(PdId)
    }

    /// The domain, if it is this program's.
    pub(crate) fn pd(&mut self, program: ProgramId, pd: PdId) -> Result<&mut Pd, Refused> {
        let found = self.pds.get_mut(pd.0).filter(|pd| pd.program == program.0);
        found.ok_or(Refused::NoSuch("protection domain"))
    }

    /// Registers memory: its key, local and remote.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn register(
        &mut self,
        program: ProgramId,
        pd: PdId,
        what: &Registration<'_>,
    ) -> Result<u32, Refused> {
        self.pd(program, pd)?;
        let whose = (program.0, pd.0, what.access);
        let region = Region::new(&self.regions.windows, whose, (what.iova, what.len), what.pages)?;
        let there: u64 = self.regions.parts.iter().map(|parts| u64::from(*parts)).sum();
        if there + region.windows().count() as u64 > ALL_EXTENTS {
            return Err(Refused::Limit("runs of pages of all regions"));
        }
        let key = self.regions.keys.insert(&mut self.random, region)?;
        let windows = self.regions.keys.get(key).into_iter().flat_map(Region::windows);
        windows.for_each(|w| self.regions.parts[w as usize] += 1);
        self.pds[pd.0].users += 1;
        Ok(key)
    }

    /// # Errors
    /// [`Refused`].
    pub fn make_cq(
        &mut self,
        program: ProgramId,
        what: CompletionQueue<M>,
    ) -> Result<CqId, Refused> {
        self.programs.get(program.0).ok_or(Refused::NoSuch("program"))?;
        let queue = Producer::new(what.memory, what.depth).map_err(|_| NO_SHAPE)?;
        let events = Answerer::default();
        let (has_channel, program) = (what.has_channel, program.0);
        let cq = Cq { program, queue, events, has_channel, users: 0, failed: false };
        self.cqs.insert(cq).map(CqId)
    }

    /// # Errors
    /// [`Refused`].
    pub fn make_srq(
        &mut self,
        program: ProgramId,
        pd: PdId,
        what: Shared<M>,
    ) -> Result<SrqId, Refused> {
        self.pd(program, pd)?;
        let own = self.srqs.iter().filter(|(_, srq)| srq.program == program.0).count();
        if own >= SRQS_OF_PROGRAM {
            return Err(Refused::Limit("shared receive queues of a program"));
        }
        let queue = WorkConsumer::new(what.memory, what.shape).map_err(|_| NO_SHAPE)?;
        let srq = Srq { program: program.0, pd: pd.0, queue, users: 0, limit: 0 };
        let id = self.srqs.insert(srq)?;
        self.pds[pd.0].users += 1;
        Ok(SrqId(id))
    }

    /// Asks for an event when there are fewer receives than this; 0: for none.
    ///
    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn limit_srq(&mut self, program: ProgramId, srq: SrqId, limit: u32) -> Result<(), Refused> {
        self.srq(program, srq)?.limit = limit;
        Ok(())
    }

    /// The limit below which there is an event; 0: none is asked for.
    ///
    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn srq_limit(&self, program: ProgramId, srq: SrqId) -> Result<u32, Refused> {
        let found = self.srqs.get(srq.0).filter(|s| s.program == program.0);
        found.map(|srq| srq.limit).ok_or(Refused::NoSuch("shared receive queue"))
    }

    fn srq(&mut self, program: ProgramId, srq: SrqId) -> Result<&mut Srq<M>, Refused> {
        let found = self.srqs.get_mut(srq.0).filter(|s| s.program == program.0);
        found.ok_or(Refused::NoSuch("shared receive queue"))
    }

    /// # Errors
    /// [`Refused`].
    pub fn make_ah(&mut self, program: ProgramId, pd: PdId, path: Path) -> Result<AhId, Refused> {
        self.pd(program, pd)?;
        let id = self.ahs.insert(Ah { program: program.0, pd: pd.0, path })?;
        self.pds[pd.0].users += 1;
        Ok(AhId(id))
    }

    /// Makes a queue pair: its name here, the number that peers use, and its doorbell bit.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn make_qp(
        &mut self,
        program: ProgramId,
        what: QueuePair<M>,
    ) -> Result<(QpId, u32, usize), Refused> {
        self.pd(program, what.pd)?;
        for cq in [what.send_cq, what.receive_cq] {
            let found = self.cqs.get(cq.0).filter(|c| c.program == program.0);
            if found.ok_or(Refused::NoSuch("completion queue"))?.failed {
                return Err(Refused::Invalid("the completion queue has failed"));
            }
        }
        let (receives, srq) = match what.receives {
            Ok((mem, shape)) => (Some(WorkConsumer::new(mem, shape).map_err(|_| NO_SHAPE)?), None),
            Err(srq) => (None, Some(self.srq(program, srq).map(|_| srq.0)?)),
        };
        let sends = WorkConsumer::new(what.sends.0, what.sends.1).map_err(|_| NO_SHAPE)?;
        let fixed = Fixed {
            program: program.0,
            pd: what.pd.0,
            kind: what.kind,
            send_cq: what.send_cq.0,
            receive_cq: what.receive_cq.0,
            srq,
            all_signaled: what.all_signaled,
        };
        self.insert_qp(fixed, sends, receives)
    }

    fn insert_qp(
        &mut self,
        fixed: Fixed,
        sends: WorkConsumer<M>,
        receives: Option<WorkConsumer<M>>,
    ) -> Result<(QpId, u32, usize), Refused> {
        let at = self.qps.insert(Qp::new(fixed, (0, 0), sends, receives))?;
        let Some(bit) = self.programs[fixed.program].take_bit(at) else {
            self.qps.remove(at);
            return Err(Refused::Limit("queue pairs of a program"));
        };
        let qpn = match self.qpns.insert(&mut self.random, at) {
            Ok(qpn) => qpn,
            Err(refused) => {
                self.programs[fixed.program].give_bit(bit);
                self.qps.remove(at);
                return Err(refused);
            }
        };
        (self.qps[at].qpn, self.qps[at].bit) = (qpn, bit);
        self.pds[fixed.pd].users += 1;
        self.cqs[fixed.send_cq].users += 1;
        self.cqs[fixed.receive_cq].users += 1;
        if let Some(srq) = fixed.srq {
            self.srqs[srq].users += 1;
        }
        Ok((QpId(at), qpn, bit))
    }
}
