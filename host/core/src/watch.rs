//! What the manager sees for itself of services, whose own word on it may not come:
//! one that is stopped, stuck or taken over ends no call by its deadline and
//! answers nothing. See [`services`](super::services) for the times.
//!
//! - Channels: calls that wait while none is answered, and queues whose word *life* stands
//!   still, as the window shows.
//! - The socket: words that an answer is due to. A service is asked for a sign of
//!   life then, which its main thread gives whatever its driver does.
//! - Channels and buffers that it does not let go of, and buffers that it does not take,
//!   for longer than a call may take: a service may lie, so a sign of life is not enough.
//!   While it has a channel of a buffer's session, a call may use the buffer: one that
//!   waits for an event may do so for as long as the channel is open.
//!
//! All of it is counted anew by each manager.

use super::grant::{Grant, Stage};
use super::grants::Key;
use super::services::*;
use super::{Action, Buffer, Core, Level, ServiceId, nacks};
use crate::limits::BUFFER_WAIT_MS;
use std::collections::{BTreeMap, BTreeSet};
use vfun_wire::Handle;
use vfun_wire::kind::ChannelKind;

/// What a look at a channel showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Calls answered so far; of queues their sign of life.
    pub calls: u64,
    /// Some are posted and not answered. Queues always wait for a sign of life.
    pub waits: bool,
    /// Of these one was begun.
    pub begun: bool,
}

/// A channel on which calls wait while none is answered, or a sign of life stands still.
#[derive(Debug)]
struct Still {
    calls: u64,
    since: u64,
    begun: bool,
    /// When its service was told to look, or asked for a sign of life.
    told: Option<u64>,
    /// It gave one since.
    lives: bool,
    /// When it is next to be judged.
    due: u64,
}

/// What a service owes an answer for.
#[derive(Debug)]
struct Owes {
    since: u64,
    /// When it was asked for a sign of life that has not come.
    asked: Option<u64>,
}

/// What is watched now.
#[derive(Debug, Default)]
pub(super) struct Watch {
    still: BTreeMap<Handle, Still>,
    owes: BTreeMap<ServiceId, Owes>,
    /// Services that could not be told something for want of room, and since when they
    /// have been told all; nothing while words wait.
    told: BTreeMap<ServiceId, Option<u64>>,
    /// Since when somebody waits for each activation.
    activating: BTreeMap<Handle, u64>,
    /// Of services that owe a word about buffers of a session: since when they have had no
    /// channel of it.
    parted: BTreeMap<(ServiceId, Handle), u64>,
}

/// How long a channel may stand still before its service is told to look at it, ms.
fn may_stand_still(g: &Grant) -> u64 {
    if g.subject.shape.kind.has_sides() {
        return QUEUES_STILL_MS;
    }
    // One that policy slows down may rest for the time of a call.
    let pace = 1000u64.checked_div(g.terms.calls_per_s.into()).unwrap_or(0);
    u64::from(g.terms.deadline_ms) + pace + OVERDUE_MS
}

/// How long a service has for what it was told because a channel stands still, ms.
fn answer_ms(g: &Grant) -> u64 {
    if g.subject.shape.kind.has_sides() { LIFE_MS } else { OVERDUE_MS }
}

impl Core {
    /// Words to a service wait for want of room for descriptors on their way, or no
    /// longer. It does not know what it is to do meanwhile: no time counts against it.
    pub fn words_wait(&mut self, now: u64, service: ServiceId, wait: bool) {
        let told = &mut self.watch.told;
        match (wait, told.get(&service)) {
            (true, _) => _ = told.insert(service, None),
            (false, Some(None)) => _ = told.insert(service, Some(now)),
            (false, _) => {}
        }
    }

    /// From when on time counts against a service of which something is due since
    /// `since`: not while it cannot be told, and anew once it has been.
    pub(super) fn counts_from(&self, service: ServiceId, since: u64) -> Option<u64> {
        match self.watch.told.get(&service) {
            Some(told) => Some(since.max((*told)?)),
            None => Some(since),
        }
    }

