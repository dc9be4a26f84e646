//! What the simulation costs on this machine: `cargo run --release -p vfun-fpga
//! --example cost`. It says nothing about hardware.

use std::time::{Duration, Instant};
use vfun_fpga::registers::{CYCLES, STATUS};
use vfun_fpga::sim::Device;
use vfun_fpga::{Bsp, Function, device_driver_init};
use vfun_sdk::{Args, Out};

/// The median of `rounds` rounds, each of `n` times `what`, per time.
fn median(rounds: usize, n: u32, mut what: impl FnMut()) -> Duration {
    let mut all: Vec<_> = (0..rounds)
        .map(|_| {
            let from = Instant::now();
            (0..n).for_each(|_| what());
            from.elapsed() / n
        })
        .collect();
    all.sort();
    all[rounds / 2]
}

fn main() {
    let device = Device::new(0).expect("the simulated device");
    let mut vf = device.claim(Some(0)).expect("a free VF");
    println!("register read       {:?}", median(9, 20_000, || drop(vf.read(STATUS))));
    println!("register write      {:?}", median(9, 20_000, || drop(vf.write(0x40, 5))));
    let cycle = median(9, 10, || {
        device.port().run(10_000, 0);
    }) / 10_000;
    println!("clock cycle, idle   {cycle:?}");
    drop(vf);
    for (function, args, what) in [
        (Function::Factorial, [51u64, 1].map(u64::to_le_bytes).concat(), "factorial(51)"),
        (
            Function::Factorial,
            [51u64, 1000].map(u64::to_le_bytes).concat(),
            "factorial(51), 1000 times",
        ),
        (Function::Fibonacci, [93u64, 1].map(u64::to_le_bytes).concat(), "fibonacci(93)"),
        (Function::Sha256, vec![7; 64], "sha256 of 64 bytes"),
        (Function::Sha256, vec![7; 1 << 16], "sha256 of 64 KiB"),
    ] {
        let vf = device.claim(Some(0)).expect("a free VF");
        let mut driver =
            device_driver_init(vf, function, Duration::from_secs(60)).expect("a device");
        let mut room = [0; 32];
        let mut call = || {
            driver
                .driver_function(&Args::private(&args), &mut Out::private(&mut room))
                .expect("computed");
        };
        let n = if args.len() > 1000 || args[8..].first() == Some(&0xE8) { 5 } else { 2000 };
        let time = median(9, n, &mut call);
        let cycles = {
            // The counter is of the last computation.
            device.port().read(CYCLES as u16).expect("an answer").expect("a register")
        };
        println!("{what:25} {time:?}, {cycles} cycles of the device");
    }
}
