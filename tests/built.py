#!/usr/bin/env python3
"""Builds all programs and tests of the workspace at once, and runs parts of them.

usage: tests/built.py build              builds; what was built is in TARGET/tests.json
       tests/built.py run WHAT... [-- ARGUMENT...]
                                         runs tests: PACKAGE, PACKAGE/TARGET, and the same after a
                                         '-' for all but those; each with the arguments

Why not `cargo test -p PACKAGE`: which features a crate is built with follows
from which packages are named together, so cargo would build the larger ones
anew for each stage.
"""
import json, os, pathlib, re, subprocess, sys, time

REPO = pathlib.Path(__file__).resolve().parents[1]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
LIST = TARGET / "tests.json"
# A run of one program that is worth a line of its own, s.
SLOW = 5.0


def build():
    unseen()
    cargo = subprocess.run(
        ["cargo", "build", "--release", "--workspace", "--lib", "--bins", "--tests", "--examples",
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


def unseen():
    """Nothing is left out: `test = false` and `doctest = false` save the building and the
    reading of what has no tests, and say so where that has become untrue."""
    said = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1"],
        cwd=REPO, stdout=subprocess.PIPE, text=True, check=True).stdout
    wrong = []
    for package in json.loads(said)["packages"]:
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
        sys.exit("built.py: what is in these files would never run:\n" + "\n".join(wrong))


def wanted(test, words):
    names = (test["package"], f"{test['package']}/{test['target']}")
    without = [w[1:] for w in words if w.startswith("-")]
    only = [w for w in words if not w.startswith("-")]
    return not any(n in without for n in names) and (not only or any(n in only for n in names))


def run(words, arguments):
    tests = [t for t in json.loads(LIST.read_text()) if wanted(t, words)]
    known = {n for t in json.loads(LIST.read_text()) for n in (t["package"], f"{t['package']}/{t['target']}")}
    unknown = [w for w in words if w.lstrip("-") not in known]
    if unknown or not tests:
        sys.exit(f"built.py: no such tests: {' '.join(unknown or words)}")
    failed = []
    # As cargo does for tests: whatever they load is found (a macro's tests load
    # the compiler's libraries), and who asks for the manifest's folder gets it.
    libraries = subprocess.run(
        ["rustc", "--print", "target-libdir"], stdout=subprocess.PIPE, text=True, check=True).stdout
    path = [str(TARGET / "release"), str(TARGET / "release/deps"), libraries.strip(),
            os.environ.get("LD_LIBRARY_PATH", "")]
    for t in tests:
        name = f"{t['package']}/{t['target']}" + (" (unit)" if t["kind"] != "test" else "")
        env = os.environ | {
            "CARGO_MANIFEST_DIR": t["folder"],
            "LD_LIBRARY_PATH": ":".join(p for p in path if p),
        }
        print(f"-- {name}", flush=True)
        began = time.monotonic()
        ended = subprocess.run([t["program"], "--quiet", *arguments], cwd=t["folder"], env=env).returncode
        took = time.monotonic() - began
        if took > SLOW:
            print(f"-- {name}: {took:.0f} s", flush=True)
        if ended:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def main():
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    match words[:cut]:
        case ["build"]:
            build()
        case ["run", *what]:
            run(what, words[cut + 1:])
        case _:
            sys.exit(__doc__.strip())


if __name__ == "__main__":
    main()
