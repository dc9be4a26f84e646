//! What the kernel module costs a call: null calls through it and without it,
//! in turn, in one guest; and from loading it to the first call's result.
//!
//!   cargo run --release -p vfun-tests-vm --example module-cost -- [ROUNDS [CPU]]

use vfun_tests_local::Stand;
use vfun_tests_vm::module::{MODULE, doorbell_client};
use vfun_tests_vm::users::user_config;
use vfun_tests_vm::{LONG, boot};

fn main() {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(5, |n| n.parse().expect("a number of rounds"));
    let stand = Stand::start();
    let mut config = user_config("cost");
    (config.pin, config.cpus) = (args.next(), 1);
    config.doorbells = vec![doorbell_client(&stand, "vm1", "")];
    let guest = boot(&config);
    let run = |script: &str| guest.run_ok(script, LONG).unwrap_or_else(|e| panic!("{e}"));
    for _ in 0..rounds {
        println!("raw     {}", run("vfun-vm-app null 4000 2>/dev/null"));
        // The shell's own time is in it too: starting two programs.
        let took = run(&format!(
            "start=$(cut -d' ' -f1 /proc/uptime); insmod {MODULE}; first=$(vfun-vm-app first); \
             end=$(cut -d' ' -f1 /proc/uptime); echo $first us, whole $start to $end"
        ));
        println!("module  {}", run("vfun-vm-app null 4000 2>/dev/null"));
        println!("load to first call: connect to result {took} s");
        run("rmmod vfun");
    }
}
