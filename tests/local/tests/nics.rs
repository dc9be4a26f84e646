//! Network VFs, without a guest and without a card: apps that stand for the agents of VMs,
//! and a script that stands for the process that lends VFs. What each says reaches the
//! other, whatever is started anew between them.

use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use vfun::{Function, FunctionRequest, Pending, Session};
use vfun_admin::{Ask, Reply};
use vfun_bond::{Call, Mode, Order, Path as Way, Report};
use vfun_tests_local::vm::device;
use vfun_tests_local::{Stand, placed};

/// Writes each packet into a file as a line, and sends the packet that it finds in
/// another file, whenever that is another one.
const ALLOCATOR: &str = r#"#!/usr/bin/python3
import os, socket, sys
root = sys.argv[sys.argv.index("--root") + 1]
assert sys.argv[-1] == "--until-stdin-closes", sys.argv
sock = socket.socket(fileno=0)
assert sock.type == socket.SOCK_SEQPACKET, sock
sock.settimeout(0.02)
heard = open(root + "/heard", "a")
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
        order = open(root + "/order").read()
    except FileNotFoundError:
        continue
    if order != sent:
        sock.send(order.encode())
    sent = order
"#;

/// A manager that lends VFs, by the script; and where its programs are.
fn lends() -> (Stand, tempfile::TempDir) {
    let place = placed::manager("vfun-nics", ALLOCATOR);
    let stand = Stand::of(&place.path().join("vfund"), &["--nics"], &[]);
    stand
        .add_client("name = \"web\"\nwindow = \"1 MiB\"\ntransport = \"ivshmem-plain\"\n")
        .unwrap();
    (stand, place)
}

/// An app in the VM of the client `web`, with a window that it reaches by itself.
fn app(stand: &Stand, name: &str) -> (Session, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    device(folder.path(), &stand.root().join("virtfun-web"));
    let options = vfun::ConnectOptions::new(name).endpoint(vfun::Endpoint::Ivshmem(None));
    (options.pci_devices(folder.path()).connect().unwrap(), folder)
}

fn request() -> FunctionRequest {
    FunctionRequest::new(vfun_bond::FUNCTION).depth(4).cell_bytes(1024)
}

fn bond(session: &Session) -> Function {
    session.negotiate(&request()).unwrap().activate().unwrap()
}

fn report(n: u64) -> Report {
    Report {
        order: 0,
        agent: "0.1.0".into(),
        bond: "bond0".into(),
        mode: Mode::Bond,
        mac: "02:00:00:00:00:01".into(),
        path: Some(Way::Paravirtual),
        vf: None,
        packets: n,
        latency_us: None,
        trouble: None,
    }
}

fn tell(bond: &Function, n: u64) {
    bond.call(&Call::Tell(report(n)).to_bytes()).unwrap();
}

/// Asks for an order of another number.
fn ask(bond: &Function, have: u64) -> Pending<'_> {
    bond.submit(&Call::Next { have }.to_bytes()).unwrap()
}

/// The number of the order by which a call is answered.
fn number(mut call: Pending<'_>) -> u64 {
    let bytes = call.wait_for(Duration::from_secs(60)).unwrap();
    Order::from_bytes(&bytes).unwrap().number
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// What the script's present life heard last of the VM.
fn heard(stand: &Stand) -> Option<Value> {
    let all = lines(&stand.root().join("heard"));
    let life = all.rsplit(|line| line == "began").next()?;
    let mut of_vm = life.iter().rev().filter(|line| line["vm"].to_string().contains("web"));
    of_vm.next().cloned()
}

/// Waits until the script knows of this many packets, and says which agent it is.
fn knows(stand: &Stand, packets: u64) -> u64 {
    let of = |s: &Stand| {
        let agent = heard(s)?["agent"].clone();
        (agent["report"]["packets"] == packets).then(|| agent["id"].as_u64().expect("a number"))
    };
    stand.until("the report is there", |s| of(s).is_some());
    of(stand).expect("it stays")
}

/// The script orders this of the VM's agent.
fn order(stand: &Stand, agent: u64, number: u64) {
    let vm = heard(stand).expect("a VM")["vm"].clone();
    let order = Order { number, path: Way::Vf, report_ms: 1000 };
    let packet = serde_json::json!({ "vm": vm, "agent": agent, "order": order });
    send(stand, &packet.to_string());
}

/// The script sends this packet.
fn send(stand: &Stand, packet: &str) {
    let (new, file) = (stand.root().join("order.new"), stand.root().join("order"));
    std::fs::write(&new, packet).unwrap();
    // It must not see half of it.
    std::fs::rename(new, file).unwrap();
}

/// Lives of the script so far.
fn lives(stand: &Stand) -> usize {
    lines(&stand.root().join("heard")).iter().filter(|line| *line == "began").count()
}

pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// The process of this name that a process started.
pub(crate) fn child(of: u32, name: &str) -> Option<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((before, after)) = stat.rsplit_once(") ") else { return false };
        let parent = after.split(' ').nth(1).and_then(|p| p.parse().ok());
        before.ends_with(name) && parent == Some(of)
    })
}

