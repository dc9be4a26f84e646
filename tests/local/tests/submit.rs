//! Modules that clients bring: from their bytes to their calls, in the program
//! that checks and serves them. `make wasm` builds it; `packaging/wasm.sh
//! --test` runs these after that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use vfun::{Error, FunctionRequest, NackCode, Session, Submission, SubmitCode};
use vfun_admin::audit::Query;
use vfun_admin::{Ask, Reply};
use vfun_tests_local::modules::{compiled, source, times};
use vfun_tests_local::{Stand, args, number, programs, repo};

mod disk;
mod late;
mod names;
mod ways;

/// A manager whose clients a and b may submit, and c may not.
const POLICY: &str =
    "[client.a]\nsubmit = true\nsubmits_per_min = 1000\n[client.b]\nsubmit = true\n";

struct Clients {
    stand: Stand,
    modules: BTreeMap<String, Vec<u8>>,
}

impl Clients {
    fn new() -> Self {
        Self::on(Stand::start)
    }

    /// With a manager that is started so.
    fn on(start: impl FnOnce() -> Stand) -> Self {
        let program = programs().join("vfun-service-wasm");
        assert!(program.is_file(), "{} is not built: `make wasm`", program.display());
        let modules = compiled(&[
            ("double", source("double", 0, "", &times(2))),
            ("triple", source("double", 1, "", &times(3))),
            ("loop", source("loop", 0, "", "for (;;) __asm__ volatile(\"\");")),
            ("trap", source("trap", 0, "", "__builtin_trap();")),
            (
                "grow",
                source(
                    "grow",
                    0,
                    "",
                    "while (__builtin_wasm_memory_grow(0, 1) != (unsigned long)-1) { } \
                     uint32_t n = __builtin_wasm_memory_size(0); __builtin_memcpy(call->out, &n, 4); call->out_len = 4;",
                ),
            ),
            (
                "start_loops",
                source(
                    "start_loops",
                    0,
                    "void _initialize(void) { for (;;) __asm__ volatile(\"\"); }",
                    "",
                ),
            ),
            (
                "start_traps",
                source("start_traps", 0, "void _initialize(void) { __builtin_trap(); }", ""),
            ),
        ]);
        let stand = start();
        for name in ["a", "b", "c"] {
            stand.add_client(&format!("name = \"{name}\"\nkind = \"host\"\n")).expect("a client");
        }
        let clients = Clients { stand, modules };
        clients.policy(POLICY);
        clients
    }

    fn policy(&self, text: &str) {
        let set = Ask::SetPolicy { text: text.into(), file: "test.toml".into() };
        assert!(matches!(self.stand.ask(&set), Reply::Done { .. }));
    }

    fn of(&self, client: &str) -> Session {
        self.app(client, "app")
    }

    fn app(&self, client: &str, app: &str) -> Session {
        self.stand.options(app).client(client).connect().unwrap_or_else(|e| panic!("{e}"))
    }

    /// Where a client's modules are kept.
    fn folder(&self, client: &str) -> PathBuf {
        self.stand.root().join("admin/modules").join(client)
    }

    /// Files there, by their kind.
    fn files(&self, client: &str, kind: &str) -> Vec<PathBuf> {
        let all = std::fs::read_dir(self.folder(client)).into_iter().flatten().flatten();
        let all = all.map(|e| e.path());
        all.filter(|p| p.extension().is_some_and(|e| e == kind)).collect()
    }

    /// Until no service runs: whatever is called next is started anew.
    fn without_services(&self) {
        self.stand.until("its services to end", |s| s.totals().3 == 0);
    }

    fn module(&self, name: &str) -> Submission<'_> {
        Submission::new(&self.modules[name])
    }
}

fn names(s: &Session) -> Vec<String> {
    let own = s.list().unwrap().into_iter().map(|f| f.name);
    own.filter(|n| n.starts_with("my.") || n == "submit").collect()
}

fn call(s: &Session, function: &str, n: u64) -> u64 {
    number(&s.function(function).unwrap().call(&n.to_le_bytes()).unwrap())
}

/// Why it was not taken.
fn refused<T: std::fmt::Debug>(r: Result<T, Error>) -> (SubmitCode, String) {
    match r {
        Err(Error::NotAccepted { code, sentence }) => (code, sentence),
        other => panic!("{other:?}"),
    }
}

