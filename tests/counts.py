#!/usr/bin/env python3
"""Counts what a call takes, and holds it against what it took before.

usage: tests/counts.py            builds, counts; fails if a figure has grown by more than 2 %
       tests/counts.py renew      writes what was counted into tests/counts/counts.toml,
                                  and prints what changed

Instructions of the caller's side, of the service's, of the back end of a remoted API
(without the channel's own), of an RDMA write, and of bursts of packets, by callgrind, and the cache
lines that a call moves, by a model (tests/counts). They depend on the compiler, so the
file has a table for each compiler and target. For another one the figures are printed
and nothing fails; `renew` adds it.

The profile is `ci`, in which the crates on a call's path have the level that ships.
What callgrind wrote stays in TARGET/counts, for callgrind_annotate.
"""
import json, os, pathlib, re, shutil, subprocess, sys, tomllib

REPO = pathlib.Path(__file__).resolve().parents[1]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
KEPT = REPO / "tests/counts/counts.toml"
WORK = TARGET / "counts"
# As in tests/counts/calls/main.rs.
CALLS = 64
# What is counted: functions of that program, with all that they call.
SIDES = {"caller": ("counts::caller::call", "counts::caller::submit", "counts::caller::wait"),
         "service": ("counts::channel::serve",),
         "back end": ("vfun_remoting_host::trial::made",),
         "program": ("counts::verbs::post", "counts::verbs::poll"),
         "NIC": ("counts::verbs::run",),
         "sender": ("counts::packets::put", "counts::packets::put_linked"),
         "receiver": ("counts::packets::take", "counts::packets::take_linked", "counts::packets::look")}
MOST = 1.02
HEAD = """\
# What a call takes. Written by `tests/counts.py renew`; docs/testing.md says how to read it.
"""


def program():
    """Without the points at which a test lets a service die: those are not what ships.
    All of the workspace is named, so that features are those of `tests/built.py build`."""
    built = subprocess.run(
        ["cargo", "build", "--profile", "ci", "--workspace", "--test", "counts", "--quiet",
         "--message-format=json-render-diagnostics"], cwd=REPO, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit(built.returncode)
    for line in built.stdout.splitlines():
        made = json.loads(line)
        if made.get("executable") and made["target"]["name"] == "counts":
            return made["executable"]
    sys.exit("counts.py: cargo has built no program of that name")


def compiler():
    said = subprocess.run(["rustc", "-vV"], stdout=subprocess.PIPE, text=True, check=True).stdout
    words = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
    return f"rustc {words['release']} {words['host']}"


def inclusive(dump):
    """Instructions of each function with all that it calls, by callgrind's own format:
    a function's lines are its own costs, and after each `calls=` those of a call."""
    names, costs, name = {}, {}, None
    for line in dump.read_text().splitlines():
        if line.startswith("fn="):
            number, _, text = line[3:].partition(" ")
            names.setdefault(number, text)
            name = names[number]
        elif line.startswith("cfn="):
            number, _, text = line[4:].partition(" ")
            names.setdefault(number, text)
        elif name and re.match(r"[+*\-\d]", line):
            costs[name] = costs.get(name, 0) + int(line.split()[-1])
    return costs


def count():
    """Figures by name: instructions of either side, and lines."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    # The program hands memory to whoever asks for it; addresses do not matter here.
    done = subprocess.run(
        ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={WORK}/calls",
         "--zero-before=counts::scenario_begins", "--dump-before=counts::scenario_ends", program()],
        stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit("counts.py: the calls failed under callgrind")
    lines, instructions, part = {}, {}, 0
    for line in done.stdout.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "lines":
            name, _, moved = rest.rpartition(" = ")
            lines[name] = float(moved)
        elif kind == "calls":
            part += 1
            costs = inclusive(WORK / f"calls.{part}")
            totals = {side: sum(costs.get(f, 0) for f in functions) for side, functions in SIDES.items()}
            if not any(totals.values()):
                sys.exit(f"counts.py: nothing was counted in '{rest}'")
            for side, total in totals.items():
                if total:
                    instructions[f"{rest}: {side}"] = round(total / CALLS, 2)
    return {"lines": lines, compiler(): instructions}


def compare(before, now):
    """Prints each figure beside what it was: those that grew, and those that fell."""
    grew, fell = [], []
    for table, figures in now.items():
        known = before.get(table, {})
        print(f"{table}:" + ("" if known else "  (not in the file)"))
        for name, figure in figures.items():
            was = known.get(name)
            note = ""
            if known and was is None:
                note = "  new"
                grew.append(f"{name}: not in the file")
            elif was is not None and figure != was:
                note = f"  was {was:g} ({figure / was - 1:+.1%})"
                if figure > was * MOST:
                    grew.append(f"{name}: {was:g} -> {figure:g}")
                elif figure * MOST < was:
                    fell.append(f"{name}: {was:g} -> {figure:g}")
            print(f"  {figure:8g}  {name}{note}")
        for name in known.keys() - figures.keys():
            grew.append(f"{name}: in the file, and not counted")
    return grew, fell


def write(figures):
    text = HEAD
    for table, values in figures.items():
        text += f'\n["{table}"]\n' + "".join(f'"{n}" = {v:g}\n' for n, v in values.items())
    KEPT.write_text(text)


def main():
    words = sys.argv[1:]
    if words not in ([], ["renew"]):
        print(__doc__.strip())
        sys.exit(0 if words in (["-h"], ["--help"]) else 2)
    if not shutil.which("valgrind"):
        sys.exit("counts.py: valgrind is not installed")
    before = tomllib.loads(KEPT.read_text()) if KEPT.exists() else {}
    now = count()
    grew, fell = compare(before, now)
    if words == ["renew"]:
        write(before | now)
        print(f"written to {KEPT.relative_to(REPO)}")
        return
    if compiler() not in before:
        print(f"{compiler()} is not in {KEPT.relative_to(REPO)}, so nothing was compared; "
              "`tests/counts.py renew` adds it")
    for line in fell:
        print(f"less than before, run `tests/counts.py renew` to keep it so: {line}")
    if grew:
        sys.exit("counts.py: more than 2 % beyond the file; make it less, or run "
                 "`tests/counts.py renew` and say in the commit why:\n  " + "\n  ".join(grew))


if __name__ == "__main__":
    main()
