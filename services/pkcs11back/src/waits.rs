//! Programs that wait for an event of a slot. For the module this service is one application, so that it
//! tells of each event once: here each program of the client has it told for itself. A thread asks the
//! module, as long as somebody waits; a connection's thread never waits.
#![allow(unsafe_code)]

use crate::generated::{Native, OK, calls};
use crate::module::Begun;
use crate::slots::Slots;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vfun_remoting_host::Events;

const CKR_HOST_MEMORY: u64 = 2;
const CKR_NO_EVENT: u64 = 8;
const CKR_FUNCTION_NOT_SUPPORTED: u64 = 0x54;
const CKF_DONT_BLOCK: u64 = 1;

/// How often the module is asked: people plug tokens in. Asking costs some microseconds.
const EVERY: Duration = Duration::from_millis(200);
/// Events that are taken at a time, and that a program is told later: as many as slots of a module
/// may be looked at. A slot counts once, however often something happened to it.
const EVENTS_MAX: usize = 4096;

/// What one program waits for.
struct Waiting {
    /// The slots that its client may use.
    may_use: Arc<Slots>,
    /// Slots with events that the program was not told of.
    slots: BTreeSet<u64>,
    /// Calls of it that wait, and by what they are told.
    waits: u32,
    events: Option<Arc<Events>>,
}

struct Programs {
    by_number: BTreeMap<u64, Waiting>,
    numbers: u64,
    /// A thread asks the module.
    watched: bool,
}

static ALL: Mutex<Programs> =
    Mutex::new(Programs { by_number: BTreeMap::new(), numbers: 0, watched: false });
/// A program has gone.
static FEWER: Condvar = Condvar::new();

fn all() -> MutexGuard<'static, Programs> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiting {
    /// Tells a call that waits how it ended.
    fn tell(&mut self, status: u64, slot: u64) {
        self.waits -= 1;
        let Some(events) = &self.events else { return };
        events.push(calls::C_WAITFORSLOTEVENT, |w| {
            w.u64(status);
            w.u64(slot);
        });
    }

    fn note(&mut self, slot: u64) {
        if self.slots.len() < EVENTS_MAX {
            self.slots.insert(slot);
        }
        while self.waits > 0
            && let Some(slot) = self.slots.pop_first()
        {
            self.tell(OK, slot);
        }
    }
}

impl Programs {
    fn somebody_waits(&self) -> bool {
        self.by_number.values().any(|program| program.waits > 0)
    }
}

/// A program, as long as this lives.
pub struct Listener(u64);

impl Listener {
    /// A program that may use these slots.
    pub fn new(slots: &Slots) -> Listener {
        let mut all = all();
        all.numbers += 1;
        let number = all.numbers;
        let may_use = Arc::new(slots.clone());
        let waiting = Waiting { may_use, slots: BTreeSet::new(), waits: 0, events: None };
        all.by_number.insert(number, waiting);
        Listener(number)
    }

    /// A slot that had an event of which the program was not told; none if there is none. An error is
    /// the module's status.
    pub fn ask(&self, native: &Native) -> Result<Option<u64>, u64> {
        let asked = collect(native);
        let slot = all().by_number.get_mut(&self.0).and_then(|program| program.slots.pop_first());
        asked.map(|()| slot).or_else(|failed| slot.map(Some).ok_or(failed))
    }

    /// A call of the program waits from now on: it is told by an event. `begun` keeps the module as
    /// it is while it is asked.
    pub fn wait(
        &self,
        native: &Native,
        events: &Arc<Events>,
        begun: Option<Begun>,
    ) -> Result<(), u64> {
        let mut all = all();
        if let Some(program) = all.by_number.get_mut(&self.0) {
            program.events = Some(events.clone());
            program.waits = program.waits.saturating_add(1);
            // Another call may have taken it from the module meanwhile.
            if let Some(slot) = program.slots.pop_first() {
                program.tell(OK, slot);
            }
        }
        if all.watched || !all.somebody_waits() {
            return Ok(());
        }
        let native = *native;
        let thread = std::thread::Builder::new().name("slot-events".into());
        all.watched = thread.spawn(move || watch(&native, begun)).is_ok();
        match (all.watched, all.by_number.get_mut(&self.0)) {
            (true, _) | (_, None) => Ok(()),
            (false, Some(program)) => {
                program.waits -= 1;
                Err(CKR_HOST_MEMORY)
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        all().by_number.remove(&self.0);
        FEWER.notify_all();
    }
}

/// Tells the programs that may use this slot. The module is asked without the lock.
fn note(native: &Native, slot: u64) {
    let programs: Vec<_> =
        all().by_number.iter().map(|(number, of)| (*number, of.may_use.clone())).collect();
    for (number, may_use) in programs {
        if may_use.may_use(native, slot)
            && let Some(program) = all().by_number.get_mut(&number)
        {
            program.note(slot);
        }
    }
}

/// Takes what the module has to tell, for all programs.
fn collect(native: &Native) -> Result<(), u64> {
    let ask = native.C_WaitForSlotEvent.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
    for _ in 0..EVENTS_MAX {
        let mut slot = 0;
        // SAFETY: the place is ours.
        match unsafe { ask(CKF_DONT_BLOCK, &mut slot, std::ptr::null_mut()) } {
            OK => note(native, slot),
            CKR_NO_EVENT => break,
            failed => return Err(failed),
        }
    }
    Ok(())
}

/// Asks the module until nobody waits any more.
fn watch(native: &Native, begun: Option<Begun>) {
    loop {
        let still = |all: &mut Programs| all.somebody_waits();
        let waited = FEWER.wait_timeout_while(all(), EVERY, still);
        let (mut all, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if !timeout.timed_out() {
            all.watched = false;
            break;
        }
        drop(all);
        if let Err(failed) = collect(native) {
            for program in self::all().by_number.values_mut() {
                (0..program.waits).for_each(|_| program.tell(failed, 0));
            }
        }
    }
    drop(begun);
}