#[test]
fn orders_and_reports_pass_whatever_is_started_anew() {
    let (mut stand, _place) = lends();
    let (session, _folder) = app(&stand, "agent");
    let bond = bond(&session);
    tell(&bond, 1);
    let agent = knows(&stand, 1);
    order(&stand, agent, 7);
    assert_eq!(number(ask(&bond, 0)), 7);

    // Another service: it is told the order.
    kill(bond.stats().unwrap().pid);
    assert_eq!(number(ask(&bond, 1)), 7, "told anew");
    tell(&bond, 2);
    assert_eq!(knows(&stand, 2), agent);

    // Another process that lends VFs: it is told all, and its order is what holds.
    let waits = ask(&bond, 7);
    kill(child(stand.pid(), "vfun-nics").expect("it runs"));
    stand.until("it is started again", |s| lives(s) == 2);
    assert!(stand.log().contains("process that lends network VFs ended"));
    assert_eq!(knows(&stand, 2), agent);
    order(&stand, agent, 8);
    assert_eq!(number(waits), 8);

    // Another manager: the same agent, its report, and orders.
    let waits = ask(&bond, 8);
    stand.kill_vfund();
    stand.start_vfund();
    stand.until("it is started again", |s| lives(s) == 3);
    assert_eq!(knows(&stand, 2), agent);
    order(&stand, agent, 9);
    assert_eq!(number(waits), 9);

    // The agent goes, and another one is another.
    bond.release().unwrap();
    drop(session);
    stand.until("no agent", |s| heard(s).is_some_and(|h| h["agent"].is_null()));
    let (session, _folder) = app(&stand, "agent");
    let bond = self::bond(&session);
    tell(&bond, 3);
    assert_ne!(knows(&stand, 3), agent);
}

#[test]
fn one_app_of_a_vm_has_it_and_programs_on_the_host_do_not() {
    let (stand, _place) = lends();
    let (first, _a) = app(&stand, "agent");
    let (second, _b) = app(&stand, "second");
    let _bond = bond(&first);
    let e = second.negotiate(&request()).err().expect("refused").to_string();
    assert!(e.contains("the app 'agent' of this VM has it"), "{e}");
    stand.until("it is shown", |s| s.log().contains("the app 'second' in VM web was refused"));
    let host = stand.connect("host");
    let e = host.negotiate(&request()).err().expect("refused").to_string();
    assert!(e.contains("only a program with CAP_NET_ADMIN"), "{e}");
}

#[test]
fn a_process_that_speaks_nonsense_is_ended_and_shown() {
    let (stand, place) = lends();
    stand.until("it runs", |s| lives(s) == 1);
    send(&stand, "no order");
    stand.until("it is ended", |s| s.log().contains("it sent what is no order"));
    let trouble = |s: &Stand| s.status().troubles.iter().any(|t| t.contains("vfun-nics"));
    stand.until("status says so", trouble);
    std::fs::remove_file(stand.root().join("order")).unwrap();
    stand.until("it runs again", |s| !trouble(s));
    // One that is gone from the disk is said at a manager's start.
    drop(stand);
    std::fs::remove_file(place.path().join("vfun-nics")).unwrap();
    let out = std::process::Command::new(place.path().join("vfund"))
        .args(["--check", "--nics", "--root"])
        .arg(place.path().join("root"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.code() == Some(2) && said.contains("vfun-nics"), "{said}");
}

#[test]
fn what_manifests_declare_is_passed_on_whatever_is_started_anew() {
    let (mut stand, _place) = lends();
    let client = |nics: &str| {
        format!("name = \"web\"\nwindow = \"1 MiB\"\ntransport = \"ivshmem-plain\"\n{nics}")
    };
    let nics = |tap: &str| {
        format!(
            "[nics]\npool = \"cards\"\nbridge = \"br0\"\ntap = \"{tap}\"\nmac = \"02:00:00:00:00:01\"\nexternal = true\n"
        )
    };
    let tap = |s: &Stand| -> Value {
        let all = lines(&s.root().join("heard"));
        let last = all.iter().rev().find(|line| line["vm"]["vm"] == "web");
        last.map(|line| line["declared"]["tap"].clone()).unwrap_or_default()
    };
    stand.add_client(&client(&nics("t1"))).unwrap();
    stand.until("it is passed on", |s| tap(s) == "t1");
    let e = stand.add_client(&client(&nics("a/b"))).unwrap_err().to_string();
    assert!(e.contains("nics: tap") && e.contains(":7"), "{e}");
    stand.add_client(&client(&nics("t2"))).unwrap();
    stand.until("the change is passed on", |s| tap(s) == "t2");
    stand.kill_vfund();
    stand.start_vfund();
    let all_told = |s: &Stand| {
        let all = lines(&s.root().join("heard"));
        let life = all.rsplit(|line| line == "began").next().unwrap_or_default();
        life.last().is_some_and(|line| *line == serde_json::json!({ "vms": 1 }))
    };
    stand.until("all is told anew", |s| lives(s) == 2 && tap(s) == "t2" && all_told(s));
    // With one more VM the lines are those of the first one.
    let (client_name, vm) = ("web".to_owned(), "b".to_owned());
    let more = Ask::AddVm { client: client_name, vm, window: None, transport: None };
    assert!(matches!(stand.ask(&more), Reply::ClientAdded(_)));
    stand.add_client(&client("")).unwrap();
    stand.until("the lines are gone", |s| tap(s).is_null());
}

#[test]
fn without_the_option_there_is_no_such_function() {
    let stand = Stand::start();
    let all = stand.manager().functions().unwrap();
    assert!(all.iter().all(|f| f.name != vfun_bond::FUNCTION));
}
