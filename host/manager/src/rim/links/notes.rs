//! What the next manager is to know of links, and how it goes on.

use super::Bar;
use super::bells::BellPlace;
use super::facts::PortAt;
use super::flows::{FLOW, Share};
use super::handover::{Handover, Wish};
use super::live::LinkEnd;
use super::page::PortPage;
use super::want::Pair;
use crate::core::WindowId;
use crate::rim::Daemon;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;
use vfun_keeper::Change;
use vfun_packet::layout::header::{IN_PLACE, LINK_IN, LINK_OUT, OUT_BELL, OUT_PLACE, TURN};
use vfun_packet::{LinkPlace, Memory};
use vfun_rim::methods::*;
use vfun_rim::take_up::LINK;
use vfun_wire::Handle;
use vfun_wire::limits::PORT_NAME_BYTES;

/// What the names of notes of windows that are not used again begin with, behind [`LINK`].
const BAR: &str = "bar-";
/// The same of VMs that have not let go of a window, by their control windows.
const STUCK: &str = "stuck-";
/// The same of how many bells a VM's QEMU was told of, by its control window.
const TOLD: &str = "told-";

/// A link, as it is noted before anybody can see what is noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LinkNote {
    /// Its ports, by their names on the host.
    pub from: String,
    pub to: String,
    /// The grants by which their VMs have them.
    pub grants: [u64; 2],
    /// The window that it lies in, and the key of that.
    pub window: WindowId,
    #[serde(default)]
    pub key: [u64; 2],
    /// What its VMs find in their pages.
    pub out_place: u64,
    pub out_bell: u64,
    pub in_place: u64,
    /// The last epoch that its driver may know.
    pub epoch: u64,
    /// It is not used again; and whether a VM was silent.
    pub over: bool,
    pub silent: bool,
    /// The rules that its frames count for.
    #[serde(default)]
    pub share: Option<Share>,
}

impl LinkNote {
    pub fn new(
        pair: &Pair,
        [from, to]: &[PortAt; 2],
        window: WindowId,
        ([out, back], out_bell): ([LinkPlace; 2], u64),
    ) -> Self {
        LinkNote {
            from: pair.from.clone(),
            to: pair.to.clone(),
            grants: [from.grant.0, to.grant.0],
            window,
            key: [0; 2],
            out_place: out.word(),
            out_bell,
            in_place: back.word(),
            epoch: 0,
            over: false,
            silent: false,
            share: None,
        }
    }

    pub fn pair(&self) -> Pair {
        Pair { from: self.from.clone(), to: self.to.clone() }
    }

    /// Reads one; what no manager can have written is refused.
    fn read(text: &str) -> Result<Self, String> {
        let note: LinkNote = serde_json::from_str(text).map_err(|e| e.to_string())?;
        match [note.out_place, note.in_place].map(LinkPlace::of) {
            _ if note.from.len().max(note.to.len()) > PORT_NAME_BYTES => {
                Err("a port of it has too long a name".into())
            }
            [Some(out), Some(back)] if out.ring == back.ring => Ok(note),
            _ => Err("it has no place".into()),
        }
    }
}

impl Daemon {
    /// Notes a link.
    pub(super) fn hold_link(&mut self, number: u64, note: &LinkNote) {
        // The number must not be given again whatever happens.
        self.note_changes();
        let text = serde_json::to_string(note).expect("plain data");
        self.tell_keeper(vec![Change { name: format!("{LINK}{number}"), note: Some(text) }]);
    }

    /// Notes something else of one.
    pub(super) fn note_link(
        &mut self,
        number: u64,
        change: impl FnOnce(&mut LinkNote, &Handover<PortPage>),
    ) {
        let Some(link) = self.links.links.get_mut(&number) else { return };
        change(&mut link.note, &link.handover);
        let note = link.note.clone();
        self.hold_link(number, &note);
    }

    pub(super) fn let_link_go(&mut self, number: u64) {
        self.tell_keeper(vec![Change { name: format!("{LINK}{number}"), note: None }]);
    }

    pub(super) fn hold_bar(&mut self, window: WindowId, of: [Option<WindowId>; 2]) {
        let text = serde_json::to_string(&of).expect("plain data");
        let name = format!("{LINK}{BAR}{window}");
        self.tell_keeper(vec![Change { name, note: Some(text) }]);
    }

    pub(super) fn let_bar_go(&mut self, window: WindowId) {
        self.tell_keeper(vec![Change { name: format!("{LINK}{BAR}{window}"), note: None }]);
    }

    pub(super) fn hold_stuck(&mut self, control: WindowId, window: &str) {
        let name = format!("{LINK}{STUCK}{control}");
        self.tell_keeper(vec![Change { name, note: Some(window.to_owned()) }]);
    }

    pub(super) fn let_stuck_go(&mut self, control: WindowId) {
        self.tell_keeper(vec![Change { name: format!("{LINK}{STUCK}{control}"), note: None }]);
    }

    /// Notes of how many bells a QEMU was told; none: it is gone.
    pub(super) fn hold_told(&mut self, control: WindowId, told: Option<usize>) {
        let (name, note) = (format!("{LINK}{TOLD}{control}"), told.map(|told| told.to_string()));
        self.tell_keeper(vec![Change { name, note }]);
    }

