//! A manager that runs as an ordinary user, and one that runs as root and gives
//! up what it does not need.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vfun_admin::{Ask, Client, Reply};
use vfun_jail::Layer;
use vfun_tests_local::{Stand, placed, programs, repo};
use vfun_tests_sandbox::root;

/// Nobody: a user who owns nothing.
const NOBODY: u32 = 65534;

fn capabilities(pid: u32, set: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix(&format!("{set}:"))).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap()
}

#[test]
fn as_root_it_gives_up_all_it_does_not_need() {
    if !root() {
        return;
    }
    let stand = Stand::start();
    // CAP_CHOWN, CAP_KILL, CAP_SETGID, CAP_SETUID.
    let most = 1 << 0 | 1 << 5 | 1 << 6 | 1 << 7;
    for set in ["CapEff", "CapPrm", "CapBnd"] {
        let has = capabilities(stand.pid(), set);
        assert_ne!(has, 0, "{set}");
        // Where users may not make user namespaces it keeps three more.
        let more = 1 << 8 | 1 << 19 | 1 << 21;
        assert_eq!(has & !(most | more), 0, "{set}: {has:x}");
    }
    assert_eq!(capabilities(stand.pid(), "CapAmb"), 0);
    assert_eq!(stand.connect("app").function("echo").unwrap().call(b"hi").unwrap(), b"hi");
}

fn copy(from: &Path, to: &Path) {
    placed::copy(from, to);
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A manager that an ordinary user started, with all that it needs in a folder.
struct Ordinary {
    dir: tempfile::TempDir,
    vfund: Child,
}

impl Ordinary {
    /// One with these functions' manifests.
    fn start(manifests: &[(&str, &str)]) -> Self {
        let dir = tempfile::Builder::new().prefix("vfun-").tempdir_in("/dev/shm").unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        // Where this was built another user may have no way in.
        for name in ["vfund", "vfun-jail", "vfun-keeper", "vfun-service", "libvfun_fn_echo.so"] {
            copy(&programs().join(name), &dir.path().join(name));
        }
        for (name, text) in manifests {
            let file = dir.path().join(name);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        let home = dir.path().join("root");
        std::fs::create_dir(&home).unwrap();
        std::os::unix::fs::chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
        let vfund = Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .args(["--bounding-set", "-all"])
            .arg(dir.path().join("vfund"))
            .arg("--root")
            .arg(&home)
            .arg("--window-dir")
            .arg(&home)
            .arg("--functions")
            .arg(dir.path())
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(dir.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut ordinary = Ordinary { dir, vfund };
        let until = Instant::now() + Duration::from_secs(20);
        while ordinary.admin().ask(&Ask::Status).is_err() {
            assert!(Instant::now() < until, "it did not come up:\n{}", ordinary.log());
            assert!(ordinary.vfund.try_wait().unwrap().is_none(), "{}", ordinary.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        ordinary
    }

    fn admin(&self) -> Client {
        Client::at(&self.dir.path().join("root"))
    }
    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }
    fn connect(&self) -> vfun::Session {
        vfun::ConnectOptions::new("app")
            .endpoint(vfun::Endpoint::Host(Some(self.dir.path().join("root/host.sock"))))
            .connect()
            .unwrap_or_else(|e| panic!("{e}\n{}", self.log()))
    }
    fn stop(mut self) {
        assert!(self.admin().ask(&Ask::Stop).is_ok());
        assert!(self.vfund.wait().unwrap().success());
    }
}

impl Drop for Ordinary {
    fn drop(&mut self) {
        let _ = self.vfund.kill();
        let _ = self.vfund.wait();
    }
}

fn echo_manifest() -> String {
    std::fs::read_to_string(repo().join("functions/echo/function.toml")).unwrap()
}

/// What it may not open itself its services may not, either: that is said by name,
/// before a driver fails in a way of its own.
#[test]
fn as_an_ordinary_user_it_says_which_device_it_may_not_open() {
    if !root() {
        return; // Nobody else can start a manager as nobody.
    }
    let closed = std::fs::read_dir("/dev").unwrap().flatten().find(|entry| {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        entry.metadata().is_ok_and(|m| m.file_type().is_char_device() && m.mode() & 0o006 == 0)
    });
    let Some(closed) = closed.map(|entry| entry.path().display().to_string()) else {
        eprintln!("SKIPPED: there is no device here that is closed to others");
        return;
    };
    let manifest = echo_manifest();
    let with = |path: &str| format!("{manifest}\n[[devices]]\npath = \"{path}\"\nioctls = []\n");
    let ordinary = Ordinary::start(&[("echo.toml", &with(&closed))]);
    let session = ordinary.connect();
    let Err(why) = session.function("echo") else { panic!("it needs a device") };
    let why = why.to_string();
    assert!(why.contains(&format!("{closed} cannot be opened by user {NOBODY}")), "{why}");
    drop(session);
    ordinary.stop();
    // One that is open to everybody is no trouble.
    let ordinary = Ordinary::start(&[("echo.toml", &with("/dev/urandom"))]);
    let session = ordinary.connect();
    assert_eq!(session.function("echo").unwrap().call(b"hi").unwrap(), b"hi");
    drop(session);
    ordinary.stop();
}

#[test]
fn as_an_ordinary_user_it_serves_and_says_what_is_missing() {
    if !root() {
        return; // Every other test here runs as one then.
    }
    let ordinary = Ordinary::start(&[("echo.toml", &echo_manifest())]);
    let session = ordinary.connect();
    let echo = session.function("echo").unwrap_or_else(|e| panic!("{e}\n{}", ordinary.log()));
    assert_eq!(echo.call(b"hello").unwrap(), b"hello");
    let Reply::Services { services } = ordinary.admin().ask(&Ask::Services).unwrap() else {
        panic!()
    };
    let sandbox = &services[0].sandbox;
    let own = sandbox.missing.iter().find(|m| m.layer == Layer::OwnUser).expect("it is said");
    assert!(own.why.contains("ordinary user"), "{}", own.why);
    for layer in [Layer::NoNewPrivileges, Layer::Seccomp, Layer::Rlimits] {
        assert!(sandbox.layers.contains(&layer), "{layer}: {:?}", sandbox.missing);
    }
    // Where ordinary users get user namespaces, they get what stands on them.
    if sandbox.layers.contains(&Layer::User) {
        for layer in [Layer::Pid, Layer::Mount, Layer::Network, Layer::Ipc, Layer::Capabilities] {
            assert!(sandbox.layers.contains(&layer), "{layer}: {:?}", sandbox.missing);
        }
    }
    assert_eq!(services[0].user, None);
    ordinary.stop();
}
