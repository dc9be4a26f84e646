//! Makes the SystemVerilog of `rtl/` into C++ with Verilator, and that with
//! `model/shim.cpp` into one static library. Sets `cfg(vfun_fpga_model)` if it
//! could; where Verilator is missing it warns and the crate has no simulated
//! device.

use std::path::{Path, PathBuf};
use std::process::Command;

/// VFs of the simulated device; `src/sim` reads the number from the device.
const VFS: u32 = 4;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(vfun_fpga_model)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=rtl");
    println!("cargo::rerun-if-changed=model");
    println!("cargo::rerun-if-env-changed=VERILATOR");
    if std::env::var_os("CARGO_FEATURE_SIMULATED").is_none() {
        return;
    }
    let verilator = std::env::var("VERILATOR").unwrap_or_else(|_| "verilator".into());
    // Where it is missing this runs again each time, and so notices it.
    println!("cargo::rerun-if-changed=/usr/bin/verilator");
    let Some(root) = verilator_root(&verilator) else {
        println!(
            "cargo::warning=no {verilator}: the FPGA drivers are built without the simulated device. Run packaging/setup.sh and build again"
        );
        return;
    };
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let model = out.join("model");
    // What an older rtl/ left behind must not be compiled along.
    let _ = std::fs::remove_dir_all(&model);
    translate(&verilator, &model);
    compile(&root, &model);
    println!("cargo::rustc-cfg=vfun_fpga_model");
}

/// Where Verilator's headers are, if there is a Verilator.
fn verilator_root(verilator: &str) -> Option<PathBuf> {
    let out = Command::new(verilator).args(["--getenv", "VERILATOR_ROOT"]).output().ok()?;
    let root = PathBuf::from(String::from_utf8(out.stdout).ok()?.trim());
    root.join("include/verilated.h").is_file().then_some(root)
}

fn sources() -> Vec<PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir("rtl")
        .expect("rtl/ is part of the crate")
        .map(|e| e.expect("readable").path())
        .filter(|p| p.extension().is_some_and(|e| e == "sv"))
        .collect();
    // The package first: the rest imports it.
    all.sort_by_key(|p| (!p.ends_with("vfun_fpga_pkg.sv"), p.clone()));
    all
}

fn translate(verilator: &str, model: &Path) {
    let out = Command::new(verilator)
        .args(["--cc", "--prefix", "Vvfun_fpga", "--top-module", "vfun_fpga", "-Wall"])
        .args(["-O3", "--x-assign", "fast", "--x-initial", "fast", "--savable"])
        .arg(format!("-GVFS={VFS}"))
        .arg("--Mdir")
        .arg(model)
        .args(sources())
        .output()
        .expect("it answered just now");
    assert!(
        out.status.success(),
        "{verilator} refused rtl/:\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

fn compile(root: &Path, model: &Path) {
    let mut parts: Vec<_> = std::fs::read_dir(model)
        .expect("Verilator made it")
        .map(|e| e.expect("readable").path())
        .filter(|p| p.extension().is_some_and(|e| e == "cpp"))
        .collect();
    parts.sort();
    // One unit: a dozen small files would each read the same headers.
    let all = model.join("all.cc");
    let includes: Vec<_> =
        parts.iter().map(|p| format!("#include \"{}\"\n", p.display())).collect();
    std::fs::write(&all, includes.concat()).expect("OUT_DIR is writable");
    let include = root.join("include");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        // A simulation that is not optimized is of no use, in debug builds neither.
        .opt_level(2)
        .debug(false)
        // Verilator's own code, not ours.
        .warnings(false)
        .flag("-w")
        .include(model)
        .include(&include)
        .include(include.join("vltstd"))
        .file(all)
        .file("model/shim.cpp")
        .file(include.join("verilated.cpp"))
        .file(include.join("verilated_save.cpp"))
        .file(include.join("verilated_threads.cpp"))
        .compile("vfun_fpga_model");
}
