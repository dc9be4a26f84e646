//! What is always so of the state, whatever happened: looked at after each event in
//! debug builds, and by the simulation, the fuzzers and the tests. Each rule is a
//! sentence; one that is broken is named by it.

use super::buffer::Buffer;
use super::grant::{Grant, Stage};
use super::memory::Memory;
use super::services::Owner;
use super::{Core, WindowId};
use std::collections::{BTreeMap, BTreeSet};
use vfun_wire::Handle;
use vfun_wire::limits::VECTORS;

/// `Err` with what is wrong, where the rule does not hold.
fn rule(holds: bool, rule: &str, of: impl FnOnce() -> String) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(format!("{rule}: {}", of())),
    }
}

/// Of one memory: no two share a byte, and all that is given out is somebody's.
fn check_memory(
    (window, index): (WindowId, u16),
    memory: &Memory,
    mut ranges: Vec<(u64, u64, Handle)>,
) -> Result<(), String> {
    let bytes: u64 = ranges.iter().map(|(from, to, _)| to - from).sum();
    let of = || format!("{bytes} of memory {index}, window {window}, not {}", memory.given_out());
    rule(bytes == memory.given_out(), "what is given out is some grant's or buffer's", of)?;
    ranges.extend(memory.held.iter().map(|(_, off, n)| (*off, off + n, Handle::NONE)));
    ranges.sort_unstable();
    let (start, end) = (memory.heap.start(), memory.heap.end());
    let inside = ranges.iter().all(|(from, to, _)| *from >= start && *to <= end);
    let of = || format!("memory {index}, window {window}: {ranges:x?}");
    rule(inside, "ranges lie inside of the heap", of)?;
    if let Some([a, b]) = ranges.array_windows().find(|[a, b]| a.1 > b.0) {
        let of = || format!("{} and {} in memory {index}, window {window}", a.2, b.2);
        rule(false, "no two share a range", of)?;
    }
    Ok(())
}

impl Core {
    /// Looks whether all is as it always is.
    ///
    /// # Panics
    ///
    /// With the rule that does not hold, and of what.
    pub fn check(&self) {
        if let Err(what) = self.rules() {
            panic!("{what}");
        }
    }

    fn rules(&self) -> Result<(), String> {
        for (handle, g) in self.grants.iter() {
            self.check_grant(handle, g)?;
        }
        self.check_sessions()?;
        self.check_places()?;
        self.check_vfs()?;
        self.check_buffers()?;
        self.grants.check()
    }

    fn check_grant(&self, handle: Handle, g: &Grant) -> Result<(), String> {
        let of = || format!("grant {handle} {g:?}");
        rule(g.check().is_ok(), "a grant's place is of its shape", of)?;
        let moving = g.moving().is_some();
        rule(!moving || g.stage.goes_on(), "only what goes on moves", of)?;
        rule(!moving || g.movable(), "only what may move moves", of)?;
        rule(g.also().is_none() || g.is_over(), "only what is over is parted from", of)?;
        if !self.resumed {
            // Its notes may have told of it and not of what belongs to it.
            return Ok(());
        }
        let closing = matches!(g.stage, Stage::Closing { .. });
        let there = self.windows.contains_key(&g.holder.window)
            && self.sessions.get(g.holder.session).is_ok();
        rule(there || closing, "a grant that is not closing has an app", of)?;
        let known = g.services().all(|s| self.services.contains_key(&s));
        rule(known, "a grant's services are there", of)?;
        let held = g.service().is_some() || g.also().is_some() || g.at_switch.is_some();
        rule(!closing || held, "a closing grant waits for a service or a switch", of)?;
        let on_vf = g.movable() && g.subject.location.is_hardware() && g.stage.goes_on();
        rule(!on_vf || g.vf().is_some(), "what runs on a device has a VF", of)?;
        let rests = g.movable() && !g.subject.location.is_hardware() && g.stage.goes_on();
        rule(!rests || moving || g.vf().is_none(), "what stays in software has no VF", of)
    }

    fn check_sessions(&self) -> Result<(), String> {
        for (id, w) in self.windows.iter() {
            for (line, handle) in w.lines.iter().enumerate().filter_map(|(l, h)| Some((l, (*h)?))) {
                let s = self.sessions.get(handle);
                let there = s.is_ok_and(|s| (s.window, usize::from(s.line)) == (*id, line));
                let of = || format!("line {line} of window {id} and session {handle}");
                rule(there, "a line that is taken is a session's", of)?;
            }
        }
        for (handle, s) in self.sessions.iter() {
            let Some(w) = self.windows.get(&s.window) else {
                let of = || format!("session {handle} in window {}", s.window);
                rule(!self.resumed, "a session has a window", of)?;
                continue;
            };
            let has = w.lines.get(usize::from(s.line)) == Some(&Some(handle));
            rule(has, "a session has a line", || format!("session {handle} {s:?}"))?;
        }
        Ok(())
    }

