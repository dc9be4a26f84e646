//! Control calls that end things.

use crate::engine::Engine;
use crate::payload::Payload;
use crate::refused::Refused;
use crate::slab::*;
use vfun_queue::Memory;

impl<M: Memory, P: Payload> Engine<M, P> {
    /// Ends a region: its key is dead at once, also for what is under way.
    ///
    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn deregister(&mut self, program: ProgramId, key: u32) -> Result<(), Refused> {
        let found = self.regions.keys.get(key).filter(|r| r.program == program.0);
        found.ok_or(Refused::NoSuch("memory region"))?;
        if let Some(region) = self.regions.keys.remove(key) {
            self.pds[region.pd].users -= 1;
            region.windows().for_each(|w| self.regions.parts[w as usize] -= 1);
        }
        Ok(())
    }

    /// # Errors
    /// [`Refused::NoSuch`], or [`Refused::Busy`]: something belongs to it.
    pub fn end_pd(&mut self, program: ProgramId, pd: PdId) -> Result<(), Refused> {
        if self.pd(program, pd)?.users > 0 {
            return Err(Refused::Busy("something still belongs to the protection domain"));
        }
        self.pds.remove(pd.0);
        Ok(())
    }

    /// # Errors
    /// [`Refused::NoSuch`], or [`Refused::Busy`]: a queue pair uses it.
    pub fn end_cq(&mut self, program: ProgramId, cq: CqId) -> Result<(), Refused> {
        let found = self.cqs.get(cq.0).filter(|c| c.program == program.0);
        if found.ok_or(Refused::NoSuch("completion queue"))?.users > 0 {
            return Err(Refused::Busy("a queue pair still uses the completion queue"));
        }
        self.cqs.remove(cq.0);
        Ok(())
    }

    /// # Errors
    /// [`Refused::NoSuch`], or [`Refused::Busy`]: a queue pair uses it.
    pub fn end_srq(&mut self, program: ProgramId, srq: SrqId) -> Result<(), Refused> {
        let found = self.srqs.get(srq.0).filter(|s| s.program == program.0);
        let found = found.ok_or(Refused::NoSuch("shared receive queue"))?;
        if found.users > 0 {
            return Err(Refused::Busy("a queue pair still uses the shared receive queue"));
        }
        let pd = found.pd;
        self.srqs.remove(srq.0);
        self.pds[pd].users -= 1;
        Ok(())
    }

    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn end_ah(&mut self, program: ProgramId, ah: AhId) -> Result<(), Refused> {
        let found = self.ahs.get(ah.0).filter(|a| a.program == program.0);
        let pd = found.ok_or(Refused::NoSuch("address handle"))?.pd;
        self.ahs.remove(ah.0);
        self.pds[pd].users -= 1;
        Ok(())
    }

    /// Ends a queue pair; its entries end without completions.
    ///
    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn end_qp(&mut self, program: ProgramId, qp: QpId) -> Result<(), Refused> {
        self.own_qp(program, qp)?;
        self.unbind(qp.0);
        self.deactivate(qp.0);
        self.set_timer(qp.0, None);
        let qp_at = qp.0;
        let gone = self.qps.remove(qp_at).ok_or(Refused::NoSuch("queue pair"))?;
        self.qpns.remove(gone.qpn);
        let program = &mut self.programs[gone.fixed.program];
        program.give_bit(gone.bit);
        program.counts.add(&gone.counts);
        self.pds[gone.fixed.pd].users -= 1;
        self.cqs[gone.fixed.send_cq].users -= 1;
        self.cqs[gone.fixed.receive_cq].users -= 1;
        if let Some(srq) = gone.fixed.srq {
            self.srqs[srq].users -= 1;
        }
        Ok(())
    }

    /// Ends a program and all that it has: nothing of it is touched any more.
    ///
    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn end_program(&mut self, program: ProgramId) -> Result<(), Refused> {
        self.programs.get(program.0).ok_or(Refused::NoSuch("program"))?;
        let of = program.0;
        for qp in self.qps.places(|q| q.fixed.program == of) {
            self.end_qp(program, QpId(qp))?;
        }
        for key in self.regions.keys.numbers(|r| r.program == of) {
            self.deregister(program, key)?;
        }
        for ah in self.ahs.places(|a| a.program == of) {
            self.end_ah(program, AhId(ah))?;
        }
        for srq in self.srqs.places(|s| s.program == of) {
            self.end_srq(program, SrqId(srq))?;
        }
        for cq in self.cqs.places(|c| c.program == of) {
            self.end_cq(program, CqId(cq))?;
        }
        for pd in self.pds.places(|p| p.program == of) {
            self.end_pd(program, PdId(pd))?;
        }
        if let Some(gone) = self.programs.remove(of) {
            self.gone.add(&gone.counts);
        }
        self.events.forget(program);
        Ok(())
    }

    /// Takes a window away in which no region lies any more.
    ///
    /// # Errors
    /// [`Refused::NoSuch`], or [`Refused::Busy`].
    pub fn end_window(&mut self, window: WindowId) -> Result<P, Refused> {
        if self.regions.parts.get(window.0 as usize).is_some_and(|parts| *parts > 0) {
            return Err(Refused::Busy("memory regions still lie in the window"));
        }
        self.regions.windows.remove(window.0).ok_or(Refused::NoSuch("window"))
    }
}
