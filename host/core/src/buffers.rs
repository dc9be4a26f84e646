//! Buffers that an app and the host both write: how they come and go.
//!
//! One belongs to a session, or to a grant of it, and ends with `buffer-put`, its grant,
//! its session or its memory. The services that serve a channel of the session are given
//! it, and no others; one that serves none of them any more keeps it until it ends. The app
//! is answered when they have it, so that its next call may name it. Its pages are given
//! out again when each of them has let go of it.

pub use super::buffer::{Buffer, Stage};

use super::catalog::Client;
use super::grant::{Holder, Stage as GrantStage};
use super::grants::Key;
use super::memory::Memory;
use super::nacks;
use super::notes::check_memory;
use super::place::CONTROL_WINDOW;
use super::requests::{body, zero};
use super::services::ServiceState;
use super::table::NoSuch;
use super::{Action, ControlRequest, Core, Level, ServiceId, WindowId};
use crate::limits::{BUFFERS_MAX, BUFFERS_PER_CLIENT};
use std::collections::BTreeSet;
use vfun_wire::limits::{BUFFER_ALIGN_MAX, BUFFERS, WINDOW_BYTES_MAX};
use vfun_wire::message::{BUFFER_CONTIGUOUS, BUFFER_PAGES, BufferAck, BufferGet, BufferPut, Kind};
use vfun_wire::version::Features;
use vfun_wire::{Handle, Nack, PAGE, page_up};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

/// Why a buffer is over whose memory is gone.
const MEMORY_TAKEN: &str = "its memory was taken from the VM";

/// What an app asks for, once it is checked.
struct Asked {
    grant: Handle,
    /// Whole pages.
    bytes: u64,
    align: u64,
    contiguous: bool,
    /// A table of pages of the VM's memory.
    pages: bool,
}

impl Asked {
    fn read(get: &BufferGet) -> Result<Self, Nack> {
        zero("buffer-get's reserved bytes", get.reserved.get() == 0)?;
        let (flags, align) = (get.flags.get(), get.align.get());
        if flags & !(BUFFER_CONTIGUOUS | BUFFER_PAGES) != 0 {
            return Err(nacks::malformed(format!("buffer-get has no flags {flags:#x}")));
        }
        let align = if align == 0 { PAGE as u64 } else { align };
        if !align.is_power_of_two() || !(PAGE as u64..=BUFFER_ALIGN_MAX).contains(&align) {
            return Err(nacks::buffer_align(align));
        }
        let bytes = get.bytes.get();
        let whole = page_up(bytes).filter(|n| (1..=WINDOW_BYTES_MAX).contains(n));
        let bytes = whole.ok_or_else(|| nacks::buffer_bytes(bytes))?;
        let contiguous = flags & BUFFER_CONTIGUOUS != 0;
        let (grant, pages) = (Handle(get.grant.get()), flags & BUFFER_PAGES != 0);
        if pages && (contiguous || grant != Handle::NONE) {
            return Err(nacks::malformed(
                "a table of pages belongs to its session, and has no other flags",
            ));
        }
        Ok(Asked { grant, bytes, align, contiguous, pages })
    }
}

impl Core {
    /// Every buffer.
    pub fn buffers(&self) -> impl Iterator<Item = (Handle, &Buffer)> {
        self.buffers.iter()
    }

    /// How many buffers of a session belong to a grant, and their bytes; with
    /// [`Handle::NONE`] those that belong to none.
    pub fn buffers_of(&self, session: Handle, grant: Handle) -> (u32, u64) {
        let all = self.buffers.of(session).filter(|(_, b)| b.grant == grant);
        all.fold((0, 0), |(count, bytes), (_, b)| (count + 1, bytes + b.bytes))
    }

