//! Functions of kind "wasm", from the manifest to the answer, in the program
//! that serves them. `make wasm` builds it; `tests/run.sh` runs these after that.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use vfun::{Error, FunctionRequest};
use vfun_admin::Ask;
use vfun_tests_local::{Stand, args, number, programs, repo};

/// -1 and -3, as callers see them.
const BUG: i32 = -1;
const BAD_ARGS: i32 = -3;

/// A folder of modules and manifests, and a manager that offers them.
struct Modules {
    stand: Stand,
    // After the manager that reads it.
    dir: tempfile::TempDir,
}

fn compile(to: &Path, sources: &[&Path]) {
    let out = Command::new(repo().join("services/wasm/modules/build.sh"))
        .arg(to)
        .args(sources)
        .output()
        .expect("the script runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

impl Modules {
    fn new() -> Self {
        let program = programs().join("vfun-service-wasm");
        assert!(program.is_file(), "{} is not built: `make wasm`", program.display());
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let (repo, to) = (repo(), dir.path());
        compile(to, &[]);
        compile(to, &[&repo.join("tests/local/modules/misbehave_wasm.c")]);
        let shipped = std::fs::read_dir(repo.join("services/wasm/modules")).expect("it is there");
        for manifest in shipped.flatten().map(|e| e.path()) {
            if manifest.extension().is_some_and(|e| e == "toml") {
                std::fs::copy(&manifest, to.join(manifest.file_name().expect("a name")))
                    .expect("the folder is ours");
            }
        }
        let misbehave = "name = \"misbehave_wasm\"\nversion = \"1.0\"\nkind = \"wasm\"\nlibrary = \"misbehave_wasm.wasm\"\nmemory = \"2 MiB\"\ndeadline_ms = 2000\n";
        std::fs::write(to.join("misbehave.toml"), misbehave).expect("the folder is ours");
        let folder = to.to_str().expect("utf-8").to_owned();
        // Drivers of both kinds in one folder.
        for entry in std::fs::read_dir(programs()).expect("it is there").flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().ends_with(".so") {
                let _ = std::os::unix::fs::symlink(entry.path(), to.join(name));
            }
        }
        let stand = Stand::with(&["--functions", &folder, "--drivers", &folder]);
        Modules { stand, dir }
    }

    /// Offers a module under these bytes; an app's words on asking for it.
    fn offer(&self, name: &str, bytes: &[u8]) -> Result<vfun::Function, String> {
        let file = self.dir.path().join(format!("{name}.wasm"));
        std::fs::write(&file, bytes).expect("the folder is ours");
        let manifest = format!(
            "name = \"{name}\"\nversion = \"1.0\"\nkind = \"wasm\"\nlibrary = \"{}\"\n",
            file.display()
        );
        match self.stand.try_ask(&Ask::AddFunction { manifest, file: "test.toml".into() }) {
            Ok(_) => {}
            Err(e) => return Err(e.to_string()),
        }
        self.stand.connect(name).function(name).map_err(|e| e.to_string())
    }
}

#[test]
#[ignore = "needs `make wasm`"]
fn modules_compute_what_their_native_kin_do() {
    let m = Modules::new();
    let session = m.stand.connect("kin");
    let (wasm, native) =
        (session.function("factorial_wasm").unwrap(), session.function("factorial").unwrap());
    for n in [0, 1, 5, 20, 51, 66] {
        let args = args(n, 3);
        assert_eq!(wasm.call(&args).unwrap(), native.call(&args).unwrap(), "{n}!");
    }
    let e = wasm.call(&[1]).unwrap_err();
    assert!(matches!(e, Error::Driver { code: BAD_ARGS, .. }), "its signature is kept: {e}");
    let crc = session
        .negotiate(&FunctionRequest::new("crc32").cell_bytes(1 << 20))
        .unwrap()
        .activate()
        .unwrap();
    assert_eq!(crc.call(b"123456789").unwrap(), 0xcbf4_3926u32.to_le_bytes());
    let large: Vec<u8> = (0..1u32 << 20).map(|i| ((i * 7) >> 3) as u8).collect();
    assert_eq!(crc.call(&large).unwrap(), crc32(&large).to_le_bytes());
}

/// Bit by bit, by its definition.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, b| {
        (0..8).fold(
            crc ^ u32::from(*b),
            |c, _| if c & 1 == 1 { 0xedb8_8320 ^ c >> 1 } else { c >> 1 },
        )
    })
}

