//! The high-level driver: the same for every board.

use crate::limits::{BLOCK_BYTES, DATA_BYTES};
use crate::registers::*;
use crate::{Bsp, BspError, FpgaError};
use std::time::{Duration, Instant};
use vfun_sdk::{Args, DriverError, Out};

/// What the device can compute; the values are those of its register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Function {
    /// n! modulo 2^64, some times over.
    Factorial = 1,
    /// The nth Fibonacci number modulo 2^64, some times over.
    Fibonacci = 2,
    /// The SHA-256 digest.
    Sha256 = 3,
}

impl Function {
    pub const fn name(self) -> &'static str {
        match self {
            Function::Factorial => "factorial",
            Function::Fibonacci => "fibonacci",
            Function::Sha256 => "sha256",
        }
    }
    /// Longest arguments, bytes: as in software.
    pub const fn max_args(self) -> u32 {
        match self {
            Function::Factorial | Function::Fibonacci => 16,
            Function::Sha256 => DATA_BYTES,
        }
    }
    /// Longest results of a call, bytes.
    pub const fn max_result(self) -> u32 {
        match self {
            Function::Factorial | Function::Fibonacci => 8,
            Function::Sha256 => 32,
        }
    }
}

/// One function on one VF. Used by one thread at a time.
pub struct DeviceDriver<B: Bsp> {
    bsp: B,
    function: Function,
    answer_within: Duration,
    /// The last call left the VF in an unknown state.
    broken: bool,
}

/// Sets a VF up for a function: scrubs it, and checks that it is such a device.
/// `answer_within`: how long it may compute, or take no data, before a call fails.
pub fn device_driver_init<B: Bsp>(
    bsp: B,
    function: Function,
    answer_within: Duration,
) -> Result<DeviceDriver<B>, FpgaError> {
    let mut driver = DeviceDriver { bsp, function, answer_within, broken: true };
    driver.identify()?;
    driver.prepare()?;
    Ok(driver)
}

/// Scrubs the VF and gives it back. (Dropping the driver does the same and
/// cannot tell whether it worked.)
pub fn device_driver_exit<B: Bsp>(mut driver: DeviceDriver<B>) -> Result<(), FpgaError> {
    Ok(driver.bsp.reset()?)
}

impl<B: Bsp> Drop for DeviceDriver<B> {
    fn drop(&mut self) {
        // A VF that cannot be scrubbed is not lent out again by its BSP, or is
        // scrubbed by whoever takes it up next: `prepare` fails otherwise.
        let _ = self.bsp.reset();
    }
}

impl<B: Bsp> DeviceDriver<B> {
    /// The board's words.
    pub fn describe(&self) -> String {
        self.bsp.describe()
    }

    fn identify(&mut self) -> Result<(), FpgaError> {
        let wrong = |what: String| Err(FpgaError::WrongDevice(what));
        match self.bsp.read(ID)? {
            ID_VALUE => {}
            GONE => return Err(BspError::Gone.into()),
            other => return wrong(format!("no VirtFun device: ID {other:#x}, not {ID_VALUE:#x}")),
        }
        let version = self.bsp.read(VERSION)?;
        if version >> 16 != VERSION_VALUE >> 16 {
            let (has, wants) = (version >> 16, VERSION_VALUE >> 16);
            return wrong(format!(
                "the device's registers are version {has}, the driver's {wants}"
            ));
        }
        if self.bsp.read(FUNCTIONS)? & (1 << self.function as u32) == 0 {
            return wrong(format!("the device has no {}", self.function.name()));
        }
        Ok(())
    }

    /// A scrubbed VF, ready for calls.
    fn prepare(&mut self) -> Result<(), FpgaError> {
        self.broken = true;
        self.bsp.reset()?;
        self.bsp.write(FUNCTION, self.function as u32)?;
        self.bsp.write(IRQ_ENABLE, 1)?;
        self.broken = false;
        Ok(())
    }

    /// `rst`: nothing of earlier calls is left in the VF.
    pub fn rst(&mut self) -> Result<(), FpgaError> {
        self.prepare()
    }

