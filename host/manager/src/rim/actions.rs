//! Does what the core decided.

use super::Daemon;
use super::tell::Word;
use crate::core::{Action, Level};
use vfun_supervise::{Open, Start, ToService};
use vfun_wire::message::Stats;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

impl Daemon {
    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Answer { to, result } => {
                if let Err(nack) = &result {
                    tracing::debug!(window = to.window, "refused: {nack}");
                }
                if let Some(a) = self.windows.get_mut(&to.window) {
                    a.window.answer(to.cell, to.seq, &result);
                }
            }
            Action::AnswerStats { to, channel, restarts, service, age_ms } => {
                let counters = channel
                    .and_then(|(w, g)| Some(self.windows.get(&w)?.window.counters(&g)))
                    .unwrap_or_default();
                let pid = service.and_then(|s| self.services.get(&s)).map_or(0, |p| p.pid as u32);
                let stats = Stats {
                    calls: U64::new(counters.calls),
                    errors: U64::new(counters.errors),
                    bytes_in: U64::new(counters.bytes_in),
                    bytes_out: U64::new(counters.bytes_out),
                    slept: U64::new(counters.slept),
                    rang: U64::new(counters.rang),
                    restarts: U32::new(restarts),
                    pid: U32::new(pid),
                    age_ms: U64::new(age_ms),
                };
                self.act(Action::Answer { to, result: Ok(stats.as_bytes().to_vec()) });
            }
            Action::StartService { service, client, function, version, driver, settings, args } => {
                let start = Start {
                    client,
                    function,
                    version,
                    driver,
                    settings,
                    cpus: vec![],
                    args,
                    filters: Default::default(),
                };
                if let Err(cannot) = self.start_service(service, start) {
                    self.not_started(service, cannot);
                }
            }
            Action::StopService { service } => {
                if self.abandon_launch(service) {
                    return;
                }
                self.tell(service, Word::Plain(ToService::Stop));
            }
            Action::KillService { service } => {
                if self.abandon_launch(service) {
                    return;
                }
                if let Some(p) = self.services.get(&service) {
                    p.kill();
                }
            }
            Action::Zero { window, geometry } => {
                if let Some(a) = self.windows.get(&window) {
                    a.window.zero(&geometry);
                }
            }
            Action::OpenChannel {
                service,
                channel,
                window,
                geometry,
                app,
                deadline_ms,
                calls_per_s,
                wait,
                vf,
                standby,
            } => {
                let open = Open {
                    channel: channel.0,
                    app,
                    dataout_off: geometry.dataout_off.get(),
                    datain_off: geometry.datain_off.get(),
                    depth: geometry.depth.get(),
                    cell_bytes: geometry.cell_bytes.get(),
                    kind: geometry.kind.get(),
                    deadline_ms,
                    calls_per_s,
                    wait: wait.to_wire(),
                    doorbell: self.windows.get(&window).is_some_and(|a| a.window.bells().is_some()),
                    vf,
                    standby,
                };
                let vectors = (geometry.vector_out.get(), geometry.vector_in.get());
                self.tell(service, Word::Open(open, window, vectors));
            }
            Action::CloseChannel { service, channel } => {
                self.tell(service, Word::Plain(ToService::Close { channel: channel.0 }));
            }
            Action::HandOver { service, channel } => {
                self.tell(service, Word::HandOver(channel));
            }
            Action::TakeUp { service, channel, status } => {
                let word = ToService::TakeUp { channel: channel.0, status: status.to_wire() };
                self.tell(service, Word::Plain(word));
            }
            Action::SetRate { service, channel, calls_per_s } => {
                let word = ToService::Rate { channel: channel.0, calls_per_s };
                self.tell(service, Word::Plain(word));
            }
            Action::AskLife { service } => self.tell(service, Word::Plain(ToService::Live)),
            Action::Look { service, channel } => {
                self.tell(service, Word::Plain(ToService::Look { channel: channel.0 }));
            }
            Action::FailCurrent { window, geometry, status } => {
                if let Some(a) = self.windows.get(&window) {
                    a.window.fail_current(&geometry, status);
                }
            }
            Action::BreakChannel { window, geometry, status: _, reason } => {
                if let Some(a) = self.windows.get(&window) {
                    a.window.break_channel(&geometry, reason);
                }
            }
            Action::Record(g) => {
                if self.may_say(&self.client_words(g.client_id)) {
                    tracing::info!(
                        grant = %g.grant, client = %g.client, app = %g.app, function = %g.function,
                        location = %g.location, why = g.why.as_deref().unwrap_or(""), "{}", g.state.text()
                    );
                }
                self.put_on_record(&g);
            }
            Action::LogOf { client, level, text } => {
                let name = self.client_words(client);
                if self.may_say(&name) {
                    match level {
                        Level::Info => tracing::info!("{name}: {text}"),
                        Level::Warn => tracing::warn!("{name}: {text}"),
                    }
                }
            }
            Action::Refused(r) => self.audit.refused(None, &r),
            Action::Log(Level::Info, text) => tracing::info!("{text}"),
            Action::Log(Level::Warn, text) => tracing::warn!("{text}"),
        }
    }
}
