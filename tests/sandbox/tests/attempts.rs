//! The forbidden, tried from inside a driver: each attempt with the whole
//! sandbox, with all of it but the list of system calls, and with none of it,
//! where it must succeed: otherwise it would show nothing.

use libc::*;
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use vfun_admin::{Ask, Reply};
use vfun_jail::Layer;
use vfun_tests_local::Stand;
use vfun_tests_sandbox::{Attacker, BYTES, Mode, Outcome, root};

/// The kernel ends the service, by its hand.
const KILLED: &str = "only an attack makes";

/// One attempt with one system call.
struct Attempt {
    what: &'static str,
    call: c_long,
    args: Vec<u64>,
    bytes: Vec<u8>,
    /// With the whole sandbox: words of the reason for which the service ends,
    /// or none if the call fails.
    told: Option<&'static str>,
    /// Errors it may fail with, with and without the list; none: what it
    /// gives is worth nothing in there.
    errors: &'static [i32],
}

fn path(name: &str) -> Vec<u8> {
    [name.as_bytes(), b"\0"].concat()
}

fn open(what: &'static str, name: &str, flags: i32, errors: &'static [i32]) -> Attempt {
    Attempt {
        what,
        call: SYS_openat,
        args: vec![AT_FDCWD as u64, BYTES, flags as u64, 0o600],
        bytes: path(name),
        told: None,
        errors,
    }
}

fn call(
    what: &'static str,
    call: c_long,
    args: &[u64],
    told: &'static str,
    errors: &'static [i32],
) -> Attempt {
    Attempt { what, call, args: args.to_vec(), bytes: vec![], told: Some(told), errors }
}

impl Attempt {
    fn of(&self, attacker: &Attacker) -> Outcome {
        attacker.call(self.call, &self.args, &self.bytes)
    }
}

/// All attempts at the system around a service; `manager` and `file` are what
/// there is to reach.
fn attempts(manager: u64, root: &str, file: &str) -> Vec<Attempt> {
    let seize = 0x4206;
    let mut all = vec![
        open("the users", "/etc/passwd", O_RDONLY, &[ENOENT]),
        open("the manager's database", &format!("{root}/admin/virtfun.db"), O_RDONLY, &[ENOENT]),
        open("the manager's memory", &format!("/proc/{manager}/mem"), O_RDONLY, &[ENOENT]),
        open("itself as others see it", "/proc/self/status", O_RDONLY, &[ENOENT]),
        open("the system's settings", "/sys/kernel/mm/ksm/run", O_RDONLY, &[ENOENT]),
        open("a device", "/dev/null", O_RDONLY, &[ENOENT]),
        open("a new file", file, O_WRONLY | O_CREAT, &[ENOENT, EACCES]),
        call(
            "a socket of the system's",
            SYS_socket,
            &[AF_UNIX as u64, SOCK_STREAM as u64],
            "(socket)",
            &[],
        ),
        call(
            "a socket of the network",
            SYS_socket,
            &[AF_INET as u64, SOCK_STREAM as u64],
            "(socket)",
            &[],
        ),
        call(
            "the network's settings",
            SYS_socket,
            &[AF_NETLINK as u64, SOCK_RAW as u64],
            "(socket)",
            &[],
        ),
        call("all processes", SYS_kill, &[-1i64 as u64, 0], "(kill)", &[ESRCH]),
        call("the manager", SYS_kill, &[manager, 0], "(kill)", &[ESRCH]),
        call("the manager as a tracer", SYS_ptrace, &[seize, manager], KILLED, &[ESRCH, EPERM]),
        call("namespaces", SYS_unshare, &[CLONE_NEWUTS as u64], KILLED, &[EPERM]),
        call("another user", SYS_setuid, &[0], "(setuid)", &[EPERM, EINVAL]),
        call("memory files", SYS_memfd_create, &[BYTES, 0], "(memfd_create)", &[]),
        // Last: what it leaves is a process that could be signalled.
        call("a copy of itself", SYS_clone, &[SIGCHLD as u64], "(clone)", &[]),
    ];
    let mut mount = call("a file system", SYS_fsopen, &[BYTES, 0], KILLED, &[EPERM]);
    mount.bytes = path("tmpfs");
    all.push(mount);
    for a in &mut all {
        if a.call == SYS_memfd_create {
            a.bytes = path("x");
        }
    }
    all
}

