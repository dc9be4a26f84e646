//! What clients submitted, as the manager keeps it: read at its start, handed to
//! services, removed with a client or by an operator. What goes to the disk goes
//! through one thread, in order; what is offered was written before.

use super::Daemon;
use super::answers::Noted;
use super::submissions::AfterTask;
use crate::admin::Reply;
use crate::core::catalog::Client;
use crate::core::{Event, ServiceId};
use crate::fair::Rates;
use crate::limits::WISHES;
use crate::submitted::store;
use crate::submitted::writer::{Job, Task, Writer};
use crate::submitted::{Holding, Pace, Refused};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use vfun_rim::methods::*;
use vfun_supervise::Driver;

/// What clients have, and what is on its way.
pub(super) struct Submissions {
    /// By clientID: what is on the disk and offered.
    pub holdings: BTreeMap<u32, Holding>,
    pub writer: Writer<AfterTask>,
    /// Clients of which a change is on its way: one at a time, so that each
    /// begins from what the one before it left.
    pub busy: BTreeSet<u32>,
    /// Clients whose list could not be read, and why: it stays as it is, for
    /// its operator to see to.
    pub unreadable: BTreeMap<u32, String>,
    /// Clients that are gone and whose files are not yet.
    leaving: BTreeSet<u32>,
    /// What an operator wishes for while a change is on its way.
    waiting: Vec<Withdrawal>,
    pub pace: Pace,
    /// How often each client wishes for anything.
    pub wishes: Rates<u32>,
    /// Which build of the program each service of `submit` was started from.
    builds: BTreeMap<ServiceId, String>,
    /// Which client of its name this is: a client that was removed and added
    /// again has the same clientID and is another one.
    generations: BTreeMap<u32, u64>,
    /// Generations given so far.
    given: u64,
}

/// An operator takes a client's module away.
pub(super) struct Withdrawal {
    pub noted: Noted,
    pub id: u32,
    pub client: String,
    pub name: String,
}

impl Submissions {
    /// Nothing yet.
    pub fn new() -> io::Result<Self> {
        Ok(Submissions {
            holdings: BTreeMap::new(),
            writer: Writer::start()?,
            busy: BTreeSet::new(),
            unreadable: BTreeMap::new(),
            leaving: BTreeSet::new(),
            waiting: vec![],
            pace: Pace::default(),
            wishes: Rates::new(WISHES),
            builds: BTreeMap::new(),
            generations: BTreeMap::new(),
            given: 0,
        })
    }

    /// Which client of its clientID this is.
    pub fn generation(&self, client: u32) -> u64 {
        self.generations.get(&client).copied().unwrap_or(0)
    }

    /// Which build a service of `submit` was started from, as far as that is known.
    pub fn started_from(&self, service: ServiceId) -> Option<&str> {
        self.builds.get(&service).map(String::as_str)
    }

    /// An earlier manager noted that.
    pub fn was_started_from(&mut self, service: ServiceId, build: String) {
        self.builds.insert(service, build);
    }

    /// Which build a service's code comes from; empty where that is not known,
    /// as the program was replaced since.
    pub fn build_of(&self, service: ServiceId, now: String) -> String {
        match self.builds.get(&service) {
            Some(then) if *then == now => now,
            _ => String::new(),
        }
    }

    /// Why nothing of a client's can change now, if so.
    pub fn fault(&self, client: u32) -> Option<&str> {
        self.unreadable.get(&client).map(String::as_str)
    }
}

impl Daemon {
    pub(super) fn modules_of(&self, client: &str) -> PathBuf {
        self.tree.modules().join(client)
    }

    /// Reads what clients have. What cannot be read is left where it is, and said.
    pub(super) fn read_submitted(&mut self, catalog: &mut crate::core::Catalog) {
        for client in catalog.clients.values() {
            let dir = self.modules_of(&client.name);
            match store::load(&dir) {
                Ok(holding) => {
                    // What a manager that was killed had begun and not listed.
                    store::sweep(&dir, &[&holding]);
                    let (functions, wrong) = holding.functions();
                    for w in wrong {
                        tracing::error!("a module of client {} is left out: {w}", client.name);
                    }
                    if !holding.modules.is_empty() {
                        catalog.submitted.insert(client.id, functions);
                        self.submissions.holdings.insert(client.id, holding);
                    }
                }
                Err(e) => {
                    let name = &client.name;
                    tracing::error!(
                        "modules of client {name} are not offered, as their list cannot be read, and stays as it is: {e}"
                    );
                    self.submissions.unreadable.insert(client.id, e);
                }
            }
        }
        // Not removed: a manifest that cannot be read hides a client, too.
        for entry in std::fs::read_dir(self.tree.modules()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_str().and_then(|n| catalog.client(n)).is_none() {
                tracing::warn!("{} has modules of no client that there is", entry.path().display());
            }
        }
    }

