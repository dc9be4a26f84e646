//! Sections against signatures, and calls against sections.

use proptest::prelude::*;
use vfun_kernelmap::limits::TRIAL_BYTES;
use vfun_kernelmap::{Bound, Launch, Map, Mapping};

const MATMUL: &str = r#"
kernel = "matmul_f32"
global = ["roundup(n, 16)", "roundup(m, 16)"]
local = ["16", "16"]
args = [
    { value = "m" }, { value = "n" }, { value = "k" },
    { input = "data", count = "m * k", align = 64 },
    { input = "data", at = "m * k", count = "k * n" },
    { output = "", count = "m * n" },
    { local = "f32", count = "256" },
    { value = "m * k", type = "u64" },
]
require = ["count(data) == m * k + k * n"]
"#;
const SIGNATURE: &str = "(m: u32, n: u32, k: u32, data: [f32]) -> [f32]";

fn mapping(map: &str, signature: &str) -> Result<Mapping, String> {
    let map: Map = toml::from_str(map).map_err(|e| e.to_string())?;
    Mapping::new(&map, &signature.parse().unwrap()).map_err(|e| e.to_string())
}

fn bind(m: &Mapping, args: &[u8]) -> Result<Launch, String> {
    let mut launch = Launch::default();
    let read = |at: usize, to: &mut [u8]| to.copy_from_slice(&args[at..at + to.len()]);
    m.bind(args.len(), read, &mut launch).map_err(|e| e.to_string())?;
    Ok(launch)
}

fn call(numbers: &[u32], elements: usize) -> Vec<u8> {
    let mut args: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    args.resize(args.len() + 4 * elements, 0);
    args
}

#[test]
fn a_call_becomes_a_launch() {
    let m = mapping(MATMUL, SIGNATURE).unwrap();
    let launch = bind(&m, &call(&[3, 20, 2], 3 * 2 + 2 * 20)).unwrap();
    assert_eq!((launch.global, launch.local), ([32, 16, 1], Some([16, 16, 1])));
    assert_eq!((m.dimensions(), launch.result_len), (2, 3 * 20 * 4));
    let number = |n: u64, len| Bound::Scalar { bytes: n.to_le_bytes(), len };
    let expect = [
        number(3, 4),
        number(20, 4),
        number(2, 4),
        Bound::Input { offset: 12, len: 24, align: 64 },
        Bound::Input { offset: 12 + 24, len: 160, align: 4 },
        Bound::Output { offset: 0, len: 240, align: 4 },
        Bound::Local(1024),
        number(6, 8),
    ];
    assert_eq!(launch.args, expect);
}

#[test]
fn a_call_that_does_not_fit_is_its_callers_mistake() {
    let m = mapping(MATMUL, SIGNATURE).unwrap();
    for (numbers, elements, expect) in [
        ([3, 4, 2], 13, "data: 14 elements wanted, 13 there"),
        ([3, 4, 2], 15, "not so: count(data) == m * k + k * n"),
        ([0, 4, 2], 8, "work size roundup(m, 16) is 0"),
        ([3, 4, 0], 8, "data: no elements"),
        ([u32::MAX, 1, u32::MAX], 8, "data: 18446744065119617025 elements wanted, 8 there"),
    ] {
        assert_eq!(bind(&m, &call(&numbers, elements)).unwrap_err(), expect);
    }
    assert_eq!(bind(&m, &[0; 11]).unwrap_err(), "arguments: 11 bytes are too few");
    // Products of three numbers of 32 bits do not fit 64.
    let cube = MATMUL.replace("\"m * k\", type", "\"m * n * k\", type");
    let e = bind(&mapping(&cube, SIGNATURE).unwrap(), &call(&[u32::MAX; 3], 8)).unwrap_err();
    assert!(e.contains("is too large") || e.contains("elements wanted"), "{e}");
}

#[test]
fn numbers_below_zero_are_passed_on_but_are_no_sizes() {
    let map = r#"
kernel = "shift"
global = ["n"]
args = [{ value = "by" }, { input = "v", count = "n" }, { output = "", count = "n" }]"#;
    let m = mapping(map, "(by: i32, n: i16, v: [i8]) -> [i8]").unwrap();
    let args = |by: i32, n: i16| {
        let mut a = by.to_le_bytes().to_vec();
        a.extend(n.to_le_bytes());
        a.extend([0; 4]);
        a
    };
    let launch = bind(&m, &args(-5, 4)).unwrap();
    assert_eq!(
        launch.args[0],
        Bound::Scalar { bytes: [0xfb, 0xff, 0xff, 0xff, 0, 0, 0, 0], len: 4 }
    );
    assert_eq!(launch.local, None);
    assert_eq!(bind(&m, &args(-5, -4)).unwrap_err(), "n is below zero");
}

#[test]
fn formulas_must_fit_their_type() {
    let map = r#"
kernel = "k"
global = ["n"]
args = [{ value = "n + 1", type = "i8" }, { output = "" }]"#;
    let m = mapping(map, "(n: u64) -> u8").unwrap();
    assert!(bind(&m, &126u64.to_le_bytes()).is_ok());
    assert_eq!(bind(&m, &127u64.to_le_bytes()).unwrap_err(), "n + 1 is too large");
}

