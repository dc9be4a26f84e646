//! What the tests of kernels share: manifests as they ship, calls, references.
#![allow(dead_code)] // each test uses a part of it

use std::path::{Path, PathBuf};
use vfun_kernelmap::Map;
use vfun_opencl::cl::{self, Way};
use vfun_opencl::{Channel, LoadError, Loaded};
use vfun_sdk::loader::{ArgsAt, OutAt};
use vfun_sdk::service::Serve;
use vfun_sdk::{DriverError, abi};
use vfun_signature::Signature;

/// Whether there is a device to test on. Where there is none the test says so,
/// loudly, and is not run: `packaging/setup.sh` installs one.
pub fn device(test: &str) -> bool {
    let _alone = cl::alone();
    let there = cl::is_installed() && !cl::devices().is_empty();
    if !there {
        eprintln!(
            "SKIPPED {test}: THIS MACHINE HAS NO OpenCL DEVICE (packaging/setup.sh installs PoCL)"
        );
    }
    there
}

/// Before the first call of OpenCL's in a test: what `main` does.
pub fn prepare() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(vfun_opencl::prepare_process);
}

pub fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

/// A manifest that ships: its section and its signature.
pub fn shipped(name: &str) -> (Map, Signature) {
    let text = std::fs::read_to_string(kernels().join(format!("{name}.toml"))).unwrap();
    let t: toml::Table = text.parse().unwrap();
    let map = t["opencl"].clone().try_into().unwrap();
    (map, t["signature"].as_str().unwrap().parse().unwrap())
}

/// A kernel that ships, its arguments going this way.
pub fn loaded(name: &str, way: Option<Way>) -> Loaded {
    prepare();
    let (map, signature) = shipped(name);
    let source = std::fs::read(kernels().join(format!("{name}.cl"))).unwrap();
    Loaded::new(&source, &map, &signature, way).unwrap()
}

/// A kernel of a test.
pub fn own(source: &str, map: &str, signature: &str) -> Result<Loaded, LoadError> {
    prepare();
    let map: Map = toml::from_str(map).unwrap();
    Loaded::new(source.as_bytes(), &map, &signature.parse().unwrap(), None)
}

pub fn call(channel: &mut Channel, args: &[u8], room: usize) -> Result<Vec<u8>, DriverError> {
    let mut out = vec![0xee; room];
    let n = channel.run(abi::COMMAND_SET, ArgsAt::private(args), OutAt::private(&mut out))?;
    out.truncate(n.done().expect("a kernel answers at once"));
    Ok(out)
}

pub fn bytes(numbers: &[u32], floats: &[&[f32]]) -> Vec<u8> {
    let mut all: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    all.extend(floats.iter().flat_map(|f| f.iter().flat_map(|x| x.to_le_bytes())));
    all
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Numbers between -1 and 1 that look like chance and are always the same.
pub fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            ((s >> 40) as f32 / (1u32 << 23) as f32) - 1.0
        })
        .collect()
}

/// A reference in double precision, and for each element the sum of its
/// products' sizes, by which a single-precision sum's error is bounded.
pub struct Reference {
    pub value: Vec<f64>,
    pub size: Vec<f64>,
    /// Products of each sum.
    pub terms: usize,
}

pub fn matmul(m: usize, n: usize, k: usize, a: &[f32], b: &[f32]) -> Reference {
    let mut r = Reference { value: vec![0.0; m * n], size: vec![0.0; m * n], terms: k };
    for y in 0..m {
        for i in 0..k {
            for x in 0..n {
                let p = f64::from(a[y * k + i]) * f64::from(b[i * n + x]);
                r.value[y * n + x] += p;
                r.size[y * n + x] += p.abs();
            }
        }
    }
    r
}

pub fn conv2d(
    h: usize,
    w: usize,
    rows: usize,
    columns: usize,
    image: &[f32],
    f: &[f32],
) -> Reference {
    let (oh, ow) = (h - rows + 1, w - columns + 1);
    let mut r =
        Reference { value: vec![0.0; oh * ow], size: vec![0.0; oh * ow], terms: rows * columns };
    for y in 0..oh {
        for x in 0..ow {
            for i in 0..rows {
                for j in 0..columns {
                    let p = f64::from(image[(y + i) * w + x + j]) * f64::from(f[i * columns + j]);
                    r.value[y * ow + x] += p;
                    r.size[y * ow + x] += p.abs();
                }
            }
        }
    }
    r
}

impl Reference {
    /// Each sum of n products in single precision, in any order and with or
    /// without fused steps, is within n * 2^-23 of the sum of their sizes (twice
    /// the usual bound, n * 2^-24 to the first order).
    pub fn check(&self, found: &[f32], what: &str) {
        assert_eq!(found.len(), self.value.len(), "{what}");
        let most = self.terms as f64 * 2f64.powi(-23);
        for (i, f) in found.iter().enumerate() {
            let off = (f64::from(*f) - self.value[i]).abs();
            assert!(
                off <= most * self.size[i],
                "{what}: element {i} is {f}, not {}: off by {off:e}",
                self.value[i]
            );
        }
    }
}
