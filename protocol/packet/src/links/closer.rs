//! The switch's end at the port of a link's receiver.

use crate::control::{Control, Turn};
use crate::layout::NO_MORE;
use crate::layout::line::{LAST, PASSED, STAMP};
use crate::limits::OVERTAKES;
use crate::sender::{NotSent, Sender};
use vfun_window::Memory;
use vfun_window::sync::Ordering;

/// What tells a link's receiver where its sender has turned: after the last frame that the
/// switch still had, and before the next one (R-LNK-5).
///
/// `L` is the driver's own memory, shared with the link's [`Fence`](crate::Fence).
pub struct Closer<L> {
    line: L,
    link: u64,
    /// The number of the last frame of the link's sender that came out of the switch.
    out: u64,
    /// All up to this one came out, as far as frames overtake each other ([`OVERTAKES`]).
    all: u64,
    /// Which of the next ones did: bit n for the one n + 1 later.
    beyond: u64,
    /// Up to this one nothing is awaited any more.
    gone: u64,
    /// The last turn that was told; [`NO_MORE`]: none is told any more.
    passed: u64,
    late: u64,
    behind: u64,
}

impl<L: Memory> Closer<L> {
    pub fn new(line: L, link: u64) -> Self {
        let passed = line.load_own(PASSED, Ordering::Relaxed);
        Closer { line, link, out: 0, all: 0, beyond: 0, gone: 0, passed, late: 0, behind: 0 }
    }

    /// How often the time was up before the last frame came out.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Frames that came out after all when the time was up: they may be out of order.
    pub fn behind(&self) -> u64 {
        self.behind
    }

    /// Whether something is to be told.
    pub fn is_due(&self) -> bool {
        self.due().is_some()
    }

    /// Puts a frame of the link's sender into the ring, as the switch gives it out, with the
    /// number that the fence gave it.
    ///
    /// # Errors
    /// [`NotSent`], which is counted.
    #[inline]
    pub fn put<M: Memory>(
        &mut self,
        tx: &mut Sender<M>,
        frame: &[u8],
        stamp: u64,
    ) -> Result<(), NotSent> {
        let done = if self.may_pass(tx, stamp) {
            tx.put(frame)
        } else {
            tx.count_full();
            Err(NotSent::Full)
        };
        self.saw(stamp);
        done
    }

    /// A frame came out. A switch may change the order of frames of a burst: so the last one
    /// that came out may have a smaller number than the fence although all up to that came.
    #[inline]
    fn saw(&mut self, stamp: u64) {
        self.out = stamp;
        self.behind += u64::from(stamp <= self.gone);
        if stamp <= self.all {
            return;
        }
        let mut ahead = stamp - self.all - 1;
        if ahead >= OVERTAKES {
            // Nothing is overtaken by so many: what is missing was dropped.
            let slides = ahead - (OVERTAKES - 1);
            self.all += slides;
            self.beyond = if slides < OVERTAKES { self.beyond >> slides } else { 0 };
            ahead = OVERTAKES - 1;
        }
        self.beyond |= 1 << ahead;
        while self.beyond & 1 == 1 {
            self.beyond >>= 1;
            self.all += 1;
        }
    }

    /// Up to which number nothing is awaited.
    fn reached(&self) -> u64 {
        self.out.max(self.all)
    }

    /// Tells what is due, if the frames before it are out and there is room. Call it before
    /// other frames are put into this ring, and now and then. Says whether it put anything.
    #[inline]
    pub fn run<M: Memory>(&mut self, tx: &mut Sender<M>) -> bool {
        match self.due() {
            Some((turn, fence)) if fence <= self.reached() => self.tell(tx, turn),
            _ => false,
        }
    }

    /// The longest time has passed that the switch keeps a frame: those that are awaited were
    /// dropped.
    pub fn expire<M: Memory>(&mut self, tx: &mut Sender<M>) -> bool {
        let Some((_, fence)) = self.due().filter(|(_, fence)| *fence > self.reached()) else {
            return self.run(tx);
        };
        self.late += 1;
        (self.out, self.gone) = (fence, fence);
        self.run(tx)
    }

    /// The receiver's port has other memory, of a VM that was started anew. It knows nothing
    /// of this link: it is told nothing, now or later, and each turn counts as passed on.
    pub fn renew(&mut self) {
        self.passes(NO_MORE);
    }

    /// A turn that is to be told, and the number of the last frame before it. If the other half
    /// turns on meanwhile, the number is the later one.
    #[inline]
    fn due(&self) -> Option<(Turn, u64)> {
        let last = self.line.load(LAST, Ordering::Acquire);
        if last == self.passed || self.passed == NO_MORE {
            return None;
        }
        Turn::of(last).map(|turn| (turn, self.line.load(STAMP, Ordering::Relaxed)))
    }

    /// Whether a frame may be put: what comes before it is in the ring.
    #[inline]
    fn may_pass<M: Memory>(&mut self, tx: &mut Sender<M>, stamp: u64) -> bool {
        match self.due() {
            Some((turn, fence)) if fence < stamp => self.tell(tx, turn),
            _ => true,
        }
    }

    #[cold]
    fn tell<M: Memory>(&mut self, tx: &mut Sender<M>, turn: Turn) -> bool {
        let done = tx.put_control(Control::to_receiver(self.link, turn));
        if done {
            self.passes(turn.word());
        }
        done
    }

    fn passes(&mut self, turn: u64) {
        self.passed = turn;
        self.line.store(PASSED, self.passed, Ordering::Release);
    }
}
