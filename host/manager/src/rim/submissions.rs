//! What clients wish for with the function `submit`, from the service that
//! passes it on to its verdict. In between lies the disk: first the files, then
//! the list, and what is on the list is offered.

use super::answers::Noted;
use super::{Daemon, Kind};
use crate::admin::Reply;
use crate::core::services::Owner;
use crate::core::{Refusal, ServiceId, may_submit};
use crate::limits::WISHES;
use crate::submitted::store;
use crate::submitted::writer::{Task, TaskOutcome};
use crate::submitted::{Holding, Refused, Wanted};
use rustix::event::epoll::EventFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use vfun_rim::methods::*;
use vfun_rim::tell::ServiceMessage;
use vfun_submit::{Answer, Code, Outcome};
use vfun_supervise::{ModuleRequest, ModuleVerdict, Offered, ToService};
use vfun_wire::{Handle, Nack};

/// Words that a service has not listened to yet, beyond which it gets no
/// verdict: each may hold a client's whole list.
const VERDICTS_UNHEARD: usize = 64;
/// Changes on their way to the disk. Each client has one at a time; a disk that
/// takes nothing for so long is to be seen to.
const CHANGES_MAX: usize = 64;

/// Who wishes for something, and where the answer goes.
#[derive(Clone, Debug)]
pub(super) struct Requester {
    service: ServiceId,
    ask: u64,
    client_id: u32,
    /// Which client of its name.
    generation: u64,
    client: String,
    vm: Option<String>,
    app: String,
}

/// What is to be done when the disk is done.
pub(super) enum AfterTask {
    /// A module's files are there: it is put on the list.
    Listed {
        by: Requester,
        wanted: Box<Wanted>,
        /// Which build made its code.
        program: String,
    },
    /// The list is written: that is what the client has.
    Offered {
        by: Requester,
        held: Holding,
        name: String,
        outcome: Outcome,
    },
    /// The list is written, without one that an operator took away.
    Withdrawn {
        noted: Noted,
        id: u32,
        generation: u64,
        client: String,
        name: String,
        held: Holding,
    },
    /// Nothing of an earlier client is left: another one of its name is declared.
    Cleared {
        noted: Noted,
        id: u32,
        text: String,
        file: PathBuf,
    },
    /// What is offered no more is gone from the disk: whoever wished is told.
    Swept {
        by: Requester,
        answer: Answer,
    },
    /// The same for an operator.
    SweptFor {
        noted: Noted,
        reply: Box<Reply>,
    },
    /// A client's files are gone.
    Forgotten {
        noted: Noted,
        id: u32,
        generation: u64,
        sentence: String,
    },
    Nothing,
}

/// What came of a wish so far: an answer, or none until something is written.
type SoFar = Result<Option<Answer>, Refused>;

impl Daemon {
    /// Hears of what is written.
    pub(super) fn watch_submissions(&self) -> io::Result<()> {
        self.watch(self.submissions.writer.bell(), Kind::ModuleKept, 0, EventFlags::IN)
    }

    /// A service passes on what its client wishes.
    pub(super) fn wished(
        &mut self,
        service: ServiceId,
        ask: u64,
        channel: Handle,
        wish: ModuleRequest,
        files: Vec<OwnedFd>,
    ) {
        let Some((owner, function)) = self.rim.core.service_of(service) else { return };
        let Owner::Client(client_id) = owner;
        // Whatever took over a service of another function has no say here.
        let known = function == vfun_submit::FUNCTION;
        let client = self.rim.core.catalog().clients.get(&client_id).filter(|_| known);
        let Some(client) = client.map(|c| c.name.clone()) else {
            if let Some(process) = self.rim.services.get(&service) {
                process.kill();
            }
            return;
        };
        let holder = self.rim.core.holder_of(service, channel);
        let (app, vm) = (holder.map(|h| h.app.clone()), holder.and_then(|h| h.vm.clone()));
        let generation = self.submissions.generation(client_id);
        let gone = app.is_none();
        let app = app.unwrap_or_default();
        let by = Requester { service, ask, client_id, generation, client, vm, app };
        // A service may outlive its channels by a moment, and its client, too:
        // by then another client may have that name.
        let done = match gone {
            true => Err(Refused::new(Code::Denied, "the channel of this request was released")),
            false => self.allowed(&by).and_then(|()| self.in_time(&by)).and_then(|()| match wish {
                ModuleRequest::List => {
                    let held = self.submissions.holdings.get(&client_id);
                    let entries = held.map_or(vec![], Holding::entries);
                    Ok(Some(Answer { outcome: Outcome::Listed, entries }))
                }
                ModuleRequest::Remove { name } => self.remove_own(&by, &name),
                ModuleRequest::Add(offered) => self.add_own(&by, *offered, files),
            }),
        };
        self.answer_if_done(&by, done);
    }