/// Why there is no such function.
fn nack<T>(r: Result<T, Error>) -> (NackCode, String) {
    match r {
        Err(Error::Refused(n)) => (n.code, n.sentence),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was granted"),
    }
}

#[test]
#[ignore = "needs `make wasm`"]
fn a_module_is_its_clients_alone() {
    let c = Clients::new();
    let (a, b) = (c.of("a"), c.of("b"));
    let done = a.submit_module(&c.module("double").signature("(n: u64) -> u64")).unwrap();
    assert_eq!(done.function.name, "my.double");
    assert!(!done.already_there && !done.replaced && done.function.signature != 0);
    assert_eq!(call(&a, "my.double", 21), 42);
    assert_eq!(names(&a), ["my.double", "submit"]);
    let described = a.describe_function("my.double").unwrap();
    assert_eq!(described.signature.unwrap().to_string(), "(n: u64) -> u64");

    // Nobody else sees it, and nothing tells it from one that never was.
    assert_eq!(names(&b), ["submit"]);
    assert!(b.submitted_modules().unwrap().is_empty());
    for (there, not) in [
        (nack(b.function("my.double")), nack(b.function("my.nothing"))),
        (nack(b.describe_function("my.double")), nack(b.describe_function("my.nothing"))),
    ] {
        assert_eq!((there.0, there.1.replace("my.double", "my.nothing")), not);
        assert_eq!(there.0, NackCode::UnknownFunction);
    }
    assert_eq!(refused(b.withdraw_module("my.double")).0, SubmitCode::Unknown);

    // The other's own of the same name is another function with the same id.
    let other = b.submit_module(&c.module("triple")).unwrap().function;
    assert_eq!((other.name.as_str(), other.version.to_string().as_str()), ("my.double", "1.1"));
    assert_eq!((call(&a, "my.double", 5), call(&b, "my.double", 5)), (10, 15));
    let id = |s: &Session| s.describe_function("my.double").unwrap().function_id;
    assert_eq!(id(&a), id(&b), "no number tells how many others there are");

    // The operator sees both, and who brought them.
    let Reply::Functions { functions } = c.stand.ask(&Ask::Functions) else { panic!() };
    let mut own: Vec<_> = functions.iter().filter_map(|f| f.client.as_deref()).collect();
    own.sort_unstable();
    assert_eq!(own, ["a", "b"]);
    let f = a.function("my.double").unwrap();
    let origin =
        |name: &str| c.stand.grants().into_iter().find(|g| g.function == name).map(|g| g.origin);
    assert_eq!(origin("my.double").as_deref(), Some("submitted"));
    drop(f);
    let remove = |name: &str, client: &str| {
        c.stand.try_ask(&Ask::RemoveFunction { name: name.into(), client: Some(client.into()) })
    };
    assert!(remove("my.double", "c").is_err());
    remove("my.double", "b").unwrap();
    assert_eq!((names(&b).len(), names(&a).len()), (1, 2));

    // What is kept is the manager's alone.
    use std::os::unix::fs::PermissionsExt;
    let dir = c.stand.root().join("admin/modules/a");
    let kept: Vec<_> = std::fs::read_dir(&dir).unwrap().flatten().collect();
    assert_eq!(kept.len(), 3, "the list, a module and its code");
    for file in kept {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0, "{file:?}");
    }
    assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o077, 0);
    let leftovers = std::fs::read_dir(c.stand.root().join("admin/modules/b")).unwrap().count();
    assert_eq!(leftovers, 1, "of a removed one only the list is left");
}

