//! A driver that misbehaves when told to, for tests of services and of the
//! manager. The first argument byte says what to do; see [`Mode`].

pub mod buffer;
mod device;
pub mod late;
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
    /// Answer six u64: the call's number (bytes 8 to 15), the number of the
    /// call before it in this state (0 if none), how many this state has seen,
    /// the process, the setting `vf` + 1 (0 if none), and what the VF's memory
    /// held when this state was made (0 if it had been scrubbed). On a VF the
    /// number is left in that memory.
    Order = 13,
    /// On a VF say that the device is gone; in software as [`Mode::Order`].
    Lose = 14,
    /// As [`Mode::Order`], but works for the microseconds in bytes 4 to 7 first.
    Slow = 15,
    /// Answer the bytes from 5 on later, after the milliseconds in bytes 1 to 4.
    Later = 16,
    /// Fail later, at once, with the code in bytes 1 to 4 and a long sentence.
    LaterCode = 17,
    /// Answer as [`Mode::Fill`], later, at once.
    LaterFill = 18,
    /// Begin, and answer the rest of the arguments on [`Mode::Fire`].
    Hold = 19,
    /// Wait for [`Mode::Fire`] as for an event, and answer the rest of the arguments then.
    Event = 20,
    /// Have another thread answer what this state holds, the last one first. Answer how
    /// many that were, u64.
    Fire = 21,
    /// Answer how many of those that this state holds were cancelled, u64.
    Cancelled = 22,
    /// Let go of what this state holds.
    DropAll = 23,
    /// Say *later* by a handle and answer at once all the same: an empty answer.
    LaterNow = 24,
    /// On a VF say later that the device is gone; in software as [`Mode::Order`].
    LoseLater = 25,
    /// Use a buffer of the app; see [`buffer`].
    Buffer = 26,
    /// Take a handle, answer by it, and fail the call itself at once all the same.
    TakeAndFail = 27,
}

/// The long sentence of [`Mode::Code`].
pub const SENTENCE: &str = "the test driver was told to fail, so it did; nothing is wrong with your arguments or with the driver";

const MODES: [Mode; 28] = [
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
    Mode::Lose,
    Mode::Slow,
    Mode::Later,
    Mode::LaterCode,
    Mode::LaterFill,
    Mode::Hold,
    Mode::Event,
    Mode::Fire,
    Mode::Cancelled,
    Mode::DropAll,
    Mode::LaterNow,
    Mode::LoseLater,
    Mode::Buffer,
    Mode::TakeAndFail,
];

struct Misbehave {
    calls: u64,
    app: String,
    greeting: String,
    last: u64,
    vf: u64,
    /// The VF, while this state is on it.
    device: Option<device::OnVf>,
    kept: late::Kept,
}

/// `n` bytes, at most a megabyte.
fn filled(n: u32) -> Vec<u8> {
    (0..(n as usize).min(1 << 20)).map(|i| (i % 251) as u8).collect()
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
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
        let vf: Option<u64> = config.settings.get("vf").and_then(|v| v.parse().ok());
        let vfs = config.setting("vfs", device::VFS as u64)?;
        Ok(Misbehave {
            calls: 0,
            app: config.app.clone(),
            greeting: config.setting("greeting", String::new())?,
            last: 0,
            vf: vf.map_or(0, |vf| vf + 1),
            device: vf.map(|vf| device::OnVf::new(vf, vfs)).transpose()?,
            kept: late::Kept::default(),
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
            Mode::Fill => out.put(&filled(args.u32_at(1)?)),
            Mode::Fault => out.put_u64(overflow(std::hint::black_box(0))),
            Mode::Whoami => {
                out.put(self.app.as_bytes())?;
                out.write_at(self.app.len() + 1, self.greeting.as_bytes())
            }
            Mode::Spin => {
                spin(Duration::from_millis(args.u32_at(1)?.into()));
                Ok(())
            }
            Mode::Ledger => ledger::enter(args, out),
            Mode::Buffer => buffer::enter(args, out),
            Mode::Lose if self.vf > 0 => Err(DriverError::device_lost("it was told to be gone")),
            Mode::LoseLater if self.vf > 0 => {
                let gone = DriverError::device_lost("it was told to be gone");
                late::after(Duration::from_millis(5), out.later()?, Err(gone));
                Ok(())
            }
            Mode::Later
            | Mode::LaterCode
            | Mode::LaterFill
            | Mode::Hold
            | Mode::Event
            | Mode::Fire
            | Mode::Cancelled
            | Mode::DropAll
            | Mode::LaterNow
            | Mode::TakeAndFail => self.later(mode, args, out),
            Mode::Slow => {
                spin(Duration::from_micros(args.u32_at(4)?.into()));
                self.order(args, out)
            }
            Mode::Order | Mode::Lose | Mode::LoseLater => self.order(args, out),
        }
    }

    fn rst(&mut self) -> Result<(), DriverError> {
        self.calls = 0;
        self.kept.reset();
        Ok(())
    }
}

impl Misbehave {
    /// Says which calls came here, in which order, and where it ran.
    fn order(&mut self, args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
        let call = args.u64_at(8)?;
        let before = std::mem::replace(&mut self.last, call);
        let found = self.device.as_ref().map_or(0, |d| d.keep(call));
        let pid = u64::from(std::process::id());
        let words = [call, before, self.calls, pid, self.vf, found];
        out.put(&words.map(u64::to_le_bytes).concat())
    }

    fn later(&mut self, mode: Mode, args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
        match mode {
            Mode::Later => {
                let time = Duration::from_millis(args.u32_at(1)?.into());
                let answer = args.to_vec(1 << 20)?[5..].to_vec();
                late::after(time, out.later()?, Ok(answer));
            }
            Mode::LaterCode => {
                let e = DriverError::new(args.u32_at(1)? as i32, SENTENCE);
                late::after(Duration::ZERO, out.later()?, Err(e));
            }
            Mode::LaterFill => {
                let answer = filled(args.u32_at(1)?);
                late::after(Duration::ZERO, out.later()?, Ok(answer));
            }
            Mode::Hold => self.kept.keep(out.later()?, args.to_vec(1 << 20)?[1..].to_vec()),
            Mode::Event => self.kept.keep(out.on_event()?, args.to_vec(1 << 20)?[1..].to_vec()),
            Mode::Fire => return out.put_u64(self.kept.fire()),
            Mode::Cancelled => return out.put_u64(self.kept.cancelled()),
            Mode::DropAll => self.kept.drop_all(),
            Mode::TakeAndFail => {
                _ = out.later()?.answer(b"left over");
                return Err(DriverError::new(7, SENTENCE));
            }
            _ => _ = out.later()?.answer(&[]),
        }
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
