//! The kernels that ship against plain Rust, and each way that arguments can go.

use crate::common::*;
use vfun_opencl::cl::Way;
use vfun_sdk::abi;
use vfun_sdk::loader::{ArgsAt, OutAt};
use vfun_sdk::service::Serve;

const WAYS: [Option<Way>; 3] = [None, Some(Way::Shared), Some(Way::Copied)];

#[test]
fn matrix_products_are_those_of_the_reference() {
    prepare();
    if !device("matrix_products_are_those_of_the_reference") {
        return;
    }
    for way in WAYS {
        let mut f = loaded("matmul_f32", way).channel().unwrap();
        for (m, n, k) in
            [(1, 1, 1), (3, 5, 7), (16, 16, 16), (17, 33, 40), (64, 64, 64), (1, 100, 257)]
        {
            let (a, b) = (noise(m * k, 1 + k as u64), noise(k * n, 2 + n as u64));
            let args = bytes(&[m as u32, n as u32, k as u32], &[&a, &b]);
            let found = floats(&call(&mut f, &args, m * n * 4).unwrap());
            matmul(m, n, k, &a, &b).check(&found, &format!("{way:?} {m} x {n} x {k}"));
        }
    }
}

#[test]
fn convolutions_are_those_of_the_reference() {
    prepare();
    if !device("convolutions_are_those_of_the_reference") {
        return;
    }
    for way in WAYS {
        let mut f = loaded("conv2d", way).channel().unwrap();
        for (h, w, r, c) in [
            (1, 1, 1, 1),
            (8, 8, 3, 3),
            (9, 31, 1, 5),
            (40, 17, 7, 2),
            (64, 64, 5, 5),
            (5, 5, 5, 5),
        ] {
            let (image, filter) = (noise(h * w, 3), noise(r * c, 4));
            let args = bytes(&[h as u32, w as u32, r as u32, c as u32], &[&image, &filter]);
            let room = (h - r + 1) * (w - c + 1) * 4;
            let found = floats(&call(&mut f, &args, room).unwrap());
            conv2d(h, w, r, c, &image, &filter)
                .check(&found, &format!("{way:?} {h} x {w}, {r} x {c}"));
        }
    }
}

/// Sums of whole numbers that single precision holds exactly have one right
/// answer, to the last bit.
#[test]
fn whole_numbers_come_out_exactly() {
    prepare();
    if !device("whole_numbers_come_out_exactly") {
        return;
    }
    let mut f = loaded("matmul_f32", None).channel().unwrap();
    let (m, n, k) = (31, 18, 50);
    let whole =
        |n, seed| noise(n, seed).into_iter().map(|x| (x * 100.0).round()).collect::<Vec<_>>();
    let (a, b) = (whole(m * k, 5), whole(k * n, 6));
    let found =
        call(&mut f, &bytes(&[m as u32, n as u32, k as u32], &[&a, &b]), m * n * 4).unwrap();
    let expect: Vec<f32> = matmul(m, n, k, &a, &b).value.iter().map(|v| *v as f32).collect();
    assert_eq!(floats(&found), expect);
}

#[test]
fn what_a_caller_gets_wrong_is_told_and_hurts_nothing() {
    prepare();
    if !device("what_a_caller_gets_wrong_is_told_and_hurts_nothing") {
        return;
    }
    let mut f = loaded("matmul_f32", None).channel().unwrap();
    for (numbers, elements, expect) in [
        ([2u32, 2, 2], 7usize, "data: 8 elements wanted, 7 there"),
        ([2, 2, 2], 9, "not so: count(data) == m * k + k * n"),
        ([0, 2, 2], 4, "work size roundup(m, 16) is 0"),
        ([u32::MAX; 3], 4, "elements wanted, 4 there"),
    ] {
        let e = call(&mut f, &bytes(&numbers, &[&vec![1.0; elements]]), 64).unwrap_err();
        assert_eq!(e.code, abi::BAD_ARGS);
        assert!(e.sentence.contains(expect), "{e} should say {expect}");
    }
    let args = bytes(&[2, 2, 2], &[&[1.0; 8]]);
    assert_eq!(call(&mut f, &args, 15).unwrap_err().code, abi::RESULT_TOO_LARGE);
    assert_eq!(floats(&call(&mut f, &args, 16).unwrap()), [2.0; 4], "and goes on");
    let e = call(
        &mut loaded("conv2d", None).channel().unwrap(),
        &bytes(&[2, 2, 3, 1], &[&[0.0; 7]]),
        64,
    );
    assert_eq!(e.unwrap_err().sentence, "height - rows + 1 is below zero");
}