    /// Lists that could not be read, for people.
    pub(super) fn submissions_troubles(&self) -> impl Iterator<Item = String> {
        self.submissions.unreadable.iter().map(move |(id, why)| {
            format!(
                "the list of modules of {} cannot be read, and stays as it is: {why}; mend it and start the manager again, or remove it",
                self.client_words(*id)
            )
        })
    }

    /// The files that a service is given with its first message.
    pub(super) fn given(
        &mut self,
        service: ServiceId,
        client: &str,
        driver: &mut Driver,
    ) -> Result<Vec<OwnedFd>, String> {
        match driver {
            Driver::Submit => {
                let build = store::build_of(&self.config.path_of(&vfun_kinds::WASM_PROGRAM));
                let (services, launching) = (&self.rim.services, &self.launching);
                let builds = &mut self.submissions.builds;
                builds.retain(|id, _| services.contains_key(id) || launching.contains_key(id));
                builds.insert(service, build);
                let bytes = u64::from(vfun_submit::limits::MODULE_BYTES_MAX)
                    + vfun_supervise::submitted::CODE_BYTES_MAX;
                let file = vfun_window::memfd("vfun-modules", bytes);
                Ok(vec![file.map_err(|e| format!("no memory file for modules: {e}"))?])
            }
            Driver::Submitted { sha256, code, .. } => {
                let dir = self.modules_of(client);
                let path = store::module_file(&dir, sha256);
                let module = store::open(&path).map_err(|e| {
                    if self.may_say(client) {
                        tracing::error!("the module {}: {e}", path.display());
                    }
                    "the host cannot open its module: submit it again".to_owned()
                })?;
                let mut files = vec![module.into()];
                // Of another build of the program the code is of no use.
                let build = store::build_of(&self.config.path_of(&vfun_kinds::WASM_PROGRAM));
                let id = self.rim.core.catalog().client(client).map_or(0, |c| c.id);
                let fits = |c: &str| {
                    let kept = self.submissions.holdings.get(&id).into_iter();
                    kept.flat_map(|h| h.modules.values())
                        .filter_map(|k| k.code.as_ref())
                        .any(|k| k.sha256 == c && k.program == build)
                };
                let file = code
                    .as_deref()
                    .filter(|c| fits(c))
                    .and_then(|c| store::open(&store::code_file(&dir, c)).ok());
                match file {
                    Some(f) => files.push(f.into()),
                    None => *code = None,
                }
                Ok(files)
            }
            _ => Ok(vec![]),
        }
    }

    /// Hands something to the thread that writes; what cannot be handed over is
    /// done with at once.
    pub(super) fn write_down(&mut self, client: &str, task: Task, of: AfterTask) {
        let dir = self.modules_of(client);
        if let Err((of, refused)) = self.submissions.writer.hand(Job { dir, task, of }) {
            self.written(of, Err(refused));
        }
    }

    /// Offers what a client has now.
    pub(super) fn offer_holding(&mut self, client: u32, held: Holding) {
        let mut catalog = self.rim.core.catalog().clone();
        let (functions, wrong) = held.functions();
        for w in wrong {
            tracing::error!("a submitted module is left out: {w}");
        }
        match functions.is_empty() {
            true => drop(catalog.submitted.remove(&client)),
            false => drop(catalog.submitted.insert(client, functions)),
        }
        self.submissions.holdings.insert(client, held);
        self.rim.events.push_back(Event::Catalog(catalog));
        // What is asked next is asked of this catalog.
        self.settle();
    }

    /// An operator takes a client's module away: answered when that is on the disk.
    pub(super) fn remove_submitted(
        &mut self,
        noted: Noted,
        client: &str,
        name: &str,
    ) -> Result<(), (Noted, String)> {
        let Some(id) = self.rim.core.catalog().client(client).map(|c| c.id) else {
            let why = format!("there is no client '{client}': `vfun client list` shows them");
            return Err((noted, why));
        };
        let (client, name) = (client.to_owned(), name.to_owned());
        let withdrawal = Withdrawal { noted, id, client, name };
        if self.submissions.busy.contains(&id) {
            self.submissions.waiting.push(withdrawal);
            return Ok(());
        }
        self.withdraw(withdrawal)
    }

