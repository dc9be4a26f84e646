//! Opens a channel: maps its two sides, and starts its thread.

use super::Work as Behind;
use super::calls::{Calls, Shape};
use super::engine::Engine;
use super::floor::Floor;
use super::held::OpenCells;
use super::idle::{Bells, End, Loop, Work as _};
use super::pulse::Pulse;
use super::standby::Standby;
use super::watch::Alarm;
use crate::{Config, OpenCalls};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use vfun_ring::{Server, WindowMemory};
use vfun_supervise::{CHANNEL_THREAD, Lengths, Open, Start};
use vfun_wait::{Policy, WaitMode};
use vfun_window::{Access, Baton, BatonWaiter, Bell, BellWaiter, Mapping};
use vfun_wire::Status;
use vfun_wire::channel::in_header;
use vfun_wire::header::HEAP_OFF;
use vfun_wire::kind::{self as wire, ChannelKind};
use vfun_wire::limits::WINDOW_BYTES_MAX;
use vfun_wire::place::ChannelPlace;
use vfun_wire::range::Heap;

/// Stack of a channel's thread. What is not touched costs nothing.
const STACK_BYTES: usize = 1 << 20;
/// Longest spin for raw lines: a floor that slept would measure the sleep.
const SPIN_FLOOR: Duration = Duration::from_millis(2);
/// What is made ready of each side of a channel that is stood by for: more
/// than most have, and little to walk through.
const READY_BYTES: usize = 4 << 20;
/// What the way from a call's cell to a small driver and back takes of a stack.
const STACK_WARM: usize = 64 << 10;
/// How long whoever takes a channel over looks for a first call before it says
/// so, ns: what it says wakes others, who would take its processor. As long as an
/// app that knows of the change looks itself (R-SLP-8): one that slept and was
/// woken when the last service answered is here by then.
const FIRST_CALL: u64 = 200_000;
/// How often whoever has handed a channel over gives way, for the same reason,
/// before it sleeps: to set a timer is dear in a virtual machine, and the other
/// one would wait for that as well.
const GIVE_WAY: u32 = 4;
/// And how long it sleeps then, until its driver ends: to unmap a channel takes
/// a tenth of a millisecond of a processor that the other one may need.
const LET_IT_BEGIN: Duration = Duration::from_millis(1);

/// What a channel's thread tells the main thread.
#[derive(Debug)]
pub enum Event {
    /// The driver is ready for it; another service serves it still.
    Standing,
    /// The driver is ready for it, and it is served.
    Opened,
    /// The driver refused it.
    Refused(String),
    /// It is no longer touched.
    Ended(End),
}

/// A way to tell, which wakes the main thread.
#[derive(Clone)]
pub struct Teller {
    pub channel: u64,
    pub events: Sender<(u64, Event)>,
    pub alarm: Arc<Alarm>,
}

impl Teller {
    fn tell(&self, event: Event) {
        // The main thread outlives every channel's.
        let _ = self.events.send((self.channel, event));
        self.alarm.bell().ring();
    }
}

/// The main thread's hold on a channel's thread.
pub struct Running {
    pub pulse: Arc<Pulse>,
    bell: Option<Bell>,
    standby: Option<Arc<Standby>>,
    /// What the thread passes when it has let go.
    baton: Arc<Mutex<Option<Baton>>>,
    /// Its pages, for as long as the thread has them.
    pages: Weak<WindowMemory>,
}

impl Running {
    /// Shows the app that this service lives, which no manager would tell it.
    pub fn beat_alone(&self) {
        if let Some(pages) = self.pages.upgrade() {
            pages.mine().fetch_add(in_header::ALONE, 1, Ordering::Relaxed);
        }
    }

    /// Bounds its calls a second from now on; 0 for no bound.
    pub fn set_rate(&self, calls_per_s: u32) {
        self.pulse.set_rate(calls_per_s);
    }

