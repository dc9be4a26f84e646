//! The program between a stock Open vSwitch (packaging/ovs-dpdk.sh, with the dummy datapath) and a
//! controller made with os-ken (packaging/os-ken.sh). The manager is played: what went past the switch is
//! what this test says.

use crate::played::{ManagerPlayed, PATIENCE, manager, now_ms, until};
use crate::switch::{Switch, end, programs};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use vfun_admin::links::FlowRow;
use vfun_tests_local::{Issuer, Pair};

/// os-ken's Python, where the one who runs the tests says so.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("VFUN_OSKEN").map(PathBuf::from);
    if python.is_none() {
        eprintln!("skipped: VFUN_OSKEN is not set; packaging/os-ken.sh prints the Python");
    }
    python
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The controller, and what it says.
struct Controller {
    child: Child,
    orders: ChildStdin,
    said: Receiver<Value>,
}

impl Controller {
    fn start(python: &PathBuf, port: u16, version: &str, tls: Option<(&Issuer, &Pair)>) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proxy/controller.py");
        let mut command = Command::new(python);
        command.arg(script).arg(port.to_string()).arg(version);
        if let Some((issuer, pair)) = tls {
            command.args([&pair.key, &pair.cert, &issuer.file]);
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python starts");
        let (orders, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (says, said) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if says.send(serde_json::from_str(&line).expect(&line)).is_err() {
                    return;
                }
            }
        });
        Controller { child, orders, said }
    }

    fn order(&mut self, word: &str) {
        writeln!(self.orders, "{word}").unwrap();
    }

    /// What it says next of this.
    fn hears(&self, what: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let said = self.said.recv_timeout(left).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(said["error"].is_null(), "{said}");
            if let Some(of) = said.get(what) {
                return if what == "flows" { of.clone() } else { said };
            }
        }
    }

    /// The packets and bytes of the rule with this priority.
    fn counts(&mut self, priority: u16) -> (u64, u64) {
        self.order("flows");
        let all = self.hears("flows");
        let rule = all.as_array().unwrap().iter().find(|rule| rule["priority"] == priority);
        let rule = rule.unwrap_or_else(|| panic!("no rule {priority}: {all}"));
        (rule["packets"].as_u64().unwrap(), rule["bytes"].as_u64().unwrap())
    }
}

/// All of them.
struct Rig {
    switch: Switch,
    proxy: Child,
    controller: Controller,
    said: Arc<Mutex<ManagerPlayed>>,
    /// When the rule of port 1 was made.
    made: (u64, u64),
    _folder: tempfile::TempDir,
}

impl Rig {
    /// Nothing where programs are missing.
    fn start(version: &str, tls: bool) -> Option<Rig> {
        let (programs, python) = (programs()?, python()?);
        let folder = tempfile::tempdir().unwrap();
        let switch = Switch::start(programs);
        switch.vsctl(&format!("set Bridge br0 protocols=OpenFlow{version},OpenFlow14"));
        let socket = folder.path().join("admin.sock");
        let said = manager(&socket);
        let (to_proxy, to_controller) = (free_port(), free_port());
        let issuer = Issuer::new(folder.path(), "issuer");
        let pair = |name| issuer.issue(folder.path(), name, &["127.0.0.1"]);
        let [switchs, proxys, controllers] = ["switch", "proxy", "controller"].map(pair);
        let own = tls.then_some((&issuer, &controllers));
        let controller = Controller::start(&python, to_controller, version, own);
        let way = if tls { "tls" } else { "tcp" };
        let mut proxy = Command::new(env!("CARGO_BIN_EXE_vfun-links-proxy"));
        proxy.args(["--bridge", "br0", "--strict", "--socket"]).arg(&socket);
        proxy.args(["--listen", &format!("{way}:127.0.0.1:{to_proxy}")]);
        proxy.args(["--controller", &format!("{way}:127.0.0.1:{to_controller}")]);
        if tls {
            proxy.arg("--tls-cert").arg(&proxys.cert).arg("--tls-key").arg(&proxys.key);
            proxy.arg("--tls-client-ca").arg(&issuer.file).arg("--controller-ca").arg(&issuer.file);
            proxy
                .arg("--controller-cert")
                .arg(&proxys.cert)
                .arg("--controller-key")
                .arg(&proxys.key);
            let [key, cert, ca] = [&switchs.key, &switchs.cert, &issuer.file];
            switch.vsctl(&format!("set-ssl {} {} {}", key.display(), cert.display(), ca.display()));
        }
        let proxy = proxy.spawn().unwrap();
        let way = if tls { "ssl" } else { "tcp" };
        switch.vsctl(&format!("set-controller br0 {way}:127.0.0.1:{to_proxy}"));
        controller.hears("connected");
        // The switch throws all rules away when it gets its first controller.
        switch.ofctl("del-flows br0");
        let before = now_ms();
        switch.ofctl("add-flow br0 cookie=0x1234,priority=4321,in_port=1,actions=output:2");
        let made = (before, now_ms());
        switch.ofctl("add-flow br0 priority=7,ip,actions=output:3");
        Some(Rig { switch, proxy, controller, said, made, _folder: folder })
    }

