//! Reads headers and compares what comes out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use vfun_apigen::Facts;
use vfun_apigen::import::{HeaderImport, ImportError, WantedFunctions, header};

fn of(file: &str, prefix: &str) -> HeaderImport {
    HeaderImport {
        header: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/headers").join(file),
        wanted: WantedFunctions::Prefixes(vec![prefix.into()]),
        ..HeaderImport::default()
    }
}

/// The parts of the text that follow a function's name.
fn function(facts: &Facts, name: &str) -> String {
    let told = facts
        .functions
        .iter()
        .find(|f| f.name == name)
        .unwrap_or_else(|| panic!("{name} is missing"));
    let parameters: Vec<_> =
        told.parameters.iter().map(|p| format!("{}: {}", p.name, p.ty)).collect();
    format!("({}) -> {}", parameters.join(", "), told.returns)
}

fn members(facts: &Facts, name: &str) -> String {
    let members: Vec<_> =
        facts.structs[name].members.iter().map(|m| format!("{}: {}", m.name, m.ty)).collect();
    members.join(", ")
}

#[test]
fn functions_come_in_the_headers_order() {
    let facts = header(&of("shapes.h", "dma_")).unwrap();
    let names: Vec<_> = facts.functions.iter().map(|f| f.name.as_str()).collect();
    let expected = [
        "dma_init",
        "dma_close",
        "dma_read",
        "dma_start",
        "dma_turn",
        "dma_name",
        "dma_choose",
        "dma_numbers",
        "dma_constants",
        "dma_no_prototype",
    ];
    assert_eq!(names, expected);
}

#[test]
fn prototypes_keep_numbers_names_and_resolve_pointers() {
    let facts = header(&of("shapes.h", "dma_")).unwrap();
    let done = "fn(*mut opaque dma_context, dma_id, i32, *mut void) -> void";
    let expected = [
        ("dma_init", "(version: u32, out: *mut *mut opaque dma_context) -> i32".to_owned()),
        ("dma_close", "(context: *mut opaque dma_context) -> void".into()),
        (
            "dma_read",
            "(argument0: *mut opaque dma_context, argument1: dma_channel, argument2: *mut void, \
             argument3: u64) -> dma_size"
                .into(),
        ),
        (
            "dma_start",
            format!(
                "(buffer: *mut opaque dma_buffer_tag, info: *const struct dma_info, done: {done}, \
                 user: *mut void) -> i32"
            ),
        ),
        ("dma_turn", "(level: dma_level, state: dma_state, speed: *mut f32) -> dma_direction".into()),
        (
            "dma_name",
            "(names: *const *const i8, buffers: *const *mut opaque dma_buffer_tag, count: *mut i32) \
             -> *const i8"
                .into(),
        ),
        (
            "dma_choose",
            "(old: fn(*const void, dma_size) -> i32, more: *mut fn() -> i32, \
             by_value: struct dma_point) -> fn(*const void, dma_size) -> i32"
                .into(),
        ),
        (
            "dma_numbers",
            "(argument0: i8, argument1: i8, argument2: i16, argument3: u16, argument4: i64, \
             argument5: i64, argument6: u64, argument7: f64, argument8: bool, argument9: i64) -> u8"
                .into(),
        ),
        (
            "dma_constants",
            "(origin: *const struct dma_point, ids: *const dma_fixed_id) -> void".into(),
        ),
        ("dma_no_prototype", "() -> i32".into()),
    ];
    for (name, text) in expected {
        assert_eq!(function(&facts, name), text, "{name}");
    }
}

#[test]
fn structs_and_aliases_are_those_that_functions_mention() {
    let facts = header(&of("shapes.h", "dma_")).unwrap();
    let structs: Vec<_> = facts.structs.keys().map(String::as_str).collect();
    assert_eq!(structs, ["dma_info", "dma_list", "dma_point"]);
    assert_eq!(
        members(&facts, "dma_info"),
        "channel: dma_channel, label: [i8; 16], corners: [[struct dma_point; 3]; 2], \
         buffer: *mut opaque dma_buffer_tag, list: *mut struct dma_list"
    );
    let aliases: Vec<_> = facts.aliases.iter().map(|(name, ty)| format!("{name} = {ty}")).collect();
    let expected = [
        "dma_channel = u32",
        "dma_direction = u32",
        "dma_fixed_id = u32",
        "dma_id = u32",
        "dma_level = i32",
        "dma_size = u64",
        "dma_state = u32",
    ];
    assert_eq!(aliases, expected);
}

