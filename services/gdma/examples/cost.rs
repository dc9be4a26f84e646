//! What the library costs on this machine: `cargo run --release -p vfun-gdma
//! --example cost`. The engine is simulated: it says nothing about hardware.

use gdma::edge::PoolMemory;
use gdma::engine::{Engine, global};
use gdma::registers::{IRQ_ENABLE, STATUS, TAG};
use gdma::{BUSY, Context, End, OK, Options};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

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

fn rate(bytes: u64, time: Duration) -> String {
    format!("{:.0} MB/s", bytes as f64 / time.as_secs_f64() / 1e6)
}

/// The engine alone, without a library.
fn engine() {
    let mut engine = Engine::new(1, 0).expect("the simulated engine");
    println!(
        "register read                 {:?}",
        median(9, 20_000, || {
            engine.read(STATUS).expect("read");
        })
    );
    println!(
        "register write                {:?}",
        median(9, 20_000, || engine.write(TAG, 5).expect("written"))
    );
    let seven: Vec<[u32; 2]> = vec![[TAG, 5]; 7];
    let writes = median(9, 5_000, || engine.write_all(&seven).expect("written"));
    println!("7 register writes in a row    {writes:?}");
    let cycle = median(9, 10, || {
        engine.run(10_000);
    }) / 10_000;
    println!("clock cycle, idle             {cycle:?}");
    for (node, bytes) in [(1, 16 * MIB), (2, 16 * MIB)] {
        engine.set_memory(node, Arc::new(PoolMemory::new(bytes).expect("memory")));
        engine.open_window(node, global(node, 0), bytes as u32).expect("a free entry");
    }
    engine.write(IRQ_ENABLE, 1).expect("written");
    for (from, what) in [(0, "same alignment"), (5, "other alignment")] {
        let mut cycles = 0;
        let time = median(9, 1, || {
            let (source, destination) = (global(1, from), global(2, 0));
            let bytes = 8 << 20;
            engine
                .start(&gdma::engine::Descriptor { source, destination, bytes, tag: 1 })
                .expect("room");
            while engine.run(4096) == 4096 {}
            cycles = engine.take().expect("an answer").expect("a completion").cycles;
        });
        println!("8 MiB, {what:16}       {time:?}, {}, {cycles} cycles", rate(8 * MIB, time));
    }
}

fn allocations(context: &Context) {
    for bytes in [512 * KIB, MIB, 2 * MIB, 4 * MIB, 8 * MIB] {
        let mut given = vec![];
        let mut take = || given.push(context.allocate(1, bytes).expect("room"));
        let time = median(7, 1, &mut take);
        let free = {
            let mut given = given.into_iter();
            median(7, 1, || context.free(given.next().expect("one each")).expect("freed"))
        };
        println!("allocate {:5} KiB            {time:?}, free {free:?}", bytes / KIB);
    }
}

fn transfers(context: &Context) {
    let (here, there) = (context.allocate(1, 8 * MIB), context.allocate(2, 8 * MIB));
    let from = End { buffer: here.expect("room"), offset: 0 };
    let to = End { buffer: there.expect("room"), offset: 0 };
    for (bytes, n) in [(1, 2000), (64 * KIB, 500), (512 * KIB, 50), (8 * MIB, 5)] {
        let polled = median(9, n, || {
            let id = context.start(to, from, bytes, None).expect("started");
            while context.query(id).expect("there").status == BUSY {
                std::hint::spin_loop();
            }
            context.release(id).expect("ended");
        });
        let called = median(9, n, || {
            let (tell, told) = mpsc::channel();
            let done = Box::new(move |_, status| tell.send(status).expect("heard"));
            let id = context.start(to, from, bytes, Some(done)).expect("started");
            assert_eq!(told.recv(), Ok(OK));
            context.release(id).expect("ended");
        });
        let (a, b) = (rate(bytes, polled), rate(bytes, called));
        println!(
            "transfer of {bytes:8} bytes    polled {polled:?}, {a}; by callback {called:?}, {b}"
        );
    }
    for bytes in [512 * KIB, 2 * MIB, 8 * MIB] {
        let count = 256 * MIB / bytes;
        let from_then = Instant::now();
        let all: Vec<_> =
            (0..count).map(|_| context.start(to, from, bytes, None).expect("started")).collect();
        let last = *all.last().expect("some");
        while context.query(last).expect("there").status == BUSY {
            std::thread::sleep(Duration::from_micros(200));
        }
        let time = from_then.elapsed();
        all.into_iter().for_each(|id| context.release(id).expect("ended"));
        println!("256 MiB in bursts of {:4} KiB  {time:?}, {}", bytes / KIB, rate(256 * MIB, time));
    }
}

/// Processor time of this process, s.
fn processor() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let thread =
        |text: &str| text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let all = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("schedstat")).ok());
    all.map(|t| thread(&t)).sum::<f64>().max(thread(&text)) / 1e9
}

fn main() {
    engine();
    let opened = Instant::now();
    let context = Context::new(&Options::default()).expect("the simulated engine");
    println!("open a context                {:?}", opened.elapsed());
    allocations(&context);
    transfers(&context);
    let before = processor();
    std::thread::sleep(Duration::from_secs(2));
    println!("idle for 2 s                  {:.6} s of processor", processor() - before);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load of the machine           {}", load.trim());
}
