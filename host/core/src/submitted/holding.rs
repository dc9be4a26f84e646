//! What a client has, whether it may have more, and how it is written down.

use super::wanted::is_digest;
use super::{FIRST_ID, Refused, Wanted};
use crate::catalog::Function;
use crate::policy::{Key, Policy};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;
use vfun_submit::{Code, Entry, Outcome};
use vfun_supervise::{Driver, Offered};
use vfun_wire::version::FunctionVersion;

/// One module that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// What its service said of it.
    pub offered: Offered,
    /// Its compiled code, if some is kept.
    pub code: Option<KeptCode>,
    /// Its place among its client's: what its functionID is made of.
    pub slot: u32,
    /// The app that submitted it, by its own name.
    pub app: String,
    /// When, seconds since 1970.
    pub at_s: u64,
    /// Fingerprint of its signature, once it was asked for.
    #[serde(skip)]
    print: Print,
}

/// What follows from the rest, so that it is part of no comparison: parsing the
/// signature for each list would be 0.1 ms a module of the manager's time.
#[derive(Clone, Debug, Default)]
struct Print(OnceLock<u64>);

impl PartialEq for Print {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Compiled code that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptCode {
    /// Its digest, which is its file's name.
    pub sha256: String,
    pub bytes: u64,
    /// Which build of the service's program made it; another one makes its own.
    pub program: String,
}

/// What a client has, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Holding {
    /// By the function's name.
    pub modules: BTreeMap<String, Kept>,
}

impl Kept {
    /// Bytes on the disk.
    fn bytes(&self) -> u64 {
        self.offered.module_bytes + self.code.as_ref().map_or(0, |c| c.bytes)
    }

    /// The function that it is.
    pub fn function(&self) -> Result<Function, Refused> {
        let Wanted { offered: o, signature } = Wanted::check(self.offered.clone())?;
        if self.code.as_ref().is_some_and(|c| !is_digest(&c.sha256)) {
            return Err(Refused::new(Code::Malformed, "its code's digest is none"));
        }
        Ok(Function {
            id: FIRST_ID | self.slot,
            name: o.name,
            version: FunctionVersion(o.version),
            summary: format!("submitted by app {}", self.app),
            software: Some(Driver::Submitted {
                sha256: o.sha256,
                memory_bytes: o.memory_bytes,
                code: self.code.as_ref().map(|c| c.sha256.clone()),
            }),
            hardware: None,
            deadline_ms: o.deadline_ms,
            fixed_deadline: false,
            max_args: o.max_args,
            max_result: o.max_result,
            settings: Default::default(),
            reads: vec![],
            writes: vec![],
            environment: Default::default(),
            makes_code: false,
            devices: vec![],
            codes: Default::default(),
            signature,
        })
    }

    /// As its client sees it.
    pub fn entry(&self) -> Entry {
        let o = &self.offered;
        let pair = |p: &[u8]| {
            let digit = |b: u8| (b as char).to_digit(16).unwrap_or(0) as u8;
            digit(p[0]) << 4 | p.get(1).map_or(0, |b| digit(*b))
        };
        let mut sha256 = [0; 32];
        for (to, from) in sha256.iter_mut().zip(o.sha256.as_bytes().chunks(2)) {
            *to = pair(from);
        }
        Entry {
            name: o.name.clone(),
            sha256,
            signature: *self.print.0.get_or_init(|| self.function().map_or(0, |f| f.fingerprint())),
            memory_bytes: o.memory_bytes,
            at_s: self.at_s,
            version: o.version,
            max_args: o.max_args,
            max_result: o.max_result,
            deadline_ms: o.deadline_ms,
            module_bytes: o.module_bytes.min(u32::MAX.into()) as u32,
            compile_us: o.compile_us,
        }
    }

    /// Whether it is the same module on the same terms.
    pub fn is_same(&self, o: &Offered) -> bool {
        let terms = |o: &Offered| (o.version, o.memory_bytes, o.deadline_ms);
        self.offered.sha256 == o.sha256
            && self.offered.signature == o.signature
            && terms(&self.offered) == terms(o)
    }
}

