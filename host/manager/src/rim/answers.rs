//! The admin interface: answers what people ask.

use super::catalogs::{beside, function};
use super::policy::taken;
use super::{Daemon, Kind};
use crate::admin::counters::Counters;
use crate::admin::{Ask, CodeRow, FunctionRow, GrantRow, HeldUp, LINE_BYTES, Reply, Status};
use crate::audit::Who;
use crate::core::breakers::State;
use crate::core::catalog::Function;
use crate::core::services::Owner;
use crate::core::{DrainOf, Event, Grant};
use crate::fair::Intake;
use crate::limits::{ACCEPTS_A_TURN, ADMIN_MAX};
use crate::{driver_file, process};
use rustix::event::epoll::EventFlags;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vfun_rim::methods::*;
use vfun_supervise::Driver;
use vfun_wire::Handle;
use vfun_wire::kind::ChannelKind;

/// A connection and the line it is in the middle of.
pub(super) struct AdminConnection {
    stream: UnixStream,
    /// User and process at the other end.
    from: (u32, i32),
    line: Vec<u8>,
    /// What it asked is answered later; what it asks next waits.
    waiting: bool,
}

/// Who asked for something that changes this host, and where the answer goes.
pub(super) struct Noted {
    connection: u32,
    who: Who,
    what: String,
    client: String,
}

fn error(sentence: impl ToString) -> Reply {
    Reply::Error { sentence: sentence.to_string() }
}

