//! A port that is relayed: one channel of packets, and its device.

use crate::limits::{BURST, BURST_BYTES, CUT_BYTES, FRAME_EXTRA, OFFLOADS_EVERY};
use crate::tally::{Shown, Tally};
use crate::tap::{FRAME_AT, Tap, TapRead, TapWrite};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use vfun_packet::layout::header::{FRAME, STATE, TAKES};
use vfun_packet::layout::{DOWN, UP, takes};
use vfun_packet::limits::NOTED_RING_MIN;
use vfun_packet::{Memory, Note, Receiver, Ring, Sender, WindowMemory};
use vfun_sdk::DriverError;
use vfun_sdk::service::{Port, ProgramBell, QueuesChannel, log_line};
use vfun_wire::packets::SIDE_OFF;

/// The relaying thread's hold on a port.
pub(crate) struct RelayedPort {
    channel: QueuesChannel,
    name: String,
    tap: Tap,
    bell: ProgramBell,
    to_guest: Sender<WindowMemory>,
    from_guest: Receiver<WindowMemory>,
    /// Bytes of the longest frame of either way.
    frame_bytes: usize,
    tally: Tally,
    /// The ring has room to spare for frames that are to be cut.
    has_room_for_notes: bool,
    /// When the device was last told what it may give.
    told: Option<Instant>,
    /// The device may have frames.
    is_readable: bool,
    /// The device is gone for ever.
    is_gone: bool,
}

impl RelayedPort {
    /// Takes a port's two sides up where they stand: nothing of them is set to zero.
    ///
    /// # Errors
    /// A sentence: the channel has no such ring, or the ring no room for frames of this MTU.
    pub fn new(channel: QueuesChannel, port: Port) -> Result<Self, DriverError> {
        let Port { name, mtu, ring_bytes, tap } = port;
        let refused = |why: String| DriverError::bad_args(format!("port {name}: {why}"));
        let tap = tap.ok_or_else(|| refused("it has no tap device".into()))?;
        let ring = Ring::new(ring_bytes.into()).map_err(|e| refused(e.to_string()))?;
        let frame_bytes = usize::from(mtu) + FRAME_EXTRA;
        if frame_bytes > ring.longest() as usize {
            return Err(refused(format!(
                "a ring of {ring_bytes} bytes has no room for frames of {frame_bytes} bytes"
            )));
        }
        let side = SIDE_OFF..SIDE_OFF + ring.side_bytes() as usize;
        let memory = channel
            .memory(side.clone(), side)
            .map_err(|e| refused(format!("its sides are too short for its rings: {e}")))?;
        Ok(RelayedPort {
            tally: Tally::new(channel.host()),
            bell: channel.bell(),
            channel,
            tap: Tap::new(tap),
            to_guest: Sender::new(memory.clone(), ring),
            from_guest: Receiver::new(memory, ring),
            frame_bytes,
            has_room_for_notes: ring.bytes() >= NOTED_RING_MIN,
            told: None,
            is_readable: true,
            is_gone: false,
            name,
        })
    }

    /// Its channel.
    pub fn channel(&self) -> &QueuesChannel {
        &self.channel
    }

    /// Its device.
    pub fn device(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }

    /// What the main thread shows of it.
    pub fn shown(&self) -> Arc<Shown> {
        self.tally.shown()
    }

    /// Says to the guest that it is served. Who served it before may have died before it rang
    /// for what it sent, so the guest is rung in any case.
    pub fn begin(&mut self) {
        self.memory().store(FRAME, self.frame_bytes as u64, Ordering::Relaxed);
        self.memory().store(TAKES, self.takes(), Ordering::Relaxed);
        self.memory().store(STATE, UP, Ordering::Release);
        self.note();
        self.to_guest.must_ring();
        self.bell.ring();
    }

    /// Says that it is not served any more.
    pub fn end(&self) {
        self.memory().store(TAKES, 0, Ordering::Relaxed);
        self.memory().store(STATE, DOWN, Ordering::Release);
        self.bell.ring();
    }

    /// The system says that the device may be read.
    pub fn readable(&mut self) {
        self.is_readable = !self.is_gone;
    }

    /// Whether the device is gone.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// A burst each way: whether there was anything.
    pub fn turn(&mut self, buffer: &mut [u8]) -> bool {
        // Both, whatever the first one did.
        self.relay_in(buffer) | self.relay_out(buffer)
    }

    /// Asks the guest to ring for its next frame, and fences.
    pub fn declare_sleep(&self) {
        self.from_guest.declare_sleep();
    }

    fn memory(&self) -> &WindowMemory {
        self.to_guest.memory()
    }

    fn note(&self) {
        self.tally.note(self.to_guest.counts(), self.from_guest.counts());
    }

    /// Which frames with notes go either way: bits of [`takes`].
    fn takes(&self) -> u64 {
        if self.has_room_for_notes { self.tap.takes() } else { 0 }
    }

    /// What the guest takes now; nothing while it is not ready.
    fn guest_takes(&self) -> GuestTakes {
        if self.memory().load(STATE, Ordering::Acquire) != UP {
            return GuestTakes::default();
        }
        // A guest that does not say takes what the port's MTU makes.
        let longest = match self.memory().load(FRAME, Ordering::Relaxed) {
            0 => self.frame_bytes,
            bytes => usize::try_from(bytes).map_or(self.frame_bytes, |b| b.min(self.frame_bytes)),
        };
        let notes = self.memory().load(TAKES, Ordering::Relaxed) & self.takes();
        GuestTakes { longest, notes }
    }

