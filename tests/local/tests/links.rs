//! The process that watches switches for direct links, and the manager, without a guest. A script
//! stands for the process; and the process itself is tried on a stock Open vSwitch.

use crate::nics::{child, kill};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vfun_tests_local::{Stand, placed, programs};

/// Writes each packet into a file as a line, and sends the packet that it finds in
/// another file, whenever that is another one, which is a line as well. Both lie beside it.
const WATCHER: &str = r#"#!/usr/bin/python3
import os, socket, sys
place = os.path.dirname(sys.argv[0])
assert sys.argv[1:] == ["--until-stdin-closes"], sys.argv
sock = socket.socket(fileno=0)
assert sock.type == socket.SOCK_SEQPACKET, sock
sock.settimeout(0.02)
heard = open(place + "/heard", "a")
heard.write('"began"\n')
heard.flush()
sent = None
while True:
    try:
        packet = sock.recv(65536)
        if not packet:
            break
        heard.write(packet.decode() + "\n")
        heard.flush()
    except TimeoutError:
        pass
    try:
        word = open(place + "/word").read()
    except FileNotFoundError:
        continue
    if word != sent:
        sock.send(word.encode())
        heard.write('"said"\n')
        heard.flush()
    sent = word
"#;

/// Runs the real process, and tells it that ports are of the kind that a switch without DPDK has.
const BETWEEN: &str = r#"#!/usr/bin/python3
import json, os, select, socket, subprocess, sys
place = os.path.dirname(sys.argv[0])
manager = socket.socket(fileno=0)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
child = subprocess.Popen([place + "/real-links", "--until-stdin-closes"], stdin=theirs)
theirs.close()
while True:
    for ready in select.select([manager, ours], [], [])[0]:
        packet = ready.recv(65536)
        if not packet:
            ours.close()
            sys.exit(child.wait())
        if ready is ours:
            manager.send(packet)
            continue
        word = json.loads(packet)
        if word["port"]["declared"]:
            assert word["port"]["declared"]["kind"] == "dpdk", word
            word["port"]["declared"].update(kind="dummy", devargs=None)
        ours.send(json.dumps(word).encode())
"#;

/// Two VMs of one client, each with a port in the bridge br0.
const CLIENT: &str = "name = \"web\"\nwindow = \"1 MiB\"\ntransport = \"ivshmem-plain\"\n\
    [vm.a.ports.eth1]\nway = \"dpdk\"\ntap = \"p1\"\nswitch = \"br0\"\n\
    [vm.b.ports.eth1]\nway = \"dpdk\"\ntap = \"p2\"\nswitch = \"br0\"\n\
    [vm.b.ports.eth2]\ntap = \"t3\"\nswitch = \"br0\"\n\
    [vm.b.ports.eth3]\nway = \"dpdk\"\ntap = \"p4\"\n";

/// A folder with a manager whose `vfun-links` is this script.
fn place(script: &str) -> tempfile::TempDir {
    placed::manager("vfun-links", script)
}

