//! Modules, good and bad, without a service around them.

use vfun_sdk::loader::{ArgsAt, OutAt};
use vfun_sdk::service::{Engine, Serve};
use vfun_sdk::{CallOutcome, Config, DriverError, abi};
use vfun_wasm::limits::{MODULE_BYTES_MAX, PAGE_BYTES};
use vfun_wasm::{Guest, LoadError, Module};

mod common;
use common::{assembled, info};

/// Memory that these modules may have.
const MEMORY: u64 = 4 << 20;

/// A module with the info at 16, and these fields besides.
fn with_info(info: &str, fields: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
            (global (export "vfun_driver_info") i32 (i32.const 16))
            (data (i32.const 16) "{info}")
            {fields})"#
    );
    assembled(&text)
}

/// One page of memory and a function with this body: `$s` the state, `$c` the call.
fn bytes(body: &str) -> Vec<u8> {
    let fields = format!(
        r#"(memory (export "memory") 1)
        (func (export "vfun_driver_function") (param $s i32) (param $c i32) (result i32) {body})"#
    );
    with_info(&info("m", 100_000, 100_000), &fields)
}

fn load(bytes: Vec<u8>) -> Result<Module, LoadError> {
    Module::new(bytes, MEMORY)
}

fn config(cell_bytes: u32) -> Config {
    Config {
        client: "vm1".into(),
        app: "app".into(),
        function: "m".into(),
        depth: 4,
        cell_bytes,
        ..Config::default()
    }
}

fn open(bytes: Vec<u8>) -> Guest {
    load(bytes).unwrap().open(&config(4096)).unwrap()
}

fn call(guest: &mut Guest, args: &[u8]) -> Result<Vec<u8>, DriverError> {
    let mut room = vec![0; 4096];
    let n = guest.run(abi::COMMAND_SET, ArgsAt::private(args), OutAt::private(&mut room))?;
    room.truncate(n.done().expect("a module answers at once"));
    Ok(room)
}

fn rst(guest: &mut Guest) -> Result<CallOutcome, DriverError> {
    guest.run(abi::COMMAND_RST, ArgsAt::private(&[]), OutAt::private(&mut []))
}

/// Sets `out_len` to `n`.
fn out_len(n: &str) -> String {
    format!("(i64.store offset=40 (local.get $c) {n})")
}

/// Counts its calls in its memory, at 8; the result is the count.
fn counter() -> Vec<u8> {
    bytes(&format!(
        "(i64.store (i32.const 8) (i64.add (i64.load (i32.const 8)) (i64.const 1)))
         (i64.store (i32.load offset=24 (local.get $c)) (i64.load (i32.const 8)))
         {} (i32.const 0)",
        out_len("(i64.const 8)")
    ))
}

#[test]
fn arguments_arrive_and_results_come_back() {
    let echo = bytes(&format!(
        "(memory.copy (i32.load offset=24 (local.get $c)) (i32.load offset=8 (local.get $c))
            (i32.wrap_i64 (i64.load offset=16 (local.get $c))))
         {} (i32.const 0)",
        out_len("(i64.load offset=16 (local.get $c))")
    ));
    let mut guest = open(echo);
    for len in [0, 1, 47, 48, 49, 64, 4095, 4096] {
        let args: Vec<u8> = (0..len).map(|i| i as u8).collect();
        assert_eq!(call(&mut guest, &args).unwrap(), args, "{len} bytes");
    }
    let e = call(&mut guest, &[0; 4097]).unwrap_err();
    assert_eq!(e.code, abi::BAD_ARGS, "longer than the channel's cells");
}

#[test]
fn a_trap_ends_one_call_and_the_next_begins_anew() {
    // Counts, and traps at the third call.
    let mut guest = open(bytes(&format!(
        "(i64.store (i32.const 8) (i64.add (i64.load (i32.const 8)) (i64.const 1)))
         (if (i64.eq (i64.load (i32.const 8)) (i64.const 3)) (then (unreachable)))
         (i64.store (i32.load offset=24 (local.get $c)) (i64.load (i32.const 8)))
         {} (i32.const 0)",
        out_len("(i64.const 8)")
    )));
    for _ in 0..3 {
        assert_eq!(call(&mut guest, &[]).unwrap(), 1u64.to_le_bytes());
        assert_eq!(call(&mut guest, &[]).unwrap(), 2u64.to_le_bytes());
        let e = call(&mut guest, &[]).unwrap_err();
        assert_eq!(
            (e.code, e.sentence.as_str()),
            (abi::PANIC, "trap: unreachable (a panic or an abort)")
        );
    }
}