    /// Lets the device give what the guest takes. A guest that often changes its mind waits: each change is the
    /// kernel's work for all interfaces.
    fn tell_device(&mut self, guest: &GuestTakes) {
        if guest.longest == 0 || !self.tap.gives_other_than(guest.notes) {
            return;
        }
        if self.told.is_some_and(|told| told.elapsed() < OFFLOADS_EVERY) {
            return;
        }
        self.told = Some(Instant::now());
        if let Err(e) = self.tap.let_give(guest.notes) {
            log_line(format_args!("port {}: its tap device refuses offloads: {e}", self.name));
        }
    }

    /// From the device to the guest.
    fn relay_in(&mut self, buffer: &mut [u8]) -> bool {
        if !self.is_readable {
            return false;
        }
        let guest = self.guest_takes();
        self.tell_device(&guest);
        let (mut any, mut left) = (false, BURST_BYTES);
        for _ in 0..BURST {
            match self.tap.read(buffer) {
                TapRead::Frame(note, bytes) => {
                    any = true;
                    left = left.saturating_sub(bytes);
                    let frame = buffer.get(FRAME_AT..FRAME_AT + bytes).unwrap_or_default();
                    match guest.way_of(&note, bytes) {
                        // One that has no room is counted there.
                        FrameWay::Whole => _ = self.to_guest.put(frame),
                        FrameWay::Noted => _ = self.to_guest.put_noted(&note, frame),
                        FrameWay::Dropped => self.tally.miss(),
                    }
                    if left == 0 {
                        break;
                    }
                }
                TapRead::Empty => {
                    self.is_readable = false;
                    break;
                }
                TapRead::Gone(why) => {
                    self.lose_device(why);
                    break;
                }
            }
        }
        if !any {
            return false;
        }
        // R-PKT-7: a guest that is awake is not rung.
        if self.to_guest.publish() && self.to_guest.must_ring() {
            self.bell.ring();
        }
        self.note();
        true
    }

    /// From the guest to the device.
    fn relay_out(&mut self, buffer: &mut [u8]) -> bool {
        let (bad, mut any, mut note) = (self.from_guest.counts().bad, false, Note::default());
        let mut left = BURST_BYTES;
        let noted = self.takes() != 0;
        let longest = if noted { CUT_BYTES } else { self.frame_bytes };
        for _ in 0..BURST {
            let to = &mut buffer[FRAME_AT..FRAME_AT + longest];
            let next = match noted {
                true => self.from_guest.next_noted(to, &mut note),
                false => self.from_guest.next(to),
            };
            let Some(bytes) = next else { break };
            any = true;
            // Longer than the buffer: counted there.
            if bytes > 0 {
                self.give(&note.unverified(), &mut buffer[..FRAME_AT + bytes]);
            }
            left = left.saturating_sub(bytes);
            if left == 0 {
                break;
            }
        }
        if any || self.from_guest.counts().bad != bad {
            self.from_guest.take();
            self.note();
        }
        // What makes no sense is no work: a guest could keep the thread awake by it.
        any
    }

    /// Gives the device a frame that is at [`FRAME_AT`], up to the buffer's end.
    fn give(&mut self, note: &Note, buffer: &mut [u8]) {
        let bytes = buffer.len() - FRAME_AT;
        // What it is cut into must not be longer than other frames either.
        let longest = if note.is_cut() { note.segment_frame() } else { bytes };
        let is_fine = note.is_known() && longest <= self.frame_bytes;
        if self.is_gone || !is_fine {
            return self.tally.lose(bytes);
        }
        match self.tap.write(note, buffer) {
            TapWrite::Taken => {}
            TapWrite::Refused => self.tally.lose(bytes),
            TapWrite::Gone(why) => {
                self.tally.lose(bytes);
                self.lose_device(why);
            }
        }
    }

    /// The device is gone: the channel stays, and the guest's frames are dropped.
    fn lose_device(&mut self, why: &str) {
        if !self.is_gone {
            (self.is_gone, self.is_readable) = (true, false);
            self.end();
            log_line(format_args!("port {} is down: {why}", self.name));
        }
    }
}

/// What a guest takes.
#[derive(Default)]
struct GuestTakes {
    /// Bytes of the longest frame; 0: none.
    longest: usize,
    /// Which frames with notes: bits of [`takes`].
    notes: u64,
}

/// How a frame goes to a guest.
enum FrameWay {
    Whole,
    Noted,
    Dropped,
}

impl GuestTakes {
    /// How a frame of the device goes.
    fn way_of(&self, note: &Note, bytes: usize) -> FrameWay {
        let is_short = bytes <= self.longest;
        match note.asks() {
            // What is said of its sum helps who takes notes; others look themselves.
            0 if is_short && (note.is_empty() || self.notes & takes::SUM == 0) => FrameWay::Whole,
            asked if asked & !self.notes != 0 || self.longest == 0 => FrameWay::Dropped,
            // The device cuts frames to its own MTU, which is the port's.
            _ if is_short || note.is_cut() => FrameWay::Noted,
            _ => FrameWay::Dropped,
        }
    }
}
