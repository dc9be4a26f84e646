//! A lock whose users have it in the order in which they asked for it.
//!
//! The NIC's thread holds it nearly always while there is work. With a lock that knows no order
//! it would take the lock again as soon as it has let go of it, and a control call would wait for
//! seconds. Here it goes behind those that wait, and those that come later go behind it.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::limits::TURN_LOOKS;

/// The lock.
pub struct Turns<T> {
    /// The number of who asks next, and of whose turn it is.
    next: AtomicU64,
    serving: AtomicU64,
    /// Held while whose turn it is changes, so that nobody sleeps through it.
    sleep: Mutex<()>,
    changed: Condvar,
    value: Mutex<T>,
}

/// Somebody's turn: ends when it is dropped.
pub struct Turn<'a, T> {
    turns: &'a Turns<T>,
    number: u64,
    /// There until it ends.
    value: Option<MutexGuard<'a, T>>,
}

impl<T> Turns<T> {
    pub const fn new(value: T) -> Self {
        Turns {
            next: AtomicU64::new(0),
            serving: AtomicU64::new(0),
            sleep: Mutex::new(()),
            changed: Condvar::new(),
            value: Mutex::new(value),
        }
    }

    /// Waits for its turn.
    ///
    /// # Panics
    /// If somebody panicked in his turn: what he left half changed serves nobody.
    pub fn enter(&self) -> Turn<'_, T> {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        self.wait_for(number);
        Turn { turns: self, number, value: Some(self.value()) }
    }

    fn value(&self) -> MutexGuard<'_, T> {
        self.value.lock().expect("a control call of another program broke the NIC's tables")
    }

    fn wait_for(&self, number: u64) {
        let mine = || self.serving.load(Ordering::Acquire) == number;
        for _ in 0..TURN_LOOKS {
            if mine() {
                return;
            }
            vfun_window::pause();
        }
        let mut sleep = self.sleep.lock().expect("nothing panics with it");
        while !mine() {
            sleep = self.changed.wait(sleep).expect("nothing panics with it");
        }
    }

    fn leave(&self, number: u64) {
        let _sleep = self.sleep.lock().expect("nothing panics with it");
        self.serving.store(number + 1, Ordering::SeqCst);
        self.changed.notify_all();
    }
}

impl<T> Turn<'_, T> {
    /// Lets those have their turns who asked meanwhile. Costs a load if there is nobody.
    #[inline]
    pub fn let_others(&mut self) {
        if self.turns.next.load(Ordering::Relaxed) != self.number + 1 {
            self.pass();
        }
    }

    #[cold]
    fn pass(&mut self) {
        self.value = None;
        self.turns.leave(self.number);
        self.number = self.turns.next.fetch_add(1, Ordering::SeqCst);
        self.turns.wait_for(self.number);
        self.value = Some(self.turns.value());
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value.as_deref().expect("there until it ends")
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_deref_mut().expect("there until it ends")
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        self.turns.leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn who_asks_gets_in_although_another_one_never_rests() {
        let (turns, stop) = (Turns::new(0u64), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut turn = turns.enter();
                while !stop.load(Ordering::Relaxed) {
                    *turn += 1;
                    turn.let_others();
                }
            });
            let others = || (0..300).for_each(|_| *turns.enter() += 1 << 32);
            let others: Vec<_> = (0..3).map(|_| scope.spawn(others)).collect();
            others.into_iter().for_each(|t| t.join().unwrap());
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(*turns.enter() >> 32, 900);
    }

    #[test]
    fn the_order_is_that_of_asking() {
        let turns = Turns::new(vec![]);
        let mut first = turns.enter();
        std::thread::scope(|scope| {
            scope.spawn(|| turns.enter().push("second"));
            while turns.next.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            first.push("first");
            first.let_others();
            first.push("third");
            drop(first);
        });
        assert_eq!(*turns.enter(), ["first", "second", "third"]);
    }
}
