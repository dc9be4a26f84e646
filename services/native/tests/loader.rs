//! Drivers loaded into this process: good ones, and each way of being none.

use crate::common::{Service, Shape, built, start_of};
use std::path::{Path, PathBuf};
use std::process::Command;
use vfun_sdk::abi;
use vfun_sdk::loader::{Library, LoadError};
use vfun_sdk::{Config, DriverError};
use vfun_supervise::Driver;
use vfun_testdriver::{Mode, SENTENCE};
use vfun_wire::Status;

fn sdk() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk")
}

/// A shared library from C.
pub fn from_c(dir: &Path, name: &str, source: &str) -> PathBuf {
    let (c, so) = (dir.join(format!("{name}.c")), dir.join(format!("{name}.so")));
    std::fs::write(&c, source).unwrap();
    let out = Command::new("cc")
        .args(["-shared", "-fPIC", "-pthread", "-O1", "-I"])
        .arg(sdk().join("include"))
        .arg("-o")
        .args([&so, &c])
        .output()
        .expect("a C compiler");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    so
}

const INFO: &str = "#include \"vfun_driver.h\"\nconst struct vfun_driver_info vfun_driver_info = ";
const REST: &str = "
int vfun_driver_init(const struct vfun_driver_config *c, void **s) { (void)c; *s = 0; return 0; }
int vfun_driver_function(void *s, struct vfun_call *c) { (void)s; c->out_len = c->out_capacity + 1; return 0; }
void vfun_driver_exit(void *s) { (void)s; }
";

#[test]
fn what_is_no_driver_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let open =
        |name: &str, source: &str| Library::open(&from_c(dir.path(), name, source)).err().unwrap();
    let good = "{ .abi = 1, .name = \"c\", .version_major = 1 };";
    assert!(matches!(
        open("none", "int x;"),
        LoadError::MissingSymbol { symbol: "vfun_driver_info", .. }
    ));
    for lost in ["vfun_driver_init", "vfun_driver_function", "vfun_driver_exit"] {
        let source = format!("{INFO}{good}{}", REST.replace(lost, "something_else"));
        let source = source.replace("something_else(", &format!("{lost}_else("));
        let e = open(lost, &source);
        assert!(matches!(e, LoadError::MissingSymbol { symbol, .. } if symbol == lost), "{e}");
        assert!(e.to_string().contains("not a VirtFun driver"), "{e}");
    }
    let e = open("abi", &format!("{INFO}{{ .abi = 9, .name = \"c\" }};{REST}"));
    assert!(matches!(e, LoadError::WrongAbi { found: 9, .. }), "{e}");
    for (name, info, words) in [
        ("flags", "{ .abi = 1, .flags = 4, .name = \"c\" };", "must be 0"),
        ("empty", "{ .abi = 1 };", "name is empty"),
        ("utf8", "{ .abi = 1, .name = \"\\xff\" };", "not UTF-8"),
    ] {
        let e = open(name, &format!("{INFO}{info}{REST}"));
        assert!(matches!(e, LoadError::BadInfo { .. }), "{e}");
        assert!(e.to_string().contains(words), "{e}");
    }
    let endless = format!("{INFO}{{ .abi = 1, .name = {{ [0 ... 63] = 'x' }} }};{REST}");
    assert!(open("endless", &endless).to_string().contains("no end"));
}

#[test]
fn a_missing_file_is_not_searched_for_elsewhere() {
    // A name that the system's loader would find by itself.
    let e = Library::open("libc.so.6".as_ref()).err().unwrap();
    assert!(matches!(e, LoadError::Missing { .. }), "{e}");
}

#[test]
fn name_and_version_must_be_the_manifests() {
    let l = Library::open(&built("libvfun_fn_echo.so")).unwrap();
    assert_eq!((l.info().name.as_str(), l.info().version), ("echo", (1, 0)));
    l.expect("echo", (1, 0)).unwrap();
    assert!(matches!(l.expect("sum", (1, 0)), Err(LoadError::WrongName { .. })));
    assert!(matches!(l.expect("echo", (1, 1)), Err(LoadError::WrongVersion { .. })));
}

