//! The simulated device: the SystemVerilog of `rtl/` as C++ that Verilator made
//! of it. There is no hardware: it is a model in this process's memory, slow,
//! and exact to the bit and the clock cycle.
//!
//! Each process has one device at most (and another for each kind of fault that
//! is asked for), made when its first VF is claimed and gone with the last. Its VFs are shared out among the process's channels;
//! its clock runs while one of them waits for it or moves a register.

#[cfg(not(vfun_fpga_model))]
mod absent;
mod axi;
#[cfg(vfun_fpga_model)]
mod ffi;
pub mod pins;

#[cfg(not(vfun_fpga_model))]
use absent::Model;
pub use axi::{Master, Refused, Silent};
#[cfg(vfun_fpga_model)]
use ffi::Model;

use crate::limits::{PAUSE_CYCLES, RUN_CYCLES, WINDOW_BYTES};
use crate::registers::{CONTROL, CONTROL_RESET, VF};
use crate::{Bsp, BspError, OpenBsp, settings};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use vfun_sdk::{BAD_SETTING, Config, DriverError};

/// A simulated device with its VFs. Clones of the `Arc` share it.
pub struct Device {
    /// Whoever wants the device queues here, so that a channel that computes
    /// does not take it again and again before others.
    queue: Mutex<()>,
    master: Mutex<Master>,
    taken: Mutex<Vec<bool>>,
}

/// A lock whose holder panicked is as good as any: the model is whole between
/// cycles, and the table after each line.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// A device of one's own. `fault`: bits of `pins::FAULT_*`.
    pub fn new(fault: u8) -> Result<Arc<Self>, BspError> {
        // The healthy port says how many VFs there are; faults come after.
        let count = {
            let mut healthy = Master::new(0).map_err(BspError::Absent)?;
            let word = healthy.read(VF as u16).map_err(|Silent| BspError::Silent)?;
            word.map_err(|Refused| BspError::Refused { register: VF, written: false })? >> 16
        };
        let master = Master::new(fault).map_err(BspError::Absent)?;
        Ok(Arc::new(Device {
            queue: Mutex::new(()),
            master: Mutex::new(master),
            taken: Mutex::new(vec![false; count as usize]),
        }))
    }

    /// How many VFs it has.
    pub fn vfs(&self) -> u32 {
        lock(&self.taken).len() as u32
    }

    /// The device's port, held until the guard goes: for tests.
    pub fn port(&self) -> MutexGuard<'_, Master> {
        let turn = lock(&self.queue);
        let master = lock(&self.master);
        drop(turn);
        master
    }

    /// Claims VF `number`, or any that is free.
    pub fn claim(self: &Arc<Self>, number: Option<u32>) -> Result<SimulatedVf, BspError> {
        let mut taken = lock(&self.taken);
        let count = taken.len();
        let free = match number {
            Some(n) if n as usize >= count => {
                return Err(BspError::Absent(format!("no VF {n}: the device has {count}")));
            }
            Some(n) if taken[n as usize] => {
                return Err(BspError::Taken(format!("VF {n} of the simulated FPGA is in use")));
            }
            Some(n) => n as usize,
            None => taken.iter().position(|t| !t).ok_or_else(|| {
                BspError::Taken(format!("all {count} VFs of the simulated FPGA are in use"))
            })?,
        };
        taken[free] = true;
        Ok(SimulatedVf { device: self.clone(), number: free as u16 })
    }
}

/// One VF of a simulated device; given back when dropped.
pub struct SimulatedVf {
    device: Arc<Device>,
    number: u16,
}

impl SimulatedVf {
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Where a register is on the port.
    fn address(&self, register: u32) -> Result<u16, BspError> {
        if register >= WINDOW_BYTES {
            return Err(BspError::OutOfWindow { register });
        }
        Ok(self.number * WINDOW_BYTES as u16 + register as u16)
    }

    fn line(&self) -> u8 {
        1 << self.number
    }
}

impl Bsp for SimulatedVf {
    fn describe(&self) -> String {
        let (n, count) = (self.number, self.device.vfs());
        format!("a simulated FPGA (RTL run by Verilator, no hardware), VF {n} of {count}")
    }

    fn read(&mut self, register: u32) -> Result<u32, BspError> {
        let address = self.address(register)?;
        match self.device.port().read(address) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Refused)) => Err(BspError::Refused { register, written: false }),
            Err(Silent) => Err(BspError::Silent),
        }
    }

    fn write(&mut self, register: u32, value: u32) -> Result<(), BspError> {
        self.stream(register, &[value])
    }

    fn stream(&mut self, register: u32, words: &[u32]) -> Result<(), BspError> {
        let address = self.address(register)?;
        match self.device.port().write_all(address, words) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Refused)) => Err(BspError::Refused { register, written: true }),
            Err(Silent) => Err(BspError::Silent),
        }
    }

    fn pause(&mut self) -> Result<(), BspError> {
        self.device.port().run(PAUSE_CYCLES, self.line());
        Ok(())
    }

    fn wait(&mut self) -> Result<(), BspError> {
        self.device.port().run(RUN_CYCLES, self.line());
        Ok(())
    }

    fn reset(&mut self) -> Result<(), BspError> {
        self.write(CONTROL, CONTROL_RESET)
    }
}

impl Drop for SimulatedVf {
    fn drop(&mut self) {
        // One that cannot be scrubbed is lent to nobody any more.
        if self.reset().is_ok() {
            lock(&self.device.taken)[usize::from(self.number)] = false;
        }
    }
}

/// This process's devices, by fault; all but the first are for tests.
static DEVICES: Mutex<[Weak<Device>; 3]> = Mutex::new([const { Weak::new() }; 3]);

impl OpenBsp for SimulatedVf {
    /// Settings: `fpga_vf` (a number, or `any`), and `fpga_fault`: `none`,
    /// `cores` (no computation ends) or `port` (nothing answers), to see what
    /// becomes of calls on a device that fails.
    fn open(config: &Config) -> Result<Self, DriverError> {
        let fault = match config.settings.get("fpga_fault").map_or("none", String::as_str) {
            "none" => 0,
            "cores" => pins::FAULT_CORES,
            "port" => pins::FAULT_PORT,
            other => {
                return Err(DriverError::new(
                    BAD_SETTING,
                    format!("fpga_fault = \"{other}\" is not one of \"none\", \"cores\", \"port\""),
                ));
            }
        };
        let number = settings::vf(config)?;
        let mut of_process = lock(&DEVICES);
        let kept = &mut of_process[usize::from(fault)];
        let device = match kept.upgrade() {
            Some(device) => device,
            None => {
                let device = Device::new(fault)?;
                *kept = Arc::downgrade(&device);
                device
            }
        };
        Ok(device.claim(number)?)
    }
}