    pub(super) fn buffer_get(
        &mut self,
        now: u64,
        session: Handle,
        r: &ControlRequest,
        out: &mut Vec<Action>,
    ) -> Result<Option<Vec<u8>>, Nack> {
        if let Some((handle, b)) = self.buffers.of(session).find(|(_, b)| b.asked == r.to) {
            // It is read again by a manager that took over before it was answered.
            if b.waiting().is_some() {
                return Ok(None);
            }
            // Killed before it had set it to zero, perhaps; its app does not know it yet.
            out.push(Action::ZeroBuffer { window: b.holder.window, range: b.range() });
            return Ok(Some(ack(handle, b)));
        }
        let asked = Asked::read(&body::<BufferGet>(&r.body, Kind::BufferGet)?)?;
        let holder = self.holder_in(r.to.window, session)?;
        if asked.grant != Handle::NONE {
            self.grant_of_session(session, asked.grant)?;
        }
        if self.buffers.count_of(session) >= BUFFERS {
            return Err(nacks::many_buffers(BUFFERS));
        }
        let client = self.client_of(r.to.window)?;
        if asked.pages {
            self.may_have_pages(session, &holder, client)?;
        }
        self.room_for_a_buffer(client)?;
        self.within_buffer_quota(client, asked.bytes)?;
        let further = self.session(session)?.features.has(Features::WINDOWS);
        let w = self.windows.get_mut(&r.to.window).ok_or_else(nacks::client_removed)?;
        let taken = w.take_buffer(now, further, asked.bytes, asked.align, asked.contiguous);
        let Some((memory, offset)) = taken else {
            return Err(nacks::no_buffer_room(asked.bytes, asked.align, asked.contiguous, w, now));
        };
        let services = self.services_of(session, asked.pages);
        let waiting = (!services.is_empty()).then_some(r.to);
        let b = Buffer {
            holder,
            grant: asked.grant,
            pages: asked.pages,
            memory,
            offset,
            bytes: asked.bytes,
            asked: r.to,
            stage: Stage::Given { waiting },
            lost: false,
            at: services.clone(),
            owing: services.iter().map(|id| (*id, now)).collect(),
            told: None,
            since_ms: now,
        };
        let (range, window) = (b.range(), r.to.window);
        let handle = self.buffers.insert(b);
        out.push(Action::ZeroBuffer { window, range });
        for service in services {
            let buffer = handle;
            let pages = asked.pages;
            out.push(Action::BufferCame { service, buffer, session, window, range, pages });
        }
        let b = self.buffers.get(handle).map_err(|_| nacks::no_buffer(handle))?;
        Ok(waiting.is_none().then(|| ack(handle, b)))
    }

    /// Whether there may be one buffer more. Those that are over count, too: services are
    /// told of them, and they are noted.
    fn room_for_a_buffer(&self, client: &Client) -> Result<(), Nack> {
        let (of_client, _) = self.buffers.charged(client.id);
        if of_client >= BUFFERS_PER_CLIENT {
            return Err(nacks::many_buffers_of(client, of_client, BUFFERS_PER_CLIENT));
        }
        match self.buffers.len() >= BUFFERS_MAX {
            true => Err(nacks::many_buffers_of_all(self.buffers.len(), BUFFERS_MAX)),
            false => Ok(()),
        }
    }

    fn holder_in(&self, window: WindowId, session: Handle) -> Result<Holder, Nack> {
        let (s, client) = (self.session(session)?, self.client_of(window)?);
        Ok(Holder {
            session,
            window,
            client_id: client.id,
            client: client.name.clone(),
            vm: self.windows.get(&window).and_then(|w| w.vm.clone()),
            app_id: s.app_id,
            app: s.app.clone(),
        })
    }

    pub(super) fn buffer_put(
        &mut self,
        session: Handle,
        bytes: &[u8],
        out: &mut Vec<Action>,
    ) -> Result<(), Nack> {
        let handle = Handle(body::<BufferPut>(bytes, Kind::BufferPut)?.buffer.get());
        match self.buffers.get(handle) {
            Ok(b) if b.holder.session != session => return Err(nacks::no_buffer(handle)),
            Ok(b) if b.is_over() => return Err(nacks::buffer_over(handle)),
            Ok(_) => {}
            Err(NoSuch::Unknown) => return Err(nacks::no_buffer(handle)),
            Err(NoSuch::Stale) => return Err(nacks::buffer_over(handle)),
        }
        self.end_buffer(handle, false, "given back by the app", out);
        Ok(())
    }

    /// The services that are to have the buffers of a session: those that serve its
    /// channels, are to serve them, or have not let go of them. A table is for NICs alone: with it comes all
    /// memory of the VM.
    fn services_of(&self, session: Handle, pages: bool) -> BTreeSet<ServiceId> {
        let grants = self.grants.of(&Key::Session(session)).into_iter();
        let open = grants.filter_map(|h| self.grants.get(h).ok()).filter(|g| !g.is_over());
        open.flat_map(|g| g.services()).filter(|id| self.can_take(*id, pages)).collect()
    }

