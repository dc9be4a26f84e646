//! The examples that come with the library do what they say, in C and in Rust;
//! so do the drivers to copy, and what is installed.

use std::path::Path;
use std::process::Command;
use vfun_tests_local::built::build;
use vfun_tests_local::{Stand, programs, repo};

const COUNT: u64 = 1 << 20;

fn said(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let words = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{command:?}: {words}");
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

/// Each makes the same array where the host reads it.
fn sums(program: &Path) {
    let stand = Stand::start();
    let endpoint = format!("host:{}", stand.root().join("host.sock").display());
    let whole = COUNT / 1000;
    let expect = whole * 499_500 + (0..COUNT % 1000).sum::<u64>();
    let mut command = Command::new(program);
    command.args([&COUNT.to_string(), &endpoint]).env("LD_LIBRARY_PATH", programs());
    assert_eq!(said(&mut command), expect.to_string());
}

#[test]
fn an_array_is_summed_in_place_from_c() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("sum");
    let client = repo().join("guest/client");
    let flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-D_DEFAULT_SOURCE"];
    said(
        Command::new("cc")
            .args(flags)
            .arg("-I")
            .arg(client.join("include"))
            .arg(client.join("examples/sum.c"))
            .arg("-L")
            .arg(programs())
            .args(["-lvfun", "-o"])
            .arg(&program),
    );
    sums(&program);
}

// The whole workspace's features, as the tests are built with: else what it
// depends on would be built once more.
#[test]
fn an_array_is_summed_in_place_from_rust() {
    build(&["--workspace", "--example", "sum"]);
    sums(&programs().join("examples/sum"));
}

/// What the table of docs/functions.md shows, from C, Rust and the shell; Python's is
/// tested with the package.
const OFFLOADED: &str = "zstd true of 220000
sha256 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
resize 3072 [0, 0, 255, 255]
matmul [3.0, 4.0, 6.0, 8.0]";

fn with_kernels() -> (Stand, String) {
    let kernels = repo().join("services/opencl/kernels");
    let kernels = kernels.to_str().unwrap();
    let stand = Stand::with(&["--functions", kernels]);
    let endpoint = format!("host:{}", stand.root().join("host.sock").display());
    (stand, endpoint)
}

#[test]
fn four_jobs_go_to_the_host_from_c_by_stubs() {
    let (stand, endpoint) = with_kernels();
    let dir = tempfile::tempdir().unwrap();
    let (header, program) = (dir.path().join("functions.h"), dir.path().join("offload"));
    said(
        Command::new(programs().join("vfun"))
            .args(["bindgen", "zstd", "sha256", "resize", "matmul_f32", "--lang", "c", "-o"])
            .arg(&header)
            .arg("--root")
            .arg(stand.root()),
    );
    let client = repo().join("guest/client");
    said(
        Command::new("cc")
            .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(dir.path())
            .arg("-I")
            .arg(client.join("include"))
            .arg(client.join("examples/offload.c"))
            .arg("-L")
            .arg(programs())
            .args(["-lvfun", "-o"])
            .arg(&program),
    );
    let mut run = Command::new(&program);
    assert_eq!(said(run.arg(&endpoint).env("LD_LIBRARY_PATH", programs())), OFFLOADED);
}

#[test]
fn four_jobs_go_to_the_host_from_rust() {
    build(&["--workspace", "--example", "offload"]);
    let (_stand, endpoint) = with_kernels();
    assert_eq!(said(Command::new(programs().join("examples/offload")).arg(&endpoint)), OFFLOADED);
}

/// It sleeps for its input and for calls at once: for one after the other, and for
/// more than there are cells.
#[test]
fn an_event_loop_takes_calls_beside_its_other_descriptors() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::Stdio;
    build(&["--workspace", "--example", "event_loop"]);
    let stand = Stand::start();
    let endpoint = format!("host:{}", stand.root().join("host.sock").display());
    let mut command = Command::new(programs().join("examples/event_loop"));
    command.arg(&endpoint).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    for (n, line) in [(20, "20! = 2432902008176640000"), (5, "5! = 120")] {
        writeln!(input, "{n}").unwrap();
        assert_eq!(lines.next().unwrap(), line);
    }
    let many: String = (0..300).map(|n| format!("{}\n", n % 3 + 1)).collect();
    input.write_all(many.as_bytes()).unwrap();
    drop(input);
    let mut rest: Vec<String> = lines.collect();
    rest.sort();
    let due: Vec<&str> = ["1! = 1", "2! = 2", "3! = 6"].iter().flat_map(|l| [*l; 100]).collect();
    assert_eq!(rest, due);
    assert!(child.wait().unwrap().success());
}

