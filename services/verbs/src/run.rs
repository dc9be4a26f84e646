//! Whose turn it is. Programs take turns, and of each program its queue pairs do, so that
//! neither many queue pairs nor large copies starve a neighbour.

use crate::engine::Engine;
use crate::limits::{IDLE_LOOKS, LOOKS_A_TURN};
use crate::payload::Payload;
use crate::qp::Waits;
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
        if now >= self.first_timer {
            self.wake_due();
        }
        let mut worked = false;
        for program in 0..self.programs.end() {
            if self.programs.get(program).is_some() {
                worked |= self.run_program(program);
            }
        }
        self.thorough = false;
        Ran { worked, until: Some(self.first_timer).filter(|until| *until != u64::MAX) }
    }

    /// Queue pairs whose wait is over are looked at.
    fn wake_due(&mut self) {
        while let Some(&(until, at)) = self.timers.first()
            && until <= self.now
        {
            self.timers.pop_first();
            self.qps[at].timer = None;
            self.activate(at);
            // It may be looked at already, and is to be looked at once more.
            let program = self.qps[at].fixed.program;
            self.programs[program].fruitless = 0;
        }
        self.find_first_timer();
    }

    fn find_first_timer(&mut self) {
        self.first_timer = self.timers.first().map_or(u64::MAX, |(until, _)| *until);
    }

    /// Declares that the NIC sleeps, to all programs. Run once more after it; if that does
    /// nothing, sleep until rung, or until [`Ran::until`].
    pub fn declare_sleep(&mut self) {
        self.thorough = true;
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
        let is_failing = self.programs[program].is_failing() && self.fail_users(program);
        let all = self.programs[program].active.len();
        let looks = if self.thorough { all } else { all.min(LOOKS_A_TURN) };
        for _ in 0..looks {
            let Some(qp) = self.programs[program].next() else { break };
            if self.turn(qp) {
                self.qps[qp].idle = 0;
                // The others get theirs in the next run.
                self.programs[program].fruitless = 0;
                return true;
            }
            self.rest(qp);
        }
        is_failing || (all > 0 && !self.looked(program, all, looks))
    }

    /// A program's queue pairs had so many looks, without work. Whether there is nothing to do,
    /// because all were looked at.
    fn looked(&mut self, program: u32, all: usize, looks: usize) -> bool {
        let program = &mut self.programs[program];
        // Who left changed the order: all are looked at once more.
        let is_same = program.active.len() == all;
        program.fruitless = if is_same { program.fruitless + looks } else { 0 };
        let is_all = self.thorough || program.fruitless >= all;
        program.active.is_empty() || (is_same && is_all)
    }

    /// From now on the queue pair is looked at.
    pub(crate) fn activate(&mut self, at: u32) {
        let qp = &mut self.qps[at];
        qp.idle = 0;
        if qp.active.is_none() {
            let program = &mut self.programs[qp.fixed.program];
            qp.active = Some(program.active.len());
            program.active.push(at);
            program.fruitless = 0;
        }
    }

    /// From now on it is not.
    pub(crate) fn deactivate(&mut self, at: u32) {
        let qp = &mut self.qps[at];
        let Some(place) = qp.active.take() else { return };
        if let Some(moved) = self.programs[qp.fixed.program].quiet(place) {
            self.qps[moved].active = Some(place);
        }
    }

    /// It is looked at when its wait ends, and no longer at another time.
    pub(crate) fn set_timer(&mut self, at: u32, until: Option<u64>) {
        let qp = &mut self.qps[at];
        if qp.timer == until {
            return;
        }
        if let Some(old) = core::mem::replace(&mut qp.timer, until) {
            self.timers.remove(&(old, at));
        }
        if let Some(until) = until {
            self.timers.insert((until, at));
        }
        self.find_first_timer();
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
        let qp = &self.qps[at];
        let (program, bit) = (qp.fixed.program, qp.bit);
        if let Some(wait) = qp.wait {
            self.set_timer(at, wait.until);
            // Who changes the peer says so. A receive that is posted says nothing.
            if wait.what == Waits::Peer {
                self.programs[program].bells.leave(bit);
                self.deactivate(at);
            }
            return;
        }
        let qp = &mut self.qps[at];
        qp.idle += 1;
        if qp.idle == IDLE_LOOKS {
            self.programs[program].bells.leave(bit);
        } else if qp.idle > IDLE_LOOKS {
            self.deactivate(at);
        }
    }
}