#[test]
#[ignore = "needs `make wasm`"]
fn names_are_taken_once_and_given_up_on_request() {
    let c = Clients::new();
    let a = c.of("a");
    a.submit_module(&c.module("double")).unwrap();
    let old = a.function("my.double").unwrap();
    let again = a.submit_module(&c.module("double")).unwrap();
    assert!(again.already_there && !again.replaced && !again.renewed);
    let again = a.submit_module(&c.module("double").replace(true)).unwrap();
    assert!(again.renewed && !again.already_there && !again.replaced);
    let (code, sentence) = refused(a.submit_module(&c.module("triple")));
    assert!(code == SubmitCode::NameTaken && sentence.contains("--replace"), "{sentence}");
    let granted = a.negotiate(&FunctionRequest::new("my.double")).unwrap();
    let done = a.submit_module(&c.module("triple").replace(true)).unwrap();
    assert!(done.replaced && !done.already_there);
    // One that had no service yet would get the other one's.
    match granted.activate() {
        Err(Error::Refused(n)) => assert!(n.sentence.contains("negotiate it again"), "{n}"),
        other => panic!("{:?}", other.map(|_| ())),
    }
    assert_eq!(number(&old.call(&7u64.to_le_bytes()).unwrap()), 14, "a grant keeps what it has");
    assert_eq!(call(&a, "my.double", 7), 21);
    drop(old);
    // Under a name of its own, which is not the module's.
    a.submit_module(&c.module("triple").name("thrice")).unwrap();
    assert_eq!(call(&a, "my.thrice", 2), 6);
    // The host's functions cannot be hidden, nor be called what clients' are.
    a.submit_module(&c.module("double").name("factorial")).unwrap();
    assert_eq!(number(&a.function("factorial").unwrap().call(&args(5, 1)).unwrap()), 120);
    assert_eq!(call(&a, "my.factorial", 5), 10);
    for name in ["my.double", "submit"] {
        let manifest = format!("name = \"{name}\"\nversion = \"1.0\"\nkind = \"floor\"\n");
        let add = Ask::AddFunction { manifest, file: "t.toml".into() };
        assert!(c.stand.try_ask(&add).unwrap_err().to_string().contains("not for manifests"));
    }
    for name in ["my.", "../x", "a/b", "-x", &"x".repeat(62)] {
        assert!(a.submit_module(&c.module("double").name(name)).is_err(), "{name}");
    }
    // Removed: who has it keeps it.
    let held = a.function("my.thrice").unwrap();
    assert_eq!(a.withdraw_module("thrice").unwrap().name, "my.thrice");
    assert_eq!(number(&held.call(&7u64.to_le_bytes()).unwrap()), 21);
    assert_eq!(nack(a.function("my.thrice")).0, NackCode::UnknownFunction);
    assert_eq!(refused(a.withdraw_module("thrice")).0, SubmitCode::Unknown);
}

#[test]
#[ignore = "needs `make wasm`"]
fn modules_outlive_their_manager_and_not_their_client() {
    let mut c = Clients::new();
    let a = c.of("a");
    let done = a.submit_module(&c.module("double").signature("(n: u64) -> u64")).unwrap();
    let f = a.function("my.double").unwrap();
    // Killed, and taken over from.
    c.stand.kill_vfund();
    assert_eq!(number(&f.call(&8u64.to_le_bytes()).unwrap()), 16);
    c.stand.start_vfund();
    assert_eq!(number(&f.call(&9u64.to_le_bytes()).unwrap()), 18);
    assert_eq!(a.submitted_modules().unwrap(), std::slice::from_ref(&done.function));
    assert_eq!(call(&a, "my.double", 10), 20);
    drop((f, a));
    // Ended in order, and started anew.
    c.stand.ask(&Ask::Stop);
    c.stand.until("it to end", |s| s.try_ask(&Ask::Status).is_err());
    while !c.stand.vfund_died() {
        std::thread::sleep(Duration::from_millis(10));
    }
    c.stand.start_vfund();
    let a = c.of("a");
    assert_eq!(a.submitted_modules().unwrap(), std::slice::from_ref(&done.function));
    assert_eq!(call(&a, "my.double", 11), 22);
    // Code that the disk has spoiled is not run: the module is compiled again.
    let dir = c.stand.root().join("admin/modules/a");
    let files = || std::fs::read_dir(&dir).unwrap().flatten().map(|e| e.path());
    let of = |kind: &str| files().find(|p| p.extension().is_some_and(|e| e == kind)).unwrap();
    std::fs::write(of("code"), b"spoiled").unwrap();
    c.stand.until("its service to end", |s| s.totals().3 == 0);
    assert_eq!(call(&a, "my.double", 12), 24);
    // And a module that it has spoiled is refused.
    std::fs::write(of("wasm"), b"\0asm\x01\0\0\0").unwrap();
    c.stand.until("its service to end", |s| s.totals().3 == 0);
    let (code, sentence) = nack(a.function("my.double"));
    assert!(code == NackCode::ServiceFailed && sentence.contains("digest differs"), "{sentence}");
    drop(a);
    // Gone with its client, and not there for the next one of that name.
    c.stand.ask(&Ask::RemoveClient { name: "a".into() });
    assert!(!dir.exists());
    c.stand.add_client("name = \"a\"\nkind = \"host\"\n").unwrap();
    assert!(c.of("a").submitted_modules().unwrap().is_empty());
}

