//! A `vfun-nics` in a world of its own.

mod agents;
mod host;
mod qemu;

pub use agents::Manager;
pub use host::Host;
pub use qemu::Qemu;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde_json::Value;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vfun_admin::{VmName, line};
use vfun_nicd::ask::{Answer, Ask, socket};
use vfun_nics::declared::{Hypervisor, Pool, Rule, Source, Vm};
use vfun_nics::view::View;

/// After so long nothing comes any more.
pub const LONG: Duration = Duration::from_secs(300);

/// Kills the program with -9 at its n-th effect on the world.
#[derive(Default)]
pub struct Killer {
    /// 0: never.
    pub at: AtomicU64,
    effects: AtomicU64,
    pid: AtomicU64,
    pub killed: AtomicBool,
}

impl Killer {
    /// An effect is about to be, or was.
    pub fn effect(&self) {
        let n = self.effects.fetch_add(1, Ordering::SeqCst) + 1;
        let at = self.at.load(Ordering::SeqCst);
        if n == at {
            self.kill();
        }
    }

    fn kill(&self) {
        let pid = self.pid.load(Ordering::SeqCst) as i32;
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            self.killed.store(true, Ordering::SeqCst);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// The world of one test.
pub struct Stand {
    pub dir: tempfile::TempDir,
    pub host: Host,
    pub killer: Arc<Killer>,
    running: Option<(Child, Manager)>,
    pub qemus: Vec<Arc<Qemu>>,
    starts: u64,
}

pub fn vm(n: usize) -> VmName {
    VmName::new(&format!("vm{n}"), &format!("vm{n}"))
}

pub fn mac(n: usize) -> String {
    format!("52:54:00:00:00:{n:02x}")
}

impl Stand {
    /// With so many VMs that run, a pool `p` of emulated VFs and nothing declared yet.
    pub fn new(vms: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(dir.path(), vms);
        let killer = Arc::new(Killer::default());
        let qemus = (0..vms)
            .map(|n| Qemu::start(dir.path().join(format!("qmp{n}")), killer.clone()))
            .collect();
        Stand { dir, host, killer, running: None, qemus, starts: 0 }
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn command(&self, stdin: Stdio) -> Command {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join("log"))
            .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vfun-nics"));
        command
            .arg("--root")
            .arg(self.root())
            .arg("--until-stdin-closes")
            .arg("--sys")
            .arg(self.host.sys())
            .arg("--proc")
            .arg(self.dir.path().join("proc"))
            .arg("--dev")
            .arg(self.dir.path().join("dev"))
            .env("PATH", self.host.path())
            .stdin(stdin)
            .stdout(Stdio::null())
            .stderr(log);
        command
    }

    /// Starts it, and the manager with its agents.
    pub fn start(&mut self) {
        let (ours, theirs) = seqpacket();
        self.starts += 1;
        let child = self.command(theirs.into()).spawn().unwrap();
        self.killer.pid.store(child.id().into(), Ordering::SeqCst);
        let manager =
            Manager::start(ours, self.qemus.clone(), self.killer.clone(), self.starts * 1000);
        self.running = Some((child, manager));
        self.until("it answers", |s| s.try_view().is_some());
    }

    /// Runs one that must not start; what it says.
    pub fn refuses(&self, stdin: Stdio) -> String {
        let mut child = self.command(stdin).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(!child.wait().unwrap().success(), "{said}");
        said
    }

    /// Kills it with -9.
    pub fn kill(&mut self) {
        if let Some((mut child, manager)) = self.running.take() {
            let _ = child.kill();
            child.wait().unwrap();
            drop(manager);
        }
    }

    pub fn has_ended(&mut self) -> bool {
        self.running.as_mut().is_none_or(|(c, _)| c.try_wait().unwrap().is_some())
    }

    pub fn manager(&self) -> &Manager {
        &self.running.as_ref().unwrap().1
    }

    pub fn ask(&self, ask: &Ask) -> Result<Answer, line::LineError> {
        line::ask(&socket(&self.root()), ask)
    }

    pub fn must(&self, ask: &Ask) -> String {
        match self.ask(ask) {
            Ok(Answer::Done { sentence }) => sentence,
            other => panic!("{ask:?}: {other:?}\n{}", self.log()),
        }
    }

    pub fn refused(&self, ask: &Ask) -> String {
        match self.ask(ask) {
            Ok(Answer::Refused { sentence }) => sentence,
            other => panic!("{ask:?}: {other:?}"),
        }
    }

    pub fn try_view(&self) -> Option<View> {
        match self.ask(&Ask::View) {
            Ok(Answer::View(view)) => Some(view),
            _ => None,
        }
    }

    pub fn until(&mut self, what: &str, mut is: impl FnMut(&mut Stand) -> bool) {
        let end = Instant::now() + LONG;
        while !is(self) {
            if Instant::now() > end {
                let view = self.try_view();
                panic!("{what}: it never was\n{view:#?}\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn pool(&self, vfs: u16) {
        self.must(&Self::a_pool(vfs));
    }

    /// A pool `p` of emulated VFs.
    pub fn a_pool(vfs: u16) -> Ask {
        let mut pool = Pool::new(Source::Emulated { vfs, model: "igb".into() });
        pool.policy = vfun_leases::Policy::Fair;
        (pool.interval_ms, pool.tenure_ms) = (1000, 1000);
        Ask::AddPool { name: "p".into(), pool }
    }

    /// What VM `n` is declared as.
    pub fn declared(&self, n: usize) -> Vm {
        Vm::new(
            "p",
            Hypervisor::Qmp { socket: self.dir.path().join(format!("qmp{n}")) },
            mac(n),
            "br0",
            format!("pv{n}"),
        )
    }

    pub fn add(&self, n: usize) {
        self.must(&Ask::AddVm { name: vm(n), vm: self.declared(n) });
    }

    pub fn rule(&self, n: usize, rule: Rule) {
        self.must(&Ask::SetRule { name: vm(n), rule });
    }

    /// Whether VM `n` uses a VF by all that is known.
    pub fn holds(&self, n: usize) -> bool {
        let held = |row: &vfun_nics::view::VmView| {
            row.vm == vm(n) && row.vf_state.as_deref() == Some("held")
        };
        self.try_view().is_some_and(|view| view.vms.iter().any(held))
            && self.qemus[n].devices().len() == 1
    }

    /// The notes on disk.
    pub fn notes(&self) -> Value {
        let text = std::fs::read(self.root().join("nics/notes.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// No VF was in two VMs at once, at any time.
    pub fn check_owners(&self) {
        let mut spans = vec![];
        for (n, qemu) in self.qemus.iter().enumerate() {
            spans.extend(qemu.spans().into_iter().map(|(id, from, to)| (id, from, to, n)));
        }
        for a in &spans {
            for b in &spans {
                let apart = a.2.is_some_and(|end| end <= b.1) || b.2.is_some_and(|end| end <= a.1);
                assert!(
                    a.3 == b.3 || a.0 != b.0 || apart,
                    "{} has two owners\n{}",
                    a.0,
                    self.log()
                );
            }
        }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn seqpacket() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

pub fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