    /// Lets the thread look for calls, if it sleeps.
    pub fn wake(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Asks the thread to end after the call under way.
    pub fn stop(&self) {
        self.pulse.stop();
        self.wake_to_end();
    }

    fn wake_to_end(&self) {
        self.wake();
        if let Some(standby) = &self.standby {
            standby.wake();
        }
    }

    /// The same, and to pass the baton as soon as what was begun is answered. Said
    /// again, by another manager, which has no baton: the one that is here is passed.
    pub fn hand_over(&self, baton: Option<OwnedFd>) {
        if let Some(baton) = baton {
            let mut here = self.baton.lock().unwrap_or_else(|e| e.into_inner());
            *here = Some(Baton::from_fd(baton));
        }
        self.pulse.hand_over();
        self.wake_to_end();
    }

    /// Nobody will say any more whose turn it is.
    pub fn leave_alone(&self) {
        if let Some(standby) = &self.standby {
            standby.leave_alone();
        }
    }

    /// It is the turn of one that stands by. Others are told nothing new.
    pub fn take_up(&self, status: u32) {
        if let Some(standby) = &self.standby {
            standby.take(status);
        }
    }
}

/// The channel's place, which lies in its window, which lies in its file's offsets.
fn placed(open: &Open) -> Result<ChannelPlace, String> {
    let (origin, bytes) = (open.origin, open.window_bytes);
    if bytes > WINDOW_BYTES_MAX || origin.checked_add(bytes).is_none() {
        return Err(format!("no window has {bytes} bytes from byte {origin} of its file on"));
    }
    let place = open.place.read().map_err(|e| e.to_string())?;
    let heap = Heap { window: 0, from: HEAP_OFF as u64, to: bytes };
    place.check(&[heap]).map_err(|e| e.to_string())?;
    Ok(place)
}

/// Maps the channel's sides; the descriptors of the window are closed then.
/// What is mapped from one that is open for reading alone cannot be made
/// writable afterwards, not even by a driver that has this whole process.
fn map(
    at: &wire::Calls,
    origin: u64,
    standby: bool,
    reading: OwnedFd,
    window: OwnedFd,
) -> Result<WindowMemory, String> {
    let len = at.side_bytes as usize;
    let dataout = Mapping::new(&reading, origin + at.dataout, len, Access::Read)
        .map_err(|e| format!("dataout: {e}"))?;
    let datain = Mapping::new(&window, origin + at.datain, len, Access::ReadWrite)
        .map_err(|e| format!("datain: {e}"))?;
    if standby {
        dataout.populate(READY_BYTES);
        datain.populate(READY_BYTES);
    }
    let mine = datain.write().ok_or("datain cannot be written")?;
    WindowMemory::new(mine, dataout.read()).map_err(|e| e.to_string())
}

fn bells(open: &Open, fds: &mut Vec<OwnedFd>) -> Result<Option<(Bell, Bells)>, String> {
    if !open.doorbell {
        return Ok(None);
    }
    let (Some(app), Some(mine)) = (fds.pop(), fds.pop()) else {
        return Err("its bells are missing".into());
    };
    let (mine, app) = (Bell::from_fd(mine), Bell::from_fd(app));
    let stop = Bell::new().map_err(|e| format!("no bell to stop it by: {e}"))?;
    // The app holds the first one's descriptor too: it can make ringing it
    // block for ever, so this process rings only its own.
    let waiter = BellWaiter::any(&[&mine, &stop])
        .map_err(|e| format!("its bell cannot be waited on: {e}"))?;
    Ok(Some((stop, Bells { mine: waiter, app })))
}

/// Opens a channel. The thread tells how that went, and at last that it ended.
pub fn open<E: Engine>(
    start: &Start,
    behind: &Arc<Behind<E>>,
    open: Open,
    mut fds: Vec<OwnedFd>,
    teller: Teller,
) -> Result<Running, String> {
    let wanted = if open.doorbell { 4 } else { 2 } + usize::from(open.standby);
    if fds.len() != wanted {
        return Err(format!("{} descriptors came along, {wanted} were due", fds.len()));
    }
    let place = placed(&open)?;
    match (place.kind(), &**behind) {
        (ChannelKind::Calls, Behind::Calls(_)) => {}
        (ChannelKind::Floor, Behind::Floor) if !open.standby => {}
        (kind, _) => {
            return Err(format!(
                "the function {} does not serve channels of {kind}",
                start.function
            ));
        }
    }
    let standby = if open.standby { Some(stand(&mut fds)?) } else { None };
    let (stop, bells) = bells(&open, &mut fds)?.unzip();
    let (Some(window), Some(reading)) = (fds.pop(), fds.pop()) else {
        return Err("its window is missing".into());
    };
    let at = wire::Calls::of(&place).ok_or("its kind is not one that is served")?;
    let mem = Arc::new(map(&at, open.origin, open.standby, reading, window)?);
    let mode = WaitMode::from_wire(open.wait).ok_or("its way to wait is unknown")?;
    let pulse = Arc::new(Pulse::default());
    pulse.set_awake(true);
    pulse.set_rate(open.calls_per_s);
    let baton = Arc::new(Mutex::new(None));
    let running = Running {
        pulse: pulse.clone(),
        bell: stop,
        standby: standby.as_ref().map(|(s, _)| s.clone()),
        baton: baton.clone(),
        pages: Arc::downgrade(&mem),
    };
    let mut settings = start.settings.clone();
    let leased = open.vf.is_some();
    if let Some(vf) = open.vf {
        settings.insert("vf".into(), vf.to_string());
    }
    let config = Config {
        client: start.client.clone(),
        app: open.app.clone(),
        function: start.function.clone(),
        version: ((start.version >> 16) as u16, start.version as u16),
        channel: open.channel,
        depth: at.depth,
        cell_bytes: at.cell_bytes,
        settings,
    };
    let behind = behind.clone();
    let deadline = Duration::from_millis(open.deadline_ms.max(1).into());
    let open_calls = open_calls(pulse.clone(), running.bell.clone());
    let args = start.args;
    let asked =
        Asked { config, mode, args, standby, leased, stood: false, baton, deadline, open_calls };
    // The manager knows these threads by their name: a driver's own give way to them.
    let name = format!("{CHANNEL_THREAD}{}", open.channel);
    let serve = move || serve(&behind, mem, asked, pulse, bells, &teller);
    std::thread::Builder::new()
        .name(name)
        .stack_size(STACK_BYTES)
        .spawn(serve)
        .map_err(|e| format!("no thread for it: {e}"))?;
    Ok(running)
}

/// What this thread will need of its stack and of the allocator, and the
/// channel's lines, are fetched while nobody waits for it.
#[inline(never)]
fn warm_up(mem: &WindowMemory, depth: u16, cell_bytes: u32) {
    std::hint::black_box(&mut [0u8; STACK_WARM]);
    drop(std::hint::black_box(Server::new(mem.clone(), depth, cell_bytes)));
}

fn stand(fds: &mut Vec<OwnedFd>) -> Result<(Arc<Standby>, BatonWaiter), String> {
    let why = |e| format!("it cannot be stood by for: {e}");
    let standby = Standby::new().map_err(why)?;
    let waiter = standby.waiter(fds.pop().ok_or("its baton is missing")?).map_err(why)?;
    Ok((Arc::new(standby), waiter))
}

/// Whoever answers an open call wakes the channel's thread, if that sleeps.
fn open_calls(pulse: Arc<Pulse>, bell: Option<Bell>) -> OpenCalls {
    let count = pulse.clone();
    let wake = move || {
        // It declares sleep and then looks for answers: one of the two sees the other.
        if !pulse.awake()
            && let Some(bell) = &bell
        {
            bell.ring();
        }
    };
    OpenCalls::of_channel(wake, move || count.calls())
}

/// How a channel is to be served.
struct Asked {
    config: Config,
    mode: WaitMode,
    args: Option<Lengths>,
    standby: Option<(Arc<Standby>, BatonWaiter)>,
    /// It runs on a leased VF.
    leased: bool,
    /// It stood by until its turn came.
    stood: bool,
    baton: Arc<Mutex<Option<Baton>>>,
    /// Of each call.
    deadline: Duration,
    open_calls: OpenCalls,
}

impl Asked {
    /// Waits for its turn, if it stands by; `None` if it is to stop instead.
    fn turn(&mut self, pulse: &Pulse, teller: &Teller) -> Option<(Status, Option<u64>)> {
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

fn serve<E: Engine>(
    behind: &Behind<E>,
    pages: Arc<WindowMemory>,
    mut asked: Asked,
    pulse: Arc<Pulse>,
    bells: Option<Bells>,
    teller: &Teller,
) {
    let app = bells.as_ref().map(|b| b.app.clone());
    let mem = WindowMemory::clone(&pages);
    let (alarm, loop_pulse) = (teller.alarm.clone(), pulse.clone());
    let looped = |policy| Loop::new(loop_pulse, alarm, bells, policy);
    let end = match behind {
        Behind::Floor => {
            let mut floor = Floor::new(mem, asked.config.depth, app);
            teller.tell(Event::Opened);
            let policy = Policy::service(WaitMode::Hybrid).spin_at_most(SPIN_FLOOR).steady();
            looped(policy).run(&mut floor)
        }
        Behind::Calls(engine) => {
            // The watch sees init as a call.
            pulse.begin();
            let made = engine.open_later(&asked.config, &asked.open_calls);
            pulse.end();
            if asked.standby.is_some() {
                warm_up(&mem, asked.config.depth, asked.config.cell_bytes);
            }
            let made = match made {
                Ok(instance) => match asked.turn(&pulse, teller) {
                    Some(left) => Ok((instance, left)),
                    None => {
                        pulse.begin();
                        drop(instance);
                        pulse.end();
                        return teller.tell(Event::Ended(End::Stopped));
                    }
                },
                Err(e) => Err(format!("the driver cannot open it: {e}")),
            };
            let (left, used) =
                made.as_ref().map_or((Status::DriverCrashed, None), |(_, left)| *left);
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
            let calls = made.and_then(|(i, _)| {
                let open = OpenCells::new(asked.open_calls.clone(), asked.deadline);
                Calls::new(mem, &shape, open, i, pulse.clone(), app).map_err(|e| e.to_string())
            });
            match calls {
                Ok(mut calls) => {
                    if asked.stood {
                        calls.serve_first(FIRST_CALL);
                    }
                    calls.settle();
                    teller.tell(Event::Opened);
                    asked.standby = None;
                    // It keeps the bells: to close them is for later, too.
                    let served = looped(Policy::service(asked.mode));
                    calls.serve_behind();
                    let mut end = match calls.leaves() {
                        false => served.run(&mut calls),
                        true => {
                            calls.leave();
                            End::Stopped
                        }
                    };
                    if end == End::Stopped {
                        asked.pass(calls.used());
                    }
                    if let Some(words) = calls.lost() {
                        end = End::Lost(words.to_owned());
                    }
                    calls.cancel_open();
                    // And the driver's exit.
                    pulse.begin();
                    drop(calls);
                    pulse.end();
                    end
                }
                Err(reason) => return teller.tell(Event::Refused(reason)),
            }
        }
    };
    drop(pages);
    // The driver's exit has run and the pages are unmapped.
    teller.tell(Event::Ended(end));
}
