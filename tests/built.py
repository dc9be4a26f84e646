#!/usr/bin/env python3
"""Builds all programs and tests of the workspace at once, and runs parts of them.

usage: tests/built.py build              builds; what was built is in TARGET/PROFILE/tests.json
       tests/built.py run WHAT... [-- ARGUMENT...]
                                         runs tests: PACKAGE, PACKAGE/TARGET, and the same after a
                                         '-' for all but those; each with the arguments
       tests/built.py run --under 'PROGRAM ARGUMENT...' WHAT...
                                         runs them under another program, such as valgrind
       tests/built.py run --beside N WHAT...
                                         runs N programs at once, those that take longest first;
                                         each one's output comes when it has ended

The profile is VFUN_PROFILE (default: ci, the level at which all of it compiles soon).

What failed, and with which words, is in TARGET/failed.txt too, which
tests/run.sh shows last and 'build' begins anew. Tests that start real
processes and guests wait for them: one that fails there has a second try, by
itself, and what the first said is shown all the same. TRIES of them in a whole
run, then no more: docs/decisions/0015-second-tries.md. VFUN_TRIES=0: none.

Why not `cargo test -p PACKAGE`: which features a crate is built with follows
from which packages are named together, so cargo would build the larger ones
anew for each stage.
"""
import concurrent.futures, json, os, pathlib, re, shlex, signal, subprocess, sys, threading, time

REPO = pathlib.Path(__file__).resolve().parents[1]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
PROFILE = os.environ.get("VFUN_PROFILE", "ci")
PROGRAMS = TARGET / PROFILE
LIST = PROGRAMS / "tests.json"
FAILED = TARGET / "failed.txt"
# Points at which a test lets programs die. Built apart, such programs would choose
# other features, and compile what they stand on again. Never in a profile that ships.
FAULT_POINTS = ["--features", "vfun-manager/fault-points,vfun-native/fault-points"] if PROFILE == "ci" else []
# A run of one program that is worth a line of its own, s.
SLOW = 5.0
# Programs whose tests mostly wait (for restarts, deadlines, heartbeats): how many of them
# run at once. The harness runs as many as there are processors.
AT_ONCE = {"vfun-tests-conform/main": 4}
# Programs that take long, the longest first: beside others, who begins late ends late.
LONG = ("vfun-tests-local", "vfun-bench", "vfun-nicd", "vfun-tests-conform", "vfun-tests-sim", "vfun",
        "vfun-tests-sandbox", "vfun-native", "vfun-gateway")
# Second tries in a whole run: more is no accident.
TRIES = int(os.environ.get("VFUN_TRIES") or 3)
# Whose tests/ folders start real processes or guests: only these have second tries.
REAL = {"vfun", "vfun-bench", "vfun-gateway", "vfun-linkproxy", "vfun-native", "vfun-nicd", "vfun-testguest", "vfun-tests-conform", "vfun-tests-hostile",
        "vfun-tests-local", "vfun-tests-sandbox", "vfun-tests-vm"}
# What a program of tests ends with when some failed, and nothing else was wrong; and what one that
# hung is noted with.
SOME_FAILED, HUNG = 101, -1
# How long a program of tests may run, and how long it may say nothing (it says a dot for each test
# that has ended), s: the longest program takes three minutes where nothing else runs, the longest test
# less, and one that hangs must not take the time of all others.
HANGS, SILENT = 1500.0, 400.0
# How long a program's output is waited for when it has ended, s.
LAST_WORDS = 10.0
# Programs that run.
CHILDREN = set()
# Lines of a test's last words that are repeated at the end, and their length.
WORDS, LENGTH = 8, 500


