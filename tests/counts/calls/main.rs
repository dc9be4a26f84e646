//! Calls whose instructions `tests/counts.py` counts under callgrind, the caller's and
//! the service's apart, and the lines that calls move, by a model of two caches.
//!
//! Run by itself it makes the same calls, checks what comes back, and prints the lines.
//! `scenario_begins` and `scenario_ends` are where the script cuts; `caller` and
//! `channel::serve` are what it counts.

mod channel;
#[path = "../../../guest/client/tests/fake/mod.rs"]
mod fake;
mod gdma;
mod packets;
mod trap;
mod verbs;

use channel::Channel;
use std::collections::VecDeque;
use std::hint::black_box;
use std::path::PathBuf;
use vfun::{Function, Pending};
use vfun_tests_counts::{Shape, moved};

/// Calls of a scenario that count, after as many that do not. The script divides by it.
const CALLS: usize = 64;
const MOST: usize = 4096;

/// What is counted of the caller.
mod caller {
    use super::*;

    #[inline(never)]
    pub fn call(f: &Function, args: &[u8], room: &mut [u8]) -> usize {
        f.call_into(args, room).unwrap_or_else(|e| failed(&e))
    }

    #[inline(never)]
    pub fn submit<'a>(f: &'a Function, args: &[u8]) -> Pending<'a> {
        f.submit(args).unwrap_or_else(|e| failed(&e))
    }

    #[inline(never)]
    pub fn wait(call: Pending<'_>, room: &mut [u8]) -> usize {
        call.wait_into(room).unwrap_or_else(|e| failed(&e))
    }

    #[cold]
    #[inline(never)]
    fn failed<T>(e: &vfun::Error) -> T {
        panic!("{e}")
    }
}

#[inline(never)]
fn scenario_begins(name: &str) {
    black_box(name);
}

#[inline(never)]
fn scenario_ends(name: &str) {
    black_box(name);
    println!("calls {name}");
}

fn scenario(name: &str, mut call: impl FnMut()) {
    (0..CALLS).for_each(|_| call());
    scenario_begins(name);
    (0..CALLS).for_each(|_| call());
    scenario_ends(name);
}

fn plain(name: &str, c: &Channel, bytes: usize) {
    let (args, mut room) = ([7; MOST], [0; MOST]);
    scenario(name, || {
        room[..bytes].fill(0);
        c.serve_at_first_look();
        assert_eq!(caller::call(&c.function, &args[..bytes], &mut room), bytes);
        assert_eq!(room[..bytes], args[..bytes]);
    });
}

fn in_flight(name: &str, c: &Channel, calls: usize) {
    let mut under_way: VecDeque<_> = (1..calls).map(|_| caller::submit(&c.function, &[])).collect();
    scenario(name, || {
        under_way.push_back(caller::submit(&c.function, &[]));
        c.serve();
        let oldest = under_way.pop_front().expect("just submitted");
        assert_eq!(caller::wait(oldest, &mut []), 0);
    });
    for call in under_way {
        c.serve();
        assert_eq!(caller::wait(call, &mut []), 0);
    }
}

/// Where cargo has put the library of `echo`: beside this program. The one in the folder
/// above is of an earlier build, as this one makes no programs.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("its own path");
    let beside = program.with_file_name("libvfun_fn_echo.so");
    assert!(beside.is_file(), "echo's library is built beside {}", program.display());
    beside
}

fn transfers() {
    let shape = |bytes, in_flight, depth| Shape { bytes, in_flight, depth, polled: false };
    for (name, shape) in [
        ("null", shape(0, 1, 8)),
        ("null, looked for", Shape { polled: true, ..shape(0, 1, 8) }),
        ("48 bytes", shape(48, 1, 8)),
        ("4 KiB", shape(MOST, 1, 8)),
        ("null, 8 in flight", shape(0, 8, 8)),
        ("null, 8 in flight, looked for", Shape { polled: true, ..shape(0, 8, 8) }),
        ("null, 16 in flight", shape(0, 16, 64)),
        ("null, 64 in flight", shape(0, 64, 64)),
        ("48 bytes, 64 in flight", shape(48, 64, 64)),
    ] {
        println!("lines {name} = {}", moved(shape));
    }
}

fn main() {
    transfers();
    let library = library();
    // The default: results may be longer than a line holds.
    let cells = Channel::open(&library, 8, MOST as u32);
    plain("null", &cells, 0);
    plain("48 bytes", &cells, 48);
    plain("4 KiB", &cells, MOST);
    in_flight("null, submit and wait", &cells, 1);
    in_flight("null, 8 in flight", &cells, 8);
    drop(cells);
    let lines = Channel::open(&library, 8, 0);
    plain("null, no data space", &lines, 0);
    plain("48 bytes, no data space", &lines, 48);
    drop(lines);
    let many = Channel::open(&library, 64, 0);
    in_flight("null, no data space, 16 in flight", &many, 16);
    in_flight("null, no data space, 64 in flight", &many, 64);
    gdma::all();
    verbs::all();
    packets::all();
}
