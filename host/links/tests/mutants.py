#!/usr/bin/env python3
"""Whether the tests of vfun-links find a condition that is missing: each change below is made in a
copy of the tree, and a unit test must fail. A change that no longer applies, or that nothing finds,
fails the check.

usage: host/links/tests/mutants.py [--check] [NAME ...]

With --check: only whether each still finds its place. With names: only these.
"""
import argparse, os, pathlib, shutil, subprocess, sys

REPO = pathlib.Path(__file__).resolve().parents[3]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target")) / "mutants-links"
COPY = TARGET / "tree"
SRC = "host/links/src/"
DETECT = SRC + "detect/"

# A name, a file, old text, new text.
MUTANTS = [
    # Conditions of the bridge.
    *((f"no-{name.lower()}", DETECT + "conditions.rs", f"(facts.{field}, Hindrance::{name})",
       f"(facts.{field} && false, Hindrance::{name})")
      for field, name in [("stp", "Stp"), ("rstp", "Rstp"), ("sflow", "Sflow"), ("netflow", "Netflow"),
                          ("ipfix", "Ipfix"), ("fails_open", "FailsOpen"), ("in_band", "InBand"),
                          ("evicts", "BridgeEvicts"), ("restoring", "Restoring")]),
    # Conditions of a port.
    *((f"no-{name.lower()}", DETECT + "conditions.rs", f"({test}, Feature::{name})",
       f"({test} && false, Feature::{name})")
      for test, name in [("port.interfaces.len() > 1", "Bond"), ("port.qos", "Qos"), ("port.lacp", "Lacp"),
                         ("interface.policed", "Policing"), ("interface.bfd", "Bfd"), ("interface.cfm", "Cfm"),
                         ("interface.lldp", "Lldp")]),
    *((f"no-{name.lower()}", DETECT + "conditions.rs", f"if open.{field} & OfPort::{bit} != 0",
       f"if false && open.{field} & OfPort::{bit} != 0")
      for field, bit, name in [("config", "DOWN", "Down"), ("state", "LINK_DOWN", "LinkDown"),
                               ("config", "NO_RECEIVE", "NoReceive"), ("config", "NO_FORWARD", "NoForward")]),
    ("no-mirror-of-all", DETECT + "conditions.rs", "m.all || m.ports", "m.ports"),
    ("no-mirror-of-a-port", DETECT + "conditions.rs", "m.all || m.ports", "m.all || false && m.ports"),
    ("no-mtu", DETECT + "conditions.rs", "if from > to {", "if false && from > to {"),
    ("no-mtu-in-the-vm", DETECT + "conditions.rs", "(mtu(sends)?, mtu(takes)?), (a.port.mtu, b.port.mtu)",
     "(mtu(sends)?, mtu(takes)?)"),
    ("no-kind", DETECT + "conditions.rs", "if is.kind != ours.kind {", "if false {"),
    ("no-devargs", DETECT + "conditions.rs", "(Some(expected), found) if found.as_ref() != Some(expected)",
     "(Some(expected), found) if found.is_none() && false && expected.is_empty()"),
    ("no-name-in-openflow", DETECT + "conditions.rs", ".filter(|p| p.name.as_bytes() == cut)",
     ".filter(|_| !cut.is_empty())"),
    ("any-receiver", DETECT + "conditions.rs", "        if from == to {\n            return Err(not_ours(to));\n        }\n", ""),
    # Conditions of rules.
    ("no-idle-timeout", DETECT + "rules.rs", "if flow.idle_timeout != 0 {", "if false {"),
    ("no-send-flow-rem", DETECT + "rules.rs", "f & Flow::SEND_FLOW_REM != 0", "f & Flow::SEND_FLOW_REM == 9"),
    ("send-flow-rem-of-any", DETECT + "rules.rs", "Some(rule) => Err(Hindrance::Rule(rule, RuleFault::SendFlowRem))", "Some(rule) => Ok(Passed::NotAttributable(rule.to_string()))"),
    ("all-pass-each-rule", DETECT + "rules.rs", "        if !is_only {", "        if false && !is_only {"),
    ("tables-pass-once", DETECT + "rules.rs", "**n > 1 || **table == 0", "**n > 300 || **table == 0"),
    ("all-are-fresh", DETECT + "rules.rs", "!self.take(&flow.key) && all_are_read", "{ self.take(&flow.key); all_are_read }"),
    ("no-limit-of-passed", DETECT + "rules.rs", "self.rules.len() > PASSED_RULES_MAX", "self.rules.len() > 9 * PASSED_RULES_MAX"),
    ("keeps-passed-rules", DETECT + "mod.rs", "ours.verdict != verdict || ours.passed != passed", "ours.verdict != verdict"),
    ("no-action", DETECT + "rules.rs", "Instructions::Else(other) => return fault(RuleFault::Action(other.clone())),",
     "Instructions::Else(_) => return Ok(&[]),"),
    ("follows-no-table", DETECT + "rules.rs", "                            to_see.push(*table);\n", ""),
    ("believes-unknown-flags", DETECT + "rules.rs", "if flow.flags.is_none() {", "if false {"),
    ("takes-equal-priority-for-covered", DETECT + "rules.rs", "key.priority >= *floor", "key.priority > *floor"),
    ("a-rule-for-one-type-covers", SRC + "openflow/flow.rs", "self.dl_type.is_none() && !self.other", "!self.other"),
    ("forgets-types", DETECT + "round.rs", "all_packets(rules.types()?)", "{ let _ = rules.types()?; all_packets([]) }"),
    ("no-limit-of-types", DETECT + "rules.rs", "self.types.len() > NAMED_TYPES_MAX", "self.types.len() > 9 * NAMED_TYPES_MAX"),
    ("any-output", DETECT + "round.rs", "**port != number", "**port == u32::MAX && number == 0"),
    ("takes-flags-of-the-rule-before", SRC + "openflow/flow.rs", "let (flags, age_ms) = (None, None);", "let (flags, age_ms) = (Some(0), None);"),
    ("a-table-may-decide", DETECT + "rules.rs", "floor.ok_or(Hindrance::TableDecides(table))?", "floor.unwrap_or(0)"),
    ("no-output-needed", DETECT + "round.rs", "None if walk.outputs.is_empty() =>", "None if walk.floors.is_empty() =>"),
    # What is asked last.
    ("no-eviction", DETECT + "round.rs", "if let Some(table) = met {", "if let Some(table) = met.filter(|_| false) {"),
    ("no-fragments", DETECT + "round.rs", "if flags & FRAGMENTS != 0 {", "if flags & FRAGMENTS == 9 {"),
    ("joined-before-the-last-answer", DETECT + "round.rs",
     "        self.out.push(Action::Ask(Request::Tables { xid }));",
     "        let to = round.to.clone().unwrap_or_default();\n        return self.judge(from, Verdict::Joined { to });\n        #[allow(unreachable_code)]\n        self.out.push(Action::Ask(Request::Tables { xid }));"),
    *((f"joined-without-the-answer-of-the-{who}", DETECT + "round.rs", f"{who}: true", f"{who}: answered.{who}")
      for who in ["tables", "config", "database"]),
    # Traces.
    ("no-slow-path", SRC + "trace.rs", "if text.contains(\"This flow is handled by the userspace slow path\") {", "if false {"),
    ("any-field", SRC + "trace.rs", "megaflow.split(',').find(|f| !may_depend_on(f))", "megaflow.split(',').find(|f| !may_depend_on(f) && f.is_empty())"),
    ("any-final-flow", SRC + "trace.rs", "if !lines(\"Final flow: \").eq([\"unchanged\"]) {", "if false {"),
    ("any-action", SRC + "trace.rs", "name if is_name(name) =>", "name if !name.is_empty() =>"),
    ("no-tags", SRC + "trace.rs", "[false, true].map(|tagged|", "[false].map(|tagged|"),
    ("no-fragments-in-traces", SRC + "trace.rs", "const FRAGMENTS: [&str; 3] = [\"no\", \"first\", \"later\"];", "const FRAGMENTS: [&str; 1] = [\"no\"];"),
    ("two-receivers", DETECT + "round.rs", "Some(other) if other != to =>", "Some(other) if other != to && other.is_empty() =>"),
    # Events.
    ("events-do-not-stop-a-judgement", DETECT + "mod.rs", "        let ours = self.ours.get_mut(name).expect(\"it is one of ours\");\n        ours.patience", "        let ours = self.ours.get_mut(name).expect(\"it is one of ours\");\n        if matches!(ours.stage, Stage::Asks(_)) && blocked.is_none() {\n            return;\n        }\n        ours.patience"),
    ("keeps-the-verdict-at-a-rule", DETECT + "hear.rs", "            self.begin_anew(&name, None);", "            let _ = name;"),
    ("any-rule-stops-a-judgement", DETECT + "mod.rs", "Stage::Asks(round) => round.walk.meets(key),", "Stage::Asks(_) => true,"),
    ("other-rules-hold-a-judgement-up", DETECT + "mod.rs", ".min(since + SETTLE_MS_MAX)", ""),
    ("takes-a-rule-from-the-walk", DETECT + "mod.rs", "Stage::Asks(round) => Some(round.walk.clone()),", "Stage::Asks(round) => matches!(verdict, Verdict::Joined { .. }).then(|| round.walk.clone()),"),
    ("judges-by-name", DETECT + "agenda.rs", "let first = self.waiting.first().filter(", "let first = self.waiting.iter().filter(|(at, _)| *at <= now).min_by_key(|(_, name)| name).filter("),
    ("changed-declarations-are-not-told", DETECT + "mod.rs", "        self.tell_since(&told);", "        let _ = told;"),
    ("changed-declarations-are-no-matter", DETECT + "mod.rs", "        self.anew(|name, ours| hear::concerns(name, ours, &|n| changed.contains(n)));", "        let _ = changed;"),
    ("no-limit-of-ports", DETECT + "mod.rs", "if declared.len() < OURS_MAX ||", "if declared.len() < 9 * OURS_MAX ||"),
    ("the-same-facts-are-news", DETECT + "hear.rs", "        if old == new {", "        if old == new && false {"),
    ("any-refusal-is-that-of-all", DETECT + "hear.rs", "if reading || !asked_before {", "if reading || !asked_before || asked_before {"),
    ("forgets-the-refusal-of-all-rules", DETECT + "hear.rs", "if reading || !asked_before {", "if !asked_before {"),
    ("forgets-strange-refusals", DETECT + "hear.rs", "if reading || !asked_before {", "if reading {"),
    ("keeps-the-verdict-at-a-port", DETECT + "hear.rs", "        self.anew(|name, ours| concerns(name, ours, &is));", "        let _ = &is;"),
    ("keeps-the-verdict-at-a-fact", DETECT + "hear.rs", "        self.anew(|name, ours| concerns(name, ours, &changed));", "        let _ = &changed;"),
    ("keeps-the-verdict-at-a-fact-of-the-bridge", DETECT + "hear.rs", "if old.bridge != new.bridge {", "if false {"),
    ("forgets-the-receiver", DETECT + "hear.rs", "asked || is(name) || ours.towards.as_deref().is_none_or(is)", "asked || is(name)"),
    ("takes-an-old-answer", DETECT + "round.rs", "self.round_of(|r| r.id == asked.round)", "self.round_of(|r| r.id > 0)"),
    ("overlooks-paused", DETECT + "mod.rs", "if known.paused {", "if false {"),
    ("does-not-read-again", DETECT + "hear.rs", "                    known.paused = false;\n                    self.read_rules();", "                    known.paused = false;"),
    ("overlooks-a-storm", DETECT + "mod.rs", "if self.pace.storm() {", "if false {"),
    ("no-hysteresis", DETECT + "pace.rs", "let calm = self.changes < PACE_CALM;", "let calm = self.changes <= crate::limits::PACE_MAX;"),
    ("calm-too-soon", DETECT + "pace.rs", "*windows >= CALM_WINDOWS", "*windows >= 1"),
    ("does-not-look-again", DETECT + "mod.rs", "let look = self.now + ours.patience;", "let look = self.now + ours.patience * 9_999;"),
    ("does-not-settle", DETECT + "mod.rs", "let until = (self.now + SETTLE_MS)", "let until = self.now"),
    ("waits-for-ever", DETECT + "agenda.rs", "self.asking.first().filter(|(at, _)| *at <= now)", "self.asking.first().filter(|(at, _)| *at <= now && now == 0)"),
    ("a-lost-switch-is-no-matter", DETECT + "hear.rs", "Peer::OpenFlow => self.switch = Switch::Lost(why),", "Peer::OpenFlow => drop(why),"),
    ("a-lost-database-is-no-matter", DETECT + "hear.rs", "Peer::Ovsdb => self.database = Database::Lost(why),", "Peer::Ovsdb => drop(why),"),
    ("too-many-rules-are-no-matter", DETECT + "rules.rs", "self.overflowed = true;", ""),
    ("asks-everything-at-once", DETECT + "mod.rs", "while self.traces.len() < TRACES_AT_ONCE\n", "while self.traces.len() < 9 * TRACES_AT_ONCE\n"),
    ("judges-all-at-once", DETECT + "agenda.rs", "self.asking.len() >= JUDGED_AT_ONCE", "self.asking.len() >= 9 * JUDGED_AT_ONCE"),
    ("wakes-all-the-time", DETECT + "agenda.rs", "let waiting = self.waiting.first().filter(|_| !self.full());", "let waiting = self.waiting.first();"),
    ("takes-paused-for-resumed", SRC + "openflow/flow.rs", "5 => Update::Paused,", "5 => Update::Resumed,"),
    # Limits.
    ("no-limit-of-rules-bytes", DETECT + "rules.rs", "|| self.bytes + bytes > RULES_BYTES_MAX", ""),
    ("rules-that-go-make-no-room", DETECT + "rules.rs", "        self.bytes -= weight(&old);\n", ""),
    ("keeps-all-rules-twice", DETECT + "hear.rs", "            known.rules = Rules::default();\n", ""),
    ("no-limit-of-steps", SRC + "openflow/flow.rs", "(steps.len() > STEPS_MAX)", "(steps.len() > 9 * STEPS_MAX)"),
    ("no-limit-of-rows", SRC + "ovsdb.rs", "if self.bytes > ROWS_BYTES_MAX {", "if self.bytes > 9 * ROWS_BYTES_MAX {"),
    ("rows-that-go-make-no-room", SRC + "ovsdb.rs", "self.bytes -= old.map_or(0,", "self.bytes -= old.filter(|_| false).map_or(0,"),
    ("no-limit-of-facts", SRC + "ovsdb.rs", "facts.parts() > FACTS_MAX", "facts.parts() > 9 * FACTS_MAX"),
    ("no-limit-of-texts", SRC + "ovsdb.rs", "text.len() > TEXT_BYTES_MAX", "text.len() > 9 * TEXT_BYTES_MAX"),
    ("members-may-come-twice", SRC + "ovsdb.rs", "if !seen.insert(uuid.get(1).and_then(Value::as_str)) {", "if !seen.insert(uuid.get(1).and_then(Value::as_str)) && false {"),
    # Sockets.
    ("skips-what-is-not-json", SRC + "rim/json.rs", "if self.depth == 0 && !(", "if false && !("),
    ("connects-for-ever", SRC + "rim/mod.rs", "Errno::AGAIN if Instant::now() < until =>", "Errno::AGAIN if until.elapsed().as_secs() < 90 =>"),
    ("connects-after-the-end", SRC + "rim/mod.rs", "Errno::AGAIN if ended() =>", "Errno::AGAIN if ended() && false =>"),
    ("traces-after-the-end", SRC + "rim/tracer.rs", "        if link.ended() {", "        if false {"),
    ("no-limit-of-traces", SRC + "rim/tracer.rs", "if text.len() > TRACE_BYTES_MAX =>", "if text.len() > 9 * TRACE_BYTES_MAX =>"),
    ("changes-wait-without-end", SRC + "rim/mod.rs", "            if !all_act {", "            if !all_act && false {"),
    # Facts.
    *((f"overlooks-{field}", SRC + "ovsdb.rs", old, new) for field, old, new in [
        ("negative-numbers", "one(row, column).and_then(Value::as_u64)", "one(row, column).and_then(Value::as_i64).map(i64::unsigned_abs)"),
        ("lacp-off", "one(row, \"lacp\").is_some_and(|v| v != \"off\")", "one(row, \"lacp\").is_some()"),
        ("controllers-over-ssl", "target.starts_with(\"tcp:\") || target.starts_with(\"ssl:\")", "target.starts_with(\"tcp:\")"),
        ("packets-of-policing", "limited(\"ingress_policing_rate\") || limited(\"ingress_policing_kpkts_rate\")", "limited(\"ingress_policing_rate\")"),
        ("mirrors-to-a-port", "[\"select_src_port\", \"select_dst_port\"]", "[\"select_dst_port\"]"),
    ]),
]


