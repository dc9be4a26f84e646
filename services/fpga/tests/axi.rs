//! The port of the simulated device, pin by pin: AXI4-Lite's rules and corners.

use proptest::prelude::*;
use vfun_fpga::registers::*;
use vfun_fpga::sim::pins::{FAULT_PORT, Inputs, OKAY, Outputs, SLVERR};
use vfun_fpga::sim::{Master, Refused, Silent};

const VFS: u16 = 4;

fn device() -> Master {
    Master::new(0).expect("the simulated device")
}

fn at(vf: u16, register: u32) -> u16 {
    vf * 4096 + register as u16
}

/// The device's state once nothing moves any more.
fn settled(device: &mut Master) -> Vec<u8> {
    device.run(4, 0);
    device.state()
}

#[test]
fn every_vf_says_what_it_is() {
    let mut d = device();
    for vf in 0..VFS {
        assert_eq!(d.read(at(vf, ID)), Ok(Ok(ID_VALUE)));
        assert_eq!(d.read(at(vf, VERSION)), Ok(Ok(VERSION_VALUE)));
        assert_eq!(d.read(at(vf, VF)), Ok(Ok(u32::from(VFS) << 16 | u32::from(vf))));
        assert_eq!(d.read(at(vf, FUNCTIONS)), Ok(Ok(0b1110)));
    }
}

#[test]
fn addresses_without_a_register_are_refused_and_change_nothing() {
    let mut d = device();
    let before = settled(&mut d);
    let readable: Vec<u32> = [ID, VERSION, VF, FUNCTIONS, STATUS, FUNCTION, IRQ_ENABLE, IRQ]
        .into_iter()
        .chain([ROOM, CYCLES, RESULT, RESULT + 4])
        .chain((0..4).map(|i| ARGUMENT + 4 * i))
        .chain((0..8).map(|i| DIGEST + 4 * i))
        .collect();
    let writable: Vec<u32> =
        [FUNCTION, IRQ_ENABLE, IRQ].into_iter().chain((0..4).map(|i| ARGUMENT + 4 * i)).collect();
    // All of it, unaligned addresses and VFs that are not there included.
    for address in 0..=u16::MAX {
        let there = address / 4096 < VFS;
        let register = u32::from(address % 4096);
        let read = d.read(address).expect("answered");
        assert_eq!(read.is_ok(), there && readable.contains(&register), "read {address:#x}");
        let written = d.write(address, 0).expect("answered");
        assert_eq!(written.is_ok(), there && writable.contains(&register), "write {address:#x}");
    }
    assert_eq!(settled(&mut d), before);
}

#[test]
fn writes_at_the_wrong_moment_or_of_wrong_values_are_refused() {
    let mut d = device();
    let refused = |d: &mut Master, register, value| {
        let before = settled(d);
        assert_eq!(d.write(at(1, register), value), Ok(Err(Refused)), "{register:#x} {value:#x}");
        assert_eq!(settled(d), before, "{register:#x} {value:#x}");
    };
    for (register, value) in [
        (CONTROL, 0),
        (CONTROL, 3),
        (CONTROL, 4),
        (CONTROL, CONTROL_START), // no function is chosen
        (FUNCTION, 4),
        (IRQ_ENABLE, 2),
        (IRQ, 2),
        (STREAM, 0), // nothing computes
        (STATUS, 1),
        (ID, 0),
    ] {
        refused(&mut d, register, value);
    }
    // Busy: SHA-256 that waits for its data does not move by itself.
    for (register, value) in [(FUNCTION, 3), (ARGUMENT, 5), (CONTROL, CONTROL_START)] {
        assert_eq!(d.write(at(1, register), value), Ok(Ok(())));
    }
    assert_eq!(d.read(at(1, STATUS)), Ok(Ok(STATUS_BUSY)));
    assert_eq!(d.read(at(1, ROOM)), Ok(Ok(2)), "five bytes are two words");
    for (register, value) in [(FUNCTION, 1), (ARGUMENT, 6), (CONTROL, CONTROL_START)] {
        assert_eq!(d.write(at(1, register), value), Ok(Err(Refused)));
    }
    assert_eq!(d.write_all(at(1, STREAM), &[1, 2, 3]), Ok(Err(Refused)), "one word too many");
    assert_eq!(d.read(at(1, ARGUMENT)), Ok(Ok(5)));
    d.run(200, 0);
    assert_eq!(d.read(at(1, STATUS)), Ok(Ok(STATUS_DONE)), "the two words were taken");
}