#[test]
fn what_is_around_a_service_is_out_of_its_reach() {
    let unlisted = Attacker::unlisted();
    let free = Attacker::free();
    let reach = |a: &Attacker| {
        let root = a.stand.root().to_str().unwrap().to_owned();
        let file = format!("{root}/made-by-a-driver");
        (u64::from(a.stand.pid()), root, file)
    };
    let of = |a: &Attacker| {
        let (manager, root, file) = reach(a);
        attempts(manager, &root, &file)
    };
    for a in of(&unlisted) {
        let got = a.of(&unlisted);
        let ok = if a.errors.is_empty() { got.done() } else { got.failed(a.errors) };
        assert!(ok, "{} without the list of system calls: {got:?}", a.what);
    }
    // Nothing in its way: what root may do with the few privileges that the
    // manager keeps succeeds.
    if root() {
        for a in of(&free) {
            if a.errors == [EPERM] {
                continue; // it takes a privilege that the manager has given up itself
            }
            let got = a.of(&free);
            assert!(got.done(), "{} without any sandbox: {got:?}", a.what);
        }
        assert!(std::path::Path::new(&reach(&free).2).exists());
    }
    // Each that ends the service with a manager of its own: six in half a
    // minute and a channel is broken off.
    let mut jailed = Attacker::jailed();
    let mut died = 0;
    for i in 0..of(&jailed).len() {
        if died == 4 {
            jailed = Attacker::jailed();
            died = 0;
        }
        let a = of(&jailed).swap_remove(i);
        let got = a.of(&jailed);
        match a.told {
            Some(words) => {
                assert!(got.died_of(words), "{}: {got:?}", a.what);
                died += 1;
            }
            None => assert!(got.failed(a.errors) || got.failed(&[EACCES]), "{}: {got:?}", a.what),
        }
    }
}

#[test]
fn no_other_program_runs() {
    let program = path("/bin/true");
    let exec = |a: &Attacker| a.call(SYS_execve, &[BYTES, 0, 0], &program);
    assert!(exec(&Attacker::jailed()).died_of(KILLED));
    assert!(exec(&Attacker::unlisted()).failed(&[ENOENT, EACCES]));
    assert!(exec(&Attacker::free()).died_of("status 0"), "the service has become /bin/true");
}

#[test]
fn the_list_cannot_be_tried_call_by_call() {
    // As the kernel has it: what to do, flags, a way back, a mask; all zeros
    // but for the first, which ignores the signal.
    let ignore = [1u64.to_ne_bytes(), [0; 8], [0; 8], [0; 8]].concat();
    let act = |a: &Attacker, signal: c_int| {
        a.call(SYS_rt_sigaction, &[signal as u64, BYTES, 0, 8], &ignore)
    };
    let jailed = Attacker::jailed();
    assert!(act(&jailed, SIGSYS).failed(&[EPERM]), "the handler that tells can be taken away");
    let asked = jailed.call(SYS_rt_sigaction, &[SIGSYS as u64, 0, BYTES, 8], &ignore);
    assert!(asked.failed(&[EPERM]), "it cannot even be asked for: {asked:?}");
    assert_eq!(act(&jailed, SIGUSR1), Outcome::Went(0), "others are a driver's own");
    // Blocked, the signal ends the service by the kernel's hand.
    let mask = (1u64 << (SIGSYS - 1)).to_ne_bytes();
    let blocked = jailed.call(SYS_rt_sigprocmask, &[SIG_BLOCK as u64, BYTES, 0, 8], &mask);
    assert_eq!(blocked, Outcome::Went(0));
    let got = jailed.call(SYS_socket, &[AF_UNIX as u64, SOCK_STREAM as u64], &[]);
    assert!(got.died_of(KILLED), "{got:?}");
    assert_eq!(act(&Attacker::unlisted(), SIGSYS), Outcome::Went(0));
}

