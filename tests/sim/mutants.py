#!/usr/bin/env python3
"""Whether the simulation finds bugs: each mutation below is made in a copy of
the tree, and some seeds must fail. A mutation that no longer applies, or that
no seed finds, fails the check.

usage: tests/sim/mutants.py [NAME ...]      (with names: only these)
"""
import os, pathlib, shutil, subprocess, sys

REPO = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target")) / "mutants"
COPY = TARGET / "tree"
CORE, WINDOW = "host/manager/src/core/", "host/manager/src/window.rs"
SEEDS = os.environ.get("VFUN_MUTANT_SEEDS", "300")

MUTANTS = [
    ("forgets-to-free", CORE + "lifecycle.rs",
     "                    w.heap.give(off, bytes);\n                }\n            }\n        }\n    }",
     "                    let _ = (off, bytes);\n                }\n            }\n        }\n    }"),
    ("frees-while-served", CORE + "lifecycle.rs",
     "                out.push(Action::CloseChannel { service, channel: grant });\n            }\n            _ => self.free_grant(grant, out),",
     "                out.push(Action::CloseChannel { service, channel: grant });\n                self.free_grant(grant, out);\n            }\n            _ => self.free_grant(grant, out),"),
    ("does-not-zero", CORE + "lifecycle.rs",
     "        if g.state == GrantState::Activating {\n            // Here",
     "        if g.state == GrantState::Closing {\n            // Here"),
    ("answers-twice", CORE + "lifecycle.rs",
     "                if let Some(to) = g.waiting.take() {\n                    out.push(Action::Answer { to, result: Ok(ack.as_bytes().to_vec()) });",
     "                if let Some(to) = g.waiting {\n                    out.push(Action::Answer { to, result: Ok(ack.as_bytes().to_vec()) });\n                    out.push(Action::Answer { to, result: Ok(ack.as_bytes().to_vec()) });"),
    ("forgets-who-waits", CORE + "kept.rs",
     "        waiting: g.waiting.map(Reply::from),", "        waiting: None,"),
    ("forgets-a-grants-place", CORE + "kept.rs",
     "                if !w.heap.take_at(off, geo.side_bytes.get()) {",
     "                if off == u64::MAX {"),
    ("leaves-the-call-of-a-dead-service", WINDOW,
     "        if cell == 0 || cell > usize::from(g.depth.get()) {\n            return;",
     "        if cell == 0 || cell <= usize::from(g.depth.get()) {\n            return;"),
    ("reads-an-answered-request-again", WINDOW,
     "        if self.taken[cell].wrapping_add(1) == seq {", "        if seq == u32::MAX {"),
    ("keeps-the-line-of-a-session", CORE + "lifecycle.rs",
     "            w.lines[usize::from(s.line)] = None;", "            let _ = (w, s.line);"),
    ("runs-a-half-done-call-again", "tests/sim/src/service.rs",
     "                while left != 0 {", "                while left == 1 {"),
    ("takes-a-late-report", "tests/sim/src/rim.rs",
     "if to != 0 && to != self.generation {", "if to == u32::MAX {"),
    ("another-clients-sessions-end", CORE + "requests.rs",
     ".filter(|(_, s)| s.window == window && s.features.has(Features::MODULE))",
     ".filter(|(_, s)| s.features.has(Features::MODULE))"),
]


def cargo(*args):
    env = {**os.environ, "CARGO_TARGET_DIR": str(TARGET / "build")}
    return subprocess.run(["cargo", *args], cwd=COPY, env=env, capture_output=True, text=True)


def main():
    wanted = sys.argv[1:]
    shutil.rmtree(COPY, ignore_errors=True)
    files = subprocess.run(["git", "ls-files"], cwd=REPO, capture_output=True, text=True, check=True)
    for name in files.stdout.splitlines():
        source, to = REPO / name, COPY / name
        if source.is_file():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to)
    missed = []
    for name, file, old, new in MUTANTS:
        if wanted and name not in wanted:
            continue
        path = COPY / file
        text = path.read_text()
        if text.count(old) != 1:
            missed.append(f"{name}: its place is {text.count(old)} times in {file}, not once")
            print(f"  {name}: no longer applies")
            continue
        path.write_text(text.replace(old, new))
        built = cargo("build", "--release", "--quiet", "-p", "vfun-tests-sim")
        if built.returncode:
            missed.append(f"{name}: does not build:\n{built.stderr[-2000:]}")
        else:
            program = TARGET / "build/release/vfun-sim"
            run = subprocess.run([program, "--seeds", SEEDS, "--as-is"], capture_output=True, text=True)
            found = [l for l in run.stdout.splitlines() if l.startswith("seed ")]
            print(f"  {name}: {found[0] if found else 'NOT FOUND'}", flush=True)
            if run.returncode == 0 or not found:
                missed.append(f"{name}: {SEEDS} seeds find nothing")
        path.write_text(text)
    if missed:
        sys.exit("\n".join(missed))


main()
