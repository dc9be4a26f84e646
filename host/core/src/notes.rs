//! What of the notes of [`kept`](super::kept) is not the very thing that the core keeps:
//! what of a window or a service is noted, and the core's own numbers. A number that no
//! manager can have written is refused: what is laid out by it later is trusted.

use super::breakers::{self, Breaker};
use super::further::Further;
use super::memory::{HOLD_MS, Memory};
use super::place::in_pages;
use super::services::{Owner, Service, ServiceState};
use super::{Catalog, ServiceId, Window, serial};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use vfun_wire::PAGE;
use vfun_wire::header::check_size;
use vfun_wire::limits::WINDOW_BYTES_MAX;
use vfun_wire::message::Location;

#[derive(Serialize, Deserialize)]
pub(super) struct CoreNote {
    pub next_service: ServiceId,
    pub next_app: u32,
    pub draining: bool,
    #[serde(default)]
    pub draining_clients: BTreeSet<String>,
    #[serde(default)]
    pub draining_functions: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct WindowNote {
    pub client: u32,
    #[serde(default, deserialize_with = "serial::option_name")]
    pub vm: Option<String>,
    pub bytes: u64,
    pub doorbell: bool,
    pub death_seen: bool,
    /// Whether each app in it must show who it is.
    #[serde(default)]
    pub proven: bool,
    /// Ranges that are held back: until when, where, how long.
    #[serde(default)]
    pub held: Vec<(u64, u64, u64)>,
    /// Until when nothing is given out.
    #[serde(default)]
    pub shut: Option<u64>,
    /// Control cells and the last request of each by which something ended.
    #[serde(default)]
    pub ended: Vec<(usize, u32)>,
    /// Bytes of a page of its file.
    #[serde(default = "usual_page")]
    pub page: u64,
    /// Its further windows, for buffers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<DataNote>,
    /// The further windows that its table names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<Further>,
}

fn usual_page() -> u64 {
    PAGE as u64
}

/// A memory for buffers.
#[derive(Serialize, Deserialize)]
pub(super) struct DataNote {
    pub index: u16,
    pub bytes: u64,
    pub page: u64,
    #[serde(default)]
    pub held: Vec<(u64, u64, u64)>,
    #[serde(default)]
    pub shut: Option<u64>,
}

impl DataNote {
    fn of((index, m): (&u16, &Memory)) -> Self {
        let (bytes, page) = (m.bytes(), m.page);
        DataNote { index: *index, bytes, page, held: m.held.clone(), shut: m.shut }
    }