#[test]
fn sections_that_promise_what_is_not_there_are_refused_with_their_place() {
    for (from, to, expect) in [
        (
            "{ value = \"m\" }",
            "{ value = \"x\" }",
            "args[0].value: the signature has no argument 'x'",
        ),
        ("{ value = \"m\" }", "{ value = \"m + 1\" }", "a formula needs a `type`"),
        ("{ value = \"m\" }", "{ }", "args[0]: an argument is exactly one of"),
        (
            "{ value = \"m\" }",
            "{ value = \"m\", input = \"data\" }",
            "args[0]: an argument is exactly",
        ),
        (
            "{ value = \"m\" }",
            "{ value = \"m\", at = \"1\" }",
            "args[0].at: it has no meaning here",
        ),
        ("type = \"u64\"", "type = \"f64\"", "args[7].type: 'f64' is not a type of whole numbers"),
        (
            "input = \"data\", at",
            "input = \"dada\", at",
            "args[4].input: the signature has no argument 'dada'",
        ),
        (
            "count = \"k * n\"",
            "count = \"k *\"",
            "args[4].count: 'k *': a number or a name is missing",
        ),
        ("output = \"\"", "output = \"c\"", "args[5].output: the signature has no result 'c'"),
        (", count = \"m * n\"", "", "args[5].count: how many elements of the result"),
        (
            "{ output = \"\", count = \"m * n\" },",
            "",
            "args: no argument of the kernel is the output of the result",
        ),
        ("count = \"256\"", "at = \"1\"", "args[6].at: it has no meaning here"),
        (", count = \"256\"", "", "args[6].count: local memory needs one"),
        ("local = \"f32\"", "local = \"float\"", "args[6].local: 'float' is not a scalar type"),
        ("align = 64", "align = 48", "args[3].align: it is a power of two"),
        ("[\"16\", \"16\"]", "[\"16\"]", "local: it has 1 dimensions, global 2"),
        ("count(data) ==", "count(data) =", "require[0]: a condition compares with"),
        (
            "count(data) ==",
            "count(m) ==",
            "require[0]: 'count(m) ': the signature has no variable array 'm'",
        ),
        ("\"matmul_f32\"", "\"\"", "kernel: it has no name"),
        ("kernel =", "colour = 1\nkernel =", "unknown field `colour`"),
    ] {
        assert!(MATMUL.contains(from), "{from}");
        let e = mapping(&MATMUL.replacen(from, to, 1), SIGNATURE).unwrap_err();
        assert!(e.contains(expect), "{from} -> {to}: {e} should say {expect}");
    }
    let e = mapping(&format!("{MATMUL}\n[trial]\nq = 3"), SIGNATURE).unwrap_err();
    assert!(e.contains("trial.q: the signature has no argument 'q'"), "{e}");
    let e = mapping(MATMUL, "(m: f32, n: u32, k: u32, data: [f32]) -> [f32]").unwrap_err();
    assert!(e.contains("'m' is a f32, and sizes are made of whole numbers"), "{e}");
}

#[test]
fn a_trial_call_is_the_smallest_there_is() {
    let m = mapping(MATMUL, SIGNATURE).unwrap();
    assert_eq!(m.trial().unwrap(), call(&[1, 1, 1], 2));
    let larger = mapping(&format!("{MATMUL}\n[trial]\nm = 3\nk = 2"), SIGNATURE).unwrap();
    assert_eq!(larger.trial().unwrap(), call(&[3, 1, 2], 8));
    let huge = mapping(&format!("{MATMUL}\n[trial]\nm = 1000000"), SIGNATURE).unwrap();
    assert_eq!(huge.trial().unwrap_err().to_string(), "the trial call is too large");
    let whole =
        "kernel = \"k\"\nglobal = [\"count(v)\"]\nargs = [{ input = \"v\" }, { output = \"\" }]";
    assert_eq!(mapping(whole, "(v: [u64]) -> u64").unwrap().trial().unwrap().len(), 8);
    let never = format!("{whole}\nrequire = [\"count(v) > 5\"]");
    let e = mapping(&never, "(v: [u64]) -> u64").unwrap().trial().unwrap_err();
    assert_eq!(e.to_string(), "not so: count(v) > 5");
}

proptest! {
    /// Whatever a caller sends: a refusal, or buffers inside the arguments.
    #[test]
    fn buffers_are_inside_the_arguments(
        m in any::<u32>(), n in 0u32..64, k in prop_oneof![0u32..64, any::<u32>()],
        small in 0u32..9, which in any::<bool>(), elements in 0usize..600,
    ) {
        let map = mapping(MATMUL, SIGNATURE).unwrap();
        let args = call(&[if which { m } else { small }, n, k], elements);
        if let Ok(launch) = bind(&map, &args) {
            for a in &launch.args {
                match *a {
                    Bound::Input { offset, len, .. } => {
                        prop_assert!(len > 0 && offset >= 12 && offset + len <= args.len());
                    }
                    Bound::Output { offset, len, .. } => {
                        prop_assert!(len > 0 && offset + len <= launch.result_len);
                    }
                    _ => {}
                }
            }
            prop_assert!(launch.global.iter().all(|g| *g > 0));
        }
        prop_assert!(map.trial().unwrap().len() <= TRIAL_BYTES);
    }
}
