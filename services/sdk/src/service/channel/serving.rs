//! A channel's thread: makes the driver's state, waits for its turn where it stands
//! by, serves until it is told to stop, and lets go.

use super::super::Backend;
use super::super::calls::{Calls, Shape};
use super::super::engine::{Engine, Serve};
use super::super::floor::Floor;
use super::super::held::OpenCells;
use super::super::idle::{ChannelBells, ChannelWork as _, End, Loop};
use super::super::pulse::Pulse;
use super::super::standby::Standby;
use super::{Event, Teller};
use crate::{Config, OpenCalls};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vfun_ring::{Server, WindowMemory};
use vfun_supervise::Lengths;
use vfun_wait::{Policy, WaitMode};
use vfun_window::{Baton, BatonWaiter, Bell};
use vfun_wire::Status;

/// Longest spin for raw lines: a floor that slept would measure the sleep.
const SPIN_FLOOR: Duration = Duration::from_millis(2);
/// What the way from a call's cell to a small driver and back takes of a stack.
const STACK_WARM: usize = 64 << 10;
/// A service that takes a channel over looks this long for a first call before it
/// says so, ns: what it says wakes others, who would take its processor. As long as an
/// app that knows of the change looks itself (R-SLP-8): one that slept and was
/// woken when the last service answered is here by then.
const FIRST_CALL: u64 = 200_000;
/// A thread that has handed a channel over gives way this often, for the same reason,
/// before it sleeps: to set a timer is dear in a virtual machine, and the other
/// one would wait for that as well.
const GIVE_WAY: u32 = 4;
/// And sleeps this long then, until its driver ends: to unmap a channel takes
/// a tenth of a millisecond of a processor that the other one may need.
const LET_IT_BEGIN: Duration = Duration::from_millis(1);

/// How a channel is to be served.
pub struct ServingTerms {
    pub config: Config,
    pub mode: WaitMode,
    pub args: Option<Lengths>,
    pub standby: Option<(Arc<Standby>, BatonWaiter)>,
    /// It runs on a leased VF.
    pub leased: bool,
    /// It stood by until its turn came.
    pub stood: bool,
    pub baton: Arc<Mutex<Option<Baton>>>,
    /// Longest time that a call may take.
    pub deadline: Duration,
    pub open_calls: OpenCalls,
}

/// What a service that begins with a channel knows of the one before it: what a call
/// is answered with that was left half done, and what was said of the bound on its rate.
type LeftByOther = (Status, Option<u64>);

impl ServingTerms {
    /// Waits for its turn, if it stands by; `None` if it is to stop instead.
    fn turn(&mut self, pulse: &Pulse, teller: &Teller) -> Option<LeftByOther> {
        let Some((standby, waiter)) = &self.standby else {
            return Some((Status::DriverCrashed, None));
        };
        self.stood = true;
        teller.tell(Event::Standing);
        standby.wait(waiter, pulse)
    }

    /// The channel is left: the next one's turn, before anything else is done.
    fn pass(&self, used: u64) {
        let baton = self.baton.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(baton) = baton {
            baton.pass(used);
            for _ in 0..GIVE_WAY {
                std::thread::yield_now();
            }
            std::thread::sleep(LET_IT_BEGIN);
        }
    }
}

/// A channel's thread and all that it has.
pub struct Serving {
    pub asked: ServingTerms,
    pub pages: Arc<WindowMemory>,
    pub pulse: Arc<Pulse>,
    pub bells: Option<ChannelBells>,
}

impl Serving {
    /// Serves, and tells at last how that ended.
    pub fn serve<E: Engine>(self, behind: &Backend<E>, teller: &Teller) {
        let pages = self.pages.clone();
        let mut last = match behind {
            Backend::Floor => self.raw_lines(teller),
            Backend::Calls(engine) => self.calls(engine, teller),
        };
        // Nobody broke a rule where the pages themselves are gone: the manager sees that too.
        let lost = pages.mine().is_lost() || pages.theirs().is_lost();
        if lost && matches!(last, Event::Ended(End::Broken(_))) {
            last = Event::Ended(End::Stopped);
        }
        drop(pages);
        // The driver's exit has run and the pages are unmapped.
        teller.tell(last);
    }