    fn answer_if_done(&mut self, by: &Requester, done: SoFar) {
        match done {
            Ok(Some(answer)) => self.answer_wish(by, Ok(answer)),
            Ok(None) => {} // when it is written
            Err(refused) => self.answer_wish(by, Err(refused)),
        }
    }

    fn allowed(&self, by: &Requester) -> Result<(), Refused> {
        if self.submissions.fault(by.client_id).is_some() {
            return Err(Refused::new(
                Code::HostTrouble,
                "the host cannot read its list of this client's modules, and leaves it as it is",
            ));
        }
        let catalog = self.rim.core.catalog();
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

    /// No more than the manager has time for: others wait for it meanwhile.
    fn in_time(&mut self, by: &Requester) -> Result<(), Refused> {
        let (now, s) = (self.now(), &mut self.submissions);
        if s.wishes.take(now, by.client_id) {
            return Ok(());
        }
        let (most, wait) = (WISHES.per_s, s.wishes.wait(now, &by.client_id));
        Err(Refused::new(
            Code::TooFast,
            format!(
                "a client asks for its modules at most {most} times a second: try again in {wait} ms"
            ),
        ))
    }

    /// Marks that a change of a client's is on its way.
    fn begin_change(&mut self, by: &Requester) -> Result<(), Refused> {
        if self.submissions.busy.len() >= CHANGES_MAX {
            return Err(Refused::new(
                Code::HostTrouble,
                "the host cannot take it now: very many modules are on their way to its disk",
            ));
        }
        match self.submissions.busy.insert(by.client_id) {
            true => Ok(()),
            false => Err(Refused::new(
                Code::TooFast,
                "another change of this client's modules is on its way to the disk: try again",
            )),
        }
    }

    fn add_own(&mut self, by: &Requester, offered: Offered, files: Vec<OwnedFd>) -> SoFar {
        let now = self.now();
        let rules = self.rim.core.catalog().policy.client(&by.client);
        self.submissions.pace.take(now, by.client_id, rules.submits_per_min)?;
        let mut wanted = Wanted::check(offered)?;
        let build = store::build_of(&self.config.path_of(&vfun_kinds::WASM_PROGRAM));
        let program = self.submissions.build_of(by.service, build.clone());
        if program.is_empty() {
            // Nobody could say who may run it.
            wanted.offered.code_bytes = 0;
        }
        let held = self.submissions.holdings.get(&by.client_id).cloned().unwrap_or_default();
        let outcome = held.admit(&wanted, &self.rim.core.catalog().policy, &by.client)?;
        let file = files
            .into_iter()
            .next()
            .ok_or_else(|| Refused::new(Code::Malformed, "no file came with the module"))?;
        // Code for one that has none is worth writing.
        let same = held.modules.get(&wanted.offered.name).filter(|k| {
            outcome == Outcome::AlreadyThere && (k.code.is_some() || wanted.offered.code_bytes == 0)
        });
        let same = same.cloned().map(Box::new);
        self.begin_change(by)?;
        let offered = Box::new(wanted.offered.clone());
        let task = Task::Keep { file, offered, same, program: build, held };
        let of = AfterTask::Listed { by: by.clone(), wanted: Box::new(wanted), program };
        self.write_down(&by.client, task, of);
        Ok(None)
    }

    /// Things are on the disk, or cannot be put there.
    pub(super) fn modules_kept(&mut self) {
        for (of, did) in self.submissions.writer.done() {
            self.written(of, did);
        }
    }

    /// Goes on with what waited for the disk.
    pub(super) fn written(&mut self, of: AfterTask, did: Result<TaskOutcome, Refused>) {
        match of {
            AfterTask::Listed { by, wanted, program } if self.is_current(&by) => {
                // What could not be written is gone already.
                let kept = did.is_ok();
                let done = did.and_then(|did| self.list(&by, *wanted, &program, did));
                if kept && done.is_err() {
                    self.sweep(by.client_id, &by.client, AfterTask::Nothing);
                }
                if !matches!(done, Ok(None)) {
                    self.not_busy(by.client_id);
                }
                self.answer_if_done(&by, done);
            }
            AfterTask::Offered { by, held, name, outcome } if self.is_current(&by) => {
                match did.map(|_| self.offer(&by, held, &name, outcome)) {
                    Ok(answer) => {
                        let (id, client) = (by.client_id, by.client.clone());
                        self.sweep(id, &client, AfterTask::Swept { by, answer });
                        self.not_busy(id);
                    }
                    Err(refused) => {
                        self.not_busy(by.client_id);
                        self.answer_wish(&by, Err(refused));
                    }
                }
            }
            AfterTask::Swept { by, answer } => self.answer_wish(&by, Ok(answer)),
            // Its client is gone; its files go with the rest of that client's.
            AfterTask::Listed { by, .. } | AfterTask::Offered { by, .. } => {
                let gone = "the client was removed from this host meanwhile";
                self.answer_wish(&by, Err(Refused::new(Code::Denied, gone)));
            }
            AfterTask::Withdrawn { noted, id, generation, client, name, held } => {
                let current = self.submissions.generation(id) == generation;
                let done = |sentence| Reply::Done { sentence };
                match did {
                    Ok(_) if current => {
                        self.offer_holding(id, held);
                        let reply = done(format!(
                            "{name} of client {client} is no longer offered; grants that have it keep it until they are released"
                        ));
                        self.sweep(
                            id,
                            &client,
                            AfterTask::SweptFor { noted, reply: Box::new(reply) },
                        );
                    }
                    Ok(_) => self
                        .answer_late(noted, done(format!("client {client} was removed meanwhile"))),
                    Err(e) => self.answer_late(noted, Reply::Error { sentence: e.sentence }),
                }
                if current {
                    self.not_busy(id);
                }
            }
            AfterTask::SweptFor { noted, reply } => self.answer_late(noted, *reply),
            AfterTask::Forgotten { noted, id, generation, sentence } => {
                self.forgotten(noted, id, generation, sentence, did.map(|_| ()));
            }
            AfterTask::Cleared { noted, id, text, file } => {
                self.cleared(noted, id, (&text, &file), did.map(|_| ()));
            }
            AfterTask::Nothing => {}
        }
    }

    /// Whether the client is the one that wished.
    fn is_current(&self, by: &Requester) -> bool {
        self.submissions.generation(by.client_id) == by.generation
    }

    /// Removes what is of nothing that a client has: not before something else is
    /// offered in its place, as until then a service may be started from it.
    fn sweep(&mut self, id: u32, client: &str, then: AfterTask) {
        let held = self.submissions.holdings.get(&id).cloned().unwrap_or_default();
        self.write_down(client, Task::Sweep { held }, then);
    }

    /// A module's files are on the disk.
    fn list(&mut self, by: &Requester, wanted: Wanted, program: &str, did: TaskOutcome) -> SoFar {
        // Policy may be another one since.
        self.allowed(by)?;
        let policy = &self.rim.core.catalog().policy;
        let before = self.submissions.holdings.get(&by.client_id).cloned().unwrap_or_default();
        let mut held = before.clone();
        let name = wanted.offered.name.clone();
        let outcome = match (held.admit(&wanted, policy, &by.client)?, did) {
            (outcome @ Outcome::AlreadyThere, TaskOutcome::Whole) => {
                let entries = held.modules.get(&name).map(|k| k.entry()).into_iter().collect();
                return Ok(Some(Answer { outcome, entries }));
            }
            (Outcome::AlreadyThere, TaskOutcome::Written) => {
                held.has_room(&wanted, policy, &by.client)?;
                Outcome::Renewed
            }
            (outcome, _) => outcome,
        };
        let at_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        held.put(wanted, program, &by.app, at_s);
        let task = Task::List { held: held.clone(), before };
        let of = AfterTask::Offered { by: by.clone(), held, name, outcome };
        self.write_down(&by.client, task, of);
        Ok(None)
    }

    /// The list is on the disk.
    fn offer(&mut self, by: &Requester, held: Holding, name: &str, outcome: Outcome) -> Answer {
        let kept = match outcome {
            Outcome::Removed => self.submissions.holdings.get(&by.client_id),
            _ => Some(&held),
        };
        let kept = kept.and_then(|h| h.modules.get(name)).cloned();
        self.offer_holding(by.client_id, held);
        if let Some(k) = &kept {
            let (what, did) = match outcome {
                Outcome::Removed => (format!("submit --remove {name}"), "removed"),
                _ => {
                    let (bytes, digest) = (k.offered.module_bytes, &k.offered.sha256[..16]);
                    (format!("submit {name} ({bytes} bytes, sha256 {digest}…)"), "submitted")
                }
            };
            self.audit.of_client((&by.client, by.vm.as_deref()), &by.app, name, what, did);
        }
        Answer { outcome, entries: kept.iter().map(|k| k.entry()).collect() }
    }

    fn remove_own(&mut self, by: &Requester, name: &str) -> SoFar {
        let before = self.submissions.holdings.get(&by.client_id).cloned().unwrap_or_default();
        let mut held = before.clone();
        if !held.remove(name) {
            return Err(Refused::new(
                Code::Unknown,
                format!("nothing was submitted as '{name}': `vfun submit --list` shows what was"),
            ));
        }
        self.begin_change(by)?;
        let task = Task::List { held: held.clone(), before };
        let (name, outcome) = (name.to_owned(), Outcome::Removed);
        self.write_down(
            &by.client,
            task,
            AfterTask::Offered { by: by.clone(), held, name, outcome },
        );
        Ok(None)
    }

    fn answer_wish(&mut self, by: &Requester, done: Result<Answer, Refused>) {
        if let Err(r) = &done
            && r.code == Code::HostTrouble
            && self.may_say(&by.client)
        {
            tracing::error!("a wish of client {} for its modules: {}", by.client, r.sentence);
        }
        if let Err(r) = &done
            && let Some(code) = r.on_record()
        {
            self.audit.refused(
                None,
                &Refusal {
                    client: by.client.clone(),
                    vm: by.vm.clone(),
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
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let pairs = bytes.iter().flat_map(|b| [b >> 4, b & 15]);
                let answer = pairs.map(|d| char::from(DIGITS[usize::from(d)])).collect();
                ModuleVerdict::Done { answer }
            }
            Err(r) => ModuleVerdict::Refused { code: r.code.number(), sentence: r.sentence },
        };
        // One that does not listen is told no more: its calls end by their time.
        let deaf = self.words_waiting(by.service) >= VERDICTS_UNHEARD;
        if self.rim.services.contains_key(&by.service) && !deaf {
            self.tell(
                by.service,
                ServiceMessage::Plain(ToService::Verdict { ask: by.ask, verdict }),
            );
        }
    }
}
