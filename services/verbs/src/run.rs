//! Whose turn it is. Programs take turns, and of each program its queue pairs do, so that
//! neither many queue pairs nor large copies starve a neighbour.

use crate::engine::Engine;
use crate::limits::{IDLE_LOOKS, LOOKS_A_TURN, TIMERS_A_RUN};
use crate::payload::Payload;
use crate::qp::Waits;
use vfun_queue::Memory;
use vfun_verbs::QpState;

/// What a run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Something was done.
    pub worked: bool,
    /// Not all was looked at: run again before you sleep.
    pub more: bool,
    /// When there is something to do even if nobody rings, ns.
    pub until: Option<u64>,
}

impl<M: Memory, P: Payload> Engine<M, P> {
    /// Looks at each program once and gives it one turn. `now` is a clock that never goes
    /// back, ns.
    pub fn run(&mut self, now: u64) -> Ran {
        (self.now, self.more) = (now, false);
        let served = if now >= self.first_timer { self.wake_due() } else { None };
        let mut worked = served.is_some();
        for program in 0..self.programs.end() {
            if self.programs.get(program).is_some() && served != Some(program) {
                worked |= self.run_program(program);
            }
        }
        let until = Some(self.first_timer).filter(|until| *until != u64::MAX);
        Ran { worked, more: self.more || until.is_some_and(|until| until <= now), until }
    }

    /// Queue pairs whose wait is over are looked at, some in each run. The program whose turn was
    /// used up by one of them.
    #[cold]
    fn wake_due(&mut self) -> Option<u32> {
        let mut served = None;
        for _ in 0..TIMERS_A_RUN {
            let Some(&(_, at)) = self.timers.first().filter(|(until, _)| *until <= self.now) else {
                break;
            };
            self.timers.pop_first();
            self.qps[at].timer = None;
            if self.qps[at].active.is_none() {
                self.activate(at);
                continue;
            }
            // The others that are looked at need no look because of it.
            let program = self.qps[at].fixed.program;
            if self.turn(at, self.programs[program].is_failing()) {
                self.programs[program].fruitless = 0;
                served = Some(program);
                break;
            }
            self.rest(at);
        }
        self.find_first_timer();
        served
    }

    fn find_first_timer(&mut self) {
        self.first_timer = self.timers.first().map_or(u64::MAX, |(until, _)| *until);
    }

    /// Declares that the NIC sleeps, to all programs. Run again after it, until all was looked at
    /// ([`Ran::more`]); if nothing was done, sleep until rung, or until [`Ran::until`].
    pub fn declare_sleep(&mut self) {
        for program in self.programs.iter_mut() {
            program.bells.declare_sleep();
            program.fruitless = 0;
        }
    }

    /// Takes it back.
    pub fn declare_awake(&mut self) {
        self.programs.iter().for_each(|(_, p)| p.bells.declare_awake());
    }

    fn run_program(&mut self, at: u32) -> bool {
        let program = &mut self.programs[at];
        let (is_rung, is_failing) = match program.rang() || program.is_failing() {
            true => (self.hear(at), self.fail_users(at)),
            false => (false, false),
        };
        let program = &mut self.programs[at];
        for _ in 0..program.active.len().min(LOOKS_A_TURN) {
            let Some(qp) = self.programs[at].next() else { break };
            if self.turn(qp, is_failing) {
                // The others get theirs in the next run.
                self.programs[at].fruitless = 0;
                return true;
            }
            self.rest(qp);
        }
        let program = &self.programs[at];
        self.more |= program.fruitless < program.active.len();
        is_rung || is_failing
    }

    /// Looks at some of a program's queue pairs that rang from now on. Whether there may be more.
    fn hear(&mut self, program: u32) -> bool {
        let mut rung = core::mem::take(&mut self.rung);
        let is_more = self.programs[program].rung(&mut rung);
        self.heard = self.heard.wrapping_add(rung.len() as u64);
        rung.drain(..).for_each(|qp| self.activate(qp));
        self.rung = rung;
        is_more
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

    /// `is_failing`: its completion queue may have failed, which it does not know yet.
    fn turn(&mut self, at: u32, is_failing: bool) -> bool {
        self.looks = self.looks.wrapping_add(1);
        if is_failing && self.fail_user(at) {
            return true;
        }
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