    fn can_take(&self, id: ServiceId, pages: bool) -> bool {
        self.can_take_buffers(id) && (!pages || self.is_nic(id))
    }

    fn can_take_buffers(&self, id: ServiceId) -> bool {
        let service = self.services.get(&id);
        service.is_some_and(|s| s.takes_buffers && s.state == ServiceState::Ready)
    }

    /// Gives a service those buffers of a session that it has not.
    pub(super) fn bring_buffers(
        &mut self,
        service: ServiceId,
        session: Handle,
        out: &mut Vec<Action>,
    ) {
        if !self.can_take_buffers(service) {
            return;
        }
        let is_nic = self.is_nic(service);
        let lacks = |(_, b): &(Handle, &Buffer)| !b.at.contains(&service) && (is_nic || !b.pages);
        let all: Vec<Handle> = self.buffers.of(session).filter(lacks).map(|(h, _)| h).collect();
        for buffer in all {
            self.give_to(service, buffer, out);
        }
    }

    fn give_to(&mut self, service: ServiceId, buffer: Handle, out: &mut Vec<Action>) {
        let now = self.now;
        let came = self.buffers.change(buffer, |b| {
            b.at.insert(service);
            b.owing.insert(service, now);
            let (session, window, range) = (b.holder.session, b.holder.window, b.range());
            Action::BufferCame { service, buffer, session, window, range, pages: b.pages }
        });
        out.extend(came);
    }

    /// A service can be told of buffers from now on.
    pub(super) fn takes_buffers(&mut self, service: ServiceId, out: &mut Vec<Action>) {
        let Some(s) = self.services.get_mut(&service) else { return };
        if std::mem::replace(&mut s.takes_buffers, true) {
            return;
        }
        let grants = self.grants.of(&Key::Service(service)).into_iter();
        let open = grants.filter_map(|h| self.grants.get(h).ok()).filter(|g| !g.is_over());
        let sessions: BTreeSet<Handle> = open.map(|g| g.holder.session).collect();
        sessions.into_iter().for_each(|session| self.bring_buffers(service, session, out));
    }

    /// A service has a buffer.
    pub(super) fn buffer_here(
        &mut self,
        service: ServiceId,
        buffer: Handle,
        out: &mut Vec<Action>,
    ) {
        if self.buffers.get(buffer).is_ok_and(|b| b.owing.contains_key(&service)) {
            self.buffers.change(buffer, |b| b.owing.remove(&service));
            self.answer_for(buffer, out);
        }
    }

    /// Answers who waits for a buffer, if all services have it.
    fn answer_for(&mut self, buffer: Handle, out: &mut Vec<Action>) {
        let Ok(b) = self.buffers.get(buffer) else { return };
        let Some(to) = b.waiting() else { return };
        if b.owing.is_empty() {
            out.push(Action::Answer { to, result: Ok(ack(buffer, b)) });
            self.buffers.change(buffer, |b| b.stage = Stage::Given { waiting: None });
        }
    }

    /// A service has let go of a buffer.
    pub(super) fn buffer_left(&mut self, service: ServiceId, buffer: Handle) {
        // One that is not over is still wanted there: its service's word is not enough.
        let over = |b: &Buffer| b.is_over() && b.at.contains(&service);
        if self.buffers.get(buffer).is_ok_and(over) {
            self.buffers.change(buffer, |b| {
                b.owing.remove(&service);
                b.at.remove(&service);
            });
            self.free_buffer(buffer);
        }
    }

    /// Ends a buffer. With `held` it is taken from a program that may not know yet.
    pub(super) fn end_buffer(
        &mut self,
        buffer: Handle,
        held: bool,
        why: &str,
        out: &mut Vec<Action>,
    ) {
        self.refuse_buffer(buffer, held, nacks::buffer_ended(why), out);
    }

