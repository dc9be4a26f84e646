//! Words of links to the switch's driver, on the connection of the sender's port, and from it
//! (R-SWI-7 to 11).

use super::Link;
use super::handover::DriverView;
use crate::rim::Daemon;
use std::os::fd::AsFd;
use vfun_packet::LinkPlace;
use vfun_window::fdpass;
use vfun_wire::handover::{PortAsk, PortWord, ask, word};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

impl Daemon {
    /// What the driver at a link's sender can be told.
    pub(super) fn link_driver(&self, link: &Link) -> DriverView {
        let [from, to] = &link.ends;
        let its = self.switches.driver_of(&link.pair.from, from.grant);
        // One process has both ports (R-SWI-7).
        let other = self.switches.driver_of(&link.pair.to, to.grant);
        let both = its.zip(other).is_some_and(|(a, b)| a.pid == b.pid);
        match self.switches.connection_of(&link.pair.from) {
            None => DriverView::Gone,
            Some(None) => DriverView::Away,
            Some(Some(id)) => DriverView::There { id, both },
        }
    }

    /// Tells the driver of a link, with the link's memory.
    pub(super) fn tell_link(&mut self, number: u64, epoch: u64) {
        let Some(link) = self.links.links.get(&number) else { return };
        let Some(id) = self.switches.connection_of(&link.pair.from).flatten() else { return };
        let places = (LinkPlace::of(link.note.out_place), LinkPlace::of(link.note.in_place));
        let (Some(out), Some(back)) = places else { return };
        // A window that is gone ends the link soon.
        let Some(d) = self.rim.further.get(&link.window) else { return };
        let mut said = PortWord::new(word::LINK, number);
        let at = |place: LinkPlace| U64::new(d.pages().origin() + place.sides().0);
        (said.mine, said.theirs) = (at(out), at(back));
        (said.ring, said.epoch) = (U64::new(out.ring), U64::new(epoch));
        said.sentence[..link.pair.to.len()].copy_from_slice(link.pair.to.as_bytes());
        let sent = {
            let file = d.pages().fd();
            let socket = self.switches.socket(id);
            socket.map(|s| fdpass::send(s, said.as_bytes(), &[file.as_fd()]))
        };
        if !matches!(sent, Some(Ok(()))) {
            self.hang_up_switch(id);
        }
    }

    /// Tells it a word about a link.
    pub(super) fn tell_of_link(&mut self, number: u64, kind: u32, epoch: u64) {
        let Some(link) = self.links.links.get(&number) else { return };
        let Some(id) = self.switches.connection_of(&link.pair.from).flatten() else { return };
        let mut said = PortWord::new(kind, number);
        said.epoch = U64::new(epoch);
        self.tell_switch(id, &said);
    }

    /// A driver says a word about a link. One that is not there any more means nothing.
    pub(in crate::rim) fn switch_says_of_link(&mut self, id: u32, said: &PortAsk) {
        // Nothing is stored in the pages of a port that is gone.
        self.mind_link_ends();
        let now = self.now();
        let (number, epoch) = (said.handle.get(), said.epoch.get());
        let Some(link) = self.links.links.get_mut(&number) else { return };
        match said.kind.get() {
            ask::ALLOWED => link.handover.allowed(id, epoch, now),
            ask::FORCED => link.handover.forced(id, epoch),
            _ => link.handover.unlinked(id),
        }
        link.due = 0;
    }
}
