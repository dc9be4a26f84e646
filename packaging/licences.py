#!/usr/bin/env python3
"""Prints the licences of the crates that are linked into packages of this workspace.

usage: packaging/licences.py PACKAGE...

Each crate with its version and licence, then the texts that their authors ship, each
text once. Asks cargo for what it has already: nothing is fetched.
"""
import json, pathlib, subprocess, sys

REPO = pathlib.Path(__file__).resolve().parents[1]
TEXTS = ("licen[cs]e*", "LICEN[CS]E*", "COPYING*", "UNLICENSE*", "NOTICE*")


def cargo(*words):
    command = ["cargo", *words, "--locked", "--offline"]
    return subprocess.run(command, cwd=REPO, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked(packages):
    """Names and versions of the crates of others that are linked into these packages."""
    words = [w for p in packages for w in ("-p", p)]
    lines = cargo("tree", *words, "-e", "normal", "--prefix", "none", "--format", "{p}").splitlines()
    # Ours have a path; a macro's crate is in the compiler, not in the program.
    crates = {tuple(line.split()[:2]) for line in lines if line and "(/" not in line and "(proc-macro)" not in line}
    return sorted((name, version[1:]) for name, version in crates)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    # Crates for other systems are not here.
    facts = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout
    here = next(line.split()[1] for line in facts.splitlines() if line.startswith("host:"))
    all_of_them = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", here))["packages"]
    known = {(p["name"], p["version"]): p for p in all_of_them}
    users = {}
    for crate in linked(sys.argv[1:]):
        package = known[crate]
        print(f"{package['name']} {package['version']}: {package['license'] or 'see its text below'}")
        folder = pathlib.Path(package["manifest_path"]).parent
        for text in sorted({f for pattern in TEXTS for f in folder.glob(pattern) if f.is_file()}):
            users.setdefault(text.read_text(errors="replace").strip(), []).append(package["name"])
    for text, names in users.items():
        print(f"\n{'=' * 78}\nOf {', '.join(sorted(set(names)))}:\n\n{text}")


if __name__ == "__main__":
    main()
