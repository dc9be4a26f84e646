//! The device's side: VFs that keep something of their calls, take their time,
//! and can be made to fail.
//!
//! A service is a process of its own, so it has a device of its own, as if each
//! had a board; how many VFs are in use on all of them is the manager's account.
//! With the setting `board`, a file, what VFs keep is in that file, and outlives
//! services, as a real device's memory does.

use crate::arguments::{Call, Told};
use crate::limits::VFS;
use crate::settings::{Fault, Times};
use crate::sum::of_call;
use crate::wait::Waiter;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Instant;
use vfun_sdk::{Args, BAD_SETTING, Config, Driver, DriverError, Out};

/// The device was reset while it computed the call, on purpose (`fault = "reset"`). Call again.
pub const DEVICE_RESET: i32 = 1;
/// No VF is free, or that one is taken.
pub const NO_VF: i32 = 5;

/// What a VF keeps: all of it is gone when it is scrubbed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kept {
    /// The last arguments, and the last result.
    registers: [u64; 4],
    calls: u64,
}

/// Bytes of one VF in the file that is a board's memory.
const KEPT_BYTES: usize = 40;

impl Kept {
    fn from_bytes(bytes: &[u8; KEPT_BYTES]) -> Self {
        let word = |i: usize| {
            u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight of forty"))
        };
        Kept { registers: [0, 1, 2, 3].map(word), calls: word(4) }
    }

    fn to_bytes(&self) -> [u8; KEPT_BYTES] {
        let mut bytes = [0; KEPT_BYTES];
        let words = self.registers.iter().chain([&self.calls]);
        for (to, word) in bytes.chunks_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

#[derive(Default)]
struct Vf {
    taken: bool,
    kept: Kept,
}

#[derive(Default)]
struct Board {
    vfs: Vec<Vf>,
    /// Calls of all VFs: what a fault comes after.
    calls: u64,
    gone: bool,
    /// What its VFs keep, if that is to outlive this process.
    memory: Option<File>,
}

static BOARD: Mutex<Board> =
    Mutex::new(Board { vfs: Vec::new(), calls: 0, gone: false, memory: None });

impl Board {
    /// What a VF keeps from now on.
    fn keep(&mut self, vf: u16, kept: Kept) -> Result<(), DriverError> {
        if let Some(file) = &self.memory {
            file.write_all_at(&kept.to_bytes(), u64::from(vf) * KEPT_BYTES as u64)
                .map_err(|e| no_memory(&e))?;
        }
        self.vfs[usize::from(vf)].kept = kept;
        Ok(())
    }

    /// What a VF is found to keep.
    fn found(&self, vf: u16) -> Result<Kept, DriverError> {
        let Some(file) = &self.memory else { return Ok(self.vfs[usize::from(vf)].kept.clone()) };
        let mut bytes = [0; KEPT_BYTES];
        match file.read_exact_at(&mut bytes, u64::from(vf) * KEPT_BYTES as u64) {
            Ok(()) => Ok(Kept::from_bytes(&bytes)),
            // Nobody was on it yet.
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(Kept::default()),
            Err(e) => Err(no_memory(&e)),
        }
    }
}

fn no_memory(e: &std::io::Error) -> DriverError {
    DriverError::new(BAD_SETTING, format!("the board's memory (board): {e}"))
}

fn board() -> MutexGuard<'static, Board> {
    // A call that panicked has left numbers behind, and no more.
    BOARD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gone() -> DriverError {
    DriverError::device_lost("the modelled device is gone, as it was told to (fault)")
}

/// The driver of a VF.
pub struct Device {
    vf: u16,
    times: Times,
    waiter: Waiter,
    fault: (Fault, u64),
}

impl Driver for Device {
    /// `vf`: which one; without it one that is free.
    fn init(config: &Config) -> Result<Self, DriverError> {
        let (times, fault) = (Times::of(config, "hardware")?, Fault::of(config)?);
        let asked = match config.settings.contains_key("vf") {
            true => Some(config.setting("vf", 0u16)?),
            false => None,
        };
        if let Some(path) = config.settings.get("board") {
            let file = File::options().read(true).write(true).open(path);
            board().memory = Some(file.map_err(|e| no_memory(&e))?);
        }
        let vf = take(asked)?;
        // Into the service's log, once: a channel comes and goes with each lease.
        // Whether somebody reads it is not our affair.
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            let _ = writeln!(
                std::io::stderr(),
                "model: {} has VFs of a modelled device (simulated, no hardware)",
                config.client
            );
        });
        Ok(Device { vf, times, waiter: Waiter::default(), fault })
    }

