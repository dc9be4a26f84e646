//! Buffers as they are kept: memory that an app and the services of its channels write,
//! and whose it is. How they come and go is in [`buffers`](super::buffers).

use super::event::{ReplyTo, ServiceId};
use super::grant::Holder;
use super::place::in_pages;
use super::serial;
use super::table::{NoSuch, Table};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use vfun_wire::Handle;
use vfun_wire::range::{Access, Range};

/// How far a buffer is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state")]
pub enum Stage {
    /// It is its app's.
    Given {
        /// Who waits until the services of the app's channels have it.
        waiting: Option<ReplyTo>,
    },
    /// It is over; a service has not let go of it yet, or its grant is not freed.
    Ending {
        /// It was taken away from a program that may not know yet: its pages are given
        /// out again a little later only.
        hold_back: bool,
    },
}

/// One buffer. This is what is noted, too.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Buffer {
    /// Whose.
    #[serde(flatten)]
    pub holder: Holder,
    /// The grant that it belongs to; [`Handle::NONE`] for the session.
    #[serde(with = "serial")]
    pub grant: Handle,
    /// It is a table of pages of its VM's memory ([`vfun_wire::pages`]).
    #[serde(default)]
    pub pages: bool,
    /// Which memory of its window it lies in.
    pub memory: u16,
    /// Where in that, bytes.
    pub offset: u64,
    /// How long it is, bytes.
    pub bytes: u64,
    /// The request that it answered: one that is read again, because a manager was killed
    /// before it had answered, is answered with the same buffer.
    pub asked: ReplyTo,
    /// How far it is.
    pub stage: Stage,
    /// Its memory is gone: there is nothing to give back.
    #[serde(default)]
    pub lost: bool,
    /// Services that were told of it and have not let go of it.
    pub at: BTreeSet<ServiceId>,
    /// Of these, those that have not said yet that they have it, and since when they are to
    /// say so, ms. Asked anew by each manager.
    #[serde(skip)]
    pub owing: BTreeMap<ServiceId, u64>,
    /// It is over, and this manager told its services so: when, ms.
    #[serde(skip)]
    pub told: Option<u64>,
    /// Since when its app waits for it, if it does, ms. Counted anew by each manager.
    #[serde(skip)]
    pub since_ms: u64,
}

impl Buffer {
    /// Where it lies.
    pub fn range(&self) -> Range {
        Range::new(self.memory, Access::Both, self.offset, self.bytes)
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Ending { .. })
    }

    /// Whether it can be: what notes say is refused otherwise.
    pub(super) fn check(&self) -> Result<(), String> {
        match in_pages(self.offset, self.bytes) {
            true => Ok(()),
            false => Err(format!("no buffer has {} bytes at {}", self.bytes, self.offset)),
        }
    }

    /// Who waits until the services have it.
    pub(super) fn waiting(&self) -> Option<ReplyTo> {
        match self.stage {
            Stage::Given { waiting } => waiting,
            Stage::Ending { .. } => None,
        }
    }

    /// The services that an answer is due from, and since when, ms. One that has not said
    /// that it has it owes that still when it is over.
    pub(super) fn owed_by(&self) -> impl Iterator<Item = (ServiceId, u64)> {
        let told = self.told.filter(|_| self.is_over());
        self.at.iter().filter_map(move |id| Some((*id, *self.owing.get(id).or(told.as_ref())?)))
    }
}

/// All buffers, with what they are looked for by.
#[derive(Debug)]
pub(super) struct Buffers {
    table: Table<Buffer>,
    /// Those of each session that are not over.
    by_session: BTreeMap<Handle, BTreeSet<Handle>>,
    /// Of each client: how many it has, and their bytes; those that are over included.
    charged: BTreeMap<u32, (u32, u64)>,
    /// Those from which a service owes an answer.
    due: BTreeSet<Handle>,
    /// Of each service, those that it was told of.
    at: BTreeMap<ServiceId, BTreeSet<Handle>>,
    /// Of each grant, those that are over.
    over_of: BTreeMap<Handle, BTreeSet<Handle>>,
}

impl Buffers {
    /// As a table says.
    pub fn new(table: Table<Buffer>) -> Self {
        let mut all = Buffers {
            table,
            by_session: BTreeMap::new(),
            charged: BTreeMap::new(),
            due: BTreeSet::new(),
            at: BTreeMap::new(),
            over_of: BTreeMap::new(),
        };
        let there: Vec<(Handle, Buffer)> = all.table.iter().map(|(h, b)| (h, b.clone())).collect();
        for (handle, b) in there {
            all.enter(handle, &b);
        }
        all
    }

    fn enter(&mut self, handle: Handle, b: &Buffer) {
        let (count, bytes) = self.charged.entry(b.holder.client_id).or_default();
        (*count, *bytes) = (*count + 1, *bytes + b.bytes);
        self.index(handle, b);
    }

    fn index(&mut self, handle: Handle, b: &Buffer) {
        match (b.is_over(), b.grant) {
            (false, _) => {
                self.by_session.entry(b.holder.session).or_default().insert(handle);
            }
            (true, Handle::NONE) => {}
            (true, grant) => drop(self.over_of.entry(grant).or_default().insert(handle)),
        }
        if b.owed_by().next().is_some() {
            self.due.insert(handle);
        }
        for service in &b.at {
            self.at.entry(*service).or_default().insert(handle);
        }
    }