    /// One call. After any error the VF is scrubbed before it computes again.
    pub fn driver_function(
        &mut self,
        args: &Args<'_>,
        out: &mut Out<'_>,
    ) -> Result<(), DriverError> {
        if self.broken {
            self.prepare()?;
        }
        self.broken = true;
        let done = match self.function {
            Function::Factorial | Function::Fibonacci => self.numbers(args, out),
            Function::Sha256 => self.digest(args, out),
        };
        match done {
            Ok(()) => self.broken = false,
            // The sentence says that it was reset: so do it now.
            Err(_) => drop(self.prepare()),
        }
        done
    }

    fn numbers(&mut self, args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
        let numbers = [args.u64_at(0)?, args.u64_at(8)?];
        self.arguments(&numbers)?;
        self.bsp.write(CONTROL, CONTROL_START)?;
        self.done()?;
        let low = self.bsp.read(RESULT)?;
        let high = self.bsp.read(RESULT + 4)?;
        out.put_u64(u64::from(high) << 32 | u64::from(low))
    }

    fn digest(&mut self, args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
        self.arguments(&[args.len() as u64])?;
        self.bsp.write(CONTROL, CONTROL_START)?;
        let mut block = [0; BLOCK_BYTES];
        args.for_each_chunk(0, &mut block, |bytes| Ok(self.send(bytes)?))?;
        self.done()?;
        let mut digest = [0; 32];
        for (i, bytes) in digest.chunks_exact_mut(4).enumerate() {
            bytes.copy_from_slice(&self.bsp.read(DIGEST + 4 * i as u32)?.to_le_bytes());
        }
        out.put(&digest)
    }

    fn arguments(&mut self, numbers: &[u64]) -> Result<(), FpgaError> {
        for (i, &n) in numbers.iter().enumerate() {
            let at = ARGUMENT + 8 * i as u32;
            self.bsp.write(at, n as u32)?;
            self.bsp.write(at + 4, (n >> 32) as u32)?;
        }
        Ok(())
    }

    /// Streams bytes, zero-filled to a whole word at the end, as there is room.
    fn send(&mut self, bytes: &[u8]) -> Result<(), FpgaError> {
        let mut words = [0; BLOCK_BYTES / 4];
        let count = bytes.len().div_ceil(4);
        for (word, four) in words.iter_mut().zip(bytes.chunks(4)) {
            let mut w = [0; 4];
            w[..four.len()].copy_from_slice(four);
            *word = u32::from_le_bytes(w);
        }
        let mut rest = &words[..count];
        let mut since = Instant::now();
        while !rest.is_empty() {
            let late = self.is_late(since);
            let room = self.bsp.read(ROOM)?;
            if room == GONE {
                return Err(BspError::Gone.into());
            }
            if room == 0 {
                late?;
                self.bsp.pause()?;
                continue;
            }
            let (now, later) = rest.split_at(rest.len().min(room as usize));
            self.bsp.stream(STREAM, now)?;
            (rest, since) = (later, Instant::now());
        }
        Ok(())
    }

    /// Waits until the computation is done.
    fn done(&mut self) -> Result<(), FpgaError> {
        let since = Instant::now();
        loop {
            let late = self.is_late(since);
            match self.bsp.read(STATUS)? {
                GONE => return Err(BspError::Gone.into()),
                status if status & STATUS_DONE != 0 => break,
                status if status & STATUS_BUSY == 0 => return Err(FpgaError::Confused { status }),
                _ => {}
            }
            late?;
            self.bsp.wait()?;
        }
        // The line is quiet until the next computation ends.
        Ok(self.bsp.write(IRQ, 1)?)
    }

    /// An error if the device has had its time. Asked before its registers are
    /// read: a driver that was not scheduled for long must not blame the device.
    fn is_late(&self, since: Instant) -> Result<(), FpgaError> {
        if since.elapsed() > self.answer_within {
            return Err(FpgaError::Hung { limit_ms: self.answer_within.as_millis() as u64 });
        }
        Ok(())
    }
}
