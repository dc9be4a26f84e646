//! One source for a function: on the host where that offers it, in the
//! caller's process where it does not, with the same answers.

use std::path::Path;
use std::process::Command;
use vfun::{ConnectOptions, Error, NackCode, Session};
use vfun_admin::{Ask, Reply};
use vfun_fn_nearest::{Hit, Point, nearest};
use vfun_tests_local::{Stand, programs, repo};

fn session(stand: &Stand) -> Session {
    let endpoint = format!("host:{}", stand.root().join("host.sock").display());
    ConnectOptions::new("one-source").endpoint(endpoint.parse().unwrap()).connect().unwrap()
}

fn tell(stand: &Stand, what: &Ask) {
    match stand.ask(what) {
        Reply::Done { .. } => {}
        other => panic!("{what:?}: {other:?}"),
    }
}

fn points(count: u32) -> Vec<Point> {
    (0..count).map(|i| Point { x: f64::from(i * 7919 % 1000), y: f64::from(i) }).collect()
}

#[test]
fn what_a_host_offers_is_called_there_and_all_else_here() {
    let stand = Stand::start();
    let session = session(&stand);
    let on_host = nearest::open_as(&session, |r| r.cell_bytes(64 << 10)).unwrap();
    let here = nearest::Function::in_process();
    assert!(on_host.host().is_some() && here.host().is_none());
    let to = Point { x: 500.25, y: 17.5 };
    for count in [1, 2, 3, 1000] {
        let among = points(count);
        let hit = on_host.call(to, 1e4, &among).unwrap();
        assert_eq!(hit, here.call(to, 1e4, &among).unwrap());
        assert_eq!(hit, nearest(to, 1e4, &among).unwrap());
    }
    // An error of the function's own is the same on both.
    let told = |f: &nearest::Function| match f.call(to, 0.0, &points(5)) {
        Err(Error::Driver { code, sentence }) => (code, sentence),
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&on_host), told(&here));
    assert!(told(&here).1.contains("none of 5 points"));
    assert!(matches!(on_host.call(to, 1., &[]), Err(Error::Driver { .. })));

    tell(&stand, &Ask::RemoveFunction { client: None, name: nearest::NAME.into() });
    let fallen_back = nearest::open(&session).unwrap();
    assert!(fallen_back.host().is_none(), "the host does not offer it any more");
    assert_eq!(
        fallen_back.call(to, 1e4, &points(9)).unwrap(),
        nearest(to, 1e4, &points(9)).unwrap()
    );
    // Whoever has it keeps it.
    assert!(on_host.call(to, 1e4, &points(9)).is_ok());
}

#[test]
fn a_host_with_another_signature_or_version_is_an_error() {
    let stand = Stand::start();
    let session = session(&stand);
    let declare = |library: &Path, signature: &str, version: &str| {
        let manifest = format!(
            "name = \"nearest\"\nversion = \"{version}\"\nlibrary = \"{}\"\nsignature = \"{signature}\"\n",
            library.display()
        );
        let file = repo().join("nearest.toml");
        tell(&stand, &Ask::AddFunction { manifest, file });
        match nearest::open(&session) {
            Err(Error::Refused(nack)) => nack.code,
            other => panic!("{other:?}"),
        }
    };
    let first = programs().join("libvfun_fn_nearest.so");
    assert_eq!(declare(&first, "(x: u64) -> u64", "1.0"), NackCode::WrongSignature);
    let dir = tempfile::tempdir().unwrap();
    let (source, second) = (dir.path().join("nearest.c"), dir.path().join("second.so"));
    std::fs::write(
        &source,
        "#include \"vfun_function.h\"\nVFUN_FUNCTION(u64, nearest, 2, 0, \"\", (u64, x)) { return x; }\n",
    )
    .unwrap();
    driver(&mut cc(&repo()), &source, &second);
    assert_eq!(declare(&second, nearest::SIGNATURE, "2.0"), NackCode::WrongVersion);
}

