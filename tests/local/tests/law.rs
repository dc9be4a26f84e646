//! The house's laws that a script can check: who may depend on whom, and
//! where unsafe code may be.

mod names;
mod reads;

use reads::{Read, reads};
use std::path::{Path, PathBuf};
use std::process::Command;
use vfun_tests_local::repo;

/// Folders that code in `from` may depend on.
fn allowed(from: &str, package: &str) -> &'static [&'static str] {
    match from {
        "protocol" => &["protocol"],
        "guest" => &["protocol", "guest"],
        "services" => &["protocol", "services"],
        "functions" => &["protocol", "services", "functions"],
        "host" if package == "vfun-gateway" => &["protocol", "host", "guest"],
        // What manager and services speak, and no guest: docs/decisions/0021.
        "host" => &["protocol", "host", "services/supervise", "services/kernelmap"],
        // What it makes is checked in; it runs on neither side.
        "tools" => &["protocol"],
        "cli" | "tests" | "bench" => {
            &["protocol", "host", "guest", "services", "cli", "tests", "bench", "functions"]
        }
        other => panic!("which side is {other}/ on? Add it to the law"),
    }
}

/// A path inside the repository, from its root.
fn inside<'a>(repo: &Path, path: &'a str) -> &'a Path {
    Path::new(path).strip_prefix(repo).expect("in the repository")
}

fn side<'a>(repo: &Path, path: &'a str) -> &'a str {
    let first = inside(repo, path).iter().next().expect("a folder");
    first.to_str().expect("utf-8")
}

fn packages_of(repo: &Path, manifest: &str) -> Vec<serde_json::Value> {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .args(["--manifest-path", manifest])
        .current_dir(repo)
        .output()
        .expect("cargo runs");
    let meta: serde_json::Value = serde_json::from_slice(&out.stdout).expect("cargo prints JSON");
    meta["packages"].as_array().expect("packages").clone()
}

/// All packages; the second workspace is WebAssembly's.
fn packages(repo: &Path) -> Vec<serde_json::Value> {
    let workspaces = ["Cargo.toml", "services/wasm/Cargo.toml"];
    workspaces.iter().flat_map(|m| packages_of(repo, m)).collect()
}

#[test]
fn nobody_depends_across_the_trust_boundary() {
    let repo = repo();
    let packages = packages(&repo);
    let mut seen = 0;
    for p in &packages {
        let (name, manifest) = (p["name"].as_str().unwrap(), p["manifest_path"].as_str().unwrap());
        let from = side(&repo, manifest);
        for d in p["dependencies"].as_array().unwrap() {
            let Some(path) = d["path"].as_str() else { continue };
            // What a crate is tested with is not what it is made of.
            if d["kind"].as_str() == Some("dev") {
                continue;
            }
            seen += 1;
            // A function may bring along, for programs, how it is called; the
            // library that a host loads is built without.
            if (from, side(&repo, path)) == ("functions", "guest") && d["optional"] == true {
                continue;
            }
            let to = inside(&repo, path);
            assert!(
                allowed(from, name).iter().any(|ok| to.starts_with(ok)),
                "{name} ({from}/) may not depend on {}",
                to.display()
            );
        }
    }
    assert!(
        packages.len() > 10 && seen > 20,
        "the law looked at {} packages, {seen} dependencies",
        packages.len()
    );
}

/// A crate: how code names it, its package, and its folder from the repository's root.
struct Known {
    library: String,
    package: String,
    folder: PathBuf,
}

fn known(repo: &Path) -> Vec<Known> {
    let of = |p: &serde_json::Value| {
        let package = p["name"].as_str().expect("a name").to_owned();
        let targets = p["targets"].as_array().expect("targets");
        let library = targets.iter().find(|t| {
            let kinds = t["kind"].as_array().expect("kinds");
            kinds.iter().any(|k| k != "bin" && k != "test" && k != "bench" && k != "custom-build")
        });
        let library = library.and_then(|t| t["name"].as_str()).unwrap_or(&package);
        let manifest = inside(repo, p["manifest_path"].as_str().expect("a path"));
        Known {
            library: library.replace('-', "_"),
            folder: manifest.parent().expect("a folder").to_owned(),
            package,
        }
    };
    packages(repo).iter().map(of).collect()
}

