//! Lets the core handle what happened, and does what it decided.

use crate::System;
use crate::further::FurtherWindows;
use crate::keep::Keep;
use crate::requests::Requests;
use crate::say::Say;
use crate::system::Line;
use crate::tell::{ServiceMessage, Tell};
use vfun_core::ports::PortWay;
use vfun_core::{Action, Event, Level, ReplyTo, ServiceId, WindowId};
use vfun_supervise::{BufferCame, Open, PortCame, Start, ToService};
use vfun_wire::header::PortEntry;
use vfun_wire::limits::PORTS_MAX;
use vfun_wire::message::Stats;
use vfun_wire::place::ChannelPlace;
use vfun_wire::range::Range;
use vfun_wire::{Handle, Nack};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

/// Hands events to the state machine, and does what it says.
pub trait Act: System {
    /// Lets the core handle what happened, and does what it says, until nothing is left.
    fn settle(&mut self) {
        while let Some(event) = self.rim_mut().events.pop_front() {
            let mut actions = vec![];
            let now = self.now();
            let rules = matches!(event, Event::Catalog(_));
            let tables = rules || matches!(event, Event::WindowUp { .. } | Event::Resume { .. });
            let what = self.handling(&event);
            self.rim_mut().core.handle(now, event, &mut actions);
            if rules {
                self.set_rates();
            }
            self.point("handled, not noted");
            self.note_changes();
            self.noted(what);
            for action in actions {
                self.point("noted, not done");
                self.act(action);
            }
            if tables {
                self.name_ports();
            }
            self.done(what);
        }
    }

    /// Shows each VM the ports that its client's manifest gives it.
    fn name_ports(&mut self) {
        let rim = self.rim_mut();
        let clients = &rim.core.catalog().clients;
        for a in rim.windows.values_mut() {
            let Some(vm) = &a.vm else { continue };
            let table = clients.get(&a.client).map(|c| c.port_table(vm));
            a.window.name_ports(table.unwrap_or([PortEntry::NONE; PORTS_MAX]));
        }
    }

    /// Something happened; it is handled when its turn comes.
    fn push(&mut self, event: Event) {
        self.rim_mut().events.push_back(event);
    }

    /// Does what the core decided.
    fn act(&mut self, action: Action) {
        match action {
            Action::Answer { to, result } => self.answer(to, result),
            Action::AnswerStats { to, channel, restarts, service, age_ms } => {
                let stats = self.stats(channel, restarts, service, age_ms);
                self.answer(to, Ok(stats.as_bytes().to_vec()));
            }
            Action::StartService { service, client, function, version, driver, settings, args } => {
                let (cpus, filters) = (vec![], Default::default());
                let start =
                    Start { client, function, version, driver, settings, cpus, args, filters };
                self.start_service(service, start);
            }
            Action::StopService { service } => {
                if !self.abandon_start(service) {
                    self.tell(service, ServiceMessage::Plain(ToService::Stop));
                }
            }
            Action::KillService { service } => {
                if !self.abandon_start(service) {
                    self.kill(service);
                }
            }
            open @ Action::OpenChannel { .. } => self.open(open),
            came @ Action::BufferCame { .. } => self.bring(came),
            Action::BufferGone { service, buffer } => {
                let word = ToService::BufferGone { buffer: buffer.0 };
                self.tell(service, ServiceMessage::Plain(word));
            }
            Action::CloseChannel { service, channel } => {
                self.tell(service, ServiceMessage::Plain(ToService::Close { channel: channel.0 }));
            }
            Action::AskLife { service } => {
                self.tell(service, ServiceMessage::Plain(ToService::Live))
            }
            Action::Look { service, channel } => {
                self.tell(service, ServiceMessage::Plain(ToService::Look { channel: channel.0 }));
            }
            Action::HandOver { service, channel } => {
                self.tell(service, ServiceMessage::HandOver(channel))
            }
            Action::TakeUp { service, channel, status } => {
                let word = ToService::TakeUp { channel: channel.0, status: status.to_wire() };
                self.tell(service, ServiceMessage::Plain(word));
            }
            Action::SetRate { service, channel, calls_per_s } => {
                let word = ToService::Rate { channel: channel.0, calls_per_s };
                self.tell(service, ServiceMessage::Plain(word));
            }
            Action::Zero { .. }
            | Action::ZeroBuffer { .. }
            | Action::FailCurrent { .. }
            | Action::BreakChannel { .. } => {
                self.act_on_pages(&action);
            }
            Action::Record(g) => {
                let say = self.may_say(&self.client_words(g.client_id));
                self.record(&g, say);
            }
            Action::LogOf { client, level, text } => {
                let name = self.client_words(client);
                if self.may_say(&name) {
                    self.log(line(level), format_args!("{name}: {text}"));
                }
            }
            Action::Refused(r) => self.refused(&r),
            Action::Log(level, text) => self.log(line(level), format_args!("{text}")),
        }
    }

    /// Writes the answer to a request into the cell that it came in.
    fn answer(&mut self, to: ReplyTo, result: Result<Vec<u8>, Nack>) {
        if let Err(nack) = &result {
            self.log(Line::Debug, format_args!("window {}: refused: {nack}", to.window));
        }
        if !self.rim().windows.contains_key(&to.window) {
            return;
        }
        self.answers(&to, &result);
        if let Some(a) = self.rim_mut().windows.get_mut(&to.window) {
            a.window.answer(to.cell, to.seq, &result);
        }
    }