#[test]
fn traps_are_named() {
    for (body, name) in [
        ("(drop (i32.load (i32.const -16))) (i32.const 0)", "trap: out of bounds memory access"),
        ("(i32.div_u (i32.const 1) (i32.const 0))", "trap: integer divide by zero"),
        ("(i32.trunc_f64_u (f64.const 1e300))", "trap: integer overflow"),
    ] {
        let e = call(&mut open(bytes(body)), &[]).unwrap_err();
        assert_eq!((e.code, e.sentence.as_str()), (abi::PANIC, name));
    }
}

#[test]
fn a_stack_that_overflows_is_a_trap() {
    let fields = r#"(memory (export "memory") 1)
        (func $deep (param i64) (result i64)
            (i64.add (i64.const 1) (call $deep (i64.add (local.get 0) (i64.const 1)))))
        (func (export "vfun_driver_function") (param $s i32) (param $c i32) (result i32)
            (i32.wrap_i64 (call $deep (i64.const 0))))"#;
    // On a thread as small as a channel's.
    let module = load(with_info(&info("m", 8, 8), fields)).unwrap();
    let told = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
        let mut guest = module.open(&config(0)).unwrap();
        (0..3).map(|_| call(&mut guest, &[]).unwrap_err().sentence).collect::<Vec<_>>()
    });
    assert_eq!(told.unwrap().join().unwrap(), ["trap: call stack exhausted"; 3]);
}

#[test]
fn memory_grows_to_its_limit_and_no_further() {
    // Grows page by page until it may not; the result is the pages it has.
    let mut guest = open(bytes(&format!(
        "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
         (i64.store (i32.load offset=24 (local.get $c)) (i64.extend_i32_u (memory.size)))
         {} (i32.const 0)",
        out_len("(i64.const 8)")
    )));
    let pages = MEMORY / PAGE_BYTES;
    assert_eq!(call(&mut guest, &[]).unwrap(), pages.to_le_bytes());
    assert_eq!(call(&mut guest, &[]).unwrap(), pages.to_le_bytes());
}

#[test]
fn tables_grow_to_their_limit_and_no_further() {
    let fields = format!(
        r#"(memory (export "memory") 1) (table $t 1 funcref)
        (func (export "vfun_driver_function") (param $s i32) (param $c i32) (result i32)
            (i64.store (i32.load offset=24 (local.get $c))
                (i64.extend_i32_s (table.grow $t (ref.null func) (i32.const 100000))))
            {} (i32.const 0))"#,
        out_len("(i64.const 8)")
    );
    let mut guest = open(with_info(&info("m", 8, 8), &fields));
    assert_eq!(call(&mut guest, &[]).unwrap(), (-1i64).to_le_bytes());
    let many = r#"(memory (export "memory") 1) (table $t 100000 funcref)
        (func (export "vfun_driver_function") (param $s i32) (param $c i32) (result i32) (i32.const 0))"#;
    let e = load(with_info(&info("m", 8, 8), many)).map(|_| ()).unwrap_err();
    assert!(matches!(e, LoadError::Start { .. }), "{e}");
}

#[test]
fn rst_forgets_all_that_the_module_kept() {
    let mut guest = open(counter());
    assert_eq!(call(&mut guest, &[]).unwrap(), 1u64.to_le_bytes());
    assert_eq!(call(&mut guest, &[]).unwrap(), 2u64.to_le_bytes());
    assert_eq!(rst(&mut guest), Ok(CallOutcome::Done(0)));
    assert_eq!(call(&mut guest, &[]).unwrap(), 1u64.to_le_bytes());
}

#[test]
fn channels_share_nothing() {
    let module = load(counter()).unwrap();
    let (mut a, mut b) = (module.open(&config(64)).unwrap(), module.open(&config(64)).unwrap());
    for n in 1..5u64 {
        assert_eq!(call(&mut a, &[]).unwrap(), n.to_le_bytes());
    }
    assert_eq!(call(&mut b, &[]).unwrap(), 1u64.to_le_bytes());
}

