//! The end in a VM that receives: from its port, and from a direct link.

use crate::control::{Control, Turn, Way};
use crate::layout::NO_MORE;
use crate::layout::header::{HAS_IN, IN, KNOWS, LINK_IN, OPEN};
use crate::links::count_start;
use crate::receiver::Receiver;
use crate::ring::Ring;
use vfun_window::Memory;
use vfun_window::sync::Ordering;

/// Which rings are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    Port,
    /// Both, in turns: the link's frames are behind those that came by the port.
    Both,
    /// The link's alone, up to this position; then the turn is made.
    Rest(Turn, u64),
}

/// The receiver of a port and of a link. What comes by the port says when the link's ring
/// is read (R-LNK-6).
pub struct LinkedReceiver<M> {
    port: Receiver<M>,
    link: Option<Receiver<M>>,
    reading: Reads,
    number: u64,
    /// The last turn that was made.
    open: u64,
    /// The link's ring had the last look of the two.
    link_was_first: bool,
}

impl<M: Memory> LinkedReceiver<M> {
    /// Takes a port up.
    pub fn new(mem: M, ring: Ring) -> Self {
        let own = |word| mem.load_own(word, Ordering::Relaxed);
        let (number, open) = (own(IN), own(OPEN));
        let port = Receiver::new(mem, ring);
        port.memory().store(KNOWS, 1, Ordering::Release);
        let reading = reading_after(open);
        LinkedReceiver { port, link: None, reading, number, open, link_was_first: false }
    }

    /// The port's ring.
    pub fn port(&self) -> &Receiver<M> {
        &self.port
    }

    /// The link's ring, if it is there.
    pub fn link(&self) -> Option<&Receiver<M>> {
        self.link.as_ref()
    }

    /// The memory of a link is there.
    pub fn attach(&mut self, number: u64, mem: M, ring: Ring) {
        self.detach();
        let port = self.port.memory();
        if self.number != number {
            port.store(OPEN, 0, Ordering::Relaxed);
            port.store(IN, number, Ordering::Relaxed);
            (self.number, self.open, self.reading) = (number, 0, Reads::Port);
        }
        port.store(HAS_IN, number, Ordering::Release);
        count_start(&mem);
        self.link = Some(Receiver::new(mem, ring));
    }

    /// The link's memory goes away: its ring is not touched after this.
    pub fn detach(&mut self) {
        self.port.memory().store(HAS_IN, 0, Ordering::Release);
        if let Some(mut link) = self.link.take() {
            link.take();
        }
        if self.is_at_rest() {
            self.forget();
        }
    }

    /// Copies the next frame into `to`, and says its bytes. `Some(0)`: what came was nothing
    /// for the caller (a frame that is too long, which is counted, or a turn), and more may
    /// be there. `None`: there is nothing.
    #[inline]
    pub fn next(&mut self, to: &mut [u8]) -> Option<usize> {
        match self.reading {
            Reads::Port => self.next_of_port(to),
            Reads::Both => self.next_of_both(to),
            Reads::Rest(turn, until) => self.next_of_rest(to, turn, until),
        }
    }

    /// Gives both senders the room of all that came, and shows the counts.
    pub fn take(&mut self) {
        // As long as the rest is read, the turn's record stays: who takes the port up finds it.
        if !matches!(self.reading, Reads::Rest(..)) {
            self.port.take();
        }
        if let Some(link) = self.link.as_mut().filter(|_| self.reading != Reads::Port) {
            link.take();
        }
    }

    /// Whether there is anything, as far as is known, or as the senders say now.
    pub fn is_there(&mut self) -> bool {
        let link = self.link.as_mut().filter(|_| self.reading != Reads::Port);
        self.port.is_there() || link.is_some_and(Receiver::is_there) || self.is_at_rest()
    }

    /// Asks to be rung for the next frame. Look once more after it, then sleep.
    pub fn declare_sleep(&self) {
        self.port.declare_sleep();
        if let Some(link) = self.link.as_ref().filter(|_| self.reading != Reads::Port) {
            link.declare_sleep();
        }
    }

    /// Gives the link up for good if the host does not want it to be read any more. Whether it
    /// goes on.
    #[inline]
    fn obey(&mut self) -> bool {
        let is_lawful = self.port.memory().load(LINK_IN, Ordering::Acquire) == self.number;
        if !is_lawful {
            self.forget();
        }
        is_lawful
    }

    fn is_at_rest(&self) -> bool {
        matches!(self.reading, Reads::Rest(..))
    }

    #[inline]
    fn next_of_port(&mut self, to: &mut [u8]) -> Option<usize> {
        let (found, control) = self.port.next_or_control(to);
        if let Some(control) = control {
            self.control(control);
        }
        found
    }

    /// In turns, so that neither sender can keep the other one out.
    fn next_of_both(&mut self, to: &mut [u8]) -> Option<usize> {
        self.link_was_first = !self.link_was_first;
        if !self.link_was_first
            && let Some(found) = self.next_of_port(to)
        {
            return Some(found);
        }
        let found = match self.obey() {
            true => self.link.as_mut().and_then(|link| link.next(to)),
            false => None,
        };
        match found {
            None if self.link_was_first => self.next_of_port(to),
            found => found,
        }
    }

    #[cold]
    fn next_of_rest(&mut self, to: &mut [u8], turn: Turn, until: u64) -> Option<usize> {
        if !self.obey() {
            return Some(0);
        }
        if let Some(link) = self.link.as_mut() {
            if !link.has_passed(until)
                && let Some(found) = link.next(to)
            {
                return Some(found);
            }
            link.take();
        }
        self.turn(turn);
        Some(0)
    }

    /// The rest of an epoch was not read and never will be: it would come after what is
    /// behind it. So this link has no turn any more.
    #[cold]
    fn forget(&mut self) {
        if let Some(link) = &mut self.link {
            link.take();
        }
        (self.open, self.reading) = (NO_MORE, Reads::Port);
        self.port.memory().store(OPEN, self.open, Ordering::Release);
    }

    /// A turn is made, and said.
    fn turn(&mut self, turn: Turn) {
        self.open = turn.word();
        self.reading = reading_after(self.open);
        self.port.memory().store(OPEN, self.open, Ordering::Release);
    }

    /// R-LNK-6. It gives the link's memory no more trust than it had: what it says is checked
    /// as ever.
    #[cold]
    fn control(&mut self, control: Control) {
        self.port.take_before_control();
        let turn = control.for_receiver(self.number).filter(|turn| turn.word() >= self.open);
        match turn {
            // A driver that was started again says its last one once more.
            Some(turn) if turn.word() == self.open => {}
            Some(turn) if turn.to() == Way::Link && self.reading == Reads::Port => {
                self.turn(turn);
            }
            Some(turn) if turn.to() == Way::Switch && self.link.is_some() => {
                let until = self.link.as_mut().map_or(0, Receiver::look_again);
                self.reading = Reads::Rest(turn, until);
            }
            Some(turn) if turn.to() == Way::Switch => {
                self.port.count_bad();
                self.forget();
            }
            _ => self.port.count_bad(),
        }
    }
}

fn reading_after(open: u64) -> Reads {
    match Turn::of(open).map(Turn::to) {
        Some(Way::Link) => Reads::Both,
        Some(Way::Switch) | None => Reads::Port,
    }
}
