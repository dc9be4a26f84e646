#!/usr/bin/env python3
"""Whether tests find bugs: each mutation below is made in a copy of the tree, and
some seeds of the simulation must fail, or a test in real guests. A mutation that
no longer applies, or that nothing finds, fails the check.

usage: tests/sim/mutants.py [--check | --minutes N] [NAME ...]

With --check: only whether each still finds its place. With names: only these. With --minutes: none is begun after so long; the others
are counted as not tried, and the next run begins with them. Those for guests need root, for a network of their own.
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

# The cures that keep a move of a network VF from losing packets. The test in guests must
# fail without each.
VF_STEP, DECIDE = "host/nics/src/step/vf.rs", "guest/agent/src/decide.rs"
GUEST_MUTANTS = [
    ("drops-what-comes-on-the-old-path", DECIDE,
     "    wanted.all_slaves_active = true;", "    wanted.all_slaves_active = false;"),
    ("tells-no-switch", DECIDE,
     "    wanted.peer_notices = options.peer_notices.max(peer_notices(wanted.miimon_ms));",
     "    wanted.peer_notices = 2;"),
    ("unplugs-without-a-word", VF_STEP,
     "        self.set(id, State::Leaving { vm: vm.clone(), until_ms, settled_ms: None });",
     "        let _ = until_ms;\n        self.unplug(id, vm);"),
    ("unplugs-at-once", "host/nics/src/limits.rs",
     "pub const SETTLE_MS: u64 = 500;", "pub const SETTLE_MS: u64 = 0;"),
]
GUEST_TEST = "nics::a_vf_goes_from_vm_to_vm_and_no_packet_is_lost"
# What that test starts, beside itself.
GUEST_PROGRAMS = ["vfun-manager", "vfun-nicd", "vfun-agent", "vfun-cli", "vfun-keeper", "vfun-jail", "vfun-native"]


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


class Seeds:
    """Finds by the simulation."""
    missed = f"{SEEDS} seeds find nothing"

    def build(self):
        return cargo("build", "--release", "--quiet", "-p", "vfun-tests-sim")

    def finds(self):
        return found_by(TARGET / "build/release/vfun-sim", SEEDS)


class Guests:
    """Finds by a test in real guests."""
    missed = f"{GUEST_TEST} passes"

    def build(self):
        packages = [word for p in GUEST_PROGRAMS for word in ("-p", p)]
        built = cargo("build", "--profile", "ci", "--quiet", "--bins", *packages)
        if built.returncode:
            return built
        built = cargo("build", "--profile", "ci", "--quiet", "-p", "vfun-tests-vm", "--bins", "--tests",
                      "--message-format=json-render-diagnostics")
        made = [json.loads(line) for line in built.stdout.splitlines()]
        self.program = next((m["executable"] for m in made if m.get("executable") and m["profile"]["test"]), None)
        return built

    def finds(self):
        folder = COPY / "tests/vm"
        env = {**os.environ, "VFUN_BUILT": "1", "CARGO_MANIFEST_DIR": str(folder), "RUST_BACKTRACE": "0",
               "VFUN_GUEST_KERNEL_DIR": os.environ.get("VFUN_GUEST_KERNEL_DIR") or str(REPO / "target/guest-kernel"),
               "VFUN_KMOD_DIR": os.environ.get("VFUN_KMOD_DIR") or str(REPO / "target/kmod")}
        run = subprocess.run([self.program, "--exact", GUEST_TEST, "--nocapture"], cwd=folder, env=env,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines = run.stdout.splitlines()
        if run.returncode == 0:
            why = [line for line in lines if "IS NOT TESTED" in line or "IS NOT JUDGED" in line]
            self.missed = why[0] if why else Guests.missed
            return None
        at = next((i for i, line in enumerate(lines) if "panicked at" in line), None)
        return lines[at + 1] if at is not None and at + 1 < len(lines) else "it ended by itself"


def try_one(finder, name, edits):
    """What finds a mutation: a sentence; and why nothing does, if so."""
    before = {}
    try:
        for file, old, new in zip(edits[::3], edits[1::3], edits[2::3]):
            text = (COPY / file).read_text()
            before.setdefault(file, text)
            if text.count(old) != 1:
                return None, f"its place is {text.count(old)} times in {file}, not once"
            (COPY / file).write_text(text.replace(old, new))
        built = finder.build()
        if built.returncode:
            return None, f"does not build:\n{built.stderr[-2000:]}"
        said = finder.finds()
        return said, None if said else finder.missed
    finally:
        for file, text in before.items():
            (COPY / file).write_text(text)


def arguments():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--check", action="store_true")
    args.add_argument("--minutes", type=float)
    args.add_argument("names", nargs="*", metavar="NAME")
    args = args.parse_args()
    unknown = set(args.names) - {m[0] for m in MUTANTS + GUEST_MUTANTS}
    if unknown:
        sys.exit(f"no such mutation: {', '.join(sorted(unknown))}")
    return args


def main():
    args = arguments()
    wanted = [m for m in MUTANTS + GUEST_MUTANTS if not args.names or m[0] in args.names]
    if args.check:
        places = [(m[0], file, old) for m in wanted for file, old in zip(m[1::3], m[2::3])]
        lost = [f"{name}: its place is not in {file}" for name, file, old in places
                if not (REPO / file).is_file() or (REPO / file).read_text().count(old) != 1]
        sys.exit("\n".join(lost) or None)
    COPY.mkdir(parents=True, exist_ok=True)
    copy_tree()
    of_guests = {m[0] for m in GUEST_MUTANTS}
    finders = {True: Guests(), False: Seeds()}
    # A run in which nothing was changed must find nothing, or all findings are worthless.
    for kind in sorted({name in of_guests for name, *_ in wanted}):
        built = finders[kind].build()
        if built.returncode:
            sys.exit(f"the tree does not build:\n{built.stderr[-2000:]}")
        if said := finders[kind].finds():
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
        said, why = try_one(finders[name in of_guests], name, edits)
        found += said is not None
        if why:
            missed.append(f"{name}: {why}")
        print(f"  {name}: {said or 'NOT FOUND'}", flush=True)
    if not args.names:
        begin_with.write_text(json.dumps(left))
    print(f"mutations: {found} found, {len(missed)} missed, {len(left)} not tried")
    if missed:
        sys.exit("\n".join(missed))


main()
