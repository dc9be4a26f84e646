//! The C header and the Rust structs say the same: a C compiler checks it.

use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;
use vfun_sdk::abi::*;

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// Compiles a source, or says why it cannot.
fn compile(compiler: &str, standard: &str, source: &Path) {
    let out = Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"])
        .arg(include())
        .arg(source)
        .output();
    match out {
        Ok(out) => assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr)),
        Err(e) => panic!("no {compiler} here: {e}"),
    }
}

macro_rules! layout {
    ($to:ident, $c:literal, $rust:ty { $($field:ident),* $(,)? }) => {
        writeln!($to, "SAME(sizeof(struct {}), {});", $c, size_of::<$rust>()).unwrap();
        $(
            writeln!($to, "SAME(offsetof(struct {}, {}), {});", $c, stringify!($field), offset_of!($rust, $field))
                .unwrap();
        )*
    };
}

#[test]
fn layouts_and_numbers_agree() {
    let mut c = String::from(
        "#include <stddef.h>\n#include \"vfun_driver.h\"\n\
         #define SAME(a, b) _Static_assert((long)(a) == (long)(b), #a)\n",
    );
    layouts(&mut c);
    numbers(&mut c);
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("layout.c");
    std::fs::write(&source, c).unwrap();
    compile("cc", "-std=c11", &source);
}

fn layouts(c: &mut String) {
    layout!(
        c,
        "vfun_driver_info",
        DriverInfo {
            abi,
            flags,
            name,
            version_major,
            version_minor,
            max_args,
            max_result,
            reserved,
        }
    );
    layout!(c, "vfun_driver_setting", DriverSetting { key, value });
    layout!(
        c,
        "vfun_driver_config",
        DriverConfig {
            abi,
            depth,
            channel,
            client,
            app,
            function,
            version_major,
            version_minor,
            cell_bytes,
            settings,
            settings_count,
            sentence,
            sentence_capacity,
            service,
        }
    );
    layout!(c, "vfun_driver_service", DriverService { later, answer, is_open, buffer, pages });
    layout!(c, "vfun_pages_place", PagesPlace { table, table_len, vm, vm_len });
    layout!(c, "vfun_open_call", OpenCall { service });
    layout!(
        c,
        "vfun_call",
        Call {
            command,
            flags,
            args,
            args_len,
            out,
            out_capacity,
            out_len,
            sentence,
            sentence_capacity,
        }
    );
}

fn numbers(c: &mut String) {
    for (name, value) in [
        ("VFUN_DRIVER_ABI", i64::from(ABI)),
        ("VFUN_DRIVER_NAME_BYTES", NAME_BYTES as i64),
        ("VFUN_DRIVER_INLINE_BYTES", INLINE_BYTES as i64),
        ("VFUN_COMMAND_SET", i64::from(COMMAND_SET)),
        ("VFUN_COMMAND_RST", i64::from(COMMAND_RST)),
        ("VFUN_CALL_SHARED_ARGS", i64::from(CALL_SHARED_ARGS)),
        ("VFUN_DRIVER_OK", i64::from(OK)),
        ("VFUN_DRIVER_PANIC", i64::from(PANIC)),
        ("VFUN_DRIVER_RESULT_TOO_LARGE", i64::from(RESULT_TOO_LARGE)),
        ("VFUN_DRIVER_BAD_ARGS", i64::from(BAD_ARGS)),
        ("VFUN_DRIVER_DEVICE_LOST", i64::from(DEVICE_LOST)),
        ("VFUN_DRIVER_LATER", i64::from(LATER)),
        ("VFUN_LATER_EVENT", i64::from(LATER_EVENT)),
        ("VFUN_ANSWERED", i64::from(ANSWERED)),
        ("VFUN_CANCELLED", i64::from(CANCELLED)),
    ] {
        writeln!(c, "SAME({name}, {value});").unwrap();
    }
}

#[test]
fn the_header_is_plain_c_and_cpp() {
    let dir = tempfile::tempdir().unwrap();
    let text = "#include \"vfun_driver.h\"\n";
    let (c, cpp) = (dir.path().join("a.c"), dir.path().join("a.cpp"));
    std::fs::write(&c, text).unwrap();
    std::fs::write(&cpp, text).unwrap();
    compile("cc", "-std=c99", &c);
    compile("c++", "-std=c++11", &cpp);
}

#[test]
fn the_templates_in_c_compile_without_a_warning() {
    for name in ["driver.c", "later.c"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../template/c");
        compile("cc", "-std=c11", &folder.join(name));
    }
}

#[test]
#[cfg(feature = "service")]
fn the_wire_says_the_same() {
    use vfun_wire::{channel::Command, limits};
    assert_eq!(u32::from(Command::Set.to_wire()), COMMAND_SET);
    assert_eq!(u32::from(Command::Rst.to_wire()), COMMAND_RST);
    assert_eq!(limits::INLINE_BYTES, INLINE_BYTES);
}
