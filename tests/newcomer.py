#!/usr/bin/env python3
"""Does what docs/remoting.md tells a newcomer to type, word by word: "Add an API, step by
step" makes a small API of a C header, builds both halves, and runs a program with the
library itself and by VirtFun. Both must print the same. In a copy of the tree, because
the steps write into it.

usage: tests/newcomer.py

The copy is TARGET/newcomer; what was built there is used again. VFUN_PROFILE is the build
profile (default: ci), in the place of the page's release.
"""
import os, pathlib, re, shutil, subprocess, sys

REPO = pathlib.Path(__file__).resolve().parents[1]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
COPY = TARGET / "newcomer"
PROFILE = os.environ.get("VFUN_PROFILE", "ci")
HEADING = "## Add an API, step by step\n"
ROOT = "/dev/shm/thermo"  # as on the page


def steps():
    """The page's commands: all blocks that are for a shell."""
    text = (REPO / "docs/remoting.md").read_text()
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    if len(blocks) < 6:
        sys.exit(f"docs/remoting.md: only {len(blocks)} blocks of commands below '{HEADING.strip()}'")
    return "".join(blocks)


def copy_tree():
    """The tree as it is, without what is ignored. Files keep their times, for cargo."""
    COPY.mkdir(parents=True, exist_ok=True)
    for old in COPY.iterdir():
        if old.name != "target":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.rmtree(COPY / "target/thermo", ignore_errors=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=REPO, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (REPO / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPO / name, COPY / name)


def main():
    typed = steps()
    copy_tree()
    shutil.rmtree(ROOT, ignore_errors=True)
    typed = typed.replace("--release", f"--profile {PROFILE}").replace("target/release/", f"target/{PROFILE}/")
    typed = typed.replace("cargo run ", f"cargo run --profile {PROFILE} ")
    # What goes on in the background ends with the shell, also where a step fails.
    script = f"set -exuo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n{typed}"
    env = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
    status = subprocess.run(["bash", "-c", script], cwd=COPY, env=env).returncode
    shutil.rmtree(ROOT, ignore_errors=True)
    native, remoted = [COPY / "target/thermo" / name for name in ("native.txt", "remoted.txt")]
    # Not by the page's own diff: where it fails, a shell goes on.
    if status or not remoted.is_file() or "kitchen" not in native.read_text():
        sys.exit(f"the steps of docs/remoting.md do not work: they end with {status}; {COPY} is how they left the tree")
    if native.read_text() != remoted.read_text():
        sys.exit(f"the program prints other things by VirtFun: compare {native} and {remoted}")
    print("a newcomer's API: the program prints the same by VirtFun")


main()