#[test]
fn the_host_processors_work_in_place_and_others_are_said_to_copy() {
    prepare();
    if !device("the_host_processors_work_in_place_and_others_are_said_to_copy") {
        return;
    }
    let here = loaded("matmul_f32", None);
    let mut f = here.channel().unwrap();
    let args = bytes(&[2, 2, 2], &[&[1.0; 8]]);
    call(&mut f, &args, 16).unwrap();
    if here.way() == Way::InPlace {
        assert!(here.describe().ends_with("are used in place"), "{}", here.describe());
        assert_eq!(f.copies(), 0);
    }
    let copied = loaded("matmul_f32", Some(Way::Copied));
    assert!(copied.describe().ends_with("are copied"), "{}", copied.describe());
    let mut f = copied.channel().unwrap();
    for calls in 1..4 {
        assert_eq!(floats(&call(&mut f, &args, 16).unwrap()), [2.0; 4]);
        assert_eq!(f.copies(), calls * 3, "two matrices there, one back");
    }
}

/// A kernel that reads whole vectors needs addresses that suit them; where a
/// call's do not, that one is copied.
#[test]
fn addresses_that_do_not_suit_the_kernel_are_copied() {
    prepare();
    if !device("addresses_that_do_not_suit_the_kernel_are_copied") {
        return;
    }
    let source = "__kernel void twice(__global const float4 *v, __global float4 *o)\
        { size_t i = get_global_id(0); o[i] = v[i] * 2.0f; }";
    let map = "kernel = \"twice\"\nglobal = [\"count(v) / 4\"]\n\
        args = [{ input = \"v\", align = 16 }, { output = \"\", count = \"count(v)\", align = 16 }]\n\
        require = [\"count(v) % 4 == 0\"]\ntrial = {}";
    let loaded = own(source, map, "(v: [f32; 4..]) -> [f32]").unwrap();
    // Arguments as long as a cell's, so that they are used where they are.
    const BYTES: usize = 8192;
    #[repr(align(64))]
    struct Room([u8; BYTES + 64]);
    let (mut args, mut out) = (Room([0; BYTES + 64]), Room([0; BYTES + 64]));
    let mut f = loaded.channel().unwrap();
    for (args_skip, out_skip, copies) in [(0, 0, 0), (4, 0, 1), (0, 4, 2), (4, 4, 4), (16, 32, 4)] {
        let from = &mut args.0[args_skip..args_skip + BYTES];
        from.chunks_exact_mut(4).for_each(|c| c.copy_from_slice(&1.5f32.to_le_bytes()));
        let (from, to) = (ArgsAt::private(from), &mut out.0[out_skip..out_skip + BYTES]);
        let n = f.run(abi::COMMAND_SET, from, OutAt::private(to)).unwrap();
        assert_eq!(n.done(), Some(BYTES));
        assert!(floats(to).iter().all(|x| *x == 3.0), "{args_skip} {out_skip}");
        if loaded.way() != Way::Copied {
            assert_eq!(f.copies(), copies, "{args_skip} {out_skip}");
        }
    }
}

#[test]
fn a_binary_of_the_device_is_as_good_as_source() {
    prepare();
    if !device("a_binary_of_the_device_is_as_good_as_source") {
        return;
    }
    let binary = loaded("matmul_f32", None).binary().unwrap();
    let (mut map, signature) = shipped("matmul_f32");
    map.binary = true;
    let mut f =
        vfun_opencl::Loaded::new(&binary, &map, &signature, None).unwrap().channel().unwrap();
    let found = call(&mut f, &bytes(&[2, 2, 2], &[&[1.0; 8]]), 16).unwrap();
    assert_eq!(floats(&found), [2.0; 4]);
    let junk = vfun_opencl::Loaded::new(b"no binary", &map, &signature, None);
    assert!(junk.is_err());
}

/// Channels are threads; each has a kernel object of its own.
#[test]
fn channels_do_not_mix_their_arguments() {
    prepare();
    if !device("channels_do_not_mix_their_arguments") {
        return;
    }
    let loaded = loaded("matmul_f32", None);
    std::thread::scope(|s| {
        for t in 0..3u32 {
            let mut f = loaded.channel().unwrap();
            s.spawn(move || {
                for i in 0..200 {
                    let v = (t * 1000 + i) as f32;
                    let found =
                        call(&mut f, &bytes(&[2, 2, 1], &[&[v; 2], &[1.0; 2]]), 16).unwrap();
                    assert_eq!(floats(&found), [v; 4]);
                }
            });
        }
    });
}