def copy_tree():
    files = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, check=True, capture_output=True).stdout
    shutil.rmtree(COPY, ignore_errors=True)
    for name in files.decode().split("\0"):
        source, to = REPO / name, COPY / name
        if name and source.is_file():
            to.parent.mkdir(parents=True, exist_ok=True)
            # With the time of now: what is built of it is that of a mutation.
            shutil.copy(source, to)


def tests_pass():
    words = ["cargo", "test", "--quiet", "-p", "vfun-links", "--lib"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    done = subprocess.run(words, cwd=COPY, env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode and "error: could not compile" in done.stderr:
        sys.exit(f"it does not build:\n{done.stderr}")
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("test ") and line.endswith("... FAILED")]
    failed += [line.strip() for line in done.stdout.splitlines() if line.startswith("    ") and "::" in line and " " not in line.strip()]
    return done.returncode == 0, sorted(set(failed))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    chosen = [m for m in MUTANTS if not asked.names or m[0] in asked.names]
    bad = [f"{name}: {file} has its place {count} times" for name, file, old, _ in chosen
           if (count := (REPO / file).read_text().count(old)) != 1]
    if bad or asked.check:
        print("\n".join(bad) or f"all {len(chosen)} find their places")
        sys.exit(bool(bad))
    copy_tree()
    if not tests_pass()[0]:
        sys.exit("the tests fail without a change")
    missed = []
    for name, file, old, new in chosen:
        path = COPY / file
        text = path.read_text()
        path.write_text(text.replace(old, new))
        passed, failed = tests_pass()
        path.write_text(text)
        print(f"{'MISSED' if passed else 'found '} {name}: {', '.join(failed)}", flush=True)
        missed += [name] if passed else []
    print(f"{len(chosen) - len(missed)} of {len(chosen)} were found")
    sys.exit(bool(missed))


main()