/// What the file at `at` may not read, as sentences.
fn breaches(at: &Path, text: &str, known: &[Known], files: &[PathBuf]) -> Vec<String> {
    let owner = known.iter().filter(|k| at.starts_with(&k.folder));
    let owner = owner.max_by_key(|k| k.folder.iter().count());
    let from = at.iter().next().and_then(|f| f.to_str()).expect("a folder");
    let may = allowed(from, owner.map_or("", |k| &k.package));
    // Code that calls a function stands beside the function: docs/decisions/0021.
    let caller = (from == "functions").then_some("guest");
    let lawful = |to: &Path| may.iter().chain(&caller).any(|ok| to.starts_with(ok));
    let mut found = vec![];
    for read in reads(at, text, files) {
        let to = match &read {
            Read::Unclear(line) => {
                found.push(format!("{line}: name the file in a string"));
                continue;
            }
            Read::File(file) => Some(file),
            Read::Crate(name) => known.iter().find(|k| k.library == *name).map(|k| &k.folder),
        };
        if let Some(to) = to.filter(|to| !lawful(to)) {
            found.push(format!("{} ({from}/) may not read {}", at.display(), to.display()));
        }
    }
    found
}

/// As Cargo's edges: files that a source includes, and crates that its code names, also
/// in what a macro writes.
#[test]
fn no_source_reads_across_the_trust_boundary() {
    let repo = repo();
    let (known, files) = (known(&repo), sources(&repo));
    let (mut looked, mut found) = (0, vec![]);
    for at in &files {
        // What a crate is tested with is not what it is made of.
        let tests = at.iter().any(|part| ["tests", "benches", "bench"].iter().any(|t| part == *t));
        let source =
            at.extension().is_some_and(|e| ["rs", "c", "h", "cpp"].iter().any(|s| e == *s));
        if source && !tests {
            let text = std::fs::read_to_string(repo.join(at)).expect("readable");
            found.extend(breaches(at, &text, &known, &files));
            looked += 1;
        }
    }
    assert!(looked > 300, "the law looked at {looked} files");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_breach_is_found_and_what_is_lawful_is_not() {
    let repo = repo();
    let (known, files) = (known(&repo), sources(&repo));
    let found = |at: &str, text: &str| breaches(Path::new(at), text, &known, &files).len();
    for (at, text) in [
        ("protocol/wire/src/planted.rs", "quote!(::vfun_sdk::Driver)"),
        ("protocol/wire/src/planted.rs", "include!(\"../../../guest/client/src/lib.rs\");"),
        ("protocol/wire/include/planted.h", "#include \"vfun_driver.h\""),
        ("guest/client/src/planted.rs", "macro_rules! m { () => { ::vfun_supervise::Open } }"),
        ("guest/client/src/planted.rs", "include_str!(\"../../../host/core/src/lib.rs\")"),
        ("guest/kmod/planted.c", "#include \"vfun_driver.h\""),
        ("services/template/c/planted.c", "#include <vfun_function.h>"),
        ("services/sdk/src/planted.rs", "use vfun::Session;"),
        ("host/core/src/planted.rs", "use vfun_sdk::abi;"),
        ("host/metrics/src/planted.rs", "let s: vfun::Session;"),
    ] {
        assert_eq!(found(at, text), 1, "{at}: {text}");
    }
    for (at, text) in [
        ("host/gateway/src/planted.rs", "let s: vfun::Session;"),
        ("host/core/src/planted.rs", "use vfun_supervise::Open;"),
        ("functions/function/src/planted.rs", "quote!(::vfun::Session, ::vfun_sdk::Args)"),
        ("services/sdk/src/planted.rs", "#[cfg(test)]\nmod tests {\n    use vfun::Session;\n}"),
    ] {
        assert_eq!(found(at, text), 0, "{at}: {text}");
    }
}

/// Files of the sides that the law binds, from the repository's root.
fn sources(repo: &Path) -> Vec<PathBuf> {
    let mut files = vec![];
    for side in ["protocol", "guest", "services", "functions", "host"] {
        files_in(&repo.join(side), &mut files);
    }
    files.iter().map(|f| f.strip_prefix(repo).expect("inside").to_owned()).collect()
}

/// Names of all that a package is built from.
fn built_from(repo: &Path, package: &str) -> Vec<String> {
    let out = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--package", package])
        .current_dir(repo)
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).expect("utf-8");
    text.lines().filter_map(|l| l.split(' ').next()).map(str::to_owned).collect()
}

