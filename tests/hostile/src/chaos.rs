//! Two clients call and check while managers and services are killed. Every
//! call must end once, with its own result or with an error that has a name.
//!
//! Whether a call ran once is not asked of the host: the test's driver keeps a
//! ledger in each cell's own data space ([`vfun_testdriver::ledger`]), which
//! outlives it, and each answer carries the end of that ledger.

use crate::ledger::Ledger;
use crate::random::Random;
use crate::witness::manifest;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};
use vfun::{ConnectOptions, Error, Function, Session};
use vfun_admin::{Ask, Reply};
use vfun_testdriver::ledger::{RESULT_BYTES, arguments};
use vfun_tests_local::Stand;

/// What is to happen.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Calls of both clients together.
    pub calls: u64,
    /// Ends of managers: every second one by SIGHUP, the others by SIGKILL.
    pub managers: u64,
    /// Kills of services.
    pub services: u64,
    /// Whether the second client's services are killed too.
    pub both: bool,
    /// What is left to chance.
    pub seed: u64,
}

/// The clients.
pub const CLIENTS: [&str; 2] = ["stricken", "spared"];
/// Kills of a service under one name until the breaker opens.
const KILLS_A_NAME: u64 = 7;
/// Threads of each.
const THREADS: usize = 2;
/// One call in so many works for a while, so that kills find calls under way.
const WORKS: u64 = 16;
/// How long, µs.
const WORK_US: u32 = 300;
/// How long anything may take before the run is given up, as hung.
const HUNG: Duration = Duration::from_secs(60);

/// What one client saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// Calls that ended.
    pub calls: u64,
    /// Of these with their result.
    pub results: u64,
    /// Of these with an error, by name.
    pub errors: BTreeMap<String, u64>,
    /// Requests that were refused while it wanted its function back, by name.
    pub refused: BTreeMap<String, u64>,
    /// Channels it had.
    pub channels: u64,
    /// Calls that ran and ended with an error.
    pub ran_in_vain: u64,
    /// Calls and errors by the channels' own counters.
    pub counted: (u64, u64),
    /// The same by this side.
    pub answered: (u64, u64),
    /// What must not be.
    pub wrong: Vec<String>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// By client.
    pub seen: [Seen; 2],
    /// Managers killed, managers started anew in place, services killed.
    pub kills: (u64, u64, u64),
    /// How long it took.
    pub took: Duration,
}

impl Outcome {
    /// Everything that must not be.
    pub fn wrong(&self, plan: &Plan) -> Vec<String> {
        let mut all = vec![];
        for (seen, name) in self.seen.iter().zip(CLIENTS) {
            all.extend(seen.wrong.iter().map(|w| format!("{name}: {w}")));
            let ended = seen.results + seen.errors.values().sum::<u64>();
            if ended != seen.calls || ended < plan.calls / 2 {
                all.push(format!("{name}: of {} calls {ended} ended", seen.calls));
            }
            if seen.counted != seen.answered {
                all.push(format!(
                    "{name}: its channels counted {:?} calls and errors, it had {:?}",
                    seen.counted, seen.answered
                ));
            }
        }
        let spared = &self.seen[1];
        let spared_ok = spared.errors.is_empty() && spared.refused.is_empty();
        if !plan.both && !spared_ok {
            all.push(format!("{}: {:?} {:?}", CLIENTS[1], spared.errors, spared.refused));
        }
        let (killed, anew, services) = self.kills;
        if killed + anew != plan.managers || services != plan.services {
            all.push(format!("not all was killed that was to be: {:?}", self.kills));
        }
        all
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (killed, anew, services) = self.kills;
        writeln!(
            f,
            "managers killed {killed}, started anew in place {anew}; services killed {services}; {:.1} s",
            self.took.as_secs_f64()
        )?;
        for (s, name) in self.seen.iter().zip(CLIENTS) {
            writeln!(
                f,
                "{name}: calls {}, results {}, errors {:?}, ran and ended with an error {}, \
                 channels {}, refused {:?}, answered here {:?}, counted there {:?}",
                s.calls,
                s.results,
                s.errors,
                s.ran_in_vain,
                s.channels,
                s.refused,
                s.answered,
                s.counted
            )?;
        }
        Ok(())
    }
}

