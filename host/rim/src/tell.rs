//! Words to services, none of which may be lost: one whose socket is full is
//! told later, in the same order.

use crate::System;
use crate::act::Act;
use crate::system::{Line, Unsent, With};
use std::io;
use std::time::Duration;
use vfun_core::limits::{BUFFERS_PER_CLIENT, TELL_AGAIN};
use vfun_core::{Event, ServiceId, WindowId};
use vfun_supervise::{BufferCame, Open, ToService};
use vfun_wire::Handle;

/// Words that may wait for one service: beyond it, it hears nothing any more,
/// and is ended.
const UNTOLD_MAX: usize = 1 << 14;
// All buffers of a client at once, with as many channels beside them as it may have.
const _: () = assert!(4 * BUFFERS_PER_CLIENT as usize <= UNTOLD_MAX);

/// Something that a service is to be told.
pub enum ServiceMessage {
    /// A message that comes without descriptors.
    Plain(ToService),
    /// A channel to serve, in this window, with these vectors. Descriptors are
    /// taken when it is sent: those of all that wait would be too many.
    Open(Open, WindowId, (u16, u16)),
    /// A buffer to map, in this window: its memory of this number.
    Buffer(BufferCame, WindowId, u16),
    /// To hand a channel over, with the baton to pass, if there is one still.
    HandOver(Handle),
}

/// Sends messages to services, now or when their sockets have room.
pub trait Tell: System {
    /// Tells a service something, now or later.
    fn tell(&mut self, id: ServiceId, word: ServiceMessage) {
        if !self.rim().services.contains_key(&id) {
            return self.untellable(id, &word, &io::Error::other("its service is gone"));
        }
        let told = match self.rim().untold.contains_key(&id) {
            true => Err(Unsent::Later),
            false => self.tell_now(id, &word),
        };
        match told {
            Ok(()) => {}
            Err(Unsent::Never(e)) => self.untellable(id, &word, &e),
            Err(e @ (Unsent::Later | Unsent::NoRoom)) => {
                if matches!(e, Unsent::NoRoom) {
                    self.words_wait(id, true);
                }
                // One that is gone is noticed by its end.
                let waiting = self.rim_mut().untold.entry(id).or_default();
                waiting.push_back(word);
                if waiting.len() > UNTOLD_MAX {
                    self.kill(id);
                }
            }
        }
    }

    /// Tells services what they could not be told.
    fn tell_again(&mut self) {
        let ids: Vec<ServiceId> = self.rim().untold.keys().copied().collect();
        for id in ids {
            let Some(mut waiting) = self.rim_mut().untold.remove(&id) else { continue };
            if !self.rim().services.contains_key(&id) {
                continue;
            }
            let mut no_room = false;
            while let Some(word) = waiting.front() {
                match self.tell_now(id, word) {
                    Ok(()) => {}
                    Err(Unsent::Later) => break,
                    Err(Unsent::NoRoom) => {
                        no_room = true;
                        break;
                    }
                    Err(Unsent::Never(e)) => self.untellable(id, word, &e),
                }
                waiting.pop_front();
            }
            self.words_wait(id, no_room);
            if !waiting.is_empty() {
                self.rim_mut().untold.insert(id, waiting);
            }
        }
    }

    /// Says whether words to a service wait for want of room, which is not its doing.
    fn words_wait(&mut self, id: ServiceId, wait: bool) {
        let now = self.now();
        self.rim_mut().core.words_wait(now, id, wait);
    }

    /// How many words wait for a service.
    fn words_waiting(&self, id: ServiceId) -> usize {
        self.rim().untold.get(&id).map_or(0, |waiting| waiting.len())
    }

    /// When to tell them again, if there is anything.
    fn tell_patience(&self) -> Option<Duration> {
        (!self.rim().untold.is_empty()).then_some(TELL_AGAIN)
    }

    /// Tells a service something now or not at all.
    fn tell_now(&mut self, id: ServiceId, word: &ServiceMessage) -> Result<(), Unsent> {
        match word {
            ServiceMessage::Plain(message) => self.send(id, message, With::Nothing).map(drop),
            ServiceMessage::Buffer(came, window, memory) => {
                let message = ToService::BufferCame(came.clone());
                self.send(id, &message, With::Memory(*window, *memory)).map(drop)
            }
            ServiceMessage::HandOver(channel) => {
                let message = ToService::HandOver { channel: channel.0 };
                let baton = self.rim_mut().batons.remove(channel);
                let sent = self.send(id, &message, With::Baton(baton.as_ref()));
                if sent.is_err()
                    && let Some(baton) = baton
                {
                    self.rim_mut().batons.insert(*channel, baton);
                }
                sent.map(drop)
            }
            ServiceMessage::Open(open, window, vectors) => {
                let message = ToService::Open(open.clone());
                let giver = self.send(id, &message, With::Window(*window, *vectors))?;
                if let Some(giver) = giver {
                    self.rim_mut().batons.insert(Handle(open.channel), giver);
                }
                Ok(())
            }
        }
    }

    /// A service will never be told this: a channel that it was to open has none.
    fn untellable(&mut self, service: ServiceId, word: &ServiceMessage, e: &io::Error) {
        match word {
            ServiceMessage::Open(open, ..) => {
                let reason = format!("the channel could not be passed to its service: {e}");
                let channel = Handle(open.channel);
                self.push(Event::ChannelOpenFailed { service, channel, reason });
            }
            // Nobody waits for a service that will never have it: its driver does not find it.
            ServiceMessage::Buffer(came, ..) => {
                let buffer = Handle(came.buffer);
                self.log(
                    Line::Warn,
                    format_args!("buffer {buffer} could not be passed to service {service}: {e}"),
                );
                self.push(Event::BufferHere { service, buffer });
            }
            ServiceMessage::Plain(_) | ServiceMessage::HandOver(_) => self.log(
                Line::Debug,
                format_args!("service {service} could not be told something: {e}"),
            ),
        }
    }
}

impl<S: System> Tell for S {}
