//! The jobs, on the host and in a machine where this host has one that runs them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use vfun_barevm::{Calls, Count, Job, Lines, Machine, NoMachine, Stop};
use vfun_ring::{Caller, Memory, Next, Server, WindowMemory};
use vfun_window::{Access, Mapping, memfd};
use vfun_wire::Status;
use vfun_wire::channel::{line_off, side_bytes};

const DEPTH: u16 = 4;
/// More than any job takes, in cycles.
const NO_LIMIT: u64 = u64::MAX;
const CALLS: u32 = 1_000;

/// The two ends of a channel.
fn channel() -> (WindowMemory, WindowMemory) {
    let side = side_bytes(DEPTH, 0).unwrap() as usize;
    let window = memfd("window", 2 * side as u64).unwrap();
    let map = |off| Mapping::new(&window, off, side, Access::ReadWrite).unwrap().write().unwrap();
    let (app, service) = (map(0), map(side as u64));
    let of_app = WindowMemory::new(app.clone(), service.reader()).unwrap();
    (of_app, WindowMemory::new(service, app.reader()).unwrap())
}

/// Answers in a thread until it is dropped.
struct Answers {
    end: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Answers {
    fn by(mut answer: impl FnMut() + Send + 'static) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let ended = end.clone();
        let thread = thread::spawn(move || {
            while !ended.load(Ordering::Acquire) {
                answer();
            }
        });
        Answers { end, thread: Some(thread) }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Release);
        let ended = self.thread.take().map(thread::JoinHandle::join);
        assert!(ended.is_none_or(|e| e.is_ok()));
    }
}

/// Echoes calls, but for the one of this number, whose answer is another.
fn echo(memory: WindowMemory, but: Option<u64>) -> Answers {
    let mut server = Server::new(memory, DEPTH, 0);
    let mut number = 0;
    Answers::by(move || match server.next() {
        Next::Call(request) => {
            let args = request.inline[..request.len as usize].to_vec();
            let answer = if but == Some(number) { vec![0xff; args.len()] } else { args };
            number += 1;
            server.answer_inline(request.cell, Status::Ok, &answer);
        }
        _ => thread::yield_now(),
    })
}

/// What runs jobs: this thread, or a machine.
trait Runs {
    fn run<J: Job>(&mut self, job: &mut J) -> Result<Stop, NoMachine>;

    /// To the end, however often it needs help.
    fn finish<J: Job>(&mut self, job: &mut J) -> Result<Stop, NoMachine> {
        loop {
            match self.run(job)? {
                Stop::Late => thread::yield_now(),
                stop => return Ok(stop),
            }
        }
    }
}

struct Here;

impl Runs for Here {
    fn run<J: Job>(&mut self, job: &mut J) -> Result<Stop, NoMachine> {
        Ok(job.go())
    }
}

impl Runs for Machine {
    fn run<J: Job>(&mut self, job: &mut J) -> Result<Stop, NoMachine> {
        Machine::run(self, job)
    }
}

fn calls_are_answered<R: Runs>(make: impl Fn() -> Result<R, NoMachine>) -> Result<(), NoMachine> {
    let (app, service) = channel();
    let caller = Caller::new(app, DEPTH, 0);
    let mut with_numbers = Calls::<8>::new(&caller, CALLS, NO_LIMIT);
    let mut null = Calls::<0>::new(&caller, CALLS, NO_LIMIT);
    let mut none = Calls::<0>::new(&caller, CALLS, 0);
    let mut runs = make()?;
    let answers = echo(service, None);
    assert_eq!(runs.finish(&mut with_numbers)?, Stop::Done);
    assert_eq!(runs.finish(&mut null)?, Stop::Done);
    assert_eq!(runs.finish(&mut none)?, Stop::Done);
    assert_eq!(with_numbers.samples().len(), CALLS as usize);
    assert_eq!((null.samples().len(), none.samples().len()), (CALLS as usize, 1));
    assert_eq!(caller.taken().count(), 0, "each cell is free again");
    drop(answers);
    Ok(())
}

fn wrong_and_absent_answers_are_told<R: Runs>(
    make: impl Fn() -> Result<R, NoMachine>,
) -> Result<(), NoMachine> {
    let (app, service) = channel();
    let caller = Caller::new(app, DEPTH, 0);
    let mut job = Calls::<8>::new(&caller, CALLS, NO_LIMIT);
    let mut runs = make()?;
    assert_eq!(runs.run(&mut job)?, Stop::Late, "nobody answers");
    assert_eq!(runs.run(&mut job)?, Stop::Late, "the same call is still out");
    assert_eq!(caller.taken().count(), 1);
    let _answers = echo(service, Some(500));
    assert_eq!(runs.finish(&mut job)?, Stop::Wrong);
    assert_eq!(job.samples().len(), 500);
    Ok(())
}

fn lines_go_to_and_fro<R: Runs>(make: impl Fn() -> Result<R, NoMachine>) -> Result<(), NoMachine> {
    let (app, service) = channel();
    let mut job = Lines::new(&app, 41, CALLS, NO_LIMIT);
    let mut runs = make()?;
    let line = line_off(0) / 8;
    let _answers = Answers::by(move || {
        service.store(line, service.load(line, Ordering::Acquire), Ordering::Release);
    });
    assert_eq!(runs.finish(&mut job)?, Stop::Done);
    assert_eq!(job.sent(), 41 + u64::from(CALLS));
    assert_eq!(app.load(line, Ordering::Acquire), job.sent());
    assert_eq!(job.samples().len(), CALLS as usize);
    Ok(())
}

fn the_counter_counts<R: Runs>(make: impl Fn() -> Result<R, NoMachine>) -> Result<(), NoMachine> {
    let mut job = Count::new(1_000_000);
    assert_eq!(make()?.run(&mut job)?, Stop::Done);
    assert!(job.counted() >= 1_000_000);
    Ok(())
}

#[test]
fn jobs_run_on_the_host() {
    let here = || Ok(Here);
    calls_are_answered(here).unwrap();
    wrong_and_absent_answers_are_told(here).unwrap();
    lines_go_to_and_fro(here).unwrap();
    the_counter_counts(here).unwrap();
}

#[test]
fn jobs_run_in_a_machine() {
    if let Err(why) = vfun_barevm::tried() {
        println!("not tested, because this host runs no bare machine: {why}");
        return;
    }
    calls_are_answered(Machine::new).unwrap();
    wrong_and_absent_answers_are_told(Machine::new).unwrap();
    lines_go_to_and_fro(Machine::new).unwrap();
    the_counter_counts(Machine::new).unwrap();
}