#[test]
fn partial_words_are_refused() {
    let mut d = device();
    for strobe in 0..16 {
        let mut pins = Inputs { awaddr: at(0, ARGUMENT), wdata: 7, wstrb: strobe, ..d.idle() };
        (pins.awvalid, pins.wvalid, pins.bready) = (1, 1, 1);
        d.cycle(&pins);
        (pins.awvalid, pins.wvalid) = (0, 0);
        let answer = (0..4).map(|_| d.cycle(&pins)).find(|o| o.bvalid == 1).expect("an answer");
        assert_eq!(answer.bresp, if strobe == 15 { OKAY } else { SLVERR }, "{strobe:#06b}");
    }
}

#[test]
fn address_and_data_come_in_any_order() {
    let mut d = device();
    for (address_at, data_at) in [(0, 5), (5, 0), (0, 0), (1, 2), (2, 1)] {
        let word = 100 * address_at + data_at;
        let mut answers = vec![];
        for cycle in 0..12u32 {
            let pins = Inputs {
                awaddr: if cycle == address_at { at(2, ARGUMENT) } else { 0 },
                awvalid: u8::from(cycle == address_at),
                wdata: if cycle == data_at { word } else { u32::MAX },
                wvalid: u8::from(cycle == data_at),
                bready: 1,
                ..d.idle()
            };
            let out = d.cycle(&pins);
            assert!(pins.awvalid <= out.awready && pins.wvalid <= out.wready, "room for one");
            if out.bvalid == 1 {
                answers.push(out.bresp);
            }
        }
        assert_eq!(answers, [OKAY], "{address_at} {data_at}");
        assert_eq!(d.read(at(2, ARGUMENT)), Ok(Ok(word)));
    }
}

#[test]
fn writes_go_back_to_back_one_a_cycle() {
    let mut d = device();
    let (mut accepted, mut answered) = (vec![], 0);
    for cycle in 0..20u32 {
        let pins = Inputs {
            awaddr: at(3, ARGUMENT + 4 * (cycle % 4)),
            awvalid: 1,
            wdata: cycle,
            wvalid: 1,
            bready: 1,
            ..d.idle()
        };
        let out = d.cycle(&pins);
        assert_eq!(out.awready, out.wready);
        if out.awready == 1 {
            accepted.push(cycle);
        }
        answered += u32::from(out.bvalid);
    }
    assert_eq!(accepted, (0..20).collect::<Vec<_>>(), "no cycle without a write");
    assert_eq!(answered, 18, "and answered two cycles later");
    let idle = Inputs { bready: 1, ..d.idle() };
    answered += (0..3).map(|_| u32::from(d.cycle(&idle).bvalid)).sum::<u32>();
    assert_eq!(answered, 20);
    for i in 0..4 {
        assert_eq!(d.read(at(3, ARGUMENT + 4 * i)), Ok(Ok(16 + i)));
    }
}

#[test]
fn reads_go_back_to_back_one_a_cycle() {
    let mut d = device();
    for i in 0..4 {
        d.write(at(0, ARGUMENT + 4 * i), 1000 + i).unwrap().unwrap();
    }
    let mut answers = vec![];
    for cycle in 0..9u32 {
        let pins =
            Inputs { araddr: at(0, ARGUMENT + 4 * (cycle % 4)), arvalid: 1, rready: 1, ..d.idle() };
        let out = d.cycle(&pins);
        assert_eq!(out.arready, 1);
        if out.rvalid == 1 {
            answers.push(out.rdata);
        }
    }
    assert_eq!(answers, [1000, 1001, 1002, 1003, 1000, 1001, 1002, 1003]);
}

