//! The driver libraries as a service loads them: the simulated FPGA's answers
//! are the software's, bit for bit, and a device that fails says so.

use proptest::prelude::*;
use std::cell::RefCell;
use std::path::PathBuf;
use vfun_fpga::{HUNG, NO_DEVICE, NO_VF};
use vfun_sdk::loader::{Instance, Library};
use vfun_sdk::{BAD_SETTING, Config, DriverError, abi};

fn library(name: &str) -> Library {
    let tests = std::env::current_exe().unwrap();
    let path: PathBuf = tests.parent().unwrap().join(format!("libvfun_fn_{name}.so"));
    Library::open(&path).unwrap_or_else(|e| panic!("{e}"))
}

fn config(settings: &[(&str, &str)]) -> Config {
    let settings = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Config { app: "test".into(), settings, ..Config::default() }
}

fn hardware(function: &str, settings: &[(&str, &str)]) -> Result<Instance, DriverError> {
    library(&format!("{function}_fpga_simulated")).init(&config(settings))
}

/// The same function twice.
struct Both {
    software: Instance,
    hardware: Instance,
}

impl Both {
    fn new(function: &str) -> RefCell<Self> {
        let software = library(function).init(&config(&[])).unwrap();
        RefCell::new(Both { software, hardware: hardware(function, &[]).unwrap() })
    }

    fn agree(&mut self, args: &[u8]) -> Vec<u8> {
        let (mut soft, mut hard) = ([0; 48], [0; 48]);
        let s = self.software.call(args, &mut soft).unwrap();
        let h = self.hardware.call(args, &mut hard).unwrap();
        assert_eq!(soft[..s], hard[..h], "{} bytes of arguments: {args:x?}", args.len());
        soft[..s].to_vec()
    }
}

fn two(n: u64, repetitions: u64) -> Vec<u8> {
    [n.to_le_bytes(), repetitions.to_le_bytes()].concat()
}

#[test]
fn the_same_name_version_and_limits() {
    for function in ["factorial", "fibonacci", "sha256"] {
        let hardware = library(&format!("{function}_fpga_simulated"));
        assert_eq!(hardware.info(), library(function).info());
    }
}

#[test]
fn factorial() {
    let both = Both::new("factorial");
    for n in 0..200 {
        both.borrow_mut().agree(&two(n, n % 4));
    }
    proptest!(ProptestConfig::with_cases(64), |(n in 0u64..5000, repetitions in 0u64..4)| {
        both.borrow_mut().agree(&two(n, repetitions));
    });
}

#[test]
fn fibonacci() {
    let both = Both::new("fibonacci");
    for n in 0..200 {
        both.borrow_mut().agree(&two(n, n % 4));
    }
    proptest!(ProptestConfig::with_cases(64), |(n in 0u64..5000, repetitions in 0u64..4)| {
        both.borrow_mut().agree(&two(n, repetitions));
    });
}

#[test]
fn sha256() {
    let both = Both::new("sha256");
    // The vectors of FIPS 180-4, so that the two are not wrong together.
    let known = both.borrow_mut().agree(b"abc");
    assert_eq!(known[..4], [0xba, 0x78, 0x16, 0xbf]);
    // Every length around the blocks' edges, where padding goes wrong.
    for len in 0..260usize {
        let data: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8 | 0x80).collect();
        both.borrow_mut().agree(&data);
    }
    // Longer than the private block through which data is read.
    both.borrow_mut().agree(&vec![0x5A; 3 * (16 << 10) + 5]);
    let data = proptest::collection::vec(any::<u8>(), 0..3000);
    proptest!(ProptestConfig::with_cases(64), |(data in data)| {
        both.borrow_mut().agree(&data);
    });
}

#[test]
fn a_core_that_never_ends_is_an_error_by_the_drivers_own_limit() {
    for (function, args) in
        [("factorial", two(5, 1)), ("fibonacci", two(5, 1)), ("sha256", vec![7; 5000])]
    {
        let settings = [("fpga_fault", "cores"), ("fpga_answer_ms", "20")];
        let mut instance = hardware(function, &settings).unwrap();
        for _ in 0..2 {
            let e = instance.call(&args, &mut [0; 48]).unwrap_err();
            assert_eq!(e.code, HUNG, "{function}: {e}");
            assert!(e.sentence.starts_with("the device did not answer in 20 ms"), "{e}");
        }
        instance.rst().unwrap();
    }
}

#[test]
fn endless_work_is_ended_and_the_next_call_is_computed() {
    let mut instance = hardware("factorial", &[("fpga_answer_ms", "20")]).unwrap();
    let mut room = [0; 48];
    let e = instance.call(&two(u64::MAX, u64::MAX), &mut room).unwrap_err();
    assert_eq!(e.code, HUNG, "{e}");
    assert_eq!(instance.call(&two(5, 1), &mut room).unwrap(), 8);
    assert_eq!(room[..8], 120u64.to_le_bytes());
}

#[test]
fn wrong_arguments_are_an_error_and_the_next_call_is_computed() {
    let mut instance = hardware("fibonacci", &[]).unwrap();
    let mut room = [0; 48];
    assert_eq!(instance.call(&[1; 15], &mut room).unwrap_err().code, abi::BAD_ARGS);
    assert_eq!(instance.call(&two(10, 1), &mut room[..4]).unwrap_err().code, abi::RESULT_TOO_LARGE);
    assert_eq!(instance.call(&two(10, 1), &mut room).unwrap(), 8);
    assert_eq!(room[..8], 55u64.to_le_bytes());
}

#[test]
fn what_the_settings_get_wrong_is_said() {
    for (settings, code, words) in [
        (("fpga_vf", "4"), NO_DEVICE, "no VF 4: the device has 4"),
        (("fpga_vf", "two"), BAD_SETTING, "fpga_vf = \"two\""),
        (("fpga_fault", "fire"), BAD_SETTING, "is not one of"),
        (("fpga_answer_ms", "0"), BAD_SETTING, "1 to 3600000 ms"),
        (("fpga_fault", "port"), HUNG, "port does not answer"),
    ] {
        let e = hardware("sha256", &[settings]).err().expect("refused");
        assert_eq!(e.code, code, "{e}");
        assert!(e.sentence.contains(words), "{e}");
    }
}

#[test]
fn one_channel_more_than_vfs_is_refused() {
    // Tests share the process, and so its device: a VF by name each.
    let claim = |vf: &str| hardware("factorial", &[("fpga_vf", vf)]);
    let held = claim("3").unwrap();
    let e = claim("3").err().expect("refused");
    assert_eq!(e.code, NO_VF, "{e}");
    drop(held);
    claim("3").unwrap();
}
