#!/usr/bin/env python3
"""Whether the simulation finds bugs: each mutation below is made in a copy of
the tree, and some seeds must fail. A mutation that no longer applies, or that
no seed finds, fails the check.

usage: tests/sim/mutants.py [--check | --minutes N] [NAME ...]

With --check: only whether each still finds its place. With names: only these. With --minutes: none is begun after so long; the others
are counted as not tried, and the next run begins with them.
"""
import argparse, json, os, pathlib, shutil, subprocess, sys, time

REPO = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target")) / "mutants"
COPY = TARGET / "tree"
CORE, RIM, WINDOW = "host/core/src/", "host/rim/src/", "host/rim/src/window.rs"
SEEDS = os.environ.get("VFUN_MUTANT_SEEDS", "600")

# A name, then what is changed: file, old text, new text, once or several times.
MUTANTS = [
    ("forgets-to-free", CORE + "lifecycle.rs",
     "            w.give(&place, hold_back.then_some(self.now));",
     "            let _ = (w, &place, hold_back);"),
    ("frees-while-served", CORE + "lifecycle.rs",
     "                out.push(Action::CloseChannel { service, channel: grant });\n            }\n            _ => self.free_grant(grant, out),",
     "                out.push(Action::CloseChannel { service, channel: grant });\n                self.free_grant(grant, out);\n            }\n            _ => self.free_grant(grant, out),"),
    ("does-not-zero", CORE + "channels.rs",
     "        if matches!(g.stage, Stage::Activating { .. }) {\n            // Here",
     "        if matches!(g.stage, Stage::Closing { .. }) {\n            // Here"),
    ("does-not-zero-a-buffer", CORE + "buffers.rs",
     "        out.push(Action::ZeroBuffer { window, range });\n        for service", "        for service"),
    ("frees-a-buffer-that-a-service-has", CORE + "buffers.rs",
     "        if !b.at.is_empty() || self.grant_closes(b.grant) {\n            return;\n        }\n        let Some(b)", "        let Some(b)"),
    ("keeps-buffers-of-a-grant", CORE + "lifecycle.rs",
     "from here on.\n        self.end_buffers_of_grant(grant, held, why, out);", "from here on."),
    ("answers-twice", CORE + "activate.rs",
     "                out.extend(waiting.and_then(|to| ack(grant, g, to)));",
     "                out.extend(waiting.and_then(|to| ack(grant, g, to)));\n                out.extend(waiting.and_then(|to| ack(grant, g, to)));"),
    ("forgets-who-waits", CORE + "grant.rs",
     "        waiting: Option<ReplyTo>,", "        #[serde(skip)]\n        waiting: Option<ReplyTo>,"),
    ("forgets-a-grants-place", CORE + "kept.rs",
     "            if !w.take_again(place) {", "            if place.bytes() == 0 {"),
    ("finds-a-grant-where-it-was", CORE + "grants.rs",
     "                self.index.remove(&(key, place));", "                let _ = key;"),
    ("gives-a-vf-to-two", CORE + "hands.rs",
     "                if used.insert(vf) {", "                used.insert(vf);\n                {"),
    ("forgets-a-wake-of-a-place", CORE + "window.rs",
     "        self.vectors[usize::from(place.vector())] -= 1;", ""),
    ("leaves-the-call-of-a-dead-service", WINDOW,
     "        if cell == 0 || cell > usize::from(calls.depth) {\n            return;",
     "        if cell == 0 || cell <= usize::from(calls.depth) {\n            return;"),
    ("reads-an-answered-request-again", WINDOW,
     "        if self.taken[cell].wrapping_add(1) == seq {", "        if seq == u32::MAX {"),
    ("keeps-the-line-of-a-session", CORE + "lifecycle.rs",
     "            w.lines[usize::from(s.line)] = None;", "            let _ = (w, s.line);"),
    # Manager and service both see to it; one of the two is enough.
    ("runs-a-half-done-call-again", "tests/sim/src/service.rs",
     "        if left != 0 {", "        if left == 1 {", WINDOW,
     "        datain.store(in_header::CURRENT, 0, Ordering::Relaxed);\n        datain.store(in_header::SLEEPS",
     "        if current != u64::MAX {\n            return;\n        }\n        datain.store(in_header::SLEEPS"),
    ("takes-a-late-report", RIM + "hear.rs",
     "if to != 0 && to != self.rim().generation {", "if to == u32::MAX {"),
    ("forgets-what-it-ended", CORE + "requests.rs",
     "            *cell = Some(by.seq);", "            let _ = cell;"),
    ("another-clients-sessions-end", CORE + "sessions.rs",
     "        for session in self.sessions_of(window) {",
     "        for session in self.sessions.iter().map(|(h, _)| h).collect::<Vec<_>>() {"),
    # The rim is the daemon's own, too.
    ("acts-before-it-is-noted", RIM + "act.rs",
     "            self.note_changes();\n            self.noted(what);", "            self.noted(what);",
     RIM + "act.rs", "            self.done(what);", "            self.note_changes();\n            self.done(what);"),
    ("tells-ahead-of-what-waits", RIM + "tell.rs",
     "            true => Err(Unsent::Later),", "            true => self.tell_now(id, &word),"),
    ("takes-a-part-for-the-whole-report", RIM + "hear.rs",
     "        if more {\n            return ServiceSaid::Nothing;\n        }", "        let _ = more;"),
    ("answers-stats-with-another-length", RIM + "act.rs",
     "Ok(stats.as_bytes().to_vec())", "Ok(vec![0; stats.as_bytes().len() + 8])"),
    ("keeps-a-window-that-is-gone", RIM + "windows.rs",
     "        self.let_window_go(id);\n        self.point(\"a window is let go, not noted\");",
     "        self.point(\"a window is let go, not noted\");"),
]


