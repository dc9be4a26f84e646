//! Opens a channel: maps its two sides, and starts its thread.

use super::Work as Behind;
use super::calls::{Calls, Shape};
use super::engine::Engine;
use super::floor::Floor;
use super::idle::{Bells, End, Loop};
use super::pulse::Pulse;
use super::watch::Alarm;
use crate::Config;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;
use vfun_ring::WindowMemory;
use vfun_supervise::{Lengths, Open, Start};
use vfun_wait::{Policy, WaitMode};
use vfun_window::{Access, Bell, BellWaiter, Mapping};
use vfun_wire::channel::{ChannelKind, side_bytes};

/// Stack of a channel's thread. What is not touched costs nothing.
const STACK_BYTES: usize = 1 << 20;
/// Longest spin for raw lines: a floor that slept would measure the sleep.
const SPIN_FLOOR: Duration = Duration::from_millis(2);

/// What a channel's thread tells the main thread.
#[derive(Debug)]
pub enum Event {
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
}

impl Running {
    /// Bounds its calls a second from now on; 0 for no bound.
    pub fn set_rate(&self, calls_per_s: u32) {
        self.pulse.set_rate(calls_per_s);
    }

    /// Asks the thread to end after the call under way.
    pub fn stop(&self) {
        self.pulse.stop();
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

/// Maps the channel's sides; the descriptors of the window are closed then.
/// What is mapped from one that is open for reading alone cannot be made
/// writable afterwards, not even by a driver that has this whole process.
fn map(open: &Open, reading: OwnedFd, window: OwnedFd) -> Result<WindowMemory, String> {
    let side = side_bytes(open.depth, open.cell_bytes)
        .ok_or("its depth or cell size is beyond a limit")?;
    let (out, inn) = (open.dataout_off, open.datain_off);
    if out.abs_diff(inn) < side {
        return Err("its two sides overlap".into());
    }
    let len = side as usize;
    let dataout =
        Mapping::new(&reading, out, len, Access::Read).map_err(|e| format!("dataout: {e}"))?;
    let datain =
        Mapping::new(&window, inn, len, Access::ReadWrite).map_err(|e| format!("datain: {e}"))?;
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
    let wanted = if open.doorbell { 4 } else { 2 };
    if fds.len() != wanted {
        return Err(format!("{} descriptors came along, {wanted} were due", fds.len()));
    }
    let kind = ChannelKind::from_wire(open.kind).ok_or("its kind is unknown")?;
    match (kind, &**behind) {
        (ChannelKind::Calls, Behind::Calls(_)) | (ChannelKind::Floor, Behind::Floor) => {}
        (kind, _) => {
            return Err(format!(
                "the function {} does not serve channels of {kind}",
                start.function
            ));
        }
    }
    let (stop, bells) = bells(&open, &mut fds)?.unzip();
    let (Some(window), Some(reading)) = (fds.pop(), fds.pop()) else {
        return Err("its window is missing".into());
    };
    let mem = map(&open, reading, window)?;
    let mode = WaitMode::from_wire(open.wait).ok_or("its way to wait is unknown")?;
    let pulse = Arc::new(Pulse::default());
    pulse.set_awake(true);
    pulse.set_rate(open.calls_per_s);
    let running = Running { pulse: pulse.clone(), bell: stop };
    let mut settings = start.settings.clone();
    if let Some(vf) = open.vf {
        settings.insert("vf".into(), vf.to_string());
    }
    let config = Config {
        client: start.client.clone(),
        app: open.app.clone(),
        function: start.function.clone(),
        version: ((start.version >> 16) as u16, start.version as u16),
        channel: open.channel,
        depth: open.depth,
        cell_bytes: open.cell_bytes,
        settings,
    };
    let behind = behind.clone();
    let asked = Asked { config, mode, args: start.args };
    let name = format!("ch {}", open.channel);
    let serve = move || serve(&behind, mem, &asked, pulse, bells, &teller);
    std::thread::Builder::new()
        .name(name)
        .stack_size(STACK_BYTES)
        .spawn(serve)
        .map_err(|e| format!("no thread for it: {e}"))?;
    Ok(running)
}

/// How a channel is to be served.
struct Asked {
    config: Config,
    mode: WaitMode,
    args: Option<Lengths>,
}

fn serve<E: Engine>(
    behind: &Behind<E>,
    mem: WindowMemory,
    asked: &Asked,
    pulse: Arc<Pulse>,
    bells: Option<Bells>,
    teller: &Teller,
) {
    let Asked { config, mode, args } = asked;
    let app = bells.as_ref().map(|b| b.app.clone());
    let (alarm, loop_pulse) = (teller.alarm.clone(), pulse.clone());
    let looped = |policy| Loop::new(loop_pulse, alarm, bells, policy);
    let end = match behind {
        Behind::Floor => {
            let mut floor = Floor::new(mem, config.depth, app);
            teller.tell(Event::Opened);
            let policy = Policy::service(WaitMode::Hybrid).spin_at_most(SPIN_FLOOR).steady();
            looped(policy).run(&mut floor)
        }
        Behind::Calls(engine) => {
            // The watch sees init as a call.
            pulse.begin();
            let made = engine.open(config);
            pulse.end();
            let shape = Shape {
                depth: config.depth,
                cell_bytes: config.cell_bytes,
                max_args: engine.max_args(),
                max_result: engine.max_result(),
                args: *args,
            };
            let calls = made.map_err(|e| format!("the driver cannot open it: {e}")).and_then(|i| {
                Calls::new(mem, &shape, i, pulse.clone(), app).map_err(|e| e.to_string())
            });
            match calls {
                Ok(mut calls) => {
                    teller.tell(Event::Opened);
                    let end = looped(Policy::service(*mode)).run(&mut calls);
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
    // The driver's exit has run and the pages are unmapped.
    teller.tell(Event::Ended(end));
}
