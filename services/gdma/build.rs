//! Makes the SystemVerilog of `rtl/` into C++ with Verilator, and that with
//! `model/shim.cpp` into one static library. Sets `cfg(gdma_model)` if it
//! could; where Verilator is missing it warns and the crate has no engine.
//! Gives libgdma.so its name for the linker at run time, as libvfun.so has one.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The engine's register port is the one of the FPGA's functions.
const SHARED: [&str; 2] = ["../fpga/rtl/vfun_fpga_pkg.sv", "../fpga/rtl/vfun_axil.sv"];
/// Packages first: the rest imports them.
const OURS: [&str; 4] =
    ["rtl/vfun_dma_pkg.sv", "rtl/vfun_dma_windows.sv", "rtl/vfun_dma_mover.sv", "rtl/vfun_dma.sv"];
/// Raised when a program that was linked with the library before would not run
/// with it any more: a function of gdma.h is gone, or has another shape or meaning.
const ABI: u32 = 0;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(gdma_model)");
    for file in ["build.rs", "rtl", "model"].iter().chain(&SHARED) {
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rerun-if-env-changed=VERILATOR");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    name_the_library(&out);
    let verilator = std::env::var("VERILATOR").unwrap_or_else(|_| "verilator".into());
    // Where it is missing this runs again each time, and so notices it.
    println!("cargo::rerun-if-changed=/usr/bin/verilator");
    let Some(root) = verilator_root(&verilator) else {
        println!(
            "cargo::warning=no {verilator}: libgdma.so is built without its simulated engine. Run packaging/setup.sh and build again"
        );
        return;
    };
    let model = out.join("model");
    // What an older rtl/ left behind must not be compiled along.
    let _ = std::fs::remove_dir_all(&model);
    translate(&verilator, &model);
    compile(&root, &model);
    println!("cargo::rustc-cfg=gdma_model");
}

/// The soname, and a link of that name beside the library, for programs that
/// are linked with it before it is installed.
fn name_the_library(out: &Path) {
    let soname = format!("libgdma.so.{ABI}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    // OUT_DIR is PROFILE/build/vfun-gdma-HASH/out; the library comes into PROFILE and PROFILE/deps.
    let Some(profile) = out.ancestors().nth(3) else { return };
    for folder in [profile.to_owned(), profile.join("deps")] {
        let at = folder.join(&soname);
        if !at.is_symlink()
            && folder.is_dir()
            && let Err(e) = std::os::unix::fs::symlink("libgdma.so", &at)
            && e.kind() != std::io::ErrorKind::AlreadyExists
        {
            println!("cargo::warning=no link {}: {e}", at.display());
        }
    }
}

/// Where Verilator's headers are, if there is a Verilator.
fn verilator_root(verilator: &str) -> Option<PathBuf> {
    let out = Command::new(verilator).args(["--getenv", "VERILATOR_ROOT"]).output().ok()?;
    let root = PathBuf::from(String::from_utf8(out.stdout).ok()?.trim());
    root.join("include/verilated.h").is_file().then_some(root)
}

fn translate(verilator: &str, model: &Path) {
    let out = Command::new(verilator)
        .args(["--cc", "--prefix", "Vvfun_dma", "--top-module", "vfun_dma"])
        // The packages name more than each module needs.
        .args(["-Wall", "-Wno-UNUSEDPARAM"])
        .args(["-O3", "--x-assign", "fast", "--x-initial", "fast"])
        // The table of windows is cleared by one loop.
        .args(["--unroll-count", "256"])
        .arg("--Mdir")
        .arg(model)
        .args(SHARED)
        .args(OURS)
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
    // One unit with the shim: what the shim calls each cycle is in line, and a
    // dozen small files would each read the same headers.
    let shim = std::path::absolute("model/shim.cpp").expect("a folder that is there");
    let all = model.join("all.cc");
    let includes: Vec<_> =
        parts.iter().chain([&shim]).map(|p| format!("#include \"{}\"\n", p.display())).collect();
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
        .file(include.join("verilated.cpp"))
        .file(include.join("verilated_threads.cpp"))
        .compile("gdma_model");
}
