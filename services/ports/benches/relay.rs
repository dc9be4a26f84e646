//! What a frame costs the relaying thread: its processor time over the frames that it relayed,
//! each way, with a socket in the place of the device. A socket's system calls are most of
//! it, so those are measured beside it, alone. A small measurement: one machine, one run, and
//! whatever else runs there. A real device's calls cost something else.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Guest, LONGEST, device, frame, until};
use std::time::Instant;
use vfun_ports::{Ports, facts};

const RING: u64 = 1 << 20;
const FRAMES: u64 = 200_000;

/// Nanoseconds that the relaying thread has run.
fn ran() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let relay = tasks.map(|t| t.path()).find(|path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == "ch ports")
    });
    let words = std::fs::read_to_string(relay.unwrap().join("schedstat")).unwrap();
    words.split(' ').next().unwrap().parse().unwrap()
}

/// From the VM: ns of the thread's for each frame.
fn out(bytes: usize) -> u64 {
    let ports = Ports::new().unwrap();
    let mut guest = Guest::new(5, RING);
    let (tap, outside) = device();
    let held = guest.serve(&ports, tap);
    let (from, one) = (ran(), frame(1, bytes));
    let fact = |at: usize| held.counts().unwrap().facts[at];
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut to_send = FRAMES;
            while to_send > 0 {
                let mut burst = 0;
                while burst < 32 && burst < to_send && guest.sender.put(&one).is_ok() {
                    burst += 1;
                }
                guest.publish();
                to_send -= burst;
            }
        });
        while fact(facts::FRAMES_OUT) + fact(facts::REFUSED) < FRAMES {
            while !outside.is_empty() {
                outside.receive();
            }
        }
    });
    let refused = fact(facts::REFUSED);
    println!("  ({refused} of {FRAMES} found no room in the socket)");
    (ran() - from) / FRAMES
}

/// To the VM.
fn inward(bytes: usize) -> u64 {
    let ports = Ports::new().unwrap();
    let mut guest = Guest::new(5, RING);
    let (tap, outside) = device();
    let held = guest.serve(&ports, tap);
    let (from, one) = (ran(), frame(1, bytes));
    let mut to = vec![0; LONGEST];
    std::thread::scope(|scope| {
        scope.spawn(|| (0..FRAMES).for_each(|_| outside.send(&one)));
        let fact = |at: usize| held.counts().unwrap().facts[at];
        until("all came", || {
            while guest.receiver.next(&mut to).is_some() {}
            guest.receiver.take();
            fact(facts::FRAMES_IN) + fact(facts::FULL) == FRAMES
        });
    });
    let full = held.counts().unwrap().facts[facts::FULL];
    println!("  ({full} of {FRAMES} found no room in the ring)");
    (ran() - from) / FRAMES
}

/// One write and one read of a socket, in turn: ns of both together.
fn calls(bytes: usize) -> u64 {
    let ((tap, outside), one) = (device(), frame(1, bytes));
    let (mut to, from) = (vec![0; LONGEST + 1], Instant::now());
    for _ in 0..FRAMES {
        outside.send(&one);
        rustix::io::read(&tap, &mut to).unwrap();
    }
    from.elapsed().as_nanos() as u64 / FRAMES
}

fn main() {
    for bytes in [60, 1514, LONGEST] {
        println!("frames of {bytes} bytes");
        println!("  from the VM: {} ns of the relaying thread a frame", out(bytes));
        println!("  to the VM: {} ns of the relaying thread a frame", inward(bytes));
        println!(
            "  beside it: one write and one read of the socket, alone, together {} ns",
            calls(bytes)
        );
    }
}
