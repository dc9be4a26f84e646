//! VFs of one device: what one does, another neither sees nor feels, and what
//! was in one is gone before the next client has it.

use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use vfun_fpga::registers::*;
use vfun_fpga::sim::pins::FAULT_PORT;
use vfun_fpga::sim::{Device, SimulatedVf};
use vfun_fpga::{Bsp, BspError, DeviceDriver, Function, device_driver_exit, device_driver_init};
use vfun_sdk::{Args, DriverError, Out};

const LIMIT: Duration = Duration::from_secs(60);

fn device() -> Arc<Device> {
    Device::new(0).expect("the simulated device")
}

/// A simulation's threads would have the name of the thread that makes it.
#[test]
fn a_device_has_no_threads_of_its_own() {
    let made = std::thread::Builder::new().name("makes-a-device".into()).spawn(|| {
        let device = device();
        let tasks = std::fs::read_dir("/proc/self/task").expect("Linux shows threads");
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
        let names = tasks.flatten().filter_map(|task| name(task).ok());
        let count = names.filter(|name| name == "makes-a-device\n").count();
        drop(device);
        count
    });
    assert_eq!(made.expect("a thread").join().expect("it ends"), 1);
}

/// All that a VF's client can read.
fn seen(vf: &mut SimulatedVf) -> Vec<(u32, u32)> {
    (0..4096).step_by(4).filter_map(|r| Some((r, vf.read(r).ok()?))).collect()
}

fn state(device: &Device) -> Vec<u8> {
    let mut port = device.port();
    port.run(4, 0);
    port.state()
}

fn call<B: Bsp>(driver: &mut DeviceDriver<B>, args: &[u8]) -> Result<Vec<u8>, DriverError> {
    let mut room = [0; 32];
    let mut out = Out::private(&mut room);
    driver.driver_function(&Args::private(args), &mut out)?;
    let len = out.len();
    Ok(room[..len].to_vec())
}

fn two(n: u64, repetitions: u64) -> Vec<u8> {
    [n.to_le_bytes(), repetitions.to_le_bytes()].concat()
}

#[test]
fn after_a_reset_every_bit_is_as_in_a_device_that_was_never_used() {
    for function in [Function::Factorial, Function::Fibonacci, Function::Sha256] {
        let fresh = state(&device());
        let used = device();
        let mut driver = device_driver_init(used.claim(Some(2)).unwrap(), function, LIMIT).unwrap();
        let secret = two(0x1234_5678, 1);
        match function {
            Function::Sha256 => assert_eq!(call(&mut driver, &[0xA5; 200]).unwrap().len(), 32),
            _ => assert_eq!(call(&mut driver, &two(51, 3)).unwrap().len(), 8),
        }
        assert_ne!(state(&used), fresh, "there is something to scrub");
        driver.rst().unwrap();
        device_driver_exit(driver).unwrap();
        assert_eq!(state(&used), fresh, "{function:?}: finished");

        // In the middle of a computation, the FIFO half full.
        let mut vf = used.claim(Some(2)).unwrap();
        let words: Vec<u32> = (1..=20).map(|i| i * 0x0101_0101).collect();
        vf.write(FUNCTION, function as u32).unwrap();
        vf.write(IRQ_ENABLE, 1).unwrap();
        for (i, four) in secret.chunks(4).enumerate() {
            vf.write(ARGUMENT + 4 * i as u32, u32::from_le_bytes(four.try_into().unwrap()))
                .unwrap();
        }
        vf.write(CONTROL, CONTROL_START).unwrap();
        if function == Function::Sha256 {
            vf.stream(STREAM, &words[..16]).unwrap();
            used.port().run(40, 0);
            vf.stream(STREAM, &words[16..]).unwrap();
        }
        used.port().run(30, 0);
        assert_eq!(vf.read(STATUS).unwrap(), STATUS_BUSY);
        drop(vf);
        assert_eq!(state(&used), fresh, "{function:?}: interrupted");
    }
}

#[test]
fn the_next_client_finds_what_the_first_one_found() {
    let device = device();
    let mut vf = device.claim(Some(1)).unwrap();
    let at_first = seen(&mut vf);
    assert!(at_first.len() > 20, "there is something to read: {at_first:x?}");
    let mut driver = device_driver_init(vf, Function::Sha256, LIMIT).unwrap();
    call(&mut driver, b"the first client's password").unwrap();
    drop(driver);
    assert_eq!(seen(&mut device.claim(Some(1)).unwrap()), at_first);
}

#[test]
fn vfs_compute_at_the_same_time_and_each_gets_its_own() {
    let device = device();
    std::thread::scope(|scope| {
        for vf in 0..device.vfs() {
            let device = &device;
            scope.spawn(move || {
                let vf_of = device.claim(Some(vf)).unwrap();
                let mut driver = device_driver_init(vf_of, Function::Factorial, LIMIT).unwrap();
                for n in 1..40 {
                    let n = n + 100 * u64::from(vf);
                    let want = (1..=n).fold(1u64, u64::wrapping_mul).to_le_bytes();
                    assert_eq!(call(&mut driver, &two(n, 2)).unwrap(), want, "{n}! on VF {vf}");
                }
            });
        }
    });
}