/// The state machine, and what is built around it for the simulation and the
/// fuzzers, carry neither a database nor a command line nor a log.
#[test]
fn the_core_is_built_without_what_a_daemon_needs() {
    const DAEMONS: [&str; 5] =
        ["rusqlite", "libsqlite3-sys", "clap", "tracing", "tracing-subscriber"];
    let repo = repo();
    for package in ["vfun-core", "vfun-admin", "vfun-rim"] {
        let all = built_from(&repo, package);
        assert!(all.len() > 5, "{package} is built from {all:?}");
        let found = DAEMONS.iter().find(|d| all.iter().any(|name| name == *d));
        assert_eq!(found, None, "{package} is not to be built with this");
    }
    // The fuzzers are a workspace of their own. Of the gateway they have its lines for
    // the log, which go nowhere.
    let lock = std::fs::read_to_string(repo.join("fuzz/Cargo.lock")).expect("readable");
    for daemons in ["rusqlite", "libsqlite3-sys", "clap"] {
        assert!(!lock.contains(&format!("name = \"{daemons}\"\n")), "fuzz is built with {daemons}");
    }
}

/// What a guest carries is small, and its root trusts each line of it: no
/// manager, no database, no charts, no screen, nothing that boots guests.
#[test]
fn the_guests_programs_are_built_without_what_is_the_hosts() {
    const HOSTS: [&str; 12] = [
        "vfun-manager",
        "vfun-core",
        "vfun-rim",
        "vfun-keeper",
        "vfun-bench",
        "vfun-testguest",
        "rusqlite",
        "libsqlite3-sys",
        "plotters",
        "image",
        "ratatui",
        "tracing-subscriber",
    ];
    let repo = repo();
    // `vfun`, libvfun and the Python package.
    for package in ["vfun-cli", "vfun", "vfun-python"] {
        let all = built_from(&repo, package);
        assert!(all.len() > 20, "{package} is built from {all:?}");
        let found = HOSTS.iter().find(|h| all.iter().any(|name| name == *h));
        assert_eq!(found, None, "{package} is in guests and is not to be built with this");
    }
}

/// The state machine asks nobody for the time and talks to nobody.
#[test]
fn the_core_is_pure() {
    let repo = repo();
    let mut files = vec![];
    rust_files(&repo.join("host/core/src"), &mut files);
    assert!(files.len() > 30);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for (n, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap();
            let found = [
                "std::net",
                "std::os",
                "std::process",
                "std::thread",
                "rustix",
                "Instant",
                "SystemTime",
            ]
            .into_iter()
            .find(|w| code.contains(w));
            assert_eq!(found, None, "{}:{}", file.display(), n + 1);
        }
    }
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut all = vec![];
    files_in(dir, &mut all);
    found.extend(all.into_iter().filter(|f| f.extension().is_some_and(|e| e == "rs")));
}

/// Each file in a folder and below, but for what a build makes.
fn files_in(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("readable").flatten() {
        let path = entry.path();
        if !path.is_dir() {
            found.push(path);
        } else if !entry.file_name().as_encoded_bytes().starts_with(b".")
            && entry.file_name() != "target"
        {
            files_in(&path, found);
        }
    }
}