    /// Whether there was no room for words to a service the last time.
    fn is_untold(&self, service: ServiceId) -> bool {
        self.watch.told.get(&service) == Some(&None)
    }

    /// The channels whose calls have a deadline that the manager looks at, and those whose
    /// service must show that it lives.
    pub fn watched(&self) -> impl Iterator<Item = (Handle, &Grant)> {
        self.grants.iter().filter(|(_, g)| {
            matches!(g.stage, Stage::Active { .. })
                && g.subject.shape.kind != ChannelKind::Floor
                && g.moving().is_none()
                && g.also().is_none()
        })
    }

    /// When a channel is next to be looked at because calls wait on it, ms.
    pub fn progress_due(&self) -> Option<u64> {
        self.watch.still.values().map(|s| s.due).min()
    }

    /// Since when a call that was begun there has been seen, ms.
    pub fn computing_since(&self, channel: Handle) -> Option<u64> {
        self.watch.still.get(&channel).filter(|s| s.begun).map(|s| s.since)
    }

    /// Looks were taken at all watched channels.
    pub(super) fn progress(
        &mut self,
        now: u64,
        values: &[(Handle, Progress)],
        out: &mut Vec<Action>,
    ) {
        let before = std::mem::take(&mut self.watch.still);
        for &(channel, p) in values {
            let Ok(g) = self.grants.get(channel) else { continue };
            let Some(service) = g.service().filter(|_| p.waits) else { continue };
            let (most, answer_ms) = (may_stand_still(g), answer_ms(g));
            let queues = g.subject.shape.kind.has_sides();
            let (since, mut told, lives) = match before.get(&channel) {
                Some(s) if s.calls == p.calls => (s.since, s.told, s.lives),
                _ => (now, None, false),
            };
            let mut due = since + most;
            if due <= now {
                match told {
                    // It does not know of them.
                    _ if !p.begun && self.is_untold(service) => {
                        told = None;
                        due = now + OVERDUE_MS;
                    }
                    // Its app may have posted it without a ring. A sign of life may be
                    // overwritten, if a guest can write the host's pages.
                    None if !p.begun => {
                        out.push(match queues {
                            true => Action::AskLife { service },
                            false => Action::Look { service, channel },
                        });
                        told = Some(now);
                        due = now + answer_ms;
                    }
                    Some(at) if now < at + answer_ms => due = at + answer_ms,
                    _ if lives => {
                        let why = "its sign of life in the window stands still, and its service lives: it was overwritten";
                        self.channel_broken(service, channel, why, out);
                        continue;
                    }
                    _ => {
                        self.ends_no_call(service, channel, p.begun, now - since, out);
                        continue;
                    }
                }
            }
            let still = Still { calls: p.calls, since, begun: p.begun, told, lives, due };
            self.watch.still.insert(channel, still);
        }
    }

    fn ends_no_call(
        &mut self,
        service: ServiceId,
        channel: Handle,
        begun: bool,
        ms: u64,
        out: &mut Vec<Action>,
    ) {
        let Ok(g) = self.grants.get(channel) else { return };
        let app = &g.holder.app;
        let what = match begun {
            _ if g.subject.shape.kind.has_sides() => {
                format!("it has shown app '{app}', which has queues, no sign of life for {ms} ms")
            }
            true => format!("a call of app '{app}' lasts for {ms} ms, and it did not end it"),
            false => format!("calls of app '{app}' wait for {ms} ms, and it begins none"),
        };
        if begun && let Some(s) = self.services.get_mut(&service) {
            s.overran = Some(channel);
        }
        self.stalled(service, &what, out);
    }

    /// A service does not run: it is ended, and what it had goes to the next one.
    fn stalled(&mut self, id: ServiceId, what: &str, out: &mut Vec<Action>) {
        let Some(s) = self.services.get_mut(&id).filter(|s| s.stalled.is_none()) else { return };
        s.stalled = Some(what.to_owned());
        let (owner, function) = (s.owner, &s.function);
        let text = format!("service {id} of '{function}' does not run: {what}; it is ended");
        self.log_of_service(owner, Level::Warn, text, out);
        out.push(Action::KillService { service: id });
    }

