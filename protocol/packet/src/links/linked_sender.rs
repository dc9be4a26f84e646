//! The end in a VM that sends: through the switch, or over a direct link.

use crate::control::{Control, Turn, Way};
use crate::layout::header::{ACK, HAS_OUT, KNOWS, LINK_OUT, MAKING, OUT, TURN};
use crate::links::count_start;
use crate::ring::Ring;
use crate::sender::{NotSent, Sender};
use vfun_window::Memory;
use vfun_window::sync::Ordering;

/// Where frames go. The link's ring is there unless the VM has lost its memory.
enum Path<M> {
    Port(Option<Sender<M>>),
    Link(Sender<M>),
    /// Nowhere before the record of this turn has room in the port's ring.
    Due(Turn, Option<Sender<M>>),
}

/// Which rings have something new for a receiver that sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    pub port: bool,
    pub link: bool,
}

/// The sender of a port, which the host may turn to a link and back (R-LNK-4). It obeys
/// between two bursts, waits for nobody, and never sends a frame by both ways.
pub struct LinkedSender<M> {
    port: Sender<M>,
    path: Path<M>,
    /// The link's number, and the last turn that was made.
    link: u64,
    made: u64,
    /// The word TURN that was looked at last.
    seen: u64,
    /// A frame found a turn due: who sleeps was not rung for it.
    has_turned: bool,
}

impl<M: Memory> LinkedSender<M> {
    /// Takes a port up. If an earlier sender was on a link, [`LinkedSender::attach`] goes on
    /// there; without it the way back is due before the first frame.
    pub fn new(mem: M, ring: Ring) -> Self {
        let own = |word| mem.load_own(word, Ordering::Relaxed);
        let (link, made) = (own(OUT), own(ACK));
        // An earlier sender may have died before it said that it made the last one.
        let last = Turn::of(own(MAKING).max(made));
        let path = match last {
            Some(turn) if turn.to() == Way::Link || turn.word() > made => {
                Path::Due(turn.back(), None)
            }
            _ => Path::Port(None),
        };
        let port = Sender::new(mem, ring);
        port.memory().store(KNOWS, 1, Ordering::Release);
        LinkedSender { port, path, link, made, seen: 0, has_turned: false }
    }

    /// The port's ring.
    pub fn port(&self) -> &Sender<M> {
        &self.port
    }

    /// The link's ring, if it is there.
    pub fn link(&self) -> Option<&Sender<M>> {
        match &self.path {
            Path::Link(tx) => Some(tx),
            Path::Port(tx) | Path::Due(_, tx) => tx.as_ref(),
        }
    }

    /// Where the next frame goes; `None`: nowhere before a record has room.
    pub fn way(&self) -> Option<Way> {
        match self.path {
            Path::Port(_) => Some(Way::Switch),
            Path::Link(_) => Some(Way::Link),
            Path::Due(..) => None,
        }
    }

    /// The memory of a link is there; whom to ring. `None`: the way back from the link before
    /// this one has no room yet; try again.
    pub fn attach(&mut self, number: u64, mem: M, ring: Ring) -> Option<Rings> {
        if self.link().is_some() {
            drop(self.leave());
        }
        let is_same = self.link == number;
        if !is_same && matches!(self.path, Path::Due(..)) && !self.make_turn() {
            return None;
        }
        let port = self.port.memory();
        if !is_same {
            port.store(MAKING, 0, Ordering::Relaxed);
            port.store(ACK, 0, Ordering::Relaxed);
            (self.link, self.made) = (number, 0);
        }
        port.store(OUT, number, Ordering::Relaxed);
        port.store(HAS_OUT, number, Ordering::Release);
        count_start(&mem);
        let tx = Sender::new(mem, ring);
        // What was begun is made again: nobody knows whether its record was seen.
        let begun = Turn::of(port.load_own(MAKING, Ordering::Relaxed));
        self.path = match (begun, Turn::of(self.made)) {
            (Some(turn), _) if turn.word() > self.made => Path::Due(turn, Some(tx)),
            (_, Some(turn)) if turn.to() == Way::Link => Path::Link(tx),
            _ => Path::Port(Some(tx)),
        };
        self.seen = 0;
        self.look();
        Some(self.must_ring())
    }

    /// The link's memory goes away: its ring is not touched after this. Whom to ring, while
    /// the link's bell is still there.
    pub fn detach(&mut self) -> Rings {
        let link = self.leave().is_some_and(|mut tx| must_ring(&mut tx));
        Rings { port: must_ring(&mut self.port), link }
    }