/// The error's name, with the reason of a broken channel.
pub fn name(e: &Error) -> String {
    let shown = format!("{e:?}");
    match e {
        Error::Broken(_) => shown,
        Error::Refused(nack) => format!("Refused({:?})", nack.code),
        _ => shown.chars().take_while(char::is_ascii_alphanumeric).collect(),
    }
}

/// Whether a call may end so when its service is killed, or refused over it.
fn may_be(e: &Error) -> bool {
    matches!(
        e,
        Error::DriverCrashed
            | Error::ServiceLost
            | Error::Broken(vfun::BreakReason::CrashLoop | vfun::BreakReason::NoService)
    )
}

/// A client at work: its threads share a channel, and get another when it breaks.
///
/// Killing services like this opens the host's circuit breaker, which refuses this
/// client's function for longer and longer. It goes on under the next of its
/// names then: the run is to be about kills, not about waiting.
struct Client<'a> {
    /// Its names' ways to connect that are left.
    names: Mutex<Vec<ConnectOptions>>,
    session: Mutex<Option<Session>>,
    /// The channel, and its number among this client's.
    function: RwLock<Option<(Function, u64)>>,
    ledger: Mutex<Ledger>,
    seen: Mutex<Seen>,
    posted: AtomicU64,
    ended: AtomicU64,
    /// The other client's calls that ended: the spared one waits for the stricken.
    pace: Option<&'a AtomicU64>,
    hung: &'a AtomicBool,
}

