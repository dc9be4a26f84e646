//! Opens a channel: checks the order, maps the two sides, and starts the thread.

use super::super::Backend;
use super::super::buffers::{BufferLender, Buffers};
use super::super::engine::Engine;
use super::super::idle::ChannelBells;
use super::super::porter::{Porter, Resting, SleepPlace};
use super::super::pulse::Pulse;
use super::super::queues;
use super::super::standby::Standby;
use super::serving::{Serving, ServingTerms};
use super::{Running, RunningThread, Teller};
use crate::{Config, OpenCalls};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vfun_ring::WindowMemory;
use vfun_supervise::{CHANNEL_THREAD, Open, Start};
use vfun_wait::WaitMode;
use vfun_window::{Access, BatonWaiter, Bell, BellWaiter, MapError, Mapping};
use vfun_wire::header::HEAP_OFF;
use vfun_wire::kind::{self as wire, ChannelKind};
use vfun_wire::limits::WINDOW_BYTES_MAX;
use vfun_wire::packets::Packets;
use vfun_wire::place::ChannelPlace;
use vfun_wire::queues::Queues;
use vfun_wire::range::Heap;

/// Stack of a channel's thread. What is not touched costs nothing.
const STACK_BYTES: usize = 1 << 20;
/// What is made ready of each side of a channel that is stood by for: more
/// than most have, and little to walk through.
const READY_BYTES: usize = 4 << 20;

/// Opens a channel. The thread tells how that went, and at last that it ended.
pub fn open<E: Engine>(
    start: &Start,
    behind: &Arc<Backend<E>>,
    (buffers, porter): (&Arc<Buffers>, &Porter),
    open: Open,
    fds: Vec<OwnedFd>,
    teller: Teller,
) -> Result<Running, String> {
    let place = placed(&open)?;
    match (place.kind(), &**behind) {
        (ChannelKind::Calls, Backend::Calls(_)) => {}
        (ChannelKind::Floor, Backend::Floor) if !open.standby => {}
        (ChannelKind::Queues, Backend::Calls(engine)) if !open.standby => {
            let at = Queues::of(&place).ok_or("its place is not one of queues")?;
            let came = OrderDescriptors::take(&open, fds)?;
            let config = config(start, &open, (0, 0));
            let engine = |channel| engine.open_queues(&config, channel);
            let running = queues::open(engine, &config, &at, &open, came, teller)?;
            return Ok(Running::Queues(running));
        }
        (ChannelKind::Packets, Backend::Calls(engine)) if !open.standby => {
            let at = Packets::of(&place).ok_or("its place is not one of packets")?;
            let mut came = OrderDescriptors::take(&open, fds)?;
            let port = queues::port(&at, &open, came.tap.take())?;
            let config = config(start, &open, (0, 0));
            let engine = |channel| engine.open_packets(&config, channel, port);
            let running = queues::open(engine, &config, &at.sides, &open, came, teller)?;
            return Ok(Running::Queues(running));
        }
        (kind, _) => {
            let function = &start.function;
            return Err(format!("the function {function} does not serve channels of {kind}"));
        }
    }
    let at = wire::Calls::of(&place).ok_or("its kind is not one that is served")?;
    serve_cells(start, behind, (buffers, porter), (at, open), fds, teller).map(Running::Thread)
}

