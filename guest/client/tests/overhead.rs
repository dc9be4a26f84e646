//! What the library adds to the raw ring, over one and the same service. Not
//! a check: `cargo test --release -p vfun --test overhead -- --ignored --nocapture`.

mod fake;

use fake::Fake;
use std::hint::black_box;
use std::time::Instant;
use vfun_ring::{Caller, Looked, Next, Server, WindowMemory};
use vfun_wire::channel::Command;

const BATCH: u32 = 2_000;
const ROUNDS: usize = 50;
const TURNS: usize = 12;
const BATCHES: usize = 30;

fn batch(mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..BATCH {
        call();
    }
    start.elapsed().as_nanos() as f64 / f64::from(BATCH)
}

fn summary(mut ns: Vec<f64>) -> String {
    ns.sort_by(f64::total_cmp);
    format!("best {:.0}, quarter {:.0}, median {:.0} ns", ns[0], ns[ns.len() / 4], ns[ns.len() / 2])
}

#[test]
#[ignore = "measures; says nothing in a debug build or on a busy machine"]
fn overhead_of_the_library() {
    let fake = Fake::honest();
    let s = fake.connect();
    let f = s.function("echo").unwrap();
    let raw_function = s.function("echo").unwrap();
    let g = fake.host.places.lock().unwrap()[1].1;
    let side = g.side_bytes.get() as usize;
    let part = |off: u64| fake.host.window.part(off as usize, side).unwrap();
    let memory = WindowMemory::new(part(g.dataout_off.get()), part(g.datain_off.get()).reader()).unwrap();
    let raw = Caller::new(memory, g.depth.get(), g.cell_bytes.get());
    for len in [8usize, 48] {
        let args = vec![3; len];
        let mut room = [0; 64];
        let (mut a, mut b) = (vec![], vec![]);
        // In turns, each long enough for the other's service to fall asleep.
        for round in 0..TURNS * BATCHES {
            // The same work, none of it left out by the compiler.
            let mut call = || {
                let ticket = raw.post_inline(raw.claim().unwrap(), Command::Set, black_box(&args));
                if raw.seems_asleep() {
                    fake.host.to_host[1].ring();
                }
                let answer = loop {
                    match raw.look(&ticket) {
                        Looked::NotYet => vfun_window::pause(),
                        Looked::Done(answer) => break answer,
                        other => panic!("{other:?}"),
                    }
                };
                let n = answer.len as usize;
                black_box(&mut room)[..n].copy_from_slice(&answer.inline[..n]);
                raw.take(ticket);
            };
            if (round / BATCHES).is_multiple_of(2) {
                a.push(batch(&mut call));
            } else {
                b.push(batch(|| assert_eq!(f.call_into(&args, &mut room).unwrap(), len)));
            }
        }
        println!("{len} bytes, raw ring: {}", summary(a));
        println!("{len} bytes, call_into: {}", summary(b));
    }
    for len in [200usize, 4096] {
        let args = vec![3; len];
        let mut room = [0; 4096];
        let b = (0..ROUNDS).map(|_| batch(|| assert_eq!(f.call_into(&args, &mut room).unwrap(), len))).collect();
        println!("{len} bytes, call_into: {}", summary(b));
    }
    let c = (0..ROUNDS).map(|_| {
        let mut room = [0; 64];
        batch(|| {
            let all: [_; 8] = std::array::from_fn(|_| f.submit(&[1; 8]).unwrap());
            all.into_iter().for_each(|p| assert_eq!(p.wait_into(&mut room).unwrap(), 8));
        }) / 8.0
    });
    println!("8 in flight, a call: {}", summary(c.collect()));
    drop(raw_function);
}

/// Both sides in one thread, turn by turn: what is compared is the
/// instructions alone, which a busy machine disturbs least.
#[test]
#[ignore = "measures; says nothing in a debug build"]
fn instructions_of_the_library() {
    let fake = Fake::honest();
    fake.host.idle_services.store(true, std::sync::atomic::Ordering::SeqCst);
    let s = fake.connect();
    let (f, _raw_function) = (s.function("echo").unwrap(), s.function("echo").unwrap());
    std::thread::sleep(std::time::Duration::from_millis(20));
    let places = fake.host.places.lock().unwrap();
    let sides = |i: usize| {
        let g = &places[i].1;
        let part = |off: u64| fake.host.window.part(off as usize, g.side_bytes.get() as usize).unwrap();
        (part(g.dataout_off.get()), part(g.datain_off.get()))
    };
    let server = |i| {
        let (out, inn) = sides(i);
        Server::new(WindowMemory::new(inn, out.reader()).unwrap(), 64, 4096)
    };
    let serve = |server: &mut Server<WindowMemory>| match server.next() {
        Next::Call(r) => server.answer_inline(r.cell, vfun_wire::Status::Ok, &r.inline[..r.len as usize]),
        other => panic!("{other:?}"),
    };
    let (mut mine, mut theirs) = (server(1), server(0));
    let (out, inn) = sides(1);
    let raw = Caller::new(WindowMemory::new(out, inn.reader()).unwrap(), 64, 4096);
    for len in [8usize, 48] {
        let args = vec![3; len];
        let mut room = [0; 64];
        let (mut a, mut b) = (vec![], vec![]);
        for _ in 0..2_000 {
            a.push(batch(|| {
                let ticket = raw.post_inline(raw.claim().unwrap(), Command::Set, &args);
                assert!(!raw.seems_asleep());
                serve(&mut mine);
                let Looked::Done(answer) = raw.look(&ticket) else { panic!() };
                room[..len].copy_from_slice(&answer.inline[..len]);
                raw.take(ticket);
            }));
            b.push(batch(|| {
                let pending = f.submit(&args).unwrap();
                serve(&mut theirs);
                assert_eq!(pending.wait_into(&mut room).unwrap(), len);
            }));
        }
        println!("{len} bytes, raw ring, one thread: {}", summary(a));
        println!("{len} bytes, submit and wait_into, one thread: {}", summary(b));
    }
}
