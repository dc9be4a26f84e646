//! A switch with the dummy datapath, and the programs of an operator.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Until something happens that is sure to happen: machines are busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The programs, where the one who runs the tests says so.
pub fn programs() -> Option<PathBuf> {
    let dir = std::env::var_os("VFUN_OVS_DIR").map(PathBuf::from);
    if dir.is_none() {
        eprintln!("skipped: VFUN_OVS_DIR is not set; packaging/ovs-dpdk.sh prints the folder");
    }
    dir
}

/// A switch with a bridge and three ports, of which rules join the first two.
pub struct Switch {
    pub programs: PathBuf,
    pub folder: tempfile::TempDir,
    pub database: Child,
    pub daemon: Child,
}

pub fn until(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Switch {
    pub fn start(programs: PathBuf) -> Switch {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let schema = programs.join("vswitch.ovsschema");
        let made = command(&programs, folder.path(), "ovsdb-tool")
            .args(["create", &at("conf.db"), schema.to_str().unwrap()])
            .status();
        assert!(made.unwrap().success());
        let database = start_database(&programs, folder.path());
        let daemon = start_daemon(&programs, folder.path());
        let switch = Switch { programs, folder, database, daemon };
        switch.vsctl("add-br br0 -- set Bridge br0 datapath_type=dummy fail_mode=secure");
        for n in 1..=3 {
            switch.vsctl(&format!(
                "add-port br0 p{n} -- set Interface p{n} type=dummy ofport_request={n}"
            ));
        }
        switch.join();
        switch
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The rules that join.
    pub fn join(&self) {
        self.ofctl("del-flows br0");
        self.ofctl("add-flow br0 in_port=1,actions=output:2");
        self.ofctl("add-flow br0 in_port=2,actions=output:1");
    }

    fn run(&self, program: &str, words: &[&str]) -> String {
        let out =
            command(&self.programs, self.folder.path(), program).args(words).output().unwrap();
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{program} {words:?}: {error}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    pub fn vsctl(&self, words: &str) {
        let db = format!("--db=unix:{}", self.path("db.sock").display());
        let words: Vec<&str> = [&*db, "--timeout=60"].into_iter().chain(words.split(' ')).collect();
        self.run("ovs-vsctl", &words);
    }

    /// With OpenFlow 1.4, which has almost all that is tried.
    pub fn ofctl(&self, words: &str) {
        self.ofctl_of("OpenFlow14", words);
    }

    pub fn ofctl_of(&self, version: &str, words: &str) -> String {
        let words: Vec<&str> = ["-O", version].into_iter().chain(words.split(' ')).collect();
        self.run("ovs-ofctl", &words)
    }

    pub fn appctl(&self, words: &str) -> String {
        self.run("ovs-appctl", &words.split(' ').collect::<Vec<_>>())
    }

    /// Starts the switch anew; the old one has ended.
    pub fn restart(&mut self) {
        self.daemon = start_daemon(&self.programs, self.folder.path());
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        end(&mut self.daemon);
        end(&mut self.database);
    }
}

pub fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn command(programs: &Path, folder: &Path, program: &str) -> Command {
    let mut command = Command::new(programs.join(program));
    for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
        command.env(variable, folder);
    }
    command
}

fn start(programs: &Path, folder: &Path, program: &str, words: &[&str]) -> Child {
    let log = std::fs::File::create(folder.join(format!("{program}.log"))).unwrap();
    command(programs, folder, program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

pub fn start_database(programs: &Path, folder: &Path) -> Child {
    let socket = folder.join("db.sock");
    let _ = std::fs::remove_file(&socket);
    let remote = format!("--remote=punix:{}", socket.display());
    let file = folder.join("conf.db");
    let child = start(programs, folder, "ovsdb-server", &[file.to_str().unwrap(), &remote]);
    until("the database listens", || socket.exists());
    child
}

fn start_daemon(programs: &Path, folder: &Path) -> Child {
    let pidfile = folder.join("ovs-vswitchd.pid");
    let _ = std::fs::remove_file(&pidfile);
    let socket = format!("unix:{}", folder.join("db.sock").display());
    let pid = format!("--pidfile={}", pidfile.display());
    let words = [&*socket, &pid, "--enable-dummy", "--disable-system"];
    let child = start(programs, folder, "ovs-vswitchd", &words);
    until("the switch runs", || pidfile.exists());
    child
}

/// Commands: `v` ovs-vsctl, `f` ovs-ofctl, `1` the same with OpenFlow 1.1, `a` ovs-appctl.
pub fn run(switch: &Switch, commands: &[&str]) {
    for command in commands {
        let (program, words) = command.split_once(' ').unwrap();
        match program {
            "v" => switch.vsctl(words),
            "f" => switch.ofctl(words),
            "1" => drop(switch.ofctl_of("OpenFlow11", words)),
            "a" => drop(switch.appctl(words)),
            other => panic!("{other}"),
        }
    }
}