/// Each `vfun call` in the tables of docs/functions.md.
#[test]
fn four_jobs_go_to_the_host_from_the_shell() {
    let (stand, _) = with_kernels();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("big.log"), b"a line of a log\n".repeat(5000)).unwrap();
    std::fs::write(dir.path().join("photo.rgba"), [9u8, 9, 9, 255].repeat(64 * 48)).unwrap();
    let page = std::fs::read_to_string(repo().join("docs/functions.md")).unwrap();
    let rows = page.lines().filter(|l| l.starts_with("| `"));
    let lines: Vec<_> =
        rows.flat_map(|l| l.split('`')).filter(|code| code.starts_with("vfun call ")).collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    for line in lines {
        let mut words = line.split(' ');
        words.next();
        let mut command = Command::new(programs().join("vfun"));
        said(command.args(words).current_dir(dir.path()).env("VFUN_ROOT", stand.root()));
    }
    let size = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().len();
    assert!((10..1000).contains(&size("big.zst")));
    assert_eq!(size("small.rgba"), 32 * 24 * 4);
}

/// Built as their first lines say, and called with words: they have a signature.
#[test]
fn the_drivers_to_copy_are_called_from_the_shell() {
    let template = repo().join("services/template");
    let copy = tempfile::tempdir().unwrap();
    for file in ["driver.c", "function.toml"] {
        std::fs::copy(template.join("c").join(file), copy.path().join(file)).unwrap();
    }
    let source = std::fs::read_to_string(copy.path().join("driver.c")).unwrap();
    let cc = source.lines().find_map(|l| l.strip_prefix(" *     cc ")).expect("how it is built");
    let flags = "-std=c11 -Wall -Wextra -Werror";
    said(
        Command::new("sh")
            .args(["-ec", &format!("cc {flags} {cc}")])
            .current_dir(copy.path())
            .env("PKG_CONFIG_PATH", repo().join("guest/client")),
    );
    for (folder, library) in
        [(template.as_path(), "libvfun_template.so"), (copy.path(), "libmyfunction.so")]
    {
        let stand = Stand::start();
        let vfun = |words: &[&str]| {
            said(
                Command::new(programs().join("vfun"))
                    .args(words)
                    .current_dir(folder)
                    .env("VFUN_ROOT", stand.root()),
            )
        };
        let added = vfun(&["function", "add", "function.toml"]);
        assert!(added.ends_with(library), "{added}");
        assert_eq!(vfun(&["call", "mytotal", "5"]), "5");
    }
}

/// The README's first minute, word for word, with the programs of this build, a root that
/// is not there yet, and fewer calls.
#[test]
fn the_first_minute_of_the_readme_works() {
    let readme = std::fs::read_to_string(repo().join("README.md")).unwrap();
    let minute = readme.split("**On the host alone").nth(1).unwrap();
    let commands = minute.split("```").nth(1).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tour");
    let programs = programs().display().to_string();
    let commands = commands
        .replace("/dev/shm/tour", root.to_str().unwrap())
        .replace("$PWD/target/release", &programs)
        .replace("1000000", "1000");
    assert!(commands.contains(&programs) && commands.contains("--repeat 1000 "), "{commands}");
    // A person types slower than a manager starts.
    let ready = "for i in {1..300}; do vfun status >/dev/null 2>&1 && break; sleep 0.1; done";
    let commands = commands.replace(" &\n", &format!(" &\n{ready}\n"));
    let script = format!("set -e\n{commands}\nvfun stop >/dev/null; wait");
    let said = said(Command::new("bash").args(["-c", &script]).current_dir(repo()));
    for words in ["(n: u64, repetitions: u64 = 1) -> u64", "12200160415121876738", "released"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