impl Daemon {
    pub(super) fn accept_admin(&mut self) {
        for _ in 0..ACCEPTS_A_TURN {
            let stream = match self.admin_listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) => return self.refuse_for_want_of_descriptors(&e),
            };
            let id = self.fresh_id();
            let Ok(cred) = rustix::net::sockopt::socket_peercred(&stream) else { continue };
            let from = (cred.uid.as_raw(), cred.pid.as_raw_nonzero().get());
            if self.admins.len() >= ADMIN_MAX || stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.watch(&stream, Kind::Admin, id, EventFlags::IN | EventFlags::RDHUP).is_ok() {
                self.admins
                    .insert(id, AdminConnection { stream, from, line: vec![], waiting: false });
            }
        }
    }

    pub(super) fn read_admin(&mut self, id: u32) {
        let mut room = vec![0; 16 << 10];
        loop {
            let Some(c) = self.admins.get_mut(&id) else { return };
            match c.stream.read(&mut room) {
                Ok(n) if n > 0 && c.line.len() + n <= LINE_BYTES => {
                    c.line.extend_from_slice(&room[..n])
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                _ => {
                    self.admins.remove(&id);
                    return;
                }
            }
            self.answer_lines(id);
        }
    }

    /// Answers what a connection asked, up to what is answered later.
    fn answer_lines(&mut self, id: u32) {
        while let Some(c) = self.admins.get_mut(&id)
            && !c.waiting
            && let Some(end) = c.line.iter().position(|b| *b == b'\n')
        {
            let line: Vec<u8> = c.line.drain(..=end).collect();
            c.waiting = true;
            let reply = match serde_json::from_slice::<Ask>(&line) {
                Ok(ask) => self.reply_and_note(id, ask),
                Err(e) => Some(error(format!("the request could not be read: {e}"))),
            };
            self.settle();
            if let Some(reply) = reply {
                self.send_reply(id, &reply);
            }
        }
    }

    fn send_reply(&mut self, id: u32, reply: &Reply) {
        let mut text = serde_json::to_vec(reply).expect("replies are plain data");
        text.push(b'\n');
        let Some(AdminConnection { stream: c, waiting, .. }) = self.admins.get_mut(&id) else {
            return;
        };
        *waiting = false;
        let sent = c
            .set_nonblocking(false)
            .and_then(|()| c.set_write_timeout(Some(Duration::from_secs(1))))
            .and_then(|()| (&mut &*c).write_all(&text))
            .and_then(|()| c.set_nonblocking(true));
        if sent.is_err() {
            self.admins.remove(&id);
        }
    }

    /// Answers; what changes something is noted with who asked for it. `None`:
    /// it is answered later, with [`Daemon::answer_late`].
    fn reply_and_note(&mut self, id: u32, ask: Ask) -> Option<Reply> {
        let Some((what, client)) = super::policy::deed(&ask) else { return Some(self.reply(ask)) };
        let (uid, pid) = self.admins.get(&id).map_or((u32::MAX, 0), |c| c.from);
        let noted = Noted { connection: id, who: Who::of(uid, pid), what, client };
        let later = match &ask {
            Ask::RemoveFunction { name, client: Some(client) } => {
                self.remove_submitted(noted, client, name)
            }
            Ask::RemoveClient { name } => self.remove_client(noted, name),
            Ask::AddClient { manifest: text, file } => match self.left_by_another(text, file) {
                Some(client) => self.clear_for(noted, client, text, file),
                None => {
                    let reply = self.add_client(text, file);
                    self.note(&noted, &reply);
                    return Some(reply);
                }
            },
            _ => {
                let reply = self.reply(ask);
                self.note(&noted, &reply);
                return Some(reply);
            }
        };
        let (noted, sentence) = later.err()?;
        let reply = Reply::Error { sentence };
        self.note(&noted, &reply);
        Some(reply)
    }

    fn note(&mut self, noted: &Noted, reply: &Reply) {
        let outcome = match reply {
            Reply::Error { sentence } => Err(sentence.as_str()),
            _ => Ok(()),
        };
        tracing::info!(
            uid = noted.who.uid,
            pid = noted.who.pid,
            failed = outcome.is_err(),
            "asked for: {}",
            noted.what
        );
        self.audit.did(&noted.who, noted.what.clone(), &noted.client, outcome);
    }

    /// What was asked is done, or failed: its connection goes on.
    pub(super) fn answer_late(&mut self, noted: Noted, reply: Reply) {
        self.note(&noted, &reply);
        self.send_reply(noted.connection, &reply);
        self.answer_lines(noted.connection);
    }

    fn reply(&mut self, ask: Ask) -> Reply {
        match ask {
            Ask::Status => self.status(),
            Ask::Functions => Reply::Functions { functions: self.function_rows() },
            Ask::Clients => Reply::Clients {
                clients: self
                    .rim
                    .core
                    .catalog()
                    .clients
                    .values()
                    .map(|c| self.client_row(c))
                    .collect(),
            },
            Ask::Windows => Reply::Windows { windows: self.further_rows() },
            Ask::AddWindow { manifest, file } => self.add_further(&manifest, &file),
            Ask::RemoveWindow { name } => self.remove_further(&name),
            Ask::Grants => Reply::Grants { grants: self.grant_rows() },
            Ask::History { limit } => {
                self.put_late_on_record(false);
                match self.records.history(limit.min(10_000)) {
                    Ok(rows) => Reply::History { rows },
                    Err(e) => error(format!("the database could not be read: {e}")),
                }
            }
            Ask::Services => Reply::Services { services: self.service_rows() },
            Ask::Sandbox => Reply::Sandbox(self.sandbox()),
            Ask::AddFunction { manifest, file } => self.add_function(&manifest, &file),
            Ask::RemoveFunction { name, .. } => self.remove_function(&name),
            Ask::AddClient { manifest, file } => self.add_client(&manifest, &file),
            Ask::AddVm { client, vm, window, transport } => {
                self.add_vm(&client, &vm, window, transport)
            }
            Ask::RemoveVm { client, vm } => self.remove_vm(&client, &vm),
            Ask::Links => Reply::Links { links: self.link_rows() },
            Ask::LinkOff { from, to, off } => self.links_off(&from, &to, off),
            Ask::LinkFlows(ask) => self.answer_of_flows(ask),
            Ask::Ports => Reply::Ports { ports: self.port_rows() },
            Ask::AddPort { client, vm, name, port } => self.add_port(&client, &vm, &name, &port),
            Ask::RemovePort { client, vm, name } => self.remove_port(&client, &vm, &name),
            // Answered when the disk is done, before it comes here.
            Ask::RemoveClient { name } => error(format!("client '{name}' was not removed")),
            Ask::Revoke { grant } => self.revoke(&grant),
            Ask::Drain => self.drain(DrainOf::All, true),
            Ask::DrainOf { of, on } => self.drain(of, on),
            Ask::Draining { of } => self.progress(&of),
            Ask::Policy { client } => self.policy_view(client.as_deref()),
            Ask::SetPolicy { text, file } => self.set_policy(&text, &file),
            Ask::ReloadPolicy => self.reload_policy(),
            Ask::AddToken { client, app, lives_ms } => self.add_token(&client, &app, lives_ms),
            Ask::RotateToken { id, grace_ms } => self.rotate_token(id, grace_ms),
            Ask::RevokeToken { id } => self.revoke_token(id),
            Ask::Tokens { client } => self.tokens_of(client.as_deref()),
            Ask::Leases => Reply::Leases(self.leases_view()),
            Ask::SetLeases { policy, interval_ms, min_hold_ms } => {
                self.change_leases(policy, interval_ms, min_hold_ms)
            }
            Ask::Audit(query) => match self.audit.read(&query) {
                Ok(rows) => Reply::Audit { rows },
                Err(e) => error(e),
            },
            Ask::Stop => {
                self.ending = true;
                Reply::Done { sentence: "the manager ends".into() }
            }
        }
    }

    fn revoke(&mut self, grant: &str) -> Reply {
        let mut handles = self.rim.core.grants().map(|(handle, _)| handle);
        match handles.find(|h| h.to_string() == grant) {
            Some(handle) => {
                self.rim.events.push_back(Event::Revoke { grant: handle });
                Reply::Done { sentence: format!("grant {grant} was taken away") }
            }
            None => error(format!("there is no grant {grant}: `vfun ps` lists them")),
        }
    }

    fn status(&self) -> Reply {
        let t = self.rim.core.totals();
        Reply::Status(Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            root: self.config.root.clone(),
            generation: self.rim.generation,
            uptime_s: self.began.elapsed().as_secs(),
            draining: self.rim.core.draining(),
            windows: t.windows,
            sessions: t.sessions,
            grants: t.grants,
            services: t.services,
            window_bytes_used: t.bytes,
            buffers: t.buffers,
            buffer_bytes: self.rim.core.buffers().map(|(_, b)| b.bytes).sum(),
            resident_bytes: process::resident_bytes(),
            tcp: self.config.tcp.clone().filter(|_| self.helper_runs(&self.config.gateway_program)),
            metrics: self
                .config
                .metrics
                .clone()
                .filter(|_| self.helper_runs(&self.config.metrics_program)),
            nics: self.config.nics,
            links: self.config.links,
            link_settings: self.config.link_settings,
            policy_unreadable: self.unreadable(),
            service_program: self.config.service_program.clone(),
            troubles: self.troubles(),
            held_up: self.held_up(),
        })
    }

    /// What is wrong, for people.
    fn troubles(&self) -> Vec<String> {
        let keeper = self.keeper.is_none().then(|| {
            "there is no keeper: if the manager is killed, its windows are lost".to_owned()
        });
        let mut all = self.windows_troubles();
        all.extend(self.further_troubles());
        all.extend(self.records_trouble());
        all.extend(self.found.clone());
        all.extend(self.lacks.iter().cloned());
        let stayed = self.not_again.as_ref();
        all.extend(stayed.map(|why| format!("SIGHUP did not restart the manager: {why}")));
        all.extend(self.submissions_troubles());
        all.extend(self.nics_trouble());
        all.extend(self.links_trouble());
        all.extend(self.stuck_troubles());
        all.extend(keeper);
        let now = self.now();
        all.extend(self.rim.core.breakers(now).map(|((owner, function, _), state)| {
            let Owner::Client(client) = *owner;
            let client = self.client_words(client);
            match state {
                State::Open(until) => format!(
                    "'{function}' of {client} crashed too often: it is tried again in {} ms",
                    until - now
                ),
                _ => format!("'{function}' of {client} crashed too often and is on trial"),
            }
        }));
        all
    }

    fn held_up(&self) -> HeldUp {
        let sum = |of: fn(&Intake) -> u64| self.rim.windows.values().map(|w| of(&w.intake)).sum();
        let open = self.rim.core.breakers(self.now()).filter(|(_, s)| matches!(s, State::Open(_)));
        HeldUp {
            requests: sum(|i| i.throttled),
            bells: sum(|i| i.deafened),
            connections: self.attaches.refused() + self.connects.refused(),
            starts: self.rim.core.starts_held_up(),
            records: self.book.held_up(),
            lines: self.rim.lines.left_out(),
            open_breakers: open.count() as u64,
        }
    }

    fn grant_rows(&self) -> Vec<GrantRow> {
        let now = self.now();
        self.rim
            .core
            .grants()
            .map(|(handle, g)| {
                let window = self.rim.windows.get(&g.holder.window);
                let of_grant = self.rim.core.buffers_of(g.holder.session, handle);
                let of_session = self.rim.core.buffers_of(g.holder.session, Handle::NONE);
                GrantRow {
                    grant: handle.to_string(),
                    client_id: g.holder.client_id,
                    client: g.holder.client.clone(),
                    vm: g.holder.vm.clone(),
                    app_id: g.holder.app_id,
                    app: g.holder.app.clone(),
                    origin: origin(&g.subject.function).into(),
                    function: g.subject.function.clone(),
                    location: g.subject.location.text().into(),
                    state: g.state().text().into(),
                    transport: window.map_or(String::new(), |w| w.transport.name().into()),
                    wait: g.terms.wait.text().into(),
                    depth: g.subject.shape.cells().depth.get(),
                    cell_bytes: g.subject.shape.cells().cell_bytes.get(),
                    pid: g.service().and_then(|s| self.rim.services.get(&s)).map(|p| p.pid as u32),
                    age_ms: now.saturating_sub(g.since_ms),
                    restarts: g.restarts,
                    in_flight: window
                        .zip(g.told())
                        .filter(|_| g.subject.shape.kind == ChannelKind::Calls)
                        .map_or(0, |(w, place)| w.window.in_flight(&place)),
                    buffers: of_grant.0,
                    buffer_bytes: of_grant.1,
                    session_buffers: of_session.0,
                    session_buffer_bytes: of_session.1,
                    counters: self.counters_of(handle, g),
                    rdma: self.rdma_of(g),
                }
            })
            .collect()
    }

    /// A grant's counters, as its service keeps them: of a call, when it has ended. The
    /// time of one that lasts is what the manager itself has seen of it.
    fn counters_of(&self, handle: Handle, g: &Grant) -> Counters {
        let channel = self.rim.windows.get(&g.holder.window).zip(g.told());
        let Some((a, place)) = channel else { return Counters::default() };
        let mut counters = a.window.counters(&place);
        if let Some(since) = self.rim.core.computing_since(handle) {
            let ns = self.now().saturating_sub(since).saturating_mul(1_000_000);
            counters.busy_ns = counters.busy_ns.saturating_add(ns);
        }
        counters
    }

    pub(super) fn write_manifest(&self, path: PathBuf, text: &str) -> Result<(), String> {
        let part = path.with_extension("part");
        std::fs::write(&part, text)
            .and_then(|()| std::fs::rename(&part, &path))
            .map_err(|e| format!("{} could not be written: {e}", path.display()))
    }

    pub(super) fn id(&self, kind: &str, name: &str) -> Result<u32, String> {
        let id =
            self.records.id(kind, name).map_err(|e| format!("the database refused an id: {e}"))?;
        // Without it a database that breaks would take the id with it.
        self.save_numbers()?;
        Ok(id)
    }

    fn add_function(&mut self, text: &str, file: &Path) -> Reply {
        let done = (|| -> Result<_, String> {
            let parse = |id| function(&self.config.drivers, file, text, beside(file), id);
            let name = parse(0).map_err(|e| e.to_string())?.name;
            let f = parse(self.id("function", &name)?).map_err(|e| e.to_string())?;
            let drivers = own_drivers(&f)?;
            // Kept with absolute libraries, so that it means the same from anywhere.
            let kept = with_absolute_libraries(text, &f);
            self.write_manifest(self.tree.functions().join(format!("{name}.toml")), &kept)?;
            let sentence = format!("function {name} {} is offered: {drivers}", f.version);
            let mut catalog = self.rim.core.catalog().clone();
            catalog.functions.insert(name, f);
            let sentence = sentence + &taken(&self.rim.core.effects(&catalog));
            Ok((catalog, sentence))
        })();
        match done {
            Ok((catalog, sentence)) => {
                self.rim.events.push_back(Event::Catalog(catalog));
                Reply::Done { sentence }
            }
            Err(sentence) => Reply::Error { sentence },
        }
    }

    /// The host's functions, and those that clients submitted.
    fn function_rows(&self) -> Vec<FunctionRow> {
        let c = self.rim.core.catalog();
        let own = c.submitted.iter().flat_map(|(id, all)| {
            let client = c.clients.get(id).map(|c| c.name.clone());
            all.values().map(move |f| FunctionRow { client: client.clone(), ..function_row(f) })
        });
        c.functions.values().map(function_row).chain(own).collect()
    }

    fn remove_function(&mut self, name: &str) -> Reply {
        if name == vfun_submit::FUNCTION {
            return error("'submit' is built in: policy says who may use it (submit = false)");
        }
        if name == crate::core::ports::FUNCTION {
            return error(
                "'ports' is built in: clients without ports are not offered it (`vfun port remove`)",
            );
        }
        if vfun_submit::is_own(name) {
            return error(format!(
                "'{name}' is a function that a client submitted: say whose, `vfun function remove {name} --client NAME`"
            ));
        }
        let mut catalog = self.rim.core.catalog().clone();
        if catalog.functions.remove(name).is_none() {
            return error(format!(
                "there is no function '{name}': `vfun function list` shows them"
            ));
        }
        let _ = std::fs::remove_file(self.tree.functions().join(format!("{name}.toml")));
        self.rim.events.push_back(Event::Catalog(catalog));
        Reply::Done {
            sentence: format!(
                "function {name} is no longer offered; grants that have it keep it until they are released"
            ),
        }
    }
}