#[test]
fn its_signature_says_what_the_bytes_are() {
    let s: vfun::signature::Signature = nearest::SIGNATURE.parse().unwrap();
    assert_eq!(s.to_string(), nearest::SIGNATURE, "it is the canonical form");
    assert_eq!((s.args.min_bytes(), s.args.tail.as_ref().unwrap().offset), (24, 24));
    assert_eq!(s.results.fixed_bytes, size_of::<Hit>() as u64);
}

fn said(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let words = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{command:?}: {words}");
    String::from_utf8(out.stdout).unwrap()
}

fn cc(repo: &Path) -> Command {
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]);
    for include in [
        "functions/function/include",
        "services/sdk/include",
        "guest/client/include",
        "functions/function/examples",
    ] {
        cc.arg("-I").arg(repo.join(include));
    }
    cc
}

fn driver(cc: &mut Command, source: &Path, library: &Path) {
    let flags = ["-shared", "-fPIC", "-fvisibility=hidden", "-DVFUN_DRIVER", "-o"];
    said(cc.args(flags).arg(library).arg(source));
}

#[test]
fn the_same_in_c_with_a_manifest_that_the_library_carries() {
    let (stand, repo) = (Stand::start(), repo());
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    said(
        cc(&repo)
            .args(["-DVFUN_APP", "-o"])
            .arg(&program)
            .arg(repo.join("tests/local/one_source/program.c"))
            .arg("-L")
            .arg(programs())
            .arg("-lvfun"),
    );
    let run = |host: bool| {
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", programs());
        if host {
            command.arg(format!("host:{}", stand.root().join("host.sock").display()));
        }
        said(&mut command)
    };
    let answers = |place: &str| {
        format!("gcd {place} 21\nmean {place} 499.5\nmean of three 1\nmean of none -1\n")
    };
    assert_eq!(run(false), answers("here"));
    assert_eq!(run(true), answers("here"), "the host does not have them yet");

    let vfun = |args: &[&str]| {
        said(Command::new(programs().join("vfun")).arg("--root").arg(stand.root()).args(args))
    };
    for name in ["gcd", "mean"] {
        let library = dir.path().join(format!("lib{name}.so"));
        let source = repo.join(format!("functions/function/examples/{name}.c"));
        driver(&mut cc(&repo), &source, &library);
        vfun(&["function", "add", library.to_str().unwrap()]);
    }
    assert_eq!(run(true), answers("host"));
    assert_eq!(vfun(&["call", "gcd", "1071", "462"]).trim(), "21");
    // Bytes that are no arguments do not reach the function.
    let f = session(&stand).function("mean").unwrap();
    assert!(f.call(&[0; 7]).is_err() && f.call(&[0; 13]).is_err());
}

/// The C of docs/functions.md: two files, and the lines that build them.
#[test]
fn the_documents_c_is_whole() {
    let (stand, repo) = (Stand::start(), repo());
    let page = std::fs::read_to_string(repo.join("docs/functions.md")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut parts = page.split("```c\n").skip(1).map(|p| p.split_once("```").unwrap().0);
    for file in ["gcd.c", "program.c"] {
        std::fs::write(dir.path().join(file), parts.next().unwrap()).unwrap();
    }
    let run = |line: &str| {
        said(
            Command::new("sh")
                .args(["-ec", line])
                .current_dir(dir.path())
                .env("PKG_CONFIG_PATH", repo.join("guest/client"))
                .env("LIBRARY_PATH", programs())
                .env("LD_LIBRARY_PATH", programs())
                .env("VFUN_ROOT", stand.root())
                .env(
                    "PATH",
                    format!("{}:{}", programs().display(), std::env::var("PATH").unwrap()),
                ),
        )
    };
    let lines: Vec<&str> = page.lines().filter_map(|l| l.strip_prefix("    cc ")).collect();
    let [driver, program] = lines[..] else { panic!("{lines:?}") };
    run(&format!("cc {program}"));
    assert_eq!(run("./program"), "21 from this process\n");
    run(&format!("cc {driver}"));
    run("vfun function add libgcd.so");
    assert_eq!(run("vfun call gcd 1071 462"), "21\n");
    assert_eq!(run("./program"), "21 from the host\n");
}
