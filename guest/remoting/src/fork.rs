//! Locks that a child of `fork` finds open. The thread that forks takes them before, and opens them
//! after it, in both processes: what they guard is whole then, and no other thread holds one.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

type Hold = Box<dyn Fn() -> Box<dyn Any> + Send + Sync>;

static ALL: Mutex<Vec<Hold>> = Mutex::new(vec![]);

thread_local! {
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

fn all() -> MutexGuard<'static, Vec<Hold>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on a fork waits for a lock: `hold` takes it, and gives its guard. Once for each lock.
/// Nobody may hold one of them and take another.
pub fn keep_open(hold: impl Fn() -> Box<dyn Any> + Send + Sync + 'static) {
    static WATCH: Once = Once::new();
    all().push(Box::new(hold));
    WATCH.call_once(|| {
        // SAFETY: both handlers take and open locks, on the thread that forks. The library that
        // has them is not unloaded, as its threads are not ended.
        let _ = unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
    });
}

unsafe extern "C" fn before() {
    let all = all();
    let mut held: Vec<Box<dyn Any>> = all.iter().map(|hold| hold()).collect();
    held.push(Box::new(all));
    // A thread that ends has no place for it: then the child may find a lock held.
    let _ = HELD.try_with(|place| place.replace(held));
}

unsafe extern "C" fn after() {
    let _ = HELD.try_with(|place| drop(place.take()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_child_finds_locks_open_that_another_thread_held() {
        static LOCK: Mutex<()> = Mutex::new(());
        keep_open(|| Box::new(LOCK.lock()));
        let (sender, held) = std::sync::mpsc::channel();
        let holder = std::thread::spawn(move || {
            let _held = LOCK.lock();
            sender.send(()).expect("heard");
            std::thread::sleep(Duration::from_millis(100));
        });
        held.recv().expect("it is held");
        // SAFETY: the child looks at a lock, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let open = LOCK.try_lock().is_ok();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!open)) };
        }
        let mut status = -1;
        // SAFETY: the place is ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child found it held");
        holder.join().expect("it ended");
        assert!(LOCK.try_lock().is_ok(), "it is open here too");
    }
}
