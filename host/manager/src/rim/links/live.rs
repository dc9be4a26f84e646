//! Links begin, go on and end.

use super::bells::BellPlace;
use super::facts::PortAt;
use super::handover::{
    DriverView, Had, Handover, LinkAct, LinkState, LinkWords, Wish, begin_sides,
};
use super::notes::LinkNote;
use super::page::PortPage;
use super::want::Pair;
use super::{Bar, look_after};
use crate::core::WindowId;
use crate::limits::{LINK_BAR_REST, LINK_COUNT, LINK_EAGER, LINK_REST};
use crate::rim::Daemon;
use std::sync::atomic::Ordering;
use vfun_packet::layout::header::{HAS_IN, HAS_OUT};
use vfun_packet::{Claims, Ledger, LinkPlace, Memory, Reading, Ring, WindowMemory};
use vfun_rim::further::HostFurther;
use vfun_rim::methods::*;
use vfun_wire::handover::word;
use vfun_wire::{Handle, PAGE};

/// A link that is there.
pub(super) struct Link {
    pub pair: Pair,
    /// The window that its memory is in.
    pub window: WindowId,
    pub handover: Handover<PortPage>,
    /// Where its sender's port is, and its receiver's.
    pub ends: [LinkEnd; 2],
    pub note: LinkNote,
    pub counts: LinkCounts,
    /// When it is looked at again, ms.
    pub due: u64,
    /// Until when it is looked at often: both VMs are about to take its memory.
    pub eager: u64,
}

/// A port of a link.
pub(super) struct LinkEnd {
    pub grant: Handle,
    /// The control window of its VM.
    pub window: WindowId,
    page: PortPage,
}

/// What its two VMs say they sent and received.
pub(super) struct LinkCounts {
    ledger: Ledger,
    /// The last look found what cannot be.
    is_wrong: bool,
    looked: u64,
}

impl LinkEnd {
    /// A port that was gone when this manager came.
    pub fn gone(grant: Handle) -> (Self, PortPage) {
        let page = PortPage::none();
        (LinkEnd { grant, window: 0, page: page.clone() }, page)
    }
}

impl LinkCounts {
    pub fn believed(&self) -> Claims {
        self.ledger.believed()
    }
}

/// The number that a sender writes to its doorbell register to ring a peer: vector 0, which is
/// the only one of such a peer.
fn bell_word(peer: u16) -> u64 {
    u64::from(peer) << 16
}

impl Daemon {
    /// Begins a link, if the ports are free.
    pub(super) fn begin_link(&mut self, pair: &Pair, window: WindowId) -> Result<(), String> {
        if self.links.links.values().any(|link| link.pair == *pair) {
            return Ok(());
        }
        let back = Pair { from: pair.to.clone(), to: pair.from.clone() };
        let needs_the_same = |link: &Link| {
            let Pair { from, to } = &link.pair;
            *from == pair.from || *to == pair.to || link.window == window && link.pair != back
        };
        if self.links.links.values().any(needs_the_same) {
            return Err("an earlier link of its ports has not ended yet".into());
        }
        let grants = self.grants_for_switches();
        let gone = || "a port of it has just gone".to_owned();
        let at = |name: &String| grants.get(name).and_then(|grant| self.port_at(*grant));
        let ends = [at(&pair.from).ok_or_else(gone)?, at(&pair.to).ok_or_else(gone)?];
        let places = self.link_places(window, pair).ok_or_else(gone)?;
        self.have_let_go(&ends)?;
        let sides = self.link_sides(window, &places).ok_or_else(gone)?;
        let number = self.next_window_generation();
        let [from, to] = &ends;
        let vector = to.place.vector_in();
        let bell = BellPlace { at: from.window, of: to.window, vector, shared: window };
        let peer = self.link_bell(bell, number)?;
        let mut note = LinkNote::new(pair, &ends, window, (places, bell_word(peer)));
        note.key = self.rim.further.get(&window).map_or([0; 2], |d| d.note().key);
        // Noted before a VM or the driver can know of it.
        self.hold_link(number, &note);
        begin_sides(&sides[0], &sides[1]);
        let pages = ends.map(|end| self.link_page(&end));
        let link = self.link_of(number, note, pages);
        self.links.links.insert(number, link);
        self.share_links_of(&pair.from);
        tracing::info!(link = number, from = pair.from, to = pair.to, "a direct link begins");
        self.ring_vms(number);
        Ok(())
    }

    /// Neither VM has the memory of an earlier link: nothing is written there behind its back.
    fn have_let_go(&self, [from, to]: &[PortAt; 2]) -> Result<(), String> {
        let has = |at: &PortAt, word| {
            self.port_pages(at).is_none_or(|page| page.load(word, Ordering::Acquire) != 0)
        };
        let Some(end) =
            [(from, HAS_OUT), (to, HAS_IN)].into_iter().find(|(at, word)| has(at, *word))
        else {
            return Ok(());
        };
        let window = self.rim.windows.get(&end.0.window);
        let vm = window.and_then(|w| Some(self.vm_words(w.client, w.vm.as_deref()?)));
        Err(format!(
            "VM {} has not let go of an earlier link yet: if this lasts, set its interface down and up",
            vm.unwrap_or_default()
        ))
    }

