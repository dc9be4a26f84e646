//! Further windows: memory beside the control windows of VMs. A data window is shared with
//! one VM, and the host alone lays buffers out there. A link is shared with two VMs, and
//! what lies there is theirs. The host believes nothing that it reads in either, not even
//! the header that it wrote itself.

use crate::System;
use crate::act::Act;
use crate::keep::Keep;
use crate::pages::{Memory, Pages};
use crate::system::{KeptThing, Line};
use crate::windows::Windows;
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use vfun_core::catalog::VmId;
use vfun_core::further::Further;
use vfun_core::{Event, WindowId};
use vfun_window::MapError;
use vfun_wire::header::{Role, WindowEntry, WindowHeader};
use vfun_wire::limits::WINDOWS_MAX;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

/// What the names of further windows at the keeper begin with.
pub(crate) const FURTHER: &str = "rim/further/";

/// What the next manager is to know of a further window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FurtherNote {
    /// Its name, as the operator declared it.
    pub name: String,
    /// The VM that has it, or the two that share it.
    pub peers: Vec<PeerNote>,
    /// Its size.
    pub bytes: u64,
    /// Bytes of a page of its file.
    pub page: u64,
    /// What its header has as key, and the control windows' tables.
    pub key: [u64; 2],
}

/// The same of one VM that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerNote {
    /// clientID.
    pub client: u32,
    /// The VM.
    pub vm: String,
    /// The window's number in the VM, from 1.
    pub index: u16,
    /// The control window that names it.
    pub of: Option<WindowId>,
}

impl FurtherNote {
    /// What it is for.
    pub fn role(&self) -> Role {
        match self.peers.len() {
            1 => Role::Data,
            _ => Role::Link,
        }
    }
}

impl PeerNote {
    /// Whether it is this VM.
    pub fn is(&self, client: u32, vm: Option<&str>) -> bool {
        (self.client, Some(self.vm.as_str())) == (client, vm)
    }

    /// Which VM it is.
    pub fn vm_id(&self) -> VmId {
        VmId { client: self.client, vm: self.vm.clone() }
    }

    /// Where it is named.
    pub fn place(&self) -> Option<(WindowId, u16)> {
        Some((self.of?, self.index))
    }
}

/// A further window, from the host's side.
pub struct HostFurther {
    note: FurtherNote,
    pages: Pages,
}

impl HostFurther {
    /// Maps a file, whose pages have `page` bytes, for a VM or for two, each with the
    /// window's number in it. A data window is laid out when a control window of the VM is
    /// there, a link when it comes [up](FurtherWindows::further_up).
    ///
    /// # Errors
    /// Of the system.
    pub fn new(
        name: &str,
        file: OwnedFd,
        vms: Vec<(VmId, u16)>,
        (bytes, page): (u64, u64),
    ) -> Result<Self, MapError> {
        let pages = Pages::map(Memory::from(file), bytes)?;
        let peer = |(VmId { client, vm }, index)| PeerNote { client, vm, index, of: None };
        let (name, peers) = (name.to_owned(), vms.into_iter().map(peer).collect());
        let note = FurtherNote { name, peers, bytes, page, key: [0; 2] };
        Ok(HostFurther { note, pages })
    }

    /// Takes one up where an earlier manager was killed: nothing in it is changed.
    ///
    /// # Errors
    /// Of the system.
    pub fn take_up(file: OwnedFd, note: FurtherNote) -> Result<Self, MapError> {
        let pages = Pages::map(Memory::from(file), note.bytes)?;
        Ok(HostFurther { note, pages })
    }

    /// What is known of it.
    pub fn note(&self) -> &FurtherNote {
        &self.note
    }
    /// Its memory.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Whether a control window names it by this number.
    fn is_named(&self, window: WindowId, index: u16) -> bool {
        self.note.peers.iter().any(|p| p.place() == Some((window, index)))
    }

    /// Writes its header anew, with another key: from then on nobody takes it for what it was.
    fn lay_out(&mut self, generation: u64, key: [u64; 2]) {
        let span = self.pages.span();
        span.store(0, 0, Ordering::SeqCst);
        span.part(0, vfun_wire::PAGE).expect("a window is larger").zero();
        let header = WindowHeader::further(self.note.role(), self.note.bytes, generation, key);
        span.write(8, &header.as_bytes()[8..]).expect("inside");
        span.store(0, header.magic.get(), Ordering::Release);
        self.note.key = key;
    }

    /// What one of its VMs is told of it in the control window's table, and the core.
    fn names(&self, place: usize) -> (WindowEntry, Further) {
        let FurtherNote { bytes, page, key, .. } = self.note;
        let (role, index) = (self.note.role(), self.note.peers[place].index);
        let entry = WindowEntry {
            index: U16::new(index),
            role: U16::new(role.to_wire()),
            reserved: U32::ZERO,
            bytes: U64::new(bytes),
            key: key.map(U64::new),
        };
        let link = role == Role::Link;
        (entry, Further { index, key, bytes, page, link, here: false })
    }
}

/// The lowest number that no further window of a VM has; none if it has as many as a table holds.
pub fn free_index<'a>(windows: impl Iterator<Item = &'a HostFurther>, vm: &VmId) -> Option<u16> {
    let peers = windows.flat_map(|d| &d.note.peers);
    let taken = peers.filter(|p| p.is(vm.client, Some(&vm.vm))).map(|p| p.index);
    let taken: Vec<u16> = taken.collect();
    (1..=WINDOWS_MAX as u16).find(|index| !taken.contains(index))
}