#[test]
fn errors_carry_the_modules_code_and_sentence() {
    let mut guest = open(bytes(
        r#"(i64.store (i32.load offset=48 (local.get $c)) (i64.const 0x2179726f73)) (i32.const 7)"#,
    ));
    let e = call(&mut guest, &[]).unwrap_err();
    assert_eq!((e.code, e.sentence.as_str()), (7, "sory!"));
    // Without a zero at its end, and without being text: what there is.
    let mut guest = open(bytes(
        "(memory.fill (i32.load offset=48 (local.get $c)) (i32.const 0xff) (i32.const 256)) (i32.const 7)",
    ));
    let e = call(&mut guest, &[]).unwrap_err();
    assert_eq!((e.code, e.sentence.chars().next()), (7, Some(char::REPLACEMENT_CHARACTER)));
}

#[test]
fn results_that_do_not_fit_are_refused() {
    for n in ["(i64.const 4097)", "(i64.const -1)"] {
        let mut guest = open(bytes(&format!("{} (i32.const 0)", out_len(n))));
        assert_eq!(call(&mut guest, &[]).unwrap_err().code, abi::RESULT_TOO_LARGE);
    }
}

#[test]
fn init_gets_its_configuration_and_may_refuse() {
    // The state is the configuration's `settings_count`; a call returns it.
    let fields = format!(
        r#"(memory (export "memory") 1)
        (func (export "vfun_driver_init") (param $config i32) (param $state i32) (result i32)
            (i32.store (local.get $state) (i32.load offset=40 (local.get $config)))
            (select (i32.const 5) (i32.const 0)
                (i32.eq (i32.load8_u (i32.load offset=16 (local.get $config))) (i32.const 0x62))))
        (func (export "vfun_driver_function") (param $s i32) (param $c i32) (result i32)
            (i64.store (i32.load offset=24 (local.get $c)) (i64.extend_i32_u (local.get $s)))
            {} (i32.const 0))"#,
        out_len("(i64.const 8)")
    );
    let module = load(with_info(&info("m", 8, 8), &fields)).unwrap();
    let mut c = config(0);
    for i in 0..3000 {
        c.settings.insert(format!("key{i}"), "value".into());
    }
    let mut guest = module.open(&c).unwrap();
    assert_eq!(call(&mut guest, &[]).unwrap(), 3000u64.to_le_bytes());
    c.client = "bad".into();
    assert_eq!(module.open(&c).map(|_| ()).unwrap_err().code, 5);
}

#[test]
fn a_module_may_name_the_place_for_arguments_and_results() {
    let fields = |at: &str| {
        format!(
            r#"(memory (export "memory") 1 1)
            (func (export "vfun_wasm_area") (param i32) (result i32) {at})
            (func (export "vfun_driver_function") (param $s i32) (param $c i32) (result i32)
                (i64.store (i32.load offset=24 (local.get $c)) (i64.extend_i32_u (local.get $c)))
                {} (i32.const 0))"#,
            out_len("(i64.const 8)")
        )
    };
    let module = |at| load(with_info(&info("m", 8, 8), &fields(at))).unwrap();
    let mut guest = module("(i32.const 4096)").open(&config(0)).unwrap();
    assert_eq!(call(&mut guest, &[]).unwrap(), 4096u64.to_le_bytes());
    for at in ["(i32.const 0)", "(i32.const 65520)", "(i32.const -16)", "(i32.const 4097)"] {
        let e = module(at).open(&config(0)).map(|_| ()).unwrap_err();
        assert!(e.sentence.contains("no room"), "{at}: {e}");
    }
    // Memory that cannot grow, and no such function.
    let fixed = r#"(memory (export "memory") 1 1)
        (func (export "vfun_driver_function") (param $s i32) (param $c i32) (result i32) (i32.const 0))"#;
    let module = load(with_info(&info("m", 8, 8), fixed)).unwrap();
    let e = module.open(&config(0)).map(|_| ()).unwrap_err();
    assert!(e.sentence.contains("no room"), "{e}");
}

fn refusal(bytes: Vec<u8>) -> String {
    load(bytes).map(|_| ()).unwrap_err().to_string()
}

const FUNCTION: &str =
    r#"(func (export "vfun_driver_function") (param i32 i32) (result i32) (i32.const 0))"#;
const MEMORY_1: &str = r#"(memory (export "memory") 1)"#;