#[test]
fn calls_in_process() {
    let echo = Library::open(&built("libvfun_fn_echo.so")).unwrap();
    let mut i = echo.init(&Config::default()).unwrap();
    let mut out = [0; 100];
    assert_eq!(i.call(b"hello", &mut out).unwrap(), 5);
    assert_eq!(&out[..5], b"hello");
    assert_eq!(i.call(&[1; 101], &mut out).unwrap_err().code, abi::RESULT_TOO_LARGE);
    assert_eq!(i.call(&[], &mut []).unwrap(), 0);

    let bad = Library::open(&built("libvfun_testdriver.so")).unwrap();
    let mut i = bad.init(&Config::default()).unwrap();
    let mut j = bad.init(&Config::default()).unwrap();
    let count = |i: &mut vfun_sdk::loader::Instance| {
        let mut out = [0; 8];
        i.call(&[Mode::Count as u8], &mut out).unwrap();
        u64::from_le_bytes(out)
    };
    assert_eq!((count(&mut i), count(&mut i), count(&mut j)), (1, 2, 1));
    i.rst().unwrap();
    assert_eq!(count(&mut i), 1);
    let e = i.call(&[Mode::Code as u8, 7, 0, 0, 0], &mut out).unwrap_err();
    assert_eq!(e, DriverError { code: 7, sentence: SENTENCE.into() });
    let e = i.call(&[Mode::Panic as u8], &mut out).unwrap_err();
    assert_eq!(e.code, abi::PANIC);
    assert_eq!(count(&mut i), 1, "afresh");
    let mut refused = Config::default();
    refused.settings.insert("fail".into(), "no".into());
    assert_eq!(bad.init(&refused).err(), Some(DriverError { code: 77, sentence: "no".into() }));
    refused.settings.insert("zero".into(), "a\0b".into());
    assert!(bad.init(&refused).err().unwrap().sentence.contains("zero byte"));
}

#[test]
fn a_driver_in_c_serves() {
    let dir = tempfile::tempdir().unwrap();
    let source = std::fs::read_to_string(sdk().join("../template/c/driver.c")).unwrap();
    let library = from_c(dir.path(), "total", &source);
    let mut start = start_of("mytotal", Driver::Native { library });
    start.settings.insert("start".into(), "40".into());
    let mut s = Service::start(start);
    let app = s.open(1, Shape::default());
    assert_eq!(app.ok(&2u64.to_le_bytes()), 42u64.to_le_bytes());
    let (status, bytes) = app.call(&u64::MAX.to_le_bytes());
    assert_eq!((status, &bytes[..4]), (Status::DriverError, &1u32.to_le_bytes()[..]));
    assert_eq!(&bytes[4..], b"the total exceeds 64 bits: use rst");
    assert_eq!(app.rst().0, Status::Ok);
    assert_eq!(app.ok(&1u64.to_le_bytes()), 41u64.to_le_bytes());
    s.stop();
}

#[test]
fn a_driver_in_c_that_claims_too_much_is_caught() {
    let dir = tempfile::tempdir().unwrap();
    let info =
        "{ .abi = 1, .name = \"liar\", .version_major = 1, .max_args = 8, .max_result = 100 };";
    let library = from_c(dir.path(), "liar", &format!("{INFO}{info}{REST}"));
    let mut s = Service::start(start_of("liar", Driver::Native { library }));
    for (channel, cell_bytes) in [(1, 4096), (2, 0)] {
        let app = s.open(channel, Shape { cell_bytes, ..Shape::default() });
        assert_eq!(app.call(&[]), (Status::ResultTooLarge, vec![]));
    }
}

#[test]
fn arguments_in_the_window_cannot_be_written_by_a_driver() {
    use std::os::unix::process::ExitStatusExt;
    let dir = tempfile::tempdir().unwrap();
    let info =
        "{ .abi = 1, .name = \"scribble\", .version_major = 1, .max_args = 100, .max_result = 8 };";
    let rest = REST.replace("c->out_len = c->out_capacity + 1", "*(char *)c->args = 1");
    let library = from_c(dir.path(), "scribble", &format!("{INFO}{info}{rest}"));
    let mut s = Service::start(start_of("scribble", Driver::Native { library }));
    let app = s.open(1, Shape::default());
    let _lost = app.post(&[0; 100]);
    assert_eq!(s.end().signal(), Some(11), "the page is read-only for the service");
}
