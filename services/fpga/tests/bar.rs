//! The memory-mapped BSP against a plain file that stands in for the BAR, with
//! a thread that plays the device behind it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vfun_fpga::bar::{Bar, Interrupts};
use vfun_fpga::registers::*;
use vfun_fpga::{Bsp, BspError, Function, HUNG, NO_DEVICE, NO_VF, OpenBsp, device_driver_init};
use vfun_sdk::{Args, BAD_SETTING, Config, DriverError, Out};
use vfun_window::Registers;

const LIMIT: Duration = Duration::from_secs(60);

/// A file of two pages: what a device without anything behind it reads.
fn file() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(8192).unwrap();
    file
}

fn registers(path: &Path, page: u64) -> Registers {
    let file = File::options().read(true).write(true).open(path).unwrap();
    Registers::page(&file, page * 4096, 4096).unwrap()
}

/// Plays a device with factorial in `registers` until told to stop: what is
/// written to CONTROL is done and cleared.
fn play(registers: &Registers, stop: &AtomicBool, mut irq: Option<UnixStream>) -> Vec<u32> {
    let mut seen = vec![];
    registers.store32(FUNCTIONS as usize, 1 << Function::Factorial as u32);
    registers.store32(VERSION as usize, VERSION_VALUE);
    registers.store32(ID as usize, ID_VALUE);
    let pair = |at: u32| {
        let half = |at: u32| u64::from(registers.load32(at as usize));
        half(at + 4) << 32 | half(at)
    };
    while !stop.load(Ordering::Acquire) {
        let control = registers.load32(CONTROL as usize);
        if control == 0 {
            std::thread::yield_now();
            continue;
        }
        seen.push(control);
        if control == CONTROL_START {
            let product = (1..=pair(ARGUMENT)).fold(1, u64::wrapping_mul);
            registers.store32(RESULT as usize, product as u32);
            registers.store32(RESULT as usize + 4, (product >> 32) as u32);
            registers.store32(STATUS as usize, STATUS_DONE);
        }
        registers.store32(CONTROL as usize, 0);
        if let (Some(irq), CONTROL_START) = (&mut irq, control) {
            irq.write_all(&1u32.to_ne_bytes()).unwrap();
        }
    }
    seen
}

fn factorial(bsp: &mut impl Bsp, stop: &AtomicBool, n: u64) -> Result<u64, DriverError> {
    // The stand-in does one thing after the other; a real device takes writes
    // at any time.
    struct Patient<'a, B>(&'a mut B, &'a AtomicBool);
    impl<B: Bsp> Bsp for Patient<'_, B> {
        fn describe(&self) -> String {
            self.0.describe()
        }
        fn read(&mut self, register: u32) -> Result<u32, BspError> {
            self.0.read(register)
        }
        fn write(&mut self, register: u32, value: u32) -> Result<(), BspError> {
            if register == CONTROL {
                self.0.write(STATUS, STATUS_BUSY)?;
            }
            self.0.write(register, value)?;
            while register == CONTROL
                && self.0.read(CONTROL)? != 0
                && !self.1.load(Ordering::Acquire)
            {
                std::thread::yield_now();
            }
            Ok(())
        }
        fn wait(&mut self) -> Result<(), BspError> {
            self.0.wait()
        }
        fn reset(&mut self) -> Result<(), BspError> {
            self.write(CONTROL, CONTROL_RESET)
        }
    }
    let mut driver = device_driver_init(Patient(bsp, stop), Function::Factorial, LIMIT)?;
    let mut room = [0; 8];
    let args = [n.to_le_bytes(), 1u64.to_le_bytes()].concat();
    driver.driver_function(&Args::private(&args), &mut Out::private(&mut room))?;
    Ok(u64::from_le_bytes(room))
}

#[test]
fn a_call_goes_through_a_mapped_file() {
    let file = file();
    let device = registers(file.path(), 1);
    let stop = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let played = scope.spawn(|| play(&device, &stop, None));
        while device.load32(ID as usize) != ID_VALUE {
            std::thread::yield_now();
        }
        let mut bar = Bar::open_file(file.path(), 1).unwrap();
        assert!(bar.describe().ends_with("(polled)"), "{}", bar.describe());
        let got = factorial(&mut bar, &stop, 20);
        stop.store(true, Ordering::Release);
        assert_eq!(got, Ok(2_432_902_008_176_640_000));
        played.join().unwrap()
    });
    assert_eq!(seen, [CONTROL_RESET, CONTROL_START, CONTROL_RESET], "scrubbed before and after");
    assert_eq!(registers(file.path(), 0).load32(ID as usize), 0, "the other page is untouched");
}

#[test]
fn an_interrupt_ends_the_wait_and_is_asked_for() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut asked = theirs.try_clone().unwrap();
    let mut interrupts = Interrupts::new(ours.into());
    (&theirs).write_all(&7u32.to_ne_bytes()).unwrap();
    // It would wait for an hour.
    interrupts.wait(Duration::from_secs(3600)).unwrap();
    let mut word = [0; 4];
    asked.read_exact(&mut word).unwrap();
    assert_eq!(word, 1u32.to_ne_bytes(), "as UIO wants it");
    // None comes: it returns all the same.
    interrupts.wait(Duration::from_millis(1)).unwrap();
    asked.read_exact(&mut word).unwrap();
}