    /// A service gave a sign of life.
    pub(super) fn alive(&mut self, now: u64, id: ServiceId) {
        if let Some(owes) = self.watch.owes.get_mut(&id) {
            *owes = Owes { since: now, asked: None };
        }
        for (channel, still) in &mut self.watch.still {
            let is_its = self.grants.get(*channel).is_ok_and(|g| g.service() == Some(id));
            still.lives |= still.told.is_some() && is_its;
        }
    }

    /// Whether something is owed whose time is to be looked at.
    pub(super) fn watches(&self) -> bool {
        !self.asked.is_empty()
            || self.buffers.due().next().is_some()
            || self.grants.any(&Key::Timed, |_| true)
    }

    /// Those for which time matters.
    fn timed(&self) -> impl Iterator<Item = (Handle, &Grant)> {
        let all = self.grants.of(&Key::Timed).into_iter();
        all.filter_map(|h| Some((h, self.grants.get(h).ok()?)))
    }

    /// Asks services for a sign of life that owe an answer, and ends those that
    /// gave none.
    pub(super) fn look_for_life(&mut self, now: u64, out: &mut Vec<Action>) {
        let due = self.timed().filter(|(_, g)| !matches!(g.stage, Stage::Broken { .. }));
        let due = due.filter_map(|(_, g)| g.service());
        let of_buffers = self.buffers.due().flat_map(|(_, b)| b.owed_by().map(|(id, _)| id));
        let due = due.chain(self.asked.iter().copied()).chain(of_buffers);
        let mut ids: BTreeSet<ServiceId> = due.collect();
        let ready =
            |id: &ServiceId| self.services.get(id).is_some_and(|s| s.state == ServiceState::Ready);
        ids.retain(|id| ready(id) && !self.is_untold(*id));
        self.watch.told.retain(|id, _| self.services.contains_key(id));
        self.watch.owes.retain(|id, _| ids.contains(id));
        for id in ids {
            let owes = self.watch.owes.entry(id).or_insert(Owes { since: now, asked: None });
            match owes.asked {
                None if now.saturating_sub(owes.since) >= LIFE_AFTER_MS => {
                    owes.asked = Some(now);
                    out.push(Action::AskLife { service: id });
                }
                Some(at) if now.saturating_sub(at) >= LIFE_MS => {
                    let what = format!("it gave no sign of life for {LIFE_MS} ms");
                    self.stalled(id, &what, out);
                }
                _ => {}
            }
        }
    }

    /// Ends services that have not let go of a channel for longer than a call, and the
    /// driver's `exit`, may take.
    pub(super) fn end_those_who_keep_channels(&mut self, now: u64, out: &mut Vec<Action>) {
        let late = self.timed().filter_map(|(_, g)| {
            let Stage::Closing { service: Some(service), since_ms, .. } = g.stage else {
                return None;
            };
            let ms = now.saturating_sub(self.counts_from(service, since_ms)?);
            (ms > g.step_ms() + OVERDUE_MS).then(|| (service, g.holder.app.clone(), ms))
        });
        let late: Vec<_> = late.collect();
        for (service, app, ms) in late {
            let what = format!("it has not let go of a channel of app '{app}' for {ms} ms");
            self.stalled(service, &what, out);
        }
    }

    /// Ends services that owe a word about a buffer for too long: that they have it, or,
    /// once they have no channel of its session and so no call that may use it, that they
    /// have let go of it. Its pages cannot be given out again while they run.
    pub(super) fn end_those_who_keep_buffers(&mut self, now: u64, out: &mut Vec<Action>) {
        let before = std::mem::take(&mut self.watch.parted);
        let (mut parted, mut most, mut late) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let all = self.buffers.due().flat_map(|(_, b)| b.owed_by().map(move |owed| (b, owed)));
        for (b, (service, since)) in all {
            let of = (service, b.holder.session);
            let parted = *parted.entry(of).or_insert_with(|| match self.has_channel_of(of) {
                true => now,
                false => before.get(&of).copied().unwrap_or(now),
            });
            let (since, owes) = match b.owing.contains_key(&service) {
                true => (since, "taken"),
                false => (since.max(parted), "let go of"),
            };
            let Some(since) = self.counts_from(service, since) else { continue };
            let ms = now.saturating_sub(since);
            let most = *most.entry(service).or_insert_with(|| self.service_step_ms(service));
            // One word of each is enough.
            if ms > most + OVERDUE_MS && !late.contains_key(&service) {
                let app = &b.holder.app;
                let what = format!("it has not {owes} a buffer of app '{app}' for {ms} ms");
                late.insert(service, what);
            }
        }
        self.watch.parted = parted;
        for (service, what) in late {
            self.stalled(service, &what, out);
        }
    }