    /// What a channel did so far.
    fn stats(
        &self,
        channel: Option<(WindowId, ChannelPlace)>,
        restarts: u32,
        service: Option<ServiceId>,
        age_ms: u64,
    ) -> Stats {
        let rim = self.rim();
        let counters = channel
            .and_then(|(w, g)| Some(rim.windows.get(&w)?.window.counters(&g)))
            .unwrap_or_default();
        let pid = service.and_then(|s| rim.services.get(&s)).map_or(0, Self::pid);
        Stats {
            calls: U64::new(counters.calls),
            errors: U64::new(counters.errors),
            bytes_in: U64::new(counters.bytes_in),
            bytes_out: U64::new(counters.bytes_out),
            slept: U64::new(counters.slept),
            rang: U64::new(counters.rang),
            restarts: U32::new(restarts),
            pid: U32::new(pid),
            age_ms: U64::new(age_ms),
            reserved: [U64::ZERO; 2],
        }
    }

    /// Tells a service to open a channel.
    fn open(&mut self, action: Action) {
        let Action::OpenChannel {
            service,
            channel: Handle(channel),
            window,
            place,
            app,
            vm,
            address,
            session: Handle(session),
            deadline_ms,
            calls_per_s,
            wait,
            vf,
            standby,
            port,
        } = action
        else {
            return;
        };
        let attached = self.rim().windows.get(&window);
        let (origin, window_bytes) =
            attached.map_or((0, 0), |a| (a.window.origin(), a.window.bytes()));
        let open = Open {
            channel,
            app,
            vm,
            address,
            session,
            origin,
            window_bytes,
            place: vfun_supervise::Place::of(&place),
            deadline_ms,
            calls_per_s,
            wait: wait.to_wire(),
            doorbell: attached.is_some_and(|a| a.window.bells().is_some()),
            bell: attached.map_or(0, |a| a.window.generation()),
            vf,
            standby,
            port: port.map(|p| PortCame {
                name: p.name,
                mtu: p.mtu,
                switch: p.way == PortWay::Dpdk,
            }),
        };
        let vectors = (place.vector_out(), place.vector_in());
        self.tell(service, ServiceMessage::Open(open, window, vectors));
    }

    /// Gives a service a buffer.
    fn bring(&mut self, action: Action) {
        let Action::BufferCame { service, buffer, session, window, range, pages } = action else {
            return;
        };
        let memory = range.window.get();
        let came = BufferCame {
            buffer: buffer.0,
            session: session.0,
            origin: self.origin_of(window, memory),
            offset: range.offset.get(),
            bytes: range.bytes.get(),
            sealed: self.is_sealed(window, memory),
            pages,
        };
        self.tell(service, ServiceMessage::Buffer(came, window, memory));
    }

    /// Whether nobody can make the file of a memory of a window shorter: a control window
    /// with bells is sealed.
    fn is_sealed(&self, window: WindowId, memory: u16) -> bool {
        let attached = self.rim().windows.get(&window).filter(|_| memory == 0);
        attached.is_some_and(|a| a.window.bells().is_some())
    }

    /// Where a memory of a window begins in its file, bytes.
    fn origin_of(&self, window: WindowId, memory: u16) -> u64 {
        let control = self.rim().windows.get(&window).filter(|_| memory == 0);
        let data = || self.data_of(window, memory).map(|(_, d)| d.pages().origin());
        control.map(|a| a.window.origin()).or_else(data).unwrap_or(0)
    }

    /// Sets a buffer to zero, which counts among what its window asks for.
    fn zero_buffer(&mut self, window: WindowId, range: &Range) {
        let control = self.rim().windows.get(&window).filter(|_| range.window.get() == 0);
        let data = || self.data_of(window, range.window.get()).map(|(_, d)| d.pages());
        let Some(pages) = control.map(|a| a.window.pages()).or_else(data) else { return };
        pages.zero(range);
        let now = self.now();
        if let Some(a) = self.rim_mut().windows.get_mut(&window) {
            a.intake.zeroed(now, range.bytes.get());
        }
    }

    /// Does what is done in a window's own pages.
    fn act_on_pages(&mut self, action: &Action) {
        if let Action::ZeroBuffer { window, range } = action {
            return self.zero_buffer(*window, range);
        }
        let windows = &self.rim().windows;
        match action {
            Action::Zero { window, place } => {
                if let Some(a) = windows.get(window) {
                    a.window.zero(place);
                }
            }
            Action::FailCurrent { window, place, status } => {
                if let Some(a) = windows.get(window) {
                    a.window.fail_current(place, *status);
                }
            }
            Action::BreakChannel { window, place, status: _, reason } => {
                if let Some(a) = windows.get(window) {
                    a.window.break_channel(place, *reason);
                }
            }
            _ => {}
        }
    }
}

impl<S: System> Act for S {}

fn line(level: Level) -> Line {
    match level {
        Level::Info => Line::Info,
        Level::Warn => Line::Warn,
    }
}
