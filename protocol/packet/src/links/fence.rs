//! The switch's end at the port of a link's sender.

use crate::control::{Control, Turn, Way};
use crate::layout::header::{FENCED, FENCED_LINK};
use crate::layout::line::{LAST, PASSED, ROUND, STAMP};
use crate::limits::STAMP_BITS;
use crate::receiver::Receiver;
use crate::ring::Ring;
use vfun_window::Memory;
use vfun_window::sync::Ordering;

/// A link that begins at this port.
struct Lined<L> {
    /// What the end at the receiver's port reads, and what that end says.
    mem: L,
    link: u64,
    /// The epoch that the manager allows.
    allowed: u64,
    /// The last turn that was seen, or is over for sure; and the one that was said.
    last: u64,
    said: u64,
    /// The turn is taken for made once all is read up to this position of the port's ring.
    forced: Option<u64>,
}

impl<L> Lined<L> {
    /// The way back of the allowed epoch, if it was not seen.
    fn open(&self) -> Option<Turn> {
        let back = Turn::of(self.allowed << 1).map(Turn::back);
        back.filter(|back| back.word() > self.last)
    }
}

/// The receiver of a port in a switch. It numbers the frames that it gives to the switch,
/// and says between which of them the link's sender has turned (R-LNK-5).
///
/// `L` is the driver's own memory, shared with the link's [`Closer`](crate::Closer).
pub struct Fence<M, L> {
    port: Receiver<M>,
    /// The number of the last frame.
    stamp: u64,
    line: Option<Lined<L>>,
}

impl<M: Memory, L: Memory> Fence<M, L> {
    /// Takes a port up.
    pub fn new(mem: M, ring: Ring) -> Self {
        Fence { port: Receiver::new(mem, ring), stamp: 0, line: None }
    }

    /// The port's ring.
    pub fn port(&self) -> &Receiver<M> {
        &self.port
    }

    /// A link begins here, of which the manager allows this epoch (0: none yet). `mem` is
    /// zeros, with a closer that is new as well; or it is what an earlier fence of this link
    /// had, and the closer may go on: frames have larger numbers than those before. A turn
    /// that an earlier driver has seen is said once more, as nobody knows how far it came.
    pub fn line(&mut self, mem: L, link: u64, allowed: u64) {
        let last = (allowed << 1).saturating_sub(1);
        let mut line = Lined { mem, link, allowed, last, said: 0, forced: None };
        let round = line.mem.load_own(ROUND, Ordering::Relaxed);
        line.mem.store(ROUND, round.wrapping_add(1), Ordering::Relaxed);
        if round == 0 {
            let said = self.fenced(link, allowed);
            see(&self.port, &mut line, self.stamp, said);
        } else {
            // The switch may still have frames that an earlier fence has numbered, and some of
            // them may be behind the turn that stands in the line.
            self.stamp = self.stamp.max(round << STAMP_BITS);
            line.said = line.mem.load_own(LAST, Ordering::Relaxed);
            line.last = line.last.max(line.said);
        }
        show(&self.port, &line);
        self.line = Some(line);
    }

    /// The last turn that an earlier driver has seen; 0: none.
    fn fenced(&self, link: u64, allowed: u64) -> u64 {
        let own = |word| self.port.memory().load_own(word, Ordering::Relaxed);
        let (known, fenced) = (own(FENCED_LINK), own(FENCED));
        // The VM may have written there: only a turn of the allowed epoch counts.
        let is_mine = known == link && fenced >> 1 == allowed && fenced > 1;
        if is_mine { fenced } else { 0 }
    }

    /// No link begins here any more.
    pub fn unline(&mut self) -> Option<L> {
        self.line.take().map(|line| line.mem)
    }

    /// The port has other memory, of a VM that was started anew. Nothing more comes out of
    /// the old one, so an epoch that was not over is over now.
    pub fn renew(&mut self, mem: M, ring: Ring) {
        self.port = Receiver::new(mem, ring);
        if let Some(line) = &mut self.line {
            line.forced = None;
            if let Some(back) = line.open() {
                see(&self.port, line, self.stamp, back.word());
            }
            show(&self.port, line);
        }
    }

