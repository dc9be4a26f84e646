//! Whose turn it is. Programs take turns, and of each program its queue pairs do, so that
//! neither many queue pairs nor large copies starve a neighbour.

use crate::engine::Engine;
use crate::limits::IDLE_LOOKS;
use crate::payload::Payload;
use vfun_queue::Memory;
use vfun_verbs::QpState;

/// What a run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Something was done. If not, there is nothing to do now.
    pub worked: bool,
    /// When there is something to do even if nobody rings, ns.
    pub until: Option<u64>,
}

impl<M: Memory, P: Payload> Engine<M, P> {
    /// Looks at each program once and gives it one turn. `now` is a clock that never goes
    /// back, ns.
    pub fn run(&mut self, now: u64) -> Ran {
        self.now = now;
        self.first_end = None;
        let mut worked = false;
        for program in 0..self.programs.end() {
            if self.programs.get(program).is_some() {
                worked |= self.run_program(program);
            }
        }
        Ran { worked, until: self.first_end }
    }

    /// Declares that the NIC sleeps, to all programs. Run once more after it; if that does
    /// nothing, sleep until rung, or until [`Ran::until`].
    pub fn declare_sleep(&mut self) {
        self.programs.iter().for_each(|(_, p)| p.bells.declare_sleep());
    }

    /// Takes it back.
    pub fn declare_awake(&mut self) {
        self.programs.iter().for_each(|(_, p)| p.bells.declare_awake());
    }

    fn run_program(&mut self, program: u32) -> bool {
        if self.programs[program].bells.rang() {
            let mut rung = core::mem::take(&mut self.rung);
            self.programs[program].rung(&mut rung);
            rung.drain(..).for_each(|qp| self.activate(qp));
            self.rung = rung;
        }
        for _ in 0..self.programs[program].active.len() {
            let Some(qp) = self.programs[program].next() else { return false };
            if self.turn(qp) {
                self.qps[qp].idle = 0;
                // The others get theirs in the next run. What waits must be known in each.
                self.note_waits(program);
                return true;
            }
            self.rest(qp);
        }
        false
    }

    /// From now on the queue pair is looked at.
    pub(crate) fn activate(&mut self, at: u32) {
        let qp = &mut self.qps[at];
        qp.idle = 0;
        if !qp.active {
            qp.active = true;
            self.programs[qp.fixed.program].active.push(at);
        }
    }

    fn turn(&mut self, at: u32) -> bool {
        self.looks = self.looks.wrapping_add(1);
        match self.qps[at].state {
            QpState::Rts | QpState::Sqd => self.send_turn(at),
            QpState::Error | QpState::Sqe => self.flush_turn(at),
            QpState::Reset | QpState::Init | QpState::Rtr => false,
        }
    }

    /// There was nothing to do: after a while the queue pair is left alone. It is looked at
    /// once more then (R-VRB-4), which the next run does, as it is still active.
    fn rest(&mut self, at: u32) {
        let qp = &mut self.qps[at];
        if let Some(wait) = qp.wait {
            self.first_end = [self.first_end, wait.until].into_iter().flatten().min();
            return;
        }
        qp.idle += 1;
        let program = &mut self.programs[qp.fixed.program];
        if qp.idle == IDLE_LOOKS {
            program.bells.leave(qp.bit);
        } else if qp.idle > IDLE_LOOKS {
            qp.active = false;
            program.quiet(at);
        }
    }

    fn note_waits(&mut self, program: u32) {
        for at in &self.programs[program].active {
            let until = self.qps[*at].wait.and_then(|w| w.until);
            self.first_end = [self.first_end, until].into_iter().flatten().min();
        }
    }
}
