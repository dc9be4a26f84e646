//! Data windows: memory that the host shares with one VM beside its control window. The
//! host alone lays buffers out there, and believes nothing that it reads there, not even
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

/// What the names of data windows at the keeper begin with.
pub(crate) const DATA: &str = "rim/data/";

/// What the next manager is to know of a data window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataNote {
    /// Its name, as the operator declared it.
    pub name: String,
    /// Number of the client, as on the wire.
    pub client: u32,
    pub vm: String,
    /// Its number in the VM, from 1.
    pub index: u16,
    pub bytes: u64,
    /// Bytes of a page of its file.
    pub page: u64,
    /// What its header has as key, and the control window's table.
    pub key: [u64; 2],
    /// The control window that names it.
    pub of: Option<WindowId>,
}

/// A further window of a VM, for buffers alone.
pub struct DataWindow {
    note: DataNote,
    pages: Pages,
}

impl DataWindow {
    /// Maps a file, whose pages have `page` bytes, for a VM. It is laid out when a control
    /// window of the VM is there.
    ///
    /// # Errors
    /// Of the system.
    pub fn new(
        name: &str,
        file: OwnedFd,
        vm: VmId,
        index: u16,
        (bytes, page): (u64, u64),
    ) -> Result<Self, MapError> {
        let pages = Pages::map(Memory::from(file), bytes)?;
        let (name, client, vm) = (name.to_owned(), vm.client, vm.vm);
        let note = DataNote { name, client, vm, index, bytes, page, key: [0; 2], of: None };
        Ok(DataWindow { note, pages })
    }

    /// Takes one up where an earlier manager was killed: nothing in it is changed.
    ///
    /// # Errors
    /// Of the system.
    pub fn take_up(file: OwnedFd, note: DataNote) -> Result<Self, MapError> {
        let pages = Pages::map(Memory::from(file), note.bytes)?;
        Ok(DataWindow { note, pages })
    }

    /// What is known of it.
    pub fn note(&self) -> &DataNote {
        &self.note
    }
    pub fn pages(&self) -> &Pages {
        &self.pages
    }
    /// Whether it is this VM's.
    pub fn is_of(&self, client: u32, vm: Option<&str>) -> bool {
        (self.note.client, Some(self.note.vm.as_str())) == (client, vm)
    }

    /// Writes its header anew, with another key: from then on nobody takes it for what it was.
    fn lay_out(&mut self, generation: u64, key: [u64; 2], of: WindowId) {
        let span = self.pages.span();
        span.store(0, 0, Ordering::SeqCst);
        span.part(0, vfun_wire::PAGE).expect("a window is larger").zero();
        let header = WindowHeader::further(Role::Data, self.note.bytes, generation, key);
        span.write(8, &header.as_bytes()[8..]).expect("inside");
        span.store(0, header.magic.get(), Ordering::Release);
        (self.note.key, self.note.of) = (key, Some(of));
    }

    /// Its entry in the control window's table.
    fn entry(&self) -> WindowEntry {
        WindowEntry {
            index: U16::new(self.note.index),
            role: U16::new(Role::Data.to_wire()),
            reserved: U32::ZERO,
            bytes: U64::new(self.note.bytes),
            key: self.note.key.map(U64::new),
        }
    }

    fn further(&self) -> Further {
        let DataNote { index, bytes, page, key, .. } = self.note;
        Further { index, key, bytes, page, here: false }
    }
}

/// The lowest number that no data window of a VM has; none if it has as many as a table holds.
pub fn free_index<'a>(windows: impl Iterator<Item = &'a DataWindow>, vm: &VmId) -> Option<u16> {
    let its = windows.filter(|d| d.is_of(vm.client, Some(&vm.vm)));
    let taken: Vec<u16> = its.map(|d| d.note.index).collect();
    (1..=WINDOWS_MAX as u16).find(|index| !taken.contains(index))
}