#[test]
fn an_answer_waits_unchanged_until_it_is_taken_and_leaves_nothing_behind() {
    let mut d = device();
    d.write(at(0, ARGUMENT), 0xDEAD_BEEF).unwrap().unwrap();
    // A read whose answer is not taken; then one that is refused, behind it.
    let mut pins = Inputs { araddr: at(0, ARGUMENT), arvalid: 1, ..d.idle() };
    assert_eq!(d.cycle(&pins).arready, 1);
    pins.araddr = 2;
    for _ in 0..10 {
        let out = d.cycle(&pins);
        let seen = (out.rvalid, out.rdata, out.rresp, out.arready);
        assert_eq!(seen, (1, 0xDEAD_BEEF, OKAY, 0));
    }
    pins.rready = 1;
    assert_eq!(d.cycle(&pins).arready, 1, "taken, and the next one is let in");
    pins.arvalid = 0;
    let out = d.cycle(&pins);
    assert_eq!((out.rvalid, out.rdata, out.rresp), (1, 0, SLVERR), "a refusal carries no data");
    let out = d.cycle(&pins);
    assert_eq!((out.rvalid, out.rdata, out.rresp), (0, 0, 0));

    // The same with a write: the second is held, not done, until the first's answer is taken.
    let mut pins = Inputs { awaddr: at(0, ARGUMENT), awvalid: 1, ..d.idle() };
    (pins.wdata, pins.wvalid) = (1, 1);
    d.cycle(&pins);
    pins.wdata = 2;
    assert_eq!(d.cycle(&pins).awready, 1);
    for _ in 0..10 {
        let out = d.cycle(&pins);
        assert_eq!((out.bvalid, out.bresp, out.awready, out.wready), (1, OKAY, 0, 0));
    }
    assert_eq!(d.read(at(0, ARGUMENT)), Ok(Ok(1)));
}

#[test]
fn a_port_that_does_not_answer_is_noticed() {
    let mut d = Master::new(FAULT_PORT).expect("the simulated device");
    assert_eq!(d.read(at(0, ID)), Err(Silent));
    assert_eq!(d.write(at(0, FUNCTION), 1), Err(Silent));
}

/// One transfer with gaps: so many cycles before it is offered, before its
/// data is, before its answer is taken.
#[derive(Clone, Debug)]
struct Transfer {
    vf: u16,
    word: u32,
    write: Option<u32>,
    offer: usize,
    data: usize,
    take: usize,
}

fn transfer() -> impl Strategy<Value = Transfer> {
    (0..VFS, 0u32..4, proptest::option::of(any::<u32>()), 0usize..4, 0usize..4, 0usize..4).prop_map(
        |(vf, word, write, offer, data, take)| Transfer { vf, word, write, offer, data, take },
    )
}

/// Does one transfer and nothing beside it; the answer.
fn slowly(d: &mut Master, t: &Transfer) -> Outputs {
    let address = at(t.vf, ARGUMENT + 4 * t.word);
    let (mut address_in, mut data_in, mut answer_since) = (false, t.write.is_none(), None);
    for cycle in 0..64 {
        let mut pins = d.idle();
        let offer = cycle >= t.offer && !address_in;
        let data = cycle >= t.data && !data_in;
        let take = answer_since.is_some_and(|c| cycle >= c + t.take);
        match t.write {
            None => {
                (pins.araddr, pins.arvalid) = (address, u8::from(offer));
                pins.rready = u8::from(take);
            }
            Some(value) => {
                (pins.awaddr, pins.awvalid) = (address, u8::from(offer));
                (pins.wdata, pins.wvalid) = (value, u8::from(data));
                pins.bready = u8::from(take);
            }
        }
        let out = d.cycle(&pins);
        address_in |= pins.awvalid & out.awready != 0 || pins.arvalid & out.arready != 0;
        data_in |= pins.wvalid & out.wready != 0;
        let answer = if t.write.is_some() { out.bvalid } else { out.rvalid };
        if answer == 1 {
            assert!(address_in && data_in, "no answer before the question");
            answer_since.get_or_insert(cycle + 1);
            if take {
                return out;
            }
        }
    }
    panic!("no answer to {t:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn whatever_the_timing_registers_keep_what_was_written(
        transfers in proptest::collection::vec(transfer(), 1..60),
    ) {
        let mut d = device();
        let mut model = [[0u32; 4]; VFS as usize];
        for t in &transfers {
            let kept = &mut model[usize::from(t.vf)][t.word as usize];
            let out = slowly(&mut d, t);
            match t.write {
                Some(value) => {
                    prop_assert_eq!(out.bresp, OKAY);
                    *kept = value;
                }
                None => prop_assert_eq!((out.rresp, out.rdata), (OKAY, *kept)),
            }
        }
    }
}
