//! A manager that runs as an ordinary user, and one that runs as root and gives
//! up what it does not need.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
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

#[test]
fn as_an_ordinary_user_it_serves_and_says_what_is_missing() {
    if !root() {
        return; // Every other test here runs as one then.
    }
    let dir = tempfile::Builder::new().prefix("vfun-").tempdir_in("/dev/shm").unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // Where this was built another user may have no way in.
    for name in ["vfund", "vfun-jail", "vfun-keeper", "vfun-service", "libvfun_fn_echo.so"] {
        copy(&programs().join(name), &dir.path().join(name));
    }
    copy(&repo().join("functions/echo/function.toml"), &dir.path().join("echo.toml"));
    let home = dir.path().join("root");
    std::fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut vfund = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set", "-all"])
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
    let admin = Client::at(&home);
    let until = Instant::now() + Duration::from_secs(20);
    let log = || std::fs::read_to_string(dir.path().join("log")).unwrap();
    while admin.ask(&Ask::Status).is_err() {
        assert!(Instant::now() < until, "it did not come up:\n{}", log());
        std::thread::sleep(Duration::from_millis(5));
    }
    let session = vfun::ConnectOptions::new("app")
        .endpoint(vfun::Endpoint::Host(Some(home.join("host.sock"))))
        .connect()
        .unwrap();
    let echo = session.function("echo").unwrap_or_else(|e| panic!("{e}\n{}", log()));
    assert_eq!(echo.call(b"hello").unwrap(), b"hello");
    let Reply::Services { services } = admin.ask(&Ask::Services).unwrap() else { panic!() };
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
    assert!(admin.ask(&Ask::Stop).is_ok());
    assert!(vfund.wait().unwrap().success());
}
