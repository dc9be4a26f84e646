//! The innocent neighbour: a client of its own that works all the while, checks
//! every result, and remembers the first thing that went wrong.

use crate::random::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use vfun::{ConnectOptions, Function, Session};

/// Declares the neighbour's client and the attacker's: each has windows and
/// services of its own.
pub fn manifest(name: &str) -> String {
    format!("name = \"{name}\"\nkind = \"host\"\nwindow = \"4 MiB\"\ntcp = \"open\"\n")
}

struct Shared {
    end: AtomicBool,
    calls: AtomicU64,
    requests: AtomicU64,
    wrong: Mutex<Option<String>>,
}

/// A neighbour at work.
pub struct Witness {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Witness {
    /// Lets it work over these options until it is asked.
    pub fn start(options: ConnectOptions) -> Self {
        let shared = Arc::new(Shared {
            end: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            wrong: Mutex::new(None),
        });
        let of = shared.clone();
        let thread = std::thread::spawn(move || {
            if let Err(what) = work(&of, options) {
                *of.wrong.lock().expect("nobody panics with it") = Some(what);
            }
        });
        Witness { shared, thread: Some(thread) }
    }

    /// Calls checked so far.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }
    /// Control requests answered rightly so far.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }
    /// What went wrong, if anything did.
    pub fn wrong(&self) -> Option<String> {
        self.shared.wrong.lock().expect("nobody panics with it").clone()
    }

    /// Ends its work: calls checked, or what went wrong.
    ///
    /// # Errors
    /// The first wrong result or error.
    pub fn end(mut self) -> Result<u64, String> {
        self.stop();
        self.wrong().map_or(Ok(self.calls()), Err)
    }

    fn stop(&mut self) {
        self.shared.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.stop();
    }
}

fn said(what: &str) -> impl Fn(vfun::Error) -> String + '_ {
    move |e| format!("{what}: {e}")
}

fn work(shared: &Shared, options: ConnectOptions) -> Result<(), String> {
    let session = options.connect().map_err(said("connect"))?;
    let echo = session.function("echo").map_err(said("echo"))?;
    let factorial = session.function("factorial").map_err(said("factorial"))?;
    // Held all the while, so that the service behind the passing ones stays.
    let sha = session.function("sha256").map_err(said("sha256"))?;
    let mut random = Random::new(u64::from(std::process::id()));
    for turn in 0u64.. {
        if shared.end.load(Ordering::Relaxed) {
            break;
        }
        for _ in 0..50 {
            call(&echo, &factorial, &mut random)?;
            shared.calls.fetch_add(1, Ordering::Relaxed);
        }
        if turn % 8 == 7 {
            request(&session)?;
            shared.requests.fetch_add(4, Ordering::Relaxed);
        }
        // The machine is not the witness's alone.
        std::thread::sleep(Duration::from_millis(2));
    }
    sha.release().map_err(said("release"))?;
    factorial.release().map_err(said("release"))?;
    echo.release().map_err(said("release"))?;
    session.close().map_err(said("close"))
}

/// One call, its result checked to the byte.
fn call(echo: &Function, factorial: &Function, random: &mut Random) -> Result<(), String> {
    if random.below(4) == 0 {
        let args = [20u64.to_le_bytes(), 1u64.to_le_bytes()].concat();
        let got = factorial.call(&args).map_err(said("factorial"))?;
        if got != 2_432_902_008_176_640_000u64.to_le_bytes() {
            return Err(format!("20! is not {got:?}"));
        }
        return Ok(());
    }
    let bytes: Vec<u8> = (0..random.below(300)).map(|_| random.word() as u8).collect();
    let got = echo.call(&bytes).map_err(said("echo"))?;
    if got != bytes {
        return Err(format!(
            "echo of {} bytes came back as other {} bytes",
            bytes.len(),
            got.len()
        ));
    }
    Ok(())
}

/// Negotiate, activate, call, release: the control plane serves it too.
fn request(session: &Session) -> Result<(), String> {
    let sha = session.function("sha256").map_err(said("sha256"))?;
    let got = sha.call(b"abc").map_err(said("sha256"))?;
    if got[..4] != [0xba, 0x78, 0x16, 0xbf] {
        return Err("the hash of abc is wrong".into());
    }
    sha.release().map_err(said("release")).map(|_| ())
}