    fn raw_lines(self, teller: &Teller) -> Event {
        let mem = WindowMemory::clone(&self.pages);
        let mut floor = Floor::new(mem, self.asked.config.depth, self.app());
        teller.tell(Event::Opened);
        let policy = Policy::service(WaitMode::Hybrid).spin_at_most(SPIN_FLOOR).steady();
        let looped = Loop::new(self.pulse, teller.alarm.clone(), self.bells, policy);
        Event::Ended(looped.run(&mut floor))
    }

    fn calls<E: Engine>(mut self, engine: &E, teller: &Teller) -> Event {
        // The watch sees init as a call.
        self.pulse.begin();
        let made = engine.open_later(&self.asked.config, &self.asked.open_calls);
        self.pulse.end();
        if self.asked.standby.is_some() {
            warm_up(&self.pages, self.asked.config.depth, self.asked.config.cell_bytes);
        }
        let instance = match made {
            Ok(instance) => instance,
            Err(e) => return Event::Refused(format!("the driver cannot open it: {e}")),
        };
        let Some(left) = self.asked.turn(&self.pulse, teller) else {
            end(&self.pulse, instance);
            return Event::Ended(End::Stopped);
        };
        match self.take(engine, instance, left) {
            Ok(calls) => Event::Ended(self.run(calls, teller)),
            Err(reason) => Event::Refused(reason),
        }
    }

    /// Takes the channel up, where the service before it left it.
    fn take<E: Engine>(
        &self,
        engine: &E,
        instance: E::Instance,
        (left, used): LeftByOther,
    ) -> Result<Calls<E::Instance>, String> {
        let asked = &self.asked;
        let shape = Shape {
            left,
            leased: asked.leased,
            after: asked.stood.then_some(used),
            depth: asked.config.depth,
            cell_bytes: asked.config.cell_bytes,
            max_args: engine.max_args(),
            max_result: engine.max_result(),
            args: asked.args,
        };
        let mem = WindowMemory::clone(&self.pages);
        let open = OpenCells::new(asked.open_calls.clone(), asked.deadline);
        Calls::new(mem, &shape, open, instance, self.pulse.clone(), self.app())
            .map_err(|e| e.to_string())
    }

    /// Serves calls until the channel ends here.
    fn run<I: Serve>(mut self, mut calls: Calls<I>, teller: &Teller) -> End {
        if self.asked.stood {
            calls.serve_first(FIRST_CALL);
        }
        calls.settle();
        teller.tell(Event::Opened);
        self.asked.standby = None;
        // It keeps the bells: to close them is for later, too.
        let policy = Policy::service(self.asked.mode);
        let served = Loop::new(self.pulse.clone(), teller.alarm.clone(), self.bells, policy);
        calls.serve_behind();
        let mut ended = match calls.leaves() {
            false => served.run(&mut calls),
            true => {
                calls.leave();
                End::Stopped
            }
        };
        if ended == End::Stopped {
            served.leave_sleep_place();
            self.asked.pass(calls.used());
        }
        if let Some(words) = calls.lost() {
            ended = End::Lost(words.to_owned());
        }
        calls.cancel_open();
        end(&self.pulse, calls);
        ended
    }

    /// The bell that wakes the app, where there is one.
    fn app(&self) -> Option<Bell> {
        self.bells.as_ref().map(|b| b.app.clone())
    }
}

/// Ends the driver's state. The watch sees its exit as a call.
fn end<T>(pulse: &Pulse, driver: T) {
    pulse.begin();
    drop(driver);
    pulse.end();
}

/// What this thread will need of its stack and of the allocator, and the
/// channel's lines, are fetched while nobody waits for it.
#[inline(never)]
fn warm_up(mem: &WindowMemory, depth: u16, cell_bytes: u32) {
    std::hint::black_box(&mut [0u8; STACK_WARM]);
    drop(std::hint::black_box(Server::new(mem.clone(), depth, cell_bytes)));
}
