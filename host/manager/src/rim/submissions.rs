//! Modules that clients submit, between their services, the disk and the core.

use super::tell::Word;
use super::{Daemon, Kind};
use crate::core::{Event, Refusal, ServiceId, may_submit};
use crate::submitted::store::{self, Job, Writer};
use crate::submitted::{Holding, Kept, Pace, Refused, Wanted};
use rustix::event::epoll::EventFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use vfun_submit::{Answer, Code, Outcome};
use vfun_supervise::{Driver, ToService, Verdict, Wish};
use vfun_wire::{Handle, Nack};

/// Words that a service has not listened to yet, beyond which it gets no
/// verdict: each may hold a client's whole list.
const VERDICTS_UNHEARD: usize = 64;

/// Who wishes for something, and where the answer goes.
#[derive(Clone, Debug)]
pub(super) struct By {
    service: ServiceId,
    ask: u64,
    client_id: u32,
    client: String,
    app: String,
}

/// A module on its way to the disk.
pub(super) struct OnTheWay {
    by: By,
    wanted: Wanted,
}

/// What clients have, and what is on its way.
pub(super) struct Submissions {
    pub holdings: BTreeMap<u32, Holding>,
    writer: Writer<OnTheWay>,
    /// Clients of which one is on its way.
    busy: BTreeSet<u32>,
    /// Clients whose list could not be read: it stays as it is, for its operator to see to.
    unreadable: BTreeSet<u32>,
    pace: Pace,
}

impl Submissions {
    /// Nothing yet.
    pub fn new() -> io::Result<Self> {
        Ok(Submissions {
            holdings: BTreeMap::new(),
            writer: Writer::start()?,
            busy: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            pace: Pace::default(),
        })
    }
}

impl Daemon {
    fn modules_of(&self, client: &str) -> PathBuf {
        self.tree.modules().join(client)
    }

    /// Hears of what is written.
    pub(super) fn watch_submissions(&self) -> io::Result<()> {
        self.watch(self.submissions.writer.bell(), Kind::ModuleKept, 0, EventFlags::IN)
    }

    /// Reads what clients have. What cannot be read is left where it is, and said.
    pub(super) fn read_submitted(&mut self, catalog: &mut crate::core::Catalog) -> Vec<String> {
        let mut wrong = vec![];
        for client in catalog.clients.values() {
            let dir = self.modules_of(&client.name);
            match store::load(&dir) {
                Ok(holding) if holding.modules.is_empty() => {}
                Ok(holding) => {
                    store::sweep(&dir, &holding);
                    let (functions, bad) = holding.functions();
                    wrong.extend(bad.into_iter().map(|e| format!("client {}: {e}", client.name)));
                    catalog.submitted.insert(client.id, functions);
                    self.submissions.holdings.insert(client.id, holding);
                }
                Err(e) => {
                    self.submissions.unreadable.insert(client.id);
                    wrong.push(format!("modules of client {}: {e}", client.name));
                }
            }
        }
        wrong
    }

    /// The files that a service is given with its first message.
    pub(super) fn given(&self, client: &str, driver: &mut Driver) -> Result<Vec<OwnedFd>, String> {
        match driver {
            Driver::Submit => {
                let bytes = u64::from(vfun_submit::limits::MODULE_BYTES_MAX)
                    + vfun_submit::limits::CODE_BYTES_MAX;
                let file = vfun_window::memfd("vfun-modules", bytes);
                Ok(vec![file.map_err(|e| format!("no memory file for modules: {e}"))?])
            }
            Driver::Submitted { sha256, code, .. } => {
                let dir = self.modules_of(client);
                let path = store::module_file(&dir, sha256);
                let module = std::fs::File::open(&path).map_err(|e| {
                    tracing::error!("the module {}: {e}", path.display());
                    "the host cannot open its module: submit it anew".to_owned()
                })?;
                let mut files = vec![module.into()];
                // Of another build of the program the code is of no use.
                let build = store::build_of(&self.config.wasm_program);
                let id = self.core.catalog().client(client).map_or(0, |c| c.id);
                let fits = |c: &str| {
                    let kept = self.submissions.holdings.get(&id).into_iter();
                    kept.flat_map(|h| h.modules.values())
                        .filter_map(|k| k.code.as_ref())
                        .any(|k| k.sha256 == c && k.program == build)
                };
                let file = code
                    .as_deref()
                    .filter(|c| fits(c))
                    .and_then(|c| std::fs::File::open(store::code_file(&dir, c)).ok());
                match file {
                    Some(f) => files.push(f.into()),
                    None => *code = None,
                }
                Ok(files)
            }
            _ => Ok(vec![]),
        }
    }

