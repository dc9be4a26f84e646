//! What our NIC answers, compared with Soft-RoCE: the kernel's own RDMA device in software, in a guest that has
//! it (the kernel for clouds has not). One program asks both; what ours answers is a file, which a test on the
//! host compares with the NIC.

use vfun_testguest::GuestConfig;
use vfun_tests_local::rdma::{ANSWERS, CONFORMANCE, can_be_tried, compiled};
use vfun_tests_local::repo;
use vfun_tests_vm::{LONG, boot};

/// Set where the guest's kernel has the device (tests/rdma-conform.sh).
const KERNEL_HAS_IT: &str = "VFUN_RDMA_SOFT_ROCE";
/// What the device needs beside the program and its libraries: its driver in user space, and who asks for it.
const FILES: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so",
    "/etc/libibverbs.d/rxe.driver",
    "/usr/bin/rdma",
    "/usr/sbin/ip",
    "/usr/bin/ibv_devinfo",
    "/lib/x86_64-linux-gnu/libgcc_s.so.1",
];
/// A device over a pair of virtual Ethernet devices.
const BEGIN: &str = "/usr/sbin/ip link add v0 type veth peer name v1 && /usr/sbin/ip link set v0 up && /usr/sbin/ip link set v1 up \
    && /usr/sbin/ip addr add 10.9.0.1/24 dev v0 && rdma link add rxe0 type rxe netdev v0 \
    && /usr/sbin/ip link set v0 down && /usr/sbin/ip link set v0 up && /usr/sbin/ip addr add 10.9.0.2/24 dev v0 && ibv_devinfo -v";

/// Lines in which the two differ, each with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "wrong lkey",
        "a local protection error (InfiniBand 11.6.2), not one of the queue pair's operation",
    ),
    ("wrong lkey of the second element", "the same"),
    ("receive without local write", "the same at the receiver"),
    (
        "receive too short",
        "a local length error, and a remote invalid request (InfiniBand 9.9.3, class C)",
    ),
    (
        "flushed by the program",
        "what is posted to a queue pair in ERR is flushed; Soft-RoCE forgets it",
    ),
    ("atomic at a place of no word", "the responder refuses it; Soft-RoCE does when it is posted"),
    (
        "unreliable read",
        "an unreliable queue pair goes to SQE and still receives (InfiniBand 10.3.1.5)",
    ),
    (
        "datagram that fits without its header only",
        "a datagram that does not fit is lost, and its queue pair goes on",
    ),
];

fn name(line: &str) -> &str {
    line.split(':').next().unwrap_or_default()
}

#[test]
fn the_nic_answers_as_soft_roce_does() {
    if std::env::var_os(KERNEL_HAS_IT).is_none() || !can_be_tried() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let mut config = GuestConfig::new("soft-roce");
    (config.memory_mib, config.cpus) = (768, 2);
    config.modules.extend(["crc32_generic", "veth", "rdma_rxe", "ib_uverbs"].map(String::from));
    let program = compiled(CONFORMANCE, dir.path());
    config.files.push((program, "/usr/bin/conformance".into()));
    config.files.extend(FILES.map(|file| (file.into(), file.into())));
    let guest = boot(&config);
    let device = guest.run_ok(BEGIN, LONG).unwrap_or_else(|e| panic!("{e}"));
    assert!(device.contains("PORT_ACTIVE"), "{device}");
    let out = guest.run("conformance 1", LONG).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(out.status, 0, "{}", out.text());
    let theirs = out.text();
    let ours = std::fs::read_to_string(repo().join(ANSWERS)).expect("our answers");
    assert_eq!(
        theirs.lines().map(name).collect::<Vec<_>>(),
        ours.lines().map(name).collect::<Vec<_>>()
    );
    let mut wrong = String::new();
    for (their, our) in theirs.lines().zip(ours.lines()) {
        let known = DIFFERENT.iter().find(|(row, _)| *row == name(our));
        match (their == our, known) {
            (true, None) | (false, Some(_)) => {}
            (true, Some(_)) => wrong += &format!("no difference any more: {our}\n"),
            (false, None) => wrong += &format!("Soft-RoCE: {their}\nours:      {our}\n"),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