    /// The page of a port of a link.
    pub(super) fn link_page(&self, at: &PortAt) -> (LinkEnd, PortPage) {
        let page = self.port_pages(at).map_or_else(PortPage::none, PortPage::new);
        (LinkEnd { grant: at.grant, window: at.window, page: page.clone() }, page)
    }

    /// The header pages of a link's two sides: the sender's, and the receiver's.
    fn link_sides(&self, window: WindowId, places: &[LinkPlace; 2]) -> Option<[WindowMemory; 2]> {
        let d = self.rim.further.get(&window)?;
        let page = |place: &LinkPlace| {
            let span = d.pages().span().part(place.sides().0 as usize, PAGE).ok()?;
            Some(WindowMemory::of_sides(span.clone(), span.reader()))
        };
        Some([page(&places[0])?, page(&places[1])?])
    }

    /// A link by its note: a new one, or one of an earlier manager.
    pub(super) fn link_of(
        &self,
        number: u64,
        note: LinkNote,
        [(from, from_page), (to, to_page)]: [(LinkEnd, PortPage); 2],
    ) -> Link {
        let (now, silence) = (self.now(), self.config.link_settings.silence_ms);
        let LinkNote { out_place, out_bell, in_place, .. } = note;
        let words = LinkWords { number, out_place, out_bell, in_place };
        let had = Had { epoch: note.epoch, over: note.over };
        let ring = LinkPlace::of(out_place).map_or(PAGE as u64, |place| place.ring);
        let ring = Ring::new(ring).expect("a place has a ring that can be");
        Link {
            pair: note.pair(),
            window: note.window,
            handover: Handover::new((from_page, to_page), words, had, silence, now),
            ends: [from, to],
            note,
            counts: LinkCounts {
                ledger: Ledger::new(ring, Claims::default()),
                is_wrong: false,
                looked: now,
            },
            due: 0,
            eager: now + LINK_EAGER.as_millis() as u64,
        }
    }

    /// Ends links of which a port is gone. Its pages may be another channel's soon: nothing is
    /// stored there any more.
    pub(super) fn mind_link_ends(&mut self) {
        let is_gone =
            |end: &LinkEnd| self.port_at(end.grant).is_none_or(|at| at.window != end.window);
        let mut gone = vec![];
        for (number, link) in &self.links.links {
            for end in link.ends.iter().filter(|end| !end.page.is_gone() && is_gone(end)) {
                end.page.goes();
                gone.push(*number);
            }
        }
        for number in gone {
            if let Some(link) = self.links.links.get_mut(&number) {
                link.handover.wish(Wish::End);
                link.due = 0;
            }
        }
    }

    /// Looks at a link, and does what is to be done.
    pub(super) fn step_link(&mut self, number: u64) {
        let now = self.now();
        let Some(driver) = self.links.links.get(&number).map(|link| self.link_driver(link)) else {
            return;
        };
        let Some(link) = self.links.links.get_mut(&number) else { return };
        let (before, _) = link.handover.state();
        let acts = link.handover.step(now, driver);
        let (after, _) = link.handover.state();
        let is_there = matches!(driver, DriverView::There { both: true, .. });
        let turns = link.handover.turns() || after == LinkState::Switch && now < link.eager;
        link.due = now + look_after(after, turns, is_there).as_millis() as u64;
        if before != after {
            tracing::info!(
                link = number,
                from = link.pair.from,
                to = link.pair.to,
                said = ?link.handover.said(),
                "direct link: {}",
                after.text()
            );
        }
        acts.into_iter().for_each(|act| self.do_for_link(number, act));
        self.count_link(number, now);
    }

    fn do_for_link(&mut self, number: u64, act: LinkAct) {
        match act {
            LinkAct::Note { epoch } => self.note_link(number, |note, _| note.epoch = epoch),
            LinkAct::NoteOver => self.note_link(number, |note, link| {
                (note.over, note.silent) = (true, link.was_silent());
            }),
            LinkAct::Tell { epoch } => self.tell_link(number, epoch),
            LinkAct::Allow { epoch } => self.tell_of_link(number, word::ALLOW, epoch),
            LinkAct::Force { epoch } => self.tell_of_link(number, word::FORCE, epoch),
            LinkAct::Unlink => self.tell_of_link(number, word::UNLINK, 0),
            LinkAct::RingSender => self.ring_vm_of(number, 0),
            LinkAct::RingReceiver => self.ring_vm_of(number, 1),
            LinkAct::Forget => self.forget_link(number),
        }
    }