    /// The same, with what its app is told if that waits for it.
    pub(super) fn refuse_buffer(
        &mut self,
        buffer: Handle,
        held: bool,
        nack: Nack,
        out: &mut Vec<Action>,
    ) {
        let Ok(b) = self.buffers.get(buffer) else { return };
        if b.is_over() {
            return;
        }
        out.extend(b.waiting().map(|to| Action::Answer { to, result: Err(nack) }));
        self.buffers.change(buffer, |b| b.stage = Stage::Ending { hold_back: held });
        self.take_from_services(buffer, out);
        self.free_buffer(buffer);
    }

    /// Tells the services that have a buffer that it is over, if this manager has not.
    fn take_from_services(&mut self, buffer: Handle, out: &mut Vec<Action>) {
        let now = self.now;
        if self.buffers.get(buffer).is_ok_and(|b| b.is_over() && b.told.is_none()) {
            let at = self.buffers.change(buffer, |b| {
                b.told = Some(now);
                b.at.clone()
            });
            let at = at.into_iter().flatten();
            out.extend(at.map(|service| Action::BufferGone { service, buffer }));
        }
    }

    /// Gives a buffer's pages back, if it is over and no service has it any more. Those of
    /// a grant that is over wait until that is freed: only then the guest has been told,
    /// and the time for which they are held back begins.
    fn free_buffer(&mut self, buffer: Handle) {
        let Ok(b) = self.buffers.get(buffer) else { return };
        let Stage::Ending { hold_back } = b.stage else { return };
        if !b.at.is_empty() || self.grant_closes(b.grant) {
            return;
        }
        let Some(b) = self.buffers.remove(buffer) else { return };
        if let Some(w) = self.windows.get_mut(&b.holder.window).filter(|_| !b.lost) {
            w.give_range(b.memory, (b.offset, b.bytes), hold_back.then_some(self.now));
        }
    }

    /// Whether a grant is over and its channel has not been closed yet.
    pub(super) fn grant_closes(&self, grant: Handle) -> bool {
        self.grants.get(grant).is_ok_and(|g| matches!(g.stage, GrantStage::Closing { .. }))
    }

    /// A grant is freed: so are those of its buffers that no service has.
    pub(super) fn free_buffers_of_grant(&mut self, grant: Handle) {
        self.buffers.over_of(grant).into_iter().for_each(|h| self.free_buffer(h));
    }

    /// Ends the buffers of a session.
    pub(super) fn end_buffers_of(
        &mut self,
        session: Handle,
        held: bool,
        why: &str,
        out: &mut Vec<Action>,
    ) {
        let all: Vec<Handle> = self.buffers.of(session).map(|(h, _)| h).collect();
        all.into_iter().for_each(|h| self.end_buffer(h, held, why, out));
    }

    /// Ends the buffers that belong to a grant.
    pub(super) fn end_buffers_of_grant(
        &mut self,
        grant: Handle,
        held: bool,
        why: &str,
        out: &mut Vec<Action>,
    ) {
        let Ok(session) = self.grants.get(grant).map(|g| g.holder.session) else { return };
        let of_grant = self.buffers.of(session).filter(|(_, b)| b.grant == grant);
        let all: Vec<Handle> = of_grant.map(|(h, _)| h).collect();
        all.into_iter().for_each(|h| self.end_buffer(h, held, why, out));
    }

    /// Services that ended have let go of what they had: one that is started again under
    /// its number has nothing.
    pub(super) fn follow_buffers(&mut self, out: &mut Vec<Action>) {
        let runs = |id: &ServiceId| {
            let state = self.services.get(id).map(|s| s.state);
            matches!(state, Some(ServiceState::Ready | ServiceState::Stopping))
        };
        let ended: Vec<ServiceId> = self.buffers.services().filter(|id| !runs(id)).collect();
        for service in ended {
            for buffer in self.buffers.at(service) {
                self.buffers.change(buffer, |b| {
                    b.owing.remove(&service);
                    b.at.remove(&service);
                });
                self.answer_for(buffer, out);
                self.free_buffer(buffer);
            }
        }
    }