    /// Gives all notes to a keeper that is new.
    pub(in crate::rim) fn hold_links(&mut self) {
        let notes: Vec<_> = self.links.links.iter().map(|(n, l)| (*n, l.note.clone())).collect();
        notes.iter().for_each(|(number, note)| self.hold_link(*number, note));
        let bars: Vec<_> = self.links.bars.iter().map(|(window, bar)| (*window, bar.of)).collect();
        bars.into_iter().for_each(|(window, of)| self.hold_bar(window, of));
        let stuck = self.links.made.stuck.clone();
        stuck.iter().for_each(|(control, window)| self.hold_stuck(*control, window));
        let told = self.links.bells.all_told();
        told.into_iter().for_each(|(control, told)| self.hold_told(control, Some(told)));
        self.hold_flows();
    }

    /// Goes on with the links of an earlier manager. Frames go back to the switch: nobody has
    /// said yet that it joins the ports.
    pub(in crate::rim) fn find_links(&mut self) {
        self.remove_old_served();
        self.links.changed = true;
        for (name, text) in std::mem::take(&mut self.links.left) {
            if self.find_other_note(&name, &text) {
                continue;
            }
            if let Some(number) = name.strip_prefix(FLOW).and_then(|n| n.parse().ok()) {
                self.take_flow_up(number, &text);
                continue;
            }
            let read = name.parse().map_err(|_| "its name is no number".to_owned());
            match read.and_then(|number| Ok((number, LinkNote::read(&text)?))) {
                Ok((number, note)) => self.take_link_up(number, note),
                Err(why) => {
                    tracing::error!("link {name} could not be taken up: {why}");
                    self.tell_keeper(vec![Change { name: format!("{LINK}{name}"), note: None }]);
                }
            }
        }
        self.clear_unknown_links();
    }

    /// Takes up what is noted besides links; whether it was such a note.
    fn find_other_note(&mut self, name: &str, text: &str) -> bool {
        let after = |prefix| name.strip_prefix(prefix).and_then(|n| n.parse::<WindowId>().ok());
        if let Some(window) = after(BAR) {
            if let Ok(of) = serde_json::from_str(text) {
                self.links.bars.insert(window, Bar { of, let_go: None });
            }
        } else if let Some(control) = after(STUCK) {
            self.links.made.stuck.insert(control, text.to_owned());
        } else if let Some(control) = after(TOLD) {
            if let Ok(told) = text.parse() {
                self.links.bells.were_told(control, told);
            }
        } else {
            return false;
        }
        true
    }

    /// No VM goes on with a link of which no note is left: it comes back by itself (R-LNK-4).
    fn clear_unknown_links(&self) {
        let all: Vec<Handle> = self.rim.core.grants().map(|(grant, _)| grant).collect();
        for at in all.into_iter().filter_map(|grant| self.port_at(grant)) {
            let Some(page) = self.port_pages(&at) else { continue };
            let is_known = |word| {
                let number = page.load_own(word, Ordering::Relaxed);
                number == 0 || self.links.links.contains_key(&number)
            };
            let (out, back) = (is_known(LINK_OUT), is_known(LINK_IN));
            let of_out = [LINK_OUT, TURN, OUT_PLACE, OUT_BELL];
            let unknown =
                of_out.iter().filter(|_| !out).chain([LINK_IN, IN_PLACE].iter().filter(|_| !back));
            unknown.for_each(|word| page.store(*word, 0, Ordering::Release));
            let window = self.rim.windows.get(&at.window).filter(|_| !out || !back);
            if let Some(bells) = window.and_then(|a| a.window.bells()) {
                bells.ring_app(0);
            }
        }
    }

    fn take_link_up(&mut self, number: u64, note: LinkNote) {
        let at = note.grants.map(|grant| self.port_at(Handle(grant)));
        let ends = [0, 1].map(|n| match &at[n] {
            Some(at) => self.link_page(at),
            None => LinkEnd::gone(Handle(note.grants[n])),
        });
        if let [Some(from), Some(to)] = &at {
            let vector = to.place.vector_in();
            let place = BellPlace { at: from.window, of: to.window, vector, shared: note.window };
            self.links.bells.had(place, (note.out_bell >> 16) as u16, number);
        }
        let is_whole = at.iter().all(Option::is_some);
        let mut link = self.link_of(number, note, ends);
        if !is_whole {
            link.handover.wish(Wish::End);
        }
        tracing::info!(
            link = number,
            from = link.pair.from,
            to = link.pair.to,
            "a direct link is taken up"
        );
        self.links.links.insert(number, link);
        self.ring_vms(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_one_without_a_place_is_refused() {
        let place = |is_second| LinkPlace { window: 2, ring: 1 << 16, is_second }.word();
        let note = LinkNote {
            from: "a".into(),
            to: "b".into(),
            grants: [1 << 40, 7],
            window: 12,
            key: [u64::MAX, 3],
            out_place: place(false),
            out_bell: 5 << 16,
            in_place: place(true),
            epoch: 9,
            over: true,
            silent: false,
            share: None,
        };
        let text = |note: &LinkNote| serde_json::to_string(note).unwrap();
        assert_eq!(LinkNote::read(&text(&note)), Ok(note.clone()));
        assert!(LinkNote::read(&text(&LinkNote { in_place: 5, ..note })).is_err());
        assert!(LinkNote::read("{}").is_err());
    }
}
