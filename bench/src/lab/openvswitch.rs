//! An Open vSwitch with DPDK of this program's own: its files are in a folder that goes with it.

use crate::error::Doing;
use crate::{BenchError, Result};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The bridge.
const BRIDGE: &str = "vfunbench";
/// Memory of DPDK, MiB: the packets of two ports and some.
const MEMORY_MIB: u32 = 384;
/// How long a program may take until it answers.
const COMES_UP: Duration = Duration::from_secs(20);

/// A running one. It ends when it is dropped.
pub struct OpenVSwitch {
    programs: PathBuf,
    folder: TempDir,
    running: Vec<Child>,
}

/// The folder of its programs, where this process's own path finds them.
pub fn openvswitch() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).find(|folder| folder.join("ovs-vswitchd").is_file())
}

fn failed(why: impl std::fmt::Display) -> BenchError {
    BenchError::Switch(why.to_string())
}

impl OpenVSwitch {
    /// Starts one that has the driver of ports, and polls on one processor: a pause between two
    /// looks that find nothing, so that ports without frames cost little.
    ///
    /// # Errors
    /// [`BenchError::Switch`]: it does not start, with its own words.
    pub fn start(programs: &Path, driver: &Path, polls_on: usize) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("vfun-bench-").tempdir();
        let folder = folder.doing(|| "cannot make a folder for Open vSwitch".into())?;
        let mut switch = OpenVSwitch { programs: programs.into(), folder, running: Vec::new() };
        switch.database()?;
        let unpacked = std::fs::read_dir(programs.join("drivers")).into_iter().flatten().flatten();
        let drivers = unpacked.map(|d| d.path()).chain([driver.to_owned()]);
        let drivers: String = drivers.map(|d| format!(" -d {}", d.display())).collect();
        let dpdk = format!(
            "other_config:dpdk-extra=\"--no-huge -m {MEMORY_MIB} --no-pci --no-telemetry --legacy-mem --no-shconf{drivers}\""
        );
        let mask = format!("other_config:pmd-cpu-mask={:#x}", 1_u128 << polls_on);
        for setting in [
            "other_config:dpdk-init=true",
            "other_config:per-port-memory=true",
            "other_config:pmd-maxsleep=100",
            &mask,
            &dpdk,
        ] {
            switch.vsctl(&["--no-wait", "set", "Open_vSwitch", ".", setting])?;
        }
        let (database, pid) = (format!("unix:{}", switch.path("db.sock")), switch.path("ovs.pid"));
        switch.run("ovs-vswitchd", &[&database, &format!("--pidfile={pid}")])?;
        let bridge = ["add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "datapath_type=netdev"];
        switch.vsctl(&bridge)?;
        Ok(switch)
    }

    /// Its database, empty.
    fn database(&mut self) -> Result<()> {
        let file = self.path("conf.db");
        let beside = self.programs.join("vswitch.ovsschema");
        let installed = PathBuf::from("/usr/share/openvswitch/vswitch.ovsschema");
        let schema = if beside.is_file() { beside } else { installed };
        self.succeeds("ovsdb-tool", &["create", &file, &schema.display().to_string()])?;
        let socket = self.path("db.sock");
        self.run("ovsdb-server", &[&file, &format!("--remote=punix:{socket}")])?;
        let until = Instant::now() + COMES_UP;
        while !Path::new(&socket).exists() {
            if Instant::now() > until {
                return Err(failed(format!("ovsdb-server does not start: {}", self.log())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.vsctl(&["--no-wait", "init"])
    }

    /// Two ports, and rules that send all frames of the one to the other, both ways. Those before are gone.
    ///
    /// # Errors
    /// [`BenchError::Switch`]: it has none of them, with its own words.
    pub fn join(&self, devices: &[String; 2]) -> Result<()> {
        for (port, device) in ["p0", "p1"].into_iter().zip(devices) {
            let _ = self.vsctl(&["--if-exists", "del-port", BRIDGE, port]);
            let device = format!("options:dpdk-devargs=\"{device}\"");
            let set = ["--", "set", "Interface", port, "type=dpdk", &device];
            self.vsctl(&[&["add-port", BRIDGE, port][..], &set].concat())?;
        }
        let bridge = format!("unix:{}", self.path(&format!("{BRIDGE}.mgmt")));
        self.succeeds("ovs-ofctl", &["del-flows", &bridge])?;
        for (from, to) in [("p0", "p1"), ("p1", "p0")] {
            let rule = format!("in_port={from},actions=output:{to}");
            self.succeeds("ovs-ofctl", &["add-flow", &bridge, &rule])
                .map_err(|e| failed(format!("{e}: {}", self.log())))?;
        }
        Ok(())
    }

    /// The switch's process.
    pub fn id(&self) -> Option<u32> {
        self.running.last().map(Child::id)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn vsctl(&self, words: &[&str]) -> Result<()> {
        let database = format!("--db=unix:{}", self.path("db.sock"));
        let timeout = format!("--timeout={}", COMES_UP.as_secs());
        self.succeeds("ovs-vsctl", &[&[&*database, &*timeout], words].concat())
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.args(words).stdin(Stdio::null());
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, self.folder.path());
        }
        command
    }

    fn succeeds(&self, program: &str, words: &[&str]) -> Result<()> {
        let out = self.command(program, words).output();
        let out = out.doing(|| format!("cannot start {program}"))?;
        if out.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&out.stderr);
        Err(failed(said.trim().lines().last().unwrap_or(program)))
    }

    fn run(&mut self, program: &str, words: &[&str]) -> Result<()> {
        let log = std::fs::File::options().create(true).append(true).open(self.path("log"));
        let log = log.doing(|| "cannot write the log of Open vSwitch".into())?;
        let also = log.try_clone().doing(|| "cannot write the log of Open vSwitch".into())?;
        let child = self.command(program, words).stdout(log).stderr(also).spawn();
        self.running.push(child.doing(|| format!("cannot start {program}"))?);
        Ok(())
    }

    /// The last complaint of its log.
    fn log(&self) -> String {
        let text = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        let complains =
            |line: &&str| ["|WARN|", "|ERR|", "|EMER|"].iter().any(|w| line.contains(w));
        text.lines().rev().find(complains).unwrap_or("its log says nothing").to_owned()
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