    /// Memory was added to a window.
    pub(super) fn memory_up(
        &mut self,
        window: WindowId,
        index: u16,
        (bytes, page): (u64, u64),
        out: &mut Vec<Action>,
    ) {
        if let Err(e) = check_memory(bytes, page) {
            let text = format!("memory {index} of window {window} is not used: {e}");
            return out.push(Action::Log(Level::Warn, text));
        }
        let Some(w) = self.windows.get_mut(&window) else { return };
        if index == CONTROL_WINDOW {
            return w.control.page = page;
        }
        // A manager that takes over tells what is there already.
        if w.data.get(&index).is_some_and(|m| (m.bytes(), m.page) == (bytes, page)) {
            return;
        }
        self.memory_down(window, index, out);
        if let Some(w) = self.windows.get_mut(&window) {
            w.data.insert(index, Memory::data(bytes, page));
        }
    }

    /// Memory was taken from a window.
    pub(super) fn memory_down(&mut self, window: WindowId, index: u16, out: &mut Vec<Action>) {
        let lies = |b: &Buffer| (b.holder.window, b.memory) == (window, index);
        let all: Vec<Handle> =
            self.buffers.iter().filter(|(_, b)| lies(b)).map(|(h, _)| h).collect();
        for buffer in all {
            // Other memory may come under its number before all have let go of this.
            if index != CONTROL_WINDOW {
                self.buffers.change(buffer, |b| b.lost = true);
            }
            self.end_buffer(buffer, true, MEMORY_TAKEN, out);
        }
        if let Some(w) = self.windows.get_mut(&window) {
            w.data.remove(&index);
        }
    }

    /// Takes the ranges of buffers that notes tell of. A manager may have been killed when
    /// it had noted that a memory is gone, and not yet that its buffers are: those are lost.
    pub(super) fn knit_buffers(&mut self) -> Result<(), String> {
        let mut lost = vec![];
        for (handle, b) in self.buffers.iter().filter(|(_, b)| !b.lost) {
            let Some(w) = self.windows.get_mut(&b.holder.window) else { continue };
            let Some(memory) = w.memory_mut(b.memory) else {
                lost.push(handle);
                continue;
            };
            if !memory.heap.take_at(b.offset, b.bytes) {
                return Err(format!("buffer {handle} has a range that another one has"));
            }
        }
        for handle in lost {
            self.buffers.change(handle, |b| b.lost = true);
        }
        Ok(())
    }

    /// What services were told of buffers, and said of them, may not have been heard.
    pub(super) fn resume_buffers(&mut self, out: &mut Vec<Action>) {
        let unowned = |b: &Buffer| {
            let open = |h| self.grants.get(h).is_ok_and(|g| g.holder.session == b.holder.session);
            b.lost
                || self.sessions.get(b.holder.session).is_err()
                || (b.grant != Handle::NONE && (!open(b.grant) || self.grant_closes(b.grant)))
        };
        let gone = |(h, b): (Handle, &Buffer)| (!b.is_over() && unowned(b)).then_some(h);
        let gone: Vec<Handle> = self.buffers.iter().filter_map(gone).collect();
        for buffer in gone {
            let lost = self.buffers.get(buffer).is_ok_and(|b| b.lost);
            let why = if lost { MEMORY_TAKEN } else { "its app is gone" };
            self.end_buffer(buffer, true, why, out);
        }
        self.follow_buffers(out);
        let all: Vec<Handle> = self.buffers.iter().map(|(h, _)| h).collect();
        for buffer in all {
            let Ok(b) = self.buffers.get(buffer) else { continue };
            let (over, at) = (b.is_over(), b.at.clone());
            if b.waiting().is_some() {
                // As above.
                out.push(Action::ZeroBuffer { window: b.holder.window, range: b.range() });
                let now = self.now;
                self.buffers.change(buffer, |b| b.since_ms = now);
            }
            for service in at {
                if !over {
                    self.give_to(service, buffer, out);
                }
            }
            self.take_from_services(buffer, out);
            self.answer_for(buffer, out);
            self.free_buffer(buffer);
        }
    }

    /// A grant of this session to which a buffer may belong.
    fn grant_of_session(&self, session: Handle, grant: Handle) -> Result<(), Nack> {
        let wire = vfun_wire::message::OfGrant { grant: U64::new(grant.0) };
        self.own_grant(session, wire.as_bytes(), Kind::BufferGet).map(drop)
    }
}

/// The answer to who asked for a buffer.
fn ack(handle: Handle, b: &Buffer) -> Vec<u8> {
    BufferAck { buffer: U64::new(handle.0), range: b.range() }.as_bytes().to_vec()
}