#[test]
#[ignore = "needs `make wasm`"]
fn policy_says_who_may_and_how_much() {
    let c = Clients::new();
    let (a, none) = (c.of("a"), c.of("c"));
    // Nobody who is not named.
    assert!(names(&none).is_empty());
    let (code, sentence) = nack(none.submit_module(&c.module("double")));
    assert_eq!(code, NackCode::Denied);
    assert!(sentence.contains("(submit in [default] of the host's policy)"), "{sentence}");

    c.policy("[client.a]\nsubmit = [\"ci-*\"]\nmodules = 2\nsubmits_per_min = 5\n");
    let (code, sentence) = nack(a.submit_module(&c.module("double")));
    assert!(code == NackCode::Denied && sentence.contains("app app of client a"), "{sentence}");
    let ci = c.app("a", "ci-7");
    ci.submit_module(&c.module("double")).unwrap();
    assert_eq!(call(&a, "my.double", 4), 8, "any app of the client uses it");
    ci.submit_module(&c.module("double").name("second")).unwrap();
    let (code, sentence) = refused(ci.submit_module(&c.module("double").name("third")));
    assert_eq!(code, SubmitCode::OverQuota);
    assert!(sentence.contains("(modules in [client.a] of the host's policy)"), "{sentence}");
    // In the place of another it is no third one.
    ci.submit_module(&c.module("triple").name("second").replace(true)).unwrap();
    ci.withdraw_module("second").unwrap();
    ci.submit_module(&c.module("double").name("third")).unwrap();
    let (code, sentence) = refused(ci.submit_module(&c.module("double").name("third")));
    assert!(
        code == SubmitCode::TooFast && sentence.contains("5 submissions a minute"),
        "{sentence}"
    );

    // Taken away: what was brought by it ends, and is hidden.
    let f = a.function("my.double").unwrap();
    c.policy("[client.a]\nsubmit = false\n");
    c.stand.until("the grant to be taken away", |s| s.grants().is_empty());
    assert!(matches!(f.call(&[1]), Err(Error::Released | Error::Broken(_))));
    assert!(names(&a).is_empty());
    assert_eq!(nack(a.function("my.double")).0, NackCode::Denied);
    c.policy("[client.a]\nsubmit = true\n");
    assert_eq!(call(&a, "my.double", 4), 8, "it was kept");

    // Done and refused, on record, with who it was.
    let rows = |refused| {
        let query = Query { client: Some("a".into()), refused, limit: 100, ..Query::default() };
        match c.stand.ask(&Ask::Audit(query)) {
            Reply::Audit { rows } => rows,
            other => panic!("{other:?}"),
        }
    };
    c.stand.until("the rows to be written", |_| {
        let all = rows(false);
        let has = |o: &str, f: &str| all.iter().any(|r| r.outcome == o && r.function == f);
        has("submitted", "my.double") && has("removed", "my.second")
    });
    assert!(rows(false).iter().any(|r| r.app == "ci-7" && r.what.starts_with("submit my.double")));
    c.stand.until("refusals to be written", |_| {
        let all = rows(true);
        let has = |code: &str| all.iter().any(|r| r.code == code && r.function == "submit");
        has("denied") && has("over quota")
    });
}