#[test]
fn constants_are_macros_and_enumerators_of_the_apis_own_headers() {
    let facts = header(&of("shapes.h", "dma_")).unwrap();
    let constants: Vec<_> =
        facts.constants.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let expected = [
        "DMA_ALIAS = 2147483648",
        "DMA_ALL = -1",
        "DMA_BASE_LIMIT = 16",
        "DMA_BUSY = 16",
        "DMA_COLD = 0",
        "DMA_HEX = 127",
        "DMA_HIGH = 0",
        "DMA_IN = 1",
        "DMA_LOW = -1",
        "DMA_NEGATIVE = -7",
        "DMA_NEXT = 17",
        "DMA_OK = 0",
        "DMA_OUT = 2147483648",
        "DMA_STEP = 32",
        "DMA_VERSION = 3",
        "DMA_WARM = 1",
    ];
    assert_eq!(constants, expected);
}

#[test]
fn the_text_of_what_was_read_is_read_back() {
    let facts = header(&of("shapes.h", "dma_")).unwrap();
    assert_eq!(facts.to_string().parse::<Facts>().unwrap(), facts);
}

#[test]
fn without_a_prefix_all_own_functions_come_but_no_systems() {
    let all =
        header(&HeaderImport { wanted: WantedFunctions::default(), ..of("shapes.h", "") }).unwrap();
    let names: BTreeSet<_> = all.functions.iter().map(|f| f.name.as_str()).collect();
    assert!(names.contains("other_call") && names.contains("dma_init"));
    assert!(!names.contains("malloc") && !names.contains("dma_inline"));
}

#[test]
fn a_table_gives_functions_and_prototypes_give_names() {
    let wanted = WantedFunctions::Table("t_table".into());
    let facts = header(&HeaderImport { wanted, ..of("table.h", "") }).unwrap();
    assert_eq!(facts.functions.len(), 2);
    assert_eq!(function(&facts, "t_open"), "(flags: i32, user: *mut void) -> t_result");
    let close = "(argument0: *mut struct t_table, argument1: i32) -> t_result";
    assert_eq!(function(&facts, "t_close"), close);
    for missing in ["t_nothing", "t_result"] {
        let wanted = WantedFunctions::Table(missing.into());
        let error = header(&HeaderImport { wanted, ..of("table.h", "") }).unwrap_err();
        assert!(error.to_string().contains(missing), "{error}");
    }
}

#[test]
fn a_type_that_no_function_mentions_can_be_asked_for() {
    let types = vec!["dma_hidden".to_owned()];
    let facts = header(&HeaderImport { types, ..of("shapes.h", "dma_") }).unwrap();
    assert_eq!(members(&facts, "dma_hidden"), "value: f64");
    let types = vec!["dma_absent".to_owned()];
    let error = header(&HeaderImport { types, ..of("shapes.h", "dma_") }).unwrap_err();
    assert!(error.to_string().contains("dma_absent"), "{error}");
}

#[test]
fn everything_that_cannot_be_described_is_named_at_once() {
    let Err(ImportError::Functions { faults }) = header(&of("faults.h", "f_")) else {
        panic!("faults.h is full of faults");
    };
    let expected = [
        ("f_bits_call", "member 'part': a bit field"),
        (
            "f_outer_call",
            "struct f_outer, member 'bits': struct f_bits, member 'part': a bit field",
        ),
        ("f_union_call", "'f_union' is a union"),
        ("f_packed_call", "'f_packed' is packed"),
        ("f_pragma_call", "'f_pragma' is packed"),
        ("f_aligned_call", "member 'a': packed or aligned"),
        ("f_flexible_call", "member 'values': an array without a count"),
        ("f_unnamed_call", "member 'inner'"),
        ("f_variadic", "variable number of arguments"),
        ("f_variadic_callback", "parameter 'say'"),
        ("f_list", "parameter 'list': a list of variable arguments"),
        ("f_long", "'long double' cannot be forwarded"),
    ];
    let told: Vec<_> = faults.iter().map(|f| f.function.as_str()).collect();
    assert_eq!(told, expected.map(|(name, _)| name));
    for (fault, (name, why)) in faults.iter().zip(expected) {
        assert!(fault.why.contains(why), "{name}: {}", fault.why);
    }
    let skip = faults.into_iter().map(|f| f.function).collect();
    let facts = header(&HeaderImport { skip, ..of("faults.h", "f_") }).unwrap();
    assert_eq!(function(&facts, "f_good"), "(argument0: i32) -> i32");
    assert!(facts.structs.is_empty());
}

