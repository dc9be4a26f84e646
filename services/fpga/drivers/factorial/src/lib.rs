//! The vFunction `factorial` on a simulated FPGA; `functions/factorial` says what it
//! computes. There is no hardware: the device is RTL, run by Verilator.

vfun_fpga::export_fpga_driver!(vfun_fpga::sim::SimulatedVf, Factorial);
