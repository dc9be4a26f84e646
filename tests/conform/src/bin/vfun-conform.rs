//! An app at the other end of a window: does one thing, says what came of it in one
//! line, and exits with 7 if a call or request failed. The suite runs it (`run` of
//! the library), on the host or in a guest.
//!
//!   vfun-conform [--pci FOLDER] WHAT...
//!     session            which path the session takes
//!     calls MODE         calls of many sizes, waiting in this mode
//!     many N             so many apps at once, each with a session of its own
//!     buffer             memory that this app and a function both write
//!     crash              a call whose service dies, and those after it
//!     on FILE            calls until FILE is there; FILE.made counts them
//!     more FILE          waits until FILE.made has grown by 20
//!     stop FILE          makes FILE
//!     end MS             calls of so many milliseconds until one fails, and says how

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use vfun::{
    Buffer, BufferRequest, ConnectOptions, Error, FunctionRequest, Result, Session, WaitPolicy,
};

/// How long anything may take on a busy, emulated machine.
const LIMIT: Duration = Duration::from_secs(100);
/// A call of the driver `misbehave` that takes 2 ms.
const SLOW: [u8; 5] = [6, 2, 0, 0, 0];

struct App {
    pci: Option<PathBuf>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut app = App { pci: None };
    if let ["--pci", folder, ..] = words[..] {
        app.pci = Some(folder.into());
        words.drain(..2);
    }
    let done = match words[..] {
        ["session"] => app.session(),
        ["calls", mode] => app.calls(mode),
        ["many", n] => app.many(n.parse().expect("a number")),
        ["buffer"] => app.buffer(),
        ["crash"] => app.crash(),
        ["on", file] => app.on(Path::new(file)),
        ["more", file] => more(Path::new(file)),
        ["stop", file] => stop(Path::new(file)),
        ["end", ms] => app.end(ms.parse().expect("a number")),
        _ => panic!("no such thing to do: {words:?}"),
    };
    match done {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            println!("error {}: {e}", name(&e));
            ExitCode::from(7)
        }
    }
}