    /// A frame comes in by a port.
    fn frame(&self, port: u16) {
        let words = format!(
            "netdev-dummy/receive p{port} in_port({port}),eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:07),eth_type(0x1234)"
        );
        self.switch.appctl(&words);
    }

    fn past(&self, priority: u16, in_port: u32, cookie: u64, made: (u64, u64), frames: u64) {
        let row = FlowRow {
            bridge: "br0".into(),
            table: 0,
            priority,
            cookie,
            in_port: Some(in_port),
            made,
            frames,
            bytes: 60 * frames,
            ports: vec![],
        };
        self.said.lock().unwrap().rows.push(row);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        end(&mut self.proxy);
        end(&mut self.controller.child);
    }
}

/// Frames by the switch, frames past it, and what a controller hears of both.
fn a_controller_hears_of_all_frames(version: &str, tls: bool) {
    let Some(mut rig) = Rig::start(version, tls) else { return };
    (0..2).for_each(|_| rig.frame(1));
    // The switch adds its datapath's counts each second.
    let begin = Instant::now();
    while rig.controller.counts(4321).0 < 2 {
        assert!(begin.elapsed() < PATIENCE, "the switch counts no frame");
    }
    assert_eq!(rig.controller.counts(4321), (2, 28));
    rig.past(4321, 1, 0x1234, rig.made, 1000);
    assert_eq!(rig.controller.counts(4321), (1002, 60_028));
    assert_eq!(rig.controller.counts(7), (0, 0));
    rig.controller.order("sum");
    let sum = rig.controller.hears("packets");
    assert_eq!((&sum["packets"], &sum["bytes"]), (&1002.into(), &60_028.into()), "{sum}");
    assert_eq!(sum["flows_counted"], 2);
    // A change of rules waits until links have come back, and so does what is behind it.
    rig.said.lock().unwrap().direct = 3;
    let before = now_ms();
    rig.controller.order("add");
    rig.controller.order("barrier");
    rig.controller.hears("barrier");
    assert_eq!(rig.said.lock().unwrap().direct, 0);
    // It ends, with all that went past it.
    rig.past(55, 3, 0x99, (before, now_ms()), 500);
    (0..3).for_each(|_| rig.frame(3));
    let begin = Instant::now();
    while rig.controller.counts(55).0 < 503 {
        assert!(begin.elapsed() < PATIENCE, "the switch counts no frame");
    }
    rig.controller.order("remove");
    let removed = rig.controller.hears("removed")["removed"].clone();
    let counts = (removed["packets"].as_u64(), removed["bytes"].as_u64());
    assert_eq!(counts, (Some(503), Some(3 * 14 + 500 * 60)), "{removed}");
    // In the place of a rule comes the same one. The switch goes on with its counts, or not: that is not
    // known, and so they are not changed.
    rig.switch.ofctl("add-flow br0 cookie=0x1234,priority=4321,in_port=1,actions=output:2");
    assert_eq!(rig.controller.counts(4321), (2, 28));
    rig.switch
        .ofctl("add-flow br0 reset_counts,cookie=0x1234,priority=4321,in_port=1,actions=output:2");
    assert_eq!(rig.controller.counts(4321), (0, 0));
    let uncorrected = || rig.said.lock().unwrap().proxies.last().map(|row| row.uncorrected);
    until("both are counted", || uncorrected() == Some(2));
    // The proxy dies: the connections end, and nothing else.
    end(&mut rig.proxy);
    rig.frame(1);
    let rules = || rig.switch.ofctl_of("OpenFlow14", "dump-flows br0");
    until("the switch goes on", || rules().contains("priority=4321,in_port=1 actions=output:2"));
}

#[test]
fn by_openflow_1_3() {
    a_controller_hears_of_all_frames("13", false);
}

#[test]
fn by_openflow_1_0() {
    a_controller_hears_of_all_frames("10", false);
}

#[test]
fn by_tls_on_both_sides() {
    a_controller_hears_of_all_frames("13", true);
}