/// Where `unsafe` may stand: the window crate, the C edges, the kernel module's
/// system calls (whose interface is the guest's alone, so that they are not the
/// window crate's), and code that shows or tests these edges.
const UNSAFE_MAY_BE_IN: &[&str] = &[
    "protocol/window/src",
    "guest/client/src/capi",
    "guest/client/src/transport/module/ioctl.rs",
    // Memory of the program that becomes the window's.
    "guest/client/src/buffer/moving.rs",
    "guest/client/tests",
    // The buffer protocol is C's: Python's memory as bytes, the window's as buffers.
    "guest/python/src/buffer.rs",
    "guest/python/src/shared.rs",
    // Memory slots and registers of a virtual machine, and the code that it begins in.
    "bench/barevm/src/machine.rs",
    // Processes in namespaces, mounts' attributes, Landlock: no safe library has these calls.
    "host/jail/src/launcher",
    // Requests to the kernel about interfaces: no safe library has these calls.
    "host/hostnet/src",
    // The simulated device's C++.
    "services/fpga/src/sim/ffi.rs",
    // The simulated DMA engine's C++, its pools of memory, and its C interface.
    "services/gdma/src/edge",
    // A remoted API's C symbols in the guest, and its library's on the host.
    "guest/gdma/src",
    "guest/pkcs11/src",
    "guest/verbs/src",
    "guest/remoting/src/fork.rs",
    "guest/remoting/src/out.rs",
    // A test's own network namespace and tap device.
    "services/ports/src/tun.rs",
    "services/ports/tests/device.rs",
    // A test's allocator, which looks at the memory that is given back.
    "guest/remoting/tests/wiped.rs",
    "services/gdmaback/src",
    "services/pkcs11back/src",
    // Lent memory becomes a window of the NIC.
    "services/verbsback/src/lent.rs",
    // Both libraries of that API in one program, to be compared.
    "bench/gdmalib/src/edge.rs",
    "bench/gdmalib/src/token.rs",
    // OpenCL's C interface.
    "services/opencl/src/cl",
    "services/sdk",
    "services/testdriver",
    // What an attacker does is not safe.
    "services/attackdriver",
    "services/template",
    // Machine code that was made before is taken.
    "services/wasm/src/code.rs",
];

#[test]
fn unsafe_code_is_only_where_it_may_be() {
    let repo = repo();
    let mut files = vec![];
    for side in ["protocol", "host", "guest", "services", "functions", "cli", "bench"] {
        rust_files(&repo.join(side), &mut files);
    }
    assert!(files.len() > 60);
    for file in files {
        let at = file.strip_prefix(&repo).unwrap().to_str().unwrap().to_owned();
        if UNSAFE_MAY_BE_IN.iter().any(|ok| at.starts_with(ok)) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        for (n, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap();
            let found = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "#[unsafe("]
                .iter()
                .any(|u| code.contains(u));
            assert!(!found, "{at}:{}: unsafe code may not be here", n + 1);
        }
    }
}

/// A name says which type it is, without the module that it is in.
#[test]
fn no_crate_has_two_types_of_one_name() {
    let repo = repo();
    let sides = ["protocol", "host", "guest", "services", "functions", "cli", "bench"];
    let (known, mut files, mut found) = (known(&repo), vec![], vec![]);
    for side in sides {
        rust_files(&repo.join(side), &mut files);
    }
    let mut of_crate: Vec<Vec<(PathBuf, String)>> = known.iter().map(|_| vec![]).collect();
    for file in files {
        let at = file.strip_prefix(&repo).expect("inside");
        let tests = at.iter().any(|part| part == "tests" || part == "tests.rs");
        let owner = (0..known.len())
            .filter(|k| at.starts_with(known[*k].folder.join("src")))
            .max_by_key(|k| known[*k].folder.iter().count());
        if let Some(owner) = owner.filter(|_| !tests) {
            let text = std::fs::read_to_string(&file).expect("readable");
            of_crate[owner].push((at.to_owned(), text));
        }
    }
    for (krate, sources) in known.iter().zip(&of_crate) {
        found.extend(names::twice(&krate.package, sources));
    }
    let looked: usize = of_crate.iter().map(Vec::len).sum();
    assert!(looked > 300, "the law looked at {looked} files");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Lines of a function, its head included, above which it has two jobs.
const FUNCTION_LINES: usize = 70;
/// Longer ones that stay for now, and why.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[
    (
        "host/core/src/tests/invariants.rs",
        "invariants_hold",
        "one random walk; its checks move into the core's own",
    ),
    (
        "tests/vm/tests/module_ranges.rs",
        "further_windows_come_and_go_while_the_first_one_is_in_use",
        "one guest's story, step after step",
    ),
    (
        "tests/vm/tests/windows.rs",
        "a_data_window_comes_and_goes_while_calls_go_on",
        "one guest's story, step after step",
    ),
];