    fn call(&mut self, args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
        let start = Instant::now();
        let call = Call::read(args)?;
        let sum = of_call(call.number, call.units, args)?;
        let calls = {
            let mut board = board();
            self.fail(&mut board)?;
            let calls = board.vfs[usize::from(self.vf)].kept.calls + 1;
            let registers = [call.number, call.units.into(), call.data as u64, sum];
            board.keep(self.vf, Kept { registers, calls })?;
            calls
        };
        self.waiter.wait(start, self.times.time(call.units, call.data));
        let ns = start.elapsed().as_nanos() as u64;
        call.answer(sum, Told { vf: Some(self.vf), calls, ns }, out)
    }

    fn rst(&mut self) -> Result<(), DriverError> {
        scrub(&mut board(), self.vf)
    }
}

impl Device {
    /// Fails where it was told to.
    fn fail(&self, board: &mut Board) -> Result<(), DriverError> {
        if board.gone {
            return Err(gone());
        }
        board.calls += 1;
        let (fault, after) = self.fault;
        if board.calls <= after {
            return Ok(());
        }
        match fault {
            Fault::None => Ok(()),
            Fault::Reset if board.calls == after + 1 => {
                scrub(board, self.vf)?;
                Err(DriverError::new(
                    DEVICE_RESET,
                    "the modelled device was reset under this call, as it was told to (fault); call again",
                ))
            }
            Fault::Reset => Ok(()),
            Fault::Lost => {
                board.gone = true;
                Err(gone())
            }
            Fault::Crash => std::process::abort(),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let mut board = board();
        // One that cannot be scrubbed is refused to the next one, which looks.
        let _ = scrub(&mut board, self.vf);
        board.vfs[usize::from(self.vf)].taken = false;
    }
}

fn scrub(board: &mut Board, vf: u16) -> Result<(), DriverError> {
    board.keep(vf, Kept::default())
}

/// A scrubbed VF.
fn take(asked: Option<u16>) -> Result<u16, DriverError> {
    let mut board = board();
    if board.gone {
        return Err(gone());
    }
    let free = |board: &Board, vf: u16| board.vfs.get(usize::from(vf)).is_none_or(|v| !v.taken);
    let vf = match asked {
        Some(vf) if vf >= VFS => {
            return Err(DriverError::new(
                NO_VF,
                format!("there is no VF {vf}: {VFS} are modelled"),
            ));
        }
        Some(vf) if free(&board, vf) => vf,
        Some(vf) => return Err(DriverError::new(NO_VF, format!("VF {vf} is taken"))),
        None => (0..VFS)
            .find(|vf| free(&board, *vf))
            .ok_or_else(|| DriverError::new(NO_VF, "no VF is free"))?,
    };
    if board.vfs.len() <= usize::from(vf) {
        board.vfs.resize_with(usize::from(vf) + 1, Vf::default);
    }
    let found = board.found(vf)?;
    assert_eq!(found, Kept::default(), "VF {vf} was given back without being scrubbed");
    board.vfs[usize::from(vf)].taken = true;
    Ok(vf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Software, arguments, checksum, read_result};
    use vfun_sdk::abi::DEVICE_LOST;

    /// The board is one for a process, as in a service.
    static ALONE: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        *board() = Board::default();
        alone
    }

    fn config(settings: &[(&str, &str)]) -> Config {
        let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Config { settings, ..Config::default() }
    }

