//! What a module costs beside a native driver, without a service around either:
//! null calls, factorials, a new instance, and compiling.
//!
//! `cargo bench --manifest-path services/wasm/Cargo.toml`. The native kin of the
//! modules are looked for where `cargo build --release` puts them. Rounds of
//! both alternate, so that a machine's moods hit both alike. Medians are shown,
//! and the least: what a machine with other work does when left alone.

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

/// The median and the least.
#[derive(Clone, Copy)]
struct Times {
    median: f64,
    least: f64,
}

impl Times {
    fn of(mut all: Vec<f64>) -> Self {
        all.sort_by(f64::total_cmp);
        Times { median: all[all.len() / 2], least: all[0] }
    }
}

fn line(what: &str, t: Times, per: f64, unit: &str) {
    println!("{what:32} {:10.2} {unit}   least {:10.2} {unit}", t.median / per, t.least / per);
}

/// Both, in turns.
fn both(native: &mut impl Serve, wasm: &mut impl Serve, args: &[u8], calls: u32) -> (Times, Times) {
    let turn = |_| (ns(native, args, calls), ns(wasm, args, calls));
    let (n, w) = (0..ROUNDS).map(turn).unzip();
    (Times::of(n), Times::of(w))
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
    line("null call, native", n, 1.0, "ns");
    line("null call, wasm", w, 1.0, "ns");
    println!("  more: {:.1} ns; least {:.1} ns", w.median - n.median, w.least - n.least);

    let factorial = module("factorial");
    let mut instance = factorial.open(&config).unwrap();
    let args = [51u64.to_le_bytes(), REPETITIONS.to_le_bytes()].concat();
    let (n, w) = both(&mut native("factorial"), &mut instance, &args, 1);
    line("51!, native", n, REPETITIONS as f64, "ns");
    line("51!, wasm", w, REPETITIONS as f64, "ns");
    println!("  times: {:.2}; least {:.2}", w.median / n.median, w.least / n.least);

    let times = |turn: &dyn Fn()| {
        let once = |_| {
            let from = Instant::now();
            turn();
            from.elapsed().as_nanos() as f64
        };
        Times::of((0..ROUNDS).map(once).collect())
    };
    let made = times(&|| drop(factorial.open(&config).unwrap()));
    line("an instance, made and gone", made, 1e3, "us");
    let compiled = times(&|| drop(module("factorial")));
    line("checked and compiled", compiled, 1e6, "ms");
}