/// Names and lengths of the functions in a file, as rustfmt leaves it: a function ends
/// with a brace below its first letter.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let head = |line: &'_ str| {
        let before = line.split("fn ").next().unwrap_or_default();
        let words = ["pub", "const", "async", "unsafe", "extern", "\"C\""];
        let modifier = |w: &str| words.contains(&w) || w.starts_with("pub(") || w.ends_with(')');
        line.contains("fn ") && before.split_whitespace().all(modifier)
    };
    let mut found = vec![];
    for (from, line) in lines.iter().enumerate().filter(|(_, line)| head(line)) {
        let indent = &line[..line.len() - line.trim_start().len()];
        let ends = |l: &&str| l.starts_with(indent) && matches!(&l[indent.len()..], "}" | "},");
        let body = lines[from..].iter().position(|l| l.ends_with(['{', ';', '}']));
        let opened = body.is_some_and(|at| lines[from + at].ends_with('{'));
        let Some(to) = lines[from..].iter().position(ends).filter(|_| opened) else {
            continue;
        };
        let name = line.split_once("fn ").expect("a head").1;
        let name = name.split(['(', '<']).next().unwrap_or_default();
        found.push((name, to + 1));
    }
    found
}

#[test]
fn functions_are_short() {
    let repo = repo();
    let mut files = vec![];
    for side in ["protocol", "host", "guest", "services", "functions", "cli", "bench", "tests"] {
        rust_files(&repo.join(side), &mut files);
    }
    let (mut seen, mut long) = (0, vec![]);
    for file in files {
        let at = file.strip_prefix(&repo).unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        for (name, lines) in functions(&text) {
            seen += 1;
            let stays = LONG_FUNCTIONS.iter().any(|(f, n, _)| (*f, *n) == (&at, name));
            if lines > FUNCTION_LINES && !stays {
                long.push(format!("{at}: {name} has {lines} lines"));
            }
        }
    }
    assert!(seen > 5000, "only {seen} functions were found");
    assert!(long.is_empty(), "split by what they do, at most {FUNCTION_LINES} lines:\n{long:#?}");
}

#[test]
fn a_long_function_is_found() {
    let long = format!(
        "    pub(crate) fn f<T>(\n        a: T,\n    ) {{\n{}    }}\n",
        "x();\n".repeat(67)
    );
    let text = format!("impl A {{\n    fn g();\n{long}    const fn h() {{}}\n}}\n");
    assert_eq!(functions(&text), [("f", 71)]);
}

/// Each promise names its tests, and each of these is there.
#[test]
fn each_promise_names_tests_that_exist() {
    let repo = repo();
    let page = std::fs::read_to_string(repo.join("docs/promises.md")).unwrap();
    let (mut promises, mut named) = (0u32, 0u32);
    let mut since = 1;
    for line in page.lines() {
        if let Some((number, _)) = line.split_once(". **")
            && let Ok(number) = number.parse::<u32>()
        {
            promises += 1;
            assert_eq!(number, promises, "promises are numbered in order: {line}");
            assert!(since > 0, "promise {} names no test", number - 1);
            since = 0;
        }
        for test in line.split('`').skip(1).step_by(2).filter(|t| t.contains(".rs::")) {
            let (file, name) = test.split_once("::").expect("just seen");
            let text = std::fs::read_to_string(repo.join(file))
                .unwrap_or_else(|e| panic!("docs/promises.md names {file}: {e}"));
            let found = text.lines().any(|l| l.trim().starts_with(&format!("fn {name}(")));
            assert!(found, "docs/promises.md names {name}, which is not in {file}");
            (since, named) = (since + 1, named + 1);
        }
    }
    assert!(since > 0, "promise {promises} names no test");
    assert!(promises > 15 && named >= promises, "{promises} promises, {named} tests");
}