/// A manifest whose libraries are where they were found.
fn with_absolute_libraries(text: &str, f: &Function) -> String {
    let path = |d: &Driver| vfun_kinds::file(d).map(|p| p.display().to_string());
    let Ok(mut t) = text.parse::<toml::Table>() else { return text.to_owned() };
    if let Some(p) = f.software.as_ref().and_then(path) {
        t.insert("library".into(), p.into());
    }
    if let (Some(p), Some(toml::Value::Table(hw))) =
        (f.hardware.as_ref().and_then(|h| path(&h.driver)), t.get_mut("hardware"))
    {
        hw.insert("library".into(), p.into());
    }
    t.to_string()
}

/// The files of a function's drivers, for people; refused where one of them is
/// another function's.
fn own_drivers(f: &Function) -> Result<String, String> {
    let mut files = vec![];
    for driver in f.software.iter().chain(f.hardware.as_ref().map(|h| &h.driver)) {
        if let Driver::Native { library } = driver {
            driver_file::check(library, &f.name, (f.version.major(), f.version.minor()))?;
        }
        files.extend(vfun_kinds::file(driver).map(|p| p.display().to_string()));
    }
    Ok(if files.is_empty() { "built in".into() } else { files.join(", ") })
}

/// Who brought a function.
fn origin(function: &str) -> &'static str {
    match vfun_submit::is_own(function) {
        true => "submitted",
        false => "host",
    }
}

fn function_row(f: &Function) -> FunctionRow {
    let mut locations = vec![];
    if f.software.is_some() {
        locations.push("software".to_owned());
    }
    if let Some(hw) = &f.hardware {
        locations.push(format!("{} × {}", hw.location, hw.instances));
    }
    let driver = f.software.as_ref().or(f.hardware.as_ref().map(|h| &h.driver));
    FunctionRow {
        id: f.id,
        name: f.name.clone(),
        client: None,
        version: f.version.to_string(),
        summary: f.summary.clone(),
        locations,
        driver: driver.map_or_else(String::new, vfun_kinds::shown),
        kind: driver.map_or_else(String::new, |driver| vfun_kinds::of(driver).word.into()),
        codes: f.codes.iter().map(|(&code, m)| CodeRow { code, means: m.clone() }).collect(),
        deadline_ms: f.deadline_ms,
        max_args: f.max_args,
        max_result: f.max_result,
        signature: f.signature.as_ref().map(|s| s.to_string()),
        fingerprint: f.signature.as_ref().map(|s| format!("{:016x}", s.fingerprint())),
    }
}