    /// A service passes on what its client wishes.
    pub(super) fn wished(
        &mut self,
        service: ServiceId,
        ask: u64,
        channel: Handle,
        wish: Wish,
        files: Vec<OwnedFd>,
    ) {
        let Some((client_id, function)) = self.core.service_of(service) else { return };
        let app = self.core.app_of(service, channel).unwrap_or("").to_owned();
        // Whatever took over a service of another function has no say here.
        let known = function == vfun_submit::FUNCTION;
        let client = self.core.catalog().clients.get(&client_id).filter(|_| known);
        let Some(client) = client.map(|c| c.name.clone()) else {
            if let Some(process) = self.services.get(&service) {
                process.kill();
            }
            return;
        };
        let by = By { service, ask, client_id, client, app };
        let done = match wish {
            Wish::List => self.allowed(&by).map(|()| {
                let held = self.submissions.holdings.get(&client_id);
                let entries = held.map_or(vec![], Holding::entries);
                Some(Answer { outcome: Outcome::Listed, entries })
            }),
            Wish::Remove { name } => {
                self.allowed(&by).and_then(|()| self.remove_own(&by, &name)).map(Some)
            }
            Wish::Add(offered) => self.add_own(&by, *offered, files),
        };
        match done {
            Ok(Some(answer)) => self.answer_wish(&by, Ok(answer)),
            Ok(None) => {} // when it is written
            Err(refused) => self.answer_wish(&by, Err(refused)),
        }
    }

    fn allowed(&self, by: &By) -> Result<(), Refused> {
        if self.submissions.unreadable.contains(&by.client_id) {
            return Err(Refused::new(
                Code::HostTrouble,
                "the host cannot read its list of this client's modules, and leaves it as it is",
            ));
        }
        let catalog = self.core.catalog();
        let client = catalog.clients.get(&by.client_id);
        match client.is_some_and(|c| may_submit(catalog, c, &by.app)) {
            true => Ok(()),
            false => {
                let section = catalog.policy.section(&by.client, "", crate::policy::Key::Submit);
                Err(Refused::new(
                    Code::Denied,
                    format!(
                        "app {} of client {} may not submit modules (submit in {section} of the host's policy)",
                        by.app, by.client
                    ),
                ))
            }
        }
    }

    fn add_own(
        &mut self,
        by: &By,
        offered: vfun_supervise::Offered,
        files: Vec<OwnedFd>,
    ) -> Result<Option<Answer>, Refused> {
        self.allowed(by)?;
        let now = self.now();
        let rules = self.core.catalog().policy.client(&by.client);
        self.submissions.pace.take(now, by.client_id, rules.submits_per_min)?;
        let wanted = Wanted::check(offered)?;
        let (dir, build) =
            (self.modules_of(&by.client), store::build_of(&self.config.wasm_program));
        // Whole, and with code that can be taken.
        let there = |k: &Kept| {
            store::module_file(&dir, &k.offered.sha256).is_file()
                && k.code.as_ref().is_none_or(|c| c.program == build)
        };
        let held = self.submissions.holdings.entry(by.client_id).or_default();
        let outcome = held.admit(&wanted, &self.core.catalog().policy, &by.client)?;
        if outcome == Outcome::AlreadyThere
            && !wanted.offered.replace
            && there(&held.modules[&wanted.offered.name])
        {
            let entries = vec![held.modules[&wanted.offered.name].entry()];
            return Ok(Some(Answer { outcome, entries }));
        }
        if !self.submissions.busy.insert(by.client_id) {
            return Err(Refused::new(
                Code::TooFast,
                "another module of this client is on its way to the disk: try again",
            ));
        }
        let job = files
            .into_iter()
            .next()
            .ok_or_else(|| Refused::new(Code::Malformed, "no file came with the module"))
            .and_then(|file| {
                self.submissions.writer.keep(Job {
                    dir: dir.clone(),
                    file,
                    offered: wanted.offered.clone(),
                    of: OnTheWay { by: by.clone(), wanted },
                })
            });
        if job.is_err() {
            self.submissions.busy.remove(&by.client_id);
        }
        job.map(|()| None)
    }

    /// Modules are on the disk, or cannot be put there.
    pub(super) fn modules_kept(&mut self) {
        for (job, kept) in self.submissions.writer.done() {
            let OnTheWay { by, wanted } = job.of;
            self.submissions.busy.remove(&by.client_id);
            // Its client may be gone since, and its right.
            let declared = self.core.catalog().clients.get(&by.client_id);
            if declared.is_none_or(|c| c.name != by.client) {
                let _ = store::forget(&job.dir);
                continue;
            }
            let done = kept.and_then(|()| self.allowed(&by)).and_then(|()| self.offer(&by, wanted));
            if done.is_err()
                && let Some(held) = self.submissions.holdings.get(&by.client_id)
            {
                store::sweep(&job.dir, held);
            }
            self.answer_wish(&by, done);
        }
    }

    fn offer(&mut self, by: &By, wanted: Wanted) -> Result<Answer, Refused> {
        let mut held = self.submissions.holdings.get(&by.client_id).cloned().unwrap_or_default();
        let outcome = held.admit(&wanted, &self.core.catalog().policy, &by.client)?;
        let at_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let build = store::build_of(&self.config.wasm_program);
        let kept = held.put(wanted, &build, &by.app, at_s).clone();
        self.keep_holding(by, held)?;
        let (name, digest) = (&kept.offered.name, &kept.offered.sha256[..16]);
        let what = format!("submit {name} ({} bytes, sha256 {digest}…)", kept.offered.module_bytes);
        self.audit.of_client(&by.client, &by.app, name, what, "submitted");
        Ok(Answer { outcome, entries: vec![kept.entry()] })
    }

