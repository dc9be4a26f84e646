//! A real manager under a temporary root, for tests: started, asked, killed,
//! started again, and gone with everything of it when the test ends.

#![forbid(unsafe_code)]

pub mod built;
pub mod capabilities;
mod certificates;
pub mod gdma;
pub mod huge;
pub mod modules;
pub mod pkcs11;
pub mod placed;
pub mod queues;
pub mod raw;
pub mod rdma;
pub mod softhsm;
pub mod vm;

pub use certificates::{Issuer, Pair};

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vfun_admin::{Ask, AskError, Client, GrantRow, Reply, Status};

/// How long something may take to come to pass. Seconds are enough but where a
/// host takes its processors away.
const PATIENCE: Duration = Duration::from_secs(60);

/// The repository.
pub fn repo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository is there")
}

/// Where the programs are that were built with this test.
pub fn programs() -> PathBuf {
    let me = std::env::current_exe().expect("a test knows its own path");
    // A program of the tests lies beside the others, a test one folder deeper.
    let beside = me.parent().expect("target/PROFILE or target/PROFILE/deps").to_owned();
    if beside.join("vfund").is_file() {
        return beside;
    }
    let dir = beside.parent().expect("target/PROFILE/deps/TEST").to_owned();
    assert!(
        dir.join("vfund").is_file(),
        "{} is not built: run `tests/built.py build` first (as `make test` does)",
        dir.join("vfund").display()
    );
    dir
}

/// A manager and its root.
pub struct Stand {
    dir: tempfile::TempDir,
    vfund: Option<Child>,
    program: PathBuf,
    extra: Vec<String>,
    /// Privileges that the manager, and what it starts, are to lack, as `setpriv` names
    /// them.
    lacks: Option<&'static str>,
}

impl Stand {
    /// A manager with the functions that ship and the one that misbehaves.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// The same, with more arguments for vfund.
    pub fn with(extra: &[&str]) -> Self {
        Self::prepared(extra, |_| {})
    }

    /// The same, in a root where something was prepared.
    pub fn prepared(extra: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        Self::made(&programs().join("vfund"), extra, &[], prepare)
    }

    /// Another program as the manager; the variables are for its first start only.
    pub fn of(program: &Path, extra: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::made(program, extra, variables, |_| {})
    }

    /// The same once more, from now on without these privileges (`-sys_admin,...`),
    /// where this process has any.
    pub fn lacking(mut self, privileges: &'static str) -> Self {
        self.lacks = rustix::process::geteuid().is_root().then_some(privileges);
        self.ask(&Ask::Stop);
        self.vfund.take().expect("it runs").wait().expect("it ends");
        self.start_vfund();
        self
    }

    fn made(
        program: &Path,
        extra: &[&str],
        variables: &[(&str, &str)],
        prepare: impl FnOnce(&Path),
    ) -> Self {
        // Short names: a UNIX socket's path has 107 bytes.
        let dir = tempfile::Builder::new()
            .prefix("vfun-")
            .tempdir_in("/dev/shm")
            .expect("/dev/shm takes a folder");
        let extra = extra.iter().map(|s| (*s).to_owned()).collect();
        let program = program.to_owned();
        let mut stand = Stand { dir, vfund: None, program, extra, lacks: None };
        prepare(stand.root());
        stand.start_with(variables);
        stand
    }

    /// Starts the manager (again).
    pub fn start_vfund(&mut self) {
        self.start_with(&[]);
    }