#[test]
fn its_memory_is_not_merged_with_others() {
    let merge = |a: &Attacker| {
        let prot = (PROT_READ | PROT_WRITE) as u64;
        let flags = (MAP_PRIVATE | MAP_ANONYMOUS) as u64;
        let Outcome::Went(at) = a.call(SYS_mmap, &[0, 4096, prot, flags, u64::MAX, 0], &[]) else {
            panic!("memory can be had")
        };
        a.call(SYS_madvise, &[at as u64, 4096, MADV_MERGEABLE as u64], &[])
    };
    let merge_all = |a: &Attacker| a.call(SYS_prctl, &[67, 1], &[]);
    let jailed = Attacker::jailed();
    assert!(merge(&jailed).failed(&[EPERM]), "MADV_MERGEABLE");
    assert!(merge_all(&jailed).failed(&[EINVAL]), "PR_SET_MEMORY_MERGE");
    // Without the list the kernel merges, if it is one that can.
    if std::path::Path::new("/sys/kernel/mm/ksm/run").exists() {
        assert_eq!(merge(&Attacker::unlisted()), Outcome::Went(0));
    }
}

#[test]
fn the_managers_memory_cannot_be_read() {
    let read = |a: &Attacker| {
        let pid = a.stand.pid();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let start = maps.lines().find(|l| l.contains(" r--p ")).unwrap();
        let start = u64::from_str_radix(start.split('-').next().unwrap(), 16).unwrap();
        a.act(Mode::Process, &[pid.into(), start])
    };
    assert!(read(&Attacker::jailed()).died_of(KILLED));
    let got = read(&Attacker::unlisted());
    assert!(got.failed(&[ESRCH]), "{got:?}");
    assert_eq!(read(&Attacker::free()), Outcome::Went(8));
}