#[test]
#[ignore = "needs `make wasm`"]
fn what_a_module_does_wrong_is_told_apart() {
    let m = Modules::new();
    let session = m.stand.connect("misdeeds");
    let f = session.function("misbehave_wasm").unwrap();
    let pid = m.stand.grants()[0].pid;
    let calls = |f: &vfun::Function| u32::from_le_bytes(f.call(&[6]).unwrap().try_into().unwrap());
    let trap = |f: &vfun::Function, which: u8, expect: &str| match f.call(&[which]) {
        Err(Error::Driver { code: BUG, sentence }) => assert_eq!(sentence, expect),
        other => panic!("{other:?}"),
    };
    assert_eq!(f.call(&[0, 1, 2, 3]).unwrap(), [1, 2, 3]);
    assert_eq!(calls(&f), 2);
    trap(&f, 1, "trap: unreachable (a panic or an abort)");
    assert_eq!(calls(&f), 1, "the instance is a new one");
    trap(&f, 4, "trap: call stack exhausted");
    assert_eq!(calls(&f), 1);
    trap(&f, 5, "trap: out of bounds memory access");
    assert_eq!(f.call(&[3]).unwrap(), 32u32.to_le_bytes(), "2 MiB and no more");
    assert!(matches!(f.call(&[7]), Err(Error::ResultTooLarge)));
    match f.call(&[8]) {
        Err(Error::Driver { code: 42, sentence }) => {
            assert_eq!(sentence, "the module was told to fail");
        }
        other => panic!("{other:?}"),
    }
    f.rst().unwrap();
    assert_eq!(calls(&f), 1, "rst is a new instance");
    assert_eq!(m.stand.grants()[0].pid, pid, "none of that has ended the service");
}

#[test]
#[ignore = "needs `make wasm`"]
fn a_loop_ends_at_its_deadline_and_hurts_nobody_else() {
    let m = Modules::new();
    let session = m.stand.connect("loop");
    let f = session.function("misbehave_wasm").unwrap();
    let other = session.function("factorial_wasm").unwrap();
    let pids = || m.stand.grants().into_iter().map(|g| (g.function, g.pid)).collect::<Vec<_>>();
    let before = pids();
    let began = Instant::now();
    let looping = f.submit(&[2]).unwrap();
    assert_eq!(number(&other.call(&args(5, 1)).unwrap()), 120, "meanwhile");
    assert!(matches!(looping.wait(), Err(Error::Deadline)), "the manifest says 2 s");
    assert!(began.elapsed() >= Duration::from_secs(2));
    assert_eq!(f.call(&[0, 9]).unwrap(), [9], "and it is back");
    assert_eq!(number(&other.call(&args(6, 1)).unwrap()), 720);
    let after = pids();
    for ((name, pid), (_, then)) in before.iter().zip(&after) {
        assert_eq!(pid == then, name != "misbehave_wasm", "{name}");
    }
}

#[test]
#[ignore = "needs `make wasm`"]
fn what_is_not_to_be_run_is_refused_with_its_reason() {
    let m = Modules::new();
    for (name, bytes, expect) in [
        ("elf", &b"\x7fELF\x02\x01\x01\0\0\0\0\0"[..], "is not a WebAssembly module"),
        ("text", b"(module)", "is not a WebAssembly module"),
        ("cut", b"\0asm\x01\0\0\0\x01\x07", "the module is not valid"),
        ("empty", b"\0asm\x01\0\0\0", "does not export memory"),
        // (import "env" "f" (func))
        (
            "imports",
            b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x02\x09\x01\x03env\x01f\0\0",
            "imports env.f",
        ),
    ] {
        let said = m.offer(name, bytes).map(|_| ()).unwrap_err();
        assert!(said.contains(expect), "{name}: {said} should say {expect}");
    }
    let mut huge = b"\0asm\x01\0\0\0".to_vec();
    huge.resize((8 << 20) + 1, 0);
    let said = m.offer("huge", &huge).map(|_| ()).unwrap_err();
    assert!(said.contains("at most 8388608 are served"), "{said}");
    let factorial = std::fs::read(m.dir.path().join("factorial_wasm.wasm")).unwrap();
    let said = m.offer("other", &factorial).map(|_| ()).unwrap_err();
    assert!(said.contains("the module is that of factorial_wasm"), "{said}");
    // And all that has left nothing behind that keeps a good one from being served.
    assert_eq!(
        number(
            &m.stand.connect("good").function("factorial_wasm").unwrap().call(&args(5, 1)).unwrap()
        ),
        120
    );
}