/// Opens a channel of calls or of raw lines, and starts its thread.
fn serve_cells<E: Engine>(
    start: &Start,
    behind: &Arc<Backend<E>>,
    (buffers, porter): (&Arc<Buffers>, &Porter),
    (at, open): (wire::Calls, Open),
    fds: Vec<OwnedFd>,
    teller: Teller,
) -> Result<RunningThread, String> {
    let came = OrderDescriptors::take(&open, fds)?;
    let pages = Arc::new(map(&at, &open, came.reading, came.window)?);
    let mode = WaitMode::from_wire(open.wait).ok_or("its way to wait is unknown")?;
    let bells = came.bells.map(ReceivedBells::of).transpose()?;
    let (stop, bells) = bells
        .map(|mut b| {
            if matches!(**behind, Backend::Calls(_)) {
                b.bells.sleep_place =
                    sleep_place(porter, &open, (&b.shared, &b.stop), &pages, at.depth);
            }
            (b.stop, b.bells)
        })
        .unzip();
    let pulse = Arc::new(Pulse::default());
    pulse.set_awake(true);
    pulse.set_rate(open.calls_per_s);
    let baton = Arc::new(Mutex::new(None));
    let lender = BufferLender::new(buffers.clone(), open.session, pulse.clone());
    let running = RunningThread {
        pulse: pulse.clone(),
        bell: stop,
        standby: came.standby.as_ref().map(|(s, _)| s.clone()),
        baton: baton.clone(),
        pages: Arc::downgrade(&pages),
        lender: lender.clone(),
    };
    let asked = ServingTerms {
        config: config(start, &open, (at.depth, at.cell_bytes)),
        mode,
        args: start.args,
        standby: came.standby,
        leased: open.vf.is_some(),
        stood: false,
        baton,
        deadline: Duration::from_millis(open.deadline_ms.max(1).into()),
        open_calls: open_calls(pulse.clone(), running.bell.clone(), lender),
    };
    let serving = Serving { asked, pages, pulse, bells };
    let behind = behind.clone();
    // The manager knows these threads by their name: a driver's own give way to them.
    std::thread::Builder::new()
        .name(format!("{CHANNEL_THREAD}{}", open.channel))
        .stack_size(STACK_BYTES)
        .spawn(move || serving.serve(&behind, &teller))
        .map_err(|e| format!("no thread for it: {e}"))?;
    Ok(running)
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

/// The descriptors that came along with the order, each by what it is for.
pub struct OrderDescriptors {
    /// The window, open for reading alone.
    pub reading: OwnedFd,
    pub window: OwnedFd,
    pub bells: Option<OrderBells>,
    /// With an order to stand by.
    standby: Option<(Arc<Standby>, BatonWaiter)>,
    /// With a port that is relayed: its tap device.
    pub tap: Option<OwnedFd>,
}

/// A channel's bells as they came.
pub struct OrderBells {
    /// The app rings it; other channels may share it.
    pub mine: Bell,
    /// This side rings it.
    pub app: Bell,
}

impl OrderDescriptors {
    pub fn take(open: &Open, mut fds: Vec<OwnedFd>) -> Result<OrderDescriptors, String> {
        let taps = open.port.as_ref().is_some_and(|port| !port.switch);
        let more = usize::from(open.standby) + usize::from(taps);
        let wanted = if open.doorbell { 4 } else { 2 } + more;
        if fds.len() != wanted {
            return Err(format!("{} descriptors came along, {wanted} were due", fds.len()));
        }
        let tap = if taps { fds.pop() } else { None };
        let standby = if open.standby { Some(stand(&mut fds)?) } else { None };
        let bells = bells(open, &mut fds)?;
        let (Some(window), Some(reading)) = (fds.pop(), fds.pop()) else {
            return Err("its window is missing".into());
        };
        Ok(OrderDescriptors { reading, window, bells, standby, tap })
    }
}

fn stand(fds: &mut Vec<OwnedFd>) -> Result<(Arc<Standby>, BatonWaiter), String> {
    let why = |e| format!("it cannot be stood by for: {e}");
    let standby = Standby::new().map_err(why)?;
    let waiter = standby.waiter(fds.pop().ok_or("its baton is missing")?).map_err(why)?;
    Ok((Arc::new(standby), waiter))
}

/// What a channel's thread has of its bells.
struct ReceivedBells {
    /// This process's own for the channel's thread.
    stop: Bell,
    /// The app's for the service, which other channels may share.
    shared: Bell,
    bells: ChannelBells,
}

impl ReceivedBells {
    fn of(came: OrderBells) -> Result<Self, String> {
        let OrderBells { mine, app } = came;
        let stop = Bell::new().map_err(|e| format!("no bell to stop it by: {e}"))?;
        // The app holds the first one's descriptor too: it can make ringing it
        // block for ever, so this process rings only its own.
        let waiter = BellWaiter::any(&[&mine, &stop])
            .map_err(|e| format!("its bell cannot be waited on: {e}"))?;
        let bells = ChannelBells { mine: waiter, app, sleep_place: None };
        Ok(ReceivedBells { stop, shared: mine, bells })
    }
}

fn bells(open: &Open, fds: &mut Vec<OwnedFd>) -> Result<Option<OrderBells>, String> {
    if !open.doorbell {
        return Ok(None);
    }
    let (Some(app), Some(mine)) = (fds.pop(), fds.pop()) else {
        return Err("its bells are missing".into());
    };
    Ok(Some(OrderBells { mine: Bell::from_fd(mine), app: Bell::from_fd(app) }))
}

/// Where a channel of calls waits for a bell that it shares.
fn sleep_place(
    porter: &Porter,
    open: &Open,
    (shared, wake): (&Bell, &Bell),
    memory: &WindowMemory,
    depth: u16,
) -> Option<SleepPlace> {
    let rests = || Resting { memory: memory.clone(), depth, wake: wake.clone() };
    let which = (open.bell, open.place.vectors.0);
    (open.bell != 0).then(|| porter.sleep_place(which, open.channel, shared, rests()))
}

/// Maps a side of a channel. What is mapped from a descriptor that is open for reading
/// alone cannot be made writable afterwards, not even by a driver that has this whole
/// process.
pub fn map_side(
    open: &Open,
    fd: &OwnedFd,
    from: u64,
    bytes: u64,
    access: Access,
) -> Result<Arc<Mapping>, MapError> {
    let len = usize::try_from(bytes).map_err(|_| MapError::Shape)?;
    match open.doorbell {
        // Sealed memory: nobody can truncate it.
        true => Mapping::new(fd, open.origin + from, len, access),
        // A file, which others may write to.
        false => Mapping::guarded(fd, open.origin + from, len, access),
    }
}

/// Maps the sides of a channel with cells; the descriptors of the window are closed then.
fn map(
    at: &wire::Calls,
    open: &Open,
    reading: OwnedFd,
    window: OwnedFd,
) -> Result<WindowMemory, String> {
    let one = |fd: &OwnedFd, from, access| map_side(open, fd, from, at.side_bytes, access);
    let dataout = one(&reading, at.dataout, Access::Read).map_err(|e| format!("dataout: {e}"))?;
    let datain = one(&window, at.datain, Access::ReadWrite).map_err(|e| format!("datain: {e}"))?;
    if open.standby {
        dataout.populate(READY_BYTES);
        datain.populate(READY_BYTES);
    }
    let mine = datain.write().ok_or("datain cannot be written")?;
    WindowMemory::new(mine, dataout.read()).map_err(|e| e.to_string())
}

/// What the driver is told of the channel.
fn config(start: &Start, open: &Open, (depth, cell_bytes): (u16, u32)) -> Config {
    let mut settings = start.settings.clone();
    if let Some(vf) = open.vf {
        settings.insert("vf".into(), vf.to_string());
    }
    Config {
        client: start.client.clone(),
        app: open.app.clone(),
        function: start.function.clone(),
        version: ((start.version >> 16) as u16, start.version as u16),
        channel: open.channel,
        depth,
        cell_bytes,
        settings,
    }
}

/// An answer to an open call wakes the channel's thread, if that sleeps.
fn open_calls(pulse: Arc<Pulse>, bell: Option<Bell>, lender: Arc<BufferLender>) -> OpenCalls {
    let count = pulse.clone();
    let wake = move || {
        // It declares sleep and then looks for answers: one of the two sees the other.
        if !pulse.awake()
            && let Some(bell) = &bell
        {
            bell.ring();
        }
    };
    OpenCalls::of_channel(wake, move || count.calls(), lender)
}
