//! What services say, and their end.

use crate::System;
use crate::act::Act;
use crate::keep::Keep;
use crate::say::Say;
use crate::system::{Line, SocketFound};
use std::os::fd::OwnedFd;
use vfun_core::limits::{LAST_WORDS, REPORT_CHANNELS_MAX};
use vfun_core::{Event, ServiceId};
use vfun_supervise::FromService;
use vfun_wire::Handle;

/// What a message comes to.
// One is made, taken apart and gone: its size on the stack costs nothing.
#[allow(clippy::large_enum_variant)]
pub enum ServiceSaid {
    /// Something happened that the state machine decides about.
    Event(Event),
    /// Nothing that the core must know.
    Nothing,
    /// It is heard no more now.
    Enough,
}

/// Takes the messages of services.
pub trait Hear: System {
    /// Hears what a service says, at most so many messages.
    fn hear_service(&mut self, id: ServiceId, most: usize) {
        let mut ready = false;
        for _ in 0..most {
            if !self.rim().services.contains_key(&id) {
                return;
            }
            let (message, files) = match self.receive(id) {
                SocketFound::Message(message, files) => (message, files),
                SocketFound::Nothing => return,
                SocketFound::Nonsense(why) => {
                    // A service that speaks nonsense has been taken over by its driver.
                    self.kill(id);
                    self.mute(id);
                    self.log(Line::Warn, format_args!("service {id}: {why}: it is ended"));
                    return;
                }
            };
            match self.said(id, message, files, &mut ready) {
                ServiceSaid::Event(event) => self.push(event),
                ServiceSaid::Nothing => {}
                ServiceSaid::Enough => return,
            }
        }
    }

    /// What a message means. `ready` if it said already that it is.
    fn said(
        &mut self,
        service: ServiceId,
        message: FromService,
        files: Vec<OwnedFd>,
        ready: &mut bool,
    ) -> ServiceSaid {
        ServiceSaid::Event(match message {
            FromService::Ready { .. } if *ready || !self.rim().core.awaits_ready(service) => {
                return self.ready_again(service);
            }
            FromService::Ready { note, buffers, .. } => {
                *ready = true;
                self.is_ready(service, note, buffers)
            }
            FromService::Failed { reason } => Event::ServiceFailed { service, reason },
            FromService::Opened { channel } => {
                Event::ChannelOpened { service, channel: Handle(channel) }
            }
            FromService::DeviceLost { channel, reason } => {
                Event::ChannelLost { service, channel: Handle(channel), reason }
            }
            FromService::Standing { channel } => {
                Event::ChannelStanding { service, channel: Handle(channel) }
            }
            FromService::OpenFailed { channel, reason } => {
                Event::ChannelOpenFailed { service, channel: Handle(channel), reason }
            }
            FromService::Closed { channel } => {
                Event::ChannelClosed { service, channel: Handle(channel) }
            }
            FromService::Broken { channel, reason } => {
                Event::ChannelBroken { service, channel: Handle(channel), reason }
            }
            FromService::Channels { channels, more, to, buffers } => {
                return self.reported(service, channels, more, (to, buffers));
            }
            FromService::BufferHere { buffer } => {
                Event::BufferHere { service, buffer: Handle(buffer) }
            }
            FromService::BufferLeft { buffer } => {
                Event::BufferLeft { service, buffer: Handle(buffer) }
            }
            FromService::Alive => Event::ServiceAlive { service },
            FromService::Forbidden { call } => {
                self.forbidden(service, call);
                return ServiceSaid::Nothing;
            }
            FromService::Submission { ask, channel, wish } => {
                self.wished(service, ask, Handle(channel), wish, files);
                return ServiceSaid::Nothing;
            }
            FromService::Told { channel, report } => {
                self.told(service, Handle(channel), report);
                return ServiceSaid::Nothing;
            }
            FromService::Deadline { channel } => {
                Event::CallOverran { service, channel: Handle(channel) }
            }
        })
    }

    /// A service says that it is ready when nobody waits for that. Each is a look at its
    /// sandbox. One that the core has given up on may say it once, too, and is being ended
    /// anyway.
    fn ready_again(&mut self, service: ServiceId) -> ServiceSaid {
        self.kill(service);
        self.mute(service);
        if self.rim().core.knows_service(service) {
            self.log(
                Line::Warn,
                format_args!("service {service} says again that it is ready: it is ended"),
            );
        }
        ServiceSaid::Enough
    }

    /// A service has loaded its driver.
    fn is_ready(&mut self, service: ServiceId, note: Option<String>, buffers: bool) -> Event {
        if buffers {
            self.push(Event::TakesBuffers { service });
        }
        self.loaded(service, note)
    }

    /// A service says which channels it has; `more` if that is not all. `to` whom, and
    /// whether it knows buffers.
    fn reported(
        &mut self,
        service: ServiceId,
        channels: Vec<u64>,
        more: bool,
        (to, buffers): (u32, bool),
    ) -> ServiceSaid {
        // It may have been on its way when the manager that asked was
        // killed: what was opened since is not in it.
        if to != 0 && to != self.rim().generation {
            return ServiceSaid::Nothing;
        }
        if !self.rim().core.awaits_report(service) {
            self.rim_mut().reports.remove(&service);
            if self.may_say(&format!("service {service}")) {
                self.log(
                    Line::Warn,
                    format_args!("a report of service {service} that nobody asked for is ignored"),
                );
            }
            return ServiceSaid::Nothing;
        }
        let said = self.rim_mut().reports.entry(service).or_default();
        if said.len() + channels.len() > REPORT_CHANNELS_MAX {
            self.rim_mut().reports.remove(&service);
            self.kill(service);
            self.mute(service);
            self.log(
                Line::Warn,
                format_args!(
                    "service {service} reports more channels than there can be: it is ended"
                ),
            );
            return ServiceSaid::Enough;
        }
        said.extend(channels.into_iter().map(Handle));
        if more {
            return ServiceSaid::Nothing;
        }
        let channels = self.rim_mut().reports.remove(&service).unwrap_or_default();
        // Its word that it is ready may have gone with the manager that
        // heard it. What is asked of it then is asked of it now.
        if self.rim().core.awaits_ready(service)
            && let failed @ Event::ServiceFailed { .. } = self.loaded(service, None)
        {
            self.push(failed);
            return ServiceSaid::Enough;
        }
        if buffers {
            self.push(Event::TakesBuffers { service });
        }
        ServiceSaid::Event(Event::Serving { service, channels })
    }

    /// A service may have ended.
    fn service_ended(&mut self, id: ServiceId) {
        self.hear_service(id, LAST_WORDS); // first
        if !self.rim().services.contains_key(&id) {
            return;
        }
        let Some(exit) = self.reap(id) else { return };
        let Some(process) = self.rim_mut().services.remove(&id) else { return };
        self.bury(id, process);
        self.point("a service is reaped, not let go");
        let rim = self.rim_mut();
        rim.reports.remove(&id);
        rim.untold.remove(&id);
        self.let_service_go(id);
        self.point("a service is let go, its end not noted");
        self.push(Event::ServiceExited { service: id, exit });
    }
}

impl<S: System> Hear for S {}
