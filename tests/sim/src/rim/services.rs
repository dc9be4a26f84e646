//! What services say, and their end.

use super::{Done, SERVICE};
use crate::world::World;
use vfun_core::{Event, Exit, ServiceId};
use vfun_supervise::FromService;
use vfun_wire::Handle;

impl World {
    pub(super) fn hear_service(&mut self, id: ServiceId) {
        for _ in 0..64 {
            let Some(pid) = self.m().services.get(&id).map(|s| s.pid) else { return };
            let Some(said) = self.processes.get_mut(&pid).and_then(|p| p.outbox.pop_front()) else {
                return;
            };
            let (service, of) = (id, Handle);
            let event = match said {
                FromService::Ready { .. } => Event::ServiceReady { service },
                FromService::Failed { reason } => Event::ServiceFailed { service, reason },
                FromService::Opened { channel } => {
                    Event::ChannelOpened { service, channel: of(channel) }
                }
                FromService::DeviceLost { channel, reason } => {
                    Event::ChannelLost { service, channel: of(channel), reason }
                }
                FromService::Standing { channel } => {
                    Event::ChannelStanding { service, channel: of(channel) }
                }
                FromService::OpenFailed { channel, reason } => {
                    Event::ChannelOpenFailed { service, channel: of(channel), reason }
                }
                FromService::Closed { channel } => {
                    Event::ChannelClosed { service, channel: of(channel) }
                }
                FromService::Broken { channel, reason } => {
                    Event::ChannelBroken { service, channel: of(channel), reason }
                }
                FromService::Channels { channels, more, to } => {
                    if to != 0 && to != self.generation {
                        continue;
                    }
                    let m = self.m();
                    if !m.core.awaits_report(service) {
                        m.reports.remove(&service);
                        continue;
                    }
                    let report = m.reports.entry(service).or_default();
                    report.extend(channels.into_iter().map(Handle));
                    if more {
                        continue;
                    }
                    let channels = m.reports.remove(&service).unwrap_or_default();
                    Event::Serving { service, channels }
                }
                FromService::Alive => Event::ServiceAlive { service },
                // Only the sentence of its end changes by it; and modules are the
                // real rim's business, which the core hears of as a new catalog.
                FromService::Forbidden { .. } | FromService::Submission { .. } => continue,
                FromService::Deadline { channel } => {
                    Event::CallOverran { service, channel: of(channel) }
                }
            };
            self.push(event);
        }
    }

    pub(super) fn service_ended(&mut self, id: ServiceId) -> Done {
        self.hear_service(id);
        let Some(s) = self.m().services.get(&id) else { return Ok(()) };
        let (pid, child) = (s.pid, s.child);
        let Some(exit) = self.processes.get(&pid).map_or(Some(Exit::Unknown), |p| p.exit) else {
            return Ok(());
        };
        self.m().services.remove(&id);
        self.records.remove(&pid);
        self.processes.remove(&pid);
        self.point("a service is reaped, not let go")?;
        self.m().reports.remove(&id);
        self.forget(format!("{SERVICE}{id}"));
        self.point("a service is let go, its end not noted")?;
        let exit = if child { exit } else { Exit::Unknown };
        self.push(Event::ServiceExited { service: id, exit });
        Ok(())
    }
}
