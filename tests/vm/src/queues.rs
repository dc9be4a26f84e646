//! A program in a guest that uses queues until their service dies.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vfun::queue::End;
use vfun::{ConnectOptions, Error, Result, WaitPolicy};
use vfun_tests_local::queues::Mirrored;

/// Pages of each side.
const PAGES: u32 = 64;
/// Entries by the descriptor.
const BY_DESCRIPTOR: u64 = 50;

/// Sends entries and takes them back, asleep and awake, and then sleeps until the channel
/// is over: the error of that.
///
/// # Errors
/// The library's.
pub fn until_lost() -> Result<()> {
    let session = ConnectOptions::new("vm-app").wait(WaitPolicy::sleep()).connect()?;
    eprintln!("{}", session.describe());
    let m = Mirrored::open(&session, PAGES)?;
    let mut pair = m.pair(64)?;
    pair.one_by_one(&m.queues, 200)?;
    pair.there_and_back(&m.queues, 20_000)?;
    // The same by a descriptor.
    let waiter = m.queues.waiter()?;
    for _ in 0..BY_DESCRIPTOR {
        pair.send(&m.queues)?;
        while !pair.back.ready(true).map_err(|e| Error::HostNonsense(e.to_string()))? {
            pair.back.declare_sleep();
            waiter.drain();
            let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
            if !pair.back.ready(true).map_err(|e| Error::HostNonsense(e.to_string()))? {
                let rung = poll(&mut [PollFd::new(&waiter, PollFlags::IN)], Some(&limit));
                assert_eq!(rung, Ok(1), "the service rings");
            }
            pair.back.declare_awake();
        }
        pair.take(&m.queues)?;
    }
    println!("back {}", pair.back.consumed());
    m.queues.wait(None, || false).map(drop)
}
