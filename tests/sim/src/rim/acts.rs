//! Does what the core decided.

use super::{Done, Service};
use crate::plan::Chance;
use crate::service::{Baton, Told};
use crate::world::World;
use vfun_core::{Action, Event, Exit, ServiceId};

impl World {
    pub(super) fn act(&mut self, action: Action) -> Done {
        match action {
            Action::Answer { to, result } => {
                let how = match &result {
                    Ok(body) => format!("ack of {} bytes", body.len()),
                    Err(nack) => format!("{:?}: {}", nack.code, nack.sentence),
                };
                self.say(|| format!("answer {to:?}: {how}"));
                let windows = self.manager.as_mut().map(|m| &mut m.windows);
                if let Some(a) = windows.and_then(|w| w.get_mut(&to.window)) {
                    if !a.memory.scribbled.get() {
                        self.ledger.answer((to.window, to.cell, to.seq), how);
                    }
                    a.window.answer(to.cell, to.seq, &result);
                }
            }
            Action::AnswerStats { to, channel, .. } => {
                if let Some((window, geometry)) = channel
                    && let Some(a) = self.m().windows.get(&window)
                {
                    a.window.counters(&geometry);
                }
                self.act(Action::Answer { to, result: Ok(vec![0; 72]) })?;
            }
            Action::StartService { service, client, function, .. } => {
                self.start_service(service, &client, &function)?;
            }
            Action::StopService { service } => self.tell(service, || Told::Stop),
            Action::KillService { service } => {
                self.say(|| format!("kill service {service}"));
                if let Some(pid) = self.m().services.get(&service).map(|s| s.pid) {
                    self.kill_process(pid, Exit::Signal(9));
                }
            }
            Action::Zero { window, geometry } => {
                if let Some(a) = self.m().windows.get(&window) {
                    a.window.zero(&geometry);
                }
            }
            Action::OpenChannel {
                service,
                channel,
                window,
                geometry,
                deadline_ms,
                vf,
                standby,
                ..
            } => {
                let baton = standby.then(Baton::default);
                let refused = self.plan.may(Chance::Refusals) && self.rng.u32(0..60) == 0;
                let m = self.m();
                let there = m.services.get(&service).zip(m.windows.get(&window));
                let sent = there.filter(|_| !refused).map(|(s, a)| (s.pid, a.memory.clone()));
                let process = sent.and_then(|(pid, memory)| {
                    Some((self.processes.get_mut(&pid)?, memory)).filter(|(p, _)| p.lives())
                });
                match process {
                    Some((p, memory)) => {
                        crate::trace::say(0, || format!("tell service {service}: open {channel}"));
                        p.inbox.push_back(Told::Open {
                            channel: channel.0,
                            geometry,
                            memory,
                            deadline_ms: deadline_ms.into(),
                            vf,
                            standby: baton.clone(),
                        });
                        if let Some(baton) = baton {
                            self.m().batons.insert(channel, baton);
                        }
                    }
                    None => {
                        let reason = "the channel could not be passed to its service".into();
                        self.push(Event::ChannelOpenFailed { service, channel, reason });
                    }
                }
            }
            Action::CloseChannel { service, channel } => {
                self.say(|| format!("tell service {service}: close {channel}"));
                self.tell(service, || Told::Close(channel.0));
            }
            Action::HandOver { service, channel } => {
                self.say(|| format!("tell service {service}: hand {channel} over"));
                let baton = self.m().batons.remove(&channel);
                self.tell(service, || Told::HandOver(channel.0, baton));
            }
            Action::TakeUp { service, channel, status } => {
                self.say(|| format!("tell service {service}: take {channel} up"));
                self.tell(service, || Told::TakeUp(channel.0, status));
            }
            Action::AskLife { service } => self.tell(service, || Told::Live),
            Action::FailCurrent { window, geometry, status } => {
                if let Some(a) = self.m().windows.get(&window) {
                    a.window.fail_current(&geometry, status);
                }
            }
            Action::BreakChannel { window, geometry, reason, .. } => {
                if let Some(a) = self.m().windows.get(&window) {
                    a.window.break_channel(&geometry, reason);
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn tell(&mut self, service: ServiceId, what: impl FnOnce() -> Told) {
        let Some(pid) = self.m().services.get(&service).map(|s| s.pid) else { return };
        if let Some(p) = self.processes.get_mut(&pid).filter(|p| p.lives()) {
            p.inbox.push_back(what());
        }
    }

    pub(super) fn start_service(
        &mut self,
        service: ServiceId,
        client: &str,
        function: &str,
    ) -> Done {
        if self.plan.may(Chance::Refusals) && self.rng.u32(0..30) == 0 {
            let reason = "the service program cannot be started".into();
            self.push(Event::ServiceFailed { service, reason });
            return Ok(());
        }
        let pid = self.spawn(client, function);
        self.say(|| format!("service {service} is process {pid}"));
        let failed = self.point("started, not recorded");
        if failed.is_err() {
            // Nobody has its socket.
            self.processes.get_mut(&pid).expect("just started").unlink();
            return failed;
        }
        self.records.insert(pid);
        self.m().services.insert(service, Service { pid, child: true });
        self.point("recorded, not kept")?;
        self.hold_service(service);
        Ok(())
    }
}
