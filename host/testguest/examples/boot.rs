//! Boots a guest some times over and says how long it took.
//! `cargo run -p vfun-testguest --example boot -- 5`

use std::time::{Duration, Instant};

use vfun_testguest::{Guest, GuestConfig, GuestError};

fn main() -> Result<(), GuestError> {
    let times = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(3);
    for _ in 0..times {
        let start = Instant::now();
        let guest = Guest::boot(&GuestConfig::new("boot"))?;
        let all = start.elapsed();
        let start = Instant::now();
        guest.run_ok("true", Duration::from_secs(10))?;
        let run = start.elapsed();
        let start = Instant::now();
        guest.run_ok("head -c 8000000 /dev/zero", Duration::from_secs(60))?;
        let big = start.elapsed();
        let (accel, boot) = (guest.accel(), guest.boot_time());
        let start = Instant::now();
        guest.shutdown(Duration::from_secs(20))?;
        println!(
            "{accel}: boot {boot:?} ({all:?} with its making), 'true' {run:?}, 8 MB of output {big:?}, power-off {:?}",
            start.elapsed()
        );
    }
    Ok(())
}
