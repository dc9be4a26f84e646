//! Calls that are answered later: by a timer that the whole process shares, or
//! when another call says so.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use vfun_sdk::{Answerer, DriverError};

/// Code of a call that `rst` ended.
pub const RESET: i32 = 81;

type Result = std::result::Result<Vec<u8>, DriverError>;
type Job = (Instant, Answerer, Result);

/// Answers after so long, on the timer's thread.
pub fn after(time: Duration, call: Answerer, result: Result) {
    static TIMER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let timer = TIMER.get_or_init(|| {
        let (sender, jobs) = channel();
        std::thread::spawn(move || tick(&jobs));
        Mutex::new(sender)
    });
    let job = (Instant::now() + time, call, result);
    timer.lock().unwrap().send(job).expect("the timer lives as long as the process");
}

fn tick(jobs: &Receiver<Job>) {
    let mut waiting: BTreeMap<(Instant, u64), (Answerer, Result)> = BTreeMap::new();
    for number in 0u64.. {
        let now = Instant::now();
        while waiting.first_key_value().is_some_and(|((due, _), _)| *due <= now) {
            let (_, (call, result)) = waiting.pop_first().expect("just seen");
            give(call, result);
        }
        let job = match waiting.first_key_value() {
            Some(((due, _), _)) => jobs.recv_timeout(due.saturating_duration_since(now)),
            None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match job {
            Ok((due, call, result)) => _ = waiting.insert((due, number), (call, result)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn give(call: Answerer, result: Result) {
    let _ = match result {
        Ok(bytes) => call.answer(&bytes),
        Err(e) => call.fail(&e),
    };
}

/// Calls that a state holds until it is told to answer them.
#[derive(Default)]
pub struct Kept(Vec<(Answerer, Vec<u8>)>);

impl Kept {
    pub fn keep(&mut self, call: Answerer, answer: Vec<u8>) {
        self.0.push((call, answer));
    }

    /// Answers all from another thread, the last one first; how many there were.
    pub fn fire(&mut self) -> u64 {
        let all = std::mem::take(&mut self.0);
        let count = all.len() as u64;
        std::thread::spawn(move || {
            all.into_iter().rev().for_each(|(call, answer)| give(call, Ok(answer)));
        });
        count
    }

    /// How many of them cannot be answered any more.
    pub fn cancelled(&self) -> u64 {
        self.0.iter().filter(|(call, _)| !call.is_open()).count() as u64
    }

    /// Lets go of all without an answer.
    pub fn drop_all(&mut self) {
        self.0.clear();
    }

    /// Ends all, as `rst` does.
    pub fn reset(&mut self) {
        let e = DriverError::new(RESET, "it was reset");
        self.0.drain(..).for_each(|(call, _)| _ = call.fail(&e));
    }
}