fn lines(place: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(place.join("heard")).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// What the script's present life heard last of a port: its declaration, or null.
fn heard(place: &Path, port: &str) -> Option<Value> {
    let all = lines(place);
    let life = all.rsplit(|line| line == "began").next()?;
    let of_port = life.iter().rev().find(|line| line["port"]["port"] == port)?;
    Some(of_port["port"]["declared"].clone())
}

/// Lives of the script so far.
fn lives(place: &Path) -> usize {
    lines(place).iter().filter(|line| *line == "began").count()
}

/// Packets that the script has sent so far.
fn said(place: &Path) -> usize {
    lines(place).iter().filter(|line| *line == "said").count()
}

/// The script sends this packet.
fn say(place: &Path, packet: &str) {
    let (new, file) = (place.join("word.new"), place.join("word"));
    std::fs::write(&new, packet).unwrap();
    // It must not see half of it.
    std::fs::rename(new, file).unwrap();
}

fn says_joined(place: &Path, from: &str, to: &str) {
    let number = &heard(place, from).expect("declared")["number"];
    say(place, &json!({"verdict": {"from": from, "number": number, "joined_to": to}}).to_string());
}

#[test]
fn ports_of_switches_are_declared_and_verdicts_are_heard_whatever_is_started_anew() {
    let place = place(WATCHER);
    let (at, vfund) = (place.path(), place.path().join("vfund"));
    let mut stand = Stand::of(&vfund, &["--links"], &[("OVS_RUNDIR", "/run/sw")]);
    stand.add_client(CLIENT).unwrap();
    stand.until("both are declared", |_| ["p1", "p2"].iter().all(|p| heard(at, p).is_some()));
    let p1 = heard(at, "p1").unwrap();
    let switch = json!({"run": "/run/sw", "database": "/run/sw/db.sock", "bridge": "br0"});
    assert_eq!((&p1["switch"], &p1["kind"], &p1["mtu"]), (&switch, &json!("dpdk"), &json!(1500)));
    let devargs = p1["devargs"].as_str().unwrap();
    assert!(
        devargs.starts_with("net_vfun_p1,socket=") && devargs.contains(",port=p1,"),
        "{devargs}"
    );
    assert_eq!(
        (heard(at, "t3"), heard(at, "p4")),
        (None, None),
        "a tap device, and one in no bridge"
    );
    says_joined(at, "p1", "p2");
    let joined = |s: &Stand, n| {
        s.log().matches("port p1: the switch sends all its frames to p2").count() == n
    };
    stand.until("the verdict is heard", |s| joined(s, 1));

    // A port that is another one is declared anew, and is joined no more.
    let changed = CLIENT.replace("tap = \"p1\"", "tap = \"p1\"\nmtu = 1400");
    stand.add_client(&changed).unwrap();
    stand.until("it is declared anew", |_| heard(at, "p1").is_some_and(|p| p["mtu"] == 1400));
    assert_ne!(heard(at, "p1").unwrap()["number"], p1["number"]);

    // Another process is told all, and so is that of another manager.
    says_joined(at, "p1", "p2");
    stand.until("the verdict is heard", |s| joined(s, 2));
    std::fs::remove_file(at.join("word")).unwrap();
    kill(child(stand.pid(), "vfun-links").expect("it runs"));
    stand.until("it is told all", |_| lives(at) == 2 && heard(at, "p2").is_some());
    assert!(stand.log().contains("process that watches switches ended"));
    stand.kill_vfund();
    stand.start_vfund();
    stand.until("it is told all", |_| lives(at) == 3 && heard(at, "p2").is_some());
    stand
        .add_client(&CLIENT.replace(
            "[vm.a.ports.eth1]\nway = \"dpdk\"\ntap = \"p1\"\nswitch = \"br0\"\n",
            "[vm.a]\n",
        ))
        .unwrap();
    stand.until("one is gone", |_| heard(at, "p1") == Some(Value::Null));
}

#[test]
fn a_watcher_that_speaks_nonsense_is_ended_and_shown() {
    let place = place(WATCHER);
    let (at, vfund) = (place.path(), place.path().join("vfund"));
    let stand = Stand::of(&vfund, &["--links"], &[]);
    stand.add_client(CLIENT).unwrap();
    stand.until("it is told", |_| heard(at, "p2").is_some());
    say(at, "no word");
    stand.until("it is ended", |s| s.log().contains("it sent what is no word of it"));
    let trouble = |s: &Stand| s.status().troubles.iter().any(|t| t.contains("vfun-links"));
    stand.until("status says so", trouble);
    std::fs::remove_file(at.join("word")).unwrap();
    stand.until("it runs again", |s| !trouble(s) && heard(at, "p1").is_some());
    // p4 is not watched: that word is only too late, and heard before the next one.
    let before = said(at);
    says_joined(at, "p1", "p4");
    stand.until("it is said", |_| said(at) > before);
    says_joined(at, "p1", "p1");
    stand.until("it is ended", |s| s.log().contains("it joins p1 to p1, which no bridge does"));
    // One that is gone from the disk is said at a manager's start.
    drop(stand);
    std::fs::remove_file(at.join("vfun-links")).unwrap();
    let out = Command::new(vfund)
        .args(["--check", "--links", "--root"])
        .arg(at.join("root"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.code() == Some(2) && said.contains("vfun-links"), "{said}");
}

/// A stock Open vSwitch with a datapath that moves no frames.
struct Switch {
    programs: PathBuf,
    folder: tempfile::TempDir,
    running: Vec<Child>,
}

impl Switch {
    fn start(programs: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut switch = Switch { programs, folder, running: vec![] };
        let (file, socket) = (switch.at("conf.db"), switch.at("db.sock"));
        let schema = switch.programs.join("vswitch.ovsschema").display().to_string();
        switch.run("ovsdb-tool", &["create", &file, &schema]);
        switch.begin("ovsdb-server", &[&file, &format!("--remote=punix:{socket}")], "db.sock");
        let pidfile = format!("--pidfile={}", switch.at("ovs-vswitchd.pid"));
        let words = [&*format!("unix:{socket}"), &pidfile, "--enable-dummy", "--disable-system"];
        switch.begin("ovs-vswitchd", &words, "ovs-vswitchd.pid");
        switch.vsctl("add-br br0 -- set Bridge br0 datapath_type=dummy fail_mode=secure");
        for n in 1..=2 {
            switch.vsctl(&format!(
                "add-port br0 p{n} -- set Interface p{n} type=dummy ofport_request={n}"
            ));
        }
        switch
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join(program));
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, self.folder.path());
        }
        command.args(words).stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, words: &[&str]) {
        let out = self.command(program, words).output().unwrap();
        assert!(
            out.status.success(),
            "{program} {words:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }

    /// Starts a program, and waits for the file by which it shows that it runs.
    fn begin(&mut self, program: &str, words: &[&str], shows: &str) {
        let mut command = self.command(program, words);
        self.running.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let until = Instant::now() + Duration::from_secs(60);
        while !Path::new(&self.at(shows)).exists() {
            assert!(Instant::now() < until, "{program} does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn vsctl(&self, words: &str) {
        let db = format!("--db=unix:{}", self.at("db.sock"));
        self.run(
            "ovs-vsctl",
            &[&*db, "--timeout=60"].into_iter().chain(words.split(' ')).collect::<Vec<_>>(),
        );
    }

    fn ofctl(&self, words: &str) {
        self.run("ovs-ofctl", &words.split(' ').collect::<Vec<_>>());
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for child in self.running.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_verdict_of_a_stock_open_vswitch_reaches_the_manager() {
    let Some(ovs) = std::env::var_os("VFUN_OVS_DIR").map(PathBuf::from) else {
        eprintln!("skipped: VFUN_OVS_DIR is not set; packaging/ovs-dpdk.sh prints the folder");
        return;
    };
    let switch = Switch::start(ovs);
    let place = place(BETWEEN);
    placed::copy(&programs().join("vfun-links"), &place.path().join("real-links"));
    let folder = switch.folder.path().display().to_string();
    let stand = Stand::of(&place.path().join("vfund"), &["--links"], &[("OVS_RUNDIR", &*folder)]);
    stand.add_client(CLIENT).unwrap();
    let count = |s: &Stand, words: &str| s.log().matches(words).count();
    let (joined, needs) =
        ("port p1: the switch sends all its frames to p2", "port p1: its frames need the switch");
    switch.ofctl("add-flow br0 in_port=1,actions=output:2");
    stand.until("the rule is heard of", |s| count(s, joined) == 1);
    assert_eq!(count(&stand, "port p2: the switch sends"), 0, "the way back has no rule");
    switch.ofctl("add-flow br0 in_port=1,actions=output:2,output:3");
    stand.until("the change is heard of", |s| count(s, needs) >= 1);
    switch.ofctl("add-flow br0 in_port=1,actions=output:2");
    stand.until("it is joined again", |s| count(s, joined) == 2);
    // The switch is gone, with all that is known.
    let before = count(&stand, needs);
    drop(switch);
    stand.until("the end is heard of", |s| count(s, needs) > before);
}
