//! Which connection a channel of events belongs to.
//!
//! A program hears events by a channel of its own: a thread that sleeps in a channel makes each
//! answer there ring.

use crate::events::Events;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Stands for one connection of this service, to those whom it was told.
pub(crate) type Token = [u64; 2];

/// The connections of this service.
static ALL: Mutex<Option<HashMap<Token, Weak<Events>>>> = Mutex::new(None);

fn all() -> MutexGuard<'static, Option<HashMap<Token, Weak<Events>>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A token that nobody can guess: the standard library's hashers have random keys.
pub(crate) fn make(events: &Arc<Events>) -> Token {
    let random = || RandomState::new().hash_one(std::time::Instant::now());
    let token = [random(), random()];
    all().get_or_insert_default().insert(token, Arc::downgrade(events));
    token
}

/// The connection of a token has ended.
pub(crate) fn forget(token: Token) {
    if let Some(all) = all().as_mut() {
        all.remove(&token);
    }
}

/// The events of the connection with this token.
pub(crate) fn find(token: Token) -> Option<Arc<Events>> {
    all().as_ref()?.get(&token)?.upgrade()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_finds_its_connection_until_that_ends() {
        let (one, other) = (Arc::default(), Arc::default());
        let (a, b) = (make(&one), make(&other));
        assert_ne!(a, b);
        assert!(find(a).is_some_and(|found| Arc::ptr_eq(&found, &one)));
        assert!(find([a[0], b[1]]).is_none());
        forget(a);
        assert!(find(a).is_none() && find(b).is_some());
        drop(other);
        assert!(find(b).is_none());
        forget(b);
    }
}