def build():
    unseen()
    if "VFUN_STAGES" not in os.environ:  # tests/stages.py begins it anew itself
        FAILED.unlink(missing_ok=True)
    cargo = subprocess.run(
        ["cargo", "build", "--profile", PROFILE, "--workspace", "--lib", "--bins", "--tests", "--examples",
         *FAULT_POINTS,
         "--quiet", "--message-format=json-render-diagnostics"],
        cwd=REPO, stdout=subprocess.PIPE, text=True)
    if cargo.returncode:
        sys.exit(cargo.returncode)
    tests = []
    for line in cargo.stdout.splitlines():
        made = json.loads(line)
        if made.get("reason") == "compiler-artifact" and made["profile"]["test"] and made["executable"]:
            manifest = pathlib.Path(made["manifest_path"])
            name = made["package_id"].split("#")[-1].split("@")[0]
            if "/" in name or name[0].isdigit():  # path+file:///...#1.0.0
                name = manifest.parent.name
            tests.append({
                "package": name, "target": made["target"]["name"], "kind": made["target"]["kind"][0],
                "program": made["executable"], "folder": str(manifest.parent),
            })
    LIST.parent.mkdir(parents=True, exist_ok=True)
    LIST.write_text(json.dumps(tests, indent=1))
    print(f"{len(tests)} test programs")


def sources(target, package):
    """The files that are one target's: of a program beside a library, it and its modules."""
    path = pathlib.Path(target["src_path"])
    kinds = [k for t in package["targets"] for k in t["kind"]]
    if "bin" not in target["kind"] or not any("lib" in k or k == "proc-macro" for k in kinds):
        return sorted(path.parent.rglob("*.rs"))
    files = [path]
    for name in re.findall(r"^\s*(?:pub(?:\(.*?\))? )?mod (\w+);", path.read_text(), re.M):
        files += [path.parent / f"{name}.rs", *sorted((path.parent / name).rglob("*.rs"))]
    return [f for f in files if f.is_file()]


def left_out(package):
    """The files in a package's tests/ that no program of tests has: those packages name
    their programs (`autotests = false`), which read the files as modules."""
    folder = pathlib.Path(package["manifest_path"]).parent / "tests"
    had = set()

    def take(file, below):
        had.add(file)
        for path, name in re.findall(
                r'^\s*(?:#\[path = "(.+)"\]\n\s*)?(?:pub )?mod (\w+);', file.read_text(), re.M):
            found = [file.parent / path] if path else [below / f"{name}.rs", below / name / "mod.rs"]
            for module in found:
                if module.is_file() and module not in had:
                    take(module, module.parent if module.name == "mod.rs" else module.parent / module.stem)

    for target in package["targets"]:
        if target["kind"] == ["test"]:
            root = pathlib.Path(target["src_path"])
            take(root, root.parent)
    # A folder with a Cargo.toml is a package of its own, and not a test.
    return [f"{file.relative_to(REPO)}: no program of tests has it: add `mod {file.stem};` where it belongs"
            for file in sorted(folder.rglob("*.rs"))
            if file not in had and re.search(r"^\s*#\[test\]|^\s*proptest!", file.read_text(), re.M)]


def unseen():
    """Nothing is left out: `test = false` and `doctest = false` save the building and the
    reading of what has no tests, and say so where that has become untrue."""
    said = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1"],
        cwd=REPO, stdout=subprocess.PIPE, text=True, check=True).stdout
    wrong = []
    for package in json.loads(said)["packages"]:
        wrong += left_out(package)
        for target in package["targets"]:
            if target["kind"][0] not in ("lib", "rlib", "cdylib", "proc-macro", "bin"):
                continue
            for setting, mark in (("test", r"^\s*#\[test\]|^\s*proptest!"), ("doctest", r"^\s*//[/!] ```")):
                if target[setting] or (setting == "doctest" and "bin" in target["kind"]):
                    continue
                wrong += [
                    f"{file.relative_to(REPO)}: {target['name']} has `{setting} = false` in its Cargo.toml"
                    for file in sources(target, package) if re.search(mark, file.read_text(), re.M)]
    if wrong:
        sys.exit("built.py: what is in these files never runs:\n" + "\n".join(wrong))


def wanted(test, words):
    names = (test["package"], f"{test['package']}/{test['target']}")
    without = [w[1:] for w in words if w.startswith("-")]
    only = [w for w in words if not w.startswith("-")]
    return not any(n in without for n in names) and (not only or any(n in only for n in names))


