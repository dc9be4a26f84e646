//! An API in this process: its connection and its objects.

use crate::connect::Description;
use crate::failure::Failure;
use crate::fork::keep_open;
use crate::link::Link;
use crate::objects::{Kind, Object, Objects};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError, RwLock};

/// One for each front end, as a `static`.
pub struct Remote {
    pub api: Description,
    pub objects: Objects,
    /// The first connection; each knows the one that came after it.
    first: OnceLock<&'static Link>,
    /// Held while one is made.
    opening: Mutex<()>,
    /// Forks wait for its locks.
    watched: Once,
    /// The connection of an API that programs begin and end by calls.
    begun: RwLock<Option<&'static Link>>,
}

impl Remote {
    pub const fn new(api: Description) -> Remote {
        Remote {
            api,
            objects: Objects::new(),
            first: OnceLock::new(),
            opening: Mutex::new(()),
            watched: Once::new(),
            begun: RwLock::new(None),
        }
    }

    fn opening(&self) -> MutexGuard<'_, ()> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The latest connection, alive or not. Connections are few: one, and one more for each fork
    /// and each service that died.
    fn latest(&self) -> Option<&'static Link> {
        let mut link = *self.first.get()?;
        while let Some(next) = link.next.get() {
            link = next;
        }
        Some(link)
    }

    /// The connection that knows an object, alive or not.
    pub fn link_of(&self, object: Object<'_>) -> Option<&'static Link> {
        let mut link = *self.first.get()?;
        while link.number() != object.link() {
            link = link.next.get()?;
        }
        Some(link)
    }

    /// How often this process asked the host, by all of its connections.
    pub fn crossings(&self) -> u64 {
        let links = std::iter::successors(self.first.get(), |link| link.next.get());
        links.map(|link| link.crossings()).sum()
    }

    /// The connection, opened if there is none that is alive.
    #[inline]
    pub fn link(&'static self) -> Result<&'static Link, Failure> {
        match self.latest() {
            Some(link) if link.is_alive() => Ok(link),
            _ => self.connect(),
        }
    }

    #[cold]
    fn connect(&'static self) -> Result<&'static Link, Failure> {
        self.watched.call_once(move || {
            keep_open(move || Box::new(self.opening()));
            keep_open(move || self.objects.hold());
            keep_open(move || Box::new(self.begun.write()));
        });
        let _one = self.opening();
        let last = self.latest();
        if let Some(link) = last.filter(|link| link.is_alive()) {
            return Ok(link); // another thread was faster
        }
        let number = last.map_or(1, |link| link.number() + 1);
        let link: &'static Link = Box::leak(Box::new(Link::open(&self.api, number)?));
        let place = last.map_or(&self.first, |last| &last.next);
        place.set(link).map_err(|_| Failure::Internal)?;
        Ok(link)
    }

    /// Begins an API that is begun by a call; whether it was not begun before in this process.
    pub fn begin(&'static self) -> Result<bool, Failure> {
        if !matches!(self.begun(), Err(Failure::Closed)) {
            return Ok(false);
        }
        // Not while the lock is held: forks wait for both locks, one after the other.
        let link = self.link()?;
        let mut begun = self.begun.write().unwrap_or_else(PoisonError::into_inner);
        if begun.is_some_and(Link::is_here) {
            return Ok(false); // another thread was faster
        }
        *begun = Some(link);
        Ok(true)
    }

    /// The connection of an API that was begun.
    #[inline]
    pub fn begun(&self) -> Result<&'static Link, Failure> {
        let begun = *self.begun.read().unwrap_or_else(PoisonError::into_inner);
        let link = begun.filter(|link| link.is_here()).ok_or(Failure::Closed)?;
        if link.is_alive() { Ok(link) } else { Err(Failure::Lost) }
    }

    /// Ends an API that was begun: its objects are gone, and the next begin connects again.
    pub fn end(&self) -> Result<(), Failure> {
        let begun = self.begun.write().unwrap_or_else(PoisonError::into_inner).take();
        let link = begun.filter(|link| link.is_here()).ok_or(Failure::Closed)?;
        link.end();
        self.objects.forget_all(link.number());
        Ok(())
    }

    /// The object that a pointer of the program's stands for, and the connection that knows it.
    #[inline]
    pub fn object(
        &'static self,
        pointer: usize,
        kind: Kind,
    ) -> Result<(Object<'static>, &'static Link), Failure> {
        let object = self.objects.find(pointer, kind)?;
        let link = self.latest().ok_or(Failure::Object)?;
        // One of an earlier connection is lost with it.
        if link.number() == object.link() && link.is_alive() {
            Ok((object, link))
        } else {
            Err(Failure::Lost)
        }
    }
}