    fn withdraw(&mut self, w: Withdrawal) -> Result<(), (Noted, String)> {
        let Withdrawal { noted, id, client, name } = w;
        if let Some(why) = self.submissions.fault(id) {
            let why = format!("the list of client {client}'s modules could not be read: {why}");
            return Err((noted, why));
        }
        let before = self.submissions.holdings.get(&id).cloned().unwrap_or_default();
        let mut held = before.clone();
        if !held.remove(&name) {
            return Err((
                noted,
                format!(
                    "client {client} has submitted no '{name}': `vfun function list` shows what was"
                ),
            ));
        }
        self.submissions.busy.insert(id);
        let generation = self.submissions.generation(id);
        let task = Task::List { held: held.clone(), before };
        let of = AfterTask::Withdrawn { noted, id, generation, client: client.clone(), name, held };
        self.write_down(&client, task, of);
        Ok(())
    }

    /// No change of a client's is on its way any more: what waited has its turn.
    pub(super) fn not_busy(&mut self, id: u32) {
        self.submissions.busy.remove(&id);
        while !self.submissions.busy.contains(&id)
            && let Some(at) = self.submissions.waiting.iter().position(|w| w.id == id)
        {
            let next = self.submissions.waiting.remove(at);
            if let Err((noted, sentence)) = self.withdraw(next) {
                self.answer_late(noted, Reply::Error { sentence });
            }
        }
    }

    /// A client is gone: nothing of it is left, and what is on its way comes too
    /// late. `noted` is answered with `sentence` when its files are gone.
    pub(super) fn forget_submitted(
        &mut self,
        id: u32,
        client: &str,
        noted: Noted,
        sentence: String,
    ) {
        let s = &mut self.submissions;
        s.given += 1;
        s.generations.insert(id, s.given);
        s.holdings.remove(&id);
        s.unreadable.remove(&id);
        s.leaving.insert(id);
        self.not_busy(id);
        let generation = self.submissions.generation(id);
        self.write_down(
            client,
            Task::Forget,
            AfterTask::Forgotten { noted, id, generation, sentence },
        );
    }

    /// A client's files are gone, or cannot be removed.
    pub(super) fn forgotten(
        &mut self,
        noted: Noted,
        id: u32,
        generation: u64,
        mut sentence: String,
        done: Result<(), Refused>,
    ) {
        if self.submissions.generation(id) == generation {
            self.submissions.leaving.remove(&id);
        }
        if let Err(e) = done {
            sentence += &format!("; what it submitted is still there: {}", e.sentence);
        }
        self.answer_late(noted, Reply::Done { sentence });
    }

    /// Whether what a client submitted is being removed.
    pub(super) fn is_leaving(&self, id: u32) -> bool {
        self.submissions.leaving.contains(&id)
    }

    /// Whether there is anything in the place of what a client of this name submitted.
    pub(super) fn has_modules(&self, client: &str) -> bool {
        self.modules_of(client).symlink_metadata().is_ok()
    }

    /// A client begins when nothing of an earlier one of its name is left.
    pub(super) fn clear_for(
        &mut self,
        noted: Noted,
        client: Client,
        text: &str,
        file: &Path,
    ) -> Result<(), (Noted, String)> {
        self.submissions.leaving.insert(client.id);
        let (id, text, file) = (client.id, text.to_owned(), file.to_owned());
        self.write_down(&client.name, Task::Forget, AfterTask::Cleared { noted, id, text, file });
        Ok(())
    }

    /// Nothing of an earlier client of its name is left, or it cannot be removed.
    pub(super) fn cleared(
        &mut self,
        noted: Noted,
        id: u32,
        (text, file): (&str, &Path),
        done: Result<(), Refused>,
    ) {
        self.submissions.leaving.remove(&id);
        let reply = match done {
            Ok(()) => self.add_client(text, file),
            Err(e) => Reply::Error {
                sentence: format!(
                    "what an earlier client of this name submitted is still there: {}",
                    e.sentence
                ),
            },
        };
        self.settle();
        self.answer_late(noted, reply);
    }
}