#[test]
fn errors_say_what_to_do() {
    let error = header(&of("absent.h", "")).unwrap_err();
    assert!(error.to_string().contains("absent.h"), "{error}");
    let error = header(&of("shapes.h", "wrong_")).unwrap_err();
    assert!(error.to_string().contains("none begins with wrong_; correct --prefix"), "{error}");
    let skip = vec!["dma_imaginary".to_owned()];
    let error = header(&HeaderImport { skip, ..of("shapes.h", "dma_") }).unwrap_err();
    assert!(error.to_string().contains("'dma_imaginary' is to be skipped"), "{error}");
    let defines = vec!["DMA_CALL=nonsense".to_owned(), "dma_size=".to_owned()];
    let error = header(&HeaderImport { defines, ..of("shapes.h", "dma_") }).unwrap_err();
    assert!(matches!(error, ImportError::Refused { .. }), "{error}");
}

/// A header of a Debian package that may be absent: then the test says so.
fn installed(path: &str) -> Option<PathBuf> {
    let there = Path::new(path).exists();
    if !there {
        println!("skipped: {path} is not installed (packaging/setup.sh installs it)");
    }
    there.then(|| path.into())
}

#[test]
fn pkcs11_is_read_from_p11_kits_header() {
    let Some(path) = installed("/usr/include/p11-kit-1/p11-kit/pkcs11.h") else { return };
    let import = |wanted| {
        header(&HeaderImport { header: path.clone(), wanted, ..HeaderImport::default() }).unwrap()
    };
    let facts = import(WantedFunctions::Table("CK_FUNCTION_LIST".into()));
    assert_eq!(facts.functions.len(), 68);
    assert_eq!(
        function(&facts, "C_GetAttributeValue"),
        "(session: CK_SESSION_HANDLE, object: CK_OBJECT_HANDLE, templ: *mut struct CK_ATTRIBUTE, \
         ulCount: u64) -> CK_RV"
    );
    assert_eq!(facts.constants["CKR_BUFFER_TOO_SMALL"], 0x150);
    assert_eq!(facts.constants["CKA_WRAP_TEMPLATE"], 0x4000_0211);
    assert_eq!(facts.constants["CK_UNAVAILABLE_INFORMATION"], -1);
    assert_eq!(facts.to_string().parse::<Facts>().unwrap(), facts);
    let prototypes = import(WantedFunctions::Prefixes(vec!["C_".into()]));
    let names =
        |facts: &Facts| facts.functions.iter().map(|f| f.name.clone()).collect::<BTreeSet<_>>();
    assert_eq!(names(&facts), names(&prototypes));
}

#[test]
fn opencl_is_read_from_khronos_header() {
    let Some(path) = installed("/usr/include/CL/cl.h") else { return };
    let defines = vec!["CL_TARGET_OPENCL_VERSION=300".to_owned()];
    let facts = header(&HeaderImport { header: path, defines, ..HeaderImport::default() }).unwrap();
    assert_eq!(
        function(&facts, "clSetEventCallback"),
        "(event: *mut opaque _cl_event, command_exec_callback_type: cl_int, \
         pfn_notify: fn(*mut opaque _cl_event, cl_int, *mut void) -> void, user_data: *mut void) -> cl_int"
    );
    assert!(members(&facts, "cl_image_desc").ends_with("buffer: *mut opaque _cl_mem"));
    assert_eq!(facts.constants["CL_INVALID_VALUE"], -30);
    assert_eq!(facts.constants["CL_DEVICE_TYPE_ALL"], 0xffff_ffff);
    assert_eq!(facts.to_string().parse::<Facts>().unwrap(), facts);
}

/// The facts of our own API that are kept in the repository are those of its header.
#[test]
fn the_kept_facts_of_gdma_are_its_headers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let facts = header(&HeaderImport {
        header: root.join("services/gdma/include/gdma.h"),
        wanted: WantedFunctions::Prefixes(vec!["gdma_".into()]),
        ..HeaderImport::default()
    });
    let kept = std::fs::read_to_string(root.join("tools/apigen/apis/gdma/facts.toml")).unwrap();
    assert!(
        kept.ends_with(&facts.unwrap().to_string()),
        "gdma.h changed: run `cargo run -p vfun-apigen -- import services/gdma/include/gdma.h \
         --prefix gdma_ -o tools/apigen/apis/gdma/facts.toml`"
    );
}
