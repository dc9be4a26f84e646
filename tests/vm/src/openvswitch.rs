//! An Open vSwitch of the test's own, with DPDK or without: packaging/ovs-dpdk.sh unpacks it, nothing is
//! installed.

use crate::flow::HOST;
use crate::module::until;
use crate::netns::ip;
use crate::nics::{BRIDGE_MAC, Net, tap_mac};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Memory of DPDK, MiB: the packets of four ports and some, and what another one wants.
const MEMORY_MIB: u32 = 384;
const PORT_MIB: u32 = 80;
/// The processor that it polls on, without a pause: that makes it fast. Its other threads and the
/// VMs share what is left.
const POLLS_ON: u32 = 1;

/// Its programs, where tests/ovs.sh says so.
pub fn programs() -> Option<PathBuf> {
    std::env::var_os("VFUN_OVS_DIR").map(PathBuf::from)
}

/// A running one. It ends with this.
pub struct OpenVSwitch {
    programs: PathBuf,
    folder: PathBuf,
    running: Vec<Child>,
}

impl OpenVSwitch {
    /// Starts its database, with all files in a folder.
    fn begin(programs: PathBuf, folder: &Path) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let mut switch = OpenVSwitch { programs, folder: folder.to_owned(), running: vec![] };
        let database = switch.path("conf.db");
        let schema = switch.programs.join("vswitch.ovsschema");
        switch.succeeds("ovsdb-tool", &["create", &database, schema.to_str().unwrap()]);
        let socket = switch.path("db.sock");
        switch.runs("ovsdb-server", &[&database, &format!("--remote=punix:{socket}")]);
        until("ovsdb-server listens", || Path::new(&socket).exists());
        switch.vsctl("--no-wait init");
        switch
    }

    /// Starts one without DPDK, with its files in a folder: its ports are interfaces of the kernel.
    pub fn start_plain(programs: PathBuf, folder: &Path) -> Self {
        let mut switch = OpenVSwitch::begin(programs, folder);
        switch.start_switch();
        switch
    }

    /// The switch itself.
    fn start_switch(&mut self) {
        let pid = format!("--pidfile={}", self.path("ovs-vswitchd.pid"));
        let socket = format!("unix:{}", self.path("db.sock"));
        self.runs("ovs-vswitchd", &[&socket, &pid]);
    }

    /// Kills the switch without a word, and starts another one with the same database.
    pub fn kill_and_start(&mut self) {
        let mut switch = self.running.pop().expect("it runs");
        switch.kill().unwrap();
        switch.wait().unwrap();
        self.start_switch();
    }

    /// Starts one with DPDK, with its files in a folder.
    pub fn start(programs: PathBuf, folder: &Path) -> Self {
        OpenVSwitch::start_with(programs, folder, &[], 0)
    }

    /// The same with more drivers, and with memory for so many further ports.
    pub fn start_with(programs: PathBuf, folder: &Path, more: &[&Path], ports: u32) -> Self {
        let mut switch = OpenVSwitch::begin(programs, folder);
        let driver = std::fs::read_dir(switch.programs.join("drivers")).unwrap().flatten();
        let drivers = driver.map(|d| d.path()).chain(more.iter().map(|d| d.to_path_buf()));
        let drivers: Vec<String> = drivers.map(|d| format!("-d {}", d.display())).collect();
        let dpdk = format!(
            "--no-huge -m {} --no-pci --no-telemetry --legacy-mem --no-shconf {}",
            MEMORY_MIB + ports * PORT_MIB,
            drivers.join(" ")
        );
        let set = "--no-wait set Open_vSwitch .";
        switch.vsctl(&format!("{set} other_config:dpdk-init=true"));
        switch.vsctl(&format!("{set} other_config:pmd-cpu-mask={:#x}", 1 << POLLS_ON));
        // Else it wants room for 262,144 packets at once; without it, it moves none and says
        // so in its log only.
        switch.vsctl(&format!("{set} other_config:per-port-memory=true"));
        let words = ["--no-wait", "set", "Open_vSwitch", "."];
        let dpdk = format!("other_config:dpdk-extra=\"{dpdk}\"");
        switch.vsctl_words(&[&words[..], &[&dpdk]].concat());
        switch.start_switch();
        switch
    }

    /// A bridge with an address of the host's, and a tap for each VM.
    pub fn network(&self, vms: u8) {
        // What comes in by a tap goes to the host's kernel as well as to the switch, and the
        // kernel would answer for the host's address with the tap's.
        std::fs::write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1").unwrap();
        let bridge = Net::Switch.bridge();
        self.vsctl(&format!("add-br {bridge} -- set Bridge {bridge} datapath_type=netdev"));
        // The host's own interface is polled, as a card would be.
        self.vsctl(&format!("add-port {bridge} uplink -- set Interface uplink type=dpdk options:dpdk-devargs=net_tap0,iface=br0 options:n_rxq=2"));
        ip(&format!("link set br0 address {BRIDGE_MAC}"));
        ip(&format!("addr add {HOST}/24 dev br0"));
        ip("link set br0 up");
        for n in 0..vms {
            self.tap(&format!("pv{n}"), &tap_mac(n));
        }
    }

    /// One more tap in the bridge.
    pub fn tap(&self, name: &str, mac: &str) {
        ip(&format!("tuntap add {name} mode tap"));
        ip(&format!("link set {name} address {mac} up"));
        self.vsctl(&format!("add-port {} {name}", Net::Switch.bridge()));
    }

    /// From now on it looks through its cache of flows only so often: only then does it learn from
    /// packets that match one of them. A busy switch does so by itself.
    pub fn learns_each(&self, time: Duration) {
        let ms = time.as_millis();
        self.vsctl(&format!("set Open_vSwitch . other_config:max-revalidator={ms}"));
    }

    /// Where its sockets are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().expect("UTF-8").to_owned()
    }

    /// What the bridge says to a question in OpenFlow.
    pub fn ofctl(&self, question: &str, bridge: &str, words: &[&str]) -> String {
        let bridge = format!("unix:{}", self.path(&format!("{bridge}.mgmt")));
        self.succeeds("ovs-ofctl", &[&[question, &*bridge], words].concat())
    }

    /// What the switch itself says.
    pub fn appctl(&self, words: &str) -> String {
        self.succeeds("ovs-appctl", &words.split_whitespace().collect::<Vec<_>>())
    }

    /// The switch's process.
    pub fn pid(&self) -> u32 {
        let file = std::fs::read_to_string(self.path("ovs-vswitchd.pid")).expect("it runs");
        file.trim().parse().expect("a number")
    }

    pub fn vsctl(&self, words: &str) -> String {
        self.vsctl_words(&words.split_whitespace().collect::<Vec<_>>())
    }

    fn vsctl_words(&self, words: &[&str]) -> String {
        let db = format!("--db=unix:{}", self.path("db.sock"));
        self.succeeds("ovs-vsctl", &[&[&*db, "--timeout=60"], words].concat())
    }

    /// What it wrote into its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("ovs-vswitchd.log")).unwrap_or_default()
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.args(words);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, &self.folder);
        }
        command
    }

    fn succeeds(&self, program: &str, words: &[&str]) -> String {
        let said = self.tries(program, words);
        said.unwrap_or_else(|e| panic!("{program} {words:?}: {e}\n{}", self.log()))
    }

    /// What one of its programs says, or what it complains of.
    fn tries(&self, program: &str, words: &[&str]) -> Result<String, String> {
        let out = self.command(program, words).output().unwrap();
        let said = if out.status.success() { out.stdout } else { out.stderr };
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        if out.status.success() { Ok(said) } else { Err(said) }
    }

    /// A command as operators write it: `v` and words for ovs-vsctl, `f` and a question in OpenFlow 1.4 about a
    /// bridge, `a` and words for ovs-appctl. What it complains of is no failure here.
    pub fn tries_line(&self, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split(' ').collect();
        let (db, bridge);
        match words[..] {
            ["v", ref rest @ ..] => {
                db = format!("--db=unix:{}", self.path("db.sock"));
                self.tries("ovs-vsctl", &[&[&*db, "--timeout=60"], rest].concat())
            }
            ["f", question, name, ref rest @ ..] => {
                bridge = format!("unix:{}", self.path(&format!("{name}.mgmt")));
                let begin = ["-O", "OpenFlow14", question, &*bridge];
                self.tries("ovs-ofctl", &[&begin, rest].concat())
            }
            ["a", ref rest @ ..] => self.tries("ovs-appctl", rest),
            _ => panic!("{line}"),
        }
    }

    fn runs(&mut self, program: &str, words: &[&str]) {
        let log = std::fs::File::create(self.path(&format!("{program}.log"))).unwrap();
        let child = self
            .command(program, words)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.running.push(child.unwrap());
    }
}

impl Drop for OpenVSwitch {
    fn drop(&mut self) {
        for child in self.running.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