    /// The same with these variables, this time only.
    pub fn start_with(&mut self, variables: &[(&str, &str)]) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.root().join("vfund.log"))
            .expect("the root is ours");
        let mut vfund = match self.lacks {
            Some(lacks) => {
                let mut c = Command::new("setpriv");
                c.arg(format!("--bounding-set={lacks}")).arg("--inh-caps=-all").arg(&self.program);
                c
            }
            None => Command::new(&self.program),
        };
        vfund.envs(variables.iter().copied());
        if !self.extra.iter().any(|e| e == "--window-dir") {
            vfund.arg("--window-dir").arg(self.root());
        }
        let child = vfund
            .arg("--root")
            .arg(self.root())
            .arg("--functions")
            .arg(repo().join("functions"))
            .arg("--functions")
            .arg(repo().join("services/testdriver"))
            .args(&self.extra)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("vfund starts");
        self.vfund = Some(child);
        let until = Instant::now() + PATIENCE;
        while self.try_ask(&Ask::Status).is_err() {
            assert!(Instant::now() < until, "vfund did not come up:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The manager's process.
    pub fn pid(&self) -> u32 {
        self.vfund.as_ref().expect("it runs").id()
    }

    /// The manager's keeper's process.
    pub fn keeper(&self) -> u32 {
        let socket = self.root().join("admin/keeper.sock").display().to_string();
        let all = std::fs::read_dir("/proc").expect("there is /proc").flatten();
        all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok())
            .find(|pid| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).into_owned();
                line.contains("vfun-keeper") && line.contains(&socket)
            })
            .expect("a manager has a keeper")
    }

    /// The manager at a glance.
    pub fn status(&self) -> Status {
        self.manager().status().unwrap_or_else(|e| panic!("{e}\n{}", self.log()))
    }

    /// kill -9.
    pub fn kill_vfund(&mut self) {
        let mut child = self.vfund.take().expect("it runs");
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }

    /// Whether it has died by itself; it can be started again then.
    pub fn vfund_died(&mut self) -> bool {
        let died = self.vfund.as_mut().is_some_and(|c| c.try_wait().is_ok_and(|s| s.is_some()));
        if died {
            self.vfund = None;
        }
        died
    }

    /// The root of its tree.
    pub fn root(&self) -> &Path {
        self.dir.path()
    }
    /// What the manager said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.root().join("vfund.log")).unwrap_or_default()
    }
    /// The manager, to be asked.
    pub fn manager(&self) -> Client {
        Client::at(self.root())
    }
    /// Asks the manager, expecting an answer.
    pub fn ask(&self, question: &Ask) -> Reply {
        self.try_ask(question).unwrap_or_else(|e| panic!("{e}\n{}", self.log()))
    }
    /// Asks the manager.
    pub fn try_ask(&self, question: &Ask) -> Result<Reply, AskError> {
        self.manager().ask(question)
    }
    /// Grants there are.
    pub fn grants(&self) -> Vec<GrantRow> {
        self.manager().grants().unwrap_or_else(|e| panic!("{e}\n{}", self.log()))
    }
    /// Totals: windows, sessions, grants, services.
    pub fn totals(&self) -> (usize, usize, usize, usize) {
        let s = self.manager().status().unwrap_or_else(|e| panic!("{e}\n{}", self.log()));
        (s.windows, s.sessions, s.grants, s.services)
    }

    /// Declares a client or says why not.
    pub fn add_client(&self, manifest: &str) -> Result<Reply, AskError> {
        self.try_ask(&Ask::AddClient { manifest: manifest.into(), file: "test.toml".into() })
    }

    /// Options to reach this manager from this machine.
    pub fn options(&self, app: &str) -> vfun::ConnectOptions {
        vfun::ConnectOptions::new(app)
            .endpoint(vfun::Endpoint::Host(Some(self.root().join("host.sock"))))
    }
    /// A session with it.
    pub fn connect(&self, app: &str) -> vfun::Session {
        self.options(app).connect().unwrap_or_else(|e| panic!("{e}\n{}", self.log()))
    }

    /// Waits until something holds; says what did not.
    pub fn until(&self, what: &str, mut holds: impl FnMut(&Stand) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < until, "{what} did not come to pass:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        if self.vfund.is_none() {
            // Killed in the test: its services are still there. A manager
            // that starts anew ends them.
            self.start_vfund();
        }
        let _ = self.try_ask(&Ask::Stop);
        if let Some(mut child) = self.vfund.take() {
            let until = Instant::now() + Duration::from_secs(10);
            while child.try_wait().is_ok_and(|s| s.is_none()) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- vfund said:\n{}", self.log());
        }
    }
}

/// Arguments of factorial and fibonacci.
pub fn args(n: u64, repetitions: u64) -> Vec<u8> {
    [n.to_le_bytes(), repetitions.to_le_bytes()].concat()
}

/// A result of eight bytes.
pub fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// Lets callers end also when a test fails before they do.
pub struct Stop<'a>(pub &'a std::sync::atomic::AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}