    /// Copies the next frame into `to`, and says its bytes; its number is
    /// [`Fence::stamp`]. `Some(0)`: what came was no frame for the switch, and more may be
    /// there. `None`: there is nothing.
    #[inline]
    pub fn next(&mut self, to: &mut [u8]) -> Option<usize> {
        if self.line.as_ref().is_some_and(|line| line.forced.is_some()) {
            self.look_at_force();
        }
        let (found, control) = self.port.next_or_control(to);
        if let Some(control) = control {
            self.control(control);
        } else if found.is_some_and(|bytes| bytes != 0) {
            self.stamp += 1;
        }
        found
    }

    /// The number of the frame that came last.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Gives the sender the room of all that came.
    pub fn take(&mut self) {
        self.port.take();
    }

    /// The manager allows an epoch, before it lets the sender begin it. False: there is no
    /// link, or the epoch is an old one.
    pub fn allow(&mut self, epoch: u64) -> bool {
        let Some(line) = &mut self.line else { return false };
        if epoch > line.allowed && epoch <= u64::MAX >> 1 {
            (line.allowed, line.forced) = (epoch, None);
        }
        line.allowed == epoch
    }

    /// The sender is silent or dead: the switch makes the turn back in its place. What it has
    /// published in its port's ring comes before it.
    pub fn force(&mut self, epoch: u64) {
        let Some(line) = &mut self.line else { return };
        // An epoch that this driver has not heard of is over before it begins.
        line.allowed = line.allowed.max(epoch.min(u64::MAX >> 1));
        if line.allowed == epoch && line.open().is_some() && line.forced.is_none() {
            line.forced = Some(self.port.look_again());
        }
    }

    /// Whether the turn back of an epoch is in the receiver's ring.
    pub fn is_over(&self, epoch: u64) -> bool {
        self.line.as_ref().is_some_and(|line| {
            let back = Turn::new(epoch, Way::Switch).word();
            line.said >= back && line.mem.load(PASSED, Ordering::Acquire) >= back
        })
    }

    #[cold]
    fn look_at_force(&mut self) {
        let Some(line) = &mut self.line else { return };
        let Some(until) = line.forced else { return };
        if !self.port.has_passed(until) && self.port.is_there() {
            return;
        }
        line.forced = None;
        if let Some(back) = line.open() {
            see(&self.port, line, self.stamp, back.word());
        }
    }

    #[cold]
    fn control(&mut self, control: Control) {
        self.port.take_before_control();
        let Some(line) = &mut self.line else { return self.port.count_bad() };
        let turn = control.of_sender(line.link).filter(|turn| turn.epoch() == line.allowed);
        match turn {
            // A sender that was started again says its last one once more.
            Some(turn) if turn.word() == line.last => {}
            Some(turn) if turn.word() > line.last => {
                see(&self.port, line, self.stamp, turn.word());
            }
            _ => self.port.count_bad(),
        }
    }
}

/// What was said, on a page that may be another one than before.
fn show<M: Memory, L>(port: &Receiver<M>, line: &Lined<L>) {
    port.memory().store(FENCED, line.said, Ordering::Relaxed);
    port.memory().store(FENCED_LINK, line.link, Ordering::Release);
}

/// Says a turn: to the other half, and to the driver after this one. The record that says it
/// is given back later, so that one of the two is always there.
fn see<M: Memory, L: Memory>(port: &Receiver<M>, line: &mut Lined<L>, stamp: u64, turn: u64) {
    line.last = line.last.max(turn);
    line.said = turn;
    port.memory().store(FENCED, turn, Ordering::Release);
    line.mem.store(STAMP, stamp, Ordering::Relaxed);
    line.mem.store(LAST, turn, Ordering::Release);
}
