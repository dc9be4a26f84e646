//! A port that is relayed: one channel of packets, and its device.

use crate::limits::{BURST, FRAME_EXTRA};
use crate::tally::{Shown, Tally};
use crate::tap::{Tap, TapRead, TapWrite};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfun_packet::layout::header::{FRAME, STATE};
use vfun_packet::layout::{DOWN, UP};
use vfun_packet::{Memory, Receiver, Ring, Sender, WindowMemory};
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
        self.memory().store(STATE, UP, Ordering::Release);
        self.note();
        self.to_guest.must_ring();
        self.bell.ring();
    }

    /// Says that it is not served any more.
    pub fn end(&self) {
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

    /// Bytes of the longest frame that the guest takes now; 0 while it is not ready.
    fn guest_takes(&self) -> usize {
        if self.memory().load(STATE, Ordering::Acquire) != UP {
            return 0;
        }
        // A guest that does not say takes what the port's MTU makes.
        match self.memory().load(FRAME, Ordering::Relaxed) {
            0 => self.frame_bytes,
            bytes => usize::try_from(bytes).map_or(self.frame_bytes, |b| b.min(self.frame_bytes)),
        }
    }

    /// From the device to the guest.
    fn relay_in(&mut self, buffer: &mut [u8]) -> bool {
        if !self.is_readable {
            return false;
        }
        let (longest, mut any) = (self.guest_takes(), false);
        // One byte more than fits shows a frame that is too long.
        let buffer = &mut buffer[..=self.frame_bytes];
        for _ in 0..BURST {
            match self.tap.read(buffer) {
                TapRead::Frame(bytes) => {
                    any = true;
                    match bytes <= longest {
                        // One that has no room is counted there.
                        true => _ = self.to_guest.put(&buffer[..bytes]),
                        false => self.tally.miss(),
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
        let (bad, mut any) = (self.from_guest.counts().bad, false);
        let buffer = &mut buffer[..self.frame_bytes];
        for _ in 0..BURST {
            let Some(bytes) = self.from_guest.next(buffer) else { break };
            any = true;
            // Longer than the buffer: counted there.
            if bytes > 0 {
                self.give(&buffer[..bytes]);
            }
        }
        if any || self.from_guest.counts().bad != bad {
            self.from_guest.take();
            self.note();
        }
        // What makes no sense is no work: a guest could keep the thread awake by it.
        any
    }

    fn give(&mut self, frame: &[u8]) {
        if self.is_gone {
            return self.tally.lose(frame.len());
        }
        match self.tap.write(frame) {
            TapWrite::Taken => {}
            TapWrite::Refused => self.tally.lose(frame.len()),
            TapWrite::Gone(why) => {
                self.tally.lose(frame.len());
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