    /// Goes on without the link's memory, if it was there.
    fn leave(&mut self) -> Option<Sender<M>> {
        let (path, tx) = match core::mem::replace(&mut self.path, Path::Port(None)) {
            Path::Link(mut tx) => {
                tx.publish();
                let back = Turn::of(self.made).map(Turn::back);
                (back.map_or(Path::Port(None), |back| Path::Due(back, None)), Some(tx))
            }
            Path::Due(turn, tx) if turn.to() == Way::Switch => (Path::Due(turn, None), tx),
            Path::Due(_, tx) | Path::Port(tx) => (Path::Port(None), tx),
        };
        self.path = path;
        self.port.memory().store(HAS_OUT, 0, Ordering::Release);
        self.make_turn();
        tx
    }

    /// Copies a frame into the ring of the way that holds now.
    ///
    /// # Errors
    /// [`NotSent`], which is counted.
    #[inline]
    pub fn put(&mut self, frame: &[u8]) -> Result<(), NotSent> {
        let tx = match &mut self.path {
            Path::Port(_) => &mut self.port,
            Path::Link(tx) => tx,
            Path::Due(..) => return self.put_late(frame),
        };
        tx.put(frame)
    }

    #[cold]
    fn put_late(&mut self, frame: &[u8]) -> Result<(), NotSent> {
        if self.make_turn() {
            self.has_turned = true;
            return self.put(frame);
        }
        self.port.count_full();
        Err(NotSent::Full)
    }

    /// Shows the receiver of this way all that was put, and looks whether to turn. Says
    /// whether to look for ringing.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let is_new = match &mut self.path {
            Path::Link(tx) => tx.publish(),
            Path::Port(_) | Path::Due(..) => self.port.publish(),
        };
        let has_turned = core::mem::take(&mut self.has_turned);
        self.look() | is_new | has_turned
    }

    /// Looks whether to turn: call it now and then while there is nothing to send. Says
    /// whether to look for ringing.
    #[inline]
    pub fn look(&mut self) -> bool {
        let word = self.port.memory().load(TURN, Ordering::Acquire);
        if word == self.seen && !matches!(self.path, Path::Due(..)) {
            return false;
        }
        self.obey(word)
    }

    /// Which receivers must be rung.
    pub fn must_ring(&mut self) -> Rings {
        let link = match &mut self.path {
            Path::Link(tx) | Path::Port(Some(tx)) | Path::Due(_, Some(tx)) => must_ring(tx),
            Path::Port(None) | Path::Due(_, None) => false,
        };
        Rings { port: must_ring(&mut self.port), link }
    }

    /// Takes the host's word up, and makes the turn if there is room. Says whether it did.
    #[cold]
    fn obey(&mut self, word: u64) -> bool {
        let port = self.port.memory();
        let is_mine = port.load(LINK_OUT, Ordering::Acquire) == self.link;
        // The host changes TURN first when it goes on to another link. What changes now is
        // looked at next time.
        let word = if port.load(TURN, Ordering::Acquire) == word { word } else { self.seen };
        let is_new = core::mem::replace(&mut self.seen, word) != word;
        // Whoever takes the link away without a turn means the way back.
        let turn = match Turn::of(word).filter(|_| is_mine) {
            Some(turn) => Some(turn),
            None => Turn::of(self.made).map(Turn::back),
        };
        let turn = turn.filter(|turn| is_new && self.link != 0 && turn.word() > self.made);
        if let Some(turn) = turn {
            self.path = match (core::mem::replace(&mut self.path, Path::Port(None)), turn.to()) {
                (Path::Port(Some(tx)), Way::Link) => Path::Due(turn, Some(tx)),
                (Path::Link(tx), Way::Switch) => Path::Due(turn, Some(tx)),
                (Path::Port(tx) | Path::Due(_, tx), Way::Switch) => Path::Due(turn, tx),
                (path, Way::Link) => path,
            };
        }
        matches!(self.path, Path::Due(..)) && self.make_turn()
    }

    /// Makes the turn that is due; false: its record has no room.
    fn make_turn(&mut self) -> bool {
        let (turn, mut tx) = match core::mem::replace(&mut self.path, Path::Port(None)) {
            Path::Due(turn, tx) => (turn, tx),
            path => {
                self.path = path;
                return true;
            }
        };
        self.port.memory().store(MAKING, turn.word(), Ordering::Release);
        // Who reads the record finds all that went over the link before it.
        if let Some(tx) = tx.as_mut().filter(|_| turn.to() == Way::Switch) {
            tx.publish();
        }
        if !self.port.put_control(Control::from_sender(self.link, turn)) {
            self.path = Path::Due(turn, tx);
            return false;
        }
        self.port.publish();
        // Before the first frame of the new way: who takes this port up goes on from here.
        self.made = turn.word();
        self.port.memory().store(ACK, self.made, Ordering::Release);
        self.path = match (turn.to(), tx) {
            (Way::Link, Some(tx)) => Path::Link(tx),
            (_, tx) => Path::Port(tx),
        };
        true
    }
}

/// Whether a ring's receiver must be rung for what was not looked at.
fn must_ring<M: Memory>(tx: &mut Sender<M>) -> bool {
    tx.is_unrung() && tx.must_ring()
}