/// Further windows come and go.
pub trait FurtherWindows: System {
    /// One that is there from now on.
    fn further_up(&mut self, mut window: HostFurther) {
        if window.note.role() == Role::Link {
            // Once (R-WIN-16): when one of its VMs starts again, the other goes on with it.
            let (generation, key) = (self.next_window_generation(), self.fresh_key());
            window.lay_out(generation, key);
        }
        let id = self.fresh_id();
        self.rim_mut().further.insert(id, window);
        self.hold_further(id);
        self.name_further();
    }

    /// One is there no more: what lies in it ends.
    fn further_down(&mut self, id: WindowId) {
        let Some(d) = self.rim().further.get(&id) else { return };
        let named: Vec<_> = d.note.peers.iter().filter_map(PeerNote::place).collect();
        named.into_iter().for_each(|(window, index)| self.unname(window, index));
        // Noted before the keeper lets go of it. Killed in between, this manager leaves a
        // window that is kept and not declared, which the next one takes down; not one that
        // the core names and nobody has.
        self.settle();
        self.point("a further window is named no more, and kept");
        self.rim_mut().further.remove(&id);
        self.forget(format!("{FURTHER}{id}"));
    }

    /// A number in a control window names no window any more.
    fn unname(&mut self, window: WindowId, index: u16) {
        if let Some(a) = self.rim_mut().windows.get_mut(&window) {
            a.window.name_window(index, WindowEntry::NONE);
        }
        self.push(Event::WindowUnnamed { window, index });
    }

    /// The core notes by itself what it names: what of that was not taken up is named no more.
    fn unname_what_is_gone(&mut self) {
        let rim = self.rim();
        let known = rim.core.all_further().map(|(window, f)| (window, f.index));
        let gone = known.filter(|(w, index)| !rim.further.values().any(|d| d.is_named(*w, *index)));
        let gone: Vec<(WindowId, u16)> = gone.collect();
        gone.into_iter().for_each(|(window, index)| self.unname(window, index));
    }

    /// Names each further window in the control window of each of its VMs, if that is there
    /// and does not name it yet. Memory that services may touch still waits.
    fn name_further(&mut self) {
        let mut due = vec![];
        let rim = self.rim();
        for (id, d) in &rim.further {
            for (place, p) in d.note.peers.iter().enumerate() {
                let its = rim.windows.iter().find(|(_, a)| p.is(a.client, a.vm.as_deref()));
                let Some((window, _)) = its.filter(|(window, _)| p.of != Some(**window)) else {
                    continue;
                };
                let data = d.note.role() == Role::Data;
                if !(data && rim.core.is_touched(p.client, p.index)) {
                    due.push((*id, place, *window));
                }
            }
        }
        due.into_iter().for_each(|(id, place, window)| self.name_one(id, place, window));
    }

    fn name_one(&mut self, id: WindowId, place: usize, window: WindowId) {
        let (generation, key) = (self.next_window_generation(), self.fresh_key());
        let Some(d) = self.rim_mut().further.get_mut(&id) else { return };
        if d.note.role() == Role::Data {
            d.lay_out(generation, key);
        }
        d.note.peers[place].of = Some(window);
        let names = d.names(place);
        // Noted before the guest can know of it.
        self.hold_further(id);
        self.point("a further window is kept, not named");
        self.name_in(window, names);
    }

    /// A control window names a further window from now on.
    fn name_in(&mut self, window: WindowId, (entry, named): (WindowEntry, Further)) {
        self.push(Event::WindowNamed { window, named });
        if let Some(a) = self.rim_mut().windows.get_mut(&window) {
            a.window.name_window(named.index, entry);
        }
    }

    /// Takes one up that an earlier manager had.
    ///
    /// # Errors
    /// A sentence for people; it is made anew then, if it is declared.
    fn take_up_further(
        &mut self,
        id: WindowId,
        note: &str,
        kept: Self::Kept,
    ) -> Result<(), String> {
        let mut note: FurtherNote = serde_json::from_str(note).map_err(|e| e.to_string())?;
        if !(1..=2).contains(&note.peers.len()) {
            return Err(format!("it has {} VMs", note.peers.len()));
        }
        let file = self.regain_further(kept)?;
        let rim = self.rim_mut();
        for peer in &mut note.peers {
            peer.of = peer.of.filter(|window| rim.windows.contains_key(window));
        }
        let d = HostFurther::take_up(file, note).map_err(|e| e.to_string())?;
        let places = d.note.peers.iter().enumerate();
        let named: Vec<_> = places.filter_map(|(at, p)| Some((p.of?, d.names(at)))).collect();
        rim.next_id = rim.next_id.max(id);
        rim.further.insert(id, d);
        named.into_iter().for_each(|(window, names)| self.name_in(window, names));
        Ok(())
    }

    /// The data window that a VM's control window names by a number.
    fn data_of(&self, window: WindowId, index: u16) -> Option<(WindowId, &HostFurther)> {
        let its = |d: &HostFurther| d.note.role() == Role::Data && d.is_named(window, index);
        self.rim().further.iter().find(|(_, d)| its(d)).map(|(id, d)| (*id, d))
    }

    /// Gives the keeper one.
    fn hold_further(&mut self, id: WindowId) {
        let Some(d) = self.rim().further.get(&id) else { return };
        let note = serde_json::to_string(&d.note).expect("plain data");
        if let Err(e) = self.hold(&format!("{FURTHER}{id}"), &note, KeptThing::Further(id)) {
            self.log(Line::Error, format_args!("a further window cannot be kept: {e}"));
        }
    }
}

impl<S: System> FurtherWindows for S {}