impl Client<'_> {
    fn work(&self, calls: u64, seed: u64) {
        let mut random = Random::new(seed);
        loop {
            let call = self.posted.fetch_add(1, Ordering::Relaxed) + 1;
            if call > calls || self.hung.load(Ordering::Relaxed) {
                return;
            }
            self.keep_pace(calls);
            self.one(call, if random.below(WORKS) == 0 { WORK_US } else { 0 });
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Not ahead by more than a hundredth, so that it is there at every kill.
    fn keep_pace(&self, calls: u64) {
        let Some(other) = self.pace else { return };
        while self.ended.load(Ordering::Relaxed) > other.load(Ordering::Relaxed) + calls / 100 {
            if self.hung.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn one(&self, call: u64, work: u32) {
        // Held until the call is noted: the channel's account is closed after that.
        let held = loop {
            let held = self.function.read().expect("no thread panics");
            if held.is_some() {
                break held;
            }
            drop(held);
            if !self.get_back() {
                return;
            }
        };
        let (f, channel) = held.as_ref().expect("just seen");
        let (channel, mut results) = (*channel, [0; RESULT_BYTES]);
        let result = f
            .call_into(&arguments(channel, call, work), &mut results)
            .map(|n| results[..n].to_vec());
        let mut seen = self.seen.lock().expect("no thread panics");
        seen.calls += 1;
        match result {
            Ok(bytes) => {
                seen.results += 1;
                seen.answered.0 += 1;
                let entered = self.ledger.lock().expect("no thread panics").enter(call, &bytes);
                if let Err(what) = entered {
                    seen.wrong.push(what);
                }
            }
            Err(e) => {
                *seen.errors.entry(name(&e)).or_default() += 1;
                if !may_be(&e) {
                    seen.wrong.push(format!("call {call} ended with: {e}"));
                }
                let broken = matches!(e, Error::Broken(_) | Error::Released);
                if !broken {
                    seen.answered.0 += 1;
                    seen.answered.1 += 1;
                }
                self.ledger.lock().expect("no thread panics").failed(call);
                drop((seen, held));
                if broken {
                    self.give_up(channel);
                }
            }
        }
    }

    /// The channel is broken: its account is closed.
    fn give_up(&self, channel: u64) {
        let mut held = self.function.write().expect("no thread panics");
        if held.as_ref().is_some_and(|(_, c)| *c == channel)
            && let Some((f, _)) = held.take()
        {
            self.close(f);
        }
    }

    fn close(&self, f: Function) {
        let stats = f.release();
        let mut seen = self.seen.lock().expect("no thread panics");
        match stats {
            Ok(s) => {
                seen.counted.0 += s.calls;
                seen.counted.1 += s.errors;
            }
            Err(e) => seen.wrong.push(format!("release: {e}")),
        }
        let ledger = std::mem::take(&mut *self.ledger.lock().expect("no thread panics"));
        let (ran, wrong) = ledger.close();
        seen.ran_in_vain += ran;
        seen.wrong.extend(wrong);
    }

    /// Gets the function again; false if the run is over.
    fn get_back(&self) -> bool {
        let mut held = self.function.write().expect("no thread panics");
        while held.is_none() {
            if self.hung.load(Ordering::Relaxed) {
                return false;
            }
            let mut session = self.session.lock().expect("no thread panics");
            if session.is_none() {
                let next = self.names.lock().expect("no thread panics").pop();
                match next.map(ConnectOptions::connect) {
                    Some(Ok(s)) => *session = Some(s),
                    other => {
                        let why = other.map(|e| e.map(|_| ()));
                        let what = format!("no name is left to go on under: {why:?}");
                        self.seen.lock().expect("no thread panics").wrong.push(what);
                        self.hung.store(true, Ordering::Relaxed);
                        return false;
                    }
                }
            }
            match session.as_ref().expect("just made").function("misbehave") {
                Ok(f) => {
                    let mut seen = self.seen.lock().expect("no thread panics");
                    seen.channels += 1;
                    *held = Some((f, seen.channels));
                }
                Err(e) => {
                    let mut seen = self.seen.lock().expect("no thread panics");
                    *seen.refused.entry(name(&e)).or_default() += 1;
                    drop(seen);
                    if matches!(&e, Error::Refused(n) if n.code == vfun::NackCode::ServiceFailed)
                        && let Some(session) = session.take()
                        && let Err(e) = session.close()
                    {
                        let what = format!("goodbye: {e}");
                        self.seen.lock().expect("no thread panics").wrong.push(what);
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
        true
    }
}

fn generation(stand: &Stand) -> Option<(u32, u32)> {
    match stand.try_ask(&Ask::Status) {
        Ok(Reply::Status(s)) => Some((s.pid, s.generation)),
        _ => None,
    }
}

fn signal(pid: u32, signal: rustix::process::Signal) -> bool {
    rustix::process::Pid::from_raw(pid as i32)
        .is_some_and(|pid| rustix::process::kill_process(pid, signal).is_ok())
}

/// Kills the client's service, if it has one that was not killed before.
fn kill_service(root: &Path, client: &str, last: &mut u32) -> bool {
    let Ok(rows) = vfun_admin::Client::at(root).grants() else { return false };
    let mut active = rows.iter().filter(|g| g.client.starts_with(client) && g.state == "active");
    let Some(pid) = active.find_map(|g| g.pid) else {
        return false;
    };
    if pid == *last || !signal(pid, rustix::process::Signal::KILL) {
        return false;
    }
    *last = pid;
    true
}

/// A manager whose test driver has a deadline that a busy machine keeps: a call of some
/// microseconds may not end for longer than the two seconds of its own manifest.
fn patient() -> Stand {
    let stand = Stand::start();
    let manifest_of = vfun_tests_local::repo().join("services/testdriver/function.toml");
    let text = std::fs::read_to_string(&manifest_of).expect("it is in the repository");
    let text = text.replace("deadline_ms = 2000", "deadline_ms = 10000");
    assert!(text.contains("10000"), "the manifest has another deadline: {text}");
    stand.ask(&Ask::AddFunction { manifest: text, file: manifest_of });
    stand
}

/// The names under which one client connects, one after the other.
fn names(stand: &Stand, plan: &Plan, client: &str) -> Vec<ConnectOptions> {
    let name = |i: u64| {
        let name = format!("{client}-{i}");
        stand.add_client(&manifest(&name)).expect("a client");
        stand.options("chaos").client(name)
    };
    (0..plan.services / KILLS_A_NAME + 2).map(name).collect()
}

/// Lets it happen, on a manager of its own.
pub fn run(plan: &Plan) -> Outcome {
    let mut stand = patient();
    let options = CLIENTS.map(|client| names(&stand, plan, client));
    let hung = AtomicBool::new(false);
    let first_ended = AtomicU64::new(0);
    let mut clients = vec![];
    for (i, options) in options.into_iter().enumerate() {
        clients.push(Client {
            names: Mutex::new(options),
            session: Mutex::default(),
            function: RwLock::new(None),
            ledger: Mutex::default(),
            seen: Mutex::default(),
            posted: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            pace: (i == 1).then_some(&first_ended),
            hung: &hung,
        });
    }
    let start = Instant::now();
    let mut outcome = Outcome::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2 * THREADS)
            .map(|t| {
                let client = &clients[t % 2];
                scope.spawn(move || client.work(plan.calls / 2, plan.seed.wrapping_add(t as u64)))
            })
            .collect();
        let ended = || threads.iter().all(|t| t.is_finished());
        kill_until(ended, plan, &mut stand, &clients, &mut outcome);
    });
    outcome.took = start.elapsed();
    for (i, client) in clients.into_iter().enumerate() {
        let last = client.function.write().expect("no thread panics").take();
        if let Some((f, _)) = last {
            client.close(f);
        }
        let Client { session, seen, .. } = client;
        outcome.seen[i] = seen.into_inner().expect("no thread panics");
        let session = session.into_inner().expect("no thread panics");
        if let Some(Err(e)) = session.map(Session::close) {
            outcome.seen[i].wrong.push(format!("goodbye: {e}"));
        }
    }
    outcome
}

/// Kills managers and services, as planned, until all threads have ended or nothing moves.
fn kill_until(
    ended: impl Fn() -> bool,
    plan: &Plan,
    stand: &mut Stand,
    clients: &[Client<'_>],
    outcome: &mut Outcome,
) {
    let each = plan.calls / 2;
    let mut last = [0; 2];
    let (mut managers, mut moved) = (0, (0, Instant::now()));
    while !ended() {
        let done: Vec<u64> = clients.iter().map(|c| c.ended.load(Ordering::Relaxed)).collect();
        if let Some(pace) = clients[1].pace {
            pace.store(done[0], Ordering::Relaxed);
        }
        let all = done[0] + done[1];
        if all > moved.0 {
            moved = (all, Instant::now());
        } else if moved.1.elapsed() > HUNG {
            return give_up(clients);
        }
        // Spread over the calls, so that each finds them under way.
        let due = |n: u64, of: u64, at: u64, span: u64| n < of && at * (of + 1) > span * (n + 1);
        if due(managers, plan.managers, all, 2 * each) {
            if managers % 2 == 0 {
                stand.kill_vfund();
                stand.start_vfund();
                outcome.kills.0 += 1;
            } else if let Some((pid, before)) = generation(stand) {
                signal(pid, rustix::process::Signal::HUP);
                stand.until("anew", |s| generation(s).is_some_and(|(_, g)| g > before));
                outcome.kills.1 += 1;
            }
            managers += 1;
        }
        if due(outcome.kills.2, plan.services, done[0], each) {
            let whose = if plan.both { (outcome.kills.2 % 2) as usize } else { 0 };
            if kill_service(stand.root(), CLIENTS[whose], &mut last[whose]) {
                outcome.kills.2 += 1;
            }
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// Nothing moves any more: says so, and lets the threads end.
fn give_up(clients: &[Client<'_>]) {
    for client in clients {
        client.hung.store(true, Ordering::Relaxed);
        client.seen.lock().expect("no thread panics").wrong.push(format!(
            "nothing moved for {HUNG:?} after {} calls",
            client.ended.load(Ordering::Relaxed)
        ));
    }
}