    /// Something stands in a VM's page that it is to look at.
    fn ring_vm_of(&self, number: u64, end: usize) {
        let window = self.links.links.get(&number).map(|link| link.ends[end].window);
        let bells = window.and_then(|w| self.rim.windows.get(&w)?.window.bells());
        if let Some(bells) = bells {
            bells.ring_app(0);
        }
    }

    pub(super) fn ring_vms(&self, number: u64) {
        (0..2).for_each(|end| self.ring_vm_of(number, end));
    }

    /// Nobody has anything of a link any more.
    fn forget_link(&mut self, number: u64) {
        self.count_link(number, u64::MAX);
        self.close_share(number);
        self.ring_vms(number);
        let Some(link) = self.links.links.remove(&number) else { return };
        self.links.bells.free(number);
        self.links.remember(&link);
        self.links.changed = true;
        if link.note.silent || link.handover.was_silent() {
            self.bar_window(link.window);
        }
        if link.handover.was_refused() {
            let why = "the switch's driver did nothing for its link: it is tried again soon (its log says why)";
            self.rest_pair(&link.pair, why);
        }
        self.let_link_go(number);
        tracing::info!(
            link = number,
            from = link.pair.from,
            to = link.pair.to,
            "a direct link has ended"
        );
    }

    pub(super) fn rest_pair(&mut self, pair: &Pair, why: &str) {
        let until = self.now() + LINK_REST.as_millis() as u64;
        self.links.resting.insert(pair.clone(), (until, why.into()));
    }

    /// A VM was silent, and may use the window still (R-LNK-10).
    fn bar_window(&mut self, window: WindowId) {
        let Some(d) = self.rim.further.get(&window) else { return };
        if let [a, b] = d.note().peers.as_slice() {
            let of = [a.of, b.of];
            self.links.bars.insert(window, Bar { of, let_go: None });
            self.hold_bar(window, of);
        }
    }

    /// A VM that was silent has let go of the window, or is another one. That it has let go is
    /// what it says: so the window rests a while.
    pub(super) fn lift_bars(&mut self) {
        let (now, rest) = (self.now(), LINK_BAR_REST.as_millis() as u64);
        let mut over = vec![];
        for (window, bar) in &self.links.bars {
            let Some(d) = self.rim.further.get(window) else {
                over.push(*window);
                continue;
            };
            let of: Vec<_> = d.note().peers.iter().map(|p| p.of).collect();
            let is_rested = bar.let_go.is_some_and(|since| now.saturating_sub(since) >= rest);
            if of != bar.of || is_rested {
                over.push(*window);
            }
        }
        let let_go = |window: &WindowId| {
            let d = self.rim.further.get(window);
            d.is_some_and(|d| (0..2).any(|peer| !self.is_plugged(d, peer)))
        };
        let gone: Vec<WindowId> =
            self.links.bars.keys().filter(|window| let_go(window)).copied().collect();
        for window in gone {
            if let Some(bar) = self.links.bars.get_mut(&window) {
                bar.let_go.get_or_insert(now);
            }
        }
        for window in over {
            self.links.bars.remove(&window);
            self.links.changed = true;
            self.let_bar_go(window);
        }
    }

    /// The header pages of a link that is there, as long as its window is.
    pub(super) fn sides_of(&self, link: &Link) -> Option<[WindowMemory; 2]> {
        let (out, back) = (LinkPlace::of(link.note.out_place), LinkPlace::of(link.note.in_place));
        let is_same = |d: &HostFurther| d.note().key == link.note.key;
        self.rim.further.get(&link.window).filter(|d| is_same(d))?;
        self.link_sides(link.window, &[out?, back?])
    }

    /// Looks at what the two VMs say of their frames (R-LNK-8).
    fn count_link(&mut self, number: u64, now: u64) {
        let Some(link) = self.links.links.get(&number) else { return };
        if now.saturating_sub(link.counts.looked) < LINK_COUNT.as_millis() as u64 {
            return;
        }
        let Some(sides) = self.sides_of(link) else { return };
        let Some(link) = self.links.links.get_mut(&number) else { return };
        let wrong = link.counts.ledger.look(Reading::of(&sides[0], &sides[1])).is_err();
        let was_wrong = std::mem::replace(&mut link.counts.is_wrong, wrong);
        link.counts.looked = now;
        if wrong && was_wrong && link.handover.wish(Wish::Leave) {
            let pair = link.pair.clone();
            tracing::warn!(link = number, "counts of a direct link cannot be true: it ends");
            self.rest_pair(&pair, "what its two VMs count over the link cannot be true");
        }
    }
}

impl LinkState {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            LinkState::Switch => "switch",
            LinkState::Going => "going",
            LinkState::Direct => "direct",
            LinkState::Back => "back",
            LinkState::Over => "over",
        }
    }
}