#[test]
fn nobody_answers_on_a_network() {
    let name = format!("vfun-sandbox-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut abstract_address = (AF_UNIX as u16).to_ne_bytes().to_vec();
    abstract_address.push(0);
    abstract_address.extend(name.as_bytes());
    let mut inet = (AF_INET as u16).to_ne_bytes().to_vec();
    inet.extend(tcp.local_addr().unwrap().port().to_be_bytes());
    inet.extend([127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let connect = |a: &Attacker, family: c_int, address: &[u8]| {
        let Outcome::Went(fd) = a.call(SYS_socket, &[family as u64, SOCK_STREAM as u64], &[])
        else {
            panic!("without the list a socket can be made")
        };
        a.call(SYS_connect, &[fd as u64, BYTES, address.len() as u64], address)
    };
    let unlisted = Attacker::unlisted();
    let got = connect(&unlisted, AF_UNIX, &abstract_address);
    assert!(got.failed(&[ECONNREFUSED, EPERM, EACCES]), "{got:?}");
    let got = connect(&unlisted, AF_INET, &inet);
    assert!(got.failed(&[ENETUNREACH, EACCES, EPERM]), "{got:?}");
    let free = Attacker::free();
    assert_eq!(connect(&free, AF_UNIX, &abstract_address), Outcome::Went(0));
    assert_eq!(connect(&free, AF_INET, &inet), Outcome::Went(0));
    // Landlock by itself holds the same, where the kernel has it.
    let others: Vec<Layer> = Layer::ALL
        .into_iter()
        .filter(|l| ![Layer::Landlock, Layer::NoNewPrivileges].contains(l))
        .collect();
    let landlocked = Attacker::without(&others);
    if landlocked.service().sandbox.landlock.is_some_and(|abi| abi >= 6) {
        let got = connect(&landlocked, AF_UNIX, &abstract_address);
        assert!(got.failed(&[EPERM, EACCES]), "{got:?}");
        let got = connect(&landlocked, AF_INET, &inet);
        assert!(got.failed(&[EACCES]), "{got:?}");
    }
}

#[test]
fn files_are_hidden_by_two_layers() {
    for left in [Layer::Mount, Layer::Landlock] {
        // A user of its own would need a way to the program where it was built.
        let attacker = Attacker::without(&[left, Layer::OwnUser]);
        if attacker.service().sandbox.missing.iter().any(|m| m.layer == Layer::Landlock)
            && left == Layer::Mount
        {
            continue; // this kernel has none
        }
        let passwd = open("", "/etc/passwd", O_RDONLY, &[]).of(&attacker);
        assert!(passwd.failed(&[ENOENT, EACCES]), "without {left}: {passwd:?}");
    }
}

#[test]
fn its_root_cannot_be_written_to() {
    let unlisted = Attacker::unlisted();
    for place in ["/x", "/usr/x", "/usr/lib/x86_64-linux-gnu/x"] {
        let got = open("", place, O_WRONLY | O_CREAT, &[]).of(&unlisted);
        assert!(got.failed(&[EROFS, EACCES, ENOENT]), "{place}: {got:?}");
    }
    // Landlock alone would refuse it, too; this is the mount's word.
    let plain = Attacker::without(&[Layer::Seccomp, Layer::Landlock]);
    let got = open("", "/x", O_WRONLY | O_CREAT, &[]).of(&plain);
    assert!(got.failed(&[EROFS]), "{got:?}");
}

#[test]
fn a_manifest_lets_a_driver_read_more_and_nothing_else() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    // The service's user is nobody's: what it reads is open to everybody.
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (may, may_not) = (dir.path().join("may"), dir.path().join("may-not"));
    std::fs::write(&may, "x").unwrap();
    std::fs::write(&may_not, "x").unwrap();
    let functions = dir.path().join("functions");
    std::fs::create_dir(&functions).unwrap();
    let text =
        std::fs::read_to_string(vfun_tests_sandbox::manifests().join("function.toml")).unwrap();
    let mut manifest = std::fs::File::create(functions.join("attack.toml")).unwrap();
    write!(manifest, "reads = [{may:?}]\nmakes_code = true\n{text}").unwrap();
    let more = ["--functions", functions.to_str().unwrap()];
    let attacker = Attacker::with(&[], &more);
    let read =
        |file: &std::path::Path| open("", file.to_str().unwrap(), O_RDONLY, &[]).of(&attacker);
    assert!(read(&may).done());
    assert!(read(&may_not).failed(&[ENOENT]));
    let write = open("", may.to_str().unwrap(), O_WRONLY, &[]).of(&attacker);
    assert!(write.failed(&[EACCES]), "{write:?}");
    // And it may make code, as a compiler does.
    let code = |a: &Attacker| {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS;
        let prot = PROT_READ | PROT_WRITE | PROT_EXEC;
        a.call(SYS_mmap, &[0, 4096, prot as u64, flags as u64, u64::MAX, 0], &[])
    };
    assert!(code(&attacker).done());
    assert!(code(&Attacker::jailed()).died_of("(mmap)"));
}

/// Asks how much randomness there is: anybody may.
const RNDGETENTCNT: u64 = 0x8004_5200;
/// Adds to it: only an administrator may, says the kernel (EPERM).
const RNDADDTOENTCNT: u64 = 0x4004_5201;

/// A folder with the attacking driver's manifest, with a device in it.
fn with_device(node: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let text =
        std::fs::read_to_string(vfun_tests_sandbox::manifests().join("function.toml")).unwrap();
    let device = format!("[[devices]]\npath = {node:?}\nioctls = [\"{RNDGETENTCNT:#x}\"]\n");
    std::fs::write(dir.path().join("attack.toml"), text + &device).unwrap();
    dir
}

fn node(name: &str, flags: c_int, a: &Attacker) -> Outcome {
    open("", name, flags, &[]).of(a)
}

fn request(a: &Attacker, fd: i64, number: u64) -> Outcome {
    a.call(SYS_ioctl, &[fd as u64, number, BYTES], &[0; 8])
}

#[test]
fn a_device_of_the_manifest_takes_its_requests_and_no_others() {
    let manifest = with_device("/dev/urandom");
    let functions = ["--functions", manifest.path().to_str().unwrap()];
    let attacker = Attacker::with(&[], &functions);
    let Outcome::Went(fd) = node("/dev/urandom", O_RDWR | O_CLOEXEC, &attacker) else { panic!() };
    assert!(fd >= 3, "it opens for reading and writing: {fd}");
    assert_eq!(request(&attacker, fd, RNDGETENTCNT), Outcome::Went(0));
    assert!(request(&attacker, fd, RNDADDTOENTCNT).failed(&[ENOTTY]), "the list's word");
    assert!(node("/dev/urandom", O_RDWR | O_CREAT, &attacker).failed(&[EACCES]));
    for other in ["/dev/random", "/dev/null", "/dev"] {
        assert!(node(other, O_RDONLY, &attacker).failed(&[ENOENT, EACCES]), "{other}");
    }
    // Without the list of system calls the kernel itself is asked.
    let unlisted = Attacker::with(&[Layer::Seccomp], &functions);
    let Outcome::Went(fd) = node("/dev/urandom", O_RDWR, &unlisted) else { panic!() };
    assert!(request(&unlisted, fd, RNDADDTOENTCNT).failed(&[EPERM]));
    assert!(node("/dev/random", O_RDONLY, &unlisted).failed(&[ENOENT, EACCES]));
    // A manifest without devices has none, and no request.
    let none = Attacker::jailed();
    assert!(node("/dev/urandom", O_RDONLY, &none).failed(&[ENOENT]));
    assert!(request(&none, 2, RNDGETENTCNT).failed(&[ENOTTY]));
}

#[test]
fn landlock_alone_keeps_other_devices_closed() {
    let manifest = with_device("/dev/urandom");
    let functions = ["--functions", manifest.path().to_str().unwrap()];
    // Not its own user: it would need a way to the program where it was built.
    let attacker = Attacker::with(&[Layer::Mount, Layer::Seccomp, Layer::OwnUser], &functions);
    let Some(version) = attacker.service().sandbox.landlock else { return };
    let Outcome::Went(fd) = node("/dev/urandom", O_RDWR, &attacker) else { panic!() };
    assert_eq!(request(&attacker, fd, RNDGETENTCNT), Outcome::Went(0), "version {version}");
    assert!(node("/dev/random", O_RDONLY, &attacker).failed(&[EACCES]));
    assert!(node("/dev/null", O_RDWR, &attacker).failed(&[EACCES]));
}

#[test]
fn a_driver_of_devices_does_not_start_where_nothing_keeps_it_to_them() {
    let manifest = with_device("/dev/urandom");
    let functions = ["--functions", manifest.path().to_str().unwrap()];
    let without = |layers: &[Layer]| {
        let mut options = functions.to_vec();
        // Not its own user: it would need a way to the program where it was built.
        let layers = layers.iter().chain(&[Layer::OwnUser]);
        options.extend(layers.flat_map(|l| ["--without-layer", l.name()]));
        let stand = vfun_tests_local::Stand::with(&options);
        let session = stand.connect("app");
        assert!(session.function("echo").is_ok(), "others are not concerned");
        session.function("attack").map(drop).map_err(|e| e.to_string())
    };
    let e = without(&[Layer::Mount, Layer::Landlock]).expect_err("it started");
    for says in ["opens devices", "'mount'", "'landlock'", "left out by --without-layer"] {
        assert!(e.contains(says), "{e} should say {says}");
    }
    assert_eq!(without(&[Layer::Landlock]), Ok(()), "one of them is enough");
}

/// A node of a device that only a group may open, gone with the test.
struct Node(String);

impl Node {
    /// None where no node can be made.
    fn of(group: u32, mode: u32) -> Option<Self> {
        use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
        use std::os::unix::fs::PermissionsExt;
        let path = format!("/dev/vfun-test-{}-{group}-{mode:o}", std::process::id());
        let urandom = makedev(1, 9);
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o600), urandom).ok()?;
        let made = Node(path);
        std::os::unix::fs::chown(&made.0, None, Some(group)).ok()?;
        std::fs::set_permissions(&made.0, std::fs::Permissions::from_mode(mode)).ok()?;
        Some(made)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_device_of_a_group_opens_through_that_group() {
    const GROUP: u32 = 44;
    let (Some(of_group), Some(of_root)) = (Node::of(GROUP, 0o660), Node::of(0, 0o600)) else {
        return; // it takes root, and a machine that lets it
    };
    let manifest = with_device(&of_group.0);
    for without in [&[][..], &[Layer::User]] {
        let functions = ["--functions", manifest.path().to_str().unwrap()];
        let attacker = Attacker::with(without, &functions);
        let Outcome::Went(fd) = node(&of_group.0, O_RDWR, &attacker) else {
            panic!("without {without:?}: {:?}", node(&of_group.0, O_RDWR, &attacker))
        };
        assert_eq!(request(&attacker, fd, RNDGETENTCNT), Outcome::Went(0));
    }
    // One that is root's alone is refused by name, with what to do.
    let manifest = with_device(&of_root.0);
    let functions = ["--functions", manifest.path().to_str().unwrap()];
    let stand = vfun_tests_local::Stand::with(&functions);
    let Err(e) = stand.connect("app").function("attack") else { panic!("it started") };
    let e = e.to_string();
    assert!(e.contains(&of_root.0) && e.contains("udev"), "{e}");
}

#[test]
fn policy_says_whose_services_may_open_which_device() {
    let manifest = with_device("/dev/urandom");
    let functions = ["--functions", manifest.path().to_str().unwrap()];
    let stand = vfun_tests_local::Stand::prepared(&functions, |root| {
        std::fs::create_dir_all(root.join("admin")).unwrap();
        let policy = "[client.host]\ndevices = [\"/dev/dri/*\"]\n";
        std::fs::write(root.join("admin/policy.toml"), policy).unwrap();
    });
    let Err(e) = stand.connect("app").function("attack") else { panic!("it started") };
    let e = e.to_string();
    assert!(e.contains("/dev/urandom") && e.contains("devices in [client.host]"), "{e}");
    assert!(stand.connect("app").function("echo").is_ok(), "others are not concerned");
}

#[test]
fn a_device_that_policy_takes_away_is_taken_from_who_has_it() {
    let manifest = with_device("/dev/urandom");
    let attacker = Attacker::with(&[], &["--functions", manifest.path().to_str().unwrap()]);
    let Outcome::Went(fd) = node("/dev/urandom", O_RDWR, &attacker) else { panic!() };
    assert_eq!(request(&attacker, fd, RNDGETENTCNT), Outcome::Went(0));
    let pid = attacker.service().pid;
    let text = "[client.host]\ndevices = [\"/dev/dri/*\"]\n".to_owned();
    match attacker.stand.ask(&Ask::SetPolicy { text, file: "new.toml".into() }) {
        Reply::Done { sentence } => assert!(sentence.contains("1 grant was taken"), "{sentence}"),
        other => panic!("{other:?}"),
    }
    attacker.stand.until("its service ends", |s| match s.ask(&Ask::Services) {
        Reply::Services { services } => services.iter().all(|s| s.pid != pid),
        other => panic!("{other:?}"),
    });
    let Reply::History { rows } = attacker.stand.ask(&Ask::History { limit: 50 }) else { panic!() };
    let told = |why: &str| why.contains("/dev/urandom") && why.contains("devices in [client.host]");
    assert!(rows.iter().any(|r| r.why.as_deref().is_some_and(told)), "{rows:?}");
}

#[test]
fn a_window_stays_as_it_is() {
    let attacker = Attacker::jailed();
    assert_eq!(attacker.act(Mode::Files, &[]), Outcome::Went(0), "no descriptor of it is left");
    let mut long = vec![1u8; 4096];
    let opened = attacker.send(&long);
    assert!(opened.failed(&[EACCES]), "dataout was made writable: {opened:?}");
    long[0] = 2;
    assert!(attacker.send(&long).died_of("signal 11"));
    // Where the driver has no sandbox it is the same: the mapping itself holds.
    let free = Attacker::free();
    long[0] = 1;
    assert!(free.send(&long).failed(&[EACCES]));
    // A descriptor of the kind that is looked for is found.
    let Outcome::Went(fd) = free.call(SYS_memfd_create, &[BYTES, 0], b"x\0") else { panic!() };
    assert!(fd >= 0);
    assert_eq!(free.act(Mode::Files, &[]), Outcome::Went(1));
    // And what a service is passed can be made neither smaller nor larger.
    let dir = format!("/proc/{}/fd", attacker.stand.pid());
    let mut windows = 0;
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let is = std::fs::read_link(entry.path()).unwrap_or_default();
        if !is.to_string_lossy().starts_with("/memfd:virtfun-") {
            continue;
        }
        windows += 1;
        let file = std::fs::File::options().read(true).write(true).open(entry.path()).unwrap();
        let seals = rustix::fs::fcntl_get_seals(&file).unwrap();
        use rustix::fs::SealFlags;
        assert!(seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL));
        assert!(file.set_len(0).is_err());
    }
    assert_eq!(windows, 1);
}

