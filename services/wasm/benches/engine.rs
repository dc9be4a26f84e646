//! What a module costs beside a native driver, without a service around either:
//! null calls, factorials, a new instance, and compiling.
//!
//! `cargo bench --manifest-path services/wasm/Cargo.toml`. The native kin of the
//! modules are looked for where `cargo build --release` puts them. Rounds of
//! both alternate, so that a machine's moods hit both alike; medians are shown.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use vfun_sdk::loader::{ArgsAt, Library, OutAt};
use vfun_sdk::service::{Engine, Serve};
use vfun_sdk::{Config, abi};
use vfun_wasm::Module;

const ROUNDS: usize = 41;
const CALLS: u32 = 20_000;
const REPETITIONS: u64 = 100_000;

fn ns(instance: &mut impl Serve, args: &[u8], calls: u32) -> f64 {
    let mut room = [0; 48];
    let from = Instant::now();
    for _ in 0..calls {
        instance
            .run(abi::COMMAND_SET, ArgsAt::private(args), OutAt::private(&mut room))
            .expect("these functions do not fail");
    }
    from.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Medians of both, in turns.
fn both(native: &mut impl Serve, wasm: &mut impl Serve, args: &[u8], calls: u32) -> (f64, f64) {
    let turn = |_| (ns(native, args, calls), ns(wasm, args, calls));
    let (n, w): (Vec<_>, Vec<_>) = (0..ROUNDS).map(turn).unzip();
    (median(n), median(w))
}

fn main() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("modules/build.sh");
    assert!(Command::new(script).arg(dir.path()).status().expect("the script runs").success());
    let here = std::env::current_exe().expect("a program knows its path");
    let release: PathBuf = here.ancestors().nth(2).expect("target/release/deps").into();
    let native = |name: &str| {
        let path = release.join(format!("libvfun_fn_{name}.so"));
        Library::open(&path).unwrap_or_else(|e| panic!("{e}")).init(&Config::default()).unwrap()
    };
    let module = |name: &str| {
        let path = dir.path().join(format!("{name}_wasm.wasm"));
        Module::open(&path, 1 << 20).unwrap_or_else(|e| panic!("{e}"))
    };
    let config = Config::default();

    let null = module("null");
    let mut instance = null.open(&config).unwrap();
    let (n, w) = both(&mut native("null"), &mut instance, &[0; 16], CALLS);
    println!("null call, 16 bytes        native {n:8.1} ns   wasm {w:8.1} ns   {:+.1} ns", w - n);

    let factorial = module("factorial");
    let mut instance = factorial.open(&config).unwrap();
    let args = [51u64.to_le_bytes(), REPETITIONS.to_le_bytes()].concat();
    let (n, w) = both(&mut native("factorial"), &mut instance, &args, 1);
    let each = |t: f64| t / REPETITIONS as f64;
    println!(
        "one of 51!                 native {:8.1} ns   wasm {:8.1} ns   {:.2} times",
        each(n),
        each(w),
        w / n
    );

    let made = (0..ROUNDS)
        .map(|_| {
            let from = Instant::now();
            for _ in 0..100 {
                drop(factorial.open(&config).unwrap());
            }
            from.elapsed().as_nanos() as f64 / 100.0
        })
        .collect();
    println!("an instance, made and gone {:8.1} us", median(made) / 1e3);

    let compiled = (0..ROUNDS)
        .map(|_| {
            let from = Instant::now();
            module("factorial");
            from.elapsed().as_nanos() as f64
        })
        .collect();
    println!("checked and compiled       {:8.2} ms", median(compiled) / 1e6);
}
