//! RDMA in real guests: programs of Debian, of an ordinary user, in VMs that have no RDMA device.

use std::path::Path;
use vfun_admin::Reply;
use vfun_testguest::{Doorbell, Guest};
use vfun_tests_local::{Stand, programs, repo};
use vfun_tests_vm::module::{healthy, module_config};
use vfun_tests_vm::users::{as_user, load};
use vfun_tests_vm::{LONG, boot};

/// What is preloaded into programs, where a package puts it.
const LIBRARY: &str = "/usr/lib/virtfun/apis/verbs/libvfunverbs.so";
/// What runs in the guests, as Debian has it.
const PROGRAMS: [&str; 14] = [
    "ibv_devices",
    "ibv_devinfo",
    "ibv_rc_pingpong",
    "ibv_uc_pingpong",
    "ibv_ud_pingpong",
    "ibv_srq_pingpong",
    "ib_send_lat",
    "ib_send_bw",
    "ib_write_lat",
    "ib_write_bw",
    "ib_read_lat",
    "ib_read_bw",
    "ib_atomic_lat",
    "ib_atomic_bw",
];
/// Its address for the guest at the other end of the wire.
const NAMES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

fn stand() -> Stand {
    let folder = repo().join("services/verbsback/functions");
    Stand::with(&["--functions", folder.to_str().expect("utf-8")])
}

fn window(stand: &Stand, name: &str) -> Doorbell {
    let manifest = format!("name = \"{name}\"\nwindow = \"128 MiB\"\n");
    match stand.add_client(&manifest) {
        Ok(Reply::ClientAdded(row)) => Doorbell::new(row.socket.expect("a VM has a socket")),
        other => panic!("{other:?}"),
    }
}

/// A guest with the programs, and an end of a wire to another one.
fn guest(name: &str, window: Doorbell, wire: &Path, end: usize) -> Guest {
    let mut config = module_config(name, vec![window]);
    config.memory_mib = 512;
    config.modules.push("virtio_net".into());
    let path = |end: usize| wire.join(format!("end{end}")).display().to_string();
    config.extra_args.extend([
        "-netdev".into(),
        format!(
            "dgram,id=wire,local.type=unix,local.path={},remote.type=unix,remote.path={}",
            path(end),
            path(1 - end)
        ),
        "-device".into(),
        format!("virtio-net-pci,netdev=wire,mac=52:54:00:77:00:0{}", end + 1),
    ]);
    config.files.push((programs().join("libvfunverbs.so"), LIBRARY.into()));
    config
        .files
        .extend(PROGRAMS.map(|p| (format!("/usr/bin/{p}").into(), format!("/usr/bin/{p}"))));
    let guest = boot(&config);
    let net =
        format!("ip link set lo up; ip addr add {}/24 dev eth0; ip link set eth0 up", NAMES[end]);
    guest.run_ok(&format!("{}; {net}", load()), LONG).unwrap_or_else(|e| panic!("{e}"));
    guest
}

fn script(words: &str) -> String {
    as_user("app", &format!("ulimit -l unlimited; LD_PRELOAD={LIBRARY} {words} 2>&1"))
}

/// What a program of the user `app` prints; it must succeed.
fn said(stand: &Stand, guest: &Guest, words: &str) -> String {
    let out = guest.run(&script(words), LONG).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(out.status, 0, "{words}: {}\n{}", out.text(), stand.log());
    out.text()
}

#[test]
fn programs_for_rdma_run_in_a_guest_that_has_no_device() {
    let stand = stand();
    let wire = tempfile::tempdir().expect("a folder");
    let a = guest("verbs", window(&stand, "vm1"), wire.path(), 0);
    let listed = said(&stand, &a, "ibv_devinfo");
    assert!(listed.contains("vfun0") && listed.contains("PORT_ACTIVE"), "{listed}");
    for program in [
        "ibv_rc_pingpong -c",
        "ibv_rc_pingpong -e",
        "ibv_uc_pingpong",
        "ibv_ud_pingpong",
        "ibv_srq_pingpong -e",
        "ib_send_bw -n 200",
        "ib_write_bw -n 200",
        "ib_read_lat -n 200",
        "ib_atomic_lat -n 200",
    ] {
        let began = std::time::Instant::now();
        let server = format!("{} >/tmp/server.out 2>&1 &", script(program));
        let client = script(&format!("{program} 127.0.0.1"));
        let both = format!("{server} S=$!; sleep 1; {client}; R=$?; wait $S && exit $R");
        let out = a.run(&both, LONG).unwrap_or_else(|e| panic!("{e}"));
        let server = || a.run_ok("cat /tmp/server.out", LONG).unwrap_or_default();
        assert_eq!(
            out.status,
            0,
            "{program}: {}\nserver: {}\n{}",
            out.text(),
            server(),
            stand.log()
        );
        eprintln!("{program}: {} ms\n{}", began.elapsed().as_millis(), out.text());
    }
    healthy(&a);
}