/// Whether a mapping for reading can be made writable.
#[allow(unsafe_code)]
fn opens(fd: std::os::fd::BorrowedFd<'_>) -> bool {
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};
    // SAFETY: a fresh mapping that nobody else knows of; it is never read.
    unsafe {
        let at =
            mmap(std::ptr::null_mut(), 4096, ProtFlags::READ, MapFlags::SHARED, fd, 0).unwrap();
        let opened = mprotect(at, 4096, MprotectFlags::READ | MprotectFlags::WRITE);
        munmap(at, 4096).unwrap();
        opened.is_ok()
    }
}

#[test]
fn mappings_for_reading_stay_so_only_if_their_descriptor_is() {
    use std::os::fd::{AsFd, AsRawFd};
    let fd = rustix::fs::memfd_create("t", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, 4096).unwrap();
    let again = std::fs::File::open(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
    assert!(opens(fd.as_fd()), "what the test above relies on");
    assert!(!opens(again.as_fd()));
}

#[test]
fn one_clients_driver_cannot_reach_anothers_window() {
    let plain = "name = \"other\"\nwindow = \"1 MiB\"\ntransport = \"ivshmem-plain\"\n";
    for (attacker, free) in [(Attacker::unlisted(), false), (Attacker::free(), true)] {
        attacker.stand.add_client(plain).unwrap();
        let window = attacker.stand.root().join("virtfun-other");
        assert!(window.exists());
        let got = open("", window.to_str().unwrap(), O_RDWR, &[]).of(&attacker);
        match free && root() {
            true => assert!(got.done(), "{got:?}"),
            false => assert!(got.failed(&[ENOENT, EACCES]), "{got:?}"),
        }
    }
}

#[test]
fn a_log_ends_somewhere() {
    let attacker = Attacker::jailed();
    let many = 64 << 20;
    let most = vfun_jail::constants::FILE_BYTES;
    let Outcome::Went(written) = attacker.act(Mode::Log, &[many]) else { panic!() };
    // Emptied while it was written, it takes as much again.
    assert!(written as u64 <= 2 * most, "{written}");
    let log = attacker.stand.root().join("service/host/attack.log");
    let len = std::fs::metadata(&log).unwrap_or_else(|e| panic!("{}: {e}", log.display())).len();
    assert!(len <= most, "{len}");
    assert!(attacker.act(Mode::Files, &[]).done(), "and it goes on");
    let free = Attacker::free();
    let Outcome::Went(written) = free.act(Mode::Log, &[many]) else { panic!() };
    assert!(written as u64 >= many);
}

/// A manifest of the attacking driver with a folder of its own for each client.
fn with_folders(dir: &std::path::Path, more: &str) -> String {
    let functions = dir.join("functions");
    std::fs::create_dir_all(&functions).unwrap();
    let text =
        std::fs::read_to_string(vfun_tests_sandbox::manifests().join("function.toml")).unwrap();
    let text = format!("{more}\n{text}");
    std::fs::write(functions.join("attack.toml"), text).unwrap();
    functions.to_str().unwrap().to_owned()
}

/// A folder open to everybody, as those are in which services' folders lie.
fn open_dir() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

#[test]
fn a_driver_writes_in_its_clients_folder_and_nowhere_else() {
    let dir = open_dir();
    let functions = with_folders(dir.path(), "writes = [\"{writes}/t/{client}\"]");
    let writes = dir.path().join("writes");
    let more = ["--functions", &functions, "--writes", writes.to_str().unwrap()];
    let others = writes.join("t/another");
    std::fs::create_dir_all(&others).unwrap();
    std::fs::write(others.join("token"), "secret").unwrap();
    let path = |at: &std::path::Path| at.to_str().unwrap().to_owned();
    let mine = writes.join("t/host");
    let attempts = |attacker: &Attacker| {
        let create = O_WRONLY | O_CREAT;
        for inside in [path(&mine.join("a")), "b".into()] {
            let got = open("", &inside, create, &[]).of(attacker);
            assert!(got.done(), "{inside}: {got:?}");
        }
        for outside in [path(&writes.join("t/x")), path(&others.join("x")), "/usr/lib/x".into()] {
            let got = open("", &outside, create, &[]).of(attacker);
            assert!(got.failed(&[EROFS, EACCES, ENOENT]), "{outside}: {got:?}");
        }
        let got = open("", &path(&others.join("token")), O_RDONLY, &[]).of(attacker);
        assert!(got.failed(&[ENOENT, EACCES]), "{got:?}");
    };
    let attacker = Attacker::with(&[], &more);
    attempts(&attacker);
    assert!(mine.join("a").exists() && mine.join("b").exists(), "{mine:?}");
    // It makes no links and no programs there.
    let link = attacker.call(SYS_symlinkat, &[BYTES, AT_FDCWD as u64, BYTES], b"l\0");
    assert!(link.died_of("(symlinkat)"), "{link:?}");
    drop(attacker);
    // Either layer alone keeps it there.
    for left in [Layer::Mount, Layer::Landlock] {
        attempts(&Attacker::with(&[left, Layer::Seccomp], &more));
    }
}

#[test]
fn a_folder_that_will_not_do_starts_no_service() {
    let dir = open_dir();
    let (writes, elsewhere) = (dir.path().join("writes"), dir.path().join("elsewhere"));
    std::fs::create_dir_all(writes.join("t")).unwrap();
    std::fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, writes.join("t/host")).unwrap();
    let outside = format!("writes = [\"{}/{{client}}\"]", elsewhere.display());
    for (keys, why) in [
        ("writes = [\"{writes}/t/{client}\"]", "is a symbolic link, or no folder"),
        (outside.as_str(), "where services may write (vfund --writes)"),
    ] {
        let functions = with_folders(dir.path(), keys);
        let stand = Stand::with(&["--functions", &functions, "--writes", writes.to_str().unwrap()]);
        let session = stand.connect("attacker");
        let said = session.function("attack").expect_err("it is refused").to_string();
        assert!(said.contains("writes: ") && said.contains(why), "{said}");
    }
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn a_folder_that_is_full_starts_no_service() {
    let dir = open_dir();
    let functions = with_folders(dir.path(), "writes = [\"{writes}/t/{client}\"]");
    let writes = dir.path().join("writes");
    let more = ["--functions", &functions, "--writes", writes.to_str().unwrap()];
    drop(Attacker::with(&[], &more));
    let mine = writes.join("t/host");
    (0..=vfun_jail::constants::WRITES_FILES)
        .for_each(|i| std::fs::write(mine.join(i.to_string()), "").unwrap());
    let stand = Stand::with(&more);
    let said = stand.connect("attacker").function("attack").err().unwrap().to_string();
    assert!(said.contains("holds more than 4096 files"), "{said}");
    // One that fills it while it runs is ended, and not started again.
    drop(stand);
    std::fs::remove_dir_all(&mine).unwrap();
    let attacker = Attacker::with(&[], &more);
    let pid = attacker.service().pid;
    for i in 0..=vfun_jail::constants::WRITES_FILES {
        // As the driver does: the files are its user's.
        let made = open("", &i.to_string(), O_WRONLY | O_CREAT, &[]).of(&attacker);
        let made = if let Outcome::Went(fd) = made { fd } else { panic!("{made:?}") };
        assert!(attacker.call(SYS_close, &[made as u64], &[]).done());
    }
    let ended =
        |stand: &Stand| stand.log().contains("is ended: ") && stand.log().contains("holds more");
    attacker.stand.until("it is ended", ended);
    // The log says so before the process is gone.
    let gone = |_: &Stand| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    attacker.stand.until("its process is gone", gone);
}
