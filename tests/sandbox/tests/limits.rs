//! What a service may use: each bound by itself, and gone without its layer.

use vfun_admin::Ask;
use vfun_jail::Layer;
use vfun_tests_local::Stand;
use vfun_tests_sandbox::{Attacker, Mode, Outcome, manifests, root};

/// An attacker under a policy.
fn under(policy: &str, without: &[Layer]) -> Attacker {
    let manifests = manifests();
    let mut extra = vec!["--functions", manifests.to_str().unwrap()];
    extra.extend(without.iter().flat_map(|l| ["--without-layer", l.name()]));
    let mut stand = Stand::with(&extra);
    std::fs::write(stand.root().join("admin/policy.toml"), policy).unwrap();
    stand.kill_vfund();
    stand.start_vfund();
    Attacker::on(stand)
}

/// Whether this host gives a layer.
fn given(layer: Layer) -> bool {
    Attacker::jailed().service().sandbox.layers.contains(&layer)
}

#[test]
fn as_root_a_service_lacks_nothing_that_the_host_has() {
    let row = Attacker::jailed().service();
    let missing: Vec<_> = row.sandbox.missing.iter().map(|m| m.layer).collect();
    // What every kernel has that runs this.
    for layer in [Layer::NoNewPrivileges, Layer::Seccomp, Layer::Rlimits, Layer::Capabilities] {
        assert!(!missing.contains(&layer), "{layer}");
    }
    if root() {
        for layer in
            [Layer::User, Layer::OwnUser, Layer::Pid, Layer::Mount, Layer::Network, Layer::Ipc]
        {
            assert!(!missing.contains(&layer), "{layer}: {:?}", row.sandbox.missing);
        }
        assert!(row.user.is_some_and(|u| u > vfun_jail::constants::USER_BASE));
    }
    let bare = Attacker::free().service();
    // The manager itself can gain nothing, and neither can what it starts.
    assert!(
        bare.sandbox.layers.iter().all(|l| *l == Layer::NoNewPrivileges),
        "{:?}",
        bare.sandbox.layers
    );
    assert!(bare.sandbox.missing.iter().all(|m| m.why.contains("--without-layer")));
}

#[test]
fn memory_ends_where_policy_says() {
    let policy = "[default]\nmemory = \"64 MiB\"\n";
    // More than that, the window that it shares, and what the kernel keeps.
    let bytes = 512 << 20;
    if given(Layer::CgroupMemory) {
        let got = under(policy, &[]).act(Mode::Memory, &[bytes]);
        assert!(got.died_of("more memory"), "{got:?}");
    }
    // By address space, where no group counts: the allocator hears of it.
    let policy = "[default]\nmemory = \"64 MiB\"\nthreads = 16\n";
    let got = under(policy, &[Layer::CgroupMemory]).act(Mode::Memory, &[bytes]);
    assert!(!got.done(), "{got:?}");
    let free = under(policy, &[Layer::CgroupMemory, Layer::Rlimits]);
    assert_eq!(free.act(Mode::Memory, &[bytes]), Outcome::Went(512));
}

#[test]
fn threads_end_where_policy_says() {
    let policy = "[default]\nthreads = 16\n";
    for without in [&[][..], &[Layer::CgroupPids], &[Layer::Rlimits]] {
        if without == [Layer::Rlimits] && !given(Layer::CgroupPids) {
            continue;
        }
        let Outcome::Went(made) = under(policy, without).act(Mode::Threads, &[64]) else {
            panic!("without {without:?}")
        };
        // Sixteen, its channel's, and the few of the service itself.
        assert!((4..=21).contains(&made), "without {without:?}: {made}");
    }
    let free = under(policy, &[Layer::CgroupPids, Layer::Rlimits]);
    assert_eq!(free.act(Mode::Threads, &[64]), Outcome::Went(64));
}

#[test]
fn without_a_policy_a_driver_starts_few_threads() {
    let Outcome::Went(made) = Attacker::jailed().act(Mode::Threads, &[1000]) else { panic!() };
    assert!((60..=70).contains(&made), "{made}");
}

/// Name, priority and session of each thread of a process.
fn threads_of(pid: u32) -> Vec<(String, i64, i64)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        let (head, tail) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = tail.split(' ').collect();
        let name = head.split_once('(')?.1.to_owned();
        Some((name, fields[16].parse().ok()?, fields[3].parse().ok()?))
    };
    tasks.filter_map(of).collect()
}