/// A module of one function that is as long as one can be, and slow to compile:
/// each of its numbers is needed to the end.
fn slow_to_compile() -> Vec<u8> {
    fn leb(mut n: usize) -> Vec<u8> {
        let mut out = vec![];
        loop {
            let byte = (n & 0x7f) as u8;
            n >>= 7;
            if n == 0 {
                out.push(byte);
                return out;
            }
            out.push(byte | 0x80);
        }
    }
    fn section(id: u8, body: &[u8]) -> Vec<u8> {
        [&[id][..], &leb(body.len()), body].concat()
    }
    // Locals, all of which live until the end, mixed again and again.
    let locals = 2_000usize;
    let mut body = [vec![1], leb(locals), vec![0x7e]].concat();
    // From memory, as what is known beforehand would be computed beforehand.
    for i in 0..locals {
        body.extend([&[0x41, (i % 64) as u8, 0x29, 3, 0, 0x21][..], &leb(i)].concat());
    }
    let mut n = 7usize;
    while body.len() < 7_000_000 {
        n = (n * 1_103_515_245 + 12_345) % (1 << 31);
        let (x, y, z) = (n % locals, (n / 7) % locals, (n / 131) % locals);
        // x = y * z + x
        body.extend([vec![0x20], leb(y), vec![0x20], leb(z), vec![0x7e, 0x20], leb(x)].concat());
        body.extend([vec![0x7c, 0x21], leb(x)].concat());
    }
    // Their sum is the result: none of it can be left out.
    body.extend([0x20, 0]);
    for i in 1..locals {
        body.extend([&[0x20][..], &leb(i), &[0x7c]].concat());
    }
    body.push(0x0b);
    let code = [leb(1), leb(body.len()), body].concat();
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[1, 0x60, 0, 1, 0x7e]),
        section(3, &[1, 0]),
        section(5, &[1, 0, 1]),
        section(10, &code),
    ]
    .concat()
}