#[test]
fn a_call_goes_with_interrupts() {
    let file = file();
    let device = registers(file.path(), 0);
    let stop = AtomicBool::new(false);
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| play(&device, &stop, Some(theirs)));
        while device.load32(ID as usize) != ID_VALUE {
            std::thread::yield_now();
        }
        let interrupts = Some(Interrupts::new(ours.into()));
        let mut bar = Bar::new("stand-in", registers(file.path(), 0), interrupts);
        let got = factorial(&mut bar, &stop, 5);
        stop.store(true, Ordering::Release);
        assert_eq!(got, Ok(120));
    });
}

#[test]
fn what_is_no_such_device_is_refused() {
    let file = file();
    let open = || Bar::open_file(file.path(), 0).unwrap();
    let code = |e| {
        let e = DriverError::from(e);
        (e.code, e.sentence)
    };
    let memory = registers(file.path(), 0);
    let refused = |function| code(device_driver_init(open(), function, LIMIT).err().unwrap());
    assert_eq!(
        refused(Function::Factorial),
        (NO_DEVICE, "no VirtFun device: ID 0x0, not 0x314e4656".into())
    );
    memory.store32(ID as usize, GONE);
    assert_eq!(refused(Function::Factorial).1, "device is gone: it reads all ones");
    memory.store32(ID as usize, ID_VALUE);
    memory.store32(VERSION as usize, 0x0002_0000);
    assert_eq!(
        refused(Function::Factorial).1,
        "the device's registers are version 2, the driver's 1"
    );
    memory.store32(VERSION as usize, VERSION_VALUE | 7);
    memory.store32(FUNCTIONS as usize, 1 << Function::Factorial as u32);
    assert_eq!(refused(Function::Sha256), (NO_DEVICE, "the device has no sha256".into()));
    device_driver_init(open(), Function::Factorial, LIMIT).unwrap();
}

/// The pages of a device that is there and answers `status` for ever.
fn stuck_with(status: u32, function: Function, limit: Duration) -> DriverError {
    let file = file();
    let memory = registers(file.path(), 0);
    for (register, value) in
        [(ID, ID_VALUE), (VERSION, VERSION_VALUE), (FUNCTIONS, 0b1110), (STATUS, status)]
    {
        memory.store32(register as usize, value);
    }
    let bar = Bar::open_file(file.path(), 0).unwrap();
    let mut driver = device_driver_init(bar, function, limit).unwrap();
    let args = Args::private(&[1; 16]);
    driver.driver_function(&args, &mut Out::private(&mut [0; 32])).unwrap_err()
}

#[test]
fn a_device_that_never_answers_vanishes_or_lies_is_an_error() {
    let short = Duration::from_millis(20);
    assert_eq!(stuck_with(STATUS_BUSY, Function::Factorial, short).code, HUNG);
    assert_eq!(stuck_with(STATUS_BUSY, Function::Sha256, short).code, HUNG, "no room for data");
    assert_eq!(stuck_with(0, Function::Factorial, LIMIT).code, vfun_fpga::CONFUSED);
    let gone = stuck_with(GONE, Function::Factorial, LIMIT);
    assert_eq!(
        (gone.code, gone.sentence.as_str()),
        (NO_DEVICE, "device is gone: it reads all ones")
    );
}

#[test]
fn a_file_is_one_processes_alone() {
    let file = file();
    let held = Bar::open_file(file.path(), 0).unwrap();
    let e = Bar::open_file(file.path(), 1).err().unwrap();
    assert!(matches!(e, BspError::Taken(_)), "{e}");
    assert_eq!(DriverError::from(e).code, NO_VF);
    drop(held);
    Bar::open_file(file.path(), 1).unwrap();
}

#[test]
fn offsets_stay_in_the_window() {
    let file = file();
    let mut bar = Bar::open_file(file.path(), 0).unwrap();
    for register in [4093, 4096, u32::MAX] {
        assert!(matches!(bar.read(register), Err(BspError::OutOfWindow { .. })));
        assert!(matches!(bar.write(register, 1), Err(BspError::OutOfWindow { .. })));
    }
    let e = bar.read(2).unwrap_err();
    assert!(matches!(e, BspError::Refused { register: 2, written: false }), "{e}");
    let e = bar.write(2, 1).unwrap_err();
    assert!(matches!(e, BspError::Refused { register: 2, written: true }), "{e}");
    bar.write(4092, 9).unwrap();
    assert_eq!(bar.read(4092).unwrap(), 9);
}

#[test]
fn settings_name_the_file() {
    let open = |settings: &[(&str, &str)]| {
        let settings = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Bar::open(&Config { settings, ..Config::default() })
    };
    let e = open(&[]).err().unwrap();
    assert_eq!(e.code, BAD_SETTING);
    assert!(e.sentence.contains("fpga_path"), "{e}");
    let e = open(&[("fpga_path", "/nowhere/resource0")]).err().unwrap();
    assert_eq!(e.code, NO_DEVICE);
    assert!(e.sentence.contains("/nowhere/resource0"), "{e}");
    let file = file();
    let path = file.path().to_str().unwrap();
    let e = open(&[("fpga_path", path), ("fpga_vf", "2")]).err().unwrap();
    assert!(e.sentence.contains("no registers at 0x2000"), "{e}");
    open(&[("fpga_path", path), ("fpga_vf", "1")]).unwrap();
}