#[test]
fn where_no_group_shares_processors_a_drivers_threads_weigh_as_one() {
    let attacker = Attacker::without(&[Layer::CgroupCpu]);
    let pid = attacker.service().pid;
    assert_eq!(attacker.act(Mode::Burn, &[64]), Outcome::Went(64));
    let managers = threads_of(attacker.stand.pid())[0].1;
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let threads = threads_of(pid);
        assert_eq!(threads.len(), 66, "{threads:?}");
        let gave_way = threads.iter().filter(|(_, nice, _)| *nice >= 18).count();
        if gave_way == 64 {
            let own = threads.iter().filter(|(_, nice, _)| *nice == managers).count();
            assert_eq!(own, 2, "its main thread and its channel's stay: {threads:?}");
            break;
        }
        assert!(std::time::Instant::now() < until, "{threads:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // And its service is a session by itself, between which the kernel shares.
    let session = |pid: u32| threads_of(pid)[0].2;
    assert_ne!(session(pid), session(attacker.stand.pid()));
    let other = attacker.stand.connect("neighbour");
    assert_eq!(other.function("echo").unwrap().call(b"x").unwrap(), b"x");
}

#[test]
fn processors_are_shared_as_policy_says() {
    if !given(Layer::CgroupCpu) {
        return;
    }
    // The kernel's own account: the group was held back, or never.
    let held_back = |policy: &str| -> u64 {
        let attacker = under(policy, &[]);
        let cgroups = format!("/proc/{}/cgroup", attacker.service().pid);
        let text = std::fs::read_to_string(cgroups).unwrap();
        let path = text
            .lines()
            .find_map(|l| {
                let mut f = l.splitn(3, ':').skip(1);
                let (names, path) = (f.next()?, f.next()?);
                (names.is_empty() || names.split(',').any(|n| n == "cpu"))
                    .then(|| path.to_owned())
                    .filter(|p| p.contains("/virtfun/"))
            })
            .unwrap();
        assert!(attacker.act(Mode::Spin, &[500, 2]).done());
        ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"]
            .iter()
            .find_map(|m| std::fs::read_to_string(format!("{m}{path}/cpu.stat")).ok())
            .unwrap()
            .lines()
            .find_map(|l| l.strip_prefix("nr_throttled ")?.parse().ok())
            .unwrap()
    };
    assert!(held_back("[default]\ncpu = \"20%\"\n") > 0);
    assert_eq!(held_back(""), 0);
}

#[test]
fn what_policy_requires_and_the_host_lacks_stops_the_start_by_name() {
    let mut stand = Stand::with(&["--without-layer", "landlock"]);
    std::fs::write(stand.root().join("admin/policy.toml"), "[jail]\nrequire = [\"landlock\"]\n")
        .unwrap();
    stand.kill_vfund();
    stand.start_vfund();
    let session = stand.connect("strict");
    let Err(e) = session.function("echo") else { panic!("it started") };
    let e = e.to_string();
    assert!(e.contains("'landlock'") && e.contains("--without-layer"), "{e}");
    assert!(matches!(stand.totals(), (_, _, _, 0)), "and nothing of it runs");
    // Without the demand it is merely said.
    std::fs::write(stand.root().join("admin/policy.toml"), "").unwrap();
    stand.kill_vfund();
    stand.start_vfund();
    assert_eq!(stand.connect("lenient").function("echo").unwrap().call(b"x").unwrap(), b"x");
    let _ = stand.ask(&Ask::Status);
}

#[test]
fn groups_of_services_go_with_them() {
    let groups = || -> Vec<_> {
        let mut found = vec![];
        let mut look = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
        while let Some(dir) = look.pop() {
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|t| t.is_dir()) {
                    if entry.file_name().to_string_lossy().starts_with("attack-") {
                        found.push(entry.path());
                    }
                    look.push(entry.path());
                }
            }
        }
        found
    };
    if !given(Layer::CgroupPids) {
        return;
    }
    let mut attacker = Attacker::jailed();
    let cgroup =
        std::fs::read_to_string(format!("/proc/{}/cgroup", attacker.service().pid)).unwrap();
    let own = cgroup.lines().find(|l| l.contains("/virtfun/")).unwrap();
    let own = own.rsplit(":/").next().unwrap().to_owned();
    let there = || groups().iter().any(|g| g.ends_with(&own));
    assert!(there());
    // A manager that is killed leaves them; the next one takes the service over,
    // and they end with it.
    attacker.stand.kill_vfund();
    attacker.stand.start_vfund();
    assert!(there());
    drop(attacker);
    assert!(!there());
}