    /// Of each window: who has which range, and how much is given out.
    fn check_places(&self) -> Result<(), String> {
        let mut places: BTreeMap<WindowId, Vec<(Handle, &Grant)>> = BTreeMap::new();
        for (handle, g) in self.grants.iter().filter(|(_, g)| g.stage.place().is_some()) {
            places.entry(g.holder.window).or_default().push((handle, g));
        }
        for (id, w) in self.windows.iter() {
            let of_window = places.remove(id).unwrap_or_default();
            let mut ranges: Vec<(u64, u64, Handle)> = vec![];
            let mut vectors = [0; VECTORS as usize];
            for (handle, place) in
                of_window.iter().filter_map(|(h, g)| Some((*h, g.stage.place()?)))
            {
                ranges.extend(place.ranges().map(|(off, bytes)| (off, off + bytes, handle)));
                vectors[usize::from(place.vector())] += 1;
            }
            let of = || format!("{vectors:?} of window {id}, not {:?}", w.vectors);
            rule(vectors == w.vectors, "places are counted by vector", of)?;
            let link = |index| w.further.get(index).is_some_and(|f| f.link);
            let of = || format!("{:?} of window {id}", w.further);
            rule(!w.data.keys().any(link), "nothing is laid out in a link", of)?;
            for (index, memory) in w.memories() {
                // Channels lie in the control window alone.
                let mut there = if index == 0 { std::mem::take(&mut ranges) } else { vec![] };
                let here = |b: &Buffer| (b.holder.window, b.memory, b.lost) == (*id, index, false);
                let buffers = self.buffers.iter().filter(|(_, b)| here(b));
                there.extend(buffers.map(|(h, b)| (b.offset, b.offset + b.bytes, h)));
                check_memory((*id, index), memory, there)?;
            }
        }
        Ok(())
    }

    fn check_buffers(&self) -> Result<(), String> {
        for (handle, b) in self.buffers.iter() {
            let of = || format!("buffer {handle} {b:?}");
            rule(b.check().is_ok(), "a buffer is of whole pages", of)?;
            rule(
                b.owing.keys().all(|s| b.at.contains(s)),
                "only who was told of a buffer owes an answer",
                of,
            )?;
            if !self.resumed {
                continue;
            }
            rule(
                !b.is_over() || !b.at.is_empty() || self.grant_closes(b.grant),
                "a buffer that is over waits for a service or its grant",
                of,
            )?;
            let known = b.at.iter().all(|s| self.services.contains_key(s));
            rule(known, "services that have a buffer are there", of)?;
            let own =
                self.sessions.get(b.holder.session).is_ok_and(|s| s.window == b.holder.window);
            rule(b.is_over() || own, "a buffer that is not over has an app", of)?;
            let grant = self.grants.get(b.grant).ok();
            let granted = b.grant == Handle::NONE
                || grant.is_some_and(|g| {
                    g.holder.session == b.holder.session
                        && !matches!(g.stage, Stage::Closing { .. })
                });
            rule(b.is_over() || granted, "a grant's buffer has its grant", of)?;
            let waits = b.waiting().is_some();
            rule(!waits || !b.owing.is_empty(), "who waits for a buffer waits for a service", of)?;
            let client = self.windows.get(&b.holder.window).map(|w| w.client);
            let same = client.is_none_or(|client| client == b.holder.client_id);
            rule(same, "a buffer is its window's client's", of)?;
            let others =
                b.at.iter()
                    .filter_map(|s| self.services.get(s))
                    .any(|s| s.owner != Owner::Client(b.holder.client_id));
            rule(!others, "a buffer is at services of its client alone", of)?;
        }
        self.buffers.check()
    }

    fn check_vfs(&self) -> Result<(), String> {
        let mut taken = BTreeSet::new();
        for (handle, g) in self.grants.iter() {
            if let Some((lease, vf)) = g.lease.as_ref().and_then(|l| Some((l, l.vf?))) {
                let of = || format!("VF {vf} of '{}', grant {handle}", lease.device);
                rule(taken.insert((&lease.device, vf)), "a VF is one grant's", of)?;
            }
        }
        Ok(())
    }
}