    fn call(
        driver: &mut impl Driver,
        number: u64,
        data: &[u8],
        tell: bool,
    ) -> Result<Vec<u8>, DriverError> {
        let mut room = [0; 64];
        let mut out = Out::private(&mut room);
        driver.call(&Args::private(&arguments(number, 3, tell, data)), &mut out)?;
        let len = out.len();
        Ok(room[..len].to_vec())
    }

    #[test]
    fn both_sides_compute_the_same_bits() {
        let _alone = alone();
        let mut software = Software::init(&config(&[("software_ns", "1000")])).unwrap();
        let mut device = Device::init(&config(&[("hardware_ns", "1000")])).unwrap();
        for number in 0..200u64 {
            let data: Vec<u8> = (0..number * 37).map(|i| (i ^ number) as u8).collect();
            let results = [
                call(&mut software, number, &data, false).unwrap(),
                call(&mut device, number, &data, false).unwrap(),
            ];
            assert_eq!(results[0], results[1]);
            assert_eq!(results[0], checksum(number, 3, &data).to_le_bytes());
        }
    }

    #[test]
    fn a_call_that_asks_is_told_where_it_ran() {
        let _alone = alone();
        let mut software = Software::init(&config(&[])).unwrap();
        let mut device = Device::init(&config(&[("vf", "7"), ("hardware_ns", "2000")])).unwrap();
        for calls in 1..4 {
            let (sum, told) = read_result(&call(&mut software, 1, b"x", true).unwrap()).unwrap();
            assert_eq!((sum, told.unwrap().vf), (checksum(1, 3, b"x"), None));
            assert_eq!(told.unwrap().calls, calls);
            let (_, told) = read_result(&call(&mut device, 1, b"x", true).unwrap()).unwrap();
            let told = told.unwrap();
            assert_eq!((told.vf, told.calls), (Some(7), calls));
            assert!(told.ns >= 2000, "{told:?}");
        }
        device.rst().unwrap();
        let (_, told) = read_result(&call(&mut device, 1, b"x", true).unwrap()).unwrap();
        assert_eq!(told.unwrap().calls, 1);
    }

    #[test]
    fn a_vf_is_scrubbed_before_the_next_one_gets_it() {
        let _alone = alone();
        let mut first = Device::init(&config(&[("vf", "0")])).unwrap();
        call(&mut first, 0xdead_beef, b"secret", false).unwrap();
        assert_eq!(board().vfs[0].kept.registers[0], 0xdead_beef);
        let e = Device::init(&config(&[("vf", "0")])).err().unwrap();
        assert_eq!(e.code, NO_VF, "{e}");
        drop(first);
        assert_eq!(board().vfs[0].kept, Kept::default());
        drop(Device::init(&config(&[("vf", "0")])).unwrap());
        // Without a number: one that is free.
        let two = [0, 1].map(|_| Device::init(&config(&[])).unwrap());
        assert_eq!(two.each_ref().map(|d| d.vf), [0, 1]);
    }

    #[test]
    fn it_fails_as_it_is_told() {
        let _alone = alone();
        let settings = |fault| config(&[("fault", fault), ("fault_after", "2")]);
        let mut device = Device::init(&settings("reset")).unwrap();
        let codes = |device: &mut Device| {
            [1, 2, 3, 4].map(|n| call(device, n, b"", false).map_or_else(|e| e.code, |_| 0))
        };
        assert_eq!(codes(&mut device), [0, 0, DEVICE_RESET, 0]);
        drop(device);
        *board() = Board::default();
        let mut device = Device::init(&settings("lost")).unwrap();
        assert_eq!(codes(&mut device), [0, 0, DEVICE_LOST, DEVICE_LOST]);
        let e = Device::init(&settings("lost")).err().unwrap();
        assert_eq!(e.code, DEVICE_LOST);
        for bad in [("fault", "x"), ("hardware_ns", "-1"), ("hardware_ns", "nan"), ("vf", "2000")] {
            assert!(Device::init(&config(&[bad])).is_err(), "{bad:?}");
        }
    }
}
