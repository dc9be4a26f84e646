//! The vFunction `fibonacci` on a simulated FPGA; `functions/fibonacci` says what it
//! computes. There is no hardware: the device is RTL, run by Verilator.

vfun_fpga::export_fpga_driver!(vfun_fpga::sim::SimulatedVf, Fibonacci);
