//! The master end of the simulated device's AXI4-Lite port.

use super::Model;
use super::pins::{Inputs, OKAY, Outputs};
use crate::limits::BUS_CYCLES;

/// The port took or answered nothing for [`BUS_CYCLES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silent;

/// The device refused (SLVERR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// A device and what drives its pins.
pub struct Master {
    model: Model,
    inputs: Inputs,
}

impl Master {
    /// A device after its reset. `fault`: bits of `pins::FAULT_*`.
    pub fn new(fault: u8) -> Result<Self, String> {
        let mut master = Master {
            model: Model::new()?,
            inputs: Inputs { wstrb: 15, fault, ..Inputs::default() },
        };
        master.reset();
        Ok(master)
    }

    /// Resets the whole device: every VF, and the port.
    pub fn reset(&mut self) {
        self.quiet();
        for resetn in [0, 0, 1] {
            self.inputs.resetn = resetn;
            self.model.cycle(&self.inputs);
        }
    }

    fn quiet(&mut self) {
        let Inputs { resetn, fault, .. } = self.inputs;
        self.inputs = Inputs { wstrb: 15, resetn, fault, ..Inputs::default() };
    }

    /// A port that does not answer is left with nothing asked; only a reset
    /// brings it back.
    fn silent<T>(&mut self) -> Result<T, Silent> {
        self.quiet();
        Err(Silent)
    }

    /// One clock cycle with pins of the caller's own.
    pub fn cycle(&mut self, inputs: &Inputs) -> Outputs {
        self.model.cycle(inputs)
    }

    /// What the pins are when nothing is asked.
    pub fn idle(&self) -> Inputs {
        self.inputs
    }

    /// Up to `cycles` clock cycles, fewer if one of `lines` is high.
    pub fn run(&mut self, cycles: u32, lines: u8) -> u32 {
        self.model.run(&self.inputs, cycles, lines)
    }

    /// Every bit of the device's state.
    pub fn state(&mut self) -> Vec<u8> {
        self.model.state()
    }

    /// Reads the register at `address` by the bus's own signals.
    pub fn read(&mut self, address: u16) -> Result<Result<u32, Refused>, Silent> {
        self.inputs.araddr = address;
        self.inputs.arvalid = 1;
        self.inputs.rready = 1;
        for _ in 0..BUS_CYCLES {
            let out = self.model.cycle(&self.inputs);
            if self.inputs.arvalid & out.arready != 0 {
                self.inputs.arvalid = 0;
                self.inputs.araddr = 0;
            }
            if out.rvalid != 0 {
                self.inputs.rready = 0;
                return Ok(if out.rresp == OKAY { Ok(out.rdata) } else { Err(Refused) });
            }
        }
        self.silent()
    }

    /// Writes the register at `address` by the bus's own signals.
    pub fn write(&mut self, address: u16, word: u32) -> Result<Result<(), Refused>, Silent> {
        self.write_all(address, &[word])
    }

    /// Writes words to one address, back to back. Refused if one of them was;
    /// the others were written all the same.
    pub fn write_all(
        &mut self,
        address: u16,
        words: &[u32],
    ) -> Result<Result<(), Refused>, Silent> {
        let (mut addresses, mut data, mut answers) = (0, 0, 0);
        let mut result = Ok(());
        let mut waited = 0;
        self.inputs.bready = 1;
        while answers < words.len() {
            let more = addresses < words.len();
            self.inputs.awvalid = u8::from(more);
            self.inputs.awaddr = if more { address } else { 0 };
            self.inputs.wvalid = u8::from(data < words.len());
            self.inputs.wdata = words.get(data).copied().unwrap_or(0);
            let out = self.model.cycle(&self.inputs);
            addresses += usize::from(self.inputs.awvalid & out.awready);
            data += usize::from(self.inputs.wvalid & out.wready);
            waited += 1;
            if out.bvalid != 0 {
                answers += 1;
                waited = 0;
                if out.bresp != OKAY {
                    result = Err(Refused);
                }
            } else if waited > BUS_CYCLES {
                return self.silent();
            }
        }
        self.quiet();
        Ok(result)
    }
}
