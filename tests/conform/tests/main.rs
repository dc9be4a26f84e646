//! Transports that can be driven without a guest, through the whole suite.

use std::sync::atomic::AtomicBool;
use vfun_admin::Transport;
use vfun_tests_conform::here::{Here, host};
use vfun_tests_conform::{End, Place, Reports, declare, run};
use vfun_tests_local::vm::{device, pass_rings_on, qemu};
use vfun_tests_local::{Stand, Stop};

fn conform(stand: &mut Stand, transport: Transport, end: &dyn End, reports: Reports) {
    run(Place { stand, client: CLIENT.into(), transport, end, reports });
}

const CLIENT: &str = "tenant";

#[test]
fn host_conforms() {
    let mut stand = Stand::start();
    declare(&stand, CLIENT, Transport::Host);
    let end = host(stand.root(), CLIENT);
    let reports = Reports { kind: "host", wakes: "woken by a doorbell" };
    conform(&mut stand, Transport::Host, &end, reports);
}

/// Apps that find the window as a PCI device in this folder.
fn by_pci(folder: &std::path::Path) -> Here {
    Here {
        words: vec!["--pci".into(), folder.display().to_string()],
        variables: vec![("VFUN_ENDPOINT", "ivshmem".into())],
        ..Here::default()
    }
}

#[test]
fn ivshmem_doorbell_conforms() {
    let mut stand = Stand::start();
    declare(&stand, CLIENT, Transport::IvshmemDoorbell);
    let vm = qemu(&stand, CLIENT);
    let folder = tempfile::tempdir().unwrap();
    let rings = device(folder.path(), &vm.memory());
    let end = Here { memory: Some(vm.memory()), ..by_pci(folder.path()) };
    let reports = Reports { kind: "ivshmem", wakes: "rings, is not rung" };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| pass_rings_on(&rings, &vm.fds[1..9], &stop));
        conform(&mut stand, Transport::IvshmemDoorbell, &end, reports);
    });
}

#[test]
fn ivshmem_plain_conforms() {
    let mut stand = Stand::start();
    let row = declare(&stand, CLIENT, Transport::IvshmemPlain);
    let folder = tempfile::tempdir().unwrap();
    device(folder.path(), &row.window_file.unwrap());
    let reports = Reports { kind: "ivshmem", wakes: "no doorbell" };
    conform(&mut stand, Transport::IvshmemPlain, &by_pci(folder.path()), reports);
}

/// As in a container: apps see the client's folder alone, at another place, and nothing
/// of the manager's.
#[test]
fn dir_conforms_behind_a_bind_mount() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: nothing can be mounted here (it takes root)");
        return;
    }
    let mut stand = Stand::start();
    let row = declare(&stand, CLIENT, Transport::Dir);
    let file = row.window_file.unwrap();
    let source = file.parent().unwrap().display().to_string();
    let at = tempfile::tempdir_in("/tmp").unwrap();
    let at = at.path().display().to_string();
    let script =
        format!("mount --bind {source} {at} && mount -t tmpfs none /dev/shm && exec \"$@\"");
    let end = Here {
        prefix: ["unshare", "--mount", "--", "sh", "-c", &script, "sh"].map(String::from).into(),
        variables: vec![("VFUN_ENDPOINT", format!("dir:{at}"))],
        truncation: true,
        ..Here::default()
    };
    let reports = Reports { kind: "dir", wakes: "no doorbell" };
    conform(&mut stand, Transport::Dir, &end, reports);
    stand.ask(&vfun_admin::Ask::RemoveClient { name: CLIENT.into() });
    assert!(!file.parent().unwrap().exists(), "its folder is gone with it");
}