    fn read(self, now: u64) -> Result<(u16, Memory), String> {
        if self.index == 0 {
            return Err("number 0 is the control window's".into());
        }
        check_memory(self.bytes, self.page)?;
        let mut memory = Memory::data(self.bytes, self.page);
        hold(&mut memory, self.held, self.shut, now)?;
        Ok((self.index, memory))
    }
}

/// Whether a window can have such a memory.
pub(super) fn check_memory(bytes: u64, page: u64) -> Result<(), String> {
    let usual = PAGE as u64;
    if !page.is_power_of_two() || page < usual || page > WINDOW_BYTES_MAX {
        return Err(format!("a page has no {page} bytes"));
    }
    match bytes.is_multiple_of(usual) && (2 * usual..=WINDOW_BYTES_MAX).contains(&bytes) {
        true => Ok(()),
        false => Err(format!("a memory of a window has no {bytes} bytes")),
    }
}

/// Puts in what is held back of a memory.
fn hold(
    memory: &mut Memory,
    held: Vec<(u64, u64, u64)>,
    shut: Option<u64>,
    now: u64,
) -> Result<(), String> {
    let latest = now.saturating_add(HOLD_MS);
    memory.shut = shut.map(|until| until.min(latest));
    for (until, off, bytes) in held {
        if !in_pages(off, bytes) || off + bytes > memory.bytes() || off < memory.heap.start() {
            return Err(format!("{bytes} bytes at {off} cannot be held back in it"));
        }
        memory.held.push((until.min(latest), off, bytes));
    }
    Ok(())
}

#[derive(Serialize, Deserialize)]
pub(super) struct BreakerNote {
    #[serde(rename = "client")]
    pub owner: Owner,
    #[serde(deserialize_with = "serial::name")]
    pub function: String,
    #[serde(with = "serial")]
    pub location: Location,
    pub breaker: Breaker,
}

/// A place in a table: its generation counts on even while nothing is in it.
#[derive(Serialize, Deserialize)]
pub(super) struct Slot<T> {
    pub generation: u32,
    pub thing: Option<T>,
}

impl<T> Slot<T> {
    pub fn read(self) -> Result<(u32, Option<T>), String> {
        // Handles of generation 0 name nothing.
        if self.generation == 0 && self.thing.is_some() {
            return Err("a generation of 0".into());
        }
        Ok((self.generation, self.thing))
    }
}

/// A service, and what its function was when it was noted; see [`print`].
#[derive(Serialize, Deserialize)]
pub(super) struct ServiceNote<S> {
    #[serde(flatten)]
    pub service: S,
    #[serde(default)]
    pub of: Option<u64>,
}

/// Tells whether a function was declared anew while no manager was there.
pub(super) fn print(catalog: &Catalog, owner: Owner, function: &str) -> u64 {
    let text = match catalog.terms(owner, function) {
        Some(terms) => format!("Some({terms})"),
        None => "None".to_owned(),
    };
    let hash = Sha256::digest(text.as_bytes());
    u64::from_le_bytes(hash[..8].try_into().expect("eight of 32"))
}

pub(super) fn text(note: &impl Serialize) -> String {
    serde_json::to_string(note).expect("plain data")
}

impl WindowNote {
    pub fn of(w: &Window) -> Self {
        WindowNote {
            client: w.client,
            vm: w.vm.clone(),
            bytes: w.control.bytes(),
            doorbell: w.doorbell,
            death_seen: w.death_seen,
            proven: w.proven,
            held: w.control.held.clone(),
            shut: w.control.shut,
            ended: w.ended.iter().enumerate().filter_map(|(c, s)| Some((c, (*s)?))).collect(),
            page: w.control.page,
            data: w.data.iter().map(DataNote::of).collect(),
            further: w.further.values().copied().collect(),
        }
    }

    pub fn read(self, now: u64) -> Result<Window, String> {
        check_size(self.bytes).map_err(|e| e.to_string())?;
        let mut window = Window::new(self.client, self.bytes, self.doorbell, self.death_seen);
        (window.vm, window.proven) = (self.vm, self.proven);
        for (cell, seq) in self.ended {
            let cell = window.ended.get_mut(cell).ok_or("there is no such control cell")?;
            *cell = Some(seq);
        }
        check_memory(self.bytes, self.page)?;
        window.control.page = self.page;
        hold(&mut window.control, self.held, self.shut, now)?;
        for note in self.data {
            let (index, memory) = note.read(now)?;
            window.data.insert(index, memory);
        }
        for further in self.further {
            check_memory(further.bytes, further.page)?;
            if further.link && window.data.contains_key(&further.index) {
                return Err(format!("its further window {} is a link, and memory", further.index));
            }
            window.further.insert(further.index, further);
        }
        Ok(window)
    }
}

impl<'a> ServiceNote<&'a Service> {
    pub fn of(service: &'a Service, catalog: &Catalog) -> Self {
        let of = Some(print(catalog, service.owner, &service.function));
        ServiceNote { service, of }
    }
}

impl ServiceNote<Service> {
    pub fn read(self, now: u64, catalog: &Catalog) -> Service {
        let mut s = self.service;
        (s.since_ms, s.used_ms) = (now, now);
        s.outdated |= self.of.is_some_and(|of| of != print(catalog, s.owner, &s.function));
        if let ServiceState::Backoff(at) = &mut s.state {
            // No wait is longer than a breaker's: one that says so would never end.
            *at = (*at).min(now.saturating_add(breakers::OPEN_MOST_MS));
        }
        // A client's own function has none, whichever it is.
        if s.devices.is_none() && (!s.outdated || vfun_submit::is_own(&s.function)) {
            let f = catalog.function_of(s.owner, &s.function);
            s.devices = Some(f.map_or(vec![], |f| f.devices_at(s.location).to_vec()));
        }
        s
    }
}

impl BreakerNote {
    pub fn read(self, now: u64) -> (breakers::BreakerKey, Breaker) {
        ((self.owner, self.function, self.location.to_wire()), self.breaker.kept_until(now))
    }
}