def chosen(words):
    """The programs of tests that the words name."""
    tests = [t for t in json.loads(LIST.read_text()) if wanted(t, words)]
    known = {n for t in json.loads(LIST.read_text()) for n in (t["package"], f"{t['package']}/{t['target']}")}
    unknown = [w for w in words if w.lstrip("-") not in known]
    if unknown or not tests:
        sys.exit(f"built.py: no such tests: {' '.join(unknown or words)}")
    return tests


def surroundings():
    """As cargo does for tests: whatever they load is found (a macro's tests load
    the compiler's libraries)."""
    libraries = subprocess.run(
        ["rustc", "--print", "target-libdir"], stdout=subprocess.PIPE, text=True, check=True).stdout
    path = [str(PROGRAMS), str(PROGRAMS / "deps"), libraries.strip(),
            os.environ.get("LD_LIBRARY_PATH", "")]
    return os.environ | {
        "VFUN_BUILT": "1",  # all that tests need beside them
        "LD_LIBRARY_PATH": ":".join(p for p in path if p),
    }


def run(words, arguments, under=(), beside=1):
    tests, env = chosen(words), surroundings()
    failed, again_later = [], []
    printing = threading.Lock()

    def one(t):
        name = f"{t['package']}/{t['target']}" + (" (unit)" if t["kind"] != "test" else "")
        # Who asks for the manifest's folder gets it.
        own = env | {"CARGO_MANIFEST_DIR": t["folder"]}
        if beside == 1:
            print(f"-- {name}", flush=True)
        began, machine = time.monotonic(), clocks()
        command = [*under, t["program"], "--quiet", *at_once(t, arguments), *arguments]
        ended, said = shown(command, t["folder"], own, quiet=beside > 1)
        took = time.monotonic() - began
        with printing:
            if beside > 1:
                print("\n".join([f"-- {name}", *said]), flush=True)
            if took > SLOW:
                print(f"-- {name}: {took:.0f} s", flush=True)
        if ended:
            again_later.append((t, name, command, ended, said, own, away(machine)))

    if beside == 1:
        for t in tests:
            one(t)
            failed += [later[1] for later in again_later if not again(*later)]
            again_later.clear()
    else:
        order = {package: place for place, package in enumerate(LONG)}
        tests.sort(key=lambda t: order.get(t["package"], len(LONG)))
        with concurrent.futures.ThreadPoolExecutor(beside) as pool:
            try:
                list(pool.map(one, tests))
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                for child in list(CHILDREN):
                    os.killpg(child.pid, signal.SIGKILL)
                raise
        # When nothing else runs.
        failed += [later[1] for later in again_later if not again(*later)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def at_once(test, arguments):
    """How many tests of a program run at once, where nobody says so."""
    wanted = AT_ONCE.get(f"{test['package']}/{test['target']}", 0)
    said = any(a.startswith("--test-threads") for a in arguments) or "RUST_TEST_THREADS" in os.environ
    return () if said or wanted <= os.cpu_count() else ("--test-threads", str(wanted))


def shown(command, folder, env, quiet=False):
    """Runs it, its output shown as it comes unless `quiet`: its exit status and the output."""
    began = time.monotonic()
    child = subprocess.Popen(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0)
    CHILDREN.add(child)
    said, heard = bytearray(), [time.monotonic()]

    def show():
        while some := os.read(child.stdout.fileno(), 1 << 16):
            heard[0] = time.monotonic()
            if not quiet:
                sys.stdout.buffer.write(some)
                sys.stdout.buffer.flush()
            said.extend(some)

    # Beside it: what a test left behind may hold the pipe open for ever.
    reader = threading.Thread(target=show, daemon=True)
    reader.start()
    hung = None
    try:
        ended = waited(child, heard)
        if ended is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            ended, hung = HUNG, f"it hung: it was ended after {time.monotonic() - began:.0f} s"
            print(f"-- {hung}", flush=True)
    except KeyboardInterrupt:
        os.killpg(child.pid, signal.SIGKILL)
        raise
    CHILDREN.discard(child)
    reader.join(timeout=LAST_WORDS)
    lines = [line.rstrip() for line in bytes(said).decode(errors="replace").split("\n")]
    return ended, [*lines[:-1], *filter(None, lines[-1:]), *filter(None, [hung])]


def waited(child, heard):
    """A program's exit status; None: it hangs."""
    until = time.monotonic() + HANGS
    while time.monotonic() < until and time.monotonic() < heard[0] + SILENT:
        try:
            return child.wait(timeout=1)
        except subprocess.TimeoutExpired:
            pass
    return None


def clocks():
    """Of all processors: ticks so far, and of these the ones taken away by the machine's host."""
    ticks = [int(n) for n in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return sum(ticks), ticks[7]


def away(before):
    """How much of the machine was taken away since, in words."""
    (ticks, stolen), now = before, clocks()
    share = (now[1] - stolen) / max(now[0] - ticks, 1)
    return f"{share:.0%} of the machine was taken away meanwhile, load {os.getloadavg()[0]:.0f}"


def names(said):
    """The tests that failed: the last list of the harness."""
    at = max((i for i, line in enumerate(said) if line == "failures:"), default=len(said))
    found = []
    for line in said[at + 1:]:
        if not line.startswith("    "):
            if found:
                break
            continue
        found.append(line.strip())
    return found


def words(said, test):
    """What a test said as it fell."""
    # Any of its threads may have been the first to fall.
    block = next((i for i, line in enumerate(said) if line == f"---- {test} stdout ----"), None)
    own = next((i for i, line in enumerate(said) if line.startswith(f"thread '{test}'") and "panicked at" in line), None)
    if block is not None:
        own = next((i for i, line in enumerate(said) if i > block and "panicked at" in line), own)
    at = own
    if at is None:
        return []
    kept = [said[at].partition("panicked at ")[2]]
    for line in said[at + 1:at + WORDS]:
        if line.startswith(("stack backtrace:", "note: run with", "failures:", "test result:")):
            break
        kept.append(line[:LENGTH])
    return [line for line in kept if line]


def again(test, name, command, ended, said, env, machine):
    """Notes what failed, and whether all of it passed at a second try, each test by itself."""
    found = names(said)
    spent = FAILED.read_text().count("\npassed at the second try") if FAILED.exists() else 0
    # Lines of others may have come in between: only if all of them were found.
    count = re.search(r"^test result: FAILED\..* (\d+) failed;", "\n".join(said), re.M)
    real = test["kind"] == "test" and test["package"] in REAL
    if ended == HUNG and real and spent < TRIES:
        # Which of its tests were not run is not known: all of them.
        print(f"-- {name}: all of it once more", flush=True)
        passed = shown(command, test["folder"], env)[0] == 0
        note("passed at the second try" if passed else "failed twice", name, machine, said[-WORDS:])
        return passed
    may = (
        real and ended == SOME_FAILED
        and found and count and int(count[1]) == len(found) and spent + len(found) <= TRIES
        and not any("minimal failing input" in line for line in said))
    passed = True
    for one in found or [None]:
        verdict = "failed"
        if may:
            print(f"-- {name}: {one} once more, by itself", flush=True)
            ended, second = shown(
                [test["program"], "--quiet", "--exact", one, "--include-ignored"], test["folder"], env)
            ran = any(re.search(r"\b1 passed\b", line) for line in second)
            verdict = "failed twice" if ended or not ran else "passed at the second try"
        passed &= verdict == "passed at the second try"
        last = words(said, one) if one else said[-WORDS:]
        note(verdict, f"{name}{f' {one}' if one else ''}", machine, last)
    return passed


def note(verdict, what, machine, last):
    """Adds it to what tests/run.sh shows at its end."""
    with FAILED.open("a") as file:
        print(f"\n{verdict}: {what} ({machine})", file=file)
        for line in last:
            print(f"    {line}", file=file)


def main():
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    match words[:cut]:
        case ["build"]:
            build()
        case ["run", "--under", program, *what]:
            run(what, words[cut + 1:], shlex.split(program))
        case ["run", "--beside", count, *what] if count.isdecimal() and int(count) > 0:
            run(what, words[cut + 1:], beside=int(count))
        case ["run", *what]:
            run(what, words[cut + 1:])
        case _:
            sys.exit(__doc__.strip())


if __name__ == "__main__":
    main()