impl Holding {
    /// Whether a module may come, and what that would be. Policy has let its
    /// app submit. What is there already is so if the disk has it still.
    pub fn admit(
        &self,
        wanted: &Wanted,
        policy: &Policy,
        client: &str,
    ) -> Result<Outcome, Refused> {
        let o = &wanted.offered;
        let there = self.modules.get(&o.name);
        if there.is_some_and(|k| k.is_same(o)) {
            // Written anew it may be larger: of another compiler.
            return match o.replace {
                false => Ok(Outcome::AlreadyThere),
                true => self.has_room(wanted, policy, client).map(|()| Outcome::Renewed),
            };
        }
        if there.is_some() && !o.replace {
            return Err(Refused::new(
                Code::NameTaken,
                format!(
                    "'{}' is another module's name: say that it gives way (--replace), remove it, or take another name",
                    o.name
                ),
            ));
        }
        self.has_room(wanted, policy, client)?;
        Ok(if there.is_some() { Outcome::Replaced } else { Outcome::Accepted })
    }

    /// Whether policy leaves room for one, in the place of what has its name.
    pub fn has_room(&self, wanted: &Wanted, policy: &Policy, client: &str) -> Result<(), Refused> {
        let (o, rules) = (&wanted.offered, policy.client(client));
        let by = |key: Key| {
            let section = policy.section(client, "", key);
            format!("({key} in {section} of the host's policy)")
        };
        let others = || self.modules.values().filter(|k| k.offered.name != o.name);
        if others().count() >= rules.modules as usize {
            return Err(Refused::new(
                Code::OverQuota,
                format!(
                    "client {client} has {} modules, as many as it may {}: remove one",
                    rules.modules,
                    by(Key::Modules)
                ),
            ));
        }
        let used: u64 = others().map(Kept::bytes).sum();
        let left = rules.modules_bytes.saturating_sub(used);
        let wants = o.module_bytes + o.code_bytes;
        if wants > left {
            return Err(Refused::new(
                Code::OverQuota,
                format!(
                    "module and code have {wants} bytes, client {client} has {left} left of {} {}: remove one",
                    rules.modules_bytes,
                    by(Key::ModulesBytes)
                ),
            ));
        }
        Ok(())
    }

    /// Keeps one, in the place of another of its name.
    pub fn put(&mut self, wanted: Wanted, program: &str, app: &str, at_s: u64) -> &Kept {
        let offered = wanted.offered;
        let name = offered.name.clone();
        let taken = |slot: u32| self.modules.values().any(|k| k.slot == slot);
        let slot = match self.modules.get(&name) {
            Some(k) => k.slot,
            None => (1..).find(|s| !taken(*s)).unwrap_or(1),
        };
        let code = (offered.code_bytes > 0).then(|| KeptCode {
            sha256: offered.code_sha256.clone(),
            bytes: offered.code_bytes,
            program: program.to_owned(),
        });
        let print = Print::default();
        let kept = Kept { offered, code, slot, app: app.to_owned(), at_s, print };
        self.modules.insert(name.clone(), kept);
        &self.modules[&name]
    }

    /// Forgets one; false if it is not there.
    pub fn remove(&mut self, name: &str) -> bool {
        self.modules.remove(name).is_some()
    }

    /// All of them, as the client sees them.
    pub fn entries(&self) -> Vec<Entry> {
        self.modules.values().map(Kept::entry).collect()
    }

    /// The functions that they are; what a file says wrongly is left out, and said.
    pub fn functions(&self) -> (BTreeMap<String, Function>, Vec<String>) {
        let mut wrong = vec![];
        let mut all = BTreeMap::new();
        for (name, k) in &self.modules {
            match k.function() {
                Ok(f) if f.name == *name => drop(all.insert(name.clone(), f)),
                Ok(f) => wrong.push(format!("'{name}' is kept as '{}'", f.name)),
                Err(e) => wrong.push(format!("'{name}': {}", e.sentence)),
            }
        }
        (all, wrong)
    }
}

/// When each client submitted within the last minute.
#[derive(Debug, Default)]
pub struct Pace {
    times: BTreeMap<u32, VecDeque<u64>>,
}

/// The minute of `submits_per_min`, ms.
const MINUTE_MS: u64 = 60_000;

impl Pace {
    /// Whether a client may submit once more now; the sentence says when, if not.
    pub fn take(&mut self, now: u64, client: u32, most: u32) -> Result<(), Refused> {
        self.times.retain(|_, t| t.back().is_some_and(|b| b + MINUTE_MS > now));
        let times = self.times.entry(client).or_default();
        while times.front().is_some_and(|t| t + MINUTE_MS <= now) {
            times.pop_front();
        }
        if times.len() >= most as usize {
            let wait = times.front().map_or(0, |t| (t + MINUTE_MS).saturating_sub(now));
            return Err(Refused::new(
                Code::TooFast,
                format!(
                    "{most} submissions a minute are as many as there may be (submits_per_min of the host's policy): try again in {} s",
                    wait.div_ceil(1000)
                ),
            ));
        }
        times.push_back(now);
        Ok(())
    }
}