fn name(e: &Error) -> String {
    format!("{e:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

impl App {
    fn options(&self, name: &str) -> ConnectOptions {
        let mut options = ConnectOptions::new(name);
        if let Ok(client) = std::env::var("VFUN_CLIENT") {
            options = options.client(client);
        }
        match &self.pci {
            Some(folder) => options.pci_devices(folder),
            None => options,
        }
    }

    fn connect(&self) -> Result<Session> {
        self.options("conform").connect()
    }

    fn session(&self) -> Result<String> {
        let session = self.connect()?;
        session.ping()?;
        let said = session.describe();
        session.close()?;
        Ok(said)
    }

    fn calls(&self, mode: &str) -> Result<String> {
        let policy = match mode {
            "spin" => WaitPolicy::spin(),
            "sleep" => WaitPolicy::sleep(),
            _ => WaitPolicy::hybrid(),
        };
        let session = self.options("conform").wait(policy).connect()?;
        let f = session.negotiate(&FunctionRequest::new("echo").depth(4))?.activate()?;
        let most = f.info().max_args();
        let mut made = 0;
        // Around the room of a line, around a page, and as much as there may be.
        for bytes in [0, 1, 8, 47, 48, 49, 64, 4095, 4096, 4097, 65_536, most] {
            if bytes > most {
                continue;
            }
            let args: Vec<u8> = (0..bytes).map(|i| (i * 7 + bytes) as u8).collect();
            for _ in 0..3 {
                assert!(f.call(&args)? == args, "{bytes} bytes came back as others");
                made += 1;
            }
        }
        // More than one in flight, answered in any order.
        let all: Vec<Vec<u8>> = (0..4u8).map(|i| vec![i; 100]).collect();
        let pending = all.iter().map(|a| f.submit(a)).collect::<Result<Vec<_>>>()?;
        for (sent, pending) in all.iter().zip(pending).rev() {
            assert!(&pending.wait()? == sent, "somebody else's results");
            made += 1;
        }
        f.release()?;
        session.close()?;
        Ok(format!("made {made}, at most {most} bytes"))
    }

    /// Nothing of what the two sides write is in a call's arguments or results.
    fn buffer(&self) -> Result<String> {
        const BYTES: usize = 1 << 20;
        const SUM: u8 = 0;
        const FILL: u8 = 1;
        let session = self.connect()?;
        let f = session.function("misbehave")?;
        let shared = session.buffer(BufferRequest::new(BYTES).align(64 << 10))?;
        let own = f.buffer(100)?;
        let ask = |b: &Buffer, op: u8, value: u8| {
            let words = [b.handle(), 0, b.len() as u64].map(u64::to_le_bytes).concat();
            [&[26, op, value, 0, 0, 0, 0, 0], words.as_slice()].concat()
        };
        let mut bytes = vec![1; BYTES];
        shared.read(0, &mut bytes)?;
        assert!(bytes.iter().all(|&b| b == 0), "zeros at first");
        f.call(&ask(&shared, FILL, 0x5a))?;
        f.call(&ask(&own, FILL, 0x77))?;
        shared.read(0, &mut bytes)?;
        assert!(bytes.iter().all(|&b| b == 0x5a), "what the host wrote");
        bytes.iter_mut().enumerate().for_each(|(i, b)| *b = (i % 251) as u8);
        shared.write(0, &bytes)?;
        let sum: u64 = bytes.iter().map(|&b| u64::from(b)).sum();
        assert_eq!(f.call(&ask(&shared, SUM, 0))?, sum.to_le_bytes());
        let gone = ask(&own, SUM, 0);
        assert_eq!(f.call(&gone)?, 11_900u64.to_le_bytes());
        own.close()?;
        // The manager answers at once, and its service hears of it a little later.
        let until = Instant::now() + LIMIT;
        loop {
            match f.call(&gone) {
                Err(Error::Driver { code: -3, .. }) => break,
                Err(e) => return Err(e),
                Ok(_) => assert!(Instant::now() < until, "it was given back"),
            }
        }
        f.release()?;
        shared.check()?;
        session.close()?;
        assert!(matches!(shared.check(), Err(Error::Closed)));
        Ok(format!("shared {BYTES} bytes, sum {sum}"))
    }

    fn many(&self, apps: usize) -> Result<String> {
        let one = |i: usize| -> Result<()> {
            let session = self.options(&format!("conform{i}")).connect()?;
            let small = |name: &str| FunctionRequest::new(name).depth(2).cell_bytes(4096);
            let echo = session.negotiate(&small("echo"))?.activate()?;
            let sum = session.negotiate(&small("sha256"))?.activate()?;
            for round in 0..50usize {
                let args = vec![(i * 50 + round) as u8; 1 + round * 40];
                assert!(echo.call(&args)? == args, "somebody else's results");
                sum.call(&args)?;
            }
            echo.release()?;
            sum.release()?;
            session.close()
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..apps).map(|i| scope.spawn(move || one(i))).collect();
            all.into_iter().try_for_each(|t| t.join().expect("it does not panic"))
        })?;
        Ok(format!("{apps} apps"))
    }

    fn crash(&self) -> Result<String> {
        let session = self.connect()?;
        let f = session.function("misbehave")?;
        match f.call(&[1]) {
            Err(Error::DriverCrashed) => {}
            Err(e) => return Err(e),
            Ok(_) => panic!("a service that died answered"),
        }
        let until = Instant::now() + LIMIT;
        loop {
            match f.call(&[0, 9]) {
                Ok(results) => {
                    assert_eq!(results, [9]);
                    break;
                }
                Err(e) if Instant::now() >= until => return Err(e),
                Err(_) => {}
            }
        }
        f.release()?;
        session.close()?;
        Ok("it came back".into())
    }

    fn on(&self, file: &Path) -> Result<String> {
        let session = self.connect()?;
        let f = session.function("misbehave")?;
        let mut made = 0u64;
        while !file.exists() {
            f.call(&SLOW)?;
            made += 1;
            write(&counter(file), made);
        }
        Ok(format!("made {made}"))
    }

    fn end(&self, ms: u32) -> Result<String> {
        let session = self.connect()?;
        let f = session.function("misbehave")?;
        let until = Instant::now() + LIMIT;
        let takes = [&SLOW[..1], &ms.to_le_bytes()].concat();
        while Instant::now() < until {
            if let Err(e) = f.call(&takes) {
                return Ok(format!("ended {}: {e}", name(&e)));
            }
        }
        Ok("went on".into())
    }
}

fn counter(file: &Path) -> PathBuf {
    format!("{}.made", file.display()).into()
}

/// Whole at any time.
fn write(path: &Path, made: u64) {
    let new = path.with_extension("new");
    std::fs::write(&new, made.to_string())
        .and_then(|()| std::fs::rename(&new, path))
        .expect("/tmp");
}

fn more(file: &Path) -> Result<String> {
    let made = || std::fs::read_to_string(counter(file)).ok().and_then(|t| t.parse::<u64>().ok());
    let (until, first) = (Instant::now() + LIMIT, made());
    while made() < Some(first.unwrap_or(0) + 20) {
        assert!(Instant::now() < until, "no more calls were made than {first:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok("more".into())
}

fn stop(file: &Path) -> Result<String> {
    std::fs::write(file, "").expect("/tmp");
    Ok("stopped".into())
}