    fn unindex(&mut self, handle: Handle, b: &Buffer) {
        drop_from(&mut self.by_session, &b.holder.session, handle);
        drop_from(&mut self.over_of, &b.grant, handle);
        self.due.remove(&handle);
        for service in &b.at {
            drop_from(&mut self.at, service, handle);
        }
    }

    /// Puts one in.
    pub fn insert(&mut self, b: Buffer) -> Handle {
        let handle = self.table.insert(b.clone());
        self.enter(handle, &b);
        handle
    }

    /// Changes one, if it is there: what `change` gives.
    pub fn change<T>(&mut self, h: Handle, change: impl FnOnce(&mut Buffer) -> T) -> Option<T> {
        let before = self.table.get(h).ok()?.clone();
        let b = self.table.get_mut(h)?;
        let changed = change(b);
        let after = b.clone();
        self.unindex(h, &before);
        self.index(h, &after);
        Some(changed)
    }

    /// Takes one out.
    pub fn remove(&mut self, h: Handle) -> Option<Buffer> {
        let b = self.table.remove(h)?;
        self.unindex(h, &b);
        if let Some((count, bytes)) = self.charged.get_mut(&b.holder.client_id) {
            (*count, *bytes) = (*count - 1, *bytes - b.bytes);
            if *count == 0 {
                self.charged.remove(&b.holder.client_id);
            }
        }
        Some(b)
    }

    /// Those of a session that are not over.
    pub fn of(&self, session: Handle) -> impl Iterator<Item = (Handle, &Buffer)> {
        let all = self.by_session.get(&session).into_iter().flatten();
        all.filter_map(|h| Some((*h, self.table.get(*h).ok()?)))
    }

    /// How many that are.
    pub fn count_of(&self, session: Handle) -> usize {
        self.by_session.get(&session).map_or(0, BTreeSet::len)
    }

    /// How many buffers a client has, and their bytes.
    pub fn charged(&self, client: u32) -> (u32, u64) {
        self.charged.get(&client).copied().unwrap_or_default()
    }

    /// Bytes of a client's buffers that are over.
    pub fn ending_bytes(&self, client: u32) -> u64 {
        // Those of grants also wait for their grant.
        let of_none = |h: &&Handle| self.table.get(**h).is_ok_and(|b| b.grant == Handle::NONE);
        let all = self.over_of.values().flatten().chain(self.due.iter().filter(of_none));
        let all = all.filter_map(|h| self.table.get(*h).ok());
        all.filter(|b| b.is_over() && b.holder.client_id == client).map(|b| b.bytes).sum()
    }

    /// Those of a grant that are over.
    pub fn over_of(&self, grant: Handle) -> Vec<Handle> {
        self.over_of.get(&grant).map_or(vec![], |all| all.iter().copied().collect())
    }

    /// Those from which a service owes an answer.
    pub fn due(&self) -> impl Iterator<Item = (Handle, &Buffer)> {
        self.due.iter().filter_map(|h| Some((*h, self.table.get(*h).ok()?)))
    }

    /// Services that were told of buffers.
    pub fn services(&self) -> impl Iterator<Item = ServiceId> {
        self.at.keys().copied()
    }

    /// Those that a service was told of.
    pub fn at(&self, service: ServiceId) -> Vec<Handle> {
        self.at.get(&service).map_or(vec![], |all| all.iter().copied().collect())
    }

    /// See [`Table::get`].
    pub fn get(&self, h: Handle) -> Result<&Buffer, NoSuch> {
        self.table.get(h)
    }

    /// See [`Table::iter`].
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &Buffer)> {
        self.table.iter()
    }

    /// See [`Table::len`].
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// See [`Table::highest`].
    pub fn highest(&self) -> u32 {
        self.table.highest()
    }

    /// See [`Table::take_changed`].
    pub fn take_changed(&mut self) -> BTreeSet<u32> {
        self.table.take_changed()
    }

    /// See [`Table::place`].
    pub fn place(&self, index: u32) -> (u32, Option<&Buffer>) {
        self.table.place(index)
    }

    /// What is wrong with what is kept beside the buffers, if anything is.
    pub fn check(&self) -> Result<(), String> {
        let mut again = Buffers::new(Table::new(1));
        for (handle, b) in self.table.iter() {
            again.enter(handle, b);
        }
        let indices =
            |b: &Buffers| (b.by_session.clone(), b.due.clone(), b.at.clone(), b.over_of.clone());
        if indices(self) != indices(&again) {
            return Err("buffers are not found by what they are".into());
        }
        match self.charged == again.charged {
            true => Ok(()),
            false => Err(format!(
                "what clients are charged for buffers is not their sum: {:?}, not {:?}",
                self.charged, again.charged
            )),
        }
    }
}

/// Takes one out of a set of an index; an empty set goes.
fn drop_from<K: Ord>(index: &mut BTreeMap<K, BTreeSet<Handle>>, key: &K, handle: Handle) {
    if let Some(all) = index.get_mut(key) {
        all.remove(&handle);
        if all.is_empty() {
            index.remove(key);
        }
    }
}