def cargo(*args):
    # Built many times and run for seconds: building is what takes long.
    env = {**os.environ, "CARGO_TARGET_DIR": str(TARGET / "build"), "CARGO_INCREMENTAL": "1",
           "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1", "CARGO_PROFILE_RELEASE_DEBUG": "0"}
    return subprocess.run(["cargo", *args], cwd=COPY, env=env, capture_output=True, text=True)


def copy_tree():
    """Only what changed, so that little is built anew."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=REPO, capture_output=True, text=True, check=True)
    names = set(files.stdout.splitlines())
    for old in COPY.rglob("*"):
        if old.is_file() and str(old.relative_to(COPY)) not in names | {"Cargo.lock"}:
            old.unlink()
    for name in names:
        source, to = REPO / name, COPY / name
        if source.is_file() and not (to.is_file() and to.read_bytes() == source.read_bytes()):
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, to)


def found_by(program, seeds):
    """The first line of the failure that some seed finds."""
    run = subprocess.run([program, "--seeds", seeds, "--as-is"], capture_output=True, text=True)
    lines = [l for l in run.stdout.splitlines() if l.startswith("seed ")]
    if run.returncode == 0:
        return None
    # A panic of the code under test is a finding as well.
    return (lines or run.stderr.splitlines() or ["it ended by itself"])[0]


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--check", action="store_true")
    args.add_argument("--minutes", type=float)
    args.add_argument("names", nargs="*", metavar="NAME")
    args = args.parse_args()
    unknown = set(args.names) - {m[0] for m in MUTANTS}
    if unknown:
        sys.exit(f"no such mutation: {', '.join(sorted(unknown))}")
    wanted = [m for m in MUTANTS if not args.names or m[0] in args.names]
    if args.check:
        places = [(m[0], file, old) for m in wanted for file, old in zip(m[1::3], m[2::3])]
        lost = [f"{name}: its place is not in {file}" for name, file, old in places
                if not (REPO / file).is_file() or (REPO / file).read_text().count(old) != 1]
        sys.exit("\n".join(lost) or None)
    COPY.mkdir(parents=True, exist_ok=True)
    copy_tree()
    program = TARGET / "build/release/vfun-sim"
    # A run in which nothing was changed must find nothing, or all findings are worthless.
    built = cargo("build", "--release", "--quiet", "-p", "vfun-tests-sim")
    if built.returncode:
        sys.exit(f"the tree does not build:\n{built.stderr[-2000:]}")
    if said := found_by(program, SEEDS):
        sys.exit(f"the tree as it is fails: {said}")
    begin_with = TARGET / "not-tried.json"
    if begin_with.exists() and not args.names:
        late = json.loads(begin_with.read_text())
        wanted.sort(key=lambda m: m[0] not in late)
    began, missed, found, left = time.monotonic(), [], 0, []
    for name, *edits in wanted:
        if args.minutes is not None and time.monotonic() - began > args.minutes * 60:
            left.append(name)
            continue
        before = {}
        for file, old, new in zip(edits[::3], edits[1::3], edits[2::3]):
            text = (COPY / file).read_text()
            before.setdefault(file, text)
            if text.count(old) != 1:
                missed.append(f"{name}: its place is {text.count(old)} times in {file}, not once")
                print(f"  {name}: no longer applies", flush=True)
                break
            (COPY / file).write_text(text.replace(old, new))
        else:
            built = cargo("build", "--release", "--quiet", "-p", "vfun-tests-sim")
            if built.returncode:
                missed.append(f"{name}: does not build:\n{built.stderr[-2000:]}")
                print(f"  {name}: does not build", flush=True)
            elif said := found_by(program, SEEDS):
                found += 1
                print(f"  {name}: {said}", flush=True)
            else:
                missed.append(f"{name}: {SEEDS} seeds find nothing")
                print(f"  {name}: NOT FOUND", flush=True)
        for file, text in before.items():
            (COPY / file).write_text(text)
    if not args.names:
        begin_with.write_text(json.dumps(left))
    print(f"mutations: {found} found, {len(missed)} missed, {len(left)} not tried")
    if missed:
        sys.exit("\n".join(missed))


main()