#[test]
#[ignore = "needs `make wasm`"]
fn bad_modules_are_their_authors_trouble_alone() {
    let c = Clients::new();
    // The victim: another client, whose calls go on meanwhile.
    let (over, made) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            let b = c.of("b");
            let f = b.function("factorial").unwrap();
            while !over.load(Ordering::Relaxed) {
                assert_eq!(number(&f.call(&args(20, 1)).unwrap()), 2_432_902_008_176_640_000);
                assert_eq!(names(&b), ["submit"]);
                made.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        // Ends the victim too when something is not as it should be.
        let end = End(&over);
        bad_modules(&c);
        drop(end);
    });
    assert!(made.load(Ordering::Relaxed) > 0, "the victim's calls");
    // And all that has left nothing behind that keeps a good one from being taken.
    let b = c.of("b");
    b.submit_module(&c.module("double")).unwrap();
    assert_eq!(call(&b, "my.double", 3), 6);
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn bad_modules(c: &Clients) {
    let a = c.of("a");
    let double = &c.modules["double"];
    let cut = &double[..double.len() / 2];
    let no_export = b"\0asm\x01\0\0\0";
    // (import "env" "f" (func))
    let imports = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x02\x09\x01\x03env\x01f\0\0";
    for (what, bytes, expect) in [
        ("nothing", &b""[..], "not a WebAssembly module"),
        ("an ELF file", b"\x7fELF\x02\x01\x01\0\0\0\0\0", "not a WebAssembly module"),
        ("text", b"(module)", "not a WebAssembly module"),
        ("cut", cut, "the module is not valid"),
        ("without exports", no_export, "does not export memory"),
        ("with imports", imports, "imports env.f"),
        ("one that traps as it starts", &c.modules["start_traps"], "could not be started"),
    ] {
        let (code, sentence) = refused(a.submit_module(&Submission::new(bytes)));
        assert!(code == SubmitCode::BadModule, "{what}: {code}: {sentence}");
        assert!(sentence.contains(expect), "{what}: {sentence} should say {expect}");
    }
    // Huge: by this library's word, and by the service's if the library is another.
    let huge = vec![0; (8 << 20) + 1];
    assert!(matches!(a.submit_module(&Submission::new(&huge)), Err(Error::BadOption(_))));
    let raw = FunctionRequest::new("submit").depth(1).cell_bytes(9 << 20);
    let raw = a.negotiate(&raw).unwrap().activate().unwrap();
    assert!(matches!(raw.call(&vec![1; 9 << 20]), Err(Error::BadCall(_))));
    for nonsense in [&b""[..], &[0; 88], &[255; 88], &[1; 40]] {
        match raw.call(nonsense) {
            Err(Error::Driver { code: 1, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    drop(raw);
    // On terms that cannot be.
    for (s, code) in [
        (c.module("double").memory(1), SubmitCode::BeyondLimit),
        (c.module("double").memory(2 << 30), SubmitCode::BeyondLimit),
        (c.module("double").memory(64 << 10), SubmitCode::BeyondLimit),
        (c.module("double").deadline(Duration::from_secs(86_400)), SubmitCode::BeyondLimit),
        (c.module("double").signature("(n: u65) -> u64"), SubmitCode::BadModule),
        (c.module("double").signature("(n: u64[100]) -> u64"), SubmitCode::BadModule),
    ] {
        assert_eq!(refused(a.submit_module(&s)).0, code, "{s:?}");
    }
    assert!(a.submitted_modules().unwrap().is_empty());

    // What runs: it loops, traps, grows.
    let ms = Duration::from_millis(300);
    a.submit_module(&c.module("loop").deadline(ms)).unwrap();
    assert!(matches!(a.function("my.loop").unwrap().call(&[]), Err(Error::Deadline)));
    a.submit_module(&c.module("trap")).unwrap();
    match a.function("my.trap").unwrap().call(&[]) {
        Err(Error::Driver { sentence, .. }) => assert!(sentence.contains("unreachable")),
        other => panic!("{other:?}"),
    }
    a.submit_module(&c.module("grow").memory(2 << 20)).unwrap();
    assert_eq!(a.function("my.grow").unwrap().call(&[]).unwrap(), 32u32.to_le_bytes());

    // What never gets as far: it loops as it starts, or takes for ever to compile.
    for (what, bytes) in [("loops", c.modules["start_loops"].clone()), ("slow", slow_to_compile())]
    {
        let (code, sentence) = refused(a.submit_module(&Submission::new(&bytes)));
        assert!(code == SubmitCode::BadModule, "{what}: {code}: {sentence}");
        assert!(sentence.contains("took too long"), "{what}: {sentence}");
    }
    a.submit_module(&c.module("double")).unwrap();
    assert_eq!(call(&a, "my.double", 3), 6, "and it is back");
}

#[test]
#[ignore = "needs `make wasm`"]
fn the_command_submits_lists_and_removes() {
    let c = Clients::new();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("double.wasm");
    std::fs::write(&file, &c.modules["double"]).unwrap();
    let vfun = |client: &str, words: &[&str]| {
        let out = Command::new(programs().join("vfun"))
            .args(["--root", c.stand.root().to_str().unwrap()])
            .args(words)
            .env("VFUN_CLIENT", client)
            .output()
            .expect("vfun runs");
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let path = file.to_str().unwrap();
    let (code, out, err) = vfun("a", &["submit", path, "--signature", "(n: u64) -> u64"]);
    assert!(code == Some(0) && out.starts_with("my.double 1.0 is offered"), "{out}{err}");
    let (code, out, err) = vfun("a", &["call", "my.double", "21"]);
    assert_eq!((code, out.trim()), (Some(0), "42"), "{err}");
    let (_, out, _) = vfun("a", &["submit", "--list"]);
    assert!(out.contains("my.double") && out.contains("SHA256"), "{out}");
    let (_, out, _) = vfun("a", &["list"]);
    assert!(out.lines().any(|l| l.starts_with("my.double") && l.contains("submitted")), "{out}");
    let (code, out, _) = vfun("a", &["--json", "submit", path, "--signature", "(n: u64) -> u64"]);
    let again: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &again["already_there"]), (Some(0), &serde_json::json!(true)));
    let same = ["submit", path, "--signature", "(n: u64) -> u64"];
    let (_, out, _) = vfun("a", &same);
    assert_eq!(out, "my.double 1.0 is offered already\n");
    let (_, out, _) = vfun("a", &[&same[..], &["--replace"]].concat());
    let anew = "my.double 1.0 was offered already, and was compiled again in ";
    assert!(out.starts_with(anew), "{out}");
    let (_, out, _) = vfun("a", &[&["--json"], &same[..], &["--replace"]].concat());
    let again: serde_json::Value = serde_json::from_str(&out).unwrap();
    let said = ["renewed", "already_there", "replaced"].map(|k| again[k].as_bool());
    assert_eq!(said, [Some(true), Some(false), Some(false)]);
    let (code, _, err) = vfun("c", &["submit", path]);
    assert!(code == Some(3) && err.contains("may not use 'submit'"), "{err}");
    let (code, _, err) = vfun("a", &["submit", repo().join("README.md").to_str().unwrap()]);
    assert!(code == Some(3) && err.contains("bad module"), "{err}");
    let (code, _, _) = vfun("a", &["submit", "--remove", "my.double"]);
    assert_eq!(code, Some(0));
    let (_, out, _) = vfun("a", &["list"]);
    assert!(!out.contains("my.double"), "{out}");
    assert!(Path::new(path).is_file());
}