    fn remove_own(&mut self, by: &By, name: &str) -> Result<Answer, Refused> {
        let mut held = self.submissions.holdings.get(&by.client_id).cloned().unwrap_or_default();
        let entry = held.modules.get(name).map(|k| k.entry());
        let Some(entry) = entry.filter(|_| held.remove(name)) else {
            return Err(Refused::new(
                Code::Unknown,
                format!("nothing was submitted as '{name}': `vfun submit --list` shows what was"),
            ));
        };
        self.keep_holding(by, held)?;
        let what = format!("submit --remove {name}");
        self.audit.of_client(&by.client, &by.app, name, what, "removed");
        Ok(Answer { outcome: Outcome::Removed, entries: vec![entry] })
    }

    /// Writes down what a client has now, and offers that.
    fn keep_holding(&mut self, by: &By, held: Holding) -> Result<(), Refused> {
        let dir = self.modules_of(&by.client);
        store::save(&dir, &held).map_err(|e| {
            Refused::new(Code::HostTrouble, format!("the host could not write its list: {e}"))
        })?;
        self.sweep(by.client_id, &dir, &held);
        self.offer_holding(by.client_id, held);
        Ok(())
    }

    /// Removes files that no function is of, unless some are on their way.
    fn sweep(&self, client: u32, dir: &std::path::Path, held: &Holding) {
        if !self.submissions.busy.contains(&client) {
            store::sweep(dir, held);
        }
    }

    fn offer_holding(&mut self, client: u32, held: Holding) {
        let mut catalog = self.core.catalog().clone();
        let (functions, wrong) = held.functions();
        for w in wrong {
            tracing::error!("a submitted module is left out: {w}");
        }
        match functions.is_empty() {
            true => drop(catalog.submitted.remove(&client)),
            false => drop(catalog.submitted.insert(client, functions)),
        }
        self.submissions.holdings.insert(client, held);
        self.events.push_back(Event::Catalog(catalog));
        // What is asked next is asked of this catalog.
        self.settle();
    }

    fn answer_wish(&mut self, by: &By, done: Result<Answer, Refused>) {
        if let Err(r) = &done
            && let Some(code) = r.on_record()
        {
            self.audit.refused(
                None,
                &Refusal {
                    client: by.client.clone(),
                    app: by.app.clone(),
                    function: vfun_submit::FUNCTION.into(),
                    nack: Nack::new(code, r.sentence.clone()),
                },
            );
        }
        let encoded = done
            .and_then(|a| a.encode().map_err(|e| Refused::new(Code::HostTrouble, e.to_string())));
        let verdict = match encoded {
            Ok(bytes) => {
                Verdict::Done { answer: bytes.iter().map(|b| format!("{b:02x}")).collect() }
            }
            Err(r) => Verdict::Refused { code: r.code.number(), sentence: r.sentence },
        };
        // One that does not listen is told no more: its calls end by their time.
        let deaf = self.untold.get(&by.service).is_some_and(|w| w.len() >= VERDICTS_UNHEARD);
        if self.services.contains_key(&by.service) && !deaf {
            self.tell(by.service, Word::Plain(ToService::Verdict { ask: by.ask, verdict }));
        }
    }

    /// An operator takes a client's module away.
    pub(super) fn remove_submitted(&mut self, client: &str, name: &str) -> Result<String, String> {
        let found = self.core.catalog().client(client).map(|c| c.id);
        let id = found.ok_or_else(|| {
            format!("there is no client '{client}': `vfun client list` shows them")
        })?;
        if self.submissions.unreadable.contains(&id) {
            return Err(format!(
                "the list of client {client}'s modules could not be read: see {}",
                self.modules_of(client).display()
            ));
        }
        let mut held = self.submissions.holdings.get(&id).cloned().unwrap_or_default();
        if !held.remove(name) {
            return Err(format!(
                "client {client} has submitted no '{name}': `vfun function list` shows what was"
            ));
        }
        store::save(&self.modules_of(client), &held)
            .map_err(|e| format!("its list could not be written: {e}"))?;
        self.sweep(id, &self.modules_of(client), &held);
        self.offer_holding(id, held);
        Ok(format!(
            "{name} of client {client} is no longer offered; grants that have it keep it until they are released"
        ))
    }

    /// A client is gone, or one of its name begins: nothing of it is left.
    pub(super) fn forget_submitted(
        &mut self,
        id: u32,
        client: &str,
        catalog: &mut crate::core::Catalog,
    ) -> Result<(), String> {
        self.submissions.holdings.remove(&id);
        self.submissions.unreadable.remove(&id);
        catalog.submitted.remove(&id);
        let dir = self.modules_of(client);
        store::forget(&dir).map_err(|e| format!("{}: {e}", dir.display()))
    }
}