#[test]
fn a_vf_has_one_owner_and_no_more_are_claimed_than_there_are() {
    let device = device();
    let all: Vec<_> = (0..device.vfs()).map(|_| device.claim(None).unwrap()).collect();
    assert_eq!(all.iter().map(|v| v.number()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(matches!(device.claim(None), Err(BspError::Taken(s)) if s.contains("all 4 VFs")));
    assert!(matches!(device.claim(Some(3)), Err(BspError::Taken(_))));
    assert!(matches!(device.claim(Some(4)), Err(BspError::Absent(_))));
    drop(all);
    assert_eq!(device.claim(None).unwrap().number(), 0);
}

#[test]
fn a_vf_that_cannot_be_scrubbed_is_not_lent_again() {
    let device = Device::new(FAULT_PORT).unwrap();
    let vf = device.claim(Some(0)).unwrap();
    drop(vf);
    assert!(matches!(device.claim(Some(0)), Err(BspError::Taken(_))));
}

#[test]
fn no_offset_reaches_beyond_a_vfs_window() {
    let device = device();
    let mut vf = device.claim(Some(0)).unwrap();
    for register in [4096, 4096 + ARGUMENT, 0x1_0000, u32::MAX - 3, u32::MAX] {
        assert!(matches!(vf.read(register), Err(BspError::OutOfWindow { .. })), "{register:#x}");
        assert!(matches!(vf.write(register, 1), Err(BspError::OutOfWindow { .. })));
        assert!(matches!(vf.stream(register, &[1]), Err(BspError::OutOfWindow { .. })));
    }
}

#[test]
fn a_refused_access_is_an_error_with_its_name() {
    let device = device();
    let mut vf = device.claim(None).unwrap();
    for register in [ARGUMENT + 2, 0x2C, 0xFFC] {
        let e = vf.read(register).unwrap_err();
        assert_eq!(e.to_string(), format!("device refused (SLVERR) read at {register:#x}"));
        let e = DriverError::from(vf.write(register, 1).unwrap_err());
        assert_eq!(e.code, vfun_fpga::BUS_ERROR);
        assert!(e.sentence.contains("SLVERR") && e.sentence.contains("write"), "{e}");
    }
}

/// What a client can do to its VF.
#[derive(Clone, Debug)]
enum Deed {
    Read(u32),
    Write(u32, u32),
    Run(u32),
}

fn deed() -> impl Strategy<Value = Deed> {
    let register = prop_oneof![
        proptest::sample::select(vec![CONTROL, FUNCTION, IRQ_ENABLE, IRQ, STREAM, ARGUMENT]),
        0u32..4096,
    ];
    let value = prop_oneof![0u32..4, any::<u32>()];
    prop_oneof![
        1 => register.clone().prop_map(Deed::Read),
        4 => (register, value).prop_map(|(r, v)| Deed::Write(r, v)),
        1 => (0u32..100).prop_map(Deed::Run),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Whatever VF 1's client does to it, VF 0's client sees the same as if
    /// VF 1 were idle, and VF 1's sees nothing of VF 0's.
    #[test]
    fn nothing_one_client_does_reaches_another(
        deeds in proptest::collection::vec(deed(), 1..80),
        data in proptest::collection::vec(any::<u8>(), 1..100),
    ) {
        let run = |secret: &[u8], deeds: &[Deed]| {
            let device = device();
            let vf = device.claim(Some(0)).unwrap();
            let mut driver = device_driver_init(vf, Function::Sha256, LIMIT).unwrap();
            let digest = call(&mut driver, secret).unwrap();
            let mut other = device.claim(Some(1)).unwrap();
            let mut answers = vec![];
            for deed in deeds {
                match deed {
                    Deed::Read(r) => answers.push(other.read(*r).ok()),
                    Deed::Write(r, v) => answers.push(other.write(*r, *v).ok().map(|()| 0)),
                    Deed::Run(cycles) => {
                        device.port().run(*cycles, 0);
                    }
                }
            }
            let others_view = seen(&mut other);
            let again = call(&mut driver, secret).unwrap();
            // VF 1 is quiet again: the rest of the device must not tell either.
            drop(other);
            drop(driver);
            (digest, again, answers, others_view, state(&device))
        };
        let with = run(&data, &deeds);
        let without = run(&data, &[]);
        prop_assert_eq!(&with.0, &without.0);
        prop_assert_eq!(&with.1, &without.1, "VF 1's deeds changed VF 0's results");
        prop_assert_eq!(&with.4, &without.4, "something stayed behind");
        let mut other_secret = data.clone();
        other_secret[0] ^= 1;
        let spied = run(&other_secret, &deeds);
        prop_assert_ne!(&spied.0, &with.0);
        prop_assert_eq!(&spied.2, &with.2, "VF 1 sees what VF 0 computed");
        prop_assert_eq!(&spied.3, &with.3, "VF 1 sees what VF 0 computed");
    }
}