/// Data windows come and go.
pub trait Data: System {
    /// A data window that is there from now on.
    fn data_window_up(&mut self, window: DataWindow) {
        let id = self.fresh_id();
        self.rim_mut().data.insert(id, window);
        self.hold_data(id);
        self.name_data_windows();
    }

    /// One is there no more: what lies in it ends.
    fn data_window_down(&mut self, id: WindowId) {
        let Some(d) = self.rim_mut().data.remove(&id) else { return };
        self.forget(format!("{DATA}{id}"));
        let DataNote { of, index, .. } = d.note;
        let Some(window) = of else { return };
        if let Some(a) = self.rim_mut().windows.get_mut(&window) {
            a.window.name_window(index, WindowEntry::NONE);
        }
        self.push(Event::WindowUnnamed { window, index });
    }

    /// Names each data window in its VM's control window, if that is there and does not
    /// name it yet. Memory that services may touch still waits.
    fn name_data_windows(&mut self) {
        let rim = self.rim();
        let due = rim.data.iter().filter_map(|(data, d)| {
            let its = |(_, a): &(&WindowId, &crate::Attached<Self::Peer>)| {
                d.is_of(a.client, a.vm.as_deref())
            };
            let (id, _) = rim.windows.iter().find(its)?;
            let waits = d.note.of != Some(*id) && rim.core.is_touched(d.note.client, d.note.index);
            (d.note.of != Some(*id) && !waits).then_some((*data, *id))
        });
        let due: Vec<(WindowId, WindowId)> = due.collect();
        for (data, window) in due {
            self.name_data_window(data, window);
        }
    }

    fn name_data_window(&mut self, data: WindowId, window: WindowId) {
        let key = self.fresh_key();
        let rim = self.rim_mut();
        rim.window_generation += 1;
        let generation = rim.window_generation;
        let Some(d) = rim.data.get_mut(&data) else { return };
        d.lay_out(generation, key, window);
        let (entry, further) = (d.entry(), d.further());
        // Noted before the guest can know of it.
        self.hold_data(data);
        self.point("a data window is kept, not named");
        self.push(Event::WindowNamed { window, named: further });
        if let Some(a) = self.rim_mut().windows.get_mut(&window) {
            a.window.name_window(entry.index.get(), entry);
        }
    }

    /// Takes a data window up that an earlier manager had.
    ///
    /// # Errors
    /// A sentence for people; it is made anew then, if it is declared.
    fn take_up_data(&mut self, id: WindowId, note: &str, kept: Self::Kept) -> Result<(), String> {
        let mut note: DataNote = serde_json::from_str(note).map_err(|e| e.to_string())?;
        let file = self.regain_data(kept)?;
        note.of = note.of.filter(|window| self.rim().windows.contains_key(window));
        let d = DataWindow::take_up(file, note).map_err(|e| e.to_string())?;
        let named = d.note.of.map(|window| (window, d.entry(), d.further()));
        let rim = self.rim_mut();
        rim.next_id = rim.next_id.max(id);
        rim.data.insert(id, d);
        if let Some((window, entry, further)) = named {
            if let Some(a) = self.rim_mut().windows.get_mut(&window) {
                a.window.name_window(entry.index.get(), entry);
            }
            self.push(Event::WindowNamed { window, named: further });
        }
        Ok(())
    }

    /// The data window that a VM's control window names by a number.
    fn data_of(&self, window: WindowId, index: u16) -> Option<(WindowId, &DataWindow)> {
        let its = |d: &DataWindow| (d.note.of, d.note.index) == (Some(window), index);
        self.rim().data.iter().find(|(_, d)| its(d)).map(|(id, d)| (*id, d))
    }

    /// Gives the keeper a data window.
    fn hold_data(&mut self, id: WindowId) {
        let Some(d) = self.rim().data.get(&id) else { return };
        let note = serde_json::to_string(&d.note).expect("plain data");
        if let Err(e) = self.hold(&format!("{DATA}{id}"), &note, KeptThing::Data(id)) {
            self.log(Line::Error, format_args!("a data window cannot be kept: {e}"));
        }
    }
}

impl<S: System> Data for S {}