    /// Whether a service has a channel of a session.
    fn has_channel_of(&self, (service, session): (ServiceId, Handle)) -> bool {
        self.grants.any(&Key::Session(session), |g| g.services().any(|s| s == service))
    }

    /// How long a service may take for what it was told, ms: as with the channel of it that
    /// may take longest. One that has none is ended soon.
    fn service_step_ms(&self, id: ServiceId) -> u64 {
        let all = self.grants.of(&Key::Service(id)).into_iter();
        let all = all.filter_map(|h| self.grants.get(h).ok());
        all.map(Grant::step_ms).fold(START_MS + CLOSE_GRACE_MS, u64::max)
    }

    /// Tells those who wait for a buffer, before they give up by themselves, that a service
    /// does not take it. The buffer ends: its app does not know its handle.
    pub(super) fn refuse_untaken_buffers(&mut self, now: u64, out: &mut Vec<Action>) {
        let late =
            |b: &Buffer| b.waiting().is_some() && now.saturating_sub(b.since_ms) >= BUFFER_WAIT_MS;
        let late = self.buffers.due().filter(|(_, b)| late(b));
        let late = late.filter_map(|(h, b)| {
            let (id, _) = b.owed_by().next()?;
            let function = &self.services.get(&id)?.function;
            let log = log_of(&b.holder.client, function);
            let nack = match self.is_untold(id) {
                true => nacks::buffer_untold(function, BUFFER_WAIT_MS),
                false => nacks::buffer_untaken(function, BUFFER_WAIT_MS, &log),
            };
            Some((h, nack))
        });
        let late: Vec<_> = late.collect();
        for (buffer, nack) in late {
            self.refuse_buffer(buffer, false, nack, out);
        }
    }

    /// Tells those who wait for an activation before they give up by themselves
    /// what it waits for. It goes on.
    pub(super) fn tell_of_slow_starts(&mut self, now: u64, out: &mut Vec<Action>) {
        let waits = |g: &Grant| matches!(g.stage, Stage::Activating { waiting: Some(_), .. });
        let waits: BTreeSet<Handle> =
            self.timed().filter(|(_, g)| waits(g)).map(|(h, _)| h).collect();
        let since = &mut self.watch.activating;
        since.retain(|h, _| waits.contains(h));
        for handle in waits {
            let since = *self.watch.activating.entry(handle).or_insert(now);
            if now.saturating_sub(since) < STARTING_MS {
                continue;
            }
            self.watch.activating.remove(&handle);
            let Some(g) = self.grants.get_mut(handle) else { continue };
            let Stage::Activating { service, waiting, .. } = &mut g.stage else { continue };
            let Some(to) = waiting.take() else { continue };
            let at = match self.services.get(service).map(|s| s.state) {
                Some(ServiceState::Ready) => "its driver is still opening the channel",
                Some(ServiceState::Backoff(_)) => "its service waits to be started again",
                _ => "its driver is still loading",
            };
            let function = &g.subject.function;
            let log = log_of(&g.holder.client, function);
            let nack = nacks::still_starting(function, at, STARTING_MS, &log);
            out.push(Action::Answer { to, result: Err(nack) });
        }
    }
}

/// Where a service's log is, from the manager's root.
pub fn log_of(client: &str, function: &str) -> String {
    // All functions that a client submitted share one: their names are its to
    // choose, so that one for each would be files without end.
    let name = if vfun_submit::is_own(function) { "my" } else { function };
    format!("service/{client}/{name}.log")
}
