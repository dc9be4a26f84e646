//! A driver that misbehaves when told to, for tests of services and of the
//! manager. The first argument byte says what to do; see [`Mode`].

pub mod ledger;

use std::time::{Duration, Instant};
use vfun_sdk::{Args, Config, Driver, DriverError, Out};

/// What the first argument byte asks for. No arguments: answer nothing.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Answer the rest of the arguments.
    Echo = 0,
    /// Die of SIGABRT.
    Crash = 1,
    /// Never return.
    Hang = 2,
    /// Fail with the code in bytes 1 to 4 and a long sentence.
    Code = 3,
    /// Claim more results than fit.
    TooLarge = 4,
    /// Panic.
    Panic = 5,
    /// Sleep for the milliseconds in bytes 1 to 4, then answer nothing.
    Sleep = 6,
    /// Answer how many calls this state has seen since `init` or `rst`, u64.
    Count = 7,
    /// Answer as many bytes as bytes 1 to 4 say, byte i being i modulo 251.
    Fill = 8,
    /// Die of a stack overflow (SIGSEGV or SIGABRT).
    Fault = 9,
    /// Answer the app's name, a zero byte, and the setting `greeting`.
    Whoami = 10,
    /// Use the processor for the milliseconds in bytes 1 to 4, then answer nothing.
    Spin = 11,
    /// Keep a ledger in the cell's own data space; see [`ledger`].
    Ledger = 12,
    /// Answer five u64: the call's number (bytes 8 to 15), the number of the
    /// call before it in this state (0 if none), how many this state has seen,
    /// the process, and the setting `vf` + 1 (0 if none).
    Order = 13,
}

/// The long sentence of [`Mode::Code`].
pub const SENTENCE: &str = "the test driver was told to fail, so it did; nothing is wrong with your arguments or with the driver";

const MODES: [Mode; 14] = [
    Mode::Echo,
    Mode::Crash,
    Mode::Hang,
    Mode::Code,
    Mode::TooLarge,
    Mode::Panic,
    Mode::Sleep,
    Mode::Count,
    Mode::Fill,
    Mode::Fault,
    Mode::Whoami,
    Mode::Spin,
    Mode::Ledger,
    Mode::Order,
];

struct Misbehave {
    calls: u64,
    app: String,
    greeting: String,
    last: u64,
    vf: u64,
}

fn overflow(n: u64) -> u64 {
    let big = std::hint::black_box([n; 4096]);
    if n == u64::MAX { 0 } else { overflow(n + 1) + big[(n % 4096) as usize] }
}

impl Driver for Misbehave {
    fn init(config: &Config) -> Result<Self, DriverError> {
        if let Some(words) = config.settings.get("fail") {
            return Err(DriverError::new(77, words.as_str()));
        }
        if config.settings.contains_key("panic") {
            panic!("init was told to");
        }
        Ok(Misbehave {
            calls: 0,
            app: config.app.clone(),
            greeting: config.setting("greeting", String::new())?,
            last: 0,
            vf: config.settings.get("vf").and_then(|v| v.parse().ok()).map_or(0, |v: u64| v + 1),
        })
    }

    fn call(&mut self, args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
        self.calls += 1;
        if args.is_empty() {
            return Ok(());
        }
        let [mode] = args.array_at(0)?;
        let mode =
            *MODES.get(usize::from(mode)).ok_or_else(|| DriverError::bad_args("no such mode"))?;
        match mode {
            Mode::Echo => out.put(&args.to_vec(1 << 20)?[1..]),
            Mode::Crash => std::process::abort(),
            Mode::Hang => loop {
                std::thread::sleep(Duration::from_secs(1));
            },
            Mode::Code => Err(DriverError::new(args.u32_at(1)? as i32, SENTENCE)),
            Mode::TooLarge => {
                let most = out.capacity();
                out.write_at(most, &[1])
            }
            Mode::Panic => panic!("the test driver was told to panic"),
            Mode::Sleep => {
                std::thread::sleep(Duration::from_millis(args.u32_at(1)?.into()));
                Ok(())
            }
            Mode::Count => out.put_u64(self.calls),
            Mode::Fill => {
                let n = args.u32_at(1)? as usize;
                let bytes: Vec<u8> = (0..n.min(1 << 20)).map(|i| (i % 251) as u8).collect();
                out.put(&bytes)
            }
            Mode::Fault => out.put_u64(overflow(std::hint::black_box(0))),
            Mode::Whoami => {
                out.put(self.app.as_bytes())?;
                out.write_at(self.app.len() + 1, self.greeting.as_bytes())
            }
            Mode::Spin => {
                let time = Duration::from_millis(args.u32_at(1)?.into());
                let start = Instant::now();
                while start.elapsed() < time {
                    std::hint::spin_loop();
                }
                Ok(())
            }
            Mode::Ledger => ledger::enter(args, out),
            Mode::Order => {
                let call = args.u64_at(8)?;
                let before = std::mem::replace(&mut self.last, call);
                let words = [call, before, self.calls, u64::from(std::process::id()), self.vf];
                out.put(&words.map(u64::to_le_bytes).concat())
            }
        }
    }

    fn rst(&mut self) -> Result<(), DriverError> {
        self.calls = 0;
        Ok(())
    }
}

vfun_sdk::export_driver!(
    Misbehave,
    name = "misbehave",
    version = (1, 0),
    max_args = 1 << 20,
    max_result = 1 << 20,
);