#[test]
fn what_is_no_module_is_refused() {
    for bytes in
        [&b""[..], b"\0asm", b"\0asm\x0d\0\x01\0component", b"\x7fELF\x02\x01\x01\0", b"(module)"]
    {
        assert_eq!(load(bytes.to_vec()).map(|_| ()).unwrap_err(), LoadError::NotWasm);
    }
    let whole = bytes("(i32.const 0)");
    for cut in (9..whole.len()).step_by(7) {
        let said = refusal(whole[..cut].to_vec());
        assert!(
            said.contains("the module is not valid") || said.contains("does not export"),
            "{said}"
        );
    }
    let said = refusal(vec![0; MODULE_BYTES_MAX as usize + 1]);
    assert!(said.contains("8388609 bytes, at most 8388608"), "{said}");
}

#[test]
fn imports_are_refused_by_name() {
    let fields = format!(
        "(import \"wasi_snapshot_preview1\" \"fd_write\" (func (param i32))) {MEMORY_1} {FUNCTION}"
    );
    let text = format!("(module {fields})");
    let said = refusal(assembled(&text));
    assert!(said.contains("imports wasi_snapshot_preview1.fd_write"), "{said}");
    // A memory from outside too.
    let text = format!("(module (import \"env\" \"memory\" (memory 1)) {FUNCTION})");
    assert!(refusal(assembled(&text)).contains("imports env.memory"));
}

#[test]
fn missing_and_wrong_exports_are_refused_by_name() {
    let i = info("m", 8, 8);
    let two = "(param i32 i32) (result i32)";
    for (fields, expect) in [
        (format!("(memory 1) {FUNCTION}"), "does not export memory"),
        (
            format!("(global (export \"memory\") i32 (i32.const 1)) (memory 1) {FUNCTION}"),
            "memory is not",
        ),
        (MEMORY_1.to_owned(), "does not export vfun_driver_function"),
        (
            format!(
                "{MEMORY_1} (func (export \"vfun_driver_function\") (param i64 i32) (result i32) (i32.const 0))"
            ),
            "vfun_driver_function is not the function int (void *state",
        ),
        (
            format!(
                "{MEMORY_1} {FUNCTION} (func (export \"vfun_driver_init\") (result i32) (i32.const 0))"
            ),
            "vfun_driver_init is not",
        ),
        (
            format!("{MEMORY_1} {FUNCTION} (func (export \"vfun_wasm_area\") {two} (i32.const 0))"),
            "vfun_wasm_area is not",
        ),
        (
            format!("(memory (export \"memory\") 65) {FUNCTION}"),
            "begins with 4259840 bytes of memory and may have 4194304",
        ),
        (format!("(memory (export \"memory\") i64 1) {FUNCTION}"), "not valid"),
        (format!("(memory (export \"memory\") 1 1 shared) {FUNCTION}"), "not valid"),
        (format!("{MEMORY_1} (memory 1) {FUNCTION}"), "not valid"),
        (
            format!("{MEMORY_1} {FUNCTION} (func $s unreachable) (start $s)"),
            "could not be started: trap: unreachable",
        ),
    ] {
        let said = refusal(with_info(&i, &fields));
        assert!(said.contains(expect), "{said} should say {expect}");
    }
    let text = format!("(module {MEMORY_1} {FUNCTION})");
    assert!(refusal(assembled(&text)).contains("does not export vfun_driver_info"));
    for at in ["65500", "-1"] {
        let text = format!(
            "(module {MEMORY_1} {FUNCTION} (global (export \"vfun_driver_info\") i32 (i32.const {at})))"
        );
        assert!(refusal(assembled(&text)).contains("outside the module's memory"));
    }
}

#[test]
fn another_functions_module_is_refused() {
    let m = load(bytes("(i32.const 0)")).unwrap();
    assert_eq!(m.expect("m", (1, 0)), Ok(()));
    assert!(
        m.expect("n", (1, 0))
            .unwrap_err()
            .to_string()
            .contains("function n, but the module is that of m")
    );
    assert!(
        m.expect("m", (2, 0))
            .unwrap_err()
            .to_string()
            .contains("m 2.0, but the module is version 1.0")
    );
}

#[test]
fn a_module_that_never_starts_is_given_up() {
    let fields = format!("{MEMORY_1} {FUNCTION} (func $s (loop $l (br $l))) (start $s)");
    let e = load(with_info(&info("m", 8, 8), &fields)).map(|_| ()).unwrap_err();
    assert_eq!(e, LoadError::TooSlow);
    // The thread is left behind; this test's process ends with it.
}

#[test]
fn a_missing_file_says_where() {
    let e = Module::open("/nowhere/x.wasm".as_ref(), MEMORY).map(|_| ()).unwrap_err();
    assert!(e.to_string().starts_with("the module /nowhere/x.wasm cannot be read"), "{e}");
}
